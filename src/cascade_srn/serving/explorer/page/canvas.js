/* The drawn graph: nodes and edges on a canvas of Cytoscape, their layout, selection and zoom. */

import cytoscape from "./cytoscape.js";
import { createStyle, readColours, styleEdge, styleNode } from "./canvas_style.js";

// A classic script, which has no exports.
cytoscape.use(window.cytoscapeFcose);

const MOVE_MILLISECONDS = 350;
const [MIN_ZOOM, MAX_ZOOM, ZOOM_STEP] = [0.08, 3, 1.3];
const MARGIN = 28;
// Zoom up to which a small graph is enlarged to fill the canvas.
const FIT_ZOOM = 1.25;
const MAX_DISTANCE = 560;
const GOLDEN_ANGLE = Math.PI * (3 - Math.sqrt(5));

/** A graph on a canvas. `onNode(id)`, `onEdge(number)` and `onNothing()` are called on clicks. */
export class Canvas {
  #labels = null;
  #nodes = new Map();
  #edges = new Map();
  #selection = null;
  // Whether the user has zoomed or moved the graph since it was last fitted.
  #isMoved = false;

  constructor(container, { onNode, onEdge, onNothing }) {
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
    this.cy.on("tap", "edge", ({ target }) => onEdge(target.data("edge")));
    this.cy.on("tap", ({ target }) => target === this.cy && onNothing());
    for (const [event, cursor] of [["mouseover", "pointer"], ["mouseout", ""]]) {
      this.cy.on(event, "node, edge", () => (container.style.cursor = cursor));
    }
    this.cy.on("scrollzoom pinchzoom dragpan", () => (this.#isMoved = true));
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#restyle());
    new ResizeObserver(() => this.#resize()).observe(container);
  }

  /** Show nodes and edges. Those that were there before start at their places. */
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
      this.cy.edges().forEach((edge) => edge.toggleClass("inner", edge.connectedNodes(".expanded").empty()));
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
    const n = this.cy.nodes().length;
    const moves = !fromScratch && !window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.layout?.stop();
    // Edges between neighbours do not pull, so that neighbours keep their distance.
    this.layout = this.cy.elements().not(".inner").layout({
      name: "fcose",
      animate: moves,
      animationDuration: MOVE_MILLISECONDS,
      fit: false,
      quality: "proof",
      // Starts from the positions above, so that a view always looks the same.
      randomize: false,
      nodeDimensionsIncludeLabels: true,
      idealEdgeLength: idealLength,
      nodeRepulsion: () => 30_000,
      gravity: 0.15,
      fixedNodeConstraint: centres.map(({ node }, number) => ({ nodeId: `n:${node}`, position: place(number) })),
      numIter: n > 150 ? 1000 : 2500,
    });
    this.layout.one("layoutstop", () => this.fit(moves));
    this.layout.run();
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

/** Return the length of an edge: the more neighbours a node has, the farther they are away. */
function idealLength(edge) {
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
