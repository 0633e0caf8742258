/* The sheet: the text of a document in lines of words, with its entities and relations. Words never move sideways. */

import { createHtml } from "../../web/shared/dom.js";
import { cutIntoPieces } from "./layout.js";
import { drawArcs, drawBars, drawTints, layOut, place } from "./marks.js";

const LONG_WORD = 24;

/** Draws a document. Sentences whose marks have not changed are not drawn again. */
export class Sheet {
  views = [];
  words = null;
  items = null;
  labels = null;
  width = 0;
  selection = null;

  constructor(container) {
    this.container = container;
    this.observer = new ResizeObserver(() => {
      if (this.words && container.clientWidth && container.clientWidth !== this.width) this.#layOutText();
    });
    this.observer.observe(container);
  }

  /** Show a document. `items` are its entities and relations, as from `mergeSuggestions`. */
  show(words, items, labels) {
    const isNew = words !== this.words;
    Object.assign(this, { words, items, labels });
    if (isNew) {
      this.views = words.sentences.map((sentence, number) => createView(sentence, number, words));
      this.container.replaceChildren(...this.views.map(({ element }) => element));
      this.#layOutText();
    } else this.#drawMarks();
  }

  /** Mark the selection: {first, last, cursor, key, head}; every part may be missing. */
  select(selection) {
    this.selection = selection;
    if (!this.width) return;
    for (const view of this.views) {
      const isMarked = selection !== null && involves(view, selection);
      if (isMarked || view.isMarked) drawSelection(view, selection ?? {});
      view.isMarked = isMarked;
    }
  }

  /** Return the rectangle of a word, a bar or an arc label in the window; null if it is not drawn. */
  boxOf({ key, first, last }) {
    const mark = key && this.container.querySelector(`:is(.bar, .arc-label)[data-key="${CSS.escape(key)}"]`);
    if (mark) return mark.getBoundingClientRect();
    if (first === undefined) return null;
    const view = this.#viewOf(last);
    return view.spans[last - view.first].getBoundingClientRect();
  }

  /** Return the word nearest to a point of the window; `sentence` limits the search. */
  wordAt(x, y, sentence = null) {
    const near = (low, high) => Math.max(low - y, y - high, 0);
    const candidates = sentence === null ? this.views : [this.views[sentence]];
    const view = nearest(candidates, ({ element }) => {
      const { top, bottom } = element.getBoundingClientRect();
      return near(top, bottom);
    });
    if (!view?.spans.length) return null;
    const span = nearest(view.spans, (each) => {
      const { left, right, top, bottom } = each.getBoundingClientRect();
      // Lines count more than columns.
      return 1000 * near(top, bottom) + Math.max(left - x, x - right, 0);
    });
    return view.first + view.spans.indexOf(span);
  }

  /** Return the word above or below another one, in the neighbouring line; null at the ends of the document. */
  wordInLine(word, step) {
    const view = this.#viewOf(word);
    const { line, left, right } = view.places[word - view.first];
    const middle = (left + right) / 2;
    let [number, target] = [this.views.indexOf(view), line + step];
    while (!(target >= 0 && target < this.views[number].lines.length)) {
      number += step;
      if (!this.views[number]) return null;
      target = step > 0 ? 0 : this.views[number].lines.length - 1;
    }
    const other = this.views[number];
    const candidates = other.places
      .map((place, position) => ({ ...place, position }))
      .filter((place) => place.line === target);
    return other.first + nearest(candidates, (place) => Math.abs((place.left + place.right) / 2 - middle)).position;
  }

  isRightToLeft(word) {
    return this.#viewOf(word).isRightToLeft;
  }

  reveal(word) {
    const view = this.#viewOf(word);
    view?.spans[word - view.first].scrollIntoView({ block: "nearest" });
  }

  #viewOf(word) {
    return this.views[this.words.all[word].sentence];
  }

  /** Break the text into lines. All reads come before all writes, so that the browser lays it out twice at most. */
  #layOutText() {
    // Zero if the sheet is hidden; the observer calls again when it is shown.
    this.width = this.container.clientWidth;
    if (!this.width) return;
    for (const view of this.views) view.text.replaceChildren(createLine(view, 0, view.spans.length - 1));
    for (const view of this.views) measureWords(view);
    for (const view of this.views) {
      view.lines = view.breaks.map(([first, last]) => createLine(view, first, last));
      view.text.replaceChildren(...view.lines);
      view.shown = "";
    }
    for (const view of this.views) view.heights = view.lines.map((line) => line.offsetHeight);
    this.#drawMarks();
  }

  #drawMarks() {
    if (!this.width) return;
    const bySentence = this.views.map(() => ({ entities: [], relations: [] }));
    const sentences = new Map();
    for (const entity of this.items.entities) {
      const sentence = this.words.sentenceOf(entity);
      sentences.set(entity.key, sentence);
      const [first, last] = this.words.range(entity).map((word) => word - this.views[sentence].first);
      bySentence[sentence].entities.push({ ...entity, first, last });
    }
    for (const relation of this.items.relations) bySentence[sentences.get(relation.head)].relations.push(relation);
    bySentence.forEach((items, number) => drawView(this.views[number], items, this.labels));
    this.select(this.selection);
  }
}

