// Colors of dots by a field of a table: categories, a scale of numbers, or directions; and the legend.

import { byId, made, show } from "./chart.js";
import { short, tame, whole } from "./format.js";

const CATEGORIES = 8;
const NONE = CATEGORIES; // the shade of what has no value, or a value beyond the categories
const SHADES = 256;
const ALONE = 0.6; // the part of a scale for values that are all equal
const SCALE = { light: ["#c3d6b4", "#6fae83", "#1f6f54", "#1d4a6e", "#2a1745"], dark: ["#3a4a58", "#3f7f7c", "#6fce9f", "#e6c35c", "#fff3bf"] };
const OF_CELLS = { light: ["#f4f1ea", "#dcc9a3", "#b78f58", "#7d5a34", "#46301f"], dark: ["#1f1c1a", "#46392d", "#7a5c3a", "#b58a50", "#e6c68c"] };
const dark = matchMedia("(prefers-color-scheme: dark)");

const scales = new Map(); // "table/field" → {low, high, seen}; it only widens, so that a color keeps its meaning

let kindOf = new Map(); // the style's color of each name in the legend
let kindsOfFields = new Map(); // "table/field" → the style's color of each value that the map shows

export const clearColors = () => scales.clear();

/** Return the style's color of a name in the legend, null if the legend does not have it. */
export const kindOfName = (name) => kindOf.get(name) ?? null;

/** Return the style's color of a value of a field on the map; null where the map does not color by that field, or has not seen it. */
export const kindOfValue = (collection, field, value) => kindsOfFields.get(`${collection}/${field}`)?.get(typeof value === "boolean" ? Number(value) : value) ?? null;

/** Read a color of the page's style as [red, green, blue]. */
export function colorOf(name) {
  const text = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return channels(text);
}

const channels = (text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));

/** Sort the values of a layer's field into shades, one a row, by a scale that has room for them. */
export function shaded(collection, { field, form, values, names = [] }) {
  const key = `${collection}/${field}`;
  const scale = scales.get(key) ?? { low: Infinity, high: -Infinity, seen: form === "category" ? new Set() : null };
  scales.set(key, scale);
  const isText = values.some((value) => typeof value === "string");
  const fresh = new Set(isText ? names : []); // the names of texts are the texts, in their order
  for (const value of values) {
    if (value === null) continue;
    if (value < scale.low) scale.low = value;
    if (value > scale.high) scale.high = value;
    if (scale.seen && !scale.seen.has(value)) fresh.add(value);
    if (scale.seen?.size + fresh.size > CATEGORIES && typeof value === "number") scale.seen = null;
  }
  if (scale.seen) for (const value of isText ? [...fresh].sort(byName(names)) : fresh) scale.seen.add(value);
  if (form === "direction") return { form, field, shades: values.map((angle) => Math.floor((angle / (2 * Math.PI) + 1) * SHADES) % SHADES) };
  if (scale.seen) {
    const known = typeof values.find((value) => value !== null) === "number" ? [...scale.seen].sort((one, other) => one - other) : [...scale.seen];
    const isPlain = known.every((value) => Number.isInteger(value) && value >= 0 && value < CATEGORIES);
    const shadeOf = new Map(known.slice(0, CATEGORIES).map((value, at) => [value, isPlain ? value : at]));
    return { form: "category", collection, field, names, shades: Uint8Array.from(values, (value) => shadeOf.get(value) ?? NONE), shadeOf };
  }
  const wide = scale.high - scale.low;
  const partOf = (value) => (value === null ? 1 : wide > 0 ? (value - scale.low) / wide : ALONE);
  return { form: "number", field, shades: Uint8Array.from(values, (value) => partOf(value) * (SHADES - 1)), low: scale.low, high: scale.high };
}

/** Compare texts by their place among names, then by themselves: a color does not depend on which came first. */
export const byName = (names) => (one, other) => placeIn(names, one) - placeIn(names, other) || (one > other) - (one < other);

function placeIn(names, value) {
  const at = names.indexOf(value);
  return at < 0 ? names.length : at;
}

