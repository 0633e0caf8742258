/* Convert offsets: the service counts code points, JavaScript counts UTF-16 units. They differ for emoji. */

/** A text that is sliced by code points. */
export class CodePoints {
  constructor(text) {
    this.text = text;
    // Only texts with characters above U+FFFF need a table; for all others both counts agree.
    this.units = /[\ud800-\udfff]/.test(text) ? findUnits(text) : null;
    this.length = this.units ? this.units.length - 1 : text.length;
  }

  slice(start, end) {
    return this.units ? this.text.slice(this.units[start], this.units[end]) : this.text.slice(start, end);
  }
}

function findUnits(text) {
  const units = [0];
  for (const point of text) units.push(units.at(-1) + point.length);
  return units;
}

/** Return the number of code points of a text. */
export function countCodePoints(text) {
  return new CodePoints(text).length;
}

/** Return the mention at [start, end) and the text before and after it, cut at word boundaries. */
export function findContext(points, start, end, reach = 48) {
  const low = Math.max(0, start - reach);
  const high = Math.min(points.length, end + reach);
  let before = points.slice(low, start).replace(/\s+/gu, " ");
  let after = points.slice(end, high).replace(/\s+/gu, " ");
  if (low > 0) before = `…${before.replace(/^\S{0,20}\s/u, "")}`;
  if (high < points.length) after = `${after.replace(/\s\S{0,20}$/u, "")}…`;
  return { before, mention: points.slice(start, end), after };
}
