/* The panels beside the text: the list of entities and relations, the labels, the guidelines. */

import { byId, createHtml, formatScore } from "../../web/shared/dom.js";
import { Labels, toSchema } from "../../web/shared/labels.js";
import { renderMarkdown } from "./markdown.js";
import { isRelation } from "./order.js";

/** The labels of a project with their definitions. */
export class ProjectLabels extends Labels {
  constructor({ entities, relations }) {
    super(toSchema(entities, relations));
    const toMap = (items) => new Map(items.map(({ label, definition }) => [label, definition]));
    this.definitions = [toMap(entities), toMap(relations)];
  }

  definition(label, ofRelation) {
    return this.definitions[ofRelation ? 1 : 0].get(label) ?? "";
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
  const related = relations.length ? createGroup("Relations", relations) : [];
  const { scrollTop } = panel;
  panel.replaceChildren(...(entities.length ? [...createGroup("Entities", entities), ...related] : [help]));
  panel.scrollTop = scrollTop;
  if (focused) panel.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  return undefined;
}

function createItem(item, editor, onSelect) {
  const ofRelation = isRelation(item);
  const css = ofRelation ? editor.labels.relationClass(item.label) : editor.labels.entityClass(item.label);
  const arrow = editor.labels.arrow(item.label);
  const text = ofRelation
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
  const createRow = ({ label, definition, symmetric }, position, ofRelation) => {
    const css = ofRelation ? labels.relationClass(label) : labels.entityClass(label);
    const key = position < 9 ? [createHtml("kbd", {}, String(position + 1)), " "] : [];
    const both = symmetric ? [" ", createHtml("span", { class: "value" }, "in both directions")] : [];
    return createHtml(
      "li",
      { class: css },
      createHtml("p", {}, ...key, createHtml("span", { class: ofRelation ? "relation-name" : "tag" }, label), ...both),
      ...(definition ? [createHtml("p", { class: "definition", dir: "auto" }, definition)] : []),
    );
  };
  const createGroup = (name, items, ofRelation) => [
    createHtml("h3", {}, name),
    createHtml("ul", { class: "label-list drawing" }, ...items.map((item, at) => createRow(item, at, ofRelation))),
  ];
  byId("panel-labels").replaceChildren(
    ...createGroup("Entities", entities, false),
    ...(relations.length ? createGroup("Relations", relations, true) : []),
  );
}

export function showGuidelines(text) {
  const help = "This project has no guidelines. Write them into guidelines.md in its folder.";
  const nothing = createHtml("p", { class: "nothing" }, help);
  byId("panel-guidelines").replaceChildren(...(text?.trim() ? renderMarkdown(text) : [nothing]));
}
