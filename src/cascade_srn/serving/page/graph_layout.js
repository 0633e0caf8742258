/*
 * Force-directed layout of the graph: springs along the edges, repulsion between boxes, then overlaps are removed. It
 * uses no random numbers, so a graph always looks the same. The label of an edge is a box too, so labels do not overlap
 * with nodes.
 */

const STEPS = 320;
const GAP = 12;
// Distance in pixels at which the repulsion ends.
const REACH = 90;

/**
 * Place the boxes of a graph on a sheet, and return the height of the sheet.
 *
 * Sets the centre x, y of each box {width, height}. Edges are pairs [from, to] of box numbers. The box of an edge label
 * also has `between`, the two boxes it connects, and `side`, which separates the edges of one pair.
 */
export function placeBoxes(boxes, edges, sheetWidth) {
  const parts = findComponents(boxes.length, edges);
  const single = parts.filter((part) => part.length === 1).map(([number]) => boxes[number]);
  const joined = parts.filter((part) => part.length > 1);
  const groups = joined.map((part) => {
    const own = part.map((number) => boxes[number]);
    const positions = new Map(part.map((number, position) => [number, position]));
    const inside = edges.filter(([from]) => positions.has(from)).map((ends) => ends.map((end) => positions.get(end)));
    simulate(own, inside, sheetWidth);
    return createFrame(own);
  });
  // Sorted by height, so that frames in a row have similar heights.
  groups.sort((a, b) => b.height - a.height);
  const height = placeInRows(groups, sheetWidth, 0, 3 * GAP);
  const alone = single.map((box) => createFrame([Object.assign(box, { x: 0, y: 0 })]));
  return placeInRows(alone, sheetWidth, height ? height + 2 * GAP : 0, GAP) || height;
}

/** Return the connected components as lists of box numbers. */
function findComponents(n, edges) {
  const neighbours = Array.from({ length: n }, () => []);
  for (const [from, to] of edges) {
    neighbours[from].push(to);
    neighbours[to].push(from);
  }
  const seen = new Set();
  const parts = [];
  for (let number = 0; number < n; number += 1) {
    if (seen.has(number)) continue;
    const part = [number];
    seen.add(number);
    for (let at = 0; at < part.length; at += 1) {
      for (const other of neighbours[part[at]]) {
        if (!seen.has(other)) part.push(other);
        seen.add(other);
      }
    }
    parts.push(part);
  }
  return parts;
}

function simulate(boxes, edges, sheetWidth) {
  setStartPositions(boxes);
  for (let step = 0; step < STEPS; step += 1) {
    move(boxes, computeForces(boxes, edges), 20 * (1 - step / STEPS) + 0.5);
    // Boxes may pass through each other in the first third.
    if (step > STEPS / 3) separate(boxes, sheetWidth, 0.3);
    keepOnSheet(boxes, sheetWidth);
  }
  for (let round = 0; round < 200 && separate(boxes, sheetWidth, 1); round += 1) keepOnSheet(boxes, sheetWidth);
}

/** Place nodes on a spiral with the golden angle, and labels in the middle of their edges. */
function setStartPositions(boxes) {
  boxes.forEach((box, at) => {
    const [angle, radius] = [at * 2.39996, 40 * Math.sqrt(at)];
    Object.assign(box, { x: 0.5 * radius * Math.cos(angle), y: radius * Math.sin(angle) });
  });
  for (const box of boxes) {
    if (!box.between) continue;
    const [a, b] = box.between;
    const [dx, dy] = [b.x - a.x, b.y - a.y];
    const length = Math.hypot(dx, dy) || 1;
    box.x = (a.x + b.x) / 2 - (30 * box.side * dy) / length;
    box.y = (a.y + b.y) / 2 + (30 * box.side * dx) / length + (dx || dy ? 0 : 40);
  }
}

