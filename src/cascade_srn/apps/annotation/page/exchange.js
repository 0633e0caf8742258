/* Export and import of annotations in the formats of the package. */

import { createHtml, fillSelect, formatCount, saveFile } from "../../web/shared/dom.js";

// Not a format of annotations: what was decided about suggestions.
const REVIEW = "review";

/** Set up the view. `onImported()` is called when annotations or documents were added. */
export function createExchangeView(container, { api, attempt, project, onImported }) {
  const format = createHtml("select", { id: "export-format" });
  const who = createHtml("select", { id: "export-annotator" });
  const exporting = createHtml("button", { type: "button", class: "action primary", id: "export" }, "Export");
  const exported = createHtml("p", { class: "help", role: "status", id: "exported" });
  const importFormat = createHtml("select", { id: "import-format" });
  const file = createHtml("input", { type: "file", id: "import-file" });
  const importing = createHtml("button", { type: "button", class: "action", id: "import", disabled: true }, "Import");
  const imported = createHtml("p", { class: "help", role: "status", id: "imported" });

  exporting.addEventListener("click", () => attempt(async () => {
    const { blob, name } = await api.export(format.value, who.value);
    saveFile(blob, name);
    exported.textContent = `Saved as ${name} (${formatCount(blob.size, "byte", "bytes")}).`;
  }));
  file.addEventListener("change", () => {
    importing.disabled = !file.files.length;
  });
  importing.addEventListener("click", () => attempt(async () => {
    const answer = await api.import(importFormat.value, api.annotator, file.files[0]);
    imported.textContent = describe(answer);
    file.value = "";
    importing.disabled = true;
    await onImported();
  }));

  const field = (text, control) => createHtml("label", { class: "form-field" }, createHtml("span", {}, text), control);
  const createForm = (title, text, fields, button, status) =>
    createHtml(
      "section",
      { class: "exchange" },
      createHtml("h2", {}, title),
      createHtml("p", { class: "help" }, text),
      createHtml("div", { class: "form-row" }, ...fields, button),
      status,
    );
  container.replaceChildren(
    createForm("Export", "All documents that are done. Formats that are folders become a ZIP archive. Judged suggestions " +
      "are for cascade-srn calibrate --reviewed: right if you kept them, else wrong, without documents that the model has learned from.",
      [field("Format", format), field("Annotations of", who)], exporting, exported),
    createForm("Import", "Annotations of known texts are saved under your name. Other texts are added to the project.",
      [field("Format", importFormat), field("File", file)], importing, imported),
  );

  return {
    show() {
      const { formats, annotators } = project();
      const name = (value) => (value === REVIEW ? "judged suggestions" : value);
      fillSelect(format, [...formats, REVIEW], format.value, name);
      fillSelect(importFormat, formats);
      const everyone = "everyone: the decision, or else the latest";
      fillSelect(who, ["", ...annotators], who.value, (name) => name || everyone);
    },
  };
}

function describe({ documents, annotations }) {
  const added = `${formatCount(documents, "document was", "documents were")} added`;
  return `${formatCount(annotations, "annotation was", "annotations were")} stored, ${added}.`;
}
