/* Buttons of entities, labels of relations, tables of both, and headers of cards. */

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

/** Create a bar that shows a share. */
export function createLevel(share) {
  const level = createHtml("span", { class: "level", "aria-hidden": "true" });
  level.style.setProperty("--level", String(share));
  return level;
}

/** Create the header of a card with a close button. */
export function createCardHeader(onClose, ...children) {
  const close = createHtml("button", { type: "button", class: "close", "aria-label": "Close", click: onClose }, "×");
  return createHtml("header", { class: "drawing" }, ...children, close);
}

/** Show a table with column headings, or a text if it has no rows. */
export function showTable(container, caption, headings, rows, emptyText) {
  const nothing = createHtml("p", { class: "nothing" }, emptyText);
  container.replaceChildren(rows.length ? createTable("drawing listing", caption, headings, rows) : nothing);
}

/** Create a table from its rows, which are elements. */
export function createTable(css, caption, headings, rows) {
  const cells = headings.map((heading) => createHtml("th", { scope: "col" }, heading));
  return createHtml(
    "table",
    { class: css },
    createHtml("caption", { class: "visually-hidden" }, caption),
    createHtml("thead", {}, createHtml("tr", {}, ...cells)),
    createHtml("tbody", {}, ...rows),
  );
}
