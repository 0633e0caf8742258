/* The panels beside the text: the list of entities and relations, the labels, the guidelines. */

import { byId, createHtml, formatScore } from "./dom.js";
import { Labels } from "./labels.js";
import { renderMarkdown } from "./markdown.js";

/** The labels of a project with their definitions. */
export class ProjectLabels extends Labels {
  constructor({ entities, relations }) {
    super({
      entity_types: entities.map(({ label }) => label),
      relation_types: relations.map(({ label }) => label),
      symmetric: relations.filter(({ symmetric }) => symmetric).map(({ label }) => label),
    });
    this.definitions = [entities, relations].map((each) => new Map(each.map(({ label, definition }) => [label, definition])));
  }

  definition(label, isRelation) {
    return this.definitions[isRelation ? 1 : 0].get(label) ?? "";
  }
}

/** Show the entities and relations of an editor as a list. A click selects one. */
export function showList(editor, onSelect) {
  const panel = byId("panel-list");
  if (editor.isEmpty) return panel.replaceChildren();
  const { entitiesInOrder: entities, relationsInOrder: relations } = editor;
  byId("n-items").textContent = entities.length + relations.length || "";
  // The focus stays on the item, which is a new element.
  const focused = panel.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  const createRow = (item) => createHtml("li", {}, createItem(item, editor, onSelect));
  const createGroup = (name, items) => [
    createHtml("h3", {}, name, " ", createHtml("span", { class: "number" }, String(items.length))),
    createHtml("ul", { class: "items drawing" }, ...items.map(createRow)),
  ];
  const help = createHtml("p", { class: "nothing" }, "No entities yet. Select words in the text and choose a label.");
  const groups = [...createGroup("Entities", entities), ...(relations.length ? createGroup("Relations", relations) : [])];
  const { scrollTop } = panel;
  panel.replaceChildren(...(entities.length ? groups : [help]));
  panel.scrollTop = scrollTop;
  if (focused) panel.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  return undefined;
}

function createItem(item, editor, onSelect) {
  const isRelation = editor.isRelation(item);
  const css = isRelation ? editor.labels.relationClass(item.label) : editor.labels.entityClass(item.label);
  const arrow = isRelation && !editor.labels.isDirected(item.label) ? "↔" : "→";
  const text = isRelation
    ? [createHtml("bdi", {}, editor.phrase(item.head)), ` ${arrow} `, createHtml("bdi", {}, editor.phrase(item.tail))]
    : [createHtml("bdi", {}, editor.words.phrase(item))];
  const score = item.isOpen ? [createHtml("span", { class: "value" }, `suggested ${formatScore(item.score)}`)] : [];
  const attributes = { type: "button", class: `item ${css}${item.isOpen ? " open" : ""}`, "data-key": item.key };
  return createHtml(
    "button",
    { ...attributes, "aria-pressed": String(item.key === editor.key), click: () => onSelect(item.key) },
    createHtml("span", { class: "phrase" }, ...text),
    createHtml("span", { class: "label" }, item.label, ...score),
  );
}

/** Mark the selected item in the list. */
export function markInList(key) {
  for (const button of byId("panel-list").querySelectorAll("[data-key]")) {
    const isSelected = button.dataset.key === key;
    button.setAttribute("aria-pressed", String(isSelected));
    if (isSelected) revealIn(byId("panel-list"), button);
  }
}

/** Scroll a container, but never the window, until an element is visible. */
function revealIn(container, element) {
  const [outer, inner] = [container.getBoundingClientRect(), element.getBoundingClientRect()];
  if (inner.top < outer.top) container.scrollTop -= outer.top - inner.top;
  else if (inner.bottom > outer.bottom) container.scrollTop += inner.bottom - outer.bottom;
}

/** Show all labels with their keys and definitions. */
export function showLabels(labels, { entities, relations }) {
  const createRow = ({ label, definition, symmetric }, position, isRelation) => {
    const css = isRelation ? labels.relationClass(label) : labels.entityClass(label);
    const key = position < 9 ? [createHtml("kbd", {}, String(position + 1)), " "] : [];
    const both = symmetric ? [" ", createHtml("span", { class: "value" }, "in both directions")] : [];
    return createHtml(
      "li",
      { class: css },
      createHtml("p", {}, ...key, createHtml("span", { class: isRelation ? "relation-name" : "tag" }, label), ...both),
      ...(definition ? [createHtml("p", { class: "definition", dir: "auto" }, definition)] : []),
    );
  };
  const createGroup = (name, items, isRelation) => [
    createHtml("h3", {}, name),
    createHtml("ul", { class: "label-list drawing" }, ...items.map((item, at) => createRow(item, at, isRelation))),
  ];
  byId("panel-labels").replaceChildren(
    ...createGroup("Entities", entities, false),
    ...(relations.length ? createGroup("Relations", relations, true) : []),
  );
}

export function showGuidelines(text) {
  const nothing = createHtml("p", { class: "nothing" }, "This project has no guidelines. Write them into guidelines.md in its folder.");
  byId("panel-guidelines").replaceChildren(...(text?.trim() ? renderMarkdown(text) : [nothing]));
}
