// The time line: the intents along the run, admitted and refused on a scale each, the collected series,
// and a slider.

import { byId, show, sketch, write } from "./chart.js";
import { span, whole } from "./format.js";
import { drawSeries, startSeries } from "./player_series.js";

const REFUSED_PX = 14; // the strip of the refusals, under that of the admitted
const MARK_PX = 2;
const MARK_LEAST_PX = 4;

let history = null;
let at = null;
let began = null; // {now, indexed} when the page first saw that the log is being read
const dark = matchMedia("(prefers-color-scheme: dark)");

/** Listen to the slider; `seek` is called with the seq that the reader wants. */
export function startLine(seek) {
  byId("seek").addEventListener("input", ({ target }) => seek(Number(target.value)));
  new ResizeObserver(drawBars).observe(byId("bars"));
  dark.addEventListener("change", drawBars);
  startSeries((part) => seek(Math.round(history.start.seq + part * length())));
}

/** Show the extent of a run, and how far it is read. */
export function showHistory(next) {
  history = next;
  const slider = byId("seek");
  slider.min = String(history.start.seq);
  slider.max = String(Math.max(history.seq, history.start.seq));
  const isReading = history.indexed < history.records;
  show("progress-row", isReading);
  if (isReading) {
    byId("progress").value = history.indexed / Math.max(1, history.records);
    const now = performance.now();
    began ??= { now, indexed: history.indexed };
    const seconds = (now - began.now) / 1000;
    const rate = seconds > 0 ? `, ${whole((history.indexed - began.indexed) / seconds)} a second` : "";
    write("progress-says", `reading the log: ${whole(history.indexed)} of ${whole(history.records)} records${rate}`);
  } else {
    began = null;
  }
  const admitted = history.bars.reduce((sum, [, yes]) => sum + yes, 0);
  const refused = history.bars.reduce((sum, [, , no]) => sum + no, 0);
  const held = history.held ? ` · ${whole(history.held)} held` : "";
  write("run-counts", `${whole(admitted)} admitted${held} · ${whole(refused)} refused`);
  if (at) writeTick();
  drawBars();
}

/** Show where the player is. */
export function showPosition(moment) {
  at = moment;
  const slider = byId("seek");
  if (moment.seq > Number(slider.max)) slider.max = String(moment.seq);
  if (document.activeElement !== slider || Number(slider.value) !== moment.seq) slider.value = String(moment.seq);
  const isInside = moment.batches > 1;
  slider.setAttribute("aria-valuetext", `seq ${moment.seq}, tick ${moment.tick}, record ${moment.record}`);
  write("at-seq", whole(moment.seq));
  writeTick();
  write("at-time", moment.sim_time === 0 ? "0 s" : span(moment.sim_time));
  write("at-record", isInside ? `${whole(moment.record)}, batch ${moment.batch + 1} of ${whole(moment.batches)}` : whole(Math.max(0, moment.record)));
  if (moment.agent_count !== undefined) write("at-agents", whole(moment.agent_count));
  drawBars();
}

/** Write the tick beside the ticks of the run, which may have grown since the position was shown. */
function writeTick() {
  write("at-tick", history?.ticks ? `${whole(at.tick)} of ${whole(Math.max(at.tick, history.ticks))}` : "–");
}

function drawBars() {
  const drawn = history && sketch(byId("bars"));
  if (!drawn) return;
  const { context, width, height, color } = drawn;
  const { bar_seqs: wide, bars } = history;
  const [mostYes, mostNo] = [1, 2].map((place) => bars.reduce((most, bar) => Math.max(most, bar[place]), 0));
  writeMost("admitted-most", mostYes, wide);
  writeMost("refused-most", mostNo, wide);
  const bottom = height - REFUSED_PX;
  for (const [number, yes, no] of bars) {
    const [left, right] = [number, number + 1].map((one) => Math.min(1, Math.max(0, partOf(one * wide))) * width);
    const high = mostYes && (yes / mostYes) * (bottom - 3);
    context.fillStyle = color("--yes-bar");
    context.fillRect(left, bottom - high, Math.max(1, right - left), high);
    context.fillStyle = color("--no");
    const long = no && MARK_LEAST_PX + (no / mostNo) * (REFUSED_PX - MARK_LEAST_PX - 1);
    if (no) context.fillRect(Math.min(width - MARK_PX, (left + right - MARK_PX) / 2), height - long, MARK_PX, long);
  }
  if (at) {
    context.fillStyle = color("--ink");
    context.fillRect(Math.min(width - 2, Math.max(0, partOf(at.seq) * width - 1)), 0, 2, height);
  }
  drawSeries(partOf, at?.seq ?? null);
}

function writeMost(id, most, wide) {
  write(id, most ? `max ${whole(most)}` : "none");
  byId(id).title = `at most ${whole(most)} intents in ${wide === 1 ? "a seq" : `${whole(wide)} seqs`}`;
}

const length = () => Math.max(1, Number(byId("seek").max) - history.start.seq);

/** Return how far along the time line a seq is, 0 to 1. */
const partOf = (seq) => (seq - history.start.seq) / length();
