// The series of two runs over each other, on common axes: the first solid, the second dashed.

import { byId, made, sketch } from "./chart.js";
import { short, tame } from "./format.js";

const KINDS = 8;
const PAD = { left: 48, right: 8, top: 8, bottom: 20 };
const DASH = [5, 4];
const APART_PX = 45;
const LINES_MAX = 8;

let charts = []; // {x, y, xName, lines: [{name, runs: [{xs, values}, ...]}], canvas, legend}
let at = 0;

/** Draw again when the page changes; `seek` is called with the x of a click. */
export function startCharts(seek) {
  new ResizeObserver(drawCharts).observe(byId("charts"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawCharts);
  byId("charts").addEventListener("click", ({ target, offsetX }) => {
    const chart = charts.find(({ canvas }) => canvas === target);
    if (!chart) return;
    const part = (offsetX - PAD.left) / (target.clientWidth - PAD.left - PAD.right);
    seek(Math.round(chart.x[0] + Math.min(1, Math.max(0, part)) * (chart.x[1] - chart.x[0])));
  });
}

/** Show the series of two runs: those of one name are in one chart. */
export function showSeries(series) {
  const names = [...new Set(series.flatMap((run) => run.map(({ name }) => name)))];
  charts = names.map((name) => chartOf(series.map((run) => run.find((one) => one.name === name)))).filter((chart) => chart !== null);
  byId("charts").replaceChildren(...charts.map(({ element }) => element));
  drawCharts();
  return charts.length;
}

/** Mark an x, such as a tick, in all charts and write the values there. */
export function markCharts(x) {
  at = x;
  drawCharts();
}

function chartOf(runs) {
  const some = runs.find((run) => run);
  const names = [...new Set(runs.flatMap((run) => run?.lines.map(({ name }) => name) ?? []))].slice(0, LINES_MAX);
  const lines = names.map((name) => ({ name, runs: runs.map((run) => ({ xs: run?.x ?? [], values: run?.lines.find((line) => line.name === name)?.values ?? [] })) }));
  const x = extentOf(runs.flatMap((run) => run?.x ?? []));
  const y = extentOf(lines.flatMap((line) => line.runs.flatMap(({ values }) => values)));
  if (!x || !y) return null;
  if (y[0] > 0 && y[0] < 0.8 * y[1]) y[0] = 0;
  const [element, canvas, legend] = [made("figure", "chart"), made("canvas"), made("p", "legend")];
  canvas.setAttribute("role", "img");
  const title = made("h3", "", tame(some.name, 80), true);
  title.title = tame(some.note, 200);
  element.append(title, canvas, legend);
  return { title: tame(some.name, 80), x, y, xName: tame(some.x_name, 40), lines, element, canvas, legend };
}

function extentOf(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (typeof value !== "number") continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low > high ? null : [low, high];
}

function drawCharts() {
  for (const chart of charts) {
    const drawn = sketch(chart.canvas);
    if (drawn) drawChart(chart, drawn);
    writeLegend(chart);
  }
}

function drawChart({ x, y, xName, lines }, { context, width, height, color }) {
  const [wide, high] = [width - PAD.left - PAD.right, height - PAD.top - PAD.bottom];
  const toX = (value) => PAD.left + ((value - x[0]) / (x[1] - x[0] || 1)) * wide;
  const toY = (value) => PAD.top + (1 - (y[1] > y[0] ? (value - y[0]) / (y[1] - y[0]) : 0.5)) * high;
  context.font = `10px ${getComputedStyle(document.body).fontFamily}`;
  Object.assign(context, { lineWidth: 1, textAlign: "right", textBaseline: "middle" });
  for (const value of rounds(y, high)) {
    Object.assign(context, { fillStyle: color("--line") });
    context.fillRect(PAD.left, Math.round(toY(value)), wide, 1);
    Object.assign(context, { fillStyle: color("--quiet") });
    context.fillText(short(value), PAD.left - 5, toY(value));
  }
  Object.assign(context, { textAlign: "center", textBaseline: "top", fillStyle: color("--quiet") });
  for (const value of rounds(x, wide)) context.fillText(short(value), Math.min(width - 12, toX(value)), height - PAD.bottom + 5);
  Object.assign(context, { textAlign: "left", fillStyle: color("--quiet") });
  context.fillText(xName, 4, height - PAD.bottom + 5);
  context.fillStyle = color("--quiet");
  if (at >= x[0] && at <= x[1]) context.fillRect(toX(at), PAD.top, 1, high);
  for (const [number, line] of lines.entries()) {
    for (const [run, { xs, values }] of line.runs.entries()) {
      context.strokeStyle = color(lines.length === 1 ? `--run-${run + 1}` : `--kind-${(number % KINDS) + 1}`);
      Object.assign(context, { lineWidth: run ? 1.75 : 1.5 });
      context.setLineDash(run ? DASH : []);
      trace(context, xs, values, toX, toY);
    }
  }
  context.setLineDash([]);
}

function trace(context, xs, values, toX, toY) {
  context.beginPath();
  let isOpen = false;
  for (const [place, value] of values.entries()) {
    if (typeof value === "number") context[isOpen ? "lineTo" : "moveTo"](toX(xs[place]), toY(value));
    isOpen = typeof value === "number";
  }
  context.stroke();
}

/** Return round numbers in an extent, about `APART_PX` apart. */
function rounds([low, high], length) {
  const least = ((high - low) * APART_PX) / Math.max(1, length);
  if (!(least > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((part) => part * power).find((one) => one >= least * (1 - 1e-9));
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.max(0, Math.floor(high / step + 1e-9) - first + 1) }, (_, place) => Number(((first + place) * step).toPrecision(12)));
}

/** Write each line's name with its values at the mark, of both runs. */
function writeLegend({ title, lines, legend, canvas, xName }) {
  const texts = lines.map(({ name, runs }) => {
    const values = runs.map(({ xs, values: all }) => {
      const place = xs.findLastIndex((one) => one <= at);
      return place < 0 || typeof all[place] !== "number" ? "–" : short(all[place]);
    });
    return `${tame(name, 40)} ${values.join(" | ")}`;
  });
  canvas.ariaLabel = `${title}, at ${xName} ${short(at)}, first and second run: ${texts.join("; ")}`;
  if (legend.dataset.text === texts.join("\n")) return;
  legend.dataset.text = texts.join("\n");
  legend.replaceChildren(...texts.map((text, number) => {
    const key = made("bdi", lines.length > 1 ? "dot" : "", text);
    key.style.setProperty("--dot-1", `var(--kind-${(number % KINDS) + 1})`);
    return key;
  }));
}
