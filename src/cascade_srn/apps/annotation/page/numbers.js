/* Numbers and tables of the views. */

import { createHtml } from "../../web/shared/dom.js";

/** Return a share as a percentage; a dash if there is none. */
export const formatShare = (value) => (value === null || value === undefined ? "–" : (100 * value).toFixed(1));

/** Create a table of numbers. Rows are lists of texts; `hasNames`: the first cell of a row is its heading. */
export function createTable(caption, headings, rows, { hasNames = false } = {}) {
  const createCell = (text, at) =>
    hasNames && at === 0 ? createHtml("th", { scope: "row" }, text) : createHtml("td", {}, text);
  const cells = headings.map((heading) => createHtml("th", { scope: "col" }, heading));
  const table = createHtml(
    "table",
    { class: "listing numbers-table" },
    createHtml("caption", { class: "visually-hidden" }, caption),
    createHtml("thead", {}, createHtml("tr", {}, ...cells)),
    createHtml("tbody", {}, ...rows.map((row) => createHtml("tr", {}, ...row.map(createCell)))),
  );
  return createHtml("div", { class: "table-box" }, table);
}
