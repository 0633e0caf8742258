/* Create HTML and SVG elements. Strings become text nodes, so no text is parsed as HTML. */

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

/** @type {(id: string) => any} */
export const byId = (id) => document.getElementById(id);

/**
 * Create an HTML element. A function as an attribute becomes the listener of the event of that name.
 *
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Name} name
 * @param {Object<string, any>} attributes
 * @param {(Node | string)[]} children
 * @returns {HTMLElementTagNameMap[Name]}
 */
export function createHtml(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/**
 * Create an SVG element in the same way.
 *
 * @param {keyof SVGElementTagNameMap} name
 * @param {Object<string, any>} attributes
 * @param {(Node | string)[]} children
 */
export function createSvg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG_NAMESPACE, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** Return the elements of a drawing. The server escapes its text, and the policy of the page forbids inline scripts. */
export function parseDrawing(fragment) {
  return new DOMParser().parseFromString(fragment, "text/html").body.children;
}

/** Save a blob as a file. */
export function saveFile(blob, name) {
  const address = URL.createObjectURL(blob);
  createHtml("a", { href: address, download: name }).click();
  // The browser may read the blob after this function has returned.
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** Offer values in a select element. If the chosen one is not among them, the first is. */
export function fillSelect(select, values, chosen = select.value, describe = (value) => value) {
  select.replaceChildren(...values.map((value) => createHtml("option", { value }, describe(value))));
  select.value = values.includes(chosen) ? chosen : (values[0] ?? "");
}

/** Whether the page has one column. */
export const isNarrow = () => window.matchMedia("(max-width: 56rem)").matches;

/** Return a number with its noun: "1 entity", "2 entities". */
export function formatCount(number, singular, plural) {
  return `${number.toLocaleString("en")} ${number === 1 ? singular : plural}`;
}

export const formatScore = (score) => (score === null || score === undefined ? "–" : score.toFixed(2));
