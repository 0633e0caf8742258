/* Suggestions of the model that are open: neither accepted nor rejected, nor decided otherwise by the annotator. */

import { addEntity, addRelation, EditError, entityKey, findById, relationKey, touched } from "./content.js";

/** Return the suggestions that fit the words: entities of whole words, relations within a sentence. */
export function fitSuggestions({ entities, relations }, words) {
  const sentences = new Map();
  for (const entity of entities) {
    const [first, last] = words.range(entity);
    const sentence = words.all[first]?.sentence;
    if (first <= last && words.all[last].sentence === sentence) sentences.set(entity.id, sentence);
  }
  const isWithin = ({ head, tail }) => sentences.has(head) && sentences.get(head) === sentences.get(tail);
  return { entities: entities.filter(({ id }) => sentences.has(id)), relations: relations.filter(isWithin) };
}

/**
 * Merge an annotation with its open suggestions into the items to draw.
 *
 * Keys of items start with "a:" (annotated) or "s:" (suggested). Relations refer to keys. A suggested entity is decided
 * if an annotated one has the same words; a suggested relation refers to that one instead.
 *
 * Returns {entities: [{key, start, end, label, score, isOpen}], relations: [{key, head, tail, label, score, isOpen}]}.
 */
export function mergeSuggestions(content, suggestions, labels) {
  const rejected = new Set(content.rejected);
  const annotated = new Map(content.entities.map((entity) => [`${entity.start}:${entity.end}`, entity]));
  // Maps the ids of suggested entities to the keys of drawn items.
  const drawn = new Map();
  const open = [];
  for (const entity of suggestions.entities) {
    const same = annotated.get(`${entity.start}:${entity.end}`);
    if (same) drawn.set(entity.id, `a:${same.id}`);
    else if (!rejected.has(entityKey(entity))) {
      drawn.set(entity.id, `s:${entity.id}`);
      open.push({ ...entity, key: `s:${entity.id}`, isOpen: true });
    }
  }
  const own = content.entities.map((entity) => ({ ...entity, key: `a:${entity.id}`, score: null, isOpen: false }));
  const relations = content.relations.map((relation) => ({
    ...relation,
    key: `a:${relation.id}`,
    head: `a:${relation.head}`,
    tail: `a:${relation.tail}`,
    score: null,
    isOpen: false,
  }));
  const pairs = new Set();
  for (const { head, tail, label } of relations) {
    pairs.add(`${head}>${tail}`);
    if (!labels.isDirected(label)) pairs.add(`${tail}>${head}`);
  }
  for (const relation of suggestions.relations) {
    const [head, tail] = [drawn.get(relation.head), drawn.get(relation.tail)];
    if (!head || !tail || head === tail || pairs.has(`${head}>${tail}`)) continue;
    if (rejected.has(suggestedRelationKey(relation, suggestions))) continue;
    relations.push({ ...relation, key: `s:${relation.id}`, head, tail, isOpen: true });
  }
  return { entities: [...own, ...open], relations };
}

function suggestedRelationKey({ head, label, tail }, { entities }) {
  return relationKey(findById(entities, head), label, findById(entities, tail));
}

/** Return the open items, at or above a score. */
export function openItems({ entities, relations }, minScore = 0) {
  const isChosen = ({ isOpen, score }) => isOpen && (score ?? 1) >= minScore;
  return { entities: entities.filter(isChosen), relations: relations.filter(isChosen) };
}

/** Accept one suggested entity, with another label if one is given. Returns [content, id]. */
export function acceptEntity(content, { start, end, label: suggested }, label = suggested) {
  return addEntity(content, { start, end, label, origin: label === suggested ? "model" : "person" });
}

/** Accept the entity of a key if it is still open. Returns [content, id]. */
export function acceptKey(content, key, items) {
  const id = key.slice(2);
  if (key.startsWith("a:")) return [content, id];
  return acceptEntity(content, items.entities.find((entity) => entity.key === key));
}

/** Accept a suggested relation and its entities. Returns [content, id]. */
export function acceptRelation(content, relation, items, context, label = relation.label) {
  const [withHead, head] = acceptKey(content, relation.head, items);
  const [withTail, tail] = acceptKey(withHead, relation.tail, items);
  const origin = label === relation.label ? "model" : "person";
  return addRelation(withTail, { head, tail, label, origin }, context);
}

/** Accept open items. Relations that repeat an accepted one are left out. */
export function acceptAll(content, chosen, items, context) {
  let result = content;
  for (const entity of chosen.entities) [result] = acceptEntity(result, entity);
  for (const relation of chosen.relations) {
    try {
      [result] = acceptRelation(result, relation, items, context);
    } catch (error) {
      if (!(error instanceof EditError)) throw error;
    }
  }
  return result;
}

/** Reject open items. Relations of a rejected entity disappear with it. */
export function rejectAll(content, chosen, suggestions) {
  const keys = [
    ...chosen.entities.map(entityKey),
    ...chosen.relations.map(({ id }) => suggestedRelationKey(findById(suggestions.relations, id), suggestions)),
  ];
  const rejected = [...new Set([...content.rejected, ...keys])];
  if (rejected.length === content.rejected.length) return content;
  return touched({ ...content, rejected });
}
