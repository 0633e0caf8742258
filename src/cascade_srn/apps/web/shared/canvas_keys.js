/* The keyboard and the buttons of the drawn graph: arrow keys move between nodes, Enter chooses one. */

import { byId, formatCount } from "./dom.js";

const DIRECTIONS = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };

/** Add the keyboard and the zoom buttons to a canvas. `onNode(id)` is called on Enter. */
export function addControls(canvas, onNode) {
  addKeys(canvas, onNode);
  byId("zoom-in").addEventListener("click", () => canvas.zoomBy(1));
  byId("zoom-out").addEventListener("click", () => canvas.zoomBy(-1));
  byId("zoom-fit").addEventListener("click", () => canvas.fit(true));
}

function addKeys(canvas, onNode) {
  const { cy, container } = canvas;
  let focused = null;

  const focus = (node) => {
    cy.nodes().removeClass("focused");
    focused = node?.id() ?? null;
    if (!node) return;
    node.addClass("focused");
    bringIntoView(cy, node);
    const { name, label } = node.data();
    const nRelations = formatCount(node.connectedEdges().length, "relation", "relations");
    byId("focused").textContent = `${name}, ${label}, ${nRelations}`;
  };
  const current = () => {
    const node = focused === null ? cy.collection() : cy.getElementById(focused);
    return node.nonempty() ? node[0] : null;
  };
  container.addEventListener("focus", () => {
    if (container.matches(":focus-visible")) focus(current() ?? firstNode(cy));
  });
  container.addEventListener("blur", () => cy.nodes().removeClass("focused"));
  container.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const node = current();
    if (DIRECTIONS[event.key]) focus(node ? (findNext(cy, node, DIRECTIONS[event.key]) ?? node) : cy.nodes()[0]);
    else if ((event.key === "Enter" || event.key === " ") && node) onNode(node.data("node"));
    else if (event.key === "+" || event.key === "=") canvas.zoomBy(1);
    else if (event.key === "-") canvas.zoomBy(-1);
    else if (event.key === "0") canvas.fit();
    else return;
    event.preventDefault();
  });
}

const firstNode = (cy) => cy.nodes(".selected")[0] ?? cy.nodes(".expanded")[0] ?? cy.nodes()[0];

/** Return the nearest node in a direction; nodes beside the direction count as farther away. */
function findNext(cy, node, [dx, dy]) {
  const from = node.position();
  let best = null;
  for (const other of cy.nodes().toArray()) {
    const { x, y } = other.position();
    const ahead = (x - from.x) * dx + (y - from.y) * dy;
    const beside = Math.abs((x - from.x) * dy) + Math.abs((y - from.y) * dx);
    if (ahead <= 1 || beside > 2 * ahead) continue;
    const distance = ahead + 2 * beside;
    if (!best || distance < best.distance) best = { other, distance };
  }
  return best?.other ?? null;
}

function bringIntoView(cy, node) {
  const box = node.renderedBoundingBox();
  const move = (low, high, size) => (low < 8 ? 8 - low : high > size - 8 ? size - 8 - high : 0);
  cy.panBy({ x: move(box.x1, box.x2, cy.width()), y: move(box.y1, box.y2, cy.height()) });
}
