/* The drawn graph: nodes and edges on a canvas of Cytoscape, their layout, selection and zoom. */

import cytoscape from "../vendor/cytoscape.js";
import { placeComponents } from "./canvas_components.js";
import { createStyle, readColours, styleEdge, styleNode } from "./canvas_style.js";
import { createHtml } from "./dom.js";

// Classic scripts, which have no exports. Each needs the one before.
for (const name of ["layout-base.js", "cose-base.js", "cytoscape-fcose.js"]) await loadScript(name);
cytoscape.use(window.cytoscapeFcose);

const MOVE_MILLISECONDS = 350;
const [MIN_ZOOM, MAX_ZOOM, ZOOM_STEP] = [0.08, 3, 1.3];
const MARGIN = 28;
// Zoom up to which a small graph is enlarged to fill the canvas.
const FIT_ZOOM = 1.25;
const MAX_DISTANCE = 560;
const PHONE_WIDTH = 480;
const GOLDEN_ANGLE = Math.PI * (3 - Math.sqrt(5));

/**
 * A graph on a canvas. `onNode(id)`, `onEdge(id)` and `onNothing()` are called on clicks.
 *
 * Nodes are {node, name, label}, with `weight` for the size of their font. Edges are {edge, head, label, tail, n,
 * symmetric}. Both have an id: `node` and `edge`.
 */
export class Canvas {
  #labels = null;
  #nodes = new Map();
  #edges = new Map();
  #selection = null;
  // Whether the user has zoomed or moved the graph since it was last fitted.
  #isMoved = false;

  constructor(container, { onNode, onEdge = null, onNothing }) {
    this.container = container;
    this.cy = cytoscape({
      container,
      style: [],
      minZoom: MIN_ZOOM,
      maxZoom: MAX_ZOOM,
      boxSelectionEnabled: false,
      autounselectify: true,
      selectionType: "single",
    });
    this.cy.on("tap", "node", ({ target }) => onNode(target.data("node")));
    if (onEdge) this.cy.on("tap", "edge", ({ target }) => onEdge(target.data("edge")));
    this.cy.on("tap", ({ target }) => target === this.cy && onNothing());
    for (const [event, cursor] of [["mouseover", "pointer"], ["mouseout", ""]]) {
      this.cy.on(event, onEdge ? "node, edge" : "node", () => (container.style.cursor = cursor));
    }
    this.cy.on("scrollzoom pinchzoom dragpan", () => (this.#isMoved = true));
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#restyle());
    new ResizeObserver(() => this.#resize()).observe(container);
  }

  /**
   * Show nodes and edges. Those that were there before start at their places.
   *
   * `centres` are expanded nodes, which keep fixed places. Without them, all nodes are alike.
   */
  show({ centres, nodes, edges }, labels) {
    this.#labels = labels;
    this.#nodes = new Map(nodes.map((node) => [node.node, node]));
    this.#edges = new Map(edges.map((edge) => [edge.edge, edge]));
    const colours = readColours();
    this.cy.style(createStyle(colours));
    const wanted = new Set([...nodes.map(({ node }) => `n:${node}`), ...edges.map(({ edge }) => `e:${edge}`)]);
    const before = this.cy.elements().map((element) => element.id()).sort().join("\n");
    const wasEmpty = this.cy.nodes().empty();
    // The more neighbours there are, the farther expanded nodes are apart.
    const distance = Math.min(MAX_DISTANCE, 260 + (12 * nodes.length) / Math.max(1, centres.length));
    const place = (number) => centrePosition(number, distance);
    this.cy.resize(); // it may have been hidden before
    this.cy.batch(() => {
      this.cy.elements().filter((element) => !wanted.has(element.id())).remove();
      nodes.forEach((node, number) => this.#put("nodes", styleNode(node, labels, colours), () =>
        number < centres.length ? place(number) : this.#startPosition(node, edges, number)));
      edges.forEach((edge) => this.#put("edges", styleEdge(edge, labels, colours)));
      const expanded = new Set(centres.map(({ node }) => node));
      this.cy.nodes().forEach((node) => node.toggleClass("expanded", expanded.has(node.data("node"))));
      this.cy.edges().forEach((edge) =>
        edge.toggleClass("inner", centres.length > 0 && edge.connectedNodes(".expanded").empty()));
    });
    colours.close();
    this.#mark();
    const after = this.cy.elements().map((element) => element.id()).sort().join("\n");
    if (before !== after) this.#layOut(wasEmpty, centres, place);
  }

  #put(group, data, position = () => undefined) {
    const known = this.cy.getElementById(data.id);
    if (known.nonempty()) known.data(data);
    else this.cy.add({ group, data, position: position() });
  }

  /** Place a new node beside a neighbour that is already there, else on a spiral, so that a layout can be repeated. */
  #startPosition({ node }, edges, number) {
    const edge = edges.find(({ head, tail }) => (head === node || tail === node) && this.#hasEnd(head, tail, node));
    const anchor = edge && this.cy.getElementById(`n:${edge.head === node ? edge.tail : edge.head}`).position();
    const radius = number ? 60 + 26 * Math.sqrt(number) : 0;
    const { x, y } = anchor ?? { x: 0, y: 0 };
    return { x: x + radius * Math.cos(number * GOLDEN_ANGLE), y: y + radius * Math.sin(number * GOLDEN_ANGLE) };
  }

  #hasEnd(head, tail, node) {
    return this.cy.getElementById(`n:${head === node ? tail : head}`).nonempty();
  }

  #layOut(fromScratch, centres, place) {
    const moves = !fromScratch && !window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.layout?.stop();
    const options = { animate: moves, animationDuration: MOVE_MILLISECONDS, fit: false };
    this.layout = centres.length ? this.#aroundCentres(options, centres, place) : this.#inParts(options);
    this.layout.one("layoutstop", () => this.fit(moves));
    this.layout.run();
  }

  #settings() {
    const numIter = this.cy.nodes().length > 150 ? 1000 : 2500;
    return { name: "fcose", quality: "proof", nodeDimensionsIncludeLabels: true, gravity: 0.15, numIter };
  }

  #aroundCentres(options, centres, place) {
    // Edges between neighbours do not pull, so that neighbours keep their distance.
    return this.cy.elements().not(".inner").layout({
      ...this.#settings(),
      ...options,
      // Starts from the positions above, so that a view always looks the same.
      randomize: false,
      idealEdgeLength: lengthFromCentre,
      nodeRepulsion: () => 30_000,
      fixedNodeConstraint: centres.map(({ node }, number) => ({ nodeId: `n:${node}`, position: place(number) })),
    });
  }

