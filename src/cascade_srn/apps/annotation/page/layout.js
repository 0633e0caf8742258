/* Place bars under the words and arcs above them, in pixels. */

/** Return the bar row of each entity. Entities that share a word have different rows, the longest next to the text. */
export function assignRows(entities) {
  const rows = new Map();
  const sorted = entities.toSorted((a, b) => b.last - b.first - (a.last - a.first) || a.first - b.first);
  const placed = [];
  for (const entity of sorted) {
    const taken = new Set(
      placed.filter(({ first, last }) => first <= entity.last && entity.first <= last).map(({ key }) => rows.get(key)),
    );
    let row = 0;
    while (taken.has(row)) row += 1;
    rows.set(entity.key, row);
    placed.push(entity);
  }
  return rows;
}

/**
 * Return the pieces of a range of words, one for each line: [{line, left, right, opens, closes}].
 *
 * `places` has {line, left, right} of each word; `first` and `last` are positions in it.
 */
export function cutIntoPieces(places, first, last) {
  const pieces = [];
  for (let position = first; position <= last; position += 1) {
    const { line, left, right } = places[position];
    const piece = pieces.at(-1);
    if (piece?.line === line) {
      piece.left = Math.min(piece.left, left);
      piece.right = Math.max(piece.right, right);
      piece.closes = position === last;
    } else pieces.push({ line, left, right, opens: position === first, closes: position === last });
  }
  return pieces;
}

/**
 * Place the arcs of a sentence.
 *
 * `arcs` are {key, head, tail, labelWidth}, where head and tail are {key, piece} with the piece that the arc ends on.
 * Returns for each arc {key, level, from, to, segments, labelled}: `from` and `to` are {line, x}, `segments` are
 * {line, left, right}, and `labelled` is the position of the segment with the label.
 */
export function placeArcs(arcs, width, isRightToLeft = false) {
  const ends = spreadEnds(arcs);
  const placed = arcs.map(({ key, head, tail, labelWidth }, number) => {
    const from = { line: head.piece.line, x: ends[number].head };
    const to = { line: tail.piece.line, x: ends[number].tail };
    const segments = cutArc(from, to, width, isRightToLeft);
    const lengths = segments.map(({ left, right }) => right - left);
    const labelled = lengths.indexOf(Math.max(...lengths));
    const { left, right } = segments[labelled];
    // The label stays within the lines of the sentence.
    const middle = Math.max(labelWidth / 2, Math.min(width - labelWidth / 2, (left + right) / 2));
    const taken = segments.map((segment, at) =>
      at === labelled
        ? { ...segment, left: Math.min(left, middle - labelWidth / 2), right: Math.max(right, middle + labelWidth / 2) }
        : segment,
    );
    const length = lengths.reduce((sum, each) => sum + each, 0);
    return { key, from, to, segments, taken, labelled, middle, length, level: 0 };
  });
  assignLevels(placed);
  return placed;
}

/** Give each arc the lowest level on which it meets no other one, short arcs first. */
function assignLevels(arcs) {
  const GAP = 4;
  const meets = (one, other) =>
    one.taken.some((a) =>
      other.taken.some((b) => a.line === b.line && a.left < b.right + GAP && b.left < a.right + GAP),
    );
  const done = [];
  for (const arc of arcs.toSorted((a, b) => a.length - b.length)) {
    const taken = new Set(done.filter((other) => meets(arc, other)).map(({ level }) => level));
    while (taken.has(arc.level)) arc.level += 1;
    done.push(arc);
  }
}

function cutArc(from, to, width, isRightToLeft) {
  const [first, last] = from.line <= to.line ? [from, to] : [to, from];
  const sorted = (line, one, other) => ({ line, left: Math.min(one, other), right: Math.max(one, other) });
  if (first.line === last.line) return [sorted(first.line, first.x, last.x)];
  const [begin, end] = isRightToLeft ? [width, 0] : [0, width];
  const segments = [sorted(first.line, first.x, end)];
  for (let line = first.line + 1; line < last.line; line += 1) segments.push(sorted(line, begin, end));
  return [...segments, sorted(last.line, begin, last.x)];
}

/** Return the x of both ends of each arc. Ends on one entity are side by side, ordered so that arcs do not cross. */
function spreadEnds(arcs) {
  const SPACING = 10;
  const byEntity = new Map();
  const middle = ({ left, right }) => (left + right) / 2;
  const order = ({ line }) => line * 100_000;
  arcs.forEach(({ head, tail }, number) => {
    for (const [side, own, other] of [["head", head, tail], ["tail", tail, head]]) {
      const distance = order(other.piece) + middle(other.piece) - order(own.piece) - middle(own.piece);
      if (!byEntity.has(own.key)) byEntity.set(own.key, { piece: own.piece, ends: [] });
      byEntity.get(own.key).ends.push({ number, side, distance });
    }
  });
  const places = arcs.map(() => ({}));
  for (const { piece, ends } of byEntity.values()) {
    // Arcs to the left end first, the nearest leftmost; arcs to the right last, the farthest leftmost.
    const rank = ({ distance }) => (distance < 0 ? [0, -distance] : [1, -distance]);
    ends.sort((a, b) => rank(a)[0] - rank(b)[0] || rank(a)[1] - rank(b)[1] || a.number - b.number);
    const step = Math.min(SPACING, (piece.right - piece.left) / (ends.length + 1));
    ends.forEach(({ number, side }, at) => {
      places[number][side] = middle(piece) + (at - (ends.length - 1) / 2) * step;
    });
  }
  return places;
}
