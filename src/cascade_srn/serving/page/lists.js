/* The triples and the entities of a document as tables; everything in them that names an entity leads to it. */

import { keyOf, triples } from "./found.js";
import { counted, make, written } from "./dom.js";

/** A button that names an entity and chooses it. */
export function entityButton({ text, label, key }, labels, onPick, chosen = null) {
  const pressed = String(key === chosen);
  const look = { type: "button", class: `entity ${labels.ofEntity(label)}`, "aria-pressed": pressed };
  const type = make("span", { class: "type" }, label);
  return make("button", { ...look, click: () => onPick(key) }, make("bdi", {}, text), " ", type);
}

/** A relation's label, pointing at its object unless it has no direction. */
export function relationLabel(label, labels) {
  const directed = labels.directed(label);
  return make(
    "span",
    { class: `relation ${labels.ofRelation(label)}${directed ? "" : " both"}` },
    make("span", {}, label),
    make("span", { class: "heard" }, directed ? " of" : " with"),
  );
}

function scoreCell(score) {
  const level = make("span", { class: "level", "aria-hidden": "true" });
  level.style.setProperty("--level", score ?? 0);
  return make("td", { class: "score" }, level, written(score));
}

function head(...names) {
  return make("thead", {}, make("tr", {}, ...names.map((name) => make("th", { scope: "col" }, name))));
}

function nothing(said) {
  return make("p", { class: "nothing" }, said);
}

/** The relations of a document, in the order of the text. */
export function showTriples(place, found, { labels, chosen, onPick }) {
  const named = (entity) => entityButton({ ...entity, key: keyOf(entity) }, labels, onPick, chosen);
  const rows = triples(found).map(({ head: subject, label, tail: object, score }) => {
    const aside = chosen !== null && keyOf(subject) !== chosen && keyOf(object) !== chosen;
    return make(
      "tr",
      { class: aside ? "aside" : null },
      make("td", {}, named(subject)),
      make("td", {}, relationLabel(label, labels)),
      make("td", {}, named(object)),
      scoreCell(score),
    );
  });
  if (!rows.length) return place.replaceChildren(nothing("No relation is shown."));
  const caption = make("caption", { class: "heard" }, counted(rows.length, "triple", "triples"));
  const table = make("table", { class: "drawing listing triples" }, caption);
  table.append(head("Subject", "Relation", "Object", "Score"), make("tbody", {}, ...rows));
  return place.replaceChildren(table);
}

/** The entities of a document, each with how often it is mentioned and in how many relations it stands. */
export function showEntities(place, concepts, { labels, chosen, onPick }) {
  if (!concepts.length) return place.replaceChildren(nothing("No entity is shown."));
  const rows = concepts.map((concept) =>
    make(
      "tr",
      {},
      make("td", {}, entityButton(concept, labels, onPick, chosen)),
      make("td", { class: "amount" }, counted(concept.mentions.length, "mention", "mentions")),
      make("td", { class: "amount" }, counted(concept.relations.length, "relation", "relations")),
      scoreCell(concept.score),
    ),
  );
  const caption = make("caption", { class: "heard" }, counted(rows.length, "entity", "entities"));
  const table = make("table", { class: "drawing listing entities" }, caption);
  table.append(head("Entity", "Mentions", "Relations", "Score"), make("tbody", {}, ...rows));
  return place.replaceChildren(table);
}
