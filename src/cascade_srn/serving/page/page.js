/* The page: what is typed goes to the service, and what comes back becomes the result; errors are said on the way. */

import { confidence } from "./confidence.js";
import { byId, counted } from "./dom.js";
import { download } from "./downloads.js";
import { halved } from "./found.js";
import { textInput } from "./input.js";
import { Labels } from "./labels.js";
import { latest, settled } from "./latest.js";
import { clearResultNotice, keyForm, retryButton, sayAtResult, sayAtText, showBusy } from "./notices.js";
import { Result } from "./result.js";
import { Service } from "./service.js";

// Milliseconds without a change after which the service is asked.
const [TYPING_PAUSE, SLIDING_PAUSE] = [350, 60];

const service = new Service({
  onWait: (seconds, { code }) => {
    const why = code === "not_ready" ? "The model is still being loaded." : "The server is busy.";
    sayAtResult("waiting", `${why} Asking again in ${counted(seconds, "second", "seconds")}.`);
  },
});
const result = new Result();
// What the service says of itself, and its answers to the text as it is: by whether the thresholds were lowered.
let about = null;
const answers = new Map();

const input = textInput({
  onText: (atOnce) => {
    answers.clear();
    redraw.never();
    draw.abandon();
    result.age();
    if (!fits()) return;
    if (atOnce) ask.now();
    else ask();
  },
  onRefused: sayAtText,
});
const slider = confidence({ onLeast: () => show(), onWider: () => ask.now() });
const ask = settled(() => attempt(extract), TYPING_PAUSE);
const redraw = settled(() => attempt(draw), SLIDING_PAUSE);

/** Whether there is a text to ask about; what speaks against it is said. */
function fits() {
  const limit = about?.limits.characters;
  const over = input.count(limit);
  const blank = !input.field.value.trim();
  sayAtText(over ? tooLong(over, limit) : "");
  if (!over && !blank) return true;
  ask.never();
  extract.abandon();
  clearResultNotice();
  showBusy(false);
  if (over) result.sayIfAged();
  else clear();
  return false;
}

function tooLong(over, limit) {
  const [much, most] = [counted(over, "character", "characters"), limit.toLocaleString("en")];
  return `The text is ${much} too long: this server takes ${most} at most. Shorten it.`;
}

function clear() {
  result.clear();
  slider.offer(null);
}

const lowered = () => halved(about.thresholds, about.limits.threshold);

const extract = latest(async (signal) => {
  const wider = slider.wider;
  showBusy(true);
  await introduce(signal);
  if (!fits()) return;
  if (!answers.has(wider)) {
    const found = await service.extract(input.field.value, { thresholds: wider ? lowered() : null, signal });
    signal.throwIfAborted();
    answers.set(wider, found);
  }
  clearResultNotice();
  show(true);
});

/** Ask the service once what it knows and allows. */
async function introduce(signal) {
  if (about) return;
  about = await service.schema(signal);
  result.labels = new Labels(about);
  slider.explain(about.thresholds, lowered());
  byId("model").textContent = `Model ${about.model.name}`;
  byId("model").title = about.model.description;
  byId("model").hidden = !about.model.name;
  clearResultNotice();
}

/** Show what passes the slider. The model is not asked again; only the drawing comes from the service. */
function show(atOnce = false) {
  const found = answers.get(slider.wider);
  if (!found) return;
  slider.offer(found);
  result.show(found, slider.least);
  if (atOnce) redraw.now();
  else redraw();
}

const draw = latest(async (signal) => {
  const shown = result.shown;
  showBusy(true);
  const fragment = await service.draw(shown, signal);
  signal.throwIfAborted();
  result.drawn(fragment, shown);
  clearResultNotice();
  showBusy(false);
});

/** Do a job; where it fails, say why and offer to try again. */
async function attempt(job) {
  try {
    await job();
  } catch (error) {
    showBusy(false);
    result.sayIfAged();
    explain(error, () => attempt(job));
  }
}

function explain(error, again) {
  if (error.status === 401) askForKey();
  else if (error.ofText) {
    clearResultNotice();
    sayAtText(error.message);
  } else {
    const said = error.status === 503 ? "The server is too busy to answer just now." : error.message;
    sayAtResult("error", said, retryButton(again));
  }
}

function askForKey() {
  const typing = document.activeElement === input.field;
  const said = service.hasKey ? "That key is not the one." : "This server wants a key.";
  const use = (key) => {
    service.useKey(key);
    begin();
  };
  sayAtResult("asking", said, keyForm(use));
  if (!typing) byId("key").focus();
}

for (const form of ["jsonl", "brat", "svg"]) {
  const job = async () => {
    await download(form, result.shown, { service, drawing: result.drawing });
    clearResultNotice();
  };
  byId(`get-${form}`).addEventListener("click", () => attempt(job));
}

/** A browser may have kept the text when the page was loaded again; if not, the service can say who it is. */
function begin() {
  if (fits()) ask.now();
  else attempt(latest(introduce));
}

begin();
