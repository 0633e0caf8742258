/* The layout of a whole graph: fCoSE places each connected part, and the parts are packed to fit the canvas. */

const GAP = 36;
const N_WIDTHS = 24;

/** Return the places of all nodes by id. They only depend on the graph and the size of the canvas. */
export function placeComponents(cy, settings) {
  const parts = cy.elements().components().map((part) => placeAlone(part, settings));
  // Sorted by height, so that the parts of a row have similar heights.
  parts.sort((a, b) => b.height - a.height || b.width - a.width);
  const positions = new Map();
  for (const { part, x, y, left, top } of packRows(parts, cy.width() / cy.height())) {
    for (const node of part.nodes().toArray()) {
      const at = node.position();
      positions.set(node.id(), { x: at.x - left + x, y: at.y - top + y });
    }
  }
  return positions;
}

/** Lay out one part, and return its frame. A circle of neighbours around the best-connected node is the start. */
function placeAlone(part, settings) {
  const nodes = part.nodes();
  if (nodes.length > 1) {
    const root = nodes.max((node) => node.degree()).ele;
    part.layout({ name: "breadthfirst", circle: true, roots: root, animate: false, fit: false,
      boundingBox: { x1: 0, y1: 0, w: 150 * Math.sqrt(nodes.length), h: 110 * Math.sqrt(nodes.length) } }).run();
    part.layout({ ...settings, animate: false, fit: false, randomize: false }).run();
  }
  const { x1: left, y1: top, w: width, h: height } = part.boundingBox();
  return { part, left, top, width, height };
}

/** Place frames in rows whose width suits the shape of the canvas best. */
function packRows(parts, aspect) {
  const narrowest = Math.max(...parts.map(({ width }) => width));
  const widest = parts.reduce((sum, { width }) => sum + width + GAP, 0);
  let best = null;
  for (let step = 0; step <= N_WIDTHS; step += 1) {
    const packed = fillRows(parts, narrowest + ((widest - narrowest) * step) / N_WIDTHS);
    const size = Math.max(packed.width, packed.height * aspect);
    if (!best || size < best.size) best = { ...packed, size };
  }
  return best.placed;
}

function fillRows(parts, limit) {
  let [x, y, rowHeight, width] = [0, 0, 0, 0];
  const placed = parts.map((frame) => {
    if (x > 0 && x + frame.width > limit) [x, y, rowHeight] = [0, y + rowHeight + GAP, 0];
    const place = { ...frame, x, y };
    x += frame.width + GAP;
    rowHeight = Math.max(rowHeight, frame.height);
    width = Math.max(width, x - GAP);
    return place;
  });
  return { placed, width, height: y + rowHeight };
}
