/* What went wrong, said where it can be put right: at the text, or over the result. */

import { byId, make } from "./dom.js";

/** Something is wrong with the text itself; without a message nothing is. */
export function sayAtText(message = "") {
  const place = byId("text-error");
  place.textContent = message;
  place.hidden = !message;
  byId("text").setAttribute("aria-invalid", String(Boolean(message)));
}

/** Something is wrong with the service, or it wants to be waited for. */
export function sayAtResult(kind, message, ...more) {
  const place = byId("notice");
  place.className = `notice ${kind}`;
  place.setAttribute("role", kind === "error" ? "alert" : "status");
  place.replaceChildren(make("p", {}, message), ...more);
  place.hidden = false;
}

/** All is well again. */
export function clearResultNotice() {
  byId("notice").hidden = true;
  byId("notice").replaceChildren();
}

/** A button that tries again. */
export function retryButton(onRetry) {
  return make("button", { type: "button", class: "retry", click: onRetry }, "Try again");
}

/** A small form that asks for the key of the service. */
export function keyForm(onKey) {
  const field = make("input", { type: "password", id: "key", autocomplete: "off", required: true });
  const submitted = (event) => {
    event.preventDefault();
    onKey(field.value);
  };
  return make(
    "form",
    { class: "key", submit: submitted },
    make("label", { for: "key" }, "API key"),
    field,
    make("button", { type: "submit" }, "Use it"),
    make("p", { class: "help" }, "It is kept until you leave this page, and nowhere else."),
  );
}

/** Whether the model is at work; what is shown meanwhile belongs to the text before. */
export function showBusy(busy) {
  byId("progress").hidden = !busy;
  byId("result").setAttribute("aria-busy", String(busy));
}
