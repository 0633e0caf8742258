/* The menu beside the selection: labels and what else can be done with it. At the bottom of the screen on a phone. */

import { createHtml, formatScore, isNarrow } from "../../web/shared/dom.js";
import { isRelation } from "./order.js";

const [GAP, MARGIN] = [8, 8];

/** Shows the choices for the selection of an editor. The sheet keeps the focus, so the keys go on working. */
export class Menu {
  constructor(element, sheet, editor) {
    this.element = element;
    this.sheet = sheet;
    this.editor = editor;
    element.addEventListener("keydown", (event) => this.#moveFocus(event));
  }

  get isOpen() {
    return !this.element.hidden;
  }

  /** Open the menu at the selection. `takesFocus`: for the keyboard. */
  open({ takesFocus = false } = {}) {
    if (!this.editor.range && !this.editor.link?.tail) return this.close();
    this.element.hidden = false;
    this.update();
    if (takesFocus) this.element.querySelector("button")?.focus();
    if (isNarrow()) this.#uncover();
    return undefined;
  }

  close() {
    if (this.element.contains(document.activeElement)) this.sheet.container.focus({ preventScroll: true });
    this.element.hidden = true;
  }

  /** Show the present selection, if the menu is open. */
  update() {
    if (!this.isOpen) return;
    const { editor } = this;
    const hasContent = !editor.isEmpty && (editor.link ? editor.link.tail : editor.range);
    if (!hasContent) return void this.close();
    const find = (selector) => this.element.querySelector(selector);
    const focused = this.element.contains(document.activeElement) ? document.activeElement.dataset.name : null;
    this.element.replaceChildren(...this.#content());
    if (focused) (find(`[data-name="${CSS.escape(focused)}"]`) ?? find("button"))?.focus();
    return this.place();
  }

  /** Put the menu below the selection, or above it if there is no room. */
  place() {
    if (!this.isOpen || isNarrow()) return;
    const { element } = this;
    const box = this.#selectionBox();
    if (!box) return;
    const { width, height } = element.getBoundingClientRect();
    const left = Math.max(MARGIN, Math.min(box.left, innerWidth - width - MARGIN));
    const fitsBelow = box.bottom + GAP + height < innerHeight - MARGIN;
    const top = fitsBelow ? box.bottom + GAP : Math.max(MARGIN, box.top - GAP - height);
    Object.assign(element.style, { left: `${left}px`, top: `${top}px` });
  }

  #selectionBox() {
    const { editor } = this;
    const [first, last] = editor.range ?? [];
    return this.sheet.boxOf({ key: editor.link?.tail ?? editor.key, first, last });
  }

  /** Scroll until the selection is above the menu at the bottom of the screen. */
  #uncover() {
    const hidden = (this.#selectionBox()?.bottom ?? 0) + GAP - this.element.getBoundingClientRect().top;
    if (hidden > 0) window.scrollBy(0, hidden);
  }

  #content() {
    const { editor } = this;
    const { item, link } = editor;
    const act = (action) => () => {
      action();
      this.close();
    };
    const actions = [];
    const add = (name, key, action) => actions.push(createAction(name, key, action));
    if (link) add("Reverse", "f", () => editor.flip());
    else if (item?.isOpen) {
      // The menu stays for the next suggestion.
      add("Accept", "a", () => editor.accept());
      add("Reject", "x", () => editor.remove());
    } else if (item) {
      if (isRelation(item) && editor.labels.isDirected(item.label)) add("Reverse", "f", () => editor.flip());
      add("Delete", "x", act(() => editor.remove()));
    }
    if (item && !link && !isRelation(item) && editor.labels.relations.length) {
      add("Relate", "r", act(() => editor.startLink(item.key)));
    }
    const resizing = link || (item && isRelation(item)) ? [] : [this.#createResizing()];
    const choices = editor.choices.map((label, position) => this.#createChoice(label, position, act));
    const close = createHtml("button", { ...named("Close"), class: "close", click: act(() => editor.cancel()) }, "×");
    return [
      createHtml("header", {}, this.#createTitle(), close),
      createHtml("div", { class: "choices drawing" }, ...choices),
      createHtml("div", { class: "actions" }, ...actions, ...resizing),
    ];
  }

  #createTitle() {
    const { editor } = this;
    const { item, link } = editor;
    const phrase = (key) => createHtml("bdi", {}, editor.phrase(key));
    if (link) return createHtml("p", {}, phrase(link.head), " → ", phrase(link.tail));
    const score = item?.isOpen ? [createHtml("span", { class: "help" }, ` suggested, ${formatScore(item.score)}`)] : [];
    if (item && isRelation(item)) {
      const arrow = editor.labels.arrow(item.label);
      return createHtml("p", {}, phrase(item.head), ` ${arrow} `, phrase(item.tail), ...score);
    }
    const span = item ?? editor.words.span(...editor.range);
    return createHtml("p", {}, createHtml("bdi", {}, editor.words.phrase(span)), ...score);
  }

  #createChoice(label, position, act) {
    const { editor } = this;
    const ofRelation = editor.choices === editor.labels.relations;
    const css = ofRelation ? editor.labels.relationClass(label) : editor.labels.entityClass(label);
    const pressed = !editor.link && editor.item && !editor.item.isOpen ? String(editor.item.label === label) : null;
    const name = `label ${label}`;
    const attributes = { type: "button", class: `choice ${css}`, "aria-pressed": pressed, "data-name": name };
    const title = editor.labels.definition(label, ofRelation) || null;
    return createHtml(
      "button",
      { ...attributes, title, click: act(() => editor.applyLabel(label)) },
      ...(position < 9 ? [createHtml("kbd", { "aria-hidden": "true" }, String(position + 1))] : []),
      createHtml("span", {}, label),
    );
  }

  /** Create the buttons that move the borders of the selection, for fingers and small corrections. */
  #createResizing() {
    const { editor } = this;
    const create = (name, text, side, by) =>
      createHtml(
        "button",
        { ...named(name), class: "resize", title: name, click: () => editor.resize(side, by) },
        text,
      );
    return createHtml(
      "span",
      { class: "resizing", role: "group", "aria-label": "Words" },
      create("Add the word before", "⟵", "start", -1),
      create("Remove the first word", "⟼", "start", 1),
      create("Remove the last word", "⟻", "end", -1),
      create("Add the word after", "⟶", "end", 1),
    );
  }

  #moveFocus(event) {
    const buttons = Array.from(this.element.querySelectorAll("button"));
    const at = buttons.indexOf(document.activeElement);
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (at < 0 || !step || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    buttons[(at + step + buttons.length) % buttons.length].focus();
  }
}

/** Attributes of a button without text. */
const named = (name) => ({ type: "button", "aria-label": name, "data-name": name });

function createAction(name, key, action) {
  const hint = createHtml("kbd", { "aria-hidden": "true" }, key);
  return createHtml("button", { type: "button", class: "action", "data-name": name, click: action }, name, " ", hint);
}
