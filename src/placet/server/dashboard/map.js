// A map of whatever has a `position` of two or three numbers, from above.

import { byId, made, show, write } from "./chart.js";
import { tame, whole } from "./format.js";

const DOTS_MAX = 2_000;
const GLIDE_MS = 900;
const COLORS = 4;

const dots = new Map(); // collection/entity → {name, collection, from, to, startMs}
let frame = null; // what is shown, [left, bottom, right, top]
let drawing = 0;
let pointed = null;
const isCalm = matchMedia("(prefers-reduced-motion: reduce)");

export function startMap() {
  const canvas = byId("map");
  canvas.addEventListener("pointermove", (event) => { pointed = [event.offsetX, event.offsetY]; redraw(); });
  canvas.addEventListener("pointerleave", () => { pointed = null; redraw(); });
  new ResizeObserver(redraw).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
}

export function clearMap() {
  dots.clear();
  frame = null;
  show("map-panel", false);
}

/** Take a state, or some collections of it, as what there is of these. */
export function placeAll(state) {
  const there = new Set();
  for (const [collection, entities] of Object.entries(state)) {
    if (entities === null || typeof entities !== "object") continue;
    for (const [entity, fields] of Object.entries(entities)) {
      if (there.size < DOTS_MAX && place(collection, entity, fields)) there.add(`${collection}/${entity}`);
    }
  }
  for (const [key, { collection }] of [...dots]) {
    if (Object.hasOwn(state, collection) && !there.has(key)) dots.delete(key);
  }
  fit();
  redraw();
}

/** Take the changes of events. */
export function placeChanged(events) {
  for (const { changes } of events) {
    for (const { entity: key, fields } of changes ?? []) {
      const [collection, ...rest] = key.split("/");
      if (fields === null) dots.delete(key);
      else if (dots.has(key) || dots.size < DOTS_MAX) place(collection, rest.join("/"), fields);
    }
  }
  fit();
  redraw();
}

/** Name the collections that are on the map. */
export const collections = () => [...new Set([...dots.values()].map(({ collection }) => collection))].sort();

function place(collection, entity, fields) {
  const position = fields?.position;
  if (!Array.isArray(position) || position.length < 2 || position.length > 3) return false;
  if (!position.every(Number.isFinite)) return false;
  const key = `${collection}/${entity}`;
  const to = [position[0], position[1]];
  const known = dots.get(key);
  if (known && known.to[0] === to[0] && known.to[1] === to[1]) return true;
  const now = performance.now();
  dots.set(key, { name: entity, collection, from: known ? where(known, now) : to, to, startMs: now });
  return true;
}

function where({ from, to, startMs }, now) {
  const part = isCalm.matches ? 1 : Math.min(1, (now - startMs) / GLIDE_MS);
  const eased = part * (2 - part);
  return [from[0] + (to[0] - from[0]) * eased, from[1] + (to[1] - from[1]) * eased];
}

// The frame only widens while the map stands, so that what does not move stays where it is.
function fit() {
  for (const { to: [x, y] } of dots.values()) {
    frame ??= [x, y, x, y];
    frame = [Math.min(frame[0], x), Math.min(frame[1], y), Math.max(frame[2], x), Math.max(frame[3], y)];
  }
}

function redraw() {
  show("map-panel", dots.size > 0 || !byId("map-ask").hidden);
  if (!drawing && dots.size) drawing = requestAnimationFrame(draw);
}

function draw(now) {
  drawing = 0;
  const canvas = byId("map");
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (!width || !frame) return;
  const scale = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
  if (canvas.height !== Math.round(height * scale)) canvas.height = Math.round(height * scale);
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  const toCanvas = projection(width, height);
  const names = collections();
  const style = getComputedStyle(document.documentElement);
  const colors = names.map((_, index) => style.getPropertyValue(`--dot-${(index % COLORS) + 1}`));
  let nearest = [12, null];
  let isMoving = false;
  for (const dot of dots.values()) {
    const [x, y] = toCanvas(where(dot, now));
    const index = names.indexOf(dot.collection);
    context.fillStyle = colors[index];
    mark(context, x, y, index);
    isMoving ||= now - dot.startMs < GLIDE_MS && !isCalm.matches;
    const away = pointed ? Math.hypot(pointed[0] - x, pointed[1] - y) : Infinity;
    if (away < nearest[0]) nearest = [away, dot];
  }
  caption(names, nearest[1]);
  if (isMoving && !document.hidden) drawing = requestAnimationFrame(draw);
}

// Round and square in turns: colour alone does not tell them apart.
function mark(context, x, y, index) {
  context.globalAlpha = 0.85;
  if (index % 2) return context.fillRect(x - 2.2, y - 2.2, 4.4, 4.4);
  context.beginPath();
  context.arc(x, y, 3, 0, 2 * Math.PI);
  return context.fill();
}

function projection(width, height) {
  const [left, bottom, right, top] = frame;
  const margin = 14;
  const scale = Math.min((width - 2 * margin) / (right - left || 1), (height - 2 * margin) / (top - bottom || 1));
  const [centerX, centerY] = [(left + right) / 2, (bottom + top) / 2];
  return ([x, y]) => [width / 2 + (x - centerX) * scale, height / 2 - (y - centerY) * scale];
}

function caption(names, nearest) {
  write("map-of", `${whole(dots.size)}${dots.size >= DOTS_MAX ? ", which is all that is drawn" : " from above"}`);
  const says = byId("map-says");
  const wanted = nearest ? [`${tame(nearest.name, 60)} at ${nearest.to.map((one) => one.toFixed(1)).join(", ")}`] : names.map((name) => tame(name, 40));
  if ([...says.children].map(({ textContent }) => textContent).join("\n") === wanted.join("\n")) return;
  const color = (index) => `dot dot-${((nearest ? names.indexOf(nearest.collection) : index) % COLORS) + 1}`;
  says.replaceChildren(...wanted.map((text, index) => made("bdi", color(index), text)));
}
