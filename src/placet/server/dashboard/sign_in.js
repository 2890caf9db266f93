// The token of a reader: the form that asks for it, and what a page says when the server refuses or is away.

import { hasToken, Refusal, setToken, takeFromAddress } from "./api.js";
import { byId, show, write } from "./chart.js";
import { tame } from "./format.js";

let page = { open() {}, close() {}, move() {}, isPublic: false };

/** Open the page with the token of this tab, or ask for one.
 * `open` is called with a token, `close` when it is forgotten, `move` when the address has another fragment.
 * The content of a page that `isPublic` is shown without a token too; it asks for one by showing the form. */
export function startSignIn(ways) {
  page = { ...page, ...ways };
  byId("leave").addEventListener("click", () => signOut());
  byId("sign-in").addEventListener("submit", (event) => {
    event.preventDefault();
    setToken(byId("token").value.trim());
    byId("token").value = "";
    write("sign-in-error", "");
    open();
  });
  addEventListener("hashchange", () => {
    if (takeFromAddress() !== null) location.reload();
    else page.move();
  });
  if (hasToken()) open();
  else signOut();
}

async function open() {
  try {
    await page.open();
  } catch (error) {
    complain(error);
  }
}

/** Show that the token of this tab is known. */
export function showOpened() {
  show("sign-in", false);
  show("leave", true);
}

/** Mark the standing of the page; `notice` is said above its content, unless it is left out. */
export function stand(is, text, notice) {
  byId("standing").dataset.is = is;
  write("standing", text);
  if (notice !== undefined) say(notice);
}

export function say(text) {
  write("notice", text);
  show("notice", text !== "");
}

/** Say an error in the page; without a valid token ask for one. */
export function complain(error) {
  if (refusesToken(error)) return;
  if (!(error instanceof Refusal) && error.constructor.name !== "Away") console.error(error);
  stand("failed", error instanceof Refusal ? "refused" : "away", wordsOf(error));
}

/** Ask for another token if an error refuses this one; return whether it does. */
export function refusesToken(error) {
  const isUnknown = error instanceof Refusal && error.status === 401;
  if (isUnknown) signOut("The server does not know this token. Was it started again, or a part of the token lost?");
  return isUnknown;
}

export const wordsOf = (error) => (error instanceof Refusal ? tame(error.message, 400) : `The server is away: ${tame(error.message, 200)}.`);

/** Forget the token, and ask for one; `why` is said beside the form. */
export function signOut(why = "") {
  setToken("");
  for (const id of ["which", "leave"]) show(id, false);
  if (!page.isPublic) show("content", false);
  write("who", "");
  show("sign-in", !page.isPublic || why !== "");
  write("sign-in-error", why);
  stand("waiting", "no token");
  page.close();
  byId("token").focus();
}
