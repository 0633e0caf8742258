/* The text field: typing, pasting, dropping, opening a file, or choosing an example. */

import { byId, createHtml, formatCount } from "../../web/shared/dom.js";
import { countCodePoints } from "../../web/shared/offsets.js";

// In bytes: above the limits of any service, and small enough for a browser to show.
const MAX_FILE_SIZE = 8_000_000;

// Short abstracts, written for this page.
const EXAMPLES = [
  {
    title: "Dependency parsing",
    short: "Parsing",
    text: `We present a transition-based dependency parser for languages with small treebanks. \
A multilingual encoder provides contextual word embeddings, and self-training on raw text adapts the encoder to the \
target language. We evaluate the parser on twelve treebanks of the Universal Dependencies corpus. It outperforms a \
graph-based parser by 2.4 points in labelled attachment score. Part-of-speech tags, a common feature in dependency \
parsing, no longer improve accuracy once the encoder has been adapted.`,
  },
  {
    title: "Event coreference",
    short: "Events",
    text: `Cross-document event coreference resolution is difficult because mentions of one event rarely share words. \
We propose a graph attention network that links event mentions through their arguments. The network is pretrained on \
news articles and fine-tuned on the ECB+ corpus. Compared with a pairwise classifier, our method improves CoNLL F1 by \
3.1 points and uses half the memory. We also release an annotation tool for coreference chains.`,
  },
  {
    title: "Speech translation",
    short: "Speech",
    text: `End-to-end speech translation avoids the errors that a pipeline of speech recognition and machine \
translation accumulates. We train a Transformer on audiobooks with knowledge distillation from a text translation \
model. A convolutional layer shortens the acoustic features, which reduces training time by a third. On the MuST-C \
corpus, our system achieves higher BLEU scores than the pipeline for German and Spanish.`,
  },
];

/**
 * Set up the text field.
 *
 * `onText(immediate)` is called after every change; `immediate` is false while typing. `onError(message)` is called
 * for files that cannot be read.
 */
export function createTextInput({ onText, onError }) {
  const field = byId("text");
  const setText = (text) => {
    field.value = text;
    field.scrollTop = 0;
    onText(true);
  };
  const openFile = async (file) => {
    try {
      setText(await readText(file));
    } catch (error) {
      onError(error.message);
    }
  };
  field.addEventListener("input", (event) => onText(event.inputType === "insertFromPaste"));
  byId("clear").addEventListener("click", () => {
    setText("");
    field.focus();
  });
  byId("open").addEventListener("click", () => byId("file").click());
  byId("file").addEventListener("change", ({ target }) => {
    if (target.files[0]) openFile(target.files[0]);
    target.value = "";
  });
  acceptDrops({ openFile, setText });
  showExamples(setText);
  return { field, showCount: (limit) => showCount(field, limit) };
}

async function readText(file) {
  if (file.size > MAX_FILE_SIZE) {
    const size = formatCount(file.size, "byte", "bytes");
    throw new Error(`${file.name} is too large to show (${size}). Use the command line instead.`);
  }
  const bytes = await file.arrayBuffer();
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new Error(`${file.name} is not UTF-8 text. Save it as plain text.`);
  }
  if (text.includes("\0")) throw new Error(`${file.name} is a binary file. Save it as plain text.`);
  return text;
}

function acceptDrops({ openFile, setText }) {
  // Child elements are entered before their parent is left, so the overlay needs a count of both events.
  let depth = 0;
  const changeDepth = (change) => {
    depth = Math.max(0, depth + change);
    byId("drop").hidden = depth === 0;
  };
  const hasText = ({ dataTransfer }) => ["Files", "text/plain"].some((type) => dataTransfer?.types.includes(type));
  document.addEventListener("dragenter", (event) => hasText(event) && changeDepth(1));
  document.addEventListener("dragleave", (event) => hasText(event) && changeDepth(-1));
  document.addEventListener("dragover", (event) => hasText(event) && event.preventDefault());
  document.addEventListener("drop", (event) => {
    if (!hasText(event)) return;
    event.preventDefault();
    changeDepth(-depth);
    const [file] = event.dataTransfer.files;
    if (file) openFile(file);
    else setText(event.dataTransfer.getData("text/plain"));
  });
}

function showExamples(setText) {
  for (const { title, short, text } of EXAMPLES) {
    const [firstSentence] = text.split(/(?<=\.) /u);
    const createButton = (css, ...children) =>
      createHtml("button", { type: "button", class: css, click: () => setText(text) }, ...children);
    byId("examples").append(
      createButton("example", createHtml("b", {}, title), createHtml("span", {}, firstSentence)),
    );
    byId("chips").append(createButton("chip", short));
  }
}

/** Show the length of the text, and return the number of characters above the limit. */
function showCount(field, limit) {
  const length = countCodePoints(field.value);
  const excess = limit ? Math.max(0, length - limit) : 0;
  const count = length ? formatCount(length, "character", "characters") : "";
  byId("count").textContent = limit && length > 0.8 * limit ? `${count} of ${limit.toLocaleString("en")}` : count;
  byId("count").classList.toggle("over", excess > 0);
  byId("clear").hidden = !length;
  byId("chips").hidden = !length;
  return excess;
}
