/* The order of entities and relations in a document: sentence by sentence, entities before relations. */

export const isRelation = (item) => "head" in item;

/** Return the first entity of an item, which tells where it is. */
const anchor = (item, byKey) => (isRelation(item) ? byKey.get(item.head) : item);

/** Return the items of one kind in order: "open" suggestions, "entity" or "relation". */
export function sortItems({ entities, relations }, kind, words) {
  const byKey = new Map(entities.map((entity) => [entity.key, entity]));
  const open = () => [...entities, ...relations].filter(({ isOpen }) => isOpen);
  const chosen = { entity: () => entities, relation: () => relations, open }[kind]();
  const place = (item) => {
    const entity = anchor(item, byKey);
    return [words.sentenceOf(entity), isRelation(item) ? 1 : 0, entity.start, -entity.end];
  };
  return chosen
    .map((item) => ({ item, place: place(item), start: anchor(item, byKey).start }))
    .sort((a, b) => compare(a.place, b.place));
}

function compare(a, b) {
  const at = a.findIndex((value, position) => value !== b[position]);
  return at < 0 ? 0 : a[at] - b[at];
}

/** Return the item after or before the one with a key, or else after or before an offset; around at the ends. */
export function findNeighbour(sorted, by, { key, offset }) {
  const at = sorted.findIndex(({ item }) => item.key === key);
  if (at >= 0) return sorted.at((at + by) % sorted.length).item;
  const next = sorted.findIndex(({ start }) => start >= offset);
  if (by > 0) return sorted[Math.max(0, next)].item;
  return sorted.at(next < 0 ? -1 : next - 1).item;
}
