/* The card of the selected entity: its type, mentions and relations. */

import { createHtml, formatCount, formatScore } from "../../web/shared/dom.js";
import { createCardHeader, createEntityButton, createRelationLabel } from "../../web/shared/lists.js";
import { findContext } from "../../web/shared/offsets.js";
import { entityKey } from "./annotations.js";

const MAX_MENTIONS = 3;

/** Show the card of a concept, or hide the card if there is no concept. */
export function showCard(container, concept, { points, labels, onSelect, onClose }) {
  container.hidden = !concept;
  if (!concept) return container.replaceChildren();
  const title = createCardHeader(
    onClose,
    createHtml("h3", {}, createHtml("bdi", {}, concept.text)),
    createHtml("span", { class: `tag ${labels.entityClass(concept.label)}` }, concept.label),
  );
  const relations = createRelations(concept, labels, onSelect);
  const parts = createHtml("div", { class: "parts" }, relations, createMentions(concept, points));
  return container.replaceChildren(title, parts);
}

/** Scroll the window so that the card does not cover an element. */
export function keepVisible(element) {
  const card = document.getElementById("card");
  if (!element || card.hidden) return;
  const covered = element.getBoundingClientRect().bottom + 16 - card.getBoundingClientRect().top;
  if (covered > 0) window.scrollBy(0, covered);
}

const createScore = (score) => createHtml("span", { class: "value" }, formatScore(score));

function createRelations(concept, labels, onSelect) {
  if (!concept.relations.length) return createHtml("p", { class: "help" }, "No relations.");
  const items = concept.relations.map(({ head, label, tail, score }) => {
    const createEnd = (entity) =>
      entityKey(entity) === concept.key
        ? createHtml("b", {}, createHtml("bdi", {}, entity.text))
        : createEntityButton({ ...entity, key: entityKey(entity) }, labels, onSelect);
    const relation = createRelationLabel(label, labels);
    return createHtml("li", {}, createEnd(head), " ", relation, " ", createEnd(tail), createScore(score));
  });
  return createHtml("ul", { class: "drawing of-card" }, ...items);
}

function createMentions(concept, points) {
  const items = concept.mentions.slice(0, MAX_MENTIONS).map(({ start, end, score }) => {
    const { before, mention, after } = findContext(points, start, end);
    return createHtml("li", { dir: "auto" }, before, createHtml("mark", {}, mention), after, createScore(score));
  });
  const rest = concept.mentions.length - items.length;
  if (rest > 0) items.push(createHtml("li", {}, `and ${formatCount(rest, "more mention", "more mentions")}`));
  return createHtml("ul", { class: "mentions", "aria-label": "Mentions" }, ...items);
}
