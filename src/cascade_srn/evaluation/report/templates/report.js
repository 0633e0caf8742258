"use strict";
// Filters the sentences. A number of the report links to #show=FACT; the form adds text, a label and a kind of error.
// A sentence's drawings wait as the text of its noscript element until the sentence is shown.
(() => {
  const PAGE = 40;
  const byId = (id) => document.getElementById(id);
  const form = byId("filter"), text = byId("text"), label = byId("label"), kind = byId("kind");
  const behind = byId("behind"), count = byId("count"), more = byId("more"), button = more.firstChild;
  const rows = Array.from(document.querySelectorAll("#list > article"), (article) => ({
    article,
    facts: new Set(article.dataset.facts.split(" ")),
    text: `${article.dataset.title} ${article.dataset.text}`.toLowerCase(),
  }));
  let fact = "", found = [], shown = 0;

  const hasKindAndLabel = (facts) => {
    if (!kind.value || !label.value) return (!kind.value || facts.has(kind.value)) && (!label.value || facts.has(label.value));
    if (kind.value === "error") return facts.has(`${label.value}.wrong`) || facts.has(`${label.value}.missed`);
    // An error of this kind on this very label, where the kind is one of that sort of label: k-e with e, k-r with r.
    if (kind.value[0] === "k" && kind.value[1] === label.value[0]) return facts.has(`${kind.value}.${label.value}`);
    return facts.has(kind.value) && facts.has(label.value);
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
      (left ? `; the first ${shown} are shown` : "");
    return next;
  };

  const filter = () => {
    const words = text.value.trim().toLowerCase();
    found = rows.filter((row) => row.text.includes(words) && (!fact || row.facts.has(fact)) && hasKindAndLabel(row.facts));
    shown = 0;
    rows.forEach((row) => { row.article.hidden = true; });
    showMore();
  };

  const empty = () => { text.value = label.value = kind.value = ""; };

  const followLink = () => {
    const asked = /^#show=([\w.-]+)$/.exec(location.hash);
    fact = asked ? asked[1] : "";
    behind.hidden = !fact;
    if (fact) {
      const link = document.querySelector(`main a[href="#show=${fact}"]`);
      behind.querySelector("b").textContent = link ? link.title.replace(/^[^:]*: /, "") : fact;
      empty();
    }
    filter();
    if (fact) {
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
    empty();
    if (fact) location.hash = "#sentences";
    else filter();
  });
  window.addEventListener("hashchange", followLink);
  form.hidden = false;
  followLink();
})();
