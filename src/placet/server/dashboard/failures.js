// Failures: exceptions with their place and their traceback, each a line that opens.

import { Refusal } from "./api.js";
import { byId, made, show, write } from "./chart.js";
import { safe, tame, whole } from "./format.js";

const SHOWN_MAX = 64;

let since = null; // when the process opened the world, as its answer says
let after = 0;
let known = new Map(); // number -> fault

export function clearFaults() {
  [since, after, known] = [null, 0, new Map()];
  byId("failures-body").replaceChildren();
  show("failures", false);
}

/** Read the faults that were raised since the last answer; false for a token that may not read them.
 * `read` asks for those after a time, `isAsked` says whether the answer is still wanted, `goTo` makes the way to a seq. */
export async function readFaults(read, isAsked, goTo) {
  let found;
  try {
    found = await read(after);
  } catch (error) {
    if (error instanceof Refusal && (error.status === 403 || error.status === 404)) return false;
    throw error;
  }
  if (!isAsked()) return true;
  if (since !== null && found.since_s !== since) [after, known] = [0, new Map()];
  const isNew = since !== found.since_s || found.faults.length > 0;
  since = found.since_s;
  for (const fault of found.faults) {
    known.set(fault.number, fault);
    after = Math.max(after, fault.last_s);
  }
  if (isNew) showFaults(found, goTo);
  return true;
}

function showFaults({ left_out: leftOut }, goTo) {
  const listed = [...known.values()].sort((one, other) => other.last_s - one.last_s).slice(0, SHOWN_MAX);
  show("failures", listed.length > 0);
  const open = new Set([...byId("failures-body").querySelectorAll("details[open]")].map(({ dataset }) => dataset.number));
  byId("failures-body").replaceChildren(...listed.map((fault) => {
    const details = failure({ ...fault, about: [fault.where, fault.times > 1 ? `${whole(fault.times)} times` : "", clock(fault.last_s)] });
    details.dataset.number = String(fault.number);
    details.open = open.has(details.dataset.number);
    if (fault.seq !== null) details.append(goTo(fault.seq));
    return details;
  }));
  const forgotten = leftOut ? ` ${whole(leftOut)} older ones are forgotten.` : "";
  write("failures-say", `Of this process alone, since it opened the world at ${clock(since)}; the log holds no traceback.${forgotten}`);
}

/** Make the line of an exception, with its traceback when it is opened. */
export function failure({ error, place, traceback, about = [] }) {
  const details = made("details", "failure");
  const summary = made("summary");
  const head = [...about, shortPlace(place)].filter(Boolean).map((part) => tame(part, 160)).join(" · ");
  summary.append(made("bdi", "error", tame(error, 400)), " ", made("bdi", "small", head));
  details.append(summary);
  if (place) details.append(made("p", "small place", safe(place, false)));
  if (traceback) details.append(made("pre", "traceback", safe(traceback)));
  return details;
}

/** Write a place without its folders. */
const shortPlace = (place) => place.replace(/^.*[/\\](?=[^/\\]*:\d+)/, "");

const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString();
