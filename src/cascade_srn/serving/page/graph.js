/* The entities of a document as a graph: those with the same words and type are one node, relations are its edges. */

import { counted, make, shape } from "./dom.js";
import { keyOf } from "./found.js";
import { placeBoxes } from "./layout.js";

const MOST_NODES = 120;
const LONGEST = 38;
const MARGIN = 14;
const [NODE_HEIGHT, LABEL_HEIGHT] = [30, 16];

/** Show the graph of concepts in a place of a certain width. */
export function showGraph(place, concepts, { labels, chosen, onPick }) {
  if (!concepts.length) return place.replaceChildren(make("p", { class: "nothing" }, "No entity is shown."));
  const shown = mostRelated(concepts);
  const { nodes, edges } = gathered(shown, labels);
  const width = Math.max(280, place.clientWidth - 2 * MARGIN - 2);
  const links = edges.flatMap(({ from, to, box }) => [[from.number, box.number], [box.number, to.number]]);
  const height = placeBoxes([...nodes, ...edges.map((edge) => edge.box)], links, width);
  const svg = shape("svg", {
    class: `graph${chosen === null ? "" : " picking"}`,
    viewBox: `${-MARGIN} ${-MARGIN} ${width + 2 * MARGIN} ${height + 2 * MARGIN}`,
    width: width + 2 * MARGIN,
    height: height + 2 * MARGIN,
    role: "group",
    "aria-label": `Graph of ${counted(nodes.length, "entity", "entities")}; arrow keys move between them`,
  });
  svg.append(...edges.map((edge) => drawnEdge(edge, chosen)));
  svg.append(...nodes.map((node) => drawnNode(node, nodeState(node, chosen, edges), onPick)));
  keepOneInTabOrder(svg);
  place.replaceChildren(make("div", { class: "drawing" }, svg), make("p", { class: "help" }, note(concepts, shown)));
}

function mostRelated(concepts) {
  if (concepts.length <= MOST_NODES) return concepts;
  const rank = concepts.toSorted((one, other) => other.relations.length - one.relations.length).slice(0, MOST_NODES);
  return concepts.filter((concept) => rank.includes(concept));
}

function note(concepts, shown) {
  const merged = "Mentions with the same words and type are one node.";
  if (shown.length === concepts.length) return merged;
  return `${merged} Of ${concepts.length} entities, the ${shown.length} with the most relations are drawn.`;
}

/** Nodes and edges with the sizes of their boxes; a relation that several mentions state is one edge. */
function gathered(concepts, labels) {
  const nodes = concepts.map((concept, number) => {
    const text = shortened(concept.text);
    const width = Math.max(44, textWidth(text, 14) + 24);
    return { ...concept, number, said: text, width, height: NODE_HEIGHT, css: labels.ofEntity(concept.label) };
  });
  const byKey = new Map(nodes.map((node) => [node.key, node]));
  const edges = new Map();
  const pairs = new Map();
  for (const { head, label, tail } of nodes.flatMap((node) => node.relations)) {
    const [from, to] = [byKey.get(keyOf(head)), byKey.get(keyOf(tail))];
    if (!from || !to) continue;
    const ends = labels.directed(label) ? [from.number, to.number] : [from.number, to.number].toSorted((a, b) => a - b);
    const name = JSON.stringify([label, ...ends]);
    if (edges.has(name)) continue;
    const size = { width: textWidth(label, 11) + 8, height: LABEL_HEIGHT };
    const pair = ends.toSorted((a, b) => a - b);
    const side = sides(pairs, pair);
    const box = { ...size, number: nodes.length + edges.size, between: pair.map((end) => nodes[end]), side };
    edges.set(name, { from, to, label, box, css: labels.ofRelation(label), directed: labels.directed(label) });
  }
  return { nodes, edges: Array.from(edges.values()) };
}

/** Where the next label of a pair goes: between the two, then to one side, to the other, farther out. */
function sides(pairs, pair) {
  const n = pairs.get(String(pair)) ?? 0;
  pairs.set(String(pair), n + 1);
  return n % 2 ? Math.ceil(n / 2) : -n / 2;
}

function shortened(text) {
  const points = Array.from(text.replace(/\s+/gu, " "));
  return points.length > LONGEST ? `${points.slice(0, LONGEST - 1).join("").trimEnd()}…` : points.join("");
}

