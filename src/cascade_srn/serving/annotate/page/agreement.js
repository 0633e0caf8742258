/* Agreement of two annotators: scores, the documents in which they differ, and adjudication. */

import { ADJUDICATED } from "./api.js";
import { entityKey, relationKey } from "./content.js";
import { createHtml, formatCount } from "./dom.js";
import { Sheet } from "./sheet.js";
import { mergeSuggestions } from "./suggestions.js";
import { Words } from "./words.js";

const NO_SUGGESTIONS = { entities: [], relations: [] };

/** Set up the view. */
export function createAgreementView(container, { api, attempt, project, labels, openDecision }) {
  const [first, second] = ["first", "second"].map((name) => createHtml("select", { id: `annotator-${name}`, "aria-label": `${name} annotator` }));
  const result = createHtml("div", { id: "agreement" });
  const form = createHtml("div", { class: "form-row" }, first, createHtml("span", {}, "and"), second);
  container.replaceChildren(createHtml("h2", {}, "Agreement of two annotators"), form, result);

  async function compare() {
    if (!first.value || !second.value || first.value === second.value) {
      const text = "Two people have to annotate the same documents. Each of them opens this page under an own name.";
      result.replaceChildren(createHtml("p", { class: "nothing" }, text));
      return;
    }
    const [one, other] = [first.value, second.value];
    const found = await api.agreement(one, other);
    if (first.value !== one || second.value !== other) return;
    const onOpen = (id) => attempt(() => openCase(id));
    result.replaceChildren(createScores(found), ...createDisagreements(found, { names: [one, other], labels: labels(), onOpen }));
  }

  async function openCase(id) {
    const names = [first.value, second.value];
    const [one, other, decided] = await Promise.all([...names, ADJUDICATED].map((annotator) => api.document(id, { annotator })));
    const onSave = (content) => attempt(async () => {
      await api.adjudicate(id, { version: decided.annotation.version, ...content });
      await compare();
    });
    const actions = { onSave, onBack: () => attempt(compare), onEdit: () => attempt(() => openDecision(id)) };
    showCase(result, { names, documents: [one, other], decided: decided.annotation, labels: labels() }, actions);
  }

  for (const select of [first, second]) select.addEventListener("change", () => attempt(compare));
  return {
    async show() {
      const names = project().annotators.filter((name) => name !== ADJUDICATED);
      fillSelect(first, names, 0);
      fillSelect(second, names, 1);
      await compare();
    },
  };
}

function fillSelect(select, names, fallback) {
  const { value } = select;
  select.replaceChildren(...names.map((name) => createHtml("option", { value: name }, name)));
  select.value = names.includes(value) ? value : (names[fallback] ?? names[0] ?? "");
}

const formatShare = (value) => (value === null || value === undefined ? "–" : (100 * value).toFixed(1));

function createScores({ entities, relations, kappa, n_documents: n }) {
  const row = (name, { f1, precision, recall, n: count }) =>
    createHtml("tr", {}, createHtml("th", { scope: "row" }, name),
      ...[f1, precision, recall].map((value) => createHtml("td", {}, formatShare(value))), createHtml("td", {}, String(count ?? "")));
  const headings = ["", "F1", "Precision", "Recall", "Number"];
  const kappaText = kappa === null || kappa === undefined
    ? "Kappa does not apply here."
    : `Cohen's kappa of the labels of words: ${kappa.toFixed(2)}.`;
  return createHtml(
    "div",
    {},
    createHtml("table", { class: "listing numbers-table" },
      createHtml("caption", { class: "visually-hidden" }, "Agreement"),
      createHtml("thead", {}, createHtml("tr", {}, ...headings.map((name) => createHtml("th", { scope: "col" }, name)))),
      createHtml("tbody", {}, row("Entities", entities), row("Relations", relations))),
    createHtml("p", { class: "help" },
      `${formatCount(n, "document", "documents")} annotated by both. Precision and recall take the first annotator as the reference. ${kappaText}`),
  );
}

function createDisagreements({ disagreements }, { names, labels, onOpen }) {
  if (!disagreements.length) return [createHtml("p", { class: "nothing" }, "There are no disagreements.")];
  const byDocument = Map.groupBy(disagreements, ({ document }) => document);
  const rows = Array.from(byDocument, ([id, items]) =>
    createHtml(
      "li",
      { class: "case" },
      createHtml("div", { class: "title-row" },
        createHtml("h4", {}, createHtml("bdi", {}, id)),
        createHtml("span", { class: "number" }, formatCount(items.length, "difference", "differences")),
        createHtml("button", { type: "button", class: "action", "data-document": id, click: () => onOpen(id) }, "Decide")),
      createHtml("ul", { class: "differences drawing" }, ...items.map((item) => createDifference(item, names, labels))),
    ),
  );
  return [createHtml("h3", {}, `Disagreements in ${formatCount(rows.length, "document", "documents")}`), createHtml("ul", { class: "cases" }, ...rows)];
}

/** Describe what both have: text and label, or nothing. */
function createDifference({ kind, first, second }, names, labels) {
  const describe = (one) => {
    if (!one) return createHtml("span", { class: "help" }, "–");
    const isRelation = kind === "relation";
    const css = isRelation ? labels.relationClass(one.label) : labels.entityClass(one.label);
    const arrow = labels.isDirected(one.label) ? "→" : "↔";
    const text = isRelation ? `${one.head.text} ${arrow} ${one.tail.text}` : one.text;
    return createHtml("span", { class: `item ${css}` }, createHtml("bdi", { class: "phrase" }, text),
      createHtml("span", { class: "label" }, one.label));
  };
  return createHtml("li", {},
    ...[first, second].map((one, at) => createHtml("span", { class: "side-of" }, createHtml("span", { class: "help" }, `${names[at]} `), describe(one))));
}

