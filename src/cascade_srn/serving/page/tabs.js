/* Tabs as the ARIA practices describe them: one in the tab order, arrows move, what is moved to is shown. */

/** Make tabs of a list of buttons; `onShow(id of the panel)` is told which is shown. */
export function tabs(list, onShow) {
  const all = Array.from(list.querySelectorAll("[role=tab]"));
  const show = (tab) => {
    for (const one of all) {
      const chosen = one === tab;
      one.setAttribute("aria-selected", String(chosen));
      one.tabIndex = chosen ? 0 : -1;
      document.getElementById(one.getAttribute("aria-controls")).hidden = !chosen;
    }
    onShow(tab.getAttribute("aria-controls"));
  };
  list.addEventListener("click", (event) => {
    const tab = event.target.closest("[role=tab]");
    if (tab) show(tab);
  });
  list.addEventListener("keydown", (event) => {
    const at = all.indexOf(document.activeElement);
    const last = all.length - 1;
    const [after, before] = [at === last ? 0 : at + 1, at === 0 ? last : at - 1];
    const to = { ArrowRight: after, ArrowLeft: before, Home: 0, End: last }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    all[to].focus();
    show(all[to]);
  });
}
