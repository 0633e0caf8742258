/* What was found in a text: filtered by score, and its entities brought together by their words and type. */

/** The document with what scores at least that much; relations stay where both their ends do. */
export function withLeast(document, least) {
  const passes = ({ score }) => (score ?? 1) >= least;
  const entities = document.entities.filter(passes);
  const places = new Map(entities.map((entity, place) => [entity.id, place]));
  const relations = document.relations
    .filter((relation) => passes(relation) && places.has(relation.head) && places.has(relation.tail))
    .map((relation) => ({ ...relation, head: places.get(relation.head), tail: places.get(relation.tail) }));
  return { ...document, entities: entities.map((entity, id) => ({ ...entity, id })), relations };
}

/**
 * Thresholds of half the height, none below the lowest that the service takes; those there already stay as they are.
 * They are told nevertheless: with a threshold for all entities told, the service forgets what else the model has for
 * some of them.
 */
export function halved(thresholds, lowest = 0) {
  const half = (value) => {
    if (value === null || value === undefined) return null;
    if (typeof value !== "number") return mapped(value, half);
    return Math.min(value, Math.max(lowest, value / 2));
  };
  return mapped(thresholds, half);
}

function mapped(record, change) {
  const changed = Object.entries(record).map(([name, value]) => [name, change(value)]);
  return Object.fromEntries(changed.filter(([, value]) => value !== null));
}

/** The key of all entities that share their words (however they are spaced and cased) and their type. */
export function keyOf(entity) {
  const words = entity.text.normalize("NFC").replace(/\s+/gu, " ").trim().toLocaleLowerCase("en");
  return `${entity.label}\n${words}`;
}

/**
 * The entities of a document, those with the same words and type as one, in the order of the text.
 * Each: {key, text, label, score (the highest), mentions, relations}; relations are as `triples` gives them.
 */
export function concepts(document) {
  const found = new Map();
  for (const entity of document.entities) {
    const key = keyOf(entity);
    const { text, label } = entity;
    if (!found.has(key)) found.set(key, { key, text, label, score: null, mentions: [], relations: [] });
    const concept = found.get(key);
    concept.mentions.push(entity);
    if (entity.score !== null) concept.score = Math.max(concept.score ?? 0, entity.score);
  }
  for (const triple of triples(document)) {
    const ends = new Set([keyOf(triple.head), keyOf(triple.tail)]);
    for (const key of ends) found.get(key).relations.push(triple);
  }
  return Array.from(found.values()).sort((one, other) => one.mentions[0].start - other.mentions[0].start);
}

/** Relations with their two entities in place of the numbers of these, each once. */
export function triples(document) {
  const seen = new Set();
  const found = [];
  for (const { head, label, tail, score } of document.relations) {
    const name = JSON.stringify([head, label, tail]);
    if (seen.has(name)) continue;
    seen.add(name);
    found.push({ head: document.entities[head], label, tail: document.entities[tail], score });
  }
  return found;
}
