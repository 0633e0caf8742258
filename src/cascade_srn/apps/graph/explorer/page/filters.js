/* The filters: types, relations, score, count, years, and the number of neighbours. */

import { byId, createHtml } from "../../../web/shared/dom.js";
import { debounce } from "../../../web/shared/timing.js";
import { countFilters, isPhone, NO_FILTERS } from "./state.js";

const SLIDER_DELAY = 150;

/** Set up the filters of a graph. `onChange({filters, limit})` is called when the user changes one. */
export function createFilters({ onChange }) {
  let filters = { ...NO_FILTERS };
  byId("filters").open = !isPhone();
  const change = (changes) => {
    filters = { ...filters, ...changes };
    onChange({ filters, limit: Number(byId("limit").value) });
  };
  const changeSoon = debounce(() => change({ min_score: Number(byId("min-score").value) }), SLIDER_DELAY);
  byId("min-score").addEventListener("input", () => {
    showScore();
    changeSoon();
  });
  byId("limit").addEventListener("change", () => change({}));
  byId("reset").addEventListener("click", () => {
    change(NO_FILTERS);
    byId("search").focus();
  });
  for (const name of ["min_count", "first_year", "last_year"]) {
    const field = byId(name.replace("_", "-"));
    field.addEventListener("change", () => {
      const value = field.valueAsNumber;
      const isValid = Number.isInteger(value) && value >= Number(field.min);
      change({ [name]: isValid ? Math.min(value, 1e9) : NO_FILTERS[name] });
    });
  }
  const toggle = (name, label) => {
    const chosen = filters[name];
    change({ [name]: chosen.includes(label) ? chosen.filter((one) => one !== label) : [...chosen, label] });
  };

  return {
    /** Show the labels and years of a graph. */
    describe({ types, relations, years }, labels) {
      const create = (name, css) => ({ label, n }) =>
        createHtml(
          "button",
          { type: "button", class: `toggle ${css(label)}`, "aria-pressed": "false", "data-label": label,
            click: () => toggle(name, label) },
          createHtml("span", {}, label),
          createHtml("span", { class: "number" }, n.toLocaleString("en")),
        );
      byId("types").replaceChildren(...types.map(create("type", (label) => labels.entityClass(label))));
      byId("relations").replaceChildren(...relations.map(create("relation", (label) => labels.relationClass(label))));
      byId("years").hidden = !years;
      for (const [id, year] of [["first-year", years?.first], ["last-year", years?.last]]) {
        // Only a hint: a year outside is not an error.
        byId(id).placeholder = year ?? "";
        byId(id).min = 0;
      }
    },
    /** Show which filters are set. */
    show(shown, limit) {
      filters = shown;
      for (const [id, chosen] of [["types", shown.type], ["relations", shown.relation]]) {
        for (const button of byId(id).children) {
          button.setAttribute("aria-pressed", String(chosen.includes(button.dataset.label)));
        }
        byId(id).classList.toggle("has-choice", chosen.length > 0);
      }
      byId("min-score").value = shown.min_score;
      byId("min-count").value = shown.min_count;
      byId("first-year").value = shown.first_year ?? "";
      byId("last-year").value = shown.last_year ?? "";
      showLimit(limit);
      showScore();
      const n = countFilters(shown);
      byId("n-filters").textContent = n || "";
      byId("reset").hidden = !n;
    },
  };
}

/** Show the limit, which may be another number in a link. */
function showLimit(limit) {
  const field = byId("limit");
  if (!Array.from(field.options).some(({ value }) => Number(value) === limit)) {
    field.append(createHtml("option", {}, String(limit)));
  }
  field.value = String(limit);
}

function showScore() {
  const slider = byId("min-score");
  slider.style.setProperty("--filled", `${(100 * slider.value) / slider.max}%`);
  byId("min-score-value").textContent = Number(slider.value) ? Number(slider.value).toFixed(2) : "all";
}
