// One line of the list of what happened.

import { made } from "./chart.js";
import { MARKS, whole } from "./format.js";

/** Make the parts of a line from what `said` returns: its mark, its seq, and what happened. */
export function lineParts(line) {
  const [mark, meaning] = MARKS[line.kind];
  const sign = made("span", "mark");
  const seen = made("span", "", mark);
  seen.ariaHidden = "true";
  sign.append(seen, made("span", "unseen", meaning));
  const body = made("span", "body");
  if (line.who) body.append(made("bdi", "who", line.who), " ");
  body.append(made("bdi", "", line.what));
  if (line.detail) body.append(" ", made("bdi", "detail", line.detail));
  for (const { code, message } of line.whys) {
    const why = made("span", "why");
    why.append(made("bdi", "code", code), " ", made("bdi", "", message));
    body.append(why);
  }
  return [sign, made("span", "seq", whole(line.seq)), body];
}
