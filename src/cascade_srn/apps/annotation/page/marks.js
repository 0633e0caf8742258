/* Draw the entities and relations of one sentence: tinted words, bars below them and arcs above them. */

import { createHtml, createSvg, formatScore } from "../../web/shared/dom.js";
import { assignRows, cutIntoPieces, placeArcs } from "./layout.js";

const [ROW, LEVEL, STEM, RADIUS] = [18, 19, 7, 6];
const LABEL_FONT = "600 11px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";
const MAX_LABEL = 180;

let canvas = null;

/** Return the width of a label in pixels. */
function measureLabel(text) {
  canvas ??= document.createElement("canvas").getContext("2d");
  canvas.font = LABEL_FONT;
  return Math.min(MAX_LABEL, canvas.measureText(text).width + 10);
}

const describe = ({ label, score, isOpen }) => (isOpen ? `${label} ${formatScore(score)}` : label);

/**
 * Compute where the marks of a sentence go.
 *
 * `entities` have {first, last}, positions in `places`. Returns the space above and below each line, and the placed
 * bars and arcs.
 */
export function layOut({ entities, relations }, places, { nLines, width, isRightToLeft, labels }) {
  const rows = assignRows(entities);
  const bars = entities.flatMap((entity) =>
    cutIntoPieces(places, entity.first, entity.last).map((piece) => ({ entity, piece, row: rows.get(entity.key) })),
  );
  const firstPiece = new Map();
  for (const { entity, piece } of bars) if (!firstPiece.has(entity.key)) firstPiece.set(entity.key, piece);
  const byKey = new Map(relations.map((relation) => [relation.key, relation]));
  const ends = relations.map((relation) => ({
    key: relation.key,
    head: { key: relation.head, piece: firstPiece.get(relation.head) },
    tail: { key: relation.tail, piece: firstPiece.get(relation.tail) },
    labelWidth: measureLabel(describe(relation)),
  }));
  const arcs = placeArcs(ends, width, isRightToLeft).map((arc) => ({ ...arc, relation: byKey.get(arc.key) }));
  const above = new Array(nLines).fill(0);
  const below = new Array(nLines).fill(0);
  for (const { level, segments } of arcs) {
    for (const { line } of segments) above[line] = Math.max(above[line], (level + 1) * LEVEL + STEM);
  }
  for (const { piece, row } of bars) below[piece.line] = Math.max(below[piece.line], (row + 1) * ROW);
  return { bars, arcs, above, below, labels };
}

/** Create the tints behind the words. `tops` and `heights` are those of the text of each line. */
export function drawTints({ bars, labels }, tops, heights) {
  return bars
    .filter(({ row }) => row === 0)
    .map(({ entity, piece }) => {
      const css = `tint ${labels.entityClass(entity.label)}${entity.isOpen ? " open" : ""}`;
      const tint = createHtml("div", { class: css, "data-key": entity.key });
      return place(tint, { left: piece.left - 2, top: tops[piece.line], width: piece.right - piece.left + 4,
        height: heights[piece.line] });
    });
}

/** Create the bars below the words. A label may reach beyond its words, up to the next bar of its row. */
export function drawBars({ bars, labels }, tops, heights, width) {
  return bars.map(({ entity, piece, row }) => {
    const next = bars
      .filter((other) => other.row === row && other.piece.line === piece.line && other.piece.left > piece.left)
      .reduce((least, other) => Math.min(least, other.piece.left - 3), width);
    const text = describe(entity);
    const own = piece.right - piece.left + 4;
    const css = ["bar", labels.entityClass(entity.label), piece.opens && "opens", piece.closes && "closes"];
    const attributes = { class: [...css, entity.isOpen && "open"].filter(Boolean).join(" "), "data-key": entity.key };
    const bar = createHtml("div", { ...attributes, title: text }, createHtml("span", {}, text));
    return place(bar, {
      left: piece.left - 2,
      top: tops[piece.line] + heights[piece.line] + row * ROW,
      width: Math.max(own, Math.min(measureLabel(text) + 2, next - piece.left + 2)),
    });
  });
}

/** Create the lines of all arcs as one picture, and their labels as elements that can be clicked. */
export function drawArcs({ arcs, labels }, tops, { width, height }) {
  const svg = createSvg("svg", { class: "arcs", width, height, "aria-hidden": "true" });
  const names = [];
  for (const { key, relation, from, to, segments, labelled, middle, level } of arcs) {
    const css = `${labels.relationClass(relation.label)}${relation.isOpen ? " open" : ""}`;
    const heightOf = (line) => tops[line] - STEM - level * LEVEL - LEVEL / 2;
    const paths = segments.map((segment) => createSvg("path", { d: arcPath(segment, from, to, heightOf, tops) }));
    const isDirected = labels.isDirected(relation.label);
    const ends = [drawEnd(from, tops, false), drawEnd(to, tops, isDirected)];
    svg.append(createSvg("g", { class: `arc ${css}`, "data-key": key }, ...paths, ...ends));
    const text = describe(relation);
    const name = createHtml("div", { class: `arc-label ${css}`, "data-key": key, title: text }, text);
    names.push(place(name, { left: middle, top: heightOf(segments[labelled].line) }));
  }
  return [svg, ...names];
}

function arcPath({ line, left, right }, from, to, heightOf, tops) {
  const y = heightOf(line);
  const bottom = tops[line] - 2;
  const isEnd = (x) => (from.line === line && from.x === x) || (to.line === line && to.x === x);
  const radius = Math.min(RADIUS, (right - left) / 2);
  const begin = isEnd(left) ? `M${left} ${bottom}V${y + radius}Q${left} ${y} ${left + radius} ${y}` : `M${left} ${y}`;
  const end = isEnd(right) ? `H${right - radius}Q${right} ${y} ${right} ${y + radius}V${bottom}` : `H${right}`;
  return begin + end;
}

function drawEnd({ line, x }, tops, isArrow) {
  const y = tops[line] - 1;
  if (isArrow) return createSvg("path", { class: "end", d: `M${x - 4} ${y - 6}h8l-4 7z` });
  return createSvg("circle", { class: "end", cx: x, cy: y - 2, r: 2.4 });
}

/** Set the position and size of an element in pixels. */
export function place(element, { left, top, width = undefined, height = undefined }) {
  Object.assign(element.style, { left: `${left}px`, top: `${top}px` });
  if (width !== undefined) element.style.width = `${width}px`;
  if (height !== undefined) element.style.height = `${height}px`;
  return element;
}
