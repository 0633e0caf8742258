"use strict";
// Filters the sentences. A number of the report links to #show=KEY. The form filters by text, label and kind of error.
// The drawings of a sentence stay text in its noscript element until the sentence is shown.
(() => {
  const PAGE = 40;
  const byId = (id) => document.getElementById(id);
  const form = byId("filter"), text = byId("text"), label = byId("label"), kind = byId("kind");
  const selection = byId("selection"), count = byId("count"), more = byId("more"), button = more.firstChild;
  const rows = Array.from(document.querySelectorAll("#list > article"), (article) => ({
    article,
    keys: new Set(article.dataset.keys.split(" ")),
    text: `${article.dataset.title} ${article.dataset.text}`.toLowerCase(),
  }));
  let selected = "", found = [], shown = 0;

  const hasKindAndLabel = (keys) => {
    if (!kind.value || !label.value) return (!kind.value || keys.has(kind.value)) && (!label.value || keys.has(label.value));
    if (kind.value === "error") return keys.has(`${label.value}.wrong`) || keys.has(`${label.value}.missed`);
    // Entity kinds (ke) match entity labels (e) in one error, relation kinds (kr) relation labels (r).
    if (kind.value[0] === "k" && kind.value[1] === label.value[0]) return keys.has(`${kind.value}.${label.value}`);
    return keys.has(kind.value) && keys.has(label.value);
  };

  const reveal = (row) => {
    const waiting = row.article.querySelector("noscript");
    if (waiting) {
      const template = document.createElement("template");
      template.innerHTML = waiting.textContent;
      waiting.replaceWith(template.content);
    }
    row.article.hidden = false;
  };

  const showMore = () => {
    const next = found.slice(shown, shown + PAGE);
    next.forEach(reveal);
    shown += next.length;
    const left = found.length - shown;
    more.hidden = left === 0;
    button.textContent = `Show ${Math.min(PAGE, left)} more of ${left}`;
    const all = found.length === rows.length;
    count.textContent = `${found.length} ${all ? "" : `of ${rows.length} `}sentence${rows.length === 1 ? "" : "s"}${all ? "" : found.length === 1 ? " matches" : " match"}` +
      (left ? `, first ${shown} shown` : "");
    return next;
  };

  const filter = () => {
    const words = text.value.trim().toLowerCase();
    found = rows.filter((row) => row.text.includes(words) && (!selected || row.keys.has(selected)) && hasKindAndLabel(row.keys));
    shown = 0;
    rows.forEach((row) => { row.article.hidden = true; });
    showMore();
  };

  const clearForm = () => { text.value = label.value = kind.value = ""; };

  const followLink = () => {
    const match = /^#show=([\w.-]+)$/.exec(location.hash);
    selected = match ? match[1] : "";
    selection.hidden = !selected;
    if (selected) {
      const link = document.querySelector(`main a[href="#show=${selected}"]`);
      selection.querySelector("b").textContent = link ? link.title.replace(/^[^:]*: /, "") : selected;
      clearForm();
    }
    filter();
    if (selected) {
      const heading = byId("sentences-h");
      heading.focus({ preventScroll: true });
      form.scrollIntoView();
    }
  };

  button.addEventListener("click", () => {
    const first = showMore()[0];
    if (first) first.article.focus({ preventScroll: true });
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", filter);
  byId("clear").addEventListener("click", () => {
    clearForm();
    if (selected) location.hash = "#sentences";
    else filter();
  });
  window.addEventListener("hashchange", followLink);
  form.hidden = false;
  followLink();
})();
