// A map of whatever has a position, for up to hundred thousand points: columns of numbers, no objects.

import { byId, made, show, write } from "./chart.js";
import { tame, whole } from "./format.js";

const COLORS = 4;
const ROUND_MAX = 4_000; // beyond, circles cost more than they show
const PICK_PX = 14;
const isCalm = matchMedia("(prefers-reduced-motion: reduce)");

const layers = new Map(); // collection → {ids, index, fromX, fromY, x, y, isThere}
let frame = null; // [left, bottom, right, top]; it only widens, so that what rests stays in its place
let glide = { startMs: 0, lengthMs: 0 };
let drawing = 0;
let pointed = null;
let chosen = null;
let frames = 0;

/** How many pictures were drawn; the browser tests measure by it. */
export const drawnFrames = () => frames;

/** Listen to the pointer; `choose` is called with the collection and the id of what was clicked. */
export function startMap(choose) {
  const canvas = byId("map");
  canvas.addEventListener("pointermove", (event) => { pointed = [event.offsetX, event.offsetY]; redraw(); });
  canvas.addEventListener("pointerleave", () => { pointed = null; redraw(); });
  canvas.addEventListener("click", (event) => {
    const found = nearest(event.offsetX, event.offsetY);
    if (found) choose(found.collection, found.id);
  });
  new ResizeObserver(redraw).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
}

export function clearMap() {
  layers.clear();
  frame = null;
  chosen = null;
  show("map-panel", false);
}

/** Mark an entity; null marks none. */
export function markOnMap(collection, id) {
  chosen = collection === null ? null : { collection, id };
  redraw();
}

/** Show the positions of a moment at once: [{collection, ids, x, y}]. */
export function placeAll(columns) {
  layers.clear();
  for (const { collection, ids, x, y } of columns) {
    layers.set(collection, {
      ids,
      index: new Map(ids.map((id, at) => [id, at])),
      x: Float64Array.from(x),
      y: Float64Array.from(y),
      fromX: Float64Array.from(x),
      fromY: Float64Array.from(y),
      isThere: new Uint8Array(ids.length).fill(1),
    });
  }
  glide = { startMs: 0, lengthMs: 0 };
  fit();
  redraw();
}

/** Move what a step moved, {collection: [[id, [x, y] or null], ...]}, in so many milliseconds. */
export function placeMoved(moved, lengthMs) {
  settle();
  for (const [collection, changes] of Object.entries(moved)) {
    for (const [id, point] of changes) move(collection, id, point);
  }
  glide = { startMs: performance.now(), lengthMs: isCalm.matches ? 0 : lengthMs };
  fit();
  redraw();
}

function move(collection, id, point) {
  let layer = layers.get(collection);
  if (!layer) {
    if (!point) return;
    layer = { ids: [], index: new Map(), x: new Float64Array(64), y: new Float64Array(64), fromX: new Float64Array(64), fromY: new Float64Array(64), isThere: new Uint8Array(64) };
    layers.set(collection, layer);
  }
  let at = layer.index.get(id);
  if (at === undefined) {
    if (!point) return;
    at = layer.ids.push(id) - 1;
    layer.index.set(id, at);
    if (at >= layer.x.length) grow(layer);
    [layer.fromX[at], layer.fromY[at]] = point;
  } else if (point && !layer.isThere[at]) {
    [layer.fromX[at], layer.fromY[at]] = point;
  }
  layer.isThere[at] = point ? 1 : 0;
  if (point) [layer.x[at], layer.y[at]] = point;
}

function grow(layer) {
  for (const name of ["x", "y", "fromX", "fromY", "isThere"]) {
    const wider = new layer[name].constructor(layer[name].length * 2 + 64);
    wider.set(layer[name]);
    layer[name] = wider;
  }
}

/** Take as reached what the last step moved: the next begins where the eye has it. */
function settle() {
  const part = reached(performance.now());
  for (const layer of layers.values()) {
    const { x, y, fromX, fromY } = layer;
    if (part >= 1) {
      fromX.set(x);
      fromY.set(y);
      continue;
    }
    for (let at = 0; at < layer.ids.length; at += 1) {
      fromX[at] += (x[at] - fromX[at]) * part;
      fromY[at] += (y[at] - fromY[at]) * part;
    }
  }
}

function reached(now) {
  const { startMs, lengthMs } = glide;
  return lengthMs > 0 ? Math.min(1, (now - startMs) / lengthMs) : 1;
}

function fit() {
  for (const { ids, x, y, isThere } of layers.values()) {
    for (let at = 0; at < ids.length; at += 1) {
      if (!isThere[at]) continue;
      frame ??= [x[at], y[at], x[at], y[at]];
      if (x[at] < frame[0]) frame[0] = x[at];
      if (y[at] < frame[1]) frame[1] = y[at];
      if (x[at] > frame[2]) frame[2] = x[at];
      if (y[at] > frame[3]) frame[3] = y[at];
    }
  }
  show("map-panel", frame !== null);
}

