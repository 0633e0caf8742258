/* The search box: a combobox by the ARIA pattern that completes names of entities. */

import { byId, createHtml, formatCount } from "../../../web/shared/dom.js";
import { debounce, latestOnly } from "../../../web/shared/timing.js";

const TYPING_DELAY = 120;

/** Set up the search box. `find(text, signal)` returns nodes, `onChoose(node)` gets the chosen one. */
export function createSearch({ find, labels, onChoose, onError }) {
  const field = byId("search");
  const list = byId("completions");
  let nodes = [];
  // The text that the nodes were found for.
  let completed = "";
  let active = -1;

  const close = () => {
    list.hidden = true;
    active = -1;
    field.setAttribute("aria-expanded", "false");
    field.removeAttribute("aria-activedescendant");
  };
  const choose = (node) => {
    update.cancel();
    complete.abort();
    close();
    field.value = "";
    onChoose(node.node);
  };
  const mark = (position) => {
    active = position;
    list.querySelectorAll("[role=option]").forEach((option, number) => {
      option.setAttribute("aria-selected", String(number === active));
      if (number !== active) return;
      option.scrollIntoView({ block: "nearest" });
      field.setAttribute("aria-activedescendant", option.id);
    });
  };
  const show = () => {
    const options = nodes.map((node, number) => createOption(node, number, labels(), () => choose(node)));
    const nothing = createHtml("li", { class: "nothing-found" }, "No entity found.");
    list.replaceChildren(...(options.length ? options : [nothing]));
    list.hidden = false;
    field.setAttribute("aria-expanded", "true");
    field.removeAttribute("aria-activedescendant");
    active = -1;
  };
  const complete = latestOnly(async (signal) => {
    const text = field.value.trim();
    if (!text) return close();
    const found = await find(text, signal);
    signal.throwIfAborted();
    [nodes, completed] = [found, text];
    return show();
  });
  const update = debounce(() => complete().catch(onError), TYPING_DELAY);

  field.addEventListener("input", update);
  field.addEventListener("focus", () => field.value.trim() && update.now());
  field.addEventListener("blur", close);
  field.addEventListener("keydown", async (event) => {
    if (event.isComposing) return;
    const isOpen = !list.hidden && nodes.length > 0;
    const n = nodes.length;
    if (event.key === "Escape") {
      if (list.hidden) field.value = "";
      close();
    } else if (event.key === "Enter") {
      event.preventDefault();
      // Enter before the list has appeared chooses the best entity. A delayed update would abort this search.
      update.cancel();
      const text = field.value.trim();
      if (!isOpen || completed !== text) await complete().catch(onError);
      if (text && completed === text && nodes.length) choose(nodes[Math.max(0, active)]);
    } else if (isOpen && event.key === "ArrowDown") mark((active + 1) % n);
    else if (isOpen && event.key === "ArrowUp") mark((active + n - (active < 0 ? 0 : 1)) % n);
    else return;
    if (event.key !== "Enter") event.preventDefault();
  });
  return field;
}

function createOption({ name, form, label, n_documents: n }, number, labels, onChoose) {
  const documents = formatCount(n, "document", "documents");
  const other = form === name ? [] : [createHtml("span", { class: "form" }, createHtml("bdi", {}, form))];
  const attributes = { role: "option", id: `completion-${number}`, "aria-selected": "false" };
  // The field keeps the focus, and a click does not close the list before it is handled.
  const keep = (event) => event.preventDefault();
  return createHtml(
    "li",
    { ...attributes, class: labels.entityClass(label), pointerdown: keep, mousedown: keep, click: onChoose },
    createHtml("span", { class: "name" }, createHtml("bdi", {}, name), ...other),
    createHtml("span", { class: "type" }, label),
    createHtml("span", { class: "n" }, documents),
  );
}
