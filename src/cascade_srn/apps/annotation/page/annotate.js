/* The annotation page: loads the project, opens documents, saves changes, and connects the parts. */

import { byId, createHtml, formatCount, isNarrow } from "../../web/shared/dom.js";
import { askForKey, clearNotice, createAttempt, offerRetry, showBusy, showNotice } from "../../web/shared/notices.js";
import { addTabs } from "../../web/shared/tabs.js";
import { debounce } from "../../web/shared/timing.js";
import { createAgreementView } from "./agreement.js";
import { ADJUDICATED, Api } from "./api.js";
import { addDialogs, askName, showConflict } from "./dialogs.js";
import { Editor } from "./editor.js";
import { createExchangeView } from "./exchange.js";
import { addKeys } from "./keys.js";
import { Menu } from "./menu.js";
import { markInList, ProjectLabels, showGuidelines, showLabels, showList } from "./panels.js";
import { addPointer } from "./pointer.js";
import { Queue } from "./queue.js";
import { Saver } from "./saving.js";
import { Sheet } from "./sheet.js";
import { showSuggesting, showToolbar } from "./toolbar.js";
import { createTrainingView } from "./training.js";
import { Words } from "./words.js";

const VIEWS = ["annotate", "training", "agreement", "exchange"];
const NOTE_DELAY = 400;
const NAME_KEY = "cascade-srn-annotator";

const api = new Api({ onWait: () => showNotice("waiting", "The server is busy. Retrying.") });
const sheet = new Sheet(byId("sheet"));
const editor = new Editor({ onShow: show, onEdit: saveChange, announce });
const menu = new Menu(byId("menu"), sheet, editor);
const saver = new Saver({ put: (id, body) => api.save(id, body), onState: showSaved, onConflict: decideConflict });
const queue = new Queue({
  fetchPage: (query) => api.queue(query),
  onOpen: (id) => attempt(() => openDocument(id)),
  onError: (error) => showError(error, () => attempt(() => queue.reload())),
});

let project = null;
// The open document as the server sent it.
let opened = null;
let view = "annotate";
// What the sheet and the list show.
let shownItems = null;
// Number of the latest request for a document; older answers are ignored.
let nOpened = 0;

// Messages

/** Tell the user what has happened, in the status line or only to screen readers. */
function announce(text, { isProblem = false, isSpokenOnly = false } = {}) {
  byId("spoken").textContent = isSpokenOnly ? text : "";
  byId("status").textContent = isSpokenOnly ? linkHint() : text;
  byId("status").classList.toggle("problem", isProblem);
}

/** While a relation is made, its hint stays. */
function linkHint() {
  const { link } = editor;
  if (!link || link.tail) return "";
  return `Relation from “${editor.phrase(link.head)}”: choose the other entity. Escape cancels.`;
}

const attempt = createAttempt(showError);

function showError(error, onRetry) {
  if (error.status === 401) askForKey(api.service, onRetry);
  else if (error.status === undefined) throw error;
  else {
    const retry = () => {
      clearNotice();
      onRetry();
    };
    offerRetry(error.message, retry);
  }
}

function showSaved(state, error) {
  const texts = { saved: "Saved", saving: "Saving…", failed: "Not saved", conflict: "Not saved" };
  byId("saved").textContent = editor.isEmpty ? "" : texts[state];
  byId("saved").dataset.state = state;
  if (state === "saved") clearNotice();
  else if (state === "failed") {
    const isRefused = error.status >= 400 && error.status < 500 && error.status !== 401;
    const hint = isRefused ? " Undo the last change, or try again." : " Your changes are kept in this page.";
    showError(Object.assign(error, { message: `Not saved. ${error.message}${hint}` }), () => saver.retry());
  } else if (state === "conflict") {
    const compareVersions = () => decideConflict(saver.theirs);
    const message = "Not saved: this annotation was changed in another tab or by another person.";
    offerRetry(message, compareVersions, "Compare");
  }
}

// The open document

/** Show the state of the editor. */
function show() {
  const { items } = editor;
  if (items !== shownItems) {
    shownItems = items;
    sheet.show(editor.words, items, editor.labels);
    showList(editor, (key) => {
      editor.selectKey(key);
      sheet.reveal(editor.anchor);
      menu.open();
    });
    showToolbar(editor);
  } else markInList(editor.key);
  const [first, last] = editor.range ?? [];
  const key = editor.link?.tail ?? editor.key ?? undefined;
  const cursor = key ? undefined : (editor.cursor ?? undefined);
  sheet.select({ first, last, cursor, key, head: editor.link?.head });
  menu.update();
}

function saveChange() {
  const { content } = editor;
  const before = queue.items.find(({ id }) => id === opened.id)?.state;
  const nOpen = editor.showsOpen ? editor.openItems() : { entities: [], relations: [] };
  queue.update(opened.id, {
    state: content.state,
    n_entities: content.entities.length,
    n_relations: content.relations.length,
    n_suggestions: nOpen.entities.length + nOpen.relations.length,
  });
  if (before && (before === "done") !== (content.state === "done")) {
    project.n_done += content.state === "done" ? 1 : -1;
    showProgress();
  }
  saver.save(content);
}

