/*
 * Where the boxes of a graph stand: springs along the edges, repulsion between all boxes, then whatever still overlaps
 * is pushed apart. No chance is involved, so a graph looks the same each time. The label of an edge is a box as well,
 * halfway between its two ends, so that labels keep clear of everything else.
 */

const STEPS = 320;
const GAP = 12;
// How far, in pixels, boxes feel each other.
const REACH = 90;

/**
 * Place boxes {width, height} that are joined by edges [from, to] on a sheet of a given width. Sets the centre x, y of
 * each box and returns the height that is used. The label of an edge has the two boxes it lies `between`, and a `side`
 * to be on, so that the edges of one pair do not begin on top of each other.
 */
export function placeBoxes(boxes, edges, sheetWidth) {
  const parts = components(boxes.length, edges);
  const single = parts.filter((part) => part.length === 1).map(([number]) => boxes[number]);
  const joined = parts.filter((part) => part.length > 1);
  const groups = joined.map((part) => {
    const own = part.map((number) => boxes[number]);
    const place = new Map(part.map((number, at) => [number, at]));
    const inside = edges.filter(([from]) => place.has(from)).map((ends) => ends.map((end) => place.get(end)));
    spread(own, inside, sheetWidth);
    return framed(own);
  });
  // The highest first: what is about as high stands beside each other.
  groups.sort((one, other) => other.height - one.height);
  const height = shelve(groups, sheetWidth, 0, 3 * GAP);
  const alone = single.map((box) => framed([Object.assign(box, { x: 0, y: 0 })]));
  return shelve(alone, sheetWidth, height ? height + 2 * GAP : 0, GAP) || height;
}

/** The numbers of the boxes that hang together, part by part. */
function components(n, edges) {
  const near = Array.from({ length: n }, () => []);
  for (const [from, to] of edges) {
    near[from].push(to);
    near[to].push(from);
  }
  const seen = new Set();
  const parts = [];
  for (let number = 0; number < n; number += 1) {
    if (seen.has(number)) continue;
    const part = [number];
    seen.add(number);
    for (let at = 0; at < part.length; at += 1) {
      for (const other of near[part[at]]) {
        if (!seen.has(other)) part.push(other);
        seen.add(other);
      }
    }
    parts.push(part);
  }
  return parts;
}

function spread(boxes, edges, sheetWidth) {
  start(boxes);
  for (let step = 0; step < STEPS; step += 1) {
    move(boxes, forces(boxes, edges), 20 * (1 - step / STEPS) + 0.5);
    // First they find their places through each other, then they get out of each other's way.
    if (step > STEPS / 3) separate(boxes, sheetWidth, 0.3);
    keepOnSheet(boxes, sheetWidth);
  }
  for (let round = 0; round < 200 && separate(boxes, sheetWidth, 1); round += 1) keepOnSheet(boxes, sheetWidth);
}

/** From the middle outwards in the order they were reached, at the golden angle; labels halfway along their edges. */
function start(boxes) {
  boxes.forEach((box, at) => {
    const [angle, radius] = [at * 2.39996, 40 * Math.sqrt(at)];
    Object.assign(box, { x: 0.5 * radius * Math.cos(angle), y: radius * Math.sin(angle) });
  });
  for (const box of boxes) {
    if (!box.between) continue;
    const [one, other] = box.between;
    const [dx, dy] = [other.x - one.x, other.y - one.y];
    const length = Math.hypot(dx, dy) || 1;
    box.x = (one.x + other.x) / 2 - (30 * box.side * dy) / length;
    box.y = (one.y + other.y) / 2 + (30 * box.side * dx) / length + (dx || dy ? 0 : 40);
  }
}

function forces(boxes, edges) {
  const pushes = boxes.map(({ x, y }) => [-0.06 * x, -0.01 * y]);
  for (let one = 0; one < boxes.length; one += 1) {
    for (let other = 0; other < one; other += 1) repel(boxes[one], boxes[other], pushes[one], pushes[other]);
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

/** Boxes keep a distance, counted from border to border, and do not feel each other from afar. */
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

/** Push overlapping boxes apart by a share of their overlap, the shorter way; says whether there were any. */
function separate(boxes, sheetWidth, share) {
  let any = false;
  for (let one = 0; one < boxes.length; one += 1) {
    for (let other = 0; other < one; other += 1) {
      const [a, b] = [boxes[one], boxes[other]];
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

/** Boxes with the frame around them, moved so that it begins at (0, 0). */
function framed(boxes) {
  const left = Math.min(...boxes.map((box) => box.x - box.width / 2));
  const top = Math.min(...boxes.map((box) => box.y - box.height / 2));
  for (const box of boxes) Object.assign(box, { x: box.x - left, y: box.y - top });
  const width = Math.max(...boxes.map((box) => box.x + box.width / 2));
  return { boxes, width, height: Math.max(...boxes.map((box) => box.y + box.height / 2)) };
}

/** Put frames side by side in rows from a height on, each row in the middle of the sheet; returns where they end. */
function shelve(frames, sheetWidth, from, gap) {
  const rows = [];
  for (const frame of frames) {
    const row = rows.at(-1);
    if (row && row.width + gap + frame.width <= sheetWidth) {
      row.width += gap + frame.width;
      row.frames.push(frame);
    } else rows.push({ width: frame.width, frames: [frame] });
  }
  let top = from;
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
