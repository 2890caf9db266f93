// The page of the requests for approval alone, as a person opens it on a phone.

import { ask, hasToken, Refusal, setToken, takeFromAddress } from "./api.js";
import { clearApprovals, readApprovals } from "./approvals.js";
import { byId, made, show, write } from "./chart.js";
import { clearDoubts, readDoubts } from "./doubts.js";
import { tame, whole } from "./format.js";

const ROUND_MS = 2_000;
const RETRY_MS = 4_000;

let name = "";
let submitter = "";
let wake = () => {};

const worldPath = (rest = "") => `api/v1/worlds/${encodeURIComponent(name)}${rest}`;

async function run() {
  for (;;) {
    await sleep(document.hidden || !hasToken() ? null : await once());
  }
}

/** Look once, and give when to look again; null is when somebody says so. */
async function once() {
  try {
    if (!submitter) await findWorlds();
    const found = await readApprovals(worldPath);
    const doubts = found === null ? 0 : await readDoubts(worldPath);
    if (!hasToken()) return null; // signed out meanwhile
    show("world", found !== null);
    show("approvals-empty", found?.shown === 0 && doubts === 0);
    show("approvals-more", found?.hasMore === true);
    if (found) stand("ready", "ready");
    else stand("waiting", "no approvals", `The world ${tame(name)} keeps no requests for approval, or this token may not read it.`);
    document.title = `${found?.waiting + doubts ? `(${whole(found.waiting + doubts)}) ` : ""}Approvals · placet`;
    return ROUND_MS;
  } catch (error) {
    if (error instanceof Refusal && error.status === 401) {
      signOut("The server does not know this token.");
      return null;
    }
    stand("failed", "away", `${tame(error.message, 300)}. This page comes back by itself.`);
    return RETRY_MS;
  }
}

async function findWorlds() {
  const found = await ask("api/v1/worlds");
  const names = found.worlds.map(({ world }) => world);
  if (!names.includes(name)) name = names[0] ?? "";
  submitter = found.submitter;
  byId("worlds").replaceChildren(...names.map((one) => {
    const option = made("option", "", tame(one));
    option.value = one;
    option.selected = one === name;
    return option;
  }));
  byId("worlds").disabled = names.length < 2;
  write("who", submitter === "operator" ? "as the operator" : `as ${tame(submitter)}`);
  for (const id of ["which", "leave"]) show(id, true);
  show("sign-in", false);
}

function stand(is, text, notice = "") {
  byId("standing").dataset.is = is;
  write("standing", text);
  write("notice", notice);
  show("notice", notice !== "");
}

function signOut(why = "") {
  setToken("");
  submitter = "";
  clearApprovals();
  clearDoubts();
  document.title = "Approvals · placet";
  stand("waiting", "no token");
  write("who", "");
  for (const id of ["world", "which", "leave"]) show(id, false);
  show("sign-in", true);
  write("sign-in-error", why);
  byId("token").focus();
}

function sleep(ms) {
  return new Promise((resolve) => {
    const timer = ms === null ? 0 : setTimeout(resolve, ms);
    wake = () => { clearTimeout(timer); resolve(); };
  });
}

byId("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  setToken(byId("token").value.trim());
  byId("token").value = "";
  write("sign-in-error", "");
  wake();
});
byId("leave").addEventListener("click", () => signOut());
byId("worlds").addEventListener("change", ({ target }) => { name = target.value; clearApprovals(); clearDoubts(); wake(); });
document.addEventListener("visibilitychange", () => { if (!document.hidden) wake(); });
addEventListener("hashchange", () => { if (takeFromAddress() !== null) location.reload(); });
if (!hasToken()) signOut();
run();
