/* Save the shown document as a file: JSON lines, the two files of brat standoff, or an SVG picture. */

import { saveFile } from "../../web/shared/dom.js";

const MEDIA_TYPES = { jsonl: "application/jsonl", ann: "text/plain", txt: "text/plain", svg: "image/svg+xml" };

export const DOWNLOAD_FORMATS = Object.keys(MEDIA_TYPES);

/** Save a result in one of the download formats. The picture is that of the graph if the graph is shown. */
export async function download(format, result, service) {
  const graph = format === "svg" ? result.graphPicture() : null;
  const blob = graph ?? new Blob([await convert(format, result.shown, service)], { type: MEDIA_TYPES[format] });
  saveFile(blob, `extracted.${format}`);
}

async function convert(format, document, service) {
  if (format === "jsonl") return toJsonLine(document);
  if (format === "svg") return service.draw(document, { format });
  return (await service.convertToBrat(document))[format];
}

/** Return the document as a line of the package's own format, in which relations refer to entities by position. */
function toJsonLine({ id, text, sentences, entities, relations, clusters = [] }) {
  const withScore = (score) => (score === null || score === undefined ? {} : { score });
  const line = {
    id,
    text,
    words: sentences,
    entities: entities.map(({ id: _, score, ...entity }) => ({ ...entity, ...withScore(score) })),
    relations: relations.map(({ head, label, tail, score }) => ({ head, label, tail, ...withScore(score) })),
    ...(clusters.length ? { clusters } : {}),
  };
  return `${JSON.stringify(line)}\n`;
}
