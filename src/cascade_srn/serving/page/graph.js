/* An interactive graph of a document: a node for each entity, an edge for each relation between two of them. */

import { entityKey } from "./annotations.js";
import { createHtml, createSvg, formatCount } from "./dom.js";
import { placeBoxes } from "./graph_layout.js";

const MAX_NODES = 120;
const MAX_LABEL_LENGTH = 38;
const MARGIN = 14;
const [NODE_HEIGHT, LABEL_HEIGHT] = [30, 16];

/** Show the graph of concepts in the width of its container. */
export function showGraph(container, concepts, { labels, selected, onSelect }) {
  if (!concepts.length) {
    return container.replaceChildren(createHtml("p", { class: "nothing" }, "No entities to show."));
  }
  const shown = selectMostRelated(concepts);
  const { nodes, edges } = buildGraph(shown, labels);
  const width = Math.max(280, container.clientWidth - 2 * MARGIN - 2);
  const links = edges.flatMap(({ from, to, box }) => [[from.number, box.number], [box.number, to.number]]);
  const height = placeBoxes([...nodes, ...edges.map((edge) => edge.box)], links, width);
  const svg = createSvg("svg", {
    class: `graph${selected === null ? "" : " has-selection"}`,
    viewBox: `${-MARGIN} ${-MARGIN} ${width + 2 * MARGIN} ${height + 2 * MARGIN}`,
    width: width + 2 * MARGIN,
    height: height + 2 * MARGIN,
    role: "group",
    "aria-label": `Graph of ${formatCount(nodes.length, "entity", "entities")}. Arrow keys move between them.`,
  });
  svg.append(...edges.map((edge) => createEdge(edge, selected)));
  svg.append(...nodes.map((node) => createNode(node, nodeClass(node, selected, edges), onSelect)));
  addKeyboardNavigation(svg);
  const note = createHtml("p", { class: "help" }, describe(concepts, shown));
  return container.replaceChildren(createHtml("div", { class: "drawing" }, svg), note);
}

function selectMostRelated(concepts) {
  if (concepts.length <= MAX_NODES) return concepts;
  const ranked = concepts.toSorted((a, b) => b.relations.length - a.relations.length).slice(0, MAX_NODES);
  return concepts.filter((concept) => ranked.includes(concept));
}

function describe(concepts, shown) {
  const note = "Mentions with the same words and type share a node.";
  if (shown.length === concepts.length) return note;
  return `${note} Only the ${shown.length} of ${concepts.length} entities with the most relations are shown.`;
}

/** Return nodes and edges with the sizes of their boxes. Equal relations between two nodes share an edge. */
function buildGraph(concepts, labels) {
  const nodes = concepts.map((concept, number) => {
    const title = shorten(concept.text);
    const width = Math.max(44, textWidth(title, 14) + 24);
    return { ...concept, number, title, width, height: NODE_HEIGHT, css: labels.entityClass(concept.label) };
  });
  const byKey = new Map(nodes.map((node) => [node.key, node]));
  const edges = new Map();
  const pairs = new Map();
  for (const { head, label, tail } of nodes.flatMap((node) => node.relations)) {
    const [from, to] = [byKey.get(entityKey(head)), byKey.get(entityKey(tail))];
    if (!from || !to) continue;
    const directed = labels.isDirected(label);
    const pair = [from.number, to.number].toSorted((a, b) => a - b);
    const name = JSON.stringify([label, ...(directed ? [from.number, to.number] : pair)]);
    if (edges.has(name)) continue;
    const size = { width: textWidth(label, 11) + 8, height: LABEL_HEIGHT };
    const side = nextSide(pairs, pair);
    const box = { ...size, number: nodes.length + edges.size, between: pair.map((end) => nodes[end]), side };
    edges.set(name, { from, to, label, box, css: labels.relationClass(label), directed });
  }
  return { nodes, edges: Array.from(edges.values()) };
}

/** Return the side of the next label of a pair: 0 is in the middle, then 1, -1, 2, -2, and so on. */
function nextSide(pairs, pair) {
  const n = pairs.get(String(pair)) ?? 0;
  pairs.set(String(pair), n + 1);
  return n % 2 ? Math.ceil(n / 2) : -n / 2;
}

function shorten(text) {
  const points = Array.from(text.replace(/\s+/gu, " "));
  if (points.length <= MAX_LABEL_LENGTH) return points.join("");
  return `${points.slice(0, MAX_LABEL_LENGTH - 1).join("").trimEnd()}…`;
}

