// The sign-in form of a page, and its words when the server refuses or is away.

import { hasToken, Refusal, setToken, takeFromAddress } from "./api.js";
import { byId, show, write } from "./chart.js";
import { tame } from "./format.js";

let open = async () => {};

/** Open the page with the token of this tab, or ask for one; `begin` is called with a token. */
export function startSignIn(begin) {
  open = () => begin().catch(complain);
  byId("leave").addEventListener("click", () => turnAway(""));
  byId("sign-in").addEventListener("submit", (event) => {
    event.preventDefault();
    setToken(byId("token").value.trim());
    byId("token").value = "";
    write("sign-in-error", "");
    open();
  });
  if (hasToken()) open();
  else turnAway("");
}

/** Reload the page if its address has got a token; returns whether it did. */
export function takesToken() {
  const isNew = takeFromAddress() !== null;
  if (isNew) location.reload();
  return isNew;
}

export function showOpened() {
  show("sign-in", false);
  for (const id of ["leave", "content"]) show(id, true);
}

export function stand(is, text) {
  byId("standing").dataset.is = is;
  write("standing", text);
}

export function say(text) {
  write("notice", text);
  show("notice", text !== "");
}

/** Say an error in the page; without a valid token ask for one. */
export function complain(error) {
  if (error instanceof Refusal && error.status === 401) return turnAway("The server does not know this token. Was it started again?");
  if (!(error instanceof Refusal) && error.constructor.name !== "Away") console.error(error);
  stand("failed", error instanceof Refusal ? "refused" : "away");
  say(error instanceof Refusal ? tame(error.message, 400) : `The server is away: ${tame(error.message, 200)}.`);
}

function turnAway(why) {
  setToken("");
  for (const id of ["content", "leave"]) show(id, false);
  show("sign-in", true);
  write("sign-in-error", why);
  stand("waiting", "no token");
  byId("token").focus();
}