/** Open a document, after the changes to the present one are saved. */
async function openDocument(id, { takesFocus = true, isStep = true } = {}) {
  saveNote.now();
  if (!(await saver.flush())) return announce("Save the changes to this document first.", { isProblem: true });
  nOpened += 1;
  const own = nOpened;
  showBusy(true);
  const found = await api.document(id);
  if (own !== nOpened) return undefined;
  load(found);
  showBusy(false);
  clearNotice();
  setAddress({ isStep });
  byId("scroller").scrollTop = 0;
  if (takesFocus && view === "annotate") byId("sheet").focus({ preventScroll: true });
  return announce("");
}

function load(found) {
  opened = found;
  const { version, ...content } = found.annotation;
  menu.close();
  editor.load({ words: new Words(found), content, suggestions: found.suggestions });
  saver.open(found.id, version);
  byId("note").value = content.note;
  byId("document-title").textContent = found.id;
  awaitSuggestions(found.id);
  byId("sheet").hidden = false;
  byId("empty").hidden = true;
  queue.setCurrent(found.id);
}

/** Get the suggestions of a new model for the open document. */
async function refreshSuggestions() {
  await queue.reload();
  if (!opened) return;
  const { id } = opened;
  const found = await api.document(id);
  if (opened.id === id) editor.setSuggestions(found.suggestions);
}

/** Ask again for the suggestions of a document if the model has not come to it yet. */
function awaitSuggestions(id, delay = 2000) {
  const hasNone = () => opened?.id === id && !editor.suggestions.entities.length;
  if (!project.has_model || !hasNone() || delay > 60_000) return;
  setTimeout(async () => {
    if (!hasNone()) return;
    const found = await api.document(id).catch(() => null);
    if (found?.suggestions.entities.length && hasNone()) editor.setSuggestions(found.suggestions);
    else awaitSuggestions(id, 2 * delay);
  }, delay);
}

async function go(by, isWanted) {
  const id = await queue.neighbour(by, isWanted);
  if (id !== null) return openDocument(id);
  if (!isWanted) return announce(`This is the ${by > 0 ? "last" : "first"} document of the list.`);
  // Around at the end of the list.
  const earlier = queue.items.find(isWanted);
  return earlier ? openDocument(earlier.id) : announce("All documents of the list are done.");
}

const isNotDone = ({ state }) => state !== "done";

function finish(change) {
  if (editor.isEmpty) return;
  change();
  attempt(() => go(1, isNotDone));
}

const actions = {
  next: () => attempt(() => go(1)),
  previous: () => attempt(() => go(-1)),
  done: () => finish(() => editor.setDone(true)),
  nothing: () => finish(() => editor.setNothing()),
  search: () => {
    byId("queue-box").open = true;
    byId("search").focus();
  },
  note: () => {
    showPanel(byId("tab-note"));
    byId("note").focus();
  },
  toggleOpen: () => byId("show-open").click(),
  help: () => byId("keys-dialog").showModal(),
};

// Conflicts

function decideConflict(theirs) {
  showConflict({ mine: editor.content, theirs, words: editor.words, labels: editor.labels }, {
    onTheirs: () => load({ ...opened, annotation: theirs }),
    onMine: () => saver.keepMine(),
  });
}

// Notes

let isTyping = false;
const saveNote = debounce(() => {
  if (editor.isEmpty || byId("note").value === editor.content.note) return;
  editor.setNote(byId("note").value, { merges: isTyping });
  isTyping = true;
}, NOTE_DELAY);
byId("note").addEventListener("input", saveNote);
byId("note").addEventListener("blur", () => {
  saveNote.now();
  isTyping = false;
});

// Views

const showPanel = addTabs(byId("panels-list"), () => {});
const showTab = addTabs(byId("views-list"), (panel) => showView(panel.replace("view-", ""), { isStep: true }));
const context = { api, attempt, project: () => project, labels: () => editor.labels, openDecision };
const views = {
  training: createTrainingView(byId("view-training"), {
    ...context,
    onStatus: ({ state, epoch, n_epochs: nEpochs }) => {
      const share = nEpochs ? ` ${Math.round((100 * epoch) / nEpochs)} %` : " …";
      byId("tab-training").textContent = state === "running" ? `Training${share}` : "Training";
    },
    onTrained: () => attempt(async () => {
      project.has_model = true;
      await refreshSuggestions();
    }),
  }),
  agreement: createAgreementView(byId("view-agreement"), context),
  exchange: createExchangeView(byId("view-exchange"), { ...context, onImported: () => attempt(reload) }),
};

function showView(name, { isStep = false } = {}) {
  const isNew = name !== view;
  view = name;
  menu.close();
  if (isNew && isStep) setAddress({ isStep });
  if (name !== "annotate" && project) attempt(() => loadView(name));
}

/** Show a view with the present numbers and names. */
async function loadView(name) {
  project = await api.project();
  showProgress();
  await views[name].show();
}