/** Make the colors of the shades, [red, green, blue] each. */
export function paletteOf(colors) {
  if (colors.form === "category") return [...Array.from({ length: CATEGORIES }, (_, at) => colorOf(`--kind-${at + 1}`)), colorOf("--quiet")];
  if (colors.form === "direction") return Array.from({ length: SHADES }, (_, at) => ofHue(at / SHADES));
  const stops = (colors.isOfCells ? OF_CELLS : SCALE)[dark.matches ? "dark" : "light"].map(channels);
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

/** Show the meaning of the colors of layers; returns whether a name or a value has another color than before. */
export function showLegend(colored) {
  const before = meanings();
  kindOf = new Map(colored.flatMap(({ colors }) => kindsOf(colors)));
  kindsOfFields = new Map(colored.filter(({ colors }) => colors.form === "category" && !colors.isOfCohorts).map(({ colors }) => [
    `${colors.collection}/${colors.field}`, new Map([...colors.shadeOf].map(([value, shade]) => [typeof value === "boolean" ? Number(value) : value, `--kind-${shade + 1}`]))]));
  show("map-legend", colored.length > 0);
  byId("map-legend").replaceChildren(...colored.flatMap(({ colors, isThere }, at) => {
    const isNext = at > 0 && colored[at - 1].colors.field === colors.field;
    const keys = keysOf(colors, paletteOf(colors), isThere);
    return isNext ? keys : [made("bdi", "quiet", tame(colors.field, 40)), ...keys];
  }));
  return before !== meanings();
}

const meanings = () => JSON.stringify([[...kindOf], [...kindsOfFields].map(([field, kinds]) => [field, [...kinds]])]);

function kindsOf({ form, names, shadeOf }) {
  if (form !== "category") return [];
  const named = [...shadeOf].map(([value, shade]) => [typeof value === "number" ? names[value] : value, `--kind-${shade + 1}`]);
  return named.filter(([name]) => typeof name === "string");
}

function keysOf(colors, palette, isThere) {
  if (colors.form === "category") {
    const counts = new Map();
    for (const [at, shade] of colors.shades.entries()) if (!isThere || isThere[at]) counts.set(shade, (counts.get(shade) ?? 0) + 1);
    const isText = [...colors.shadeOf.keys()].some((value) => typeof value === "string");
    const named = isText ? [] : colors.names.map((name, value) => [value, name]);
    const others = [...colors.shadeOf.keys()].filter((value) => isText || colors.names[value] === undefined).map((value) => [value, String(value)]);
    const keys = [...named, ...others].map(([value, name]) => [colors.shadeOf.get(value) ?? (value < CATEGORIES ? value : NONE), name]);
    if (counts.get(NONE)) keys.push([NONE, "other"]);
    const isShown = ([shade]) => colors.field !== "cohort" || counts.get(shade) > 0;
    return keys.filter(isShown).map(([shade, name]) => {
      const key = made("span", "dot", `${tame(name, 40)} (${whole(counts.get(shade) ?? 0)})`);
      key.style.setProperty("--dot-1", css(palette[shade]));
      return key;
    });
  }
  const bar = made("span", "ramp");
  bar.style.background = `linear-gradient(to right, ${[0, 64, 128, 192, 255].map((at) => css(palette[at])).join(", ")})`;
  const ends = colors.form === "direction" ? ["→ ↑ ← ↓", ""] : [short(colors.low), short(colors.high)];
  return colors.form === "direction" ? [bar, made("span", "", ends[0])] : [made("span", "", ends[0]), bar, made("span", "", ends[1])];
}

/** Offer the fields that color in a menu; `wanted` is the one that does, empty for none, which is `plain`. */
export function showColorChoices(id, names, wanted, plain) {
  const select = byId(id);
  select.parentElement.hidden = names.length === 0;
  const text = JSON.stringify([names, wanted]);
  if (select.dataset.text === text) return;
  select.dataset.text = text;
  const isOfOne = new Set(names.map((name) => name.slice(0, name.lastIndexOf("/")))).size === 1;
  select.replaceChildren(...["", ...names].map((name) => {
    const label = isOfOne ? name.slice(name.lastIndexOf("/") + 1) : name;
    const option = made("option", "", name ? tame(label, 60) : plain);
    option.value = name;
    option.selected = name === wanted;
    return option;
  }));
}
