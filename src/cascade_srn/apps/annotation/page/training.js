/* Training: start it, watch it, cancel it, and the curve of held-out scores over the number of annotated sentences. */

import { createHtml, createSvg, formatCount } from "../../web/shared/dom.js";
import { createNumbers, formatShare } from "./parts.js";
import { createFigure, createPlot, createPrecisionFigure, SERIES } from "./plots.js";

const POLL_SECONDS = 1;
const STATES = {
  idle: "",
  running: "Training",
  stopping: "Stopping",
  done: "Training is finished.",
  failed: "Training has failed.",
  cancelled: "Training was cancelled. The model before it is still used.",
};

/** Set up the view. `onStatus(status)` gets each state, `onTrained()` is called when a run has finished. */
export function createTrainingView(container, { api, attempt, onStatus, onTrained }) {
  const parts = createParts();
  container.replaceChildren(parts.top, parts.box, parts.curve);
  let last = null;
  let timer = 0;

  const isActive = (status) => status?.state === "running" || status?.state === "stopping";

  async function refresh() {
    clearTimeout(timer);
    const status = await api.training();
    onStatus(status);
    showStatus(parts, status);
    if (isActive(last) && status.state === "done") onTrained();
    last = status;
    if (isActive(status)) timer = setTimeout(() => attempt(refresh), 1000 * POLL_SECONDS);
  }

  const control = (job) => () => attempt(async () => {
    parts.start.disabled = true;
    parts.cancel.disabled = true;
    try {
      await job();
    } finally {
      await refresh();
    }
  });
  parts.start.addEventListener("click", control(async () => {
    await api.startTraining(parts.raw.checked);
    // Also if it is finished before the first question.
    last = { state: "running" };
  }));
  parts.cancel.addEventListener("click", control(() => api.cancelTraining()));
  return { show: refresh };
}

function createParts() {
  const start = createHtml("button", { type: "button", class: "action primary", id: "train" }, "Train");
  const attributes = { type: "button", class: "action", id: "cancel-training", hidden: true };
  const cancel = createHtml("button", attributes, "Cancel");
  const bar = createHtml("progress", { id: "training-bar", max: 1, "aria-label": "Training" });
  const state = createHtml("p", { id: "training-state", role: "status" });
  const help = createHtml("p", { class: "help" });
  const raw = createHtml("input", { type: "checkbox", id: "train-raw" });
  const rawText = "Learn from the text of open documents, too. This takes several times as long.";
  const rawLabel = createHtml("label", { class: "help", for: "train-raw" }, raw, ` ${rawText}`);
  const top = createHtml("div", { class: "title-row" }, createHtml("h2", {}, "Training"), cancel, start);
  const box = createHtml("div", { class: "training" }, state, bar, help, rawLabel);
  return { start, raw, cancel, bar, state, help, top, box, curve: createHtml("div", { class: "curve-box" }) };
}

function showStatus(parts, status) {
  const isActive = status.state === "running" || status.state === "stopping";
  const epoch = isActive && status.n_epochs ? `, epoch ${status.epoch} of ${status.n_epochs}` : "";
  const seconds = isActive ? `, ${formatSeconds(status.seconds)}` : "";
  const left = isActive && typeof status.seconds_left === "number" ? `, about ${formatSeconds(status.seconds_left)} left` : "";
  const text = `${STATES[status.state]}${epoch}${seconds}${left}${isActive ? "." : ""}`;
  const message = status.state === "cancelled" ? "" : status.message;
  parts.state.textContent = [text, message].filter(Boolean).join(" ");
  parts.state.classList.toggle("problem", status.state === "failed");
  parts.bar.hidden = !isActive;
  if (status.n_epochs) parts.bar.value = status.epoch / status.n_epochs;
  else parts.bar.removeAttribute("value");
  parts.start.hidden = isActive;
  parts.start.disabled = false;
  parts.raw.disabled = isActive;
  parts.cancel.hidden = !isActive;
  parts.cancel.disabled = status.state === "stopping";
  parts.help.textContent = `${status.advice} You can go on annotating while it runs.`;
  showCurve(parts.curve, status);
}

