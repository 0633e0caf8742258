/* The tables: the edges of the view, and rankings. */

import { byId, createHtml, fillSelect, formatCount, formatScore } from "../../../web/shared/dom.js";
import { createLevel, createRelationLabel, showTable } from "../../../web/shared/lists.js";
import { createEvidenceButton, createNodeButton, formatYears } from "./details.js";

const createCell = (css, ...children) => createHtml("td", { class: css }, ...children);

/** Show the edges of a neighbourhood, those in the most documents first. */
export function showEdges(container, { nodes, edges }, { labels, onSelect, onEdge }) {
  const byNode = new Map(nodes.map((node) => [node.node, node]));
  const sorted = edges.toSorted((a, b) => b.n_documents - a.n_documents || b.n - a.n || a.edge - b.edge);
  const rows = sorted.map((edge) =>
    createHtml(
      "tr",
      {},
      createCell("", createNodeButton(byNode.get(edge.head), labels, onSelect)),
      createCell("", createRelationLabel(edge.label, labels),
        ...(edge.flag ? [" ", createHtml("span", { class: "flag" }, edge.flag)] : [])),
      createCell("", createNodeButton(byNode.get(edge.tail), labels, onSelect)),
      createCell("amount", edge.n_documents.toLocaleString("en")),
      createCell("amount", createEvidenceButton(edge, onEdge)),
      createCell("amount", formatYears(edge)),
      createCell("score", formatScore(edge.best_score)),
    ),
  );
  const headings = ["Subject", "Relation", "Object", "Documents", "Evidence", "Years", "Score"];
  showTable(container, formatCount(rows.length, "relation", "relations"), headings, rows, "No relations to show.");
}

/** Show a ranking. `onMore()` loads more rows. */
export function showRanking(container, { rows: found, total }, { labels, onSelect, onEdge, onMore }) {
  const most = Math.max(1, ...found.map((row) => row.n_documents));
  const rows = found.map((row, number) => {
    const evidence = row.edge === null ? formatCount(row.n, "mention", "mentions") : createEvidenceButton(row, onEdge);
    return createHtml(
      "tr",
      {},
      createCell("rank", String(number + 1)),
      createCell("", createNodeButton(row, labels, onSelect)),
      createCell("amount documents", createLevel(row.n_documents / most), row.n_documents.toLocaleString("en")),
      createCell("amount", evidence),
      createCell("amount", formatYears(row)),
      createCell("score", row.best_score === null ? "" : formatScore(row.best_score)),
    );
  });
  const hasScores = found.some((row) => row.best_score !== null);
  const headings = ["", "Entity", "Documents", hasScores ? "Evidence" : "Mentions", "Years", hasScores ? "Score" : ""];
  showTable(container, formatCount(total, "entity", "entities"), headings, rows, "No entities pass the filters.");
  if (found.length < total) {
    const text = `Show more (${(total - found.length).toLocaleString("en")} left)`;
    container.append(createHtml("button", { type: "button", class: "action", click: onMore }, text));
  }
}

/** Offer the rankings that are possible for a node, and show which is chosen. */
export function showRankingForm({ types }, node, { type, by }) {
  const names = ["", ...types.map(({ label }) => label)];
  fillSelect(byId("ranking-type"), names, type ?? "", (label) => label || "all types");
  const options = new Map([["", "in all documents"]]);
  if (node) {
    options.set("documents", `that also mention ${node.name}`);
    for (const { label, direction } of node.relations) {
      if (direction === "out") options.set(`out ${label}`, `with ${node.name} ${label} →`);
      else options.set(`in ${label}`, `with ${label} ${direction === "both" ? "↔" : "→"} ${node.name}`);
    }
  }
  fillSelect(byId("ranking-by"), [...options.keys()], by ?? "", (value) => options.get(value));
}

/** Return the parameters of a ranking. */
export function rankingParameters(node, { type, by }, { min_score, min_count, first_year, last_year }) {
  const [direction, ...rest] = (by ?? "").split(" ");
  const relation = rest.join(" ");
  const related = node && by ? { node, ...(relation ? { relation, direction } : {}) } : {};
  return { type, ...related, min_score, min_count, first_year, last_year };
}
