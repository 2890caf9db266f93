// Two maps of one frame: a moment of each run, drawn as the player draws it, without animation.

import { byId, made, show, sketch, write } from "./chart.js";
import { tame, whole } from "./format.js";
import { layersOf, widened } from "./map_layers.js";
import { drawAxes } from "./player_axes.js";
import { css, paletteOf } from "./player_colors.js";
import { drawCells, drawLayers, drawLinks } from "./player_dots.js";
import { projection } from "./player_view.js";

const COLORS = 4;
const KEYS_MAX = 12;

const shown = [null, null]; // the layers of each run
let frame = null; // of both, so that a place is at the same point; it only widens

/** Listen to the size of the page and to its colors. */
export function startMaps() {
  const observer = new ResizeObserver(drawMaps);
  for (const id of ["map-1", "map-2"]) observer.observe(byId(id));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawMaps);
}

/** Show the moment of a run, 0 or 1. */
export function placeMap(number, { map }) {
  shown[number] = layersOf(map);
  frame = widened(frame, shown[number]);
  const isEmpty = frame === null;
  show("maps", !isEmpty);
  show("maps-empty", isEmpty && shown.every((layers) => layers));
  drawMaps();
}

function drawMaps() {
  for (const [number, layers] of shown.entries()) if (layers && frame) drawMap(number + 1, layers);
}

function drawMap(number, layers) {
  const canvas = byId(`map-${number}`);
  const drawn = sketch(canvas);
  if (!drawn) return;
  const to = projection(canvas, frame);
  const names = [...layers.keys()].filter((name) => layers.get(name).width === undefined).sort();
  const areas = [...layers.values()].filter(({ width, colors }) => width !== undefined && colors);
  const listed = names.map((name, at) => ({ layer: layers.get(name), number: at, isRound: at % 2 === 0 }));
  listed.sort((one, other) => other.layer.count - one.layer.count);
  drawLayers(drawn.context, listed, to, 1, devicePixelRatio || 1, COLORS, areas.length > 0);
  drawLinks(drawn.context, names.map((name) => layers.get(name)).filter(({ links }) => links), to, 1);
  drawCells(drawn.context, areas, to);
  const isPlaced = names.every((name) => !layers.get(name).isLaidOut && layers.get(name).place?.length !== 0); // else x and y mean nothing
  if (isPlaced) drawAxes(drawn.context, to, frame, drawn);
  byId(`says-${number}`).replaceChildren(...names.flatMap((name, at) => keysOf(name, at, layers.get(name))).slice(0, KEYS_MAX));
}

function keysOf(name, at, { count, total = count, colors }) {
  if (colors?.form !== "category") return [made("bdi", `dot dot-${(at % COLORS) + 1}`, `${tame(name, 40)} ${whole(total)}`)];
  const palette = paletteOf(colors);
  const counts = new Map();
  for (const shade of colors.shades) counts.set(shade, (counts.get(shade) ?? 0) + 1);
  return [...colors.shadeOf].sort(([, one], [, other]) => one - other).map(([value, shade]) => {
    const key = made("bdi", "dot", `${tame(colors.names[value] ?? value, 40)} ${whole(counts.get(shade) ?? 0)}`);
    key.style.setProperty("--dot-1", css(palette[shade]));
    return key;
  });
}

/** Write the name of a run over its map. */
export const nameMap = (number, text) => write(`h-map-${number + 1}`, text);