function setAddress({ isStep }) {
  const fragment = new URLSearchParams();
  if (opened) fragment.set("document", opened.id);
  if (view !== "annotate") fragment.set("view", view);
  const address = fragment.size ? `#${fragment}` : location.pathname + location.search;
  if (location.hash === address) return;
  if (isStep) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
}

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  return { id: given.get("document"), name: VIEWS.includes(given.get("view")) ? given.get("view") : "annotate" };
}

window.addEventListener("popstate", () => {
  const { id, name } = readAddress();
  if (name !== view) showTab(byId(`tab-${name}`));
  if (id && id !== opened?.id) attempt(() => openDocument(id, { isStep: false }));
});

// The project

function showProgress() {
  const { n_done: nDone, n_documents: nDocuments } = project;
  byId("n-done").textContent = `${nDone.toLocaleString("en")} of ${nDocuments.toLocaleString("en")} done`;
}

function showProject() {
  const { name, schema, guidelines, n_documents: nDocuments, n_sentences: nSentences } = project;
  document.title = `${name}: annotate`;
  byId("project-name").textContent = name;
  byId("project-size").textContent =
    `${formatCount(nDocuments, "document", "documents")}, ${formatCount(nSentences, "sentence", "sentences")}`;
  editor.labels = new ProjectLabels(schema);
  showLabels(editor.labels, schema);
  showGuidelines(guidelines);
  showProgress();
}

/** Load the project and the queue, and open the document of the address, or else the first one that is not done. */
async function reload() {
  showBusy(true);
  if (!api.annotator && localStorage.getItem(NAME_KEY)) setName(localStorage.getItem(NAME_KEY));
  project = await api.project();
  if (!api.annotator) {
    await chooseName();
    project = await api.project();
  }
  showProject();
  await queue.reload();
  const { id, name } = readAddress();
  const first = queue.items.find(isNotDone) ?? queue.items[0];
  const wanted = opened?.id ?? id ?? first?.id;
  if (wanted) await openDocument(wanted, { takesFocus: false, isStep: false });
  else showEmpty();
  if (name !== view) showTab(byId(`tab-${name}`));
  else if (name !== "annotate") await loadView(name);
  showBusy(false);
  if (project.training.state === "running") attempt(() => views.training.show());
}

function showEmpty() {
  const help = "This project has no documents yet. Import some in the view Export.";
  byId("empty").replaceChildren(createHtml("p", {}, help));
  byId("empty").hidden = false;
  byId("sheet").hidden = true;
}

function setName(name) {
  api.annotator = name;
  byId("annotator").replaceChildren(createHtml("bdi", {}, name));
}

async function chooseName(present = "") {
  const name = await askName(project.annotators.filter((one) => one !== ADJUDICATED), present);
  localStorage.setItem(NAME_KEY, name);
  setName(name);
}

/** Open a document to decide about it by hand, until the name is changed again. */
async function openDecision(id) {
  if (!(await saver.flush())) return;
  api.decider = api.annotator;
  setName(ADJUDICATED);
  showTab(byId("tab-annotate"));
  await queue.reload();
  await openDocument(id);
  announce(`You decide as “${ADJUDICATED}”. Click this name to annotate as yourself again.`);
}

byId("annotator").addEventListener("click", () =>
  attempt(async () => {
    saveNote.now();
    if (!(await saver.flush())) return announce("Save the changes to this document first.", { isProblem: true });
    const before = api.annotator;
    await chooseName(before === ADJUDICATED ? api.decider : before);
    return api.annotator === before ? undefined : reload();
  }),
);

// Buttons and keys

/** Add a button. After a click with the mouse, the keys act on the text again. */
function onClick(id, action) {
  byId(id).addEventListener("click", (event) => {
    action();
    if (event.detail > 0 && !document.querySelector("dialog[open]")) byId("sheet").focus({ preventScroll: true });
  });
}

onClick("previous", actions.previous);
onClick("next", actions.next);
onClick("undo", () => editor.undo());
onClick("redo", () => editor.redo());
onClick("nothing", actions.nothing);
onClick("done", () => (editor.content?.state === "done" ? editor.setDone(false) : actions.done()));
onClick("accept-all", () => editor.acceptAll());
onClick("reject-all", () => editor.rejectAll());
onClick("accept-above", () => editor.acceptAll(Number(byId("min-score").value)));
onClick("show-keys", actions.help);
byId("min-score").addEventListener("input", () => showSuggesting(editor));
byId("show-open").addEventListener("change", ({ target }) => editor.showOpen(target.checked));
byId("scroller").addEventListener("scroll", () => menu.place(), { passive: true });
window.addEventListener("scroll", () => menu.place(), { passive: true });
window.addEventListener("beforeunload", (event) => {
  saveNote.now();
  if (!saver.isSaved) event.preventDefault();
});
// On a small screen, the list of documents would push the text out of sight.
byId("queue-box").open = !isNarrow();
const { usesLetters } = addDialogs();
addPointer(sheet, editor, () => menu.open());
addKeys({ sheet, editor, menu, actions, usesLetters, isActive: () => view === "annotate" });

attempt(reload);