const redraw = () => { if (!drawing) drawing = requestAnimationFrame(draw); };

function projection(canvas) {
  const [left, bottom, right, top] = frame;
  const margin = 14;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const scale = Math.min((width - 2 * margin) / (right - left || 1), (height - 2 * margin) / (top - bottom || 1));
  return { scale, ox: width / 2 - ((left + right) / 2) * scale, oy: height / 2 + ((bottom + top) / 2) * scale };
}

function draw(now) {
  drawing = 0;
  frames += 1;
  const canvas = byId("map");
  const [width, height, density] = [canvas.clientWidth, canvas.clientHeight, devicePixelRatio || 1];
  if (!width || !frame) return;
  if (canvas.width !== Math.round(width * density)) canvas.width = Math.round(width * density);
  if (canvas.height !== Math.round(height * density)) canvas.height = Math.round(height * density);
  const context = canvas.getContext("2d");
  context.setTransform(density, 0, 0, density, 0, 0);
  context.clearRect(0, 0, width, height);
  const to = projection(canvas);
  const part = reached(now);
  const style = getComputedStyle(document.documentElement);
  const names = [...layers.keys()].sort();
  const count = names.reduce((sum, name) => sum + layers.get(name).ids.length, 0);
  context.globalAlpha = count > ROUND_MAX ? 0.7 : 0.85;
  names.forEach((name, number) => {
    context.fillStyle = style.getPropertyValue(`--dot-${(number % COLORS) + 1}`);
    drawLayer(context, layers.get(name), to, part, number % 2 === 0 && count <= ROUND_MAX, count > 20_000 ? 2 : 4);
  });
  context.globalAlpha = 1;
  ring(context, to, part, style);
  caption(names, count);
  if (part < 1 && !document.hidden) redraw();
}

function drawLayer(context, { ids, x, y, fromX, fromY, isThere }, { scale, ox, oy }, part, isRound, size) {
  const half = size / 2;
  if (isRound) context.beginPath();
  for (let at = 0; at < ids.length; at += 1) {
    if (!isThere[at]) continue;
    const px = ox + (fromX[at] + (x[at] - fromX[at]) * part) * scale;
    const py = oy - (fromY[at] + (y[at] - fromY[at]) * part) * scale;
    if (isRound) {
      context.moveTo(px + 3, py);
      context.arc(px, py, 3, 0, 2 * Math.PI);
    } else context.fillRect(px - half, py - half, size, size);
  }
  if (isRound) context.fill();
}

// What is chosen has a ring.
function ring(context, { scale, ox, oy }, part, style) {
  const layer = chosen && layers.get(chosen.collection);
  const at = layer?.index.get(chosen.id);
  if (at === undefined || !layer.isThere[at]) return;
  const px = ox + (layer.fromX[at] + (layer.x[at] - layer.fromX[at]) * part) * scale;
  const py = oy - (layer.fromY[at] + (layer.y[at] - layer.fromY[at]) * part) * scale;
  context.strokeStyle = style.getPropertyValue("--ink");
  context.lineWidth = 2;
  context.beginPath();
  context.arc(px, py, 8, 0, 2 * Math.PI);
  context.stroke();
}

function nearest(left, top) {
  if (!frame) return null;
  const { scale, ox, oy } = projection(byId("map"));
  let best = PICK_PX * PICK_PX;
  let found = null;
  for (const [collection, { ids, x, y, isThere }] of layers) {
    for (let at = 0; at < ids.length; at += 1) {
      if (!isThere[at]) continue;
      const [dx, dy] = [ox + x[at] * scale - left, oy - y[at] * scale - top];
      if (dx * dx + dy * dy < best) {
        best = dx * dx + dy * dy;
        found = { collection, id: ids[at], x: x[at], y: y[at] };
      }
    }
  }
  return found;
}

function caption(names, count) {
  const counted = names.map((name) => [name, layers.get(name).isThere.reduce((sum, one) => sum + one, 0)]);
  write("map-of", `${whole(count)} from above`);
  const near = pointed && nearest(...pointed);
  byId("map").style.cursor = near ? "pointer" : "default";
  const says = byId("map-says");
  const wanted = near
    ? [[`${tame(near.id, 60)} at ${near.x.toFixed(1)}, ${near.y.toFixed(1)}`, names.indexOf(near.collection)]]
    : counted.map(([name, one], number) => [`${tame(name, 40)} ${whole(one)}`, number]);
  const text = wanted.map(([one]) => one).join("\n");
  if (says.dataset.text === text) return;
  says.dataset.text = text;
  says.replaceChildren(...wanted.map(([one, number]) => made("bdi", `dot dot-${(number % COLORS) + 1}`, one)));
}
