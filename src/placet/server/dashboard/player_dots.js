// Draws the dots of layers: few as shapes, many as pixels of one picture.

import { colorOf, css, paletteOf } from "./player_colors.js";
import { LARGEST, trace } from "./player_marks.js";

const SHAPES_MAX = 4_000; // beyond, shapes cost more than they show
const COVERED = 0.4; // of the frame, by the dots of a layer; else they hide how dense they are
const DOT_PX = 4;
const CELL_PART = 0.92;
const OVER_PART = 0.6; // of a cell, where its own color is to be seen too
const ROUND = 0.75; // the radius of a round dot, in sizes of a square one
const LABELS_MAX = 200;
const GOLDEN_RAD = 2.399963; // between neighbors of a spiral

let picture = null;

/** Draw layers, the largest first: [{layer, number, isRound}], by a projection and a part of their way. */
export function drawLayers(context, layers, to, part, density, colors, isOverCells) {
  const ofCell = isOverCells ? OVER_PART : CELL_PART;
  const many = layers.filter(({ layer }) => layer.count > SHAPES_MAX);
  if (many.length) {
    const { width, height } = context.canvas;
    if (picture?.width !== width || picture.height !== height) picture = new ImageData(width, height);
    const pixels = new Uint32Array(picture.data.buffer);
    pixels.fill(0);
    for (const { layer, number } of many) drawPixels(pixels, layer, to, part, density, colors, number, ofCell);
    context.putImageData(picture, 0, 0);
  }
  context.globalAlpha = 0.9;
  for (const one of layers) if (one.layer.count <= SHAPES_MAX) drawShapes(context, one, to, part, colors, ofCell);
  context.globalAlpha = 1;
  drawLabels(context, layers.filter(({ layer }) => layer.labels).map(({ layer }) => layer), to, part);
}

function inks(layer, number, colors) {
  return layer.colors ? paletteOf(layer.colors) : [colorOf(`--dot-${(number % colors) + 1}`)];
}

