/* What the page shows. It is kept in the fragment of the address, so a link leads to the same view. */

const VIEWS = ["graph", "table", "ranking", "path", "overview"];
const DEFAULT_LIMIT = 25;
// On a phone, fewer boxes can be read.
const PHONE_LIMIT = 10;

export const NO_FILTERS = { type: [], relation: [], min_score: 0, min_count: 1, first_year: null, last_year: null };

export const isPhone = () => window.matchMedia("(max-width: 36rem)").matches;

/** Return the state in a fragment. Values that cannot be read are left out. */
export function readState(fragment) {
  const given = new URLSearchParams(fragment.replace(/^#/u, ""));
  const number = (name, fallback, low = 0, high = Number.MAX_SAFE_INTEGER) => {
    const value = Number(given.get(name));
    return given.get(name)?.trim() && Number.isFinite(value) && value >= low && value <= high ? value : fallback;
  };
  const integer = (name, fallback, low, high) => {
    const value = number(name, fallback, low, high);
    return Number.isInteger(value) ? value : fallback;
  };
  return {
    nodes: Array.from(new Set(given.getAll("node"))),
    filters: {
      type: given.getAll("type"),
      relation: given.getAll("relation"),
      min_score: number("min_score", 0, 0, 1),
      min_count: integer("min_count", 1, 1),
      first_year: integer("first_year", null, 0, 9999),
      last_year: integer("last_year", null, 0, 9999),
    },
    limit: integer("limit", isPhone() ? PHONE_LIMIT : DEFAULT_LIMIT, 1, 200),
    selected: given.get("select"),
    edge: integer("edge", null),
    view: VIEWS.includes(given.get("view")) ? given.get("view") : "graph",
    rankingType: given.get("rank"),
    rankingBy: given.get("by"),
    start: given.get("start"),
    end: given.get("end"),
  };
}

/** Return the fragment of a state. */
export function formatState({ nodes, filters, limit, selected, edge, view, rankingType, rankingBy, start, end }) {
  const fragment = new URLSearchParams();
  const add = (name, value, isDefault = value === null || value === undefined) => {
    if (!isDefault) fragment.append(name, value);
  };
  for (const node of nodes) add("node", node);
  for (const label of filters.type) add("type", label);
  for (const label of filters.relation) add("relation", label);
  add("min_score", filters.min_score, filters.min_score === 0);
  add("min_count", filters.min_count, filters.min_count === 1);
  add("first_year", filters.first_year);
  add("last_year", filters.last_year);
  // Always there, because the default depends on the screen.
  add("limit", limit, !nodes.length);
  add("select", selected);
  add("edge", edge);
  add("view", view, view === "graph");
  add("rank", rankingType);
  add("by", rankingBy);
  add("start", start);
  add("end", end);
  return fragment.size ? `#${fragment}` : "";
}

/** Return the number of filters that are set. */
export function countFilters(filters) {
  return Object.keys(NO_FILTERS).filter((name) => String(filters[name]) !== String(NO_FILTERS[name])).length;
}