  #inParts(options) {
    const before = new Map(this.cy.nodes().map((node) => [node.id(), { ...node.position() }]));
    // On a phone, the graph is too small for labels of relations, until the user zooms in.
    const idealEdgeLength = this.cy.width() < PHONE_WIDTH ? 40 : lengthOfLabel;
    const settings = { ...this.#settings(), idealEdgeLength, nodeRepulsion: () => 12_000 };
    const positions = placeComponents(this.cy, settings);
    // The animation starts where the nodes were.
    this.cy.nodes().positions((node) => before.get(node.id()));
    return this.cy.layout({ ...options, name: "preset", positions: (node) => positions.get(node.id()) });
  }

  /** Show the whole graph. */
  fit(moves = false) {
    this.#isMoved = false;
    if (this.cy.nodes().empty() || !this.cy.width()) return;
    const box = this.cy.elements().boundingBox();
    const [width, height] = [this.cy.width() - 2 * MARGIN, this.cy.height() - 2 * MARGIN];
    const zoom = Math.max(MIN_ZOOM, Math.min(FIT_ZOOM, width / box.w, height / box.h));
    const pan = { x: this.cy.width() / 2 - (zoom * (box.x1 + box.x2)) / 2,
      y: this.cy.height() / 2 - (zoom * (box.y1 + box.y2)) / 2 };
    if (moves) this.cy.animate({ zoom, pan }, { duration: MOVE_MILLISECONDS / 2 });
    else this.cy.viewport({ zoom, pan });
  }

  /** Return the place of a node in the window. */
  boundingBox(id) {
    const { left, top } = this.container.getBoundingClientRect();
    const { x1, y1, w, h } = this.cy.getElementById(id).renderedBoundingBox();
    return new DOMRect(left + x1, top + y1, w, h);
  }

  /** Zoom in (1) or out (-1) around the middle. */
  zoomBy(steps) {
    this.#isMoved = true;
    const middle = { x: this.cy.width() / 2, y: this.cy.height() / 2 };
    this.cy.zoom({ level: this.cy.zoom() * ZOOM_STEP ** steps, renderedPosition: middle });
  }

  /** Highlight a node with its neighbours, or an edge with its ends; null removes the highlight. */
  select(selection) {
    this.#selection = selection;
    this.#mark();
  }

  #mark() {
    const chosen = this.#selection === null ? this.cy.collection() : this.cy.getElementById(this.#selection);
    this.cy.batch(() => {
      this.cy.elements().removeClass("faded selected");
      if (chosen.empty()) return;
      const near = chosen.isNode() ? chosen.closedNeighborhood() : chosen.union(chosen.connectedNodes());
      this.cy.elements().not(near).addClass("faded");
      chosen.addClass("selected");
    });
  }

  #restyle() {
    if (!this.#labels) return;
    const colours = readColours();
    this.cy.style(createStyle(colours));
    this.#nodes.forEach((node) => this.#put("nodes", styleNode(node, this.#labels, colours)));
    this.#edges.forEach((edge) => this.#put("edges", styleEdge(edge, this.#labels, colours)));
    colours.close();
  }

  /** When the size changes, fit the graph again, or keep the middle in place if the user has moved it. */
  #resize() {
    const [width, height] = [this.cy.width(), this.cy.height()];
    this.cy.resize();
    if (!this.#isMoved) this.fit();
    else this.cy.panBy({ x: (this.cy.width() - width) / 2, y: (this.cy.height() - height) / 2 });
  }
}

function loadScript(name) {
  return new Promise((resolve, reject) => {
    const script = createHtml("script", { src: new URL(`../vendor/${name}`, import.meta.url).href, load: resolve,
      error: () => reject(new Error(`${name} could not be loaded.`)) });
    document.head.append(script);
  });
}

/** Return a length that leaves room for the label of an edge. */
const lengthOfLabel = (edge) => 34 + 7 * edge.data("label").length;

/** Return the length of an edge: the more neighbours a node has, the farther they are away. */
function lengthFromCentre(edge) {
  const n = Math.max(...edge.connectedNodes().map((node) => node.connectedEdges().not(".inner").length));
  const isBetweenCentres = edge.connectedNodes(".expanded").length === 2;
  return (isBetweenCentres ? 3 : 1) * (60 + 2 * Math.min(50, n));
}

/** Return the fixed place of an expanded node: in the middle, then on rings of 6, 12, 18, … places. */
function centrePosition(number, distance) {
  let [ring, left] = [0, number];
  while (left >= Math.max(1, 6 * ring)) {
    left -= Math.max(1, 6 * ring);
    ring += 1;
  }
  // Turned a little, since the canvas is not only wide.
  const angle = ring ? 0.4 + (2 * Math.PI * left) / (6 * ring) : 0;
  return { x: ring * distance * Math.cos(angle), y: 0.75 * ring * distance * Math.sin(angle) };
}
