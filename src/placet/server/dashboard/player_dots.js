// Draws the dots of layers: few as shapes, many as pixels of one picture.

import { colorOf, css, paletteOf } from "./player_colors.js";

const SHAPES_MAX = 4_000; // beyond, shapes cost more than they show
const COVERED = 0.4; // of the frame, by the dots of a layer; else they hide how dense they are
const DOT_PX = 4;
const CELL_PART = 0.92;
const GOLDEN_RAD = 2.399963; // between neighbors of a spiral

let picture = null;

/** Draw layers, the largest first: [{layer, number, isRound}], by a projection and a part of their way. */
export function drawLayers(context, layers, to, part, density, colors) {
  const many = layers.filter(({ layer }) => layer.count > SHAPES_MAX);
  if (many.length) {
    const { width, height } = context.canvas;
    if (picture?.width !== width || picture.height !== height) picture = new ImageData(width, height);
    const pixels = new Uint32Array(picture.data.buffer);
    pixels.fill(0);
    for (const { layer, number } of many) drawPixels(pixels, layer, to, part, density, colors, number);
    context.putImageData(picture, 0, 0);
  }
  context.globalAlpha = 0.9;
  for (const one of layers) if (one.layer.count <= SHAPES_MAX) drawShapes(context, one, to, part, colors);
  context.globalAlpha = 1;
}

function inks(layer, number, colors) {
  return layer.colors ? paletteOf(layer.colors) : [colorOf(`--dot-${(number % colors) + 1}`)];
}

function drawPixels(pixels, layer, { scale, ox, oy, area }, part, density, colors, number) {
  const { count, x, y, fromX, fromY, isThere } = layer;
  const { width, height } = picture;
  const ink = Uint32Array.from(inks(layer, number, colors), ([red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0);
  const shades = layer.colors?.shades;
  const most = layer.grid ? scale * density * CELL_PART : Math.min(DOT_PX * density, Math.sqrt((COVERED * area) / count) * density);
  const size = Math.max(1, Math.round(most));
  const half = size / 2;
  for (let at = 0; at < count; at += 1) {
    if (isThere && !isThere[at]) continue;
    const left = Math.round((ox + (fromX[at] + (x[at] - fromX[at]) * part) * scale) * density - half);
    const top = Math.round((oy - (fromY[at] + (y[at] - fromY[at]) * part) * scale) * density - half);
    if (left < 0 || top < 0 || left + size > width || top + size > height) continue;
    const color = shades ? ink[shades[at]] : ink[0];
    for (let row = top * width + left, end = row + size * width; row < end; row += width) {
      for (let pixel = row; pixel < row + size; pixel += 1) pixels[pixel] = color;
    }
  }
}

function drawShapes(context, { layer, number, isRound }, { scale, ox, oy }, part, colors) {
  const { count, x, y, fromX, fromY, isThere, grid } = layer;
  const ink = inks(layer, number, colors).map(css);
  const shades = layer.colors?.shades;
  const size = grid ? Math.max(2, scale * CELL_PART) : DOT_PX;
  let last = -1;
  const above = isThere ? new Map() : null; // entities drawn so far, by place
  for (let at = 0; at < count; at += 1) {
    if (isThere && !isThere[at]) continue;
    const shade = shades ? shades[at] : 0;
    if (shade !== last) context.fillStyle = ink[shade];
    last = shade;
    const nth = above ? countAt(above, `${x[at]},${y[at]}`) : 0;
    const away = DOT_PX * Math.sqrt(nth);
    const px = ox + (fromX[at] + (x[at] - fromX[at]) * part) * scale + away * Math.cos(nth * GOLDEN_RAD);
    const py = oy - (fromY[at] + (y[at] - fromY[at]) * part) * scale + away * Math.sin(nth * GOLDEN_RAD);
    if (isRound && !grid) {
      context.beginPath();
      context.arc(px, py, 3, 0, 2 * Math.PI);
      context.fill();
    } else context.fillRect(px - size / 2, py - size / 2, size, size);
  }
}

/** Count one more at a place, and return how many were there. */
function countAt(counts, place) {
  const before = counts.get(place) ?? 0;
  counts.set(place, before + 1);
  return before;
}