const formatSeconds = (seconds) => (seconds < 90 ? `${Math.round(seconds ?? 0)} s` : `${Math.round(seconds / 60)} min`);

/** Show the scores as a picture and as a table. */
function showCurve(container, { curve, note, precision_curves: precisionCurves = [] }) {
  if (!curve.length) {
    const text =
      "After each training run, a point of the learning curve appears here: " +
      "scores on held-out sentences over the number of annotated sentences.";
    container.replaceChildren(createHtml("p", { class: "nothing" }, text));
    return;
  }
  // Runs of the same size stay in the order of time.
  const points = curve.toSorted((a, b) => a.n_sentences - b.n_sentences);
  const createRow = (point) => [
    point.n_sentences.toLocaleString("en"),
    formatInterval(point, "ner"),
    formatInterval(point, "re"),
    point.n_held_out.toLocaleString("en"),
    formatTime(point.time),
  ];
  const headings = ["Sentences", "Entities F1", "Relations F1", "Held out", "Time"];
  container.replaceChildren(
    createHtml("h3", {}, "Scores on held-out sentences"),
    createPicture(points),
    createHtml("p", { class: "help", id: "curve-note" }, note),
    createNumbers("Scores of all training runs, the latest first", headings, curve.toReversed().map(createRow)),
    ...(precisionCurves.length ? createPrecisionFigure(precisionCurves) : []),
  );
}

function createPicture(points) {
  const sizes = points.map(({ n_sentences: n }) => n);
  const [least, most] = [points.length > 1 ? sizes[0] : 0, sizes.at(-1)];
  const latest = points.at(-1);
  const scores = `entities ${formatShare(latest.ner)}, relations ${formatShare(latest.re)}`;
  const plot = createPlot(`F1 at ${formatCount(most, "sentence", "sentences")}: ${scores}`, {
    x: { least, most, ticks: [sizes[0], sizes[Math.floor((sizes.length - 1) / 2)], most], title: "annotated sentences" },
  });
  for (const series of SERIES) plot.svg.append(...drawSeries(points, series, plot));
  return createFigure(plot.svg);
}

function drawSeries(all, { value, css }, { x, y, place }) {
  const points = all.filter((point) => typeof point[value] === "number");
  const [low, high] = [`${value}_low`, `${value}_high`];
  const banded = points.filter((point) => typeof point[low] === "number" && typeof point[high] === "number");
  const upper = banded.map((point) => place(point.n_sentences, point[high]));
  const lower = banded.map((point) => place(point.n_sentences, point[low]));
  const line = points.map((point) => place(point.n_sentences, point[value])).join("L");
  const band = `M${[...upper, ...lower.toReversed()].join("L")}Z`;
  return [
    ...(banded.length > 1 ? [createSvg("path", { class: `band ${css}`, d: band })] : []),
    ...banded.map((_, at) => createSvg("path", { class: `whisker ${css}`, d: `M${upper[at]}L${lower[at]}` })),
    ...(points.length > 1 ? [createSvg("path", { class: `line ${css}`, d: `M${line}` })] : []),
    ...points.map((point) => createSvg("circle", { class: css, cx: x(point.n_sentences), cy: y(point[value]), r: 4 })),
  ];
}

function formatInterval(point, value) {
  const [low, high] = [point[`${value}_low`], point[`${value}_high`]];
  const interval = typeof low === "number" ? ` (${formatShare(low)}–${formatShare(high)})` : "";
  return `${formatShare(point[value])}${interval}`;
}

function formatTime(time) {
  return new Date(time).toLocaleString(undefined, { dateStyle: "short", timeStyle: "short" });
}
