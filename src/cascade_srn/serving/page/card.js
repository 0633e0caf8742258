/* The card of a chosen entity: what it is, where it is mentioned, what it is related to. */

import { keyOf } from "./found.js";
import { counted, make, written } from "./dom.js";
import { entityButton, relationLabel } from "./lists.js";
import { surroundings } from "./offsets.js";

const MENTIONS = 3;

/** Show the card of a concept; without one it is put away. */
export function showCard(place, concept, { points, labels, onPick, onClose }) {
  place.hidden = !concept;
  if (!concept) return place.replaceChildren();
  const close = make("button", { type: "button", class: "close", "aria-label": "Close", click: onClose }, "×");
  const title = make(
    "header",
    { class: "drawing" },
    make("h3", {}, make("bdi", {}, concept.text)),
    make("span", { class: `tag ${labels.ofEntity(concept.label)}` }, concept.label),
    close,
  );
  const parts = make("div", { class: "parts" }, relationsOf(concept, labels, onPick), mentionsOf(concept, points));
  return place.replaceChildren(title, parts);
}

/** Scroll as far as it takes for the card not to lie over what was chosen. */
export function keepInSight(element) {
  const card = document.getElementById("card");
  if (!element || card.hidden) return;
  const hidden = element.getBoundingClientRect().bottom + 16 - card.getBoundingClientRect().top;
  if (hidden > 0) window.scrollBy(0, hidden);
}

const value = (score) => make("span", { class: "value" }, written(score));

function relationsOf(concept, labels, onPick) {
  if (!concept.relations.length) return make("p", { class: "help" }, "Stands in no relation that is shown.");
  const items = concept.relations.map(({ head, label, tail, score }) => {
    const end = (entity) =>
      keyOf(entity) === concept.key
        ? make("b", {}, make("bdi", {}, entity.text))
        : entityButton({ ...entity, key: keyOf(entity) }, labels, onPick);
    return make("li", {}, end(head), " ", relationLabel(label, labels), " ", end(tail), value(score));
  });
  return make("ul", { class: "drawing of-card" }, ...items);
}

function mentionsOf(concept, points) {
  const shown = concept.mentions.slice(0, MENTIONS).map(({ start, end, score }) => {
    const { before, there, after } = surroundings(points, start, end);
    return make("li", { dir: "auto" }, before, make("mark", {}, there), after, value(score));
  });
  const rest = concept.mentions.length - shown.length;
  if (rest > 0) shown.push(make("li", {}, `and ${counted(rest, "more mention", "more mentions")}`));
  return make("ul", { class: "mentions", "aria-label": "Mentions" }, ...shown);
}
