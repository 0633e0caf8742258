/* The drawing: insert it into the page, map its bars and arcs to entities and relations, and highlight a selection. */

import { parseDrawing } from "../../web/shared/dom.js";
import { entityKey, resolveTriples } from "./annotations.js";
import { keepVisible } from "./card.js";

// In longer documents, the browser skips the layout of sentences outside the window.
const LONG_DOCUMENT = 60;

/** Show the drawing of a document. `onSelect(key)` is called when an entity is clicked. */
export function showDrawing(container, fragment, document, onSelect) {
  container.replaceChildren(...parseDrawing(fragment));
  const links = new Map();
  const figures = container.querySelectorAll("figure.sentence");
  container.classList.toggle("long", figures.length > LONG_DOCUMENT);
  splitBySentence(document).forEach((sentence, position) => addLinks(figures[position], sentence, links));
  container.onclick = (event) => {
    const clicked = event.target.closest(".bar, .word");
    const link = links.get(clicked);
    if (!link) return;
    onSelect(link.keys[0]);
    keepVisible(clicked);
  };
  return new Highlighter(container, links);
}

/** Highlights the selected entity in a drawing. `links` maps elements to entity keys. */
class Highlighter {
  constructor(container, links) {
    this.container = container;
    this.links = links;
  }

  /** Highlight the entities with a key and their relations; null removes the highlight. */
  show(key) {
    const related = new Set();
    for (const { keys, isRelation } of this.links.values()) {
      if (isRelation && keys.includes(key)) keys.forEach((each) => related.add(each));
    }
    this.container.classList.toggle("has-selection", key !== null);
    for (const [element, { keys, isRelation }] of this.links) {
      const selected = key !== null && keys.includes(key);
      element.classList.toggle("selected", selected);
      element.classList.toggle("related", !selected && !isRelation && keys.some((each) => related.has(each)));
    }
  }
}

/** Return the word offsets, entities and triples of each sentence. */
function splitBySentence(document) {
  const sentences = document.sentences.map((words) => ({ words, entities: [], triples: [] }));
  const byStart = new Map();
  sentences.forEach((sentence) => sentence.words.forEach(([start]) => byStart.set(start, sentence)));
  for (const entity of document.entities) byStart.get(entity.start).entities.push(entity);
  for (const triple of resolveTriples(document)) byStart.get(triple.head.start).triples.push(triple);
  return sentences;
}

function addLinks(figure, { words, entities, triples }, links) {
  if (!figure) return;
  const offsets = new Map(Array.from(figure.querySelectorAll(".word"), (word, position) => [word, words[position]]));
  // A word has the colour of the longest entity that contains it.
  const longestFirst = entities.toSorted((a, b) => b.end - b.start - (a.end - a.start));
  for (const [word, [start, end]] of offsets) {
    const entity = longestFirst.find((each) => each.start <= start && end <= each.end);
    if (entity) links.set(word, { keys: [entityKey(entity)], isRelation: false });
  }
  for (const bar of figure.querySelectorAll(".bar")) {
    const [start, end] = findOffsets(bar, offsets);
    const entity = entities.find(
      (each) => each.start <= start && end <= each.end && hasTitle(bar, each) && hasEdges(bar, each, start, end),
    );
    if (entity) links.set(bar, { keys: [entityKey(entity)], isRelation: false });
  }
  // The class of an arc holds the position of its triple in the sentence.
  triples.forEach(({ head, tail }, position) => {
    for (const curve of figure.querySelectorAll(`.curve.a${position}`)) {
      links.set(curve, { keys: [entityKey(head), entityKey(tail)], isRelation: true });
    }
  });
}

/** Return the character offsets of the words above a bar, which share its grid columns. */
function findOffsets(bar, offsets) {
  const [first, last] = gridColumns(bar);
  const words = Array.from(bar.parentElement.querySelectorAll(".word")).filter((word) => {
    const [low, high] = gridColumns(word);
    return first <= low && high <= last;
  });
  return [offsets.get(words[0])?.[0], offsets.get(words.at(-1))?.[1]];
}

function gridColumns(element) {
  const { gridColumnStart: first, gridColumnEnd: end } = element.style;
  // A single word in a grid has no explicit columns.
  return [Number.parseInt(first, 10) || 1, Number.parseInt(end, 10) || 2];
}

/** Whether the title of a bar, "words: label, score 0.90", matches an entity. */
function hasTitle({ title }, { label, score }) {
  const ending = score === null ? `: ${label}` : `: ${label}, score ${score.toFixed(2)}`;
  return title.endsWith(ending) || title.includes(`${ending} (`) || title.includes(`: ${label},`);
}

function hasEdges(bar, entity, start, end) {
  const opens = bar.classList.contains("opens");
  const closes = bar.classList.contains("closes");
  return opens === (start === entity.start) && closes === (end === entity.end);
}
