/* Tables of the triples and entities of a document. Entity names are buttons that select the entity. */

import { createHtml, formatCount, formatScore } from "../../web/shared/dom.js";
import { createEntityButton, createLevel, createRelationLabel, showTable } from "../../web/shared/lists.js";
import { entityKey, resolveTriples } from "./annotations.js";

/** Show the relations of a document in text order. */
export function showTriples(container, document, { labels, selected, onSelect }) {
  const createButton = (entity) =>
    createEntityButton({ ...entity, key: entityKey(entity) }, labels, onSelect, selected);
  const rows = resolveTriples(document).map(({ head, label, tail, score }) => {
    const faded = selected !== null && entityKey(head) !== selected && entityKey(tail) !== selected;
    return createHtml(
      "tr",
      { class: faded ? "faded" : null },
      createHtml("td", {}, createButton(head)),
      createHtml("td", {}, createRelationLabel(label, labels)),
      createHtml("td", {}, createButton(tail)),
      createScoreCell(score),
    );
  });
  const caption = formatCount(rows.length, "triple", "triples");
  showTable(container, caption, ["Subject", "Relation", "Object", "Score"], rows, "No relations to show.");
}

/** Show the entities of a document with their numbers of mentions and relations. */
export function showEntities(container, concepts, { labels, selected, onSelect }) {
  const rows = concepts.map((concept) =>
    createHtml(
      "tr",
      {},
      createHtml("td", {}, createEntityButton(concept, labels, onSelect, selected)),
      createHtml("td", { class: "amount" }, formatCount(concept.mentions.length, "mention", "mentions")),
      createHtml("td", { class: "amount" }, formatCount(concept.relations.length, "relation", "relations")),
      createScoreCell(concept.score),
    ),
  );
  const caption = formatCount(rows.length, "entity", "entities");
  showTable(container, caption, ["Entity", "Mentions", "Relations", "Score"], rows, "No entities to show.");
}

function createScoreCell(score) {
  return createHtml("td", { class: "score" }, createLevel(score ?? 0), formatScore(score));
}