const canvas = document.createElement("canvas").getContext("2d");

function textWidth(text, size) {
  canvas.font = `600 ${size}px ${getComputedStyle(document.body).fontFamily}`;
  return canvas.measureText(text).width;
}

function nodeState(node, chosen, edges) {
  if (chosen === null) return "";
  if (node.key === chosen) return " picked";
  const near = edges.some(({ from, to }) => [from, to].includes(node) && [from.key, to.key].includes(chosen));
  return near ? " near" : "";
}

function drawnNode({ key, text, said, label, relations, x, y, width, height, css }, state, onPick) {
  const related = counted(relations.length, "relation", "relations");
  const pick = () => onPick(key);
  const onKey = (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    pick();
  };
  return shape(
    "g",
    {
      class: `node ${css}${state}`,
      transform: `translate(${x} ${y})`,
      role: "button",
      tabindex: "-1",
      "data-key": key,
      "aria-label": `${text}, ${label}, ${related}`,
      "aria-pressed": String(state === " picked"),
      click: pick,
      keydown: onKey,
    },
    shape("title", {}, `${text}: ${label}`),
    shape("rect", { x: -width / 2, y: -height / 2, width, height, rx: height / 2 }),
    shape("text", { y: 5, "text-anchor": "middle" }, said),
  );
}

function drawnEdge({ from, to, label, box, css, directed }, chosen) {
  const state = chosen !== null && [from.key, to.key].includes(chosen) ? " picked" : "";
  const title = shape("title", {}, `${from.text} — ${label} → ${to.text}`);
  const group = shape("g", { class: `edge ${css}${state}`, "aria-hidden": "true" }, title);
  const curve = trimmed(throughLabel(from, box, to), from, to);
  group.append(shape("path", { d: `M${curve[0]} Q${curve[1]} ${curve[2]}`, fill: "none" }));
  if (directed) group.append(arrowHead(curve));
  group.append(shape("text", { x: box.x, y: box.y + 4, "text-anchor": "middle" }, label));
  return group;
}

/** A quadratic curve between two boxes that passes through the label's place; a loop where they are the same. */
function throughLabel(from, box, to) {
  const aside = from === to ? from.width / 4 : 0;
  const [one, other] = [[from.x - aside, from.y], [to.x + aside, to.y]];
  return [one, [2 * box.x - (one[0] + other[0]) / 2, 2 * box.y - (one[1] + other[1]) / 2], other];
}

function pointAt([a, b, c], t) {
  return [0, 1].map((axis) => (1 - t) ** 2 * a[axis] + 2 * t * (1 - t) * b[axis] + t ** 2 * c[axis]);
}

/** The part of a curve that lies outside the boxes at its ends. */
function trimmed(curve, from, to) {
  const inside = ([x, y], box, more) =>
    Math.abs(x - box.x) < box.width / 2 + more && Math.abs(y - box.y) < box.height / 2 + more;
  let [first, last] = [0, 1];
  while (first < 0.5 && inside(pointAt(curve, first), from, 1)) first += 0.01;
  while (last > 0.5 && inside(pointAt(curve, last), to, 3)) last -= 0.01;
  const [a, b, c] = curve;
  const [before, between, after] = [(1 - first) * (1 - last), first * (1 - last) + last * (1 - first), first * last];
  const middle = [0, 1].map((axis) => before * a[axis] + between * b[axis] + after * c[axis]);
  return [pointAt(curve, first), middle, pointAt(curve, last)];
}

function arrowHead([, before, [x, y]]) {
  const angle = (180 / Math.PI) * Math.atan2(y - before[1], x - before[0]);
  const transform = `translate(${x} ${y}) rotate(${angle})`;
  return shape("path", { class: "head", d: "M1 0 L-8 -4.5 L-8 4.5 Z", transform });
}

/** One node can be reached by the tab key, the others from it by the arrows. */
function keepOneInTabOrder(svg) {
  const nodes = Array.from(svg.querySelectorAll(".node"));
  (svg.querySelector(".node.picked") ?? nodes[0]).setAttribute("tabindex", "0");
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const at = nodes.indexOf(document.activeElement);
    if (!step || at < 0) return;
    event.preventDefault();
    const next = nodes[(at + step + nodes.length) % nodes.length];
    nodes[at].setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  });
}
