// The part of the map that is shown: all of it, or what the reader zoomed and moved to.

import { byId, show } from "./chart.js";

const MARGIN = { left: 44, right: 16, top: 12, bottom: 26 }; // with room for the axes
const ZOOM_MAX = 64;
const ZOOM_STEP = 1.5;
const WHEEL_PART = 0.002; // of a doubling, for a pixel of the wheel
const DRAG_PX = 4; // less is a click
const KEY_PX = 40;

let zoom = 1;
let away = [0, 0]; // from the middle of the frame to that of the view, in units of the places
let last = null; // {midX, midY, fitted, half}: how the frame was fitted to the canvas
let redraw = () => {};
let held = null; // {x, y, isDrag} of a pressed pointer

/** Show the whole map. */
export function resetView() {
  [zoom, away] = [1, [0, 0]];
  showZoom();
}

/** Return how places are drawn: `ox + x * scale`, `oy - y * scale`; and the area of the frame in pixels. */
export function projection(canvas, [left, bottom, right, top]) {
  const [wide, high] = [canvas.clientWidth - MARGIN.left - MARGIN.right, canvas.clientHeight - MARGIN.top - MARGIN.bottom];
  const fitted = Math.min(wide / (right - left || 1), high / (top - bottom || 1));
  last = { midX: MARGIN.left + wide / 2, midY: MARGIN.top + high / 2, fitted, half: [(right - left) / 2, (top - bottom) / 2] };
  const scale = fitted * zoom;
  const area = (right - left) * (top - bottom) * scale * scale;
  return { scale, area, ox: last.midX - ((left + right) / 2 + away[0]) * scale, oy: last.midY + ((bottom + top) / 2 + away[1]) * scale };
}

/** Listen to the wheel, drags, double clicks, keys and buttons. Returns whether the last press was a drag, and no click. */
export function startView(canvas, draw) {
  redraw = draw;
  canvas.addEventListener("wheel", (event) => {
    const isZoomed = zoomAt(2 ** (-event.deltaY * WHEEL_PART * (event.deltaMode ? 16 : 1)), event.offsetX, event.offsetY);
    if (isZoomed) event.preventDefault(); // else the page scrolls on
  }, { passive: false });
  canvas.addEventListener("pointerdown", ({ clientX: x, clientY: y }) => { held = { x, y, isDrag: false }; });
  canvas.addEventListener("pointermove", (event) => drag(canvas, event));
  canvas.addEventListener("dblclick", () => { resetView(); redraw(); });
  canvas.addEventListener("keydown", onKey);
  const middle = () => [last.midX, last.midY];
  byId("map-in").addEventListener("click", () => zoomAt(ZOOM_STEP, ...middle()));
  byId("map-out").addEventListener("click", () => zoomAt(1 / ZOOM_STEP, ...middle()));
  byId("map-whole").addEventListener("click", () => { resetView(); redraw(); });
  return () => held?.isDrag ?? false;
}

function drag(canvas, { buttons, pointerId, clientX, clientY }) {
  if (!held || !(buttons & 1) || zoom === 1) return;
  const [dx, dy] = [clientX - held.x, clientY - held.y];
  if (!held.isDrag && Math.hypot(dx, dy) < DRAG_PX) return;
  canvas.setPointerCapture(pointerId);
  held = { x: clientX, y: clientY, isDrag: true };
  pan(dx, dy);
}

/** Zoom around a point of the canvas; returns whether anything changed. */
function zoomAt(factor, px, py) {
  const next = Math.min(ZOOM_MAX, Math.max(1, zoom * factor));
  if (!last || next === zoom) return false;
  const part = 1 / (last.fitted * zoom) - 1 / (last.fitted * next);
  zoom = next;
  moveTo(away[0] + (px - last.midX) * part, away[1] - (py - last.midY) * part);
  return true;
}

const pan = (dx, dy) => moveTo(away[0] - dx / (last.fitted * zoom), away[1] + dy / (last.fitted * zoom));

/** Move the middle of the view, which stays within the frame. */
function moveTo(x, y) {
  const bounds = last.half.map((half) => half * (1 - 1 / zoom));
  away = [x, y].map((value, axis) => Math.max(-bounds[axis], Math.min(bounds[axis], value)));
  showZoom();
  redraw();
}

function onKey(event) {
  const keys = {
    "+": () => zoomAt(ZOOM_STEP, last.midX, last.midY),
    "-": () => zoomAt(1 / ZOOM_STEP, last.midX, last.midY),
    0: () => { resetView(); redraw(); },
  };
  const arrows = { ArrowLeft: [KEY_PX, 0], ArrowRight: [-KEY_PX, 0], ArrowUp: [0, KEY_PX], ArrowDown: [0, -KEY_PX] };
  const act = keys[event.key] ?? (zoom > 1 && arrows[event.key] ? () => pan(...arrows[event.key]) : null);
  if (!act || !last || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  event.stopPropagation(); // arrows are steps elsewhere on the page
  act();
}

function showZoom() {
  const canvas = byId("map");
  canvas.style.touchAction = zoom > 1 ? "none" : "";
  show("map-whole", zoom > 1);
  byId("map-out").disabled = zoom === 1;
  byId("map-in").disabled = zoom === ZOOM_MAX;
}
