// The card beside the pointer: the id, the place and the fields of the entity under it.

import { byId, made, show } from "./chart.js";
import { tame } from "./format.js";
import { cellText } from "./tree.js";

const REST_MS = 120;
const AGAIN_MS = 400; // between two readings while the run is played
const FIELDS_SHOWN = 8;
const AWAY_PX = 14;

let look = async () => null;
let near = null; // {collection, id, x, y, colors}: what the pointer is at
let timer = null;

/** `read` returns the fields of an entity. */
export function startCard(read) {
  look = read;
}

/** Show the card of what the pointer is at, [left, top] in the map; null hides it. `colors` has the names of the values of a field. */
export function showCard(found, pointed) {
  const isOther = near?.id !== found?.id || near?.collection !== found?.collection;
  near = found;
  show("map-card", found !== null);
  if (found && isOther) fill(found, null);
  if (isOther) readIn(REST_MS);
  if (found) put(...pointed);
}

/** Read the fields of another moment, if the card is shown. */
export const refreshCard = () => { if (near && !timer) readIn(AGAIN_MS); };

function readIn(ms) {
  clearTimeout(timer);
  const found = near;
  timer = found && setTimeout(() => readFields(found), ms);
}

async function readFields(found) {
  timer = null;
  const fields = await look(found.collection, found.id).catch(() => null);
  if (fields && near?.id === found.id && near.collection === found.collection) fill(found, fields);
}

function fill({ collection, id, x, y, colors }, fields) {
  const card = byId("map-card");
  const rows = made("dl");
  const given = Object.entries(fields ?? { at: `${x.toFixed(1)}, ${y.toFixed(1)}` });
  for (const [name, value] of given.slice(0, FIELDS_SHOWN)) {
    const meaning = colors?.field === name ? colors.names?.[value] : undefined;
    const term = made("dt");
    const text = made("dd");
    term.append(made("bdi", "", tame(name, 40)));
    text.append(made("bdi", "", meaning === undefined ? cellText(value, 60) : `${cellText(value, 60)}: ${tame(meaning, 40)}`));
    rows.append(term, text);
  }
  const more = given.length > FIELDS_SHOWN ? [made("p", "quiet", `and ${given.length - FIELDS_SHOWN} more`)] : [];
  const head = made("p");
  head.append(made("b", "", tame(id, 60)), " ", made("bdi", "quiet", tame(collection, 40)));
  card.replaceChildren(head, rows, ...more);
}

/** Put the card beside a point, on the side that has room. */
function put(left, top) {
  const card = byId("map-card");
  const { clientWidth: wide, clientHeight: high } = byId("map");
  const isLeft = left > wide / 2;
  const isAbove = top > high / 2;
  card.style.left = isLeft ? "" : `${left + AWAY_PX}px`;
  card.style.right = isLeft ? `${wide - left + AWAY_PX}px` : "";
  card.style.top = isAbove ? "" : `${top + AWAY_PX}px`;
  card.style.bottom = isAbove ? `${high - top + AWAY_PX}px` : "";
}
