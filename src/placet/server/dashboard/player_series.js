// The collected series under the time line: each on a scale of its own, along the seqs of the slider.

import { byId, made, show, sketch, write } from "./chart.js";
import { short, tame } from "./format.js";
import { drawBands, saysOfBands } from "./player_bands.js";
import { kindOfName } from "./player_colors.js";

const AGAIN_MS = 5_000; // a run writes its collected rows every ten seconds
const KINDS = 8;

let rows = []; // {series, low, high, element, canvas, says}
let traced = []; // the same of the entity that is looked at
let askedMs = -Infinity;
let later = null; // the timer of a question that came too early
let place = null; // {partOf, seq} of the last picture

/** Listen to clicks on a series; `seek` is called with a part of the time line, 0 to 1. */
export function startSeries(seek) {
  byId("series").addEventListener("click", ({ target, offsetX }) => {
    if (target.matches("canvas")) seek(Math.min(1, Math.max(0, offsetX / target.clientWidth)));
  });
  new ResizeObserver(redrawSeries).observe(byId("series"));
}

export function clearSeries() {
  clearTimeout(later);
  [rows, askedMs, later] = [[], -Infinity, null];
  byId("series").replaceChildren();
  for (const id of ["series", "series-problem"]) show(id, false);
}

/** Ask for the series and show them, later if they were asked for a moment ago; not if `isWanted` is false then. */
export async function askSeries(ask, isWanted) {
  const now = performance.now();
  const wait = askedMs + AGAIN_MS - now;
  if (wait > 0) {
    later ??= setTimeout(() => { later = null; askSeries(ask, isWanted); }, wait);
    return;
  }
  askedMs = now;
  const found = await ask().catch((error) => ({ series: [], problem: error.message }));
  if (!isWanted()) return;
  rows = found.series.map(rowOf).filter((row) => row.low <= row.high);
  byId("series").style.setProperty("--rows", String(Math.max(1, rows.length))); // few rows are high
  byId("series").replaceChildren(...rows.map(({ element }) => element));
  show("series", rows.length > 0);
  write("series-problem", found.problem && `No collected series: ${tame(found.problem, 300)}`);
  show("series-problem", found.problem !== "");
  redrawSeries();
}

/** Return the elements of the series of an entity of a collection; they are drawn with the time line's. */
export function tracedRows(series, collection) {
  traced = series.map((one) => rowOf({ ...one, collection })).filter((row) => row.series.categories || row.low <= row.high);
  requestAnimationFrame(redrawSeries);
  return traced.map(({ element }) => element);
}

function rowOf(series) {
  const values = (series.lines ?? []).flatMap((line) => line.values).filter((value) => value !== null);
  const [low, high] = values.reduce(([least, most], value) => [Math.min(least, value), Math.max(most, value)], [Infinity, -Infinity]);
  const [element, says, canvas] = [made("div", "track"), made("div", "says"), made("canvas")];
  element.title = tame(series.note, 200);
  canvas.setAttribute("role", "img");
  element.append(says, canvas);
  return { series, low, high, element, says, canvas };
}

/** Draw all series again, where they were drawn. */
export const redrawSeries = () => { if (place) drawSeries(place.partOf, place.seq); };

/** Return the color of each line of a series: that of the map where it colors by these names. */
function kindsOf({ name, lines }) {
  if (lines.length === 1) return [kindOfName(name) ?? "--yes"];
  const kinds = lines.map((line) => kindOfName(line.name));
  return kinds.includes(null) ? lines.map((_, number) => `--kind-${(number % KINDS) + 1}`) : kinds;
}

/** Draw all series, with a mark at a seq; `partOf` returns how far along the time line a seq is, 0 to 1. */
export function drawSeries(partOf, seq) {
  place = { partOf, seq };
  for (const row of [...rows, ...traced]) {
    writeValues(row, seq);
    const drawn = sketch(row.canvas);
    if (drawn) drawRow(row, drawn, partOf, seq);
  }
}

/** Write the name, the values at a seq and the extent of a series. */
function writeValues(row, seq) {
  if (row.series.categories) saysOfBands(row, seq);
  else writeNumbers(row, seq);
}

function writeNumbers({ series, low, high, says, canvas }, seq) {
  const { name, seqs, lines, is_band: isBand } = series;
  const kinds = kindsOf(series);
  const at = seq === null ? -1 : seqs.findLastIndex((one) => one <= seq);
  const shown = (values) => (at < 0 || values[at] === null ? "–" : short(values[at]));
  const extent = `${short(low)} … ${short(high)}`;
  const values = lines.map((line) => (isBand || lines.length === 1 ? shown(line.values) : `${tame(line.name, 40)} ${shown(line.values)}`));
  const text = isBand ? `${values[1]} (${values[0]} … ${values[2]})` : values.join(", ");
  const label = `${tame(name, 60)}: ${text} at this moment; ${extent} in the run`;
  if (canvas.ariaLabel === label && says.dataset.kinds === String(kinds)) return;
  canvas.ariaLabel = label;
  says.dataset.kinds = String(kinds);
  const keys = isBand || lines.length === 1 ? [made("b", "", text)] : values.map((value, number) => {
    const key = made("bdi", "dot", value);
    key.style.setProperty("--dot-1", `var(${kinds[number]})`);
    return key;
  });
  says.replaceChildren(made("bdi", "", tame(name, 60)), ...keys, made("span", "quiet", extent));
}

function drawRow(row, drawn, partOf, seq) {
  if (row.series.categories) drawBands(row.series, drawn, partOf);
  else drawNumbers(row, drawn, partOf);
  if (seq === null) return;
  const { context, width, height, color } = drawn;
  context.fillStyle = color("--ink");
  context.fillRect(Math.min(width - 1, Math.max(0, partOf(seq) * width - 0.5)), 0, 1, height);
}

function drawNumbers({ series, low, high }, { context, width, height, color }, partOf) {
  const { seqs, lines, is_band: isBand } = series;
  const kinds = isBand ? ["--yes"] : kindsOf(series);
  const toX = (one) => partOf(one) * width;
  const toY = (value) => (high > low ? height - 3 - ((value - low) / (high - low)) * (height - 6) : height / 2);
  const points = lines.map(({ values }) => values.map((value, at) => (value === null ? null : [toX(seqs[at]), toY(value)])));
  if (isBand) {
    context.fillStyle = color("--yes-bar");
    const [bottom, top] = [points[0], points.at(-1)].map((line) => line.filter((point) => point));
    trace(context, [...bottom, ...top.reverse()]);
    context.fill();
  }
  context.lineWidth = 1.5;
  for (const [number, line] of (isBand ? [points[1]] : points).entries()) {
    context.strokeStyle = color(kinds[number]);
    trace(context, line);
    context.stroke();
  }
}

/** Begin a path through points; null breaks it. */
function trace(context, points) {
  context.beginPath();
  let isOpen = false;
  for (const point of points) {
    if (point) context[isOpen ? "lineTo" : "moveTo"](...point);
    isOpen = point !== null;
  }
}
