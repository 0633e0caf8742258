/* The card of the selected node: its numbers, its relations in the view, its forms and the reasons of its merges. */

import { createHtml, formatCount } from "../../../web/shared/dom.js";
import { createCardHeader, createEntityButton, createRelationLabel } from "../../../web/shared/lists.js";

const MAX_RELATIONS = 100;

/** Create a button with the name of a node. */
export function createNodeButton({ node, name, label }, labels, onSelect) {
  return createEntityButton({ text: name, label, key: node }, labels, onSelect);
}

/** Return the years of a row: "2019–2021", "2019", or an empty string. */
export function formatYears({ first_date: first, last_date: last }) {
  const [from, to] = [(first ?? "").slice(0, 4), (last ?? "").slice(0, 4)];
  return from === to ? from : `${from}–${to}`;
}

/** Show a node. `view` is the shown neighbourhood. */
export function showNode(container, node, view, { labels, onSelect, onEdge, onToggle, onOnly, onMore, onClose }) {
  const centre = view.centres.find((one) => one.node === node.node);
  const createAction = (text, click) => createHtml("button", { type: "button", class: "action", click }, text);
  const actions = [createAction(centre ? "Collapse" : "Expand", () => onToggle(node.node))];
  if (centre && centre.n_edges > centre.n_shown) actions.push(createAction("More neighbours", onMore));
  if (view.centres.length > 1 || !centre) actions.push(createAction("Show only this", () => onOnly(node.node)));
  const header = createCardHeader(
    onClose,
    createHtml("h3", {}, createHtml("bdi", {}, node.name)),
    createHtml("span", { class: `tag ${labels.entityClass(node.label)}` }, node.label),
    createHtml("span", { class: "actions" }, ...actions),
  );
  const parts = createHtml(
    "div",
    { class: "parts" },
    createRelations(node, view, labels, onSelect, onEdge),
    createHtml("div", {}, createFacts(node), createForms(node), createMerges(node), createVotes(node), createLinks(node)),
  );
  container.replaceChildren(header, parts);
}

function createFacts(node) {
  const facts = [
    formatCount(node.n_mentions, "mention", "mentions"),
    formatCount(node.n_documents, "document", "documents"),
    formatCount(node.degree, "relation", "relations"),
    formatYears(node),
  ];
  return createHtml("p", { class: "facts" }, facts.filter(Boolean).join(" · "));
}

function createRelations({ node }, { nodes, edges }, labels, onSelect, onEdge) {
  const byNode = new Map(nodes.map((one) => [one.node, one]));
  const own = edges.filter(({ head, tail }) => head === node || tail === node);
  if (!own.length) return createHtml("p", { class: "help" }, "No relations pass the filters.");
  const items = own.slice(0, MAX_RELATIONS).map((edge) => {
    const other = createNodeButton(byNode.get(edge.head === node ? edge.tail : edge.head), labels, onSelect);
    const relation = createRelationLabel(edge.label, labels);
    // The selected node itself is left out: "USED-FOR → other" or "other USED-FOR →".
    const parts = edge.head === node && !edge.symmetric ? [relation, " ", other] : [other, " ", relation];
    return createHtml("li", {}, ...parts, createEvidenceButton(edge, onEdge, { isShort: true }));
  });
  return createHtml("ul", { class: "drawing of-card" }, ...items);
}

/** Create a button with the number of sentences of an edge, which shows them. */
export function createEvidenceButton({ edge, n }, onEdge, { isShort = false } = {}) {
  const text = formatCount(n, "sentence", "sentences");
  const attributes = { type: "button", click: () => onEdge(edge) };
  if (!isShort) return createHtml("button", { ...attributes, class: "quiet-button evidence-button" }, text);
  const named = { class: "evidence-button pill", title: text, "aria-label": text };
  return createHtml("button", { ...attributes, ...named }, n.toLocaleString("en"));
}

function createForms({ forms }) {
  const items = forms.flatMap(({ text, n }, number) => [
    ...(number ? [", "] : []),
    createHtml("bdi", {}, text),
    createHtml("span", { class: "number" }, ` ${n.toLocaleString("en")}`),
  ]);
  return createHtml("p", { class: "forms" }, createHtml("span", { class: "help" }, "In the texts: "), ...items);
}

function createMerges({ merges }) {
  if (!merges.length) return "";
  const items = merges.map(({ text, into_text: into, step, reason }) =>
    createHtml("li", {}, createHtml("bdi", {}, text), " → ", createHtml("bdi", {}, into),
      createHtml("span", { class: "help" }, ` ${step}: ${reason}`)));
  const summary = createHtml("summary", {}, `Why these are one: ${formatCount(merges.length, "merge", "merges")}`);
  return createHtml("details", { class: "merges" }, summary, createHtml("ul", {}, ...items));
}

/* Entries of the vocabulary, if the graph has one. */
function createLinks({ links = [] }) {
  if (!links.length) return "";
  const items = links.flatMap(({ identifier, name, link }, number) => [
    ...(number ? [" or "] : []),
    /^https?:\/\//.test(identifier)
      ? createHtml("a", { href: identifier, target: "_blank", rel: "noreferrer" }, identifier)
      : createHtml("bdi", {}, identifier),
    ` (${link}: `, createHtml("bdi", {}, name), ")",
  ]);
  return createHtml("p", { class: "links" }, createHtml("span", { class: "help" }, "In the vocabulary: "), ...items);
}

function createVotes({ votes, label }) {
  const others = Object.entries(votes).filter(([name]) => name !== label);
  if (!others.length) return "";
  const text = [[label, votes[label] ?? 0], ...others].map(([name, weight]) => `${name} ${weight}`).join(", ");
  return createHtml("p", { class: "help" }, `Votes for the type: ${text}`);
}
