/* CSS classes of labels. They follow the order of the schema, as in the drawing (drawing/colours.py). */

const N_COLOURS = 8;
const PATTERNS = ["", " dashed", " dotted"];

/** The labels of the model. */
export class Labels {
  constructor({ entity_types: entities = [], relation_types: relations = [], symmetric = [] } = {}) {
    this.entities = entities;
    this.relations = relations;
    this.symmetric = new Set(symmetric);
  }

  entityClass(label) {
    return colourClass(this.entities.indexOf(label));
  }

  relationClass(label) {
    return colourClass(this.relations.indexOf(label));
  }

  isDirected(label) {
    return !this.symmetric.has(label);
  }

  arrow(label) {
    return this.isDirected(label) ? "→" : "↔";
  }
}

/** Return the schema of labels that are given as objects with a `label`, and `symmetric` for relations. */
export function toSchema(entities, relations) {
  const names = (items) => items.map(({ label }) => label);
  return {
    entity_types: names(entities),
    relation_types: names(relations),
    symmetric: names(relations.filter(({ symmetric }) => symmetric)),
  };
}

function colourClass(position) {
  const at = position < 0 ? N_COLOURS - 1 : position;
  return `c${at % N_COLOURS}${PATTERNS[Math.floor(at / N_COLOURS) % PATTERNS.length]}`;
}
