/* Filter the entities and relations of a document by score, and group mentions of the same entity. */

/** Return the document without results below a score. A relation needs both of its entities. */
export function filterByScore(document, minScore) {
  const passes = ({ score }) => (score ?? 1) >= minScore;
  const entities = document.entities.filter(passes);
  const positions = new Map(entities.map((entity, position) => [entity.id, position]));
  const relations = document.relations
    .filter((relation) => passes(relation) && positions.has(relation.head) && positions.has(relation.tail))
    .map((relation) => ({ ...relation, head: positions.get(relation.head), tail: positions.get(relation.tail) }));
  return { ...document, entities: entities.map((entity, id) => ({ ...entity, id })), relations };
}

/**
 * Return half of each threshold, but at least `min`. Thresholds below `min` stay unchanged.
 *
 * Thresholds of single labels are included: the service discards those of the model if a request sets a new one for
 * all labels.
 */
export function halveThresholds(thresholds, min = 0) {
  const halve = (value) => {
    if (value === null || value === undefined) return null;
    if (typeof value !== "number") return halveThresholds(value, min);
    return Math.min(value, Math.max(min, value / 2));
  };
  const halved = Object.entries(thresholds).map(([name, value]) => [name, halve(value)]);
  return Object.fromEntries(halved.filter(([, value]) => value !== null));
}

/** Return a key that mentions with the same label and words share, regardless of case and spacing. */
export function entityKey(entity) {
  const words = entity.text.normalize("NFC").replace(/\s+/gu, " ").trim().toLocaleLowerCase("en");
  return `${entity.label}\n${words}`;
}

/**
 * Group the mentions of a document by key, in text order.
 *
 * Returns a list of concepts {key, text, label, score, mentions, relations}. The score is the highest of the mentions.
 */
export function groupMentions(document) {
  const concepts = new Map();
  for (const entity of document.entities) {
    const key = entityKey(entity);
    const { text, label } = entity;
    if (!concepts.has(key)) concepts.set(key, { key, text, label, score: null, mentions: [], relations: [] });
    const concept = concepts.get(key);
    concept.mentions.push(entity);
    if (entity.score !== null) concept.score = Math.max(concept.score ?? 0, entity.score);
  }
  for (const triple of resolveTriples(document)) {
    const keys = new Set([entityKey(triple.head), entityKey(triple.tail)]);
    for (const key of keys) concepts.get(key).relations.push(triple);
  }
  return Array.from(concepts.values()).sort((a, b) => a.mentions[0].start - b.mentions[0].start);
}

/** Return the relations with their entities in place of entity ids, without duplicates. */
export function resolveTriples(document) {
  const seen = new Set();
  const triples = [];
  for (const { head, label, tail, score } of document.relations) {
    const name = JSON.stringify([head, label, tail]);
    if (seen.has(name)) continue;
    seen.add(name);
    triples.push({ head: document.entities[head], label, tail: document.entities[tail], score });
  }
  return triples;
}
