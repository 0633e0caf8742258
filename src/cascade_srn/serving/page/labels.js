/* The colours of labels, by their place in the schema, as the drawing has them. */

const N_COLOURS = 8;
const PATTERNS = ["", " dashed", " dotted"];

/** Which labels there are, and the classes that give them their colours. */
export class Labels {
  constructor({ entity_types: entities = [], relation_types: relations = [], symmetric = [] } = {}) {
    this.entities = entities;
    this.relations = relations;
    this.symmetric = new Set(symmetric);
  }

  ofEntity(label) {
    return classes(this.entities.indexOf(label));
  }

  ofRelation(label) {
    return classes(this.relations.indexOf(label));
  }

  directed(label) {
    return !this.symmetric.has(label);
  }
}

function classes(place) {
  const at = place < 0 ? N_COLOURS - 1 : place;
  return `c${at % N_COLOURS}${PATTERNS[Math.floor(at / N_COLOURS) % PATTERNS.length]}`;
}
