/* The card of the selected edge: the sentences that it comes from, drawn with their entities and relation. */

import { createHtml, formatCount, formatScore, parseDrawing } from "../../../web/shared/dom.js";
import { createCardHeader, createRelationLabel } from "../../../web/shared/lists.js";
import { createNodeButton, formatYears } from "./details.js";

/** Show an edge with the first page of its evidence. `onMore(offset)` returns the next page. */
export function showEvidence(container, found, { labels, onSelect, onMore, onCsv, onPage, onClose }) {
  const { edge, total } = found;
  const createEnd = (end) =>
    createNodeButton({ node: edge[end], name: edge[`${end}_name`], label: edge[`${end}_label`] }, labels, onSelect);
  const header = createCardHeader(
    onClose,
    createHtml("h3", { class: "triple" }, createEnd("head"), " ", createRelationLabel(edge.label, labels), " ",
      createEnd("tail")),
  );
  const facts = [
    formatCount(total, "sentence", "sentences"),
    `best score ${formatScore(edge.best_score)}`,
    `mean ${formatScore(edge.mean_score)}`,
    formatYears(edge),
  ];
  const csv = createHtml("button", { type: "button", class: "quiet-button", click: onCsv }, "CSV");
  const flag = edge.flag ? [createHtml("span", { class: "flag" }, edge.flag)] : [];
  const create = (row) => createSentence(row, onPage);
  const list = createHtml("ol", { class: "evidence" }, ...found.evidence.map(create));
  const more = createHtml("button", { type: "button", class: "action" });
  const update = () => {
    const left = total - list.children.length;
    more.hidden = left <= 0;
    more.textContent = `Show more (${left.toLocaleString("en")} left)`;
  };
  more.addEventListener("click", async () => {
    more.disabled = true;
    const next = await onMore(list.children.length);
    more.disabled = false;
    if (!next) return;
    list.append(...next.evidence.map(create));
    update();
  });
  update();
  const summary = createHtml("p", { class: "facts" }, facts.filter(Boolean).join(" · "), " ", ...flag, csv);
  container.replaceChildren(header, summary, list, more);
}

function createSentence(row, onPage) {
  const name = row.title || row.document_id || "Document";
  const more = [
    row.title ? row.document_id : "",
    row.date,
    `score ${formatScore(row.score)}`,
    `characters ${row.sentence_start}–${row.sentence_end}`,
  ];
  const model = `Model ${row.model ?? "unknown"}, cascade-srn ${row.version ?? "unknown"}`;
  return createHtml(
    "li",
    {},
    createDrawing(row),
    createHtml("p", { class: "source", title: model }, createHtml("bdi", {}, name),
      createHtml("span", { class: "help" }, ` ${more.filter(Boolean).join(" · ")}`)),
    ...(row.has_page ? [createPageButton(row, name, onPage)] : []),
  );
}

/** Create a button that shows the page of the PDF, or hides it again. */
function createPageButton(row, name, onPage) {
  const button = createHtml("button", { type: "button", class: "quiet-button", "aria-expanded": "false" }, "PDF page");
  const view = createHtml("div", { class: "pdf-page", hidden: true });
  button.addEventListener("click", async () => {
    if (!view.children.length) {
      button.disabled = true;
      const found = await onPage(row);
      button.disabled = false;
      if (!found) return;
      const marked = `the sentence, “${row.head_text}” in blue and “${row.tail_text}” in green`;
      const picture = createHtml("img", { src: found.address, alt: `Page ${found.number} of ${name} with ${marked}` });
      const mark = createHtml("span", { style: `top: ${100 * found.top}%` });
      view.append(picture, mark);
      button.textContent = `PDF page ${found.number}`;
      await picture.decode();
    }
    view.hidden = !view.hidden;
    button.setAttribute("aria-expanded", String(!view.hidden));
    if (!view.hidden) view.lastElementChild?.scrollIntoView({ block: "center" });
  });
  return createHtml("div", {}, button, view);
}

/** Insert the drawing of the server. Without one, show the two names. */
function createDrawing({ drawing, head_text: head, tail_text: tail, sentence_text: text }) {
  if (!drawing) return createHtml("p", { dir: "auto" }, text || `${head} … ${tail}`);
  return createHtml("div", { class: "drawing" }, ...parseDrawing(drawing));
}
