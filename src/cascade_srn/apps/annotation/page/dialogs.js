/* Dialogs: the name of the annotator, the keys, and a conflict between two versions of an annotation. */

import { byId, createHtml, formatCount } from "../../web/shared/dom.js";
import { ADJUDICATED } from "./api.js";
import { entityKey, relationKey } from "./content.js";
import { KEYS } from "./keys.js";
import { createItem } from "./parts.js";

const LETTERS_KEY = "cascade-srn-single-letters";

/** Set up the dialogs. Returns {usesLetters}. */
export function addDialogs() {
  byId("keys-table").replaceChildren(
    ...KEYS.map(([name, rows]) =>
      createHtml(
        "section",
        {},
        createHtml("h3", {}, name),
        createHtml("dl", {}, ...rows.map(([keys, meaning]) =>
          createHtml("div", {}, createHtml("dt", {}, ...keys.map(createKey)), createHtml("dd", {}, meaning)))),
      ),
    ),
  );
  byId("close-keys").addEventListener("click", () => byId("keys-dialog").close());
  const letters = byId("use-letters");
  letters.checked = localStorage.getItem(LETTERS_KEY) !== "no";
  letters.addEventListener("change", () => localStorage.setItem(LETTERS_KEY, letters.checked ? "yes" : "no"));
  return { usesLetters: () => letters.checked };
}

const createKey = (key) => (key === "–" ? createHtml("span", {}, "–") : createHtml("kbd", {}, key));

/** Ask for the name of the annotator. With a present name, the dialog can be closed without a change. */
export function askName(known, present = "") {
  const [dialog, form, field] = [byId("name-dialog"), byId("name-form"), byId("name")];
  byId("names").replaceChildren(...known.map((value) => createHtml("option", { value })));
  field.value = present;
  byId("name-error").hidden = true;
  const open = () => {
    dialog.showModal();
    field.select();
  };
  return new Promise((resolve) => {
    let name = present;
    form.onsubmit = (event) => {
      event.preventDefault();
      const given = field.value.trim();
      byId("name-error").hidden = given !== ADJUDICATED;
      byId("name-error").textContent = `The name “${ADJUDICATED}” is kept for decisions. Use another one.`;
      if (!given || given === ADJUDICATED) return;
      name = given;
      dialog.close();
    };
    // Escape closes the dialog. Without a name, it opens again.
    dialog.onclose = () => (name ? resolve(name) : open());
    open();
  });
}

/** Show two versions of an annotation side by side, and let the user choose. Escape puts the decision off. */
export function showConflict({ mine, theirs, words, labels }, { onMine, onTheirs }) {
  const dialog = byId("conflict-dialog");
  const [own, other] = [mine, theirs].map((content) => describeContent(content, words, labels));
  byId("conflict-text").textContent =
    "This annotation was changed in another tab or by another person with your name. What differs:";
  byId("conflict-sides").replaceChildren(
    createSide("Yours", mine, differing(own, other)),
    createSide("Theirs", theirs, differing(other, own)),
  );
  byId("keep-mine").onclick = () => {
    dialog.close();
    onMine();
  };
  byId("load-theirs").onclick = () => {
    dialog.close();
    onTheirs();
  };
  if (!dialog.open) dialog.showModal();
}

const differing = (items, others) => items.filter(({ key }) => !others.some((other) => other.key === key));

/** Return the entities, relations, state and note of an annotation as {key, css, label, text}. */
function describeContent({ entities, relations, state, note }, words, labels) {
  const byEntity = new Map(entities.map((entity) => [entity.id, entity]));
  const ends = ({ head, tail }) => [byEntity.get(head), byEntity.get(tail)];
  return [
    ...entities.map((entity) => ({
      key: entityKey(entity),
      css: labels.entityClass(entity.label),
      label: entity.label,
      text: words.phrase(entity),
    })),
    ...relations.map((relation) => {
      const [head, tail] = ends(relation);
      return {
        key: relationKey(head, relation.label, tail),
        css: labels.relationClass(relation.label),
        label: relation.label,
        text: `${words.phrase(head)} ${labels.arrow(relation.label)} ${words.phrase(tail)}`,
      };
    }),
    { key: `state ${state}`, css: "", label: "state", text: state },
    ...(note ? [{ key: `note ${note}`, css: "", label: "note", text: note }] : []),
  ];
}

function createSide(title, { entities, relations }, items) {
  const nEntities = formatCount(entities.length, "entity", "entities");
  const counts = `${nEntities}, ${formatCount(relations.length, "relation", "relations")}`;
  const rows = items.map(({ css, label, text }) => createItem("li", css, text, label));
  const nothing = createHtml("li", { class: "help" }, "Nothing else.");
  return createHtml(
    "section",
    {},
    createHtml("h3", {}, title, " ", createHtml("span", { class: "number" }, counts)),
    createHtml("ul", { class: "items drawing" }, ...(rows.length ? rows : [nothing])),
  );
}
