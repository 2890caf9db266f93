// The exception that ended a run, by the note beside its log.

import { byId, made, show } from "./chart.js";
import { failure } from "./failures.js";

let shownRun = null;

/** Show an exception with its place and its traceback; null where none is noted. */
export function showRunFailure(noted) {
  if (JSON.stringify(noted) === shownRun) return;
  shownRun = JSON.stringify(noted);
  show("run-failure", noted !== null);
  if (noted === null) return void byId("run-failure").replaceChildren();
  const line = failure({ error: noted.message, place: noted.place, traceback: noted.traceback });
  byId("run-failure").replaceChildren(made("h2", "", "This run failed"), line);
}