/** Show both versions of a document and let the user choose what to keep. */
function showCase(container, { names, documents, decided, labels }, { onSave, onBack, onEdit }) {
  const words = new Words(documents[0]);
  const union = unite(documents.map(({ annotation }) => annotation));
  const disputed = [...union.entities, ...union.relations].filter(({ owners }) => owners.length < 2);
  const chosen = new Set([...union.entities, ...union.relations].filter(({ owners }) => owners.length === 2).map(({ key }) => key));
  const preview = createHtml("div", { class: "sheet drawing" });
  const sheet = new Sheet(preview);
  const show = () => sheet.show(words, mergeSuggestions(toContent(union, chosen), NO_SUGGESTIONS, labels), labels);
  const boxes = new Map();
  const refresh = () => {
    for (const [key, box] of boxes) box.checked = chosen.has(key);
    show();
  };
  const choose = (item, isKept) => {
    if (isKept) for (const key of [item.key, ...(item.ends ?? [])]) chosen.add(key);
    else {
      chosen.delete(item.key);
      // A relation needs its entities.
      for (const relation of union.relations) if (relation.ends.includes(item.key)) chosen.delete(relation.key);
    }
    refresh();
  };
  const rows = disputed.map((item) => {
    const box = createHtml("input", { type: "checkbox", change: ({ target }) => choose(item, target.checked) });
    boxes.set(item.key, box);
    const css = item.ends ? labels.relationClass(item.label) : labels.entityClass(item.label);
    return createHtml("li", {}, createHtml("label", { class: "check" }, box,
      createHtml("span", { class: `item ${css}` }, createHtml("bdi", { class: "phrase" }, describeItem(item, words, labels)),
        createHtml("span", { class: "label" }, item.label), createHtml("span", { class: "help" }, ` ${names[item.owners[0]]}`))));
  });
  const takeAll = (owner) => () => {
    for (const item of [...union.entities, ...union.relations]) {
      if (item.owners.includes(owner)) chosen.add(item.key);
      else chosen.delete(item.key);
    }
    refresh();
  };
  const button = (text, click, css = "action") => createHtml("button", { type: "button", class: css, click }, text);
  container.replaceChildren(
    createHtml("div", { class: "title-row" }, createHtml("h3", {}, createHtml("bdi", {}, documents[0].id)), button("Back", onBack, "quiet-button")),
    createHtml("div", { class: "sides" }, ...documents.map((document, at) => createVersion(names[at], document, words, labels, takeAll(at)))),
    createHtml("h4", {}, "What they do not agree on: tick what is right"),
    createHtml("ul", { class: "items drawing disputed" }, ...(rows.length ? rows : [createHtml("li", { class: "help" }, "Nothing.")])),
    createHtml("h4", {}, "Decision"),
    preview,
    createHtml("p", { class: "help" }, decided.version
      ? `This document was adjudicated before; saving replaces that decision.`
      : "The decision is saved under the name “adjudicated”."),
    createHtml("div", { class: "buttons" }, button("Edit by hand", onEdit), button("Save decision", () => onSave(toContent(union, chosen)), "action primary")),
  );
  refresh();
}

function createVersion(name, document, words, labels, onTake) {
  const preview = createHtml("div", { class: "sheet drawing" });
  // The width is known only when the element is on the page; the sheet waits for it.
  new Sheet(preview).show(words, mergeSuggestions(document.annotation, NO_SUGGESTIONS, labels), labels);
  return createHtml("section", {},
    createHtml("div", { class: "title-row" }, createHtml("h4", {}, createHtml("bdi", {}, name)),
      createHtml("button", { type: "button", class: "quiet-button", click: onTake }, "Take this version")),
    preview);
}

function describeItem(item, words, labels) {
  if (!item.ends) return words.phrase(item);
  return `${words.phrase(item.head)} ${labels.isDirected(item.label) ? "→" : "↔"} ${words.phrase(item.tail)}`;
}

/** Return all entities and relations of two annotations with the positions of their owners. */
function unite(annotations) {
  const [entities, relations] = [new Map(), new Map()];
  const add = (items, key, item, owner) => {
    if (!items.has(key)) items.set(key, { ...item, key, owners: [] });
    items.get(key).owners.push(owner);
  };
  annotations.forEach((annotation, owner) => {
    const byId = new Map(annotation.entities.map((entity) => [entity.id, entity]));
    for (const { start, end, label } of annotation.entities) add(entities, entityKey({ start, end, label }), { start, end, label }, owner);
    for (const { head, tail, label } of annotation.relations) {
      const [one, other] = [byId.get(head), byId.get(tail)];
      const ends = [entityKey(one), entityKey(other)];
      add(relations, relationKey(one, label, other), { head: one, tail: other, label, ends }, owner);
    }
  });
  return { entities: Array.from(entities.values()), relations: Array.from(relations.values()) };
}

function toContent(union, chosen) {
  const kept = union.entities.filter(({ key }) => chosen.has(key));
  const ids = new Map(kept.map(({ key }, position) => [key, `e${position + 1}`]));
  const entities = kept.map(({ key, start, end, label }) => ({ id: ids.get(key), start, end, label, origin: "person" }));
  const relations = union.relations
    .filter(({ key, ends }) => chosen.has(key) && ends.every((end) => ids.has(end)))
    .map(({ ends, label }, position) => ({ id: `r${position + 1}`, head: ids.get(ends[0]), tail: ids.get(ends[1]), label, origin: "person" }));
  return { state: "done", note: "", entities, relations, rejected: [] };
}
