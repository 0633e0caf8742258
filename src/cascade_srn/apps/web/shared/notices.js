/* Notices above the result: errors, questions and progress. */

import { byId, createHtml } from "./dom.js";

/** Show a notice above the result. `kind` is "error", "waiting" or "asking". */
export function showNotice(kind, message, ...children) {
  const notice = byId("notice");
  notice.className = `notice ${kind}`;
  notice.setAttribute("role", kind === "error" ? "alert" : "status");
  notice.replaceChildren(createHtml("p", {}, message), ...children);
  notice.hidden = false;
}

export function clearNotice() {
  byId("notice").hidden = true;
  byId("notice").replaceChildren();
}

export function createRetryButton(onRetry) {
  return createHtml("button", { type: "button", class: "retry", click: onRetry }, "Try again");
}

/** Create a form that asks for the API key. */
export function createKeyForm(onKey) {
  const field = createHtml("input", { type: "password", id: "key", autocomplete: "off", required: true });
  const submit = (event) => {
    event.preventDefault();
    onKey(field.value);
  };
  return createHtml(
    "form",
    { class: "key", submit },
    createHtml("label", { for: "key" }, "API key"),
    field,
    createHtml("button", { type: "submit" }, "Submit"),
    createHtml("p", { class: "help" }, "The key is kept in memory until you leave this page."),
  );
}

/** Show whether a request is in progress. */
export function showBusy(busy) {
  byId("progress").hidden = !busy;
  byId("result").setAttribute("aria-busy", String(busy));
}
