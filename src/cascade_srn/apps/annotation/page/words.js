/* The words of a document: their positions, and the spans of characters that they cover. */

import { CodePoints } from "../../web/shared/offsets.js";

/** The words of a document, numbered from 0 over all sentences. Offsets are code points. */
export class Words {
  constructor({ text, sentences }) {
    this.points = new CodePoints(text);
    this.all = [];
    this.sentences = sentences.map(({ start, end, words }, sentence) => {
      const first = this.all.length;
      for (const [low, high] of words) this.all.push({ start: low, end: high, sentence });
      return { start, end, first, last: this.all.length - 1 };
    });
    this.byStart = new Map(this.all.map(({ start }, position) => [start, position]));
    this.byEnd = new Map(this.all.map(({ end }, position) => [end, position]));
  }

  get length() {
    return this.all.length;
  }

  /** Return the first and the last word of a span of characters. */
  range({ start, end }) {
    return [this.byStart.get(start), this.byEnd.get(end)];
  }

  /** Return the characters of the words from one to another, in either order. */
  span(one, other) {
    return { start: this.all[Math.min(one, other)].start, end: this.all[Math.max(one, other)].end };
  }

  sentenceOf({ start }) {
    return this.all[this.byStart.get(start)].sentence;
  }

  text({ start, end }) {
    return this.points.slice(start, end);
  }

  /** Return the text on one line, for messages and lists. */
  phrase(span) {
    return this.text(span).replace(/\s+/gu, " ");
  }

  /** Return the text between a word and the next one of its sentence. */
  gapAfter(position) {
    const { end, sentence } = this.all[position];
    return position === this.sentences[sentence].last ? "" : this.points.slice(end, this.all[position + 1].start);
  }
}
