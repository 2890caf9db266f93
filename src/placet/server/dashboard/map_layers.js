// The layers of a map from the arrays of a moment: entities by id, and rows of tables by number.

import { shaded } from "./player_colors.js";
import { marksOf } from "./player_marks.js";

/** Return the layers of a moment's map by collection: {count, x, y, fromX, fromY, ...}. */
export function layersOf(map) {
  const layers = new Map(map.map((one) => [one.collection, one.stem === undefined ? entityLayer(one) : rowLayer(one)]));
  for (const one of map) if (one.stem === undefined) portray(layers.get(one.collection), one);
  return layers;
}

function entityLayer({ ids, x, y }) {
  return {
    ids,
    index: new Map(ids.map((id, at) => [id, at])),
    count: ids.length,
    x: Float64Array.from(x),
    y: Float64Array.from(y),
    fromX: Float64Array.from(x),
    fromY: Float64Array.from(y),
    isThere: new Uint8Array(ids.length).fill(1),
  };
}

/** Return the rows of a table, sorted by number; each is animated from its place in the layer `before`. */
export function rowLayer({ collection, stem, count, total, place, grid, x, y, color: by, ...marks }, before) {
  const layer = { stem, count, total, place, grid, x: numbers(x), y: numbers(y) };
  layer.fromX = before?.count === count ? before.fromX : layer.x.slice();
  layer.fromY = before?.count === count ? before.fromY : layer.y.slice();
  layer.colors = by ? shaded(collection, { ...by, values: numbers(by.values) }) : null;
  return Object.assign(layer, marksOf(collection, marks, numbers));
}

/** Give entities the colors and marks of their fields; one without a value has none of them. */
export function portray(layer, { collection, ids, color: by, ...marks }) {
  if (!layer) return;
  const sorted = (given) => {
    const values = new Array(layer.count).fill(null);
    for (const [at, id] of ids.entries()) if (layer.index.has(id)) values[layer.index.get(id)] = given[at];
    return values;
  };
  if (by) layer.colors = shaded(collection, { ...by, values: sorted(by.values) });
  Object.assign(layer, marksOf(collection, marks, sorted));
}

/** Read numbers of four bytes from base64. */
function numbers(text) {
  if (Uint8Array.fromBase64) return new Float32Array(Uint8Array.fromBase64(text).buffer);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < bytes.length; at += 1) bytes[at] = binary.charCodeAt(at);
  return new Float32Array(bytes.buffer);
}

/** Return a frame, [left, bottom, right, top], widened to the places of layers; null of no place. */
export function widened(frame, layers) {
  let wide = frame;
  for (const { count, x, y, isThere, grid } of layers.values()) {
    const edge = grid ? 0.5 : 0; // of a cell around its middle
    for (let at = 0; at < count; at += 1) {
      if (isThere && !isThere[at]) continue;
      wide ??= [x[at], y[at], x[at], y[at]];
      if (x[at] - edge < wide[0]) wide[0] = x[at] - edge;
      if (y[at] - edge < wide[1]) wide[1] = y[at] - edge;
      if (x[at] + edge > wide[2]) wide[2] = x[at] + edge;
      if (y[at] + edge > wide[3]) wide[3] = y[at] + edge;
    }
  }
  return wide;
}
