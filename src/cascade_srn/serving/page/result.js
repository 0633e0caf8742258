/* The result: one document in four views that agree with each other, and the entity that is chosen in all of them. */

import { keepInSight, showCard } from "./card.js";
import { byId, counted } from "./dom.js";
import { showDrawing } from "./drawing.js";
import { concepts, withLeast } from "./found.js";
import { showGraph } from "./graph.js";
import { Labels } from "./labels.js";
import { showEntities, showTriples } from "./lists.js";
import { CodePoints } from "./offsets.js";
import { tabs } from "./tabs.js";

/** What is shown of the last answer. */
export class Result {
  labels = new Labels();
  shown = null; // the part of the answer that passes the slider
  #found = null;
  #concepts = [];
  #points = null;
  #chosen = null;
  #highlights = null;
  #view = "view-drawing";
  #pick = (key) => this.#choose(key);

  constructor() {
    tabs(byId("tabs"), (view) => {
      this.#view = view;
      if (this.shown) this.#showParts();
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.#chosen !== null) this.#choose(null);
    });
    this.#watchWidth();
    this.clear();
  }

  /** Show what of a document scores at least that much: lists and graph at once, the drawing when it is `drawn`. */
  show(found, least) {
    this.#found = found;
    this.shown = withLeast(found, least);
    this.#points = new CodePoints(found.text);
    this.#concepts = concepts(this.shown);
    if (!this.#concepts.some(({ key }) => key === this.#chosen)) this.#chosen = null;
    this.#display(true);
    byId("n-entities").textContent = this.shown.entities.length;
    byId("n-relations").textContent = this.shown.relations.length;
    byId("status").textContent = this.#summary();
    this.#showParts();
  }

  /** Put the drawing of what is shown in its place. */
  drawn(fragment, document) {
    this.#highlights = showDrawing(byId("view-drawing"), fragment, document, this.#pick);
    this.#highlights.show(this.#chosen);
    byId("result").classList.remove("stale");
  }

  /** The element that shows the drawing. */
  get drawing() {
    return byId("view-drawing").firstElementChild;
  }

  /** There is nothing to show. */
  clear() {
    this.shown = null;
    this.#found = null;
    this.#chosen = null;
    this.#highlights = null;
    byId("view-drawing").replaceChildren();
    byId("status").textContent = "";
    showCard(byId("card"), null, {});
    this.#display(false);
  }

  /** Until the next answer, what is shown belongs to the text before. */
  age() {
    byId("result").classList.add("stale");
  }

  /** Say so, once it is known that no answer will come. */
  sayIfAged() {
    const aged = this.shown && byId("result").classList.contains("stale");
    if (aged) byId("status").textContent = `Of the text before: ${this.#summary()}`;
  }

  #display(anything) {
    byId("empty").hidden = anything;
    for (const id of ["views", "downloads", "tabs"]) byId(id).hidden = !anything;
    byId("result").classList.toggle("filled", anything);
  }

  #summary() {
    const [found, shown] = [this.#found, this.shown];
    const part = (kind, one, many) => {
      const [all, some] = [found[kind].length, shown[kind].length];
      return all === some ? counted(all, one, many) : `${some} of ${counted(all, one, many)}`;
    };
    if (!found.entities.length) return "Nothing was found in this text.";
    return `${part("entities", "entity", "entities")}, ${part("relations", "relation", "relations")}`;
  }

  #showParts() {
    const common = { labels: this.labels, chosen: this.#chosen, onPick: this.#pick };
    const place = byId(this.#view);
    // Views that are not seen are made when they are.
    if (this.#view === "view-triples") showTriples(place, this.shown, common);
    else if (this.#view === "view-entities") showEntities(place, this.#concepts, common);
    else if (this.#view === "view-graph") showGraph(place, this.#concepts, common);
    const concept = this.#concepts.find(({ key }) => key === this.#chosen);
    showCard(byId("card"), concept, { ...common, points: this.#points, onClose: () => this.#choose(null) });
  }

  /** Choose an entity; the chosen one again, or null: none. */
  #choose(key) {
    const focused = focusIn(document.activeElement);
    this.#chosen = key === this.#chosen ? null : key;
    this.#showParts();
    this.#highlights?.show(this.#chosen);
    focused()?.focus({ preventScroll: true });
    if (this.#view === "view-graph") keepInSight(document.querySelector("#view-graph .node.picked"));
  }

  /** The graph is laid out for the width that there is. */
  #watchWidth() {
    let width = 0;
    new ResizeObserver(([{ contentRect }]) => {
      const changed = contentRect.width !== width;
      width = contentRect.width;
      if (changed && this.shown && this.#view === "view-graph") this.#showParts();
    }).observe(byId("views"));
  }
}

/** How to find the element again that has the focus, once the view or the card that it is in has been made anew. */
function focusIn(element) {
  if (element?.closest("#card")) {
    return () => document.querySelector("#card .close") ?? document.querySelector("#tabs [aria-selected=true]");
  }
  const view = element?.closest("[role=tabpanel]");
  const at = view ? Array.from(view.querySelectorAll("button, .node")).indexOf(element) : -1;
  return () => (at < 0 ? null : view.querySelectorAll("button, .node")[at]);
}
