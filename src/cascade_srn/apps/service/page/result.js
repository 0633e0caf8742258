/* The result: four views of one document, with one selected entity. */

import { byId, formatCount } from "../../web/shared/dom.js";
import { Labels } from "../../web/shared/labels.js";
import { CodePoints } from "../../web/shared/offsets.js";
import { addTabs } from "../../web/shared/tabs.js";
import { filterByScore, groupMentions } from "./annotations.js";
import { showCard } from "./card.js";
import { showDrawing } from "./drawing.js";
import { Graph } from "./graph.js";
import { showEntities, showTriples } from "./tables.js";

/** The result of the last request. */
export class Result {
  labels = new Labels();
  shown = null; // the document without results below the minimum score
  #document = null;
  #concepts = [];
  #points = null;
  #selected = null;
  #highlighter = null;
  #view = "view-drawing";
  #onSelect = (key) => this.#select(key);
  #graph = new Graph((key) => (key ?? this.#selected) !== null && this.#select(key));

  constructor() {
    addTabs(byId("tabs"), (view) => {
      this.#view = view;
      if (this.shown) this.#showViews();
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.#selected !== null) this.#select(null);
    });
    this.clear();
  }

  /** Show the results of a document from a minimum score on. The drawing follows with `showDrawing`. */
  show(document, minScore) {
    this.#document = document;
    this.shown = filterByScore(document, minScore);
    this.#points = new CodePoints(document.text);
    this.#concepts = groupMentions(this.shown);
    if (!this.#concepts.some(({ key }) => key === this.#selected)) this.#selected = null;
    this.#toggle(true);
    byId("n-entities").textContent = this.shown.entities.length;
    byId("n-relations").textContent = this.shown.relations.length;
    byId("status").textContent = this.#summarize();
    this.#showViews();
  }

  /** Show the drawing of a document, given as an HTML fragment. */
  showDrawing(fragment, document) {
    this.#highlighter = showDrawing(byId("view-drawing"), fragment, document, this.#onSelect);
    this.#highlighter.show(this.#selected);
    byId("result").classList.remove("stale");
  }

  clear() {
    this.shown = null;
    this.#document = null;
    this.#selected = null;
    this.#highlighter = null;
    byId("view-drawing").replaceChildren();
    byId("status").textContent = "";
    byId("card").hidden = true;
    this.#toggle(false);
  }

  /** Dim the result, which belongs to the previous text. */
  markStale() {
    byId("result").classList.add("stale");
  }

  /** Say in the status line that the result belongs to the previous text. */
  reportStale() {
    const isStale = this.shown && byId("result").classList.contains("stale");
    if (isStale) byId("status").textContent = `Previous text: ${this.#summarize()}`;
  }

  /** Return a picture of the graph if it is shown, else null. */
  graphPicture() {
    return this.#view === "view-graph" ? this.#graph.picture() : null;
  }

  #toggle(hasResult) {
    byId("empty").hidden = hasResult;
    for (const id of ["views", "downloads", "tabs"]) byId(id).hidden = !hasResult;
    byId("result").classList.toggle("filled", hasResult);
  }

  #summarize() {
    const count = (kind, singular, plural) => {
      const [nAll, nShown] = [this.#document[kind].length, this.shown[kind].length];
      const all = formatCount(nAll, singular, plural);
      return nAll === nShown ? all : `${nShown} of ${all}`;
    };
    if (!this.#document.entities.length) return "No entities found.";
    return `${count("entities", "entity", "entities")}, ${count("relations", "relation", "relations")}`;
  }

  #showViews() {
    const common = { labels: this.labels, selected: this.#selected, onSelect: this.#onSelect };
    const container = byId(this.#view);
    // Only the visible view is created.
    if (this.#view === "view-triples") showTriples(container, this.shown, common);
    else if (this.#view === "view-entities") showEntities(container, this.#concepts, common);
    else if (this.#view === "view-graph") this.#graph.show(this.#concepts, common);
    const concept = this.#concepts.find(({ key }) => key === this.#selected);
    showCard(byId("card"), concept, { ...common, points: this.#points, onClose: () => this.#select(null) });
  }

  /** Select an entity. Selecting it a second time, or null, removes the selection. */
  #select(key) {
    const findFocused = rememberFocus(document.activeElement);
    this.#selected = key === this.#selected ? null : key;
    this.#showViews();
    this.#highlighter?.show(this.#selected);
    findFocused()?.focus({ preventScroll: true });
    if (this.#view === "view-graph") this.#graph.keepVisible();
  }
}

/** Return a function that finds the focused element after its view or card was created again. */
function rememberFocus(element) {
  if (element?.closest("#card")) {
    return () => document.querySelector("#card .close") ?? document.querySelector("#tabs [aria-selected=true]");
  }
  const view = element?.closest("[role=tabpanel]");
  const position = view ? Array.from(view.querySelectorAll("button")).indexOf(element) : -1;
  return () => (position < 0 ? null : view.querySelectorAll("button")[position]);
}
