/* Agreement of two annotators: scores, and the documents in which they differ. */

import { createHtml, fillSelect, formatCount } from "../../web/shared/dom.js";
import { showCase } from "./adjudication.js";
import { ADJUDICATED } from "./api.js";
import { createItem, createNumbers, formatShare } from "./parts.js";

/** Set up the view. `openDecision(id)` opens a document to decide about it by hand. */
export function createAgreementView(container, { api, attempt, project, labels, openDecision }) {
  const [first, second] = ["first", "second"].map((name) =>
    createHtml("select", { id: `annotator-${name}`, "aria-label": `${name} annotator` }),
  );
  const result = createHtml("div", { id: "agreement" });
  const form = createHtml("div", { class: "form-row" }, first, createHtml("span", {}, "and"), second);
  container.replaceChildren(createHtml("h2", {}, "Agreement of two annotators"), form, result);

  async function compare() {
    const names = [first.value, second.value];
    if (!names[0] || names[0] === names[1]) {
      const text = "Two people have to annotate the same documents. Each of them opens this page under an own name.";
      result.replaceChildren(createHtml("p", { class: "nothing" }, text));
      return;
    }
    const found = await api.agreement(...names);
    if (first.value !== names[0] || second.value !== names[1]) return;
    const onOpen = (id) => attempt(() => openCase(id));
    result.replaceChildren(...createScores(found), ...createDisagreements(found, names, labels(), onOpen));
  }

  async function openCase(id) {
    const names = [first.value, second.value];
    const fetchVersion = (annotator) => api.document(id, { annotator });
    const [one, other, decided] = await Promise.all([...names, ADJUDICATED].map(fetchVersion));
    const { version } = decided.annotation;
    const actions = {
      onSave: (content) =>
        attempt(async () => {
          await api.adjudicate(id, { version, ...content });
          await compare();
        }),
      onBack: () => attempt(compare),
      onEdit: () => attempt(() => openDecision(id)),
    };
    showCase(result, { names, documents: [one, other], isDecided: version > 0, labels: labels() }, actions);
  }

  for (const select of [first, second]) select.addEventListener("change", () => attempt(compare));
  return {
    async show() {
      const names = project().annotators.filter((name) => name !== ADJUDICATED);
      fillSelect(first, names);
      fillSelect(second, names, names.includes(second.value) ? second.value : names[1]);
      await compare();
    },
  };
}

function createScores({ entities, relations, kappa, n_documents: nDocuments }) {
  const createRow = (name, { f1, precision, recall, n }) => {
    const shares = [f1, precision, recall].map(formatShare);
    return [name, ...shares, n.toLocaleString("en")];
  };
  const rows = [createRow("Entities", entities), createRow("Relations", relations)];
  const headings = ["", "F1", "Precision", "Recall", "Number"];
  const parts = [
    `${formatCount(nDocuments, "document", "documents")} annotated by both.`,
    "Precision and recall take the first annotator as the reference.",
    kappa === null ? "Kappa does not apply here." : `Cohen's kappa of the labels of words: ${kappa.toFixed(2)}.`,
  ];
  return [
    createNumbers("Agreement", headings, rows, { hasNames: true }),
    createHtml("p", { class: "help" }, parts.join(" ")),
  ];
}

function createDisagreements({ disagreements }, names, labels, onOpen) {
  if (!disagreements.length) return [createHtml("p", { class: "nothing" }, "There are no disagreements.")];
  const byDocument = Map.groupBy(disagreements, ({ document }) => document);
  const rows = Array.from(byDocument, ([id, items]) =>
    createHtml(
      "li",
      { class: "case" },
      createHtml(
        "div",
        { class: "title-row" },
        createHtml("h4", {}, createHtml("bdi", {}, id)),
        createHtml("span", { class: "number" }, formatCount(items.length, "difference", "differences")),
        createHtml("button", { type: "button", class: "action", click: () => onOpen(id) }, "Decide"),
      ),
      createHtml("ul", { class: "differences drawing" }, ...items.map((item) => createDifference(item, names, labels))),
    ),
  );
  return [
    createHtml("h3", {}, `Disagreements in ${formatCount(rows.length, "document", "documents")}`),
    createHtml("ul", { class: "cases" }, ...rows),
  ];
}

/** Create a row with what each of the two has, or a dash. */
function createDifference({ kind, first, second }, names, labels) {
  const createVersion = (one) => {
    if (!one) return createHtml("span", { class: "help" }, "–");
    const isRelation = kind === "relation";
    const css = isRelation ? labels.relationClass(one.label) : labels.entityClass(one.label);
    const text = isRelation ? `${one.head.text} ${labels.arrow(one.label)} ${one.tail.text}` : one.text;
    return createItem("span", css, text, one.label);
  };
  const sides = [first, second].map((one, at) => {
    const name = createHtml("span", { class: "help" }, `${names[at]} `);
    return createHtml("span", { class: "side-of" }, name, createVersion(one));
  });
  return createHtml("li", {}, ...sides);
}
