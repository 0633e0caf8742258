/* Tabs by the ARIA pattern. */

import { byId } from "./dom.js";

/**
 * Set up tabs: one tab in the tab order, arrow keys move and show. `onShow` gets the panel id.
 *
 * Returns a function that shows a tab.
 */
export function addTabs(list, onShow) {
  const tabs = Array.from(list.querySelectorAll("[role=tab]"));
  const show = (tab) => {
    for (const each of tabs) {
      each.setAttribute("aria-selected", String(each === tab));
      each.tabIndex = each === tab ? 0 : -1;
      byId(each.getAttribute("aria-controls")).hidden = each !== tab;
    }
    onShow(tab.getAttribute("aria-controls"));
  };
  list.addEventListener("click", (event) => {
    const tab = event.target.closest("[role=tab]");
    if (tab) show(tab);
  });
  list.addEventListener("keydown", (event) => {
    const position = tabs.indexOf(document.activeElement);
    const last = tabs.length - 1;
    const [next, previous] = [position === last ? 0 : position + 1, position === 0 ? last : position - 1];
    const target = { ArrowRight: next, ArrowLeft: previous, Home: 0, End: last }[event.key];
    if (position < 0 || target === undefined) return;
    event.preventDefault();
    tabs[target].focus();
    show(tabs[target]);
  });
  return show;
}
