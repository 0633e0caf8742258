/* Decide between two versions of an annotation. */

import { createHtml } from "../../web/shared/dom.js";
import { entityKey, relationKey } from "./content.js";
import { createItem } from "./parts.js";
import { Sheet } from "./sheet.js";
import { mergeSuggestions } from "./suggestions.js";
import { Words } from "./words.js";

const NO_SUGGESTIONS = { entities: [], relations: [] };

const createButton = (text, click, css = "action") => createHtml("button", { type: "button", class: css, click }, text);

/** Show both versions of a document and let the user choose what to keep. */
export function showCase(container, { names, documents, isDecided, labels }, { onSave, onBack, onEdit }) {
  const words = new Words(documents[0]);
  const choice = new Choice(documents.map(({ annotation }) => annotation));
  const preview = createHtml("div", { class: "sheet drawing" });
  const sheet = new Sheet(preview);
  const boxes = new Map();
  const refresh = () => {
    for (const [key, box] of boxes) box.checked = choice.has(key);
    sheet.show(words, mergeSuggestions(choice.content, NO_SUGGESTIONS, labels), labels);
  };
  const change = (action) => {
    action();
    refresh();
  };
  const createRow = (item) => {
    const onChange = ({ target }) => change(() => choice.set(item, target.checked));
    const box = createHtml("input", { type: "checkbox", change: onChange });
    boxes.set(item.key, box);
    const css = item.ends ? labels.relationClass(item.label) : labels.entityClass(item.label);
    const owner = createHtml("span", { class: "help" }, ` ${names[item.owners[0]]}`);
    const description = createItem("span", css, describeItem(item, words, labels), item.label, owner);
    return createHtml("li", {}, createHtml("label", { class: "check" }, box, description));
  };
  const rows = choice.disputed.map(createRow);
  const takeFrom = (at) => () => change(() => choice.take(at));
  const createSide = (document, at) => createVersion(names[at], document, words, labels, takeFrom(at));
  const nothing = createHtml("li", { class: "help" }, "Nothing.");
  const help = isDecided
    ? "This document was decided before. Saving replaces that decision."
    : "The decision is saved under the name “adjudicated”.";
  container.replaceChildren(
    createHtml(
      "div",
      { class: "title-row" },
      createHtml("h3", {}, createHtml("bdi", {}, documents[0].id)),
      createButton("Back", onBack, "quiet-button"),
    ),
    createHtml("div", { class: "sides" }, ...documents.map(createSide)),
    createHtml("h4", {}, "What they do not agree on: tick what is right"),
    createHtml("ul", { class: "items drawing disputed" }, ...(rows.length ? rows : [nothing])),
    createHtml("h4", {}, "Decision"),
    preview,
    createHtml("p", { class: "help" }, help),
    createHtml(
      "div",
      { class: "buttons" },
      createButton("Edit by hand", onEdit),
      createButton("Save decision", () => onSave(choice.content), "action primary"),
    ),
  );
  refresh();
}

function createVersion(name, { annotation }, words, labels, onTake) {
  const preview = createHtml("div", { class: "sheet drawing" });
  new Sheet(preview).show(words, mergeSuggestions(annotation, NO_SUGGESTIONS, labels), labels);
  const title = createHtml("h4", {}, createHtml("bdi", {}, name));
  const take = createButton("Take this version", onTake, "quiet-button");
  return createHtml("section", {}, createHtml("div", { class: "title-row" }, title, take), preview);
}

function describeItem(item, words, labels) {
  if (!item.ends) return words.phrase(item);
  return `${words.phrase(item.head)} ${labels.arrow(item.label)} ${words.phrase(item.tail)}`;
}

/** What is kept of two annotations. It starts with what both have. */
class Choice {
  #chosen = new Set();

  constructor(annotations) {
    const { entities, relations } = unite(annotations);
    this.entities = entities;
    this.relations = relations;
    for (const { key, owners } of this.all) if (owners.length > 1) this.#chosen.add(key);
  }

  get all() {
    return [...this.entities, ...this.relations];
  }

  /** The entities and relations that only one of the two has. */
  get disputed() {
    return this.all.filter(({ owners }) => owners.length === 1);
  }

  has(key) {
    return this.#chosen.has(key);
  }

  /** Keep an item or not. A relation needs its entities. */
  set(item, isKept) {
    if (isKept) for (const key of [item.key, ...(item.ends ?? [])]) this.#chosen.add(key);
    else {
      this.#chosen.delete(item.key);
      for (const { key, ends } of this.relations) if (ends.includes(item.key)) this.#chosen.delete(key);
    }
  }

  /** Keep what one of the two has. */
  take(owner) {
    this.#chosen = new Set(this.all.filter(({ owners }) => owners.includes(owner)).map(({ key }) => key));
  }

  /** The content of an annotation with what is kept. */
  get content() {
    const origin = "person";
    const kept = this.entities.filter(({ key }) => this.has(key));
    const ids = new Map(kept.map(({ key }, position) => [key, `e${position + 1}`]));
    const entities = kept.map(({ key, start, end, label }) => ({ id: ids.get(key), start, end, label, origin }));
    const relations = this.relations
      .filter(({ key }) => this.has(key))
      .map(({ ends: [head, tail], label }, position) => ({
        id: `r${position + 1}`,
        head: ids.get(head),
        tail: ids.get(tail),
        label,
        origin,
      }));
    return { state: "done", note: "", entities, relations, rejected: [] };
  }
}

/** Return all entities and relations of annotations, each with the positions of its owners. */
function unite(annotations) {
  const [entities, relations] = [new Map(), new Map()];
  const add = (items, key, item, owner) => {
    if (!items.has(key)) items.set(key, { ...item, key, owners: [] });
    items.get(key).owners.push(owner);
  };
  annotations.forEach((annotation, owner) => {
    const byId = new Map(annotation.entities.map((entity) => [entity.id, entity]));
    for (const entity of annotation.entities) {
      const { start, end, label } = entity;
      add(entities, entityKey(entity), { start, end, label }, owner);
    }
    for (const { head, tail, label } of annotation.relations) {
      const [one, other] = [byId.get(head), byId.get(tail)];
      const ends = [entityKey(one), entityKey(other)];
      add(relations, relationKey(one, label, other), { head: one, tail: other, label, ends }, owner);
    }
  });
  return {
    entities: Array.from(entities.values()).sort((a, b) => a.start - b.start || b.end - a.end),
    relations: Array.from(relations.values()).sort((a, b) => a.head.start - b.head.start),
  };
}
