// The dialog in which the tags and the note of a run are written.

import { ask } from "./api.js";
import { byId, write } from "./chart.js";
import { tame } from "./format.js";

let run = null;
let onSaved = () => {};

/** Listen to the dialog; `saved` is called after a note was written. */
export function startNote(saved) {
  onSaved = saved;
  byId("note-cancel").addEventListener("click", () => byId("note-dialog").close());
  byId("note-form").addEventListener("submit", (event) => {
    event.preventDefault();
    save();
  });
}

/** Open the dialog for a run; its texts are shown as they are kept, for they are saved again. */
export function editNote(row) {
  run = row.run;
  write("h-note", tame(row.run, 120));
  write("note-error", "");
  byId("note-tags").value = row.tags.join(", ");
  byId("note-text").value = row.note;
  byId("note-dialog").showModal();
}

async function save() {
  const tags = byId("note-tags").value.split(",").map((tag) => tag.trim()).filter((tag) => tag !== "");
  const body = { tags, note: byId("note-text").value };
  try {
    await ask(`api/v1/runs/${encodeURIComponent(run)}/note`, { method: "PUT", body });
    byId("note-dialog").close();
    onSaved();
  } catch (error) {
    write("note-error", tame(error.message, 400));
  }
}
