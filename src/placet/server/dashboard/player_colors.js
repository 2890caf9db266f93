// Colors of dots by a field of a table: categories, a scale of numbers, or directions; and the legend.

import { byId, made, show } from "./chart.js";
import { tame, whole } from "./format.js";

const CATEGORIES = 6;
const SHADES = 256;
const SCALE = { light: ["#c3d6b4", "#6fae83", "#1f6f54", "#1d4a6e", "#2a1745"], dark: ["#3a4a58", "#3f7f7c", "#6fce9f", "#e6c35c", "#fff3bf"] };
const dark = matchMedia("(prefers-color-scheme: dark)");

const scales = new Map(); // "table/field" → {low, high, seen}; it only widens, so that a color keeps its meaning

export const clearColors = () => scales.clear();

/** Read a color of the page's style as [red, green, blue]. */
export function colorOf(name) {
  const text = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return channels(text);
}

const channels = (text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));

/** Sort the values of a layer's field into shades, one a row, by a scale that has room for them. */
export function shaded(collection, { field, form, values }) {
  const key = `${collection}/${field}`;
  const scale = scales.get(key) ?? { low: Infinity, high: -Infinity, seen: form === "category" ? new Set() : null };
  scales.set(key, scale);
  for (const value of values) {
    if (value < scale.low) scale.low = value;
    if (value > scale.high) scale.high = value;
    if (scale.seen) scale.seen.add(value);
    if (scale.seen?.size > CATEGORIES) scale.seen = null;
  }
  if (form === "direction") return { form, field, shades: values.map((angle) => Math.floor((angle / (2 * Math.PI) + 1) * SHADES) % SHADES) };
  if (scale.seen) {
    const known = [...scale.seen].sort((one, other) => one - other);
    const isPlain = known.every((value) => value >= 0 && value < CATEGORIES);
    const shadeOf = new Map(known.map((value, at) => [value, isPlain ? value : at]));
    return { form: "category", field, shades: Uint8Array.from(values, (value) => shadeOf.get(value)), shadeOf };
  }
  const wide = scale.high - scale.low || 1;
  return { form: "number", field, shades: Uint8Array.from(values, (value) => ((value - scale.low) / wide) * (SHADES - 1)), low: scale.low, high: scale.high };
}

/** Make the colors of the shades, [red, green, blue] each. */
export function paletteOf(colors) {
  if (colors.form === "category") return Array.from({ length: CATEGORIES }, (_, at) => colorOf(`--kind-${at + 1}`));
  if (colors.form === "direction") return Array.from({ length: SHADES }, (_, at) => ofHue(at / SHADES));
  const stops = SCALE[dark.matches ? "dark" : "light"].map(channels);
  return Array.from({ length: SHADES }, (_, at) => {
    const place = (at / (SHADES - 1)) * (stops.length - 1);
    const stop = Math.min(stops.length - 2, Math.floor(place));
    return stops[stop].map((from, channel) => Math.round(from + (stops[stop + 1][channel] - from) * (place - stop)));
  });
}

function ofHue(turn) {
  const [lightness, chroma] = dark.matches ? [0.68, 0.26] : [0.42, 0.3];
  return [0, 8, 4].map((offset) => {
    const at = (offset + turn * 12) % 12;
    return Math.round(255 * (lightness - chroma * Math.max(-1, Math.min(at - 3, 9 - at, 1))));
  });
}

const css = ([red, green, blue]) => `rgb(${red} ${green} ${blue})`;
export { css };

/** Show the meaning of the colors; null shows none. */
export function showLegend(colors) {
  const legend = byId("map-legend");
  show("map-legend", colors !== null);
  if (colors === null) return;
  const palette = paletteOf(colors);
  legend.replaceChildren(made("bdi", "quiet", tame(colors.field, 40)), ...keysOf(colors, palette));
}

function keysOf(colors, palette) {
  if (colors.form === "category") {
    const counts = new Map();
    for (const shade of colors.shades) counts.set(shade, (counts.get(shade) ?? 0) + 1);
    return [...colors.shadeOf].map(([value, shade]) => {
      const key = made("span", "dot", `${value} (${whole(counts.get(shade) ?? 0)})`);
      key.style.setProperty("--dot-1", css(palette[shade]));
      return key;
    });
  }
  const bar = made("span", "ramp");
  bar.style.background = `linear-gradient(to right, ${[0, 64, 128, 192, 255].map((at) => css(palette[at])).join(", ")})`;
  const ends = colors.form === "direction" ? ["→ ↑ ← ↓", ""] : [short(colors.low), short(colors.high)];
  return colors.form === "direction" ? [bar, made("span", "", ends[0])] : [made("span", "", ends[0]), bar, made("span", "", ends[1])];
}

const short = (value) => (Number.isInteger(value) ? whole(value) : String(Number(value.toPrecision(4))));

/** Offer the fields that color; `wanted` is the one that does, empty for none. */
export function showColorChoices(names, wanted) {
  const select = byId("map-color");
  select.parentElement.hidden = names.length === 0;
  const text = JSON.stringify([names, wanted]);
  if (select.dataset.text === text) return;
  select.dataset.text = text;
  const isOfOne = new Set(names.map((name) => name.slice(0, name.lastIndexOf("/")))).size === 1;
  select.replaceChildren(...["", ...names].map((name) => {
    const label = isOfOne ? name.slice(name.lastIndexOf("/") + 1) : name;
    const option = made("option", "", name ? tame(label, 60) : "table");
    option.value = name;
    option.selected = name === wanted;
    return option;
  }));
}
