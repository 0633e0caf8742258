/* The content of an annotation: {state, note, entities, relations, rejected}. Every change returns a new content. */

/** A change that is not possible, with a message for the user. */
export class EditError extends Error {}

export const entityKey = ({ start, end, label }) => `${start}:${end}:${label}`;
export const relationKey = (head, label, tail) => `${entityKey(head)}>${label}>${entityKey(tail)}`;

export const findById = (items, id) => items.find((item) => item.id === id);

const sameSpan = (one, other) => one.start === other.start && one.end === other.end;
const replaceItem = (items, id, changes) => items.map((item) => (item.id === id ? { ...item, ...changes } : item));

/** Return an id that no item has. */
function newId(prefix, items) {
  const used = new Set(items.map(({ id }) => id));
  let number = items.length + 1;
  while (used.has(`${prefix}${number}`)) number += 1;
  return `${prefix}${number}`;
}

/** Return the content as started, unless it is done. */
export const touched = (content) => (content.state === "new" ? { ...content, state: "started" } : content);

/** Add an entity, or change the label of the one with the same words. Returns [content, id]. */
export function addEntity(content, { start, end, label, origin = "person" }) {
  const same = content.entities.find((entity) => sameSpan(entity, { start, end }));
  if (same) return [relabelEntity(content, same.id, label, origin), same.id];
  const id = newId("e", content.entities);
  const entities = [...content.entities, { id, start, end, label, origin }];
  return [touched({ ...content, entities }), id];
}

export function relabelEntity(content, id, label, origin = "person") {
  if (findById(content.entities, id).label === label) return content;
  return touched({ ...content, entities: replaceItem(content.entities, id, { label, origin }) });
}

/** Give an entity other words. */
export function moveEntity(content, id, { start, end }) {
  if (content.entities.some((entity) => entity.id !== id && sameSpan(entity, { start, end }))) {
    throw new EditError("Another entity has these words.");
  }
  return touched({ ...content, entities: replaceItem(content.entities, id, { start, end, origin: "person" }) });
}

/** Remove an entity and its relations. */
export function removeEntity(content, id) {
  const relations = content.relations.filter(({ head, tail }) => head !== id && tail !== id);
  return touched({ ...content, entities: content.entities.filter((entity) => entity.id !== id), relations });
}

/** Add a relation. Returns [content, id]. `schema` tells which relations are symmetric, `words` the sentences. */
export function addRelation(content, { head, tail, label, origin = "person" }, { words, labels }) {
  checkRelation(content, { head, tail, label }, { words, labels });
  const id = newId("r", content.relations);
  return [touched({ ...content, relations: [...content.relations, { id, head, tail, label, origin }] }), id];
}

/** Change the label or the direction of a relation. */
export function changeRelation(content, id, changes, context) {
  const relation = { ...findById(content.relations, id), ...changes, origin: "person" };
  const others = { ...content, relations: content.relations.filter((other) => other.id !== id) };
  checkRelation(others, relation, context);
  return touched({ ...content, relations: replaceItem(content.relations, id, relation) });
}

export function removeRelation(content, id) {
  return touched({ ...content, relations: content.relations.filter((relation) => relation.id !== id) });
}

function checkRelation(content, { head, tail, label }, { words, labels }) {
  const [first, second] = [findById(content.entities, head), findById(content.entities, tail)];
  if (head === tail) throw new EditError("A relation needs two different entities.");
  if (words.sentenceOf(first) !== words.sentenceOf(second)) {
    throw new EditError("A relation needs two entities of the same sentence.");
  }
  const isSame = (other) =>
    other.label === label &&
    ((other.head === head && other.tail === tail) ||
      (!labels.isDirected(label) && other.head === tail && other.tail === head));
  if (content.relations.some(isSame)) throw new EditError("These entities have this relation already.");
}

/** Return whether two contents have the same entities and relations, state and note; ids do not matter. */
export function isSameContent(one, other) {
  return JSON.stringify(normalize(one)) === JSON.stringify(normalize(other));
}

function normalize({ state, note, entities, relations, rejected }) {
  const keys = new Map(entities.map((entity) => [entity.id, entity]));
  return [
    state,
    note,
    entities.map(entityKey).sort(),
    relations.map(({ head, label, tail }) => relationKey(keys.get(head), label, keys.get(tail))).sort(),
    [...rejected].sort(),
  ];
}

/** Undo and redo over contents. */
export class History {
  #past = [];
  #future = [];

  constructor(content) {
    this.content = content;
  }

  get canUndo() {
    return this.#past.length > 0;
  }

  get canRedo() {
    return this.#future.length > 0;
  }

  /** Set a new content. Returns whether it differs. `merges`: it replaces the last change, as in typing a note. */
  change(content, { merges = false } = {}) {
    if (content === this.content) return false;
    if (!merges) this.#past.push(this.content);
    this.#future = [];
    this.content = content;
    return true;
  }

  undo() {
    if (!this.canUndo) return false;
    this.#future.push(this.content);
    this.content = this.#past.pop();
    return true;
  }

  redo() {
    if (!this.canRedo) return false;
    this.#past.push(this.content);
    this.content = this.#future.pop();
    return true;
  }
}