function computeForces(boxes, edges) {
  const pushes = boxes.map(({ x, y }) => [-0.06 * x, -0.01 * y]);
  for (let i = 0; i < boxes.length; i += 1) {
    for (let j = 0; j < i; j += 1) repel(boxes[i], boxes[j], pushes[i], pushes[j]);
  }
  for (const [from, to] of edges) {
    const [dx, dy] = [boxes[to].x - boxes[from].x, boxes[to].y - boxes[from].y];
    const length = Math.hypot(dx, dy) || 1;
    const rest = 26 + (0.5 * (boxes[from].width + boxes[to].width) * Math.abs(dx)) / length;
    const strength = (0.2 * (length - rest)) / length;
    add(pushes[from], strength * dx, strength * dy, 1);
    add(pushes[to], strength * dx, strength * dy, -1);
  }
  return pushes;
}

/** Add the repulsion of two boxes, which depends on the distance of their borders. */
function repel(a, b, pushA, pushB) {
  const [dx, dy] = [a.x - b.x || 0.01, a.y - b.y || 0.01];
  const across = Math.max(0, Math.abs(dx) - (a.width + b.width) / 2);
  const down = Math.max(0, Math.abs(dy) - (a.height + b.height) / 2);
  const apart = Math.hypot(across, down);
  if (apart > REACH) return;
  const strength = (5 * (1 - apart / REACH)) / Math.hypot(dx, dy);
  add(pushA, strength * dx, strength * dy, 1);
  add(pushB, strength * dx, strength * dy, -1);
}

function add(push, x, y, sign) {
  push[0] += sign * x;
  push[1] += sign * y;
}

function move(boxes, pushes, heat) {
  boxes.forEach((box, at) => {
    const [x, y] = pushes[at];
    const scale = Math.min(1, heat / (Math.hypot(x, y) || 1));
    box.x += scale * x;
    box.y += scale * y;
  });
}

function keepOnSheet(boxes, sheetWidth) {
  for (const box of boxes) {
    const room = Math.max(0, (sheetWidth - box.width) / 2);
    box.x = Math.min(room, Math.max(-room, box.x));
  }
}

/** Push overlapping boxes apart by a share of their overlap, and return whether there were any. */
function separate(boxes, sheetWidth, share) {
  let any = false;
  for (let i = 0; i < boxes.length; i += 1) {
    for (let j = 0; j < i; j += 1) {
      const [a, b] = [boxes[i], boxes[j]];
      const across = (a.width + b.width) / 2 + GAP - Math.abs(a.x - b.x);
      const down = (a.height + b.height) / 2 + GAP - Math.abs(a.y - b.y);
      if (across <= 0.01 || down <= 0.01) continue;
      any = true;
      const fits = a.width + b.width + GAP < sheetWidth;
      if (fits && across < down) pushApart(a, b, "x", share * across);
      else pushApart(a, b, "y", share * down);
    }
  }
  return any;
}

function pushApart(a, b, axis, distance) {
  const sign = a[axis] >= b[axis] ? 1 : -1;
  a[axis] += (sign * distance) / 2;
  b[axis] -= (sign * distance) / 2;
}

/** Move boxes so that their frame starts at (0, 0), and return the frame. */
function createFrame(boxes) {
  const left = Math.min(...boxes.map((box) => box.x - box.width / 2));
  const top = Math.min(...boxes.map((box) => box.y - box.height / 2));
  for (const box of boxes) Object.assign(box, { x: box.x - left, y: box.y - top });
  const width = Math.max(...boxes.map((box) => box.x + box.width / 2));
  return { boxes, width, height: Math.max(...boxes.map((box) => box.y + box.height / 2)) };
}

/** Place frames in centred rows from a y coordinate on, and return where they end. */
function placeInRows(frames, sheetWidth, startY, gap) {
  const rows = [];
  for (const frame of frames) {
    const row = rows.at(-1);
    if (row && row.width + gap + frame.width <= sheetWidth) {
      row.width += gap + frame.width;
      row.frames.push(frame);
    } else rows.push({ width: frame.width, frames: [frame] });
  }
  let top = startY;
  for (const { width, frames: inRow } of rows) {
    let left = Math.max(0, (sheetWidth - width) / 2);
    const height = Math.max(...inRow.map((frame) => frame.height));
    for (const frame of inRow) {
      const down = top + (height - frame.height) / 2;
      for (const box of frame.boxes) Object.assign(box, { x: box.x + left, y: box.y + down });
      left += frame.width + gap;
    }
    top += height + gap;
  }
  return rows.length ? top - gap : 0;
}
