/* What is shown as a file: our JSON lines, brat's two files in a zip, a picture. */

import { picture } from "./picture.js";
import { zipped } from "./zip.js";

const NAME = "extracted";

/** The document as a line of the package's own format, in which relations name entities by their places. */
export function jsonLine({ id, text, sentences, entities, relations }) {
  const scored = (score) => (score === null || score === undefined ? {} : { score });
  const line = {
    id,
    text,
    words: sentences,
    entities: entities.map(({ id: _, score, ...entity }) => ({ ...entity, ...scored(score) })),
    relations: relations.map(({ head, label, tail, score }) => ({ head, label, tail, ...scored(score) })),
  };
  return `${JSON.stringify(line)}\n`;
}

/** Save a document in one of the forms: "jsonl", "brat" or "svg"; `drawing` is the element that shows it. */
export async function download(form, found, { service, drawing }) {
  if (form === "jsonl") {
    save(new Blob([jsonLine(found)], { type: "application/jsonl" }), `${NAME}.jsonl`);
  } else if (form === "brat") {
    const { txt, ann } = await service.brat(found);
    save(zipped({ [`${NAME}.txt`]: txt, [`${NAME}.ann`]: ann }), `${NAME}-brat.zip`);
  } else {
    save(new Blob([picture(drawing)], { type: "image/svg+xml" }), `${NAME}.svg`);
  }
}

function save(blob, name) {
  const address = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  // The browser has to have begun reading before the address may go.
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