function drawPixels(pixels, layer, { scale, ox, oy, area }, part, density, colors, number, ofCell) {
  const { count, x, y, fromX, fromY, isThere } = layer;
  const { width, height } = picture;
  const ink = Uint32Array.from(inks(layer, number, colors), ([red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0);
  const shades = layer.colors?.shades;
  const most = layer.grid ? scale * density * ofCell : Math.min(DOT_PX * density, Math.sqrt((COVERED * area) / count) * density);
  const { parts } = layer.sizes ?? {};
  const plain = Math.max(1, Math.round(most));
  for (let at = 0; at < count; at += 1) {
    if (isThere && !isThere[at]) continue;
    const size = parts ? Math.max(1, Math.round(plain * (layer.grid ? 1 : LARGEST) * parts[at])) : plain;
    const half = size / 2;
    const left = Math.round((ox + (fromX[at] + (x[at] - fromX[at]) * part) * scale) * density - half);
    const top = Math.round((oy - (fromY[at] + (y[at] - fromY[at]) * part) * scale) * density - half);
    const first = Math.max(0, left);
    const end = Math.min(width, left + size);
    const bottom = Math.min(height, top + size);
    if (first >= end) continue;
    const color = shades ? ink[shades[at]] : ink[0];
    for (let row = Math.max(0, top); row < bottom; row += 1) {
      for (let pixel = row * width + first; pixel < row * width + end; pixel += 1) pixels[pixel] = color;
    }
  }
}

function drawShapes(context, { layer, number, isRound }, { scale, ox, oy }, part, colors, ofCell) {
  const { count, x, y, fromX, fromY, isThere, grid, sizes, markers } = layer;
  const ink = inks(layer, number, colors).map(css);
  const shades = layer.colors?.shades;
  const plain = grid ? Math.max(2, scale * ofCell) : DOT_PX;
  const largest = grid ? plain : DOT_PX * LARGEST;
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
    const size = sizes ? Math.max(2, largest * sizes.parts[at]) : plain;
    if (markers || (isRound && !grid)) {
      trace(context, markers ? markers.shapes[at] : 0, px, py, grid ? size / 2 : size * ROUND);
      context.fill();
    } else context.fillRect(px - size / 2, py - size / 2, size, size);
  }
}

/** Draw the links of layers as lines under their dots. */
export function drawLinks(context, layers, { scale, ox, oy }, part) {
  Object.assign(context, { globalCompositeOperation: "destination-over", strokeStyle: css(colorOf("--quiet")), lineWidth: 1, globalAlpha: 0.45 });
  context.beginPath();
  for (const { links, x, y, fromX, fromY, isThere, count } of layers) {
    const at = (one) => [ox + (fromX[one] + (x[one] - fromX[one]) * part) * scale, oy - (fromY[one] + (y[one] - fromY[one]) * part) * scale];
    const isDrawn = (one) => one >= 0 && one < count && (!isThere || isThere[one]);
    for (let pair = 0; pair < links.length; pair += 2) {
      const [one, other] = [links[pair], links[pair + 1]];
      if (!isDrawn(one) || !isDrawn(other)) continue;
      context.moveTo(...at(one));
      context.lineTo(...at(other));
    }
  }
  context.stroke();
  Object.assign(context, { globalCompositeOperation: "source-over", globalAlpha: 1 });
}

/** Draw the cells of grids under what is drawn: each layer is a small picture, a pixel a cell. */
export function drawCells(context, layers, { scale, ox, oy }) {
  Object.assign(context, { globalCompositeOperation: "destination-over", imageSmoothingEnabled: false });
  for (const layer of layers) {
    const { width, height } = pictureOf(layer);
    context.drawImage(layer.picture, ox - scale / 2, oy - (height - 0.5) * scale, width * scale, height * scale);
  }
  context.globalCompositeOperation = "source-over";
}

/** Return the picture of a layer of cells, made once for its values and the colors of the page. */
function pictureOf(layer) {
  const { count, width, colors } = layer;
  const palette = paletteOf(colors);
  const inks = palette.join(" ");
  if (layer.inks === inks) return layer.picture;
  const height = Math.ceil(count / width);
  const image = new ImageData(width, height);
  for (let at = 0; at < count; at += 1) {
    const from = 4 * ((height - 1 - Math.floor(at / width)) * width + (at % width)); // rows go up
    image.data.set(palette[colors.shades[at]], from);
    image.data[from + 3] = 255;
  }
  const picture = Object.assign(document.createElement("canvas"), { width, height });
  picture.getContext("2d").putImageData(image, 0, 0);
  Object.assign(layer, { picture, inks });
  return picture;
}

/** Write the labels of entities and rows, as long as they are few. */
function drawLabels(context, layers, { scale, ox, oy }, part) {
  if (layers.reduce((sum, { count }) => sum + count, 0) > LABELS_MAX) return;
  context.fillStyle = css(colorOf("--ink"));
  context.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  context.textBaseline = "middle";
  for (const { labels, count, x, y, fromX, fromY, isThere, sizes, grid } of layers) {
    for (let at = 0; at < count; at += 1) {
      if (!labels[at] || (isThere && !isThere[at])) continue;
      const away = grid ? 0 : (DOT_PX * ROUND * (sizes ? LARGEST * sizes.parts[at] : 1)) + 3;
      context.textAlign = grid ? "center" : "left";
      context.fillText(labels[at], ox + (fromX[at] + (x[at] - fromX[at]) * part) * scale + away, oy - (fromY[at] + (y[at] - fromY[at]) * part) * scale);
    }
  }
}

/** Count one more at a place, and return how many were there. */
function countAt(counts, place) {
  const before = counts.get(place) ?? 0;
  counts.set(place, before + 1);
  return before;
}
