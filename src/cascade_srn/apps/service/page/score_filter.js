/* The minimum score slider, with a mark above it for each score in the text, and other choices of results. */

import { byId, createSvg, formatScore } from "../../web/shared/dom.js";

const HEIGHT = 26;
const THRESHOLD_NAMES = {
  entity: "entities",
  related: "entities in relations",
  subject: "subjects",
  object: "objects",
  relation: "relations",
};

const OVERLAPS_HELP = {
  flat: "No two entities share a word.",
  nested: "An entity may be inside another one.",
  all: "Every entity that passes the thresholds is kept.",
};

/**
 * Set up the slider, the checkbox that lowers the thresholds of the model and the choice for overlapping entities.
 *
 * The slider hides results with lower scores; at its left end everything is shown. The checkbox requests results
 * below the thresholds of the model as well. Both it and the choice for overlaps call `onRequest`.
 */
export function createScoreFilter({ onMinScore, onRequest }) {
  const [slider, checkbox, overlaps] = [byId("min-score"), byId("lower-thresholds"), byId("overlaps")];
  const showOverlaps = () => {
    byId("overlaps-help").textContent = OVERLAPS_HELP[overlaps.value];
  };
  slider.addEventListener("input", () => {
    showState(slider, checkbox.checked);
    onMinScore();
  });
  checkbox.addEventListener("change", () => {
    showState(slider, checkbox.checked);
    onRequest();
  });
  overlaps.addEventListener("change", () => {
    showOverlaps();
    onRequest();
  });
  showState(slider, checkbox.checked);
  return {
    get minScore() {
      return Number(slider.value);
    },
    get lowersThresholds() {
      return checkbox.checked;
    },
    get overlaps() {
      return overlaps.value;
    },
    /** Set the choice for overlapping entities, such as the default of the service. */
    setOverlaps(value) {
      overlaps.value = value;
      showOverlaps();
    },
    /** Show the slider with the scores of a document, or hide it if the document is null. */
    showScores(document) {
      byId("score-filter").hidden = !document;
      byId("strip").replaceChildren(createStrip(document ?? { entities: [], relations: [] }));
    },
    /** Describe the lowered thresholds. The checkbox is disabled if the server accepts no lower ones. */
    describe(thresholds, lowered) {
      const names = Object.keys(THRESHOLD_NAMES).filter((name) => lowered[name] < thresholds[name]);
      const changes = names.map(
        (name) => `${THRESHOLD_NAMES[name]} ${formatScore(lowered[name])} instead of ${formatScore(thresholds[name])}`,
      );
      byId("lower-thresholds-help").textContent = changes.length
        ? `Runs the model again with lower thresholds: ${changes.join(", ")}.`
        : "This server does not accept lower thresholds.";
      checkbox.disabled = !changes.length;
    },
  };
}

function showState(slider, lowersThresholds) {
  const minScore = Number(slider.value);
  const all = lowersThresholds ? "all results" : "model thresholds";
  const value = minScore ? `${formatScore(minScore)} and above` : all;
  byId("min-score-value").textContent = value;
  slider.setAttribute("aria-valuetext", value);
  slider.style.setProperty("--filled", `${(100 * minScore) / Number(slider.max)}%`);
  byId("min-score-help").textContent = minScore
    ? "Entities and relations with a lower score are hidden."
    : "All results of the model are shown. Move the slider to hide low scores.";
}

/** Draw a line for each score: up for entities, down for relations. */
function createStrip(document) {
  const middle = HEIGHT / 2;
  const svg = createSvg("svg", { viewBox: `0 0 100 ${HEIGHT}`, preserveAspectRatio: "none", height: HEIGHT });
  const addLines = (items, css, y1, y2) => {
    for (const { score } of items) {
      if (score === null || score === undefined) continue;
      const x = Math.min(100, (100 * score) / 0.95);
      svg.append(createSvg("line", { class: css, x1: x, x2: x, y1, y2, "data-score": score }));
    }
  };
  addLines(document.entities, "of-entity", 2, middle - 1);
  addLines(document.relations, "of-relation", middle + 1, HEIGHT - 2);
  return svg;
}
