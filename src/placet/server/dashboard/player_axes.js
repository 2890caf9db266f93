// The axes of the map: round numbers along the frame, in the units of the places.

import { short } from "./format.js";

const APART_PX = 50;
const TICK_PX = 4;
const STRIP_ALPHA = 0.8; // of the ground under an axis that is over the dots
const EDGE = { left: 40, bottom: 22 };

/** Draw the axes of a frame, [left, bottom, right, top], beside it, or at the edge of the canvas. */
export function drawAxes(context, { scale, ox, oy }, [left, bottom, right, top], { width, height, color }) {
  const [toX, toY] = [(x) => ox + x * scale, (y) => oy - y * scale];
  const [axisX, axisY] = [Math.max(EDGE.left, toX(left) - TICK_PX), Math.min(height - EDGE.bottom, toY(bottom) + TICK_PX)];
  const step = roundStep(APART_PX / scale);
  Object.assign(context, { fillStyle: color("--ground"), globalAlpha: STRIP_ALPHA });
  if (toX(left) < EDGE.left) context.fillRect(0, 0, axisX, height);
  if (toY(bottom) > height - EDGE.bottom) context.fillRect(0, axisY, width, EDGE.bottom);
  context.globalAlpha = 1;
  context.font = `10px ${getComputedStyle(document.body).fontFamily}`;
  Object.assign(context, { lineJoin: "round", strokeStyle: color("--ground"), fillStyle: color("--quiet") });
  Object.assign(context, { textAlign: "center", textBaseline: "top" });
  for (const x of rounds(Math.max(left, (axisX - ox) / scale), Math.min(right, (width - ox) / scale), step)) {
    context.fillRect(toX(x), axisY, 1, TICK_PX);
    write(context, x, toX(x), axisY + TICK_PX + 2);
  }
  Object.assign(context, { textAlign: "right", textBaseline: "middle" });
  for (const y of rounds(Math.max(bottom, (oy - axisY) / scale), Math.min(top, oy / scale), step)) {
    context.fillRect(axisX - TICK_PX, toY(y), TICK_PX, 1);
    write(context, y, axisX - TICK_PX - 3, toY(y));
  }
}

/** Write a number with an outline in the color of the ground, readable over dots. */
function write(context, value, x, y) {
  const text = short(value);
  context.lineWidth = 3;
  context.strokeText(text, x, y);
  context.fillText(text, x, y);
}

/** Return the least of 1, 2, 5, 10, 20, ... that is not less than a number. */
function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((part) => part * power).find((step) => step >= least * (1 - 1e-9));
}

function rounds(from, to, step) {
  const first = Math.ceil(from / step - 1e-9);
  const count = Math.max(0, Math.floor(to / step + 1e-9) - first + 1);
  return Array.from({ length: count }, (_, at) => Number(((first + at) * step).toPrecision(12)));
}
