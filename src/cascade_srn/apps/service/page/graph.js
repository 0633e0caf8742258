/* The graph of a document: a node for each entity, an edge for each relation between two of them. */

import { byId } from "../../web/shared/dom.js";
import { createSvgFile } from "../../web/shared/picture.js";
import { entityKey } from "./annotations.js";
import { keepVisible } from "./card.js";

const MAX_NODES = 120;

/** The graph in its tab. `onSelect(key)` is called when an entity is chosen, with null for the empty canvas. */
export class Graph {
  #canvas = null;
  #loading = null;
  #shown = null;

  constructor(onSelect) {
    this.onSelect = onSelect;
  }

  /** Show the graph of concepts. The library that draws it is loaded on first use. */
  show(concepts, { labels, selected }) {
    const shown = selectMostRelated(concepts);
    this.#shown = { ...buildGraph(shown, labels), labels, selected };
    byId("graph-nothing").hidden = shown.length > 0;
    byId("stage").hidden = !shown.length;
    byId("graph-note").textContent = describe(concepts, shown);
    if (this.#canvas) this.#update();
    else this.#loading ??= this.#load();
  }

  /** Return the drawn graph as an SVG file, or null if there is none. */
  picture() {
    return this.#canvas && this.#shown.nodes.length ? createSvgFile(this.#canvas, document.title) : null;
  }

  /** Scroll the window so that the card does not cover the selected node. */
  keepVisible() {
    const selected = this.#shown?.selected ?? null;
    if (this.#canvas && selected !== null) {
      keepVisible({ getBoundingClientRect: () => this.#canvas.boundingBox(nodeId(selected)) });
    }
  }

  async #load() {
    try {
      const [{ Canvas }, { addControls }] = await Promise.all([
        import("../../web/shared/canvas.js"),
        import("../../web/shared/canvas_keys.js"),
      ]);
      this.#canvas = new Canvas(byId("canvas"), { onNode: this.onSelect, onNothing: () => this.onSelect(null) });
      addControls(this.#canvas, this.onSelect);
      this.#update();
    } catch (error) {
      this.#loading = null; // the next view tries again
      byId("graph-note").textContent = `The graph cannot be drawn: ${error.message}`;
    }
  }

  #update() {
    const { nodes, edges, labels, selected } = this.#shown;
    this.#canvas.show({ centres: [], nodes, edges }, labels);
    this.#canvas.select(selected === null ? null : nodeId(selected));
  }
}

const nodeId = (key) => `n:${key}`;

function selectMostRelated(concepts) {
  if (concepts.length <= MAX_NODES) return concepts;
  const ranked = new Set(concepts.toSorted((a, b) => b.relations.length - a.relations.length).slice(0, MAX_NODES));
  return concepts.filter((concept) => ranked.has(concept));
}

function describe(concepts, shown) {
  if (!shown.length) return "";
  const note = "Mentions with the same words and type share a node.";
  if (shown.length === concepts.length) return note;
  return `${note} Only the ${shown.length} of ${concepts.length} entities with the most relations are shown.`;
}

/** Return nodes and edges for the canvas. Equal relations between two nodes share an edge. */
function buildGraph(concepts, labels) {
  const nodes = concepts.map(({ key, text, label, mentions }) =>
    ({ node: key, name: text, label, weight: mentions.length }));
  const keys = new Set(nodes.map(({ node }) => node));
  const edges = new Map();
  // A relation is listed at both of its entities.
  for (const { head: from, label, tail: to } of new Set(concepts.flatMap(({ relations }) => relations))) {
    const [head, tail] = [entityKey(from), entityKey(to)];
    if (!keys.has(head) || !keys.has(tail)) continue;
    const symmetric = !labels.isDirected(label);
    const edge = JSON.stringify([label, ...(symmetric ? [head, tail].toSorted() : [head, tail])]);
    if (!edges.has(edge)) edges.set(edge, { edge, head, label, tail, n: 0, symmetric });
    edges.get(edge).n += 1;
  }
  return { nodes, edges: Array.from(edges.values()) };
}