function nearest(items, distance) {
  let best = null;
  for (const item of items) {
    const found = distance(item);
    if (!best || found < best.found) best = { item, found };
  }
  return best?.item ?? null;
}

function createView({ first, last }, number, words) {
  const spans = [];
  const gaps = [];
  for (let word = first; word <= last; word += 1) {
    const text = words.text(words.all[word]);
    // Only a very long word may be broken.
    spans.push(createHtml("span", { class: text.length > LONG_WORD ? "w long" : "w", "data-word": word }, text));
    gaps.push(words.gapAfter(word).replace(/\s+/gu, " "));
  }
  const [tints, text, marks] = ["tints", "text", "over"].map((name) => createHtml("div", { class: name }));
  marks.setAttribute("aria-hidden", "true");
  tints.setAttribute("aria-hidden", "true");
  const attributes = { class: "sentence", dir: "auto", "data-number": number + 1 };
  const element = createHtml("div", attributes, tints, text, marks);
  const layout = { places: [], lines: [], heights: [], keys: new Set(), shown: "" };
  return { element, tints, text, marks, spans, gaps, first, ...layout };
}

/** Create a line of words. Text between words that is no white space belongs to no word. */
function createLine({ spans, gaps }, first, last) {
  const line = createHtml("div", { class: "line" });
  for (let position = first; position <= last; position += 1) {
    const gap = gaps[position];
    line.append(spans[position], gap.trim() ? createHtml("i", {}, gap) : gap);
  }
  return line;
}

function measureWords(view) {
  const { left, width } = view.element.getBoundingClientRect();
  view.width = width;
  view.isRightToLeft = getComputedStyle(view.element).direction === "rtl";
  view.breaks = [];
  let bottom = -Infinity;
  view.places = view.spans.map((span, position) => {
    const [box] = span.getClientRects();
    // A word below the middle of the line before starts a new one.
    if (box.top + box.height / 2 > bottom) {
      view.breaks.push([position, position]);
      ({ bottom } = span.getBoundingClientRect());
    }
    view.breaks.at(-1)[1] = position;
    return { line: view.breaks.length - 1, left: box.left - left, right: box.right - left };
  });
}

function drawView(view, items, labels) {
  const shown = JSON.stringify(items);
  if (shown === view.shown) return;
  view.shown = shown;
  view.keys = new Set([...items.entities, ...items.relations].map(({ key }) => key));
  const { width, isRightToLeft, places, lines, heights } = view;
  const layout = layOut(items, places, { nLines: lines.length, width, isRightToLeft, labels });
  const tops = [];
  let y = 0;
  lines.forEach((line, number) => {
    const [above, below] = [layout.above[number], layout.below[number]];
    Object.assign(line.style, { paddingBlockStart: `${above}px`, paddingBlockEnd: `${below}px` });
    tops.push(y + above);
    y += above + heights[number] + below;
  });
  view.tops = tops;
  view.element.style.setProperty("--first-line", `${tops[0] ?? 0}px`);
  const marks = [...drawArcs(layout, tops, { width, height: y }), ...drawBars(layout, tops, heights, width)];
  view.marks.replaceChildren(...marks);
  view.tints.replaceChildren(...drawTints(layout, tops, heights));
}

function involves({ first, spans, keys }, { first: low, cursor, key, head }) {
  const hasWord = (word) => word !== undefined && word >= first && word < first + spans.length;
  return hasWord(low) || hasWord(cursor) || keys.has(key) || keys.has(head);
}

function drawSelection(view, { first, last, cursor, key, head }) {
  view.tints.querySelectorAll(".chosen").forEach((old) => old.remove());
  const [low, high] = [(first ?? 0) - view.first, (last ?? -1) - view.first];
  if (first !== undefined && low >= 0 && high < view.spans.length) {
    for (const { line, left, right } of cutIntoPieces(view.places, low, high)) {
      const box = { left: left - 2, top: view.tops[line], width: right - left + 4, height: view.heights[line] };
      view.tints.append(place(createHtml("div", { class: "chosen" }), box));
    }
  }
  view.spans.forEach((span, position) => span.classList.toggle("cursor", view.first + position === cursor));
  for (const mark of view.element.querySelectorAll("[data-key]")) {
    mark.classList.toggle("selected", key !== undefined && mark.dataset.key === key);
    mark.classList.toggle("head", head !== undefined && mark.dataset.key === head);
  }
}
