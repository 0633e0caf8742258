/* The page: send the text to the service, and show the result or the error. */

import { byId, formatCount } from "../../web/shared/dom.js";
import { Labels } from "../../web/shared/labels.js";
import { askForKey, clearNotice, createAttempt, offerRetry, showBusy, showNotice } from "../../web/shared/notices.js";
import { Service } from "../../web/shared/service.js";
import { debounce, latestOnly } from "../../web/shared/timing.js";
import { halveThresholds } from "./annotations.js";
import { DOWNLOAD_FORMATS, download } from "./downloads.js";
import { createTextInput } from "./input.js";
import { Result } from "./result.js";
import { createScoreFilter } from "./score_filter.js";

// Milliseconds without a change before a request is sent.
const [TYPING_DELAY, SLIDER_DELAY] = [350, 60];

const service = new Service({
  onWait: (seconds, { code }) => {
    const reason = code === "not_ready" ? "The model is still loading." : "The server is busy.";
    showNotice("waiting", `${reason} Retrying in ${formatCount(seconds, "second", "seconds")}.`);
  },
});
const result = new Result();
let schema = null;
// Answers for the current text, by the settings of the request.
const answers = new Map();

const input = createTextInput({
  onText: (immediate) => {
    answers.clear();
    requestDrawing.cancel();
    draw.abort();
    result.markStale();
    if (!checkText()) return;
    if (immediate) requestExtraction.now();
    else requestExtraction();
  },
  onError: showTextError,
});
const filter = createScoreFilter({ onMinScore: () => show(), onRequest: () => requestExtraction.now() });
/** The key of an answer: what its request depends on, besides the text. */
const requestKey = () => `${filter.overlaps} ${filter.lowersThresholds}`;
const requestExtraction = debounce(() => attempt(extract), TYPING_DELAY);
const requestDrawing = debounce(() => attempt(draw), SLIDER_DELAY);

/** Show an error about the text below its field; an empty message removes it. */
function showTextError(message) {
  byId("text-error").textContent = message;
  byId("text-error").hidden = !message;
  input.field.setAttribute("aria-invalid", String(Boolean(message)));
}

/** Return whether the text can be sent, and show the error if it is too long. */
function checkText() {
  const limit = schema?.limits.characters;
  const excess = input.showCount(limit);
  showTextError(excess ? describeExcess(excess, limit) : "");
  if (!excess && input.field.value.trim()) return true;
  requestExtraction.cancel();
  extract.abort();
  clearNotice();
  showBusy(false);
  if (excess) result.reportStale();
  else clear();
  return false;
}

function describeExcess(excess, limit) {
  const count = formatCount(excess, "character", "characters");
  return `The text is ${count} too long. The limit of this server is ${limit.toLocaleString("en")}.`;
}

function clear() {
  result.clear();
  filter.showScores(null);
}

const lowerThresholds = () => halveThresholds(schema.thresholds, schema.limits.threshold);

const extract = latestOnly(async (signal) => {
  showBusy(true);
  await loadSchema(signal);
  if (!checkText()) return;
  const key = requestKey();
  if (!answers.has(key)) {
    const thresholds = filter.lowersThresholds ? lowerThresholds() : null;
    const document = await service.extract(input.field.value, { thresholds, overlaps: filter.overlaps, signal });
    signal.throwIfAborted();
    answers.set(key, document);
  }
  clearNotice();
  show(true);
});

/** Load the labels, thresholds and limits of the service once. */
async function loadSchema(signal) {
  if (schema) return;
  schema = await service.fetchSchema(signal);
  result.labels = new Labels(schema);
  filter.describe(schema.thresholds, lowerThresholds());
  filter.setOverlaps(schema.overlaps);
  byId("model").textContent = `Model ${schema.model.name}`;
  byId("model").title = schema.model.description;
  byId("model").hidden = !schema.model.name;
  clearNotice();
}

/** Show the results above the minimum score. The model does not run again; only the drawing is requested. */
function show(immediate = false) {
  const document = answers.get(requestKey());
  if (!document) return;
  filter.showScores(document);
  result.show(document, filter.minScore);
  if (immediate) requestDrawing.now();
  else requestDrawing();
}

const draw = latestOnly(async (signal) => {
  const shown = result.shown;
  showBusy(true);
  const fragment = await service.draw(shown, { signal });
  signal.throwIfAborted();
  result.showDrawing(fragment, shown);
  clearNotice();
  showBusy(false);
});

const attempt = createAttempt((error, onRetry) => {
  result.reportStale();
  if (error.status === 401) askForKey(service, start, { takesFocus: document.activeElement !== input.field });
  else if (error.isAboutText) {
    clearNotice();
    showTextError(error.message);
  } else {
    const message = error.status === 503 ? "The server is too busy to answer." : error.message;
    offerRetry(message, onRetry);
  }
});

for (const format of DOWNLOAD_FORMATS) {
  const job = async () => {
    await download(format, result, service);
    clearNotice();
  };
  byId(`get-${format}`).addEventListener("click", () => attempt(job));
}

/** Extract from the text that the browser kept over a reload, or only load the schema if there is none. */
function start() {
  if (checkText()) requestExtraction.now();
  else attempt(latestOnly(loadSchema));
}

start();
