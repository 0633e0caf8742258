/* A small part of Markdown as elements: headings, lists, paragraphs, code, bold and italic text. No HTML. */

import { createHtml } from "../../web/shared/dom.js";

/** Return the elements of a text. All that is not understood is shown as it is. */
export function renderMarkdown(text) {
  const elements = [];
  let [paragraph, list, code] = [[], null, null];
  const endParagraph = () => {
    if (paragraph.length) elements.push(createHtml("p", { dir: "auto" }, ...renderInline(paragraph.join(" "))));
    paragraph = [];
  };
  const end = () => {
    endParagraph();
    list = null;
  };
  for (const line of text.split(/\r?\n/u)) {
    const [heading, item] = [/^(#{1,4})\s+(.*)$/u.exec(line), /^\s*(?:([-*+])|\d+[.)])\s+(.*)$/u.exec(line)];
    if (/^\s*```/u.test(line)) {
      end();
      if (code) code = null;
      else elements.push((code = createHtml("pre")));
    } else if (code) code.append(`${line}\n`);
    else if (heading) {
      end();
      elements.push(createHtml(heading[1].length === 1 ? "h3" : "h4", { dir: "auto" }, ...renderInline(heading[2])));
    } else if (item) {
      endParagraph();
      const name = item[1] ? "ul" : "ol";
      if (list?.localName !== name) elements.push((list = createHtml(name)));
      list.append(createHtml("li", { dir: "auto" }, ...renderInline(item[2])));
    } else if (!line.trim()) end();
    else if (list) list.lastElementChild.append(" ", ...renderInline(line.trim()));
    else paragraph.push(line.trim());
  }
  endParagraph();
  return elements;
}

const INLINE = /`([^`]+)`|\*\*([^*]+)\*\*|(?<!\w)[*_]([^*_\s](?:[^*_]*[^*_\s])?)[*_](?!\w)/gu;

function renderInline(text) {
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(INLINE)) {
    const [whole, code, bold, italic] = match;
    const name = code ? "code" : bold ? "strong" : "em";
    parts.push(text.slice(at, match.index), createHtml(name, {}, code ?? bold ?? italic));
    at = match.index + whole.length;
  }
  return [...parts, text.slice(at)];
}
