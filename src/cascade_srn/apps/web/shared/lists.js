/* Buttons of entities, labels of relations, and tables of both. */

import { createHtml } from "./dom.js";

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

/** Show a table with column headings, or a text if it has no rows. */
export function showTable(container, caption, headings, rows, emptyText) {
  if (!rows.length) return container.replaceChildren(createHtml("p", { class: "nothing" }, emptyText));
  const cells = headings.map((heading) => createHtml("th", { scope: "col" }, heading));
  return container.replaceChildren(
    createHtml(
      "table",
      { class: "drawing listing" },
      createHtml("caption", { class: "visually-hidden" }, caption),
      createHtml("thead", {}, createHtml("tr", {}, ...cells)),
      createHtml("tbody", {}, ...rows),
    ),
  );
}
