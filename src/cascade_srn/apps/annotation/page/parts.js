/* Parts of the views: shares, tables of numbers, and entities and relations as items of a list. */

import { createHtml } from "../../web/shared/dom.js";
import { createTable } from "../../web/shared/lists.js";

/** Return a share as a percentage; a dash if there is none. */
export const formatShare = (value) => (value === null || value === undefined ? "–" : (100 * value).toFixed(1));

/** Create a table of numbers. Rows are lists of texts; `hasNames`: the first cell of a row is its heading. */
export function createNumbers(caption, headings, rows, { hasNames = false } = {}) {
  const createCell = (text, at) =>
    hasNames && at === 0 ? createHtml("th", { scope: "row" }, text) : createHtml("td", {}, text);
  const elements = rows.map((row) => createHtml("tr", {}, ...row.map(createCell)));
  return createHtml("div", { class: "table-box" }, createTable("listing numbers-table", caption, headings, elements));
}

/** Create an item with the words and the label of an entity or relation. */
export function createItem(name, css, text, label, ...children) {
  const phrase = createHtml("bdi", { class: "phrase" }, text);
  return createHtml(name, { class: `item ${css}` }, phrase, createHtml("span", { class: "label" }, label), ...children);
}
