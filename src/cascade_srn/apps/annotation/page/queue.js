/* The queue: documents in the order of the server, the most useful first, with search and states. */

import { byId, createHtml, formatCount } from "../../web/shared/dom.js";
import { debounce, latestOnly } from "../../web/shared/timing.js";

const [PAGE, MAX_PAGE, TYPING_DELAY] = [50, 200, 200];
const STATE_NAMES = { new: "new", started: "started", done: "done" };

/** The queue. `fetchPage({state, search, offset, limit, signal})` asks the server, `onOpen(id)` opens a document. */
export class Queue {
  items = [];
  total = 0;
  current = null;
  query = {};

  constructor({ fetchPage, onOpen, onError }) {
    this.fetchPage = fetchPage;
    this.onOpen = onOpen;
    const reload = () => this.reload().catch(onError);
    byId("search").addEventListener("input", debounce(reload, TYPING_DELAY));
    byId("search").addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.isComposing) this.#openFirst().catch(onError);
    });
    byId("state").addEventListener("change", reload);
    byId("more").addEventListener("click", () => this.#loadMore().catch(onError));
  }

  #load = latestOnly(async (signal) => {
    const query = { search: byId("search").value.trim(), state: byId("state").value };
    // As many as were shown before, so that a reload does not shorten the list.
    const limit = Math.min(MAX_PAGE, Math.max(PAGE, this.items.length));
    const { total, items } = await this.fetchPage({ ...query, offset: 0, limit, signal });
    signal.throwIfAborted();
    Object.assign(this, { items, total, query });
    this.#show();
  });

  /** Load the list again. */
  reload() {
    return this.#load();
  }

  async #openFirst() {
    await this.reload();
    if (this.items.length) this.onOpen(this.items[0].id);
  }

  async #loadMore() {
    const { items, total } = await this.fetchPage({ ...this.query, offset: this.items.length, limit: PAGE });
    const known = new Set(this.items.map(({ id }) => id));
    this.items.push(...items.filter(({ id }) => !known.has(id)));
    this.total = items.length ? total : this.items.length;
    this.#show();
  }

  /** Mark the open document. */
  setCurrent(id) {
    this.current = id;
    for (const button of byId("queue").querySelectorAll("button")) {
      const isCurrent = button.dataset.id === id;
      if (isCurrent) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
      if (isCurrent && byId("queue-box").open) button.scrollIntoView({ block: "nearest" });
    }
  }

  /** Show the numbers of a document after a change. */
  update(id, changes) {
    const position = this.items.findIndex((item) => item.id === id);
    if (position < 0) return;
    Object.assign(this.items[position], changes);
    const old = byId("queue").children[position];
    const hadFocus = old.contains(document.activeElement);
    const row = this.#createRow(this.items[position]);
    old.replaceWith(row);
    if (hadFocus) row.querySelector("button").focus();
  }

  /** Return the next or previous document, loading more if needed; null at the ends. `isWanted` filters. */
  async neighbour(by, isWanted = (_item) => true) {
    let position = this.items.findIndex(({ id }) => id === this.current);
    // A document that the filters hide is followed by the first one.
    if (position < 0 && by < 0) return null;
    for (;;) {
      position += by;
      if (position >= this.items.length && this.items.length < this.total) await this.#loadMore();
      const item = this.items[position];
      if (!item) return null;
      if (isWanted(item)) return item.id;
    }
  }

  #show() {
    const list = byId("queue");
    const nothing = createHtml("li", { class: "help" }, "No documents found.");
    list.replaceChildren(...(this.items.length ? this.items.map((item) => this.#createRow(item)) : [nothing]));
    byId("more").hidden = this.items.length >= this.total;
    this.setCurrent(this.current);
  }

  #createRow({ id, title, state, n_entities: nEntities, n_relations: nRelations, n_suggestions: nSuggestions }) {
    const counts = [
      formatCount(nEntities, "entity", "entities"),
      nRelations ? formatCount(nRelations, "relation", "relations") : null,
      nSuggestions && state !== "done" ? `${nSuggestions} suggested` : null,
    ];
    const detail = state === "new" ? counts.slice(2) : counts;
    const attributes = { type: "button", "data-id": id, "aria-current": id === this.current ? "true" : null };
    return createHtml(
      "li",
      {},
      createHtml(
        "button",
        { ...attributes, click: () => this.onOpen(id) },
        createHtml("span", { class: `state ${state}`, title: STATE_NAMES[state] }),
        createHtml("span", { class: "title", dir: "auto" }, title),
        createHtml("span", { class: "visually-hidden" }, `, ${STATE_NAMES[state]}`),
        createHtml("span", { class: "detail" }, detail.filter(Boolean).join(", ")),
      ),
    );
  }
}
