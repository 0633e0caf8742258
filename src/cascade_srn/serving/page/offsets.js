/* Offsets of the service count code points, those of JavaScript count UTF-16 units: an emoji is one or two. */

/** A text that is cut at code points. */
export class CodePoints {
  constructor(text) {
    this.text = text;
    // Only texts with characters past U+FFFF need a table; in all others both ways of counting agree.
    this.units = /[\ud800-\udfff]/.test(text) ? unitsOf(text) : null;
    this.length = this.units ? this.units.length - 1 : text.length;
  }

  /** The text from one code point up to, and without, another. */
  slice(start, end) {
    return this.units ? this.text.slice(this.units[start], this.units[end]) : this.text.slice(start, end);
  }
}

function unitsOf(text) {
  const units = [];
  let at = 0;
  for (const point of text) {
    units.push(at);
    at += point.length;
  }
  units.push(at);
  return units;
}

/** How many characters a text has, counted as the service counts them. */
export function lengthOf(text) {
  return new CodePoints(text).length;
}

/** The text around [start, end): what is before, what is there, what is after, cut at words where there are any. */
export function surroundings(points, start, end, reach = 48) {
  const low = Math.max(0, start - reach);
  const high = Math.min(points.length, end + reach);
  let before = points.slice(low, start).replace(/\s+/gu, " ");
  let after = points.slice(end, high).replace(/\s+/gu, " ");
  if (low > 0) before = `…${before.replace(/^\S{0,20}\s/u, "")}`;
  if (high < points.length) after = `${after.replace(/\s\S{0,20}$/u, "")}…`;
  return { before, there: points.slice(start, end), after };
}
