// Draws entities and rows that have a place, up to 200 000 dots, from arrays of numbers.

import { byId, made, show, write } from "./chart.js";
import { tame, whole } from "./format.js";
import { cellLayer, layersOf, portray, rowLayer, widened } from "./map_layers.js";
import { drawAxes } from "./player_axes.js";
import { refreshCard, showCard, startCard } from "./player_card.js";
import { clearColors, shaded, showColorChoices, showLegend } from "./player_colors.js";
import { clearMarks, showMarks } from "./player_marks.js";
import { redrawSeries } from "./player_series.js";
import { drawCells, drawLayers, drawLinks } from "./player_dots.js";
import { projection, resetView, startView } from "./player_view.js";

const COLORS = 4;
const PICK_PX = 14;
const COHORTS_MAX = 8;
const isCalm = matchMedia("(prefers-reduced-motion: reduce)");

// collection → {count, x, y, fromX, fromY, grid, colors}, and {ids, index, isThere} of entities or
// {stem, total, place} of the rows of a table, or {stem, width} of cells, with their colors
const layers = new Map();
let frame = null; // [left, bottom, right, top]; it only widens, so that what rests stays in its place
let glide = { startMs: 0, lengthMs: 0 };
let drawing = 0;
let pointed = null;
let chosen = null;
let frames = 0;
let color = null; // the wish of the reader, "table/field"; null is the default
let cells = null; // likewise of cells

/** How many pictures were drawn; the browser tests measure by it. */
export const drawnFrames = () => frames;

/** Return the chosen color fields as query parameters of a moment or of steps. */
export const mapQuery = () => ({ ...(color === null ? {} : { color: color || "none" }), ...(cells === null ? {} : { cells: cells || "none" }) });

/** Listen to the pointer and the menu.
 * `choose` is called with the collection and the id of what was clicked, `read` returns the fields
 * of what the pointer rests on, and `recolor` is called when other colors are wanted. */
export function startMap(choose, read, recolor) {
  const canvas = byId("map");
  startCard(read);
  const wasDrag = startView(canvas, redraw);
  canvas.addEventListener("pointermove", (event) => { pointed = [event.offsetX, event.offsetY]; redraw(); });
  canvas.addEventListener("pointerleave", () => { pointed = null; redraw(); });
  byId("map-color").addEventListener("change", ({ target }) => { color = target.value; recolor(); });
  byId("map-cells").addEventListener("change", ({ target }) => { cells = target.value; recolor(); });
  canvas.addEventListener("click", (event) => {
    const found = wasDrag() ? null : nearest(event.offsetX, event.offsetY);
    if (found) choose(found.collection, found.id);
  });
  new ResizeObserver(redraw).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
}

export function clearMap() {
  layers.clear();
  clearColors();
  clearMarks();
  resetView();
  showChoices([], "", [], "");
  say("");
  [frame, chosen, color, cells] = [null, null, null, null];
  show("map-panel", false);
}

function showChoices(colors, used, ofCells, usedOfCells) {
  showColorChoices("map-color", colors, used, "cohort");
  showColorChoices("map-cells", ofCells, usedOfCells, "nothing");
}

/** Mark an entity; null marks none. */
export function markOnMap(collection, id) {
  chosen = collection === null ? null : { collection, id };
  redraw();
}

/** Show a moment at once: layers of entities, {collection, ids, x, y}, and of tables; and what may color. */
export function placeAll({ map, colors = [], color: used = "", cells: ofCells = [], cell = "", unknown = [], note = "" }) {
  layers.clear();
  for (const [collection, layer] of layersOf(map)) layers.set(collection, layer);
  glide = { startMs: 0, lengthMs: 0 };
  refreshCard();
  showChoices(colors, used, ofCells, cell);
  write("map-unknown", unknown.map((one) => tame(one, 200)).join(". "));
  show("map-unknown", unknown.length > 0);
  fit();
  say(note);
  if (unknown.length) show("map-panel", true);
  redraw();
}

/** Color the entities without a field by their cohort, where there is more than one: folk_1 is of folk. */
function colorCohorts() {
  const plain = [...layers.values()].filter(({ ids, colors }) => ids && (!colors || colors.isOfCohorts));
  if (plain.every(({ counted, count }) => counted === count)) return; // a picture costs no look at the ids
  const names = new Set(plain.flatMap(({ ids }) => ids.map(cohortOf)));
  for (const [collection, layer] of layers) {
    if (!plain.includes(layer)) continue;
    layer.counted = layer.count;
    layer.colors = names.size < 2 || names.size > COHORTS_MAX ? null
      : { ...shaded("", { field: "cohort", form: "category", values: layer.ids.map(cohortOf), names: [...names] }), isOfCohorts: true, collection };
  }
}

