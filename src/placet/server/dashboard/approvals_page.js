// The page of the requests for approval alone, as a person opens it on a phone.

import { ask, hasToken } from "./api.js";
import { clearApprovals, readApprovals } from "./approvals.js";
import { byId, show } from "./chart.js";
import { tame, whole } from "./format.js";
import { refusesToken, showOpened, stand, startSignIn } from "./sign_in.js";
import { showReader, showWorlds, startRounds, wake } from "./worlds.js";

const ROUND_MS = 2_000;
const RETRY_MS = 4_000;

let name = "";
let submitter = "";

const worldPath = (rest = "") => `api/v1/worlds/${encodeURIComponent(name)}${rest}`;

/** Look once, and give when to look again; null is when somebody says so. */
async function once() {
  try {
    if (!submitter) await findWorlds();
    const found = await readApprovals(worldPath);
    if (!hasToken()) return null; // signed out meanwhile
    show("content", found !== null);
    show("approvals-empty", found?.shown === 0);
    show("approvals-more", found?.hasMore === true);
    if (found) stand("ready", "ready", "");
    else stand("waiting", "no approvals", `The world ${tame(name)} keeps no requests for approval, or this token may not read it.`);
    document.title = `${found?.waiting ? `(${whole(found.waiting)}) ` : ""}Approvals · placet`;
    return ROUND_MS;
  } catch (error) {
    if (refusesToken(error)) return null;
    stand("failed", "away", `${tame(error.message, 300)}. This page comes back by itself.`);
    return RETRY_MS;
  }
}

async function findWorlds() {
  const found = await ask("api/v1/worlds");
  const names = found.worlds.map(({ world }) => world);
  if (!names.includes(name)) name = names[0] ?? "";
  submitter = found.submitter;
  showWorlds(names, name);
  showReader(submitter);
  showOpened();
}

function close() {
  submitter = "";
  clearApprovals();
  document.title = "Approvals · placet";
}

byId("worlds").addEventListener("change", ({ target }) => { name = target.value; clearApprovals(); wake(); });
startSignIn({ open: wake, close });
startRounds(once);
