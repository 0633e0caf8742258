/* The buttons above the text: undo, done, and what to do with suggestions. */

import { byId, formatCount, formatScore } from "../../web/shared/dom.js";

/** Show what can be done with the open document. */
export function showToolbar(editor) {
  const { history, content } = editor;
  byId("undo").disabled = !history.canUndo;
  byId("redo").disabled = !history.canRedo;
  byId("done").textContent = content.state === "done" ? "Open again" : "Done";
  byId("done").title = content.state === "done" ? "Not done yet" : "Done, next document (d)";
  byId("done").classList.toggle("primary", content.state !== "done");
  byId("has-note").hidden = !content.note;
  if (byId("note").value !== content.note && document.activeElement !== byId("note")) byId("note").value = content.note;
  showSuggesting(editor);
}

/** Show how many suggestions are open, and how many reach the chosen score. */
export function showSuggesting(editor) {
  if (editor.isEmpty) return;
  const { entities, relations } = editor.suggestions;
  byId("suggesting").hidden = !entities.length && !relations.length;
  const count = (minScore) => {
    const items = editor.openItems(minScore);
    return items.entities.length + items.relations.length;
  };
  const minScore = Number(byId("min-score").value);
  const [n, nAbove] = [count(0), count(minScore)];
  byId("n-open").textContent = editor.showsOpen ? formatCount(n, "suggestion", "suggestions") : "Suggestions";
  byId("accept-above").textContent = `Accept ${nAbove} ≥ ${formatScore(minScore)}`;
  byId("min-score").style.setProperty("--filled", `${(100 * minScore) / 0.99}%`);
  for (const id of ["accept-all", "reject-all"]) byId(id).disabled = n === 0;
  byId("accept-above").disabled = nAbove === 0;
}
