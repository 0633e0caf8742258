/* Texts come in by typing, pasting, dropping, opening a file, or choosing an example. */

import { byId, counted, make } from "./dom.js";
import { EXAMPLES } from "./examples.js";
import { lengthOf } from "./offsets.js";

// Bytes; no limit of a service is near it, and a browser can still show as much.
const LARGEST_FILE = 8_000_000;

/** Wire the text field. `onText(at once)` is told of every change, `onRefused(message)` of files that are no texts. */
export function textInput({ onText, onRefused }) {
  const field = byId("text");
  const set = (text) => {
    field.value = text;
    field.scrollTop = 0;
    onText(true);
  };
  const read = async (file) => {
    try {
      set(await textOf(file));
    } catch (error) {
      onRefused(error.message);
    }
  };
  field.addEventListener("input", (event) => onText(event.inputType === "insertFromPaste"));
  byId("clear").addEventListener("click", () => {
    set("");
    field.focus();
  });
  byId("open").addEventListener("click", () => byId("file").click());
  byId("file").addEventListener("change", ({ target }) => {
    if (target.files[0]) read(target.files[0]);
    target.value = "";
  });
  takeDrops({ read, set });
  offerExamples(set);
  return { field, count: (limit) => showCount(field, limit) };
}

async function textOf(file) {
  if (file.size > LARGEST_FILE) {
    const size = counted(file.size, "byte", "bytes");
    throw new Error(`${file.name} has ${size}, too many to show here. Extract from it with the command line.`);
  }
  const bytes = await file.arrayBuffer();
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new Error(`${file.name} is not a text in UTF-8. Save it as plain text and drop it again.`);
  }
  if (text.includes("\0")) throw new Error(`${file.name} holds binary data. Save it as plain text and drop it again.`);
  return text;
}

function takeDrops({ read, set }) {
  const veil = byId("drop");
  // Elements within the page are entered before the one around them is left, so a count of both tells when all are.
  let depth = 0;
  const carries = ({ dataTransfer }) => ["Files", "text/plain"].some((type) => dataTransfer?.types.includes(type));
  const over = (change) => {
    depth = Math.max(0, depth + change);
    veil.hidden = depth === 0;
  };
  document.addEventListener("dragenter", (event) => carries(event) && over(1));
  document.addEventListener("dragleave", (event) => carries(event) && over(-1));
  document.addEventListener("dragover", (event) => carries(event) && event.preventDefault());
  document.addEventListener("drop", (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    over(-depth);
    const [file] = event.dataTransfer.files;
    if (file) read(file);
    else set(event.dataTransfer.getData("text/plain"));
  });
}

function offerExamples(set) {
  for (const { title, short, text } of EXAMPLES) {
    const [first] = text.split(/(?<=\.) /u);
    const button = (kind, ...said) => make("button", { type: "button", class: kind, click: () => set(text) }, ...said);
    byId("examples").append(button("example", make("b", {}, title), make("span", {}, first)));
    byId("chips").append(button("chip", short));
  }
}

/** Say how long the text is; returns by how many characters it is too long. */
function showCount(field, limit) {
  const length = lengthOf(field.value);
  const over = limit ? Math.max(0, length - limit) : 0;
  const said = length ? counted(length, "character", "characters") : "";
  byId("count").textContent = limit && length > 0.8 * limit ? `${said} of ${limit.toLocaleString("en")}` : said;
  byId("count").classList.toggle("over", over > 0);
  byId("clear").hidden = !length;
  byId("chips").hidden = !length;
  return over;
}