const canvas = document.createElement("canvas").getContext("2d");

function textWidth(text, size) {
  canvas.font = `600 ${size}px ${getComputedStyle(document.body).fontFamily}`;
  return canvas.measureText(text).width;
}

function nodeClass(node, selected, edges) {
  if (selected === null) return "";
  if (node.key === selected) return " selected";
  const related = edges.some(({ from, to }) => [from, to].includes(node) && [from.key, to.key].includes(selected));
  return related ? " related" : "";
}

function createNode({ key, text, title, label, relations, x, y, width, height, css }, state, onSelect) {
  const nRelations = formatCount(relations.length, "relation", "relations");
  const select = () => onSelect(key);
  const onKey = (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    select();
  };
  return createSvg(
    "g",
    {
      class: `node ${css}${state}`,
      transform: `translate(${x} ${y})`,
      role: "button",
      tabindex: "-1",
      "data-key": key,
      "aria-label": `${text}, ${label}, ${nRelations}`,
      "aria-pressed": String(state === " selected"),
      click: select,
      keydown: onKey,
    },
    createSvg("title", {}, `${text}: ${label}`),
    createSvg("rect", { x: -width / 2, y: -height / 2, width, height, rx: height / 2 }),
    createSvg("text", { y: 5, "text-anchor": "middle" }, title),
  );
}

function createEdge({ from, to, label, box, css, directed }, selected) {
  const state = selected !== null && [from.key, to.key].includes(selected) ? " selected" : "";
  const title = createSvg("title", {}, `${from.text} — ${label} → ${to.text}`);
  const group = createSvg("g", { class: `edge ${css}${state}`, "aria-hidden": "true" }, title);
  const curve = trim(curveThroughLabel(from, box, to), from, to);
  group.append(createSvg("path", { d: `M${curve[0]} Q${curve[1]} ${curve[2]}`, fill: "none" }));
  if (directed) group.append(createArrowHead(curve));
  group.append(createSvg("text", { x: box.x, y: box.y + 4, "text-anchor": "middle" }, label));
  return group;
}

/** Return a quadratic curve between two boxes through the centre of the label; a loop if both boxes are the same. */
function curveThroughLabel(from, box, to) {
  const shift = from === to ? from.width / 4 : 0;
  const [start, end] = [[from.x - shift, from.y], [to.x + shift, to.y]];
  return [start, [2 * box.x - (start[0] + end[0]) / 2, 2 * box.y - (start[1] + end[1]) / 2], end];
}

function pointAt([a, b, c], t) {
  return [0, 1].map((axis) => (1 - t) ** 2 * a[axis] + 2 * t * (1 - t) * b[axis] + t ** 2 * c[axis]);
}

/** Return the part of a curve outside the boxes at its ends. */
function trim(curve, from, to) {
  const isInside = ([x, y], box, margin) =>
    Math.abs(x - box.x) < box.width / 2 + margin && Math.abs(y - box.y) < box.height / 2 + margin;
  let [first, last] = [0, 1];
  while (first < 0.5 && isInside(pointAt(curve, first), from, 1)) first += 0.01;
  while (last > 0.5 && isInside(pointAt(curve, last), to, 3)) last -= 0.01;
  const [a, b, c] = curve;
  const [before, between, after] = [(1 - first) * (1 - last), first * (1 - last) + last * (1 - first), first * last];
  const middle = [0, 1].map((axis) => before * a[axis] + between * b[axis] + after * c[axis]);
  return [pointAt(curve, first), middle, pointAt(curve, last)];
}

function createArrowHead([, before, [x, y]]) {
  const angle = (180 / Math.PI) * Math.atan2(y - before[1], x - before[0]);
  const transform = `translate(${x} ${y}) rotate(${angle})`;
  return createSvg("path", { class: "head", d: "M1 0 L-8 -4.5 L-8 4.5 Z", transform });
}

/** Put one node into the tab order; the arrow keys reach the others. */
function addKeyboardNavigation(svg) {
  const nodes = Array.from(svg.querySelectorAll(".node"));
  (svg.querySelector(".node.selected") ?? nodes[0]).setAttribute("tabindex", "0");
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const position = nodes.indexOf(document.activeElement);
    if (!step || position < 0) return;
    event.preventDefault();
    const next = nodes[(position + step + nodes.length) % nodes.length];
    nodes[position].setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  });
}
