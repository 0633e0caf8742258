/* Tables of the triples and entities of a document. Entity names are buttons that select the entity. */

import { entityKey, resolveTriples } from "./annotations.js";
import { createHtml, formatCount, formatScore } from "./dom.js";

/** Create a button with the name of an entity that selects it. */
export function createEntityButton({ text, label, key }, labels, onSelect, selected = null) {
  const pressed = String(key === selected);
  const attributes = { type: "button", class: `entity ${labels.entityClass(label)}`, "aria-pressed": pressed };
  const type = createHtml("span", { class: "type" }, label);
  return createHtml("button", { ...attributes, click: () => onSelect(key) }, createHtml("bdi", {}, text), " ", type);
}

/** Create the label of a relation with an arrow. */
export function createRelationLabel(label, labels) {
  const directed = labels.isDirected(label);
  return createHtml(
    "span",
    { class: `relation ${labels.relationClass(label)}${directed ? "" : " both"}` },
    createHtml("span", {}, label),
    createHtml("span", { class: "visually-hidden" }, directed ? " of" : " with"),
  );
}

/** Show the relations of a document in text order. */
export function showTriples(container, document, { labels, selected, onSelect }) {
  const createButton = (entity) =>
    createEntityButton({ ...entity, key: entityKey(entity) }, labels, onSelect, selected);
  const rows = resolveTriples(document).map(({ head, label, tail, score }) => {
    const faded = selected !== null && entityKey(head) !== selected && entityKey(tail) !== selected;
    return createHtml(
      "tr",
      { class: faded ? "faded" : null },
      createHtml("td", {}, createButton(head)),
      createHtml("td", {}, createRelationLabel(label, labels)),
      createHtml("td", {}, createButton(tail)),
      createScoreCell(score),
    );
  });
  const caption = formatCount(rows.length, "triple", "triples");
  showTable(container, "triples", caption, ["Subject", "Relation", "Object", "Score"], rows, "No relations to show.");
}

/** Show the entities of a document with their numbers of mentions and relations. */
export function showEntities(container, concepts, { labels, selected, onSelect }) {
  const rows = concepts.map((concept) =>
    createHtml(
      "tr",
      {},
      createHtml("td", {}, createEntityButton(concept, labels, onSelect, selected)),
      createHtml("td", { class: "amount" }, formatCount(concept.mentions.length, "mention", "mentions")),
      createHtml("td", { class: "amount" }, formatCount(concept.relations.length, "relation", "relations")),
      createScoreCell(concept.score),
    ),
  );
  const caption = formatCount(rows.length, "entity", "entities");
  showTable(container, "entities", caption, ["Entity", "Mentions", "Relations", "Score"], rows, "No entities to show.");
}

function createScoreCell(score) {
  const level = createHtml("span", { class: "level", "aria-hidden": "true" });
  level.style.setProperty("--level", score ?? 0);
  return createHtml("td", { class: "score" }, level, formatScore(score));
}

function showTable(container, name, caption, headings, rows, emptyText) {
  if (!rows.length) return container.replaceChildren(createHtml("p", { class: "nothing" }, emptyText));
  const cells = headings.map((heading) => createHtml("th", { scope: "col" }, heading));
  return container.replaceChildren(
    createHtml(
      "table",
      { class: `drawing listing ${name}` },
      createHtml("caption", { class: "visually-hidden" }, caption),
      createHtml("thead", {}, createHtml("tr", {}, ...cells)),
      createHtml("tbody", {}, ...rows),
    ),
  );
}
