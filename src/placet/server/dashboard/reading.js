// The rule of what a person approves: it is shown whole, or what is not shown has a control that opens it, and the approval waits for that.

import { made } from "./chart.js";
import { safe, whole } from "./format.js";

const CHARS_SHOWN = 2_000;
const PARTS_SHOWN = 200;

/** What a reader has not opened yet of one request. `changed` is called when that is another number. */
export class Reading {
  constructor(changed = () => {}) {
    this.waiting = new Map();
    this.changed = changed;
  }

  get unread() { return this.waiting.size; }

  /** Open all that is not shown, and what comes to light with it. */
  openAll() {
    while (this.waiting.size) for (const open of [...this.waiting.values()]) open();
  }

  /** Make an element with a whole text; the part beyond a limit has a control. */
  text(tag, className, value) {
    const all = safe(typeof value === "string" ? value : JSON.stringify(value) ?? String(value));
    const cut = all.length > CHARS_SHOWN ? CHARS_SHOWN - Number(all.codePointAt(CHARS_SHOWN - 1) > 0xffff) : all.length;
    const element = made(tag, className, all.slice(0, cut));
    if (cut < all.length) element.append(this.rest(`the other ${whole(all.length - cut)} characters`, () => { element.textContent = all; }));
    return element;
  }

  /** Give the elements of items; those beyond a limit have a control, as the last element. */
  items(items, make, tag = "li", shownMax = PARTS_SHOWN) {
    const shown = items.slice(0, shownMax).map(make);
    const others = items.slice(shownMax);
    if (!others.length) return shown;
    const last = made(tag);
    last.append(this.rest(`the other ${whole(others.length)}`, () => last.replaceWith(...others.map(make))));
    return [...shown, last];
  }

  /** Note that a closed part has to be opened; `fill` makes what is in it. */
  wait(details, fill) {
    this.waiting.set(details, () => { details.open = true; fill(); this.opened(details); });
    details.addEventListener("toggle", () => { if (details.open) this.opened(details); });
  }

  opened(part) {
    if (this.waiting.delete(part)) this.changed();
  }

  rest(what, show) {
    const button = made("button", "rest", `show ${what}`);
    button.type = "button";
    const open = () => { show(); this.opened(button); };
    this.waiting.set(button, open);
    button.addEventListener("click", open);
    return button;
  }
}
