/* The editor: the open document, what is selected in it, and all changes to its annotation. */

import { formatCount, formatScore } from "../../web/shared/dom.js";
import * as edits from "./content.js";
import { findNeighbour, isRelation, sortItems } from "./order.js";
import * as open from "./suggestions.js";

/**
 * Edits one document at a time.
 *
 * The selection is a range of words (`anchor` to `cursor`) or an entity or relation (`key`). While a relation is made,
 * `link` has the keys {head, tail} of its entities; the tail is null until it is chosen.
 *
 * `onShow()` is called when the selection has changed, `onEdit()` when the content has, `announce(text)` for screen
 * readers and the status line.
 */
export class Editor {
  labels = null;
  words = null;
  history = null;
  suggestions = null;
  items = null;
  showsOpen = true;
  anchor = null;
  cursor = null;
  key = null;
  link = null;

  constructor({ onShow, onEdit, announce }) {
    this.onShow = onShow;
    this.onEdit = onEdit;
    this.announce = announce;
  }

  get isEmpty() {
    return this.words === null;
  }

  get content() {
    return this.history?.content;
  }

  get #context() {
    return { words: this.words, labels: this.labels };
  }

  load({ words, content, suggestions }) {
    const fitting = open.fitSuggestions(suggestions, words);
    Object.assign(this, { words, suggestions: fitting, history: new edits.History(content) });
    this.#deselect();
    this.#merge();
    this.onShow();
  }

  /** Take new suggestions, as after training. The selection stays if it still exists. */
  setSuggestions(suggestions) {
    this.suggestions = open.fitSuggestions(suggestions, this.words);
    this.#merge();
    if (this.key && !this.item) this.#deselect();
    this.onShow();
  }

  showOpen(shows) {
    this.showsOpen = shows;
    this.setSuggestions(this.suggestions);
  }

  #merge() {
    const suggestions = this.showsOpen ? this.suggestions : { entities: [], relations: [] };
    this.items = open.mergeSuggestions(this.content, suggestions, this.labels);
  }

  #deselect() {
    Object.assign(this, { anchor: null, cursor: null, key: null, link: null });
  }

  // Selection

  /** The selected entity or relation; undefined if there is none. */
  get item() {
    return this.#find(this.key);
  }

  #find(key) {
    if (!key) return undefined;
    const isKey = (item) => item.key === key;
    return this.items.entities.find(isKey) ?? this.items.relations.find(isKey);
  }

  /** The selected words [first, last]; null if there are none. */
  get range() {
    if (this.cursor === null) return null;
    return [Math.min(this.anchor, this.cursor), Math.max(this.anchor, this.cursor)];
  }

  /** Move the cursor to a word. `extends`: select all words from the anchor to it, within the sentence. */
  moveTo(word, { extend = false } = {}) {
    if (this.isEmpty || !this.words.length) return;
    let target = Math.max(0, Math.min(this.words.length - 1, word));
    if (extend && this.anchor !== null) {
      const { first, last } = this.words.sentences[this.words.all[this.anchor].sentence];
      target = Math.max(first, Math.min(last, target));
    } else this.anchor = target;
    Object.assign(this, { cursor: target, key: null });
    this.onShow();
    this.announce(this.describeWords(), { isSpokenOnly: true });
  }

  selectWords(first, last) {
    Object.assign(this, { anchor: first, cursor: last, key: null });
    this.onShow();
    this.announce(this.describeWords(), { isSpokenOnly: true });
  }

  selectKey(key) {
    this.key = key;
    const { item } = this;
    const entity = isRelation(item) ? this.#find(item.head) : item;
    const [first, last] = this.words.range(entity);
    Object.assign(this, { anchor: first, cursor: last });
    this.onShow();
    this.announce(this.describe(item), { isSpokenOnly: true });
  }

  /** Give up the relation that is being made, or else the selection. */
  cancel() {
    if (this.link) this.link = null;
    else this.#deselect();
    this.onShow();
  }

  /** Return the entities over a word, the shortest first. */
  entitiesAt(word) {
    const size = ({ start, end }) => end - start;
    return this.items.entities
      .filter((entity) => {
        const [first, last] = this.words.range(entity);
        return first <= word && word <= last;
      })
      .sort((a, b) => size(a) - size(b));
  }

  /** Select the next or previous item: "open" suggestions, "entity" or "relation". */
  step(kind, by) {
    const sorted = sortItems(this.items, kind, this.words);
    if (!sorted.length) {
      const names = { open: "open suggestions", entity: "entities", relation: "relations" };
      return this.announce(`This document has no ${names[kind]}.`);
    }
    const offset = this.cursor === null ? 0 : this.words.all[this.cursor].start;
    return this.selectKey(findNeighbour(sorted, by, { key: this.key, offset }).key);
  }

  #inOrder(kind) {
    return sortItems(this.items, kind, this.words).map(({ item }) => item);
  }

  get entitiesInOrder() {
    return this.#inOrder("entity");
  }

  get relationsInOrder() {
    return this.#inOrder("relation");
  }

  // Descriptions

  phrase(key) {
    return this.words.phrase(this.#find(key));
  }

  describe(item) {
    const what = isRelation(item)
      ? `${this.phrase(item.head)} ${item.label} ${this.phrase(item.tail)}`
      : `${this.words.phrase(item)}: ${item.label}`;
    return item.isOpen ? `Suggestion, ${what}, score ${formatScore(item.score)}` : what;
  }

  describeWords() {
    const [first, last] = this.range;
    const text = this.words.phrase(this.words.span(first, last));
    if (first !== last) return `Selected: ${text}`;
    const labels = this.entitiesAt(first).map(({ label, isOpen }) => (isOpen ? `suggested ${label}` : label));
    return [text, ...labels].join(", ");
  }

  // Changes

  /** Make a change. `change(content)` returns the new content. Returns whether something has changed. */
  edit(change, message = "", options = {}) {
    try {
      if (!this.history.change(change(this.content), options)) return false;
    } catch (error) {
      if (!(error instanceof edits.EditError)) throw error;
      this.#refuse(error.message);
      return false;
    }
    this.#changed(message);
    return true;
  }

  #refuse(message) {
    this.announce(message, { isProblem: true });
  }

  #changed(message) {
    this.#merge();
    if (this.key && !this.item) this.key = null;
    if (this.link && !(this.#find(this.link.head) && (!this.link.tail || this.#find(this.link.tail)))) this.link = null;
    this.onShow();
    this.onEdit();
    if (message) this.announce(message);
  }

  undo() {
    if (this.history.undo()) this.#changed("Undone.");
    else this.announce("There is nothing to undo.");
  }

  redo() {
    if (this.history.redo()) this.#changed("Redone.");
    else this.announce("There is nothing to redo.");
  }

  /** The labels that the selection can get. */
  get choices() {
    if (this.link?.tail) return this.labels.relations;
    if (this.link) return [];
    if (this.item) return isRelation(this.item) ? this.labels.relations : this.labels.entities;
    return this.range ? this.labels.entities : [];
  }

  /** Give a label to what is selected: words, an entity, a relation, or the relation that is being made. */
  applyLabel(label) {
    const { item, link } = this;
    if (link?.tail) return this.#addRelation(label);
    if (link) return this.#refuse("Choose the second entity first.");
    if (!item && !this.range) return this.#refuse("Select words first.");
    let key = this.key;
    const made = this.edit((content) => {
      const [next, id] = this.#labelled(content, item, label);
      key = `a:${id}`;
      return next;
    });
    if (!made) return null;
    if (this.#find(key)) this.selectKey(key);
    return this.announce(this.describe(this.#find(key)));
  }

  #labelled(content, item, label) {
    if (!item) return edits.addEntity(content, { ...this.words.span(...this.range), label });
    if (isRelation(item)) {
      if (item.isOpen) return open.acceptRelation(content, item, this.items, this.#context, label);
      return [edits.changeRelation(content, item.id, { label }, this.#context), item.id];
    }
    if (item.isOpen) return open.acceptEntity(content, item, label);
    return [edits.relabelEntity(content, item.id, label), item.id];
  }

  /** Start a relation at an entity. */
  startLink(key) {
    if (!this.labels.relations.length) return this.#refuse("This project has no relation labels.");
    this.link = { head: key, tail: null };
    this.onShow();
    return this.announce(`Relation from “${this.phrase(key)}”: choose the other entity. Escape cancels.`);
  }

  /** Choose the second entity. With a single relation label, the relation is made at once. */
  endLink(key) {
    const [head, tail] = [this.#find(this.link.head), this.#find(key)];
    if (head.key === tail.key || this.words.sentenceOf(head) !== this.words.sentenceOf(tail)) {
      const reason = head.key === tail.key ? "two different entities" : "two entities of the same sentence";
      return this.#refuse(`A relation needs ${reason}.`);
    }
    this.link = { head: head.key, tail: tail.key };
    if (this.labels.relations.length === 1) return this.#addRelation(this.labels.relations[0]);
    this.onShow();
    return this.announce(`“${this.phrase(head.key)}” to “${this.phrase(tail.key)}”: choose the relation.`);
  }

  #addRelation(label) {
    const { head, tail } = this.link;
    let key = null;
    const made = this.edit((content) => {
      const [withHead, first] = open.acceptKey(content, head, this.items);
      const [withTail, second] = open.acceptKey(withHead, tail, this.items);
      const [next, id] = edits.addRelation(withTail, { head: first, tail: second, label }, this.#context);
      key = `a:${id}`;
      return next;
    });
    if (!made) return;
    this.link = null;
    this.selectKey(key);
    this.announce(this.describe(this.item));
  }

  /** Turn a relation around: the one that is being made, or the selected one. */
  flip() {
    if (this.link?.tail) {
      this.link = { head: this.link.tail, tail: this.link.head };
      return this.onShow();
    }
    const { item } = this;
    if (!item || !isRelation(item) || item.isOpen) return this.#refuse("Select a relation first.");
    const { head, tail } = edits.findById(this.content.relations, item.id);
    const reversed = { head: tail, tail: head };
    return this.edit((content) => edits.changeRelation(content, item.id, reversed, this.#context), "Reversed.");
  }

  /** Move the start or the end of the selected entity, or of the selected words, by one word. */
  resize(side, by) {
    const { item } = this;
    if (!this.range || (item && isRelation(item))) return;
    let [first, last] = item ? this.words.range(item) : this.range;
    if (side === "start") first += by;
    else last += by;
    const sentence = this.words.sentences[this.words.all[item ? this.words.range(item)[0] : this.cursor].sentence];
    if (first > last || first < sentence.first || last > sentence.last) return;
    if (!item) return void this.selectWords(first, last);
    const span = this.words.span(first, last);
    let id = item.id;
    const message = `${this.words.phrase(span)}: ${item.label}`;
    const changed = this.edit((content) => {
      const [accepted, own] = item.isOpen ? open.acceptEntity(content, item) : [content, id];
      id = own;
      return edits.moveEntity(accepted, own, span);
    }, message);
    if (changed) this.selectKey(`a:${id}`);
  }

  /** Accept the selected suggestion and go to the next one. */
  accept() {
    const { item } = this;
    if (!item?.isOpen) return this.#refuse("Select a suggestion first.");
    const accept = (content) => {
      if (isRelation(item)) return open.acceptRelation(content, item, this.items, this.#context);
      return open.acceptEntity(content, item);
    };
    return this.#decide(item, (content) => accept(content)[0]);
  }

  /** Reject the selected suggestion and go to the next one; delete any other entity or relation. */
  remove() {
    const { item } = this;
    if (!item) return this.#refuse("Select an entity or a relation first.");
    if (item.isOpen) {
      const chosen = isRelation(item) ? { entities: [], relations: [item] } : { entities: [item], relations: [] };
      return this.#decide(item, (content) => open.rejectAll(content, chosen, this.suggestions));
    }
    const remove = isRelation(item) ? edits.removeRelation : edits.removeEntity;
    return this.edit((content) => remove(content, item.id), `Deleted: ${this.describe(item)}`);
  }

  #decide(item, change) {
    const order = this.#inOrder("open").map(({ key }) => key);
    const after = order.slice(order.indexOf(item.key) + 1);
    if (!this.edit(change)) return;
    const next = after.find((key) => this.#find(key)?.isOpen) ?? this.#inOrder("open")[0]?.key;
    if (next) this.selectKey(next);
    else this.announce("All suggestions are decided.");
  }

  /** The open suggestions at or above a score. */
  openItems(minScore = 0) {
    return open.openItems(this.items, minScore);
  }

  acceptAll(minScore = 0) {
    const chosen = this.openItems(minScore);
    const n = chosen.entities.length + chosen.relations.length;
    const message = `${formatCount(n, "suggestion", "suggestions")} accepted.`;
    if (n) this.edit((content) => open.acceptAll(content, chosen, this.items, this.#context), message);
    else this.announce("There are no open suggestions.");
  }

  rejectAll() {
    const chosen = this.openItems();
    const n = chosen.entities.length + chosen.relations.length;
    const message = `${formatCount(n, "suggestion", "suggestions")} rejected.`;
    if (n) this.edit((content) => open.rejectAll(content, chosen, this.suggestions), message);
    else this.announce("There are no open suggestions.");
  }

  /** Set the note. Typing in one go is one change. */
  setNote(note, { merges = false } = {}) {
    const change = (content) => (content.note === note ? content : edits.touched({ ...content, note }));
    this.edit(change, "", { merges });
  }

  /** Reject all that is open, shown or not. */
  #rejectOpen(content) {
    const items = open.mergeSuggestions(content, this.suggestions, this.labels);
    return open.rejectAll(content, open.openItems(items), this.suggestions);
  }

  /** Mark the document as done or not done. Suggestions that are still open are rejected. */
  setDone(isDone) {
    const state = isDone ? "done" : "started";
    const change = (content) => {
      const decided = isDone ? this.#rejectOpen(content) : content;
      return decided.state === state ? decided : { ...decided, state };
    };
    this.edit(change, isDone ? "Done." : "Opened again.");
  }

  /** Mark the document as done without entities. */
  setNothing() {
    const nothing = { entities: [], relations: [], state: "done" };
    this.edit((content) => ({ ...this.#rejectOpen(content), ...nothing }), "Nothing here. Done.");
  }
}
