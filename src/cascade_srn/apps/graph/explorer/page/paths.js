/* The paths between two nodes, and the communities of the whole graph. */

import { createHtml, formatCount } from "../../../web/shared/dom.js";
import { createRelationLabel, showTable } from "../../../web/shared/lists.js";
import { createEvidenceButton, createNodeButton } from "./details.js";

/** Show paths with a sentence for each step. `onShow(nodes)` shows the nodes of a path as a graph. */
export function showPaths(container, paths, { labels, onSelect, onEdge, onShow }) {
  const items = paths.map(({ nodes, steps }) => {
    const show = createHtml("button", { type: "button", class: "action", click: () => onShow(nodes) }, "Show as graph");
    const names = nodes.flatMap((node, number) => [...(number ? [" – "] : []), createHtml("bdi", {}, node.name)]);
    return createHtml("li", {}, createHtml("h3", {}, ...names), createHtml("ol", { class: "steps" },
      ...steps.map((step) => createStep(step, labels, onSelect, onEdge))), show);
  });
  const nothing = createHtml("p", { class: "nothing" }, "No path of at most five relations passes the filters.");
  container.replaceChildren(items.length ? createHtml("ol", { class: "paths drawing" }, ...items) : nothing);
}

function createStep(step, labels, onSelect, onEdge) {
  const createEnd = (end) =>
    createNodeButton({ node: step[end], name: step[`${end}_name`], label: step[`${end}_label`] }, labels, onSelect);
  const [sentence] = step.evidence;
  const text = sentence
    ? [createHtml("p", { dir: "auto" }, sentence.sentence_text || `${sentence.head_text} … ${sentence.tail_text}`),
      createHtml("p", { class: "source help" }, createHtml("bdi", {}, sentence.title || sentence.document_id))]
    : [];
  return createHtml("li", {}, createEnd("head"), " ", createRelationLabel(step.label, labels), " ", createEnd("tail"), " ",
    createEvidenceButton(step, onEdge), ...text);
}

/** Show the communities of a graph. `onShow(nodes)` shows the best nodes of one as a graph. */
export function showCommunities(container, { nodes, communities }, { labels, onSelect, onShow }) {
  const byNode = new Map(nodes.map((node) => [node.node, node]));
  const rows = communities.slice(0, 20).map((community) => {
    const best = community.nodes.map((id, number) => {
      const known = byNode.get(id);
      return known ? createNodeButton(known, labels, onSelect) : createHtml("bdi", {}, community.names[number]);
    });
    const show = () => onShow(community.nodes.slice(0, 3).map((node) => ({ node })));
    return createHtml(
      "tr",
      {},
      createHtml("td", {}, ...best.flatMap((one, number) => [...(number ? [" "] : []), one])),
      createHtml("td", { class: "amount" }, community.n_nodes.toLocaleString("en")),
      createHtml("td", {}, createHtml("button", { type: "button", class: "quiet-button", click: show }, "Show")),
    );
  });
  const caption = formatCount(communities.length, "community", "communities");
  showTable(container, caption, ["Community", "Entities", ""], rows, "The graph has no relations.");
}
