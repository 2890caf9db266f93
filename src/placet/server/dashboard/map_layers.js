// The layers of a map from the arrays of a moment: entities by id, and rows of tables by number.

import { shaded } from "./player_colors.js";
import { marksOf } from "./player_marks.js";

/** Return the layers of a moment's map by collection: {count, x, y, fromX, fromY, ...}. */
export function layersOf(map) {
  const layers = new Map(map.map((one) => [one.collection, madeOf(one)]));
  for (const one of map) if (one.stem === undefined) portray(layers.get(one.collection), one);
  return layers;
}

function madeOf(one) {
  if (one.width !== undefined) return cellLayer(one);
  return one.stem === undefined ? entityLayer(one) : rowLayer(one);
}

/** Return the cells of a grid, which are drawn as areas: {width, colors}. */
export function cellLayer({ collection, stem, count, width, color: by }) {
  const colors = by ? { ...shaded(collection, { ...by, values: numbers(by.values) }), isOfCells: true } : null;
  return { stem, count, width, colors };
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
export function rowLayer({ collection, stem, count, total, place, grid, laid_out: isLaidOut, x, y, color: by, links, ...marks }, before) {
  const layer = { stem, count, total, place, grid, isLaidOut, x: numbers(x), y: numbers(y), links: links && new Int32Array(bytesOf(links).buffer) };
  layer.fromX = before?.count === count ? before.fromX : layer.x.slice();
  layer.fromY = before?.count === count ? before.fromY : layer.y.slice();
  layer.colors = by ? shaded(collection, { ...by, values: numbers(by.values) }) : null;
  return Object.assign(layer, marksOf(collection, marks, numbers));
}

/** Give entities the colors and marks of their fields; one without a value has none of them. */
export function portray(layer, { collection, ids, color: by, links, ...marks }) {
  if (!layer) return;
  const sorted = (given) => {
    const values = new Array(layer.count).fill(null);
    for (const [at, id] of ids.entries()) if (layer.index.has(id)) values[layer.index.get(id)] = given[at];
    return values;
  };
  if (by) layer.colors = shaded(collection, { ...by, values: sorted(by.values) });
  Object.assign(layer, marksOf(collection, marks, sorted, by?.field === marks.marker?.field ? by?.names : []));
  layer.links = links?.map((at) => layer.index.get(ids[at]) ?? -1);
}

/** Read numbers of four bytes from base64. */
const numbers = (text) => new Float32Array(bytesOf(text).buffer);

function bytesOf(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  return Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
}

/** Return a frame, [left, bottom, right, top], widened to the places of layers; null of no place. */
export function widened(frame, layers) {
  let wide = frame;
  const widen = (left, bottom, right, top) => {
    wide ??= [left, bottom, right, top];
    if (left < wide[0]) wide[0] = left;
    if (bottom < wide[1]) wide[1] = bottom;
    if (right > wide[2]) wide[2] = right;
    if (top > wide[3]) wide[3] = top;
  };
  for (const { count, x, y, isThere, grid, width } of layers.values()) {
    if (width !== undefined) {
      widen(-0.5, -0.5, width - 0.5, Math.ceil(count / width) - 0.5);
      continue;
    }
    const edge = grid ? 0.5 : 0; // of a cell around its middle
    for (let at = 0; at < count; at += 1) {
      if ((isThere && !isThere[at]) || Number.isNaN(x[at])) continue;
      widen(x[at] - edge, y[at] - edge, x[at] + edge, y[at] + edge);
    }
  }
  return wide;
}
