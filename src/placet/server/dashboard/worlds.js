// The worlds of a server: the one that is chosen in the header, and the rounds in which a page looks at it.

import { hasToken } from "./api.js";
import { byId, made, show, write } from "./chart.js";
import { tame } from "./format.js";

let wakeUp = () => {};

/** Show the choice of a world; `label` makes the text of a name. */
export function showWorlds(names, chosen, label = (name) => tame(name)) {
  byId("worlds").replaceChildren(...names.map((name) => {
    const option = made("option", "", label(name));
    option.value = name;
    option.selected = name === chosen;
    return option;
  }));
  byId("worlds").disabled = names.length < 2;
  show("which", true);
}

export function showReader(submitter) {
  write("who", submitter === "operator" ? "as the operator" : `as ${tame(submitter)}`);
}

/** Look round by round, and only while somebody looks at the page with a token.
 * `once` returns the ms until the next round; null waits for `wake`. */
export async function startRounds(once) {
  document.addEventListener("visibilitychange", () => { if (!document.hidden) wake(); });
  for (;;) await sleep(document.hidden || !hasToken() ? null : await once());
}

/** Begin the next round now. */
export const wake = () => wakeUp();

function sleep(ms) {
  return new Promise((resolve) => {
    const timer = ms === null ? 0 : setTimeout(resolve, ms);
    wakeUp = () => { clearTimeout(timer); resolve(); };
  });
}
