// The time line: what was admitted and refused along the run, and a slider over it.

import { byId, show, write } from "./chart.js";
import { span, whole } from "./format.js";

let history = null;
let at = null;
let began = null; // {now, indexed} when the page first saw that the log is being read
const dark = matchMedia("(prefers-color-scheme: dark)");

/** Listen to the slider; `seek` is called with the seq that the reader wants. */
export function startLine(seek) {
  byId("seek").addEventListener("input", ({ target }) => seek(Number(target.value)));
  new ResizeObserver(drawBars).observe(byId("bars"));
  dark.addEventListener("change", drawBars);
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
  write("run-counts", `${whole(admitted)} admitted · ${whole(refused)} refused`);
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
  const canvas = byId("bars");
  const [width, height, scale] = [canvas.clientWidth, canvas.clientHeight, devicePixelRatio || 1];
  if (!width || !history) return;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(name);
  const first = history.start.seq;
  const length = Math.max(1, Number(byId("seek").max) - first);
  const most = Math.max(1, ...history.bars.map(([, yes, no]) => yes + no));
  const toX = (seq) => ((seq - first) / length) * width;
  for (const [number, yes, no] of history.bars) {
    const [left, right] = [toX(number * history.bar_seqs), toX((number + 1) * history.bar_seqs)];
    const [yesHigh, noHigh] = [(yes / most) * (height - 4), (no / most) * (height - 4)];
    const wide = Math.max(1, Math.min(right, width) - left - (right - left > 3 ? 1 : 0));
    context.fillStyle = color("--yes-bar");
    context.fillRect(left, height - yesHigh, wide, yesHigh);
    context.fillStyle = color("--no");
    context.fillRect(left, height - yesHigh - noHigh, wide, noHigh);
  }
  if (at) {
    context.fillStyle = color("--ink");
    context.fillRect(Math.min(width - 2, Math.max(0, toX(at.seq) - 1)), 0, 2, height);
  }
}