const cohortOf = (id) => id.replace(/_\d+$/, "");

/** Replace the rows of a table; each row is animated from its previous position. */
function placeRows(rows) {
  const layer = rowLayer(rows, layers.get(rows.collection));
  leap(layer);
  layers.set(rows.collection, layer);
}

/** Show a row that moved over more than half of the map, such as over an edge, without animation. */
function leap({ count, x, y, fromX, fromY }) {
  const [wide, high] = frame ? [(frame[2] - frame[0]) / 2, (frame[3] - frame[1]) / 2] : [Infinity, Infinity];
  for (let at = 0; at < count; at += 1) {
    if (Math.abs(x[at] - fromX[at]) > wide || Math.abs(y[at] - fromY[at]) > high) {
      fromX[at] = x[at];
      fromY[at] = y[at];
    }
  }
}

/** Move what a step moved in so many milliseconds: entities, {collection: [[id, [x, y] or null], ...]}, and tables. */
export function placeMoved(moved, tables, lengthMs) {
  settle();
  for (const [collection, changes] of Object.entries(moved)) {
    for (const [id, point] of changes) move(collection, id, point);
  }
  for (const layer of tables) {
    if (layer.width !== undefined) layers.set(layer.collection, cellLayer(layer));
    else if (layer.stem !== undefined) placeRows(layer);
    else portray(layers.get(layer.collection), layer);
  }
  glide = { startMs: performance.now(), lengthMs: isCalm.matches ? 0 : lengthMs };
  refreshCard();
  fit();
  redraw();
}

function move(collection, id, point) {
  let layer = layers.get(collection);
  if (!layer) {
    if (!point) return;
    layer = { ids: [], index: new Map(), count: 0, x: new Float64Array(64), y: new Float64Array(64), fromX: new Float64Array(64), fromY: new Float64Array(64), isThere: new Uint8Array(64) };
    layers.set(collection, layer);
  }
  let at = layer.index.get(id);
  if (at === undefined) {
    if (!point) return;
    at = layer.ids.push(id) - 1;
    layer.count = layer.ids.length;
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
  for (const layer of ofDots()) {
    const { x, y, fromX, fromY } = layer;
    if (part >= 1) {
      fromX.set(x);
      fromY.set(y);
      continue;
    }
    for (let at = 0; at < layer.count; at += 1) {
      fromX[at] += (x[at] - fromX[at]) * part;
      fromY[at] += (y[at] - fromY[at]) * part;
    }
  }
}

function reached(now) {
  const { startMs, lengthMs } = glide;
  return lengthMs > 0 ? Math.min(1, (now - startMs) / lengthMs) : 1;
}

const ofDots = () => [...layers.values()].filter(({ width }) => width === undefined);
const ofCells = () => [...layers.values()].filter(({ width }) => width !== undefined);

function fit() {
  const wasEmpty = frame === null;
  frame = widened(frame, layers);
  show("map-panel", frame !== null);
  for (const id of ["map-frame", "map-says"]) show(id, frame !== null);
  if (wasEmpty && frame) say(""); // it said why there is no map
}

/** Say what is drawn without a portrayal, or why nothing is. */
function say(note) {
  write("map-note", tame(note, 900));
  show("map-note", note !== "");
  if (note) show("map-panel", true);
}

/** Return whether there is something on the map. */
export const hasMap = () => frame !== null;

const redraw = () => { if (!drawing) drawing = requestAnimationFrame(draw); };

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
  const to = projection(canvas, frame);
  const part = reached(now);
  colorCohorts();
  const names = [...layers.keys()].filter((name) => layers.get(name).width === undefined).sort();
  const areas = ofCells().filter(({ colors }) => colors);
  const drawn = names.map((name, number) => ({ layer: layers.get(name), number, isRound: number % 2 === 0 }));
  drawn.sort((one, other) => other.layer.count - one.layer.count);
  drawLayers(context, drawn, to, part, density, COLORS, areas.length > 0);
  drawLinks(context, drawn.map(({ layer }) => layer).filter(({ links }) => links), to, part);
  drawCells(context, areas, to);
  const style = getComputedStyle(document.documentElement);
  const isPlaced = ofDots().every(({ place, isLaidOut }) => !isLaidOut && place?.length !== 0); // else x and y mean nothing
  if (isPlaced) drawAxes(context, to, frame, { width, height, color: (name) => style.getPropertyValue(name) });
  ring(context, to, part, style);
  caption(names);
  if (showLegend([...names.map((name) => layers.get(name)).filter(({ colors }) => colors), ...areas])) redrawSeries();
  showMarks(names.map((name) => layers.get(name)));
  if (part < 1 && !document.hidden) redraw();
}

