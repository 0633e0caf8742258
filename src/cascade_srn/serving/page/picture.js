/*
 * The drawing as one SVG that stands for itself. Only a browser knows how wide words are, so it is laid out here, out
 * of sight and always equally wide, and what is then found on the page is written down: boxes, lines, texts.
 */

import { make, shape } from "./dom.js";

const WIDTH = 900;
const MARGIN = 20;
const BOXES = ".word.in, .bar, .legend .box, .curve > b";
// Characters that no XML may hold.
const UNFIT = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/gu;

/** A drawing, as `showDrawing` has put it into the page, as the text of an SVG file. */
export function picture(drawing) {
  const copy = drawing.cloneNode(true);
  for (const element of copy.querySelectorAll(".picked, .near")) element.classList.remove("picked", "near");
  const studio = make("div", { class: "studio", "aria-hidden": "true" }, copy);
  studio.style.width = `${WIDTH}px`;
  document.body.append(studio);
  try {
    return serialized(copy);
  } finally {
    studio.remove();
  }
}

function serialized(drawing) {
  const around = drawing.getBoundingClientRect();
  const at = ({ left, right, top, bottom }) => ({
    left: left - around.left, right: right - around.left, top: top - around.top, bottom: bottom - around.top,
  });
  const { fontFamily, color } = getComputedStyle(drawing);
  const size = { width: WIDTH + 2 * MARGIN, height: Math.ceil(around.height) + 2 * MARGIN };
  const svg = shape("svg", {
    ...size, viewBox: `${-MARGIN} ${-MARGIN} ${size.width} ${size.height}`, "font-family": fontFamily, fill: color,
  });
  const ground = getComputedStyle(document.querySelector(".result")).backgroundColor;
  svg.append(shape("title", {}, "Entities and relations"));
  svg.append(shape("rect", { x: -MARGIN, y: -MARGIN, ...size, fill: ground }));
  for (const curve of drawing.querySelectorAll(".curve")) svg.append(...drawnCurve(curve, at));
  for (const stroke of drawing.querySelectorAll(".legend .stroke")) svg.append(drawnStroke(stroke, at));
  for (const box of drawing.querySelectorAll(BOXES)) svg.append(...drawnBox(box, at, ground));
  for (const part of drawing.querySelectorAll(".word, .word i, .bar, .curve > b, .legend .of, .legend li")) {
    for (const node of part.childNodes) if (node.nodeType === Node.TEXT_NODE) svg.append(...drawnText(node, at));
  }
  return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(svg)}\n`;
}

function lineStyle({ classList }, colour, width) {
  const pattern = classList.contains("dashed") ? "5 3" : classList.contains("dotted") ? "1.5 2.5" : null;
  return { stroke: colour, "stroke-width": width, "stroke-dasharray": pattern };
}

function drawnBox(element, at, ground) {
  const box = at(element.getBoundingClientRect());
  const { backgroundColor, color } = getComputedStyle(element);
  // What is drawn over a line hides it.
  const fill = element.matches(".curve > b") ? ground : backgroundColor;
  const rounded = element.matches(".bar.opens.closes, .box") ? 2.5 : null;
  const [width, height] = [box.right - box.left, box.bottom - box.top];
  const drawn = [shape("rect", { x: box.left, y: box.top, width, height, rx: rounded, fill })];
  if (element.matches(".bar.dashed, .bar.dotted")) {
    const y = box.bottom - 1.5;
    drawn.push(shape("line", { x1: box.left, x2: box.right, y1: y, y2: y, ...lineStyle(element, color, 2) }));
  }
  return drawn;
}

function drawnStroke(element, at) {
  const { left, right, top } = at(element.getBoundingClientRect());
  const { borderTopColor } = getComputedStyle(element);
  const look = lineStyle(element.closest("li"), borderTopColor, 2);
  return shape("line", { x1: left, x2: right, y1: top + 1, y2: top + 1, ...look });
}

/** An arc's part in one chunk: along its top, and down where the arc ends, with a dot or an arrow head at the foot. */
function drawnCurve(element, at) {
  const style = getComputedStyle(element);
  const { left, right, top, bottom } = at(element.getBoundingClientRect());
  const [colour, thick] = [style.borderTopColor, Number.parseFloat(style.borderTopWidth) || 1.6];
  const [low, high, line, round] = [left + thick / 2, right - thick / 2, top + thick / 2, 6];
  const mirrored = style.direction === "rtl";
  const ends = { low: mirrored ? "right" : "left", high: mirrored ? "left" : "right" };
  const has = (side) => element.classList.contains(side);
  const up = `M${low} ${bottom}V${line + round}Q${low} ${line} ${low + round} ${line}`;
  const down = `H${high - round}Q${high} ${line} ${high} ${line + round}V${bottom}`;
  const path = (has(ends.low) ? up : `M${left} ${line}`) + (has(ends.high) ? down : `H${right}`);
  const drawn = [shape("path", { d: path, fill: "none", ...lineStyle(element, colour, thick) })];
  for (const [end, x] of [["low", low], ["high", high]]) {
    if (has(ends[end])) drawn.push(foot(x, bottom, has(`to-${ends[end]}`), colour));
  }
  return drawn;
}

function foot(x, y, arrow, fill) {
  return arrow
    ? shape("path", { d: `M${x - 4.5} ${y - 5.5}h9l-4.5 7.5z`, fill })
    : shape("circle", { cx: x, cy: y - 1, r: 3, fill });
}

const canvas = document.createElement("canvas").getContext("2d");

/** A text where it stands, line by line, kept to its width whichever font it will be shown in. */
function drawnText(node, at) {
  const style = getComputedStyle(node.parentElement);
  canvas.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  const { fontBoundingBoxAscent: ascent, fontBoundingBoxDescent: descent } = canvas.measureText("x");
  return linesOf(node).map(({ text, box }) => {
    const { left, right, top, bottom } = at(box);
    const y = (top + bottom + ascent - descent) / 2;
    const fitted = { textLength: right - left, lengthAdjust: "spacingAndGlyphs" };
    const bold = style.fontWeight === "400" ? null : style.fontWeight;
    const look = { "font-size": style.fontSize, "font-weight": bold, fill: style.color };
    // Where it begins is its left side, whichever way it runs.
    const anchor = style.direction === "rtl" ? { direction: "rtl", "text-anchor": "end" } : {};
    return shape("text", { x: left, y, ...fitted, ...look, ...anchor }, text.replace(UNFIT, "\ufffd").toWellFormed());
  });
}

function linesOf(node) {
  const range = document.createRange();
  range.selectNodeContents(node);
  const boxes = Array.from(range.getClientRects()).filter(({ width }) => width > 0);
  if (boxes.length < 2) return boxes.map((box) => ({ text: node.data, box }));
  const lines = [];
  let from = 0;
  for (const point of node.data) {
    range.setStart(node, from);
    range.setEnd(node, from + point.length);
    from += point.length;
    const box = boxes.find(({ top, bottom }) => {
      const here = range.getBoundingClientRect();
      return top <= here.top + here.height / 2 && here.top + here.height / 2 <= bottom;
    });
    if (lines.at(-1)?.box === box) lines.at(-1).text += point;
    else if (box) lines.push({ text: point, box });
  }
  return lines;
}
