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

/** Show an error with a button that tries again, or does something else. */
export function offerRetry(message, onRetry, text = "Try again") {
  showNotice("error", message, createHtml("button", { type: "button", class: "retry", click: onRetry }, text));
}

/** Ask for the API key of a service, and call `onKey()` when it is set. */
export function askForKey(service, onKey, { takesFocus = true } = {}) {
  const submit = (key) => {
    service.setKey(key);
    clearNotice();
    onKey();
  };
  const message = service.hasKey ? "The API key is wrong." : "This server requires an API key.";
  showNotice("asking", message, createKeyForm(submit));
  if (takesFocus) byId("key").focus();
}

function createKeyForm(onKey) {
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

/** Return a function that runs a job. If the job fails, `onError(error, retry)` is called and null is returned. */
export function createAttempt(onError) {
  const attempt = async (job) => {
    try {
      return await job();
    } catch (error) {
      showBusy(false);
      onError(error, () => attempt(job));
      return null;
    }
  };
  return attempt;
}
