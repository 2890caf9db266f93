// The rule of what a person approves: it is shown whole, or what is not shown has a control that opens it, and the approval waits for that.

import { made } from "./chart.js";
import { whole } from "./format.js";
import { appendWritten, prose, quoted, remarkElements, written } from "./values.js";

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

  /** Make an element with a whole text, such as a reason; the part beyond a limit has a control. */
  text(tag, className, text) {
    return this.filled(made(tag, className), text, prose);
  }

  /** Make the element of a value in one piece, as JSON, which shows its type. */
  value(value) {
    const element = made("bdi", "value");
    return typeof value === "string" ? this.filled(element, value, quoted) : this.filled(element, written(value), (all) => all, value);
  }

  /** Fill an element with a text as `write` writes it, and with the remarks about a value. */
  filled(element, text, write, value = text) {
    const fill = () => {
      element.replaceChildren();
      appendWritten(element, write(text)).append(...remarkElements(value));
    };
    if (text.length <= CHARS_SHOWN) fill();
    else {
      const cut = CHARS_SHOWN - Number(text.codePointAt(CHARS_SHOWN - 1) > 0xffff);
      appendWritten(element, write(text.slice(0, cut))).append(" ", this.rest(`the other ${whole(text.length - cut)} characters`, fill));
    }
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
