/* Plots of the training view: axes, and precision by recall with the levels that can be promised. */

import { createHtml, createSvg } from "../../web/shared/dom.js";
import { formatShare } from "./parts.js";

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [640, 300, 44, 16, 14, 40];
export const SERIES = [
  { name: "Entities", value: "ner", task: "ner", css: "of-entity" },
  { name: "Relations", value: "re", task: "re_strict", css: "of-relation" },
];

/** Create the axes of a plot. The y axis has shares. Returns the picture and functions that place points on it. */
export function createPlot(label, { x: { least, most, ticks, title, format = (value) => String(value) } }) {
  const x = (value) => LEFT + ((WIDTH - LEFT - RIGHT) * (value - least)) / (most - least || 1);
  const y = (share) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - share);
  const place = (value, share) => `${x(value).toFixed(1)} ${y(share).toFixed(1)}`;
  const attributes = { role: "img", "aria-label": label, viewBox: `0 0 ${WIDTH} ${HEIGHT}` };
  const svg = createSvg("svg", { class: "curve", ...attributes });
  const addText = (at, height, anchor, text) => {
    svg.append(createSvg("text", { x: at, y: height, "text-anchor": anchor }, text));
  };
  for (const share of [0, 0.2, 0.4, 0.6, 0.8, 1]) {
    svg.append(createSvg("line", { class: "rule", x1: LEFT, x2: WIDTH - RIGHT, y1: y(share), y2: y(share) }));
    addText(LEFT - 8, y(share) + 4, "end", String(100 * share));
  }
  for (const value of new Set(ticks)) addText(x(value), HEIGHT - BOTTOM + 18, "middle", format(value));
  addText((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 4, "middle", title);
  return { svg, x, y, place };
}

/** Create a figure of a picture with a legend. */
export function createFigure(svg) {
  const legend = SERIES.map(({ name, css }) => createHtml("li", { class: css }, name));
  const list = createHtml("ul", { class: "curve-legend", "aria-hidden": "true" }, ...legend);
  return createHtml("figure", { class: "curve-figure" }, svg, list);
}

/** Create the plot of precision by recall: lines are measured, points promised. Returns elements. */
export function createPrecisionFigure(curves) {
  const shown = SERIES.map((series) => ({ ...series, curve: curves.find(({ task }) => task === series.task) }));
  const known = shown.filter(({ curve }) => curve);
  const texts = known.map(describePromise);
  const { svg, x, y, place } = createPlot(`Precision by recall. ${texts.join(" ")}`, {
    x: { least: 0, most: 1, ticks: [0, 0.25, 0.5, 0.75, 1], title: "recall (%)", format: (share) => String(100 * share) },
  });
  for (const { css, curve } of known) {
    const line = curve.measured.map(([, precision, recall]) => place(recall, precision)).join("L");
    svg.append(createSvg("path", { class: `line ${css}`, d: `M${line}` }));
    for (const [level, score, recall] of curve.promised) {
      const title = `at least ${formatShare(level)} %: recall ${formatShare(recall)} %, score from ${score}`;
      const point = { class: `promised ${css}`, cx: x(recall), cy: y(level), r: 4 };
      svg.append(createSvg("circle", point, createSvg("title", {}, title)));
    }
  }
  const help =
    "Strict: words and types count. Lines are measured on the held-out documents. Points are precisions that the " +
    "newest model promises with 95 % confidence, with their recall; ask for one with --precision.";
  return [
    createHtml("h3", {}, "Precision (%) by recall, and what can be promised"),
    createFigure(svg),
    createHtml("p", { class: "help", id: "precision-note" }, [help, ...texts].join(" ")),
  ];
}

function describePromise({ name, curve }) {
  const [best] = curve.promised;
  if (!best) return `${name}: no precision can be promised; annotate more held-out documents.`;
  return `${name}: up to ${formatShare(best[0])} % can be promised, with a recall of ${formatShare(best[2])} %.`;
}