/** Find an entity or a row in its layer; -1 if it is not there. */
function indexIn(layer, id) {
  if (!layer.stem) return layer.index.get(id) ?? -1;
  const number = id.startsWith(`${layer.stem}:`) ? Number(id.slice(layer.stem.length + 1)) : -1;
  return number < layer.count ? number : -1;
}

// What is chosen has a ring.
function ring(context, { scale, ox, oy }, part, style) {
  const layer = chosen && layers.get(chosen.collection);
  const at = layer ? indexIn(layer, chosen.id) : -1;
  if (at < 0 || (layer.isThere && !layer.isThere[at])) return;
  const [x, y] = layer.width === undefined
    ? [layer.fromX[at] + (layer.x[at] - layer.fromX[at]) * part, layer.fromY[at] + (layer.y[at] - layer.fromY[at]) * part]
    : [at % layer.width, Math.floor(at / layer.width)];
  const [px, py] = [ox + x * scale, oy - y * scale];
  context.strokeStyle = style.getPropertyValue("--ink");
  context.lineWidth = 2;
  context.beginPath();
  context.arc(px, py, 8, 0, 2 * Math.PI);
  context.stroke();
}

function nearest(left, top) {
  if (!frame) return null;
  const { scale, ox, oy } = projection(byId("map"), frame);
  let best = Infinity;
  let found = null;
  for (const [collection, { count, ids, stem, x, y, isThere, grid, width }] of layers) {
    if (width !== undefined) continue;
    const most = grid ? Math.max(PICK_PX, scale / 2) : PICK_PX;
    for (let at = 0; at < count; at += 1) {
      if (isThere && !isThere[at]) continue;
      const [dx, dy] = [ox + x[at] * scale - left, oy - y[at] * scale - top];
      if (dx * dx + dy * dy < Math.min(best, most * most)) {
        best = dx * dx + dy * dy;
        found = { collection, id: stem ? `${stem}:${at}` : ids[at], x: x[at], y: y[at] };
      }
    }
  }
  return found ?? cellAt((left - ox) / scale, (oy - top) / scale);
}

/** Find the cell at a place, under all dots. */
function cellAt(x, y) {
  const [column, row] = [Math.round(x), Math.round(y)];
  for (const [collection, { count, stem, width }] of layers) {
    const number = row * width + column;
    if (width !== undefined && column >= 0 && column < width && row >= 0 && number < count) return { collection, id: `${stem}:${number}`, x: column, y: row };
  }
  return null;
}

function caption(names) {
  const counted = names.map((name) => {
    const { count, total = count, isThere } = layers.get(name);
    const there = isThere ? isThere.subarray(0, count).reduce((sum, one) => sum + one, 0) : count;
    return [name, there, total];
  });
  const [drawn, all] = counted.reduce(([some, every], [, there, total]) => [some + there, every + Math.max(there, total)], [0, 0]);
  const isByNumber = names.some((name) => layers.get(name).place?.length === 0 && !layers.get(name).isLaidOut);
  const isLaidOut = names.some((name) => layers.get(name).isLaidOut);
  const number = all > drawn && names.some((name) => layers.get(name).total > layers.get(name).count) ? `${whole(drawn)} of ${whole(all)}` : whole(drawn);
  write("map-of", isByNumber ? `${number} in rows, by their number` : isLaidOut ? `${number}, laid out by their links` : `${number} from above`);
  const near = pointed && nearest(...pointed);
  byId("map").style.cursor = near ? "pointer" : "default";
  showCard(near && { ...near, colors: layers.get(near.collection).colors }, pointed);
  const says = byId("map-says");
  const text = counted.map(([name, one]) => `${tame(name, 40)} ${whole(one)}`);
  if (says.dataset.text === text.join("\n")) return;
  says.dataset.text = text.join("\n");
  says.replaceChildren(...text.map((one, at) => made("bdi", layers.get(names[at]).colors ? "" : `dot dot-${(at % COLORS) + 1}`, one)));
}
