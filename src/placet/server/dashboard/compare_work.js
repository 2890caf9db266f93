// Long questions of the comparison: a bar that says how far each is, and a button that cancels them.

import { ask, askText, Refusal, send } from "./api.js";
import { byId, show, write } from "./chart.js";
import { tame, whole } from "./format.js";

const PATIENCE_MS = 86_400_000; // a long log is read whole; the bar moves, and the button cancels
const LOOK_MS = 400;

let key = ""; // of the present question
let isCanceled = false;

/** The error of what was not read, because the reader canceled it. */
export class Canceled extends Error {}

/** Listen to the button; a page that is left cancels its question too. */
export function startWork() {
  byId("work-cancel").addEventListener("click", cancel);
  byId("work-again").addEventListener("click", () => location.reload());
  addEventListener("pagehide", () => { if (key) send(`api/v1/runs-work/${key}`, { method: "DELETE", keepalive: true }).catch(() => {}); });
}

/** Ask a long question, and show how far it is; `what` says what is read. */
export async function askLong(path, what) {
  requireWanted();
  key = Array.from(crypto.getRandomValues(new Uint8Array(12)), (one) => one.toString(16).padStart(2, "0")).join("");
  const mine = key;
  const asked = `${path}${path.includes("?") ? "&" : "?"}work=${mine}`;
  const timer = setInterval(() => look(mine, what), LOOK_MS);
  showWork(what, null);
  try {
    return await ask(asked, { patienceMs: PATIENCE_MS });
  } catch (error) {
    if (isCanceled && error instanceof Refusal && error.status === 409) throw new Canceled();
    throw error;
  } finally {
    clearInterval(timer);
    key = "";
  }
}

/** Throw if the reader has canceled the comparison. */
export function requireWanted() {
  if (isCanceled) throw new Canceled();
}

/** Show what is done now, and which part of it, 0 to 1; null is not known yet. */
export function showWork(what, part, says = "") {
  show("work", true);
  const bar = byId("work-bar");
  if (part === null) bar.removeAttribute("value");
  else bar.value = part;
  write("work-says", `${what}${says ? `: ${says}` : " …"}`);
}

/** Hide the bar: all is read, or it was canceled, which is said. */
export function endWork() {
  show("work-bar", false);
  show("work-cancel", false);
  show("work", isCanceled);
  show("work-again", isCanceled);
  if (isCanceled) write("work-says", "The comparison was canceled; what was read before is shown.");
}

async function look(mine, what) {
  const found = await ask(`api/v1/runs-work/${mine}`).catch(() => null);
  if (mine !== key || isCanceled || !found?.records) return;
  const pass = found.passes > 1 ? `, reading ${whole(found.passes)}` : "";
  showWork(what, found.record / found.records, `${tame(found.run, 60)}, record ${whole(found.record)} of ${whole(found.records)}${pass}`);
}

async function cancel() {
  isCanceled = true;
  byId("work-cancel").disabled = true;
  write("work-says", "canceling …");
  if (key) await askText(`api/v1/runs-work/${key}`, { method: "DELETE" }).catch(() => {});
}
