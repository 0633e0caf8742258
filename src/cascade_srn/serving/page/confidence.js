/* The slider of scores, and over it where the scores of this text lie. */

import { byId, shape, written } from "./dom.js";

const HEIGHT = 26;

/**
 * Wire the slider. At its left end nothing is hidden: what is shown is what the model itself reports. Farther to the
 * right, what scores less is hidden. `wider` asks for what lies below the model's own thresholds as well.
 */
export function confidence({ onLeast, onWider }) {
  const [slider, wider] = [byId("least"), byId("wider")];
  slider.addEventListener("input", () => {
    say(slider, wider.checked);
    onLeast();
  });
  wider.addEventListener("change", () => {
    say(slider, wider.checked);
    onWider();
  });
  say(slider, wider.checked);
  return {
    get least() {
      return Number(slider.value);
    },
    get wider() {
      return wider.checked;
    },
    /** Offer it for what was found, with a mark for each score; null: there is nothing to choose from. */
    offer(found) {
      byId("confidence").hidden = !found;
      byId("strip").replaceChildren(strip(found ?? { entities: [], relations: [] }));
    },
    /** Say what lowering the thresholds means; it means nothing where they are as low as the service takes. */
    explain(own, lowered) {
      const told = explained(own, lowered);
      byId("wider-help").textContent = told || "This server takes no lower thresholds than the model’s own.";
      wider.disabled = !told;
    },
  };
}

function say(slider, wider) {
  const least = Number(slider.value);
  const all = wider ? "all that was found" : "the model’s own choice";
  const said = least ? `${written(least)} and above` : all;
  byId("least-said").textContent = said;
  slider.setAttribute("aria-valuetext", said);
  slider.style.setProperty("--filled", `${(100 * least) / Number(slider.max)}%`);
  byId("least-help").textContent = least
    ? "Entities and relations that score less are hidden."
    : wider
      ? "Nothing is hidden. Move it to hide what scores less."
      : "Nothing is hidden: this is what the model reports. Move it to hide what scores less.";
}

function explained(own, lowered) {
  const turns = { entity: "entities", related: "those with a relation", subject: "subjects", object: "objects", relation: "relations" };
  const told = Object.keys(turns)
    .filter((turn) => turn in lowered && lowered[turn] < own[turn])
    .map((turn) => `${turns[turn]} ${written(lowered[turn])} instead of ${written(own[turn])}`);
  return told.length ? `Asks the model again with lower thresholds: ${told.join(", ")}.` : "";
}

/** A line for each score: those of entities point up, those of relations down. */
function strip(found) {
  const middle = HEIGHT / 2;
  const svg = shape("svg", { viewBox: `0 0 100 ${HEIGHT}`, preserveAspectRatio: "none", height: HEIGHT });
  const lines = (items, kind, low, high) => {
    for (const { score } of items) {
      if (score === null || score === undefined) continue;
      const x = Math.min(100, (100 * score) / 0.95);
      svg.append(shape("line", { class: kind, x1: x, x2: x, y1: low, y2: high, "data-score": score }));
    }
  };
  lines(found.entities, "of-entity", 2, middle - 1);
  lines(found.relations, "of-relation", middle + 1, HEIGHT - 2);
  return svg;
}
