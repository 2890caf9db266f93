// Sizes, marker shapes and labels of dots, by fields of a portrayal; and their legend.

import { byId, made, show } from "./chart.js";
import { short, tame } from "./format.js";
import { byName } from "./player_colors.js";
import { cellText } from "./tree.js";

const SHAPES = ["●", "■", "▲", "◆", "✚", "✖", "▼", "○"];
const LABEL_CHARS = 24;
const TURN = 2 * Math.PI;

/** Size of the mark of the largest value, in sizes of a plain one. */
export const LARGEST = 4;

const extents = new Map(); // "collection/field" → {low, high}; it only widens, so that a size keeps its meaning
const kinds = new Map(); // "collection/field" → value → number of its shape

export function clearMarks() {
  extents.clear();
  kinds.clear();
}

/** Return what is drawn of the marks of a layer; `read` returns the values of a field, one a dot. */
export function marksOf(collection, { size, marker, label }, read, names = []) {
  const marks = {};
  if (size) marks.sizes = { field: size.field, ...sized(`${collection}/${size.field}`, read(size.values)) };
  if (marker) marks.markers = { field: marker.field, ...formed(`${collection}/${marker.field}`, read(marker.values), names) };
  if (label) marks.labels = Array.from(read(label.values), (value) => (value === null ? "" : cellText(value, LABEL_CHARS)));
  return marks;
}

/** Return the side of each mark as a part of the largest: its area grows with the value, from zero or the lowest on. */
function sized(key, values) {
  const extent = extents.get(key) ?? { low: 0, high: 0 };
  extents.set(key, extent);
  for (const value of values) {
    if (value < extent.low) extent.low = value; // null is neither lower nor higher than 0
    if (value > extent.high) extent.high = value;
  }
  const wide = extent.high - extent.low || 1;
  return { ...extent, parts: Float32Array.from(values, (value) => (value === null ? 0 : Math.sqrt((value - extent.low) / wide))) };
}

function formed(key, values, names) {
  const shapeOf = kinds.get(key) ?? new Map();
  kinds.set(key, shapeOf);
  const known = shapeOf.size === 0 && values.some((value) => typeof value === "string") ? names : [];
  for (const value of [...new Set([...known, ...values])].sort(byName(names))) {
    if (value !== null && !shapeOf.has(value)) shapeOf.set(value, Math.min(shapeOf.size, SHAPES.length - 1));
  }
  return { shapeOf, shapes: Uint8Array.from(values, (value) => shapeOf.get(value) ?? SHAPES.length - 1) };
}

/** Begin the path of a shape around a point. */
export function trace(context, shape, x, y, radius) {
  context.beginPath();
  if (shape === 0 || shape === 7) {
    context.arc(x, y, radius, 0, TURN);
    if (shape === 7) context.arc(x, y, radius / 2, 0, TURN, true);
  } else if (shape === 1) context.rect(x - radius, y - radius, 2 * radius, 2 * radius);
  else if (shape === 2) polygon(context, 3, x, y, radius * 1.2, -TURN / 4);
  else if (shape === 3) polygon(context, 4, x, y, radius * 1.2, 0);
  else if (shape === 6) polygon(context, 3, x, y, radius * 1.2, TURN / 4);
  else cross(context, x, y, radius * 1.2, shape === 5 ? TURN / 8 : 0);
}

function polygon(context, corners, x, y, radius, from) {
  for (let at = 0; at < corners; at += 1) context.lineTo(x + radius * Math.cos(from + (at * TURN) / corners), y + radius * Math.sin(from + (at * TURN) / corners));
  context.closePath();
}

/** Draw two bars across each other, as the outline of a cross. */
function cross(context, x, y, radius, turned) {
  const narrow = radius / 3;
  const corners = [[narrow, radius], [narrow, narrow], [radius, narrow]];
  for (let quarter = 0; quarter < 4; quarter += 1) {
    const [cos, sin] = [Math.cos(turned - (quarter * TURN) / 4), Math.sin(turned - (quarter * TURN) / 4)];
    for (const [dx, dy] of corners) context.lineTo(x + dx * cos - dy * sin, y + dx * sin + dy * cos);
  }
  context.closePath();
}

/** Show the meaning of the sizes and the shapes of layers. */
export function showMarks(layers) {
  const keys = layers.flatMap(({ sizes, markers }) => [
    ...(sizes ? [made("bdi", "quiet", tame(sizes.field, 40)), made("span", "", `· ${short(sizes.low)}`), made("span", "largest", `● ${short(sizes.high)}`)] : []),
    ...(markers ? [made("bdi", "quiet", tame(markers.field, 40)), ...[...markers.shapeOf].map(([value, shape]) => made("bdi", "", `${SHAPES[shape]} ${tame(value, 40)}`))] : []),
  ]);
  const text = keys.map(({ textContent }) => textContent).join("\n");
  const legend = byId("map-marks");
  show("map-marks", keys.length > 0);
  if (legend.dataset.text === text) return;
  legend.dataset.text = text;
  legend.replaceChildren(...keys);
}
