/* Boxes and colours of the graph. Cytoscape draws on a canvas, so it cannot read the style sheet itself. */

// Cytoscape accepts no single quotes here.
const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';
export const LINE_HEIGHT = 1.25;
const [MAX_LINE, MAX_LINES] = [20, 3];
const [PADDING_X, PADDING_Y] = [11, 7];

const context = document.createElement("canvas").getContext("2d");

/** Return the lines, font size and box of a name. Nodes with a larger weight have a larger font. */
function measureNode(name, weight) {
  const size = Math.min(17, 12 + Math.log2(1 + weight) / 1.6);
  const lines = breakLines(name.replace(/\s+/gu, " ").trim() || "–");
  context.font = `500 ${size}px ${FONT}`;
  const width = Math.max(30, ...lines.map((line) => context.measureText(line).width)) + 2 * PADDING_X;
  return { lines, size, width: Math.ceil(width), height: Math.ceil(lines.length * size * LINE_HEIGHT + 2 * PADDING_Y) };
}

function breakLines(text) {
  const lines = [""];
  for (const word of text.split(" ").flatMap(cutWord)) {
    const longer = lines.at(-1) ? `${lines.at(-1)} ${word}` : word;
    if (Array.from(longer).length <= MAX_LINE || !lines.at(-1)) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  if (lines.length <= MAX_LINES) return lines;
  return [...lines.slice(0, MAX_LINES - 1), `${lines[MAX_LINES - 1]}…`];
}

function cutWord(word) {
  const points = Array.from(word);
  const n = Math.ceil(points.length / MAX_LINE);
  return Array.from({ length: n }, (_, at) => points.slice(at * MAX_LINE, (at + 1) * MAX_LINE).join(""));
}

/** Return the colours of the theme: those of the page, and a function for the shades of a CSS class of a label. */
export function readColours() {
  const root = getComputedStyle(document.documentElement);
  const probe = document.createElement("span");
  const frame = document.createElement("span");
  frame.className = "drawing";
  frame.hidden = true;
  frame.append(probe);
  document.body.append(frame);
  const shades = (css) => {
    probe.className = css;
    const style = getComputedStyle(probe);
    const read = (name) => style.getPropertyValue(`--${name}`).trim();
    return { fill: read("fill"), tint: read("tint"), line: read("line"), word: read("word"), text: read("text") };
  };
  const page = (name) => root.getPropertyValue(`--${name}`).trim();
  const colours = { sheet: page("sheet"), ink: page("ink-strong"), accent: page("accent") };
  return { ...colours, shades, close: () => frame.remove() };
}

const lineStyle = (css) => (/dashed|dotted/u.exec(css) ?? ["solid"])[0];

/** Return what Cytoscape needs to draw a node. */
export function styleNode({ node, name, label, n_documents: nDocuments, weight = nDocuments }, labels, colours) {
  const css = labels.entityClass(label);
  const { tint, line, text } = colours.shades(css);
  const { lines, size, width, height } = measureNode(name, weight);
  return { id: `n:${node}`, node, name, label, lines, text: lines.join("\n"), size, width, height,
    fill: tint, line, ink: text, border: lineStyle(css) };
}

/** Return what Cytoscape needs to draw an edge. */
export function styleEdge(edge, labels, colours) {
  const css = labels.relationClass(edge.label);
  const { line, word } = colours.shades(css);
  return { id: `e:${edge.edge}`, edge: edge.edge, source: `n:${edge.head}`, target: `n:${edge.tail}`,
    label: edge.flag ? `${edge.label} ⚠` : edge.label, line, ink: word, dash: lineStyle(css),
    width: Math.min(6, 1.2 + Math.log2(edge.n) * 0.8), arrow: edge.symmetric ? "none" : "triangle" };
}

/** Return the style sheet of Cytoscape. */
export function createStyle({ sheet, accent, ink }) {
  return [
    { selector: "node", style: { shape: "round-rectangle", width: "data(width)", height: "data(height)",
      "background-color": "data(fill)", "border-color": "data(line)", "border-width": 1.2,
      "border-style": "data(border)", label: "data(text)", color: "data(ink)", "font-size": "data(size)",
      "font-family": FONT, "font-weight": 500, "line-height": LINE_HEIGHT, "text-wrap": "wrap", "text-max-width": "1000px", "text-valign": "center",
      "text-halign": "center" } },
    { selector: "node.expanded", style: { "border-width": 2.6 } },
    { selector: "edge", style: { "curve-style": "bezier", width: "data(width)", "line-color": "data(line)",
      "line-style": "data(dash)", "target-arrow-shape": "data(arrow)", "target-arrow-color": "data(line)",
      "arrow-scale": 0.9, label: "data(label)", color: "data(ink)", "font-size": 10, "font-weight": 600,
      "font-family": FONT, "text-background-color": sheet, "text-background-opacity": 0.9,
      "text-background-padding": 2, "min-zoomed-font-size": 7, "text-rotation": "autorotate",
      "control-point-step-size": 34, "loop-direction": "-45deg", "overlay-padding": 6 } },
    // Edges between two neighbours stay in the background.
    { selector: "edge.inner", style: { opacity: 0.2, label: "" } },
    { selector: ".faded", style: { opacity: 0.22 } },
    { selector: "node.selected", style: { "border-width": 3.4, "border-color": ink } },
    { selector: "edge.selected", style: { "z-index": 9, opacity: 1, label: "data(label)",
      "min-zoomed-font-size": 0, "underlay-color": accent, "underlay-opacity": 0.22, "underlay-padding": 4 } },
    { selector: "node.focused", style: { "border-color": accent, "border-width": 4, "z-index": 10 } },
    { selector: ":active", style: { "overlay-color": accent, "overlay-opacity": 0.12 } },
  ];
}
