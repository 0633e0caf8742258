/* Pictures of the drawn graph: PNG by Cytoscape, and SVG from the places of its nodes and edges. */

import { LINE_HEIGHT, readColours } from "./canvas_style.js";
import { createSvg } from "./dom.js";

const MARGIN = 20;
const DASHES = { dashed: "6 3", dotted: "2 3" };
const FONT = "system-ui, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";

/** Return the drawn graph as a PNG file, at twice its size. */
export function createPng({ cy }) {
  const colours = readColours();
  colours.close();
  cy.elements().removeClass("focused");
  return cy.png({ output: "blob-promise", full: true, scale: 2, bg: colours.sheet, maxWidth: 8000, maxHeight: 8000 });
}

/** Return the drawn graph as an SVG file. */
export function createSvgFile({ cy }, title) {
  const colours = readColours();
  colours.close();
  const box = cy.elements().boundingBox();
  const [x, y, width, height] = [box.x1 - MARGIN, box.y1 - MARGIN, box.w + 2 * MARGIN, box.h + 2 * MARGIN].map(round);
  const svg = createSvg(
    "svg",
    { viewBox: `${x} ${y} ${width} ${height}`, width, height, "font-family": FONT, role: "img" },
    createSvg("title", {}, title),
    createSvg("rect", { x, y, width, height, fill: colours.sheet }),
    // Edges in the background first.
    ...cy.edges(".inner").union(cy.edges()).map((edge) => drawEdge(edge, colours)),
    ...cy.nodes().map(drawNode),
  );
  const text = new XMLSerializer().serializeToString(svg);
  return new Blob([`<?xml version="1.0" encoding="UTF-8"?>\n${text}\n`], { type: "image/svg+xml" });
}

function drawNode(node) {
  const { name, label, lines, size, width, height, fill, line, ink, border } = node.data();
  const { x, y } = node.position();
  const first = y - ((lines.length - 1) * size * LINE_HEIGHT) / 2;
  return createSvg(
    "g",
    { opacity: node.numericStyle("opacity") },
    createSvg("title", {}, clean(`${name}: ${label}`)),
    createSvg("rect", { x: round(x - width / 2), y: round(y - height / 2), width, height, rx: 8, fill, stroke: line,
      "stroke-width": node.hasClass("expanded") ? 2.6 : 1.2, "stroke-dasharray": DASHES[border] }),
    ...lines.map((text, number) =>
      createSvg("text", { x: round(x), y: round(first + number * size * LINE_HEIGHT), "text-anchor": "middle",
        "dominant-baseline": "central", "font-size": round(size), "font-weight": 500, fill: ink }, clean(text))),
  );
}

function drawEdge(edge, { sheet }) {
  const { label, line, ink, width, dash, arrow } = edge.data();
  const [from, to] = [edge.sourceEndpoint(), edge.targetEndpoint()];
  const controls = edge.controlPoints() ?? [];
  const path = [`M${point(from)}`, ...curve(controls, to)].join(" ");
  const before = controls.at(-1) ?? from;
  return createSvg(
    "g",
    { opacity: edge.numericStyle("opacity") },
    createSvg("path", { d: path, fill: "none", stroke: line, "stroke-width": round(width),
      "stroke-dasharray": DASHES[dash] }),
    ...(arrow === "none" ? [] : [drawArrow(before, to, line, width)]),
    ...(edge.style("label") ? [drawLabel(edge.midpoint(), readableAngle(from, to), label, ink, sheet)] : []),
  );
}

function drawLabel(middle, angle, label, fill, sheet) {
  return createSvg("text", { x: round(middle.x), y: round(middle.y), "text-anchor": "middle", fill, stroke: sheet,
    "dominant-baseline": "central", "font-size": 10, "font-weight": 600, "stroke-width": 3, "paint-order": "stroke",
    transform: `rotate(${angle} ${point(middle)})` }, clean(label));
}

/** Return the segments of a curve; a loop has two control points and passes between them. */
function curve(controls, to) {
  if (!controls.length) return [`L${point(to)}`];
  return controls.map((control, number) => {
    const next = controls[number + 1];
    const end = next ? { x: (control.x + next.x) / 2, y: (control.y + next.y) / 2 } : to;
    return `Q${point(control)} ${point(end)}`;
  });
}

function drawArrow(before, { x, y }, fill, width) {
  const angle = (180 / Math.PI) * Math.atan2(y - before.y, x - before.x);
  const size = round(6 + 1.5 * width);
  const transform = `translate(${round(x)} ${round(y)}) rotate(${round(angle)})`;
  return createSvg("path", { d: `M0 0 L${-size} ${-size / 2} L${-size} ${size / 2} Z`, fill, transform });
}

/** Return the angle of a line in degrees, turned so that text is never upside down. */
function readableAngle(from, to) {
  const angle = (180 / Math.PI) * Math.atan2(to.y - from.y, to.x - from.x);
  return round(angle > 90 ? angle - 180 : angle < -90 ? angle + 180 : angle);
}

// Characters that XML does not allow, not even escaped.
const clean = (text) => text.replace(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, "\ufffd");
const round = (number) => Math.round(10 * number) / 10;
const point = ({ x, y }) => `${round(x)} ${round(y)}`;
