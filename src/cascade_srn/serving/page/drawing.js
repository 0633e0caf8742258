/* The drawn text: put into the page, its bars and arcs traced back to entities and relations, and lit up on a click. */

import { keepInSight } from "./card.js";
import { keyOf, triples } from "./found.js";

// From so many sentences on, those out of sight are not laid out.
const LONG = 60;

/** Show a drawing of a document; `onPick(key)` is told of the entity that is clicked. */
export function showDrawing(place, fragment, found, onPick) {
  // The fragment is made and escaped by the service from its one template; no script in it could run.
  const parsed = new DOMParser().parseFromString(fragment, "text/html");
  place.replaceChildren(...parsed.body.children);
  const links = new Map();
  const figures = place.querySelectorAll("figure.sentence");
  place.classList.toggle("long", figures.length > LONG);
  sentencesOf(found).forEach((sentence, number) => link(figures[number], sentence, links));
  place.onclick = (event) => {
    const clicked = event.target.closest(".bar, .word");
    const link = links.get(clicked);
    if (!link) return;
    onPick(link.keys[0]);
    keepInSight(clicked);
  };
  return new Highlights(place, links);
}

/** What is drawn of each entity and relation, to be set off from the rest. */
class Highlights {
  constructor(place, links) {
    this.place = place;
    this.links = links;
  }

  /** Light up the entities of a key and their relations; null: nothing is set off. */
  show(key) {
    const near = new Set();
    for (const { keys, relation } of this.links.values()) {
      if (relation && keys.includes(key)) keys.forEach((one) => near.add(one));
    }
    this.place.classList.toggle("picking", key !== null);
    for (const [element, { keys, relation }] of this.links) {
      const picked = key !== null && keys.includes(key);
      element.classList.toggle("picked", picked);
      element.classList.toggle("near", !picked && !relation && keys.some((one) => near.has(one)));
    }
  }
}

/** The words of each sentence as offsets, with the entities and triples that lie in it. */
function sentencesOf(found) {
  const sentences = found.sentences.map((words) => ({ words, entities: [], relations: [] }));
  const at = new Map();
  sentences.forEach((sentence) => sentence.words.forEach(([start]) => at.set(start, sentence)));
  for (const entity of found.entities) at.get(entity.start).entities.push(entity);
  for (const triple of triples(found)) at.get(triple.head.start).relations.push(triple);
  return sentences;
}

function link(figure, { words, entities, relations }, links) {
  if (!figure) return;
  const cells = Array.from(figure.querySelectorAll(".word"));
  const place = new Map(cells.map((cell, number) => [cell, words[number]]));
  // Beside the word is the bar of the longest entity around it, and it has that one's colour.
  const longestFirst = entities.toSorted((one, other) => other.end - other.start - (one.end - one.start));
  for (const [cell, [start, end]] of place) {
    const around = longestFirst.find((entity) => entity.start <= start && end <= entity.end);
    if (around) links.set(cell, { keys: [keyOf(around)], relation: false });
  }
  for (const bar of figure.querySelectorAll(".bar")) {
    const [start, end] = covered(bar, place);
    const entity = entities.find(
      (one) => one.start <= start && end <= one.end && named(bar.title, one) && sameEdges(bar, one, start, end),
    );
    if (entity) links.set(bar, { keys: [keyOf(entity)], relation: false });
  }
  // An arc's number is the place of its relation among those of the sentence.
  relations.forEach(({ head, tail }, number) => {
    for (const curve of figure.querySelectorAll(`.curve.a${number}`)) {
      links.set(curve, { keys: [keyOf(head), keyOf(tail)], relation: true });
    }
  });
}

/** The characters that a bar lies under: those of the words in its columns of the grid. */
function covered(bar, place) {
  const [first, last] = columns(bar);
  const under = Array.from(bar.parentElement.querySelectorAll(".word")).filter((cell) => {
    const [low, high] = columns(cell);
    return first <= low && high <= last;
  });
  return [place.get(under[0])?.[0], place.get(under.at(-1))?.[1]];
}

function columns(element) {
  const { gridColumnStart: first, gridColumnEnd: end } = element.style;
  // A word that is alone in its grid has no columns of its own.
  return [Number.parseInt(first, 10) || 1, Number.parseInt(end, 10) || 2];
}

/** Whether a bar's title, "words: label, score 0.90", speaks of an entity's label. */
function named(title, { label, score }) {
  const ending = score === null ? `: ${label}` : `: ${label}, score ${score.toFixed(2)}`;
  return title.endsWith(ending) || title.includes(`${ending} (`) || title.includes(`: ${label},`);
}

function sameEdges(bar, entity, start, end) {
  const opens = bar.classList.contains("opens");
  const closes = bar.classList.contains("closes");
  return opens === (start === entity.start) && closes === (end === entity.end);
}
