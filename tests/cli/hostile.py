"""A domain, a policy and functions that put hostile texts into every place that takes a text."""

from collections.abc import Iterable, Mapping

from placet.kernel import Domain, Kind, RuleRefusal, refuse
from placet.kernel.state.draft import Draft
from placet.scenarios import IntentFactory, Member, Scenario
from placet.schemas.codec import Json
from placet.schemas.intent import Intent
from placet.schemas.view import View

NAME = "=[red]<b>'\"\u202e\u2066\u200b\u200f\u061c\U000e0041"
"""A name as old logs may have it: markup, a formula, bidirectional and zero-width characters."""

TEXT = f"-\x1b[31m\x1b]52;c;aGk=\x07\x1b]8;;http://x\x1b\\\x9b2J\r\n\x00\x7f\u2028</script>{NAME}"
"""Terminal escapes (CSI, OSC 52, OSC 8), control characters, markup, and the name."""

BOX = "hostile.boxes"


def shout(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Create an entity with hostile name and fields; refuse every third time."""
    payload = intent["payload"]
    if payload["n"] % 3 == 2:
        details: dict[str, Json] = {TEXT: TEXT}
        return refuse("odd", f"refused: {TEXT}", at=f"/{TEXT}", suggestions=[TEXT], **details)
    if not draft.exists(BOX, NAME):
        draft.create(BOX, NAME, {TEXT: None, "luck": 0.0})
    draft.put(BOX, NAME, TEXT, {TEXT: [TEXT, payload["n"]]})
    draft.put(BOX, NAME, "luck", draft.draw("luck"))
    if "mail" in payload:
        draft.emit("mail", {TEXT: TEXT})
    return None


class Hostile(Domain):
    name, version = "hostile", TEXT
    guide = TEXT
    kinds = (
        Kind("Shout", dict[str, object], shout, summary=TEXT, discloses=TEXT, effects=("mail",)),
        Kind("Whisper", dict[str, object], shout, summary=TEXT),
    )

    def settings(self) -> Mapping[str, Json]:
        return {}


class Crier:
    def __init__(self, member: Member, scenario: Scenario, intent: IntentFactory) -> None:
        self._intent = intent

    def propose(self, view: View) -> Iterable[Intent]:
        yield {**self._intent("Whisper", **{"n": round(view.sim_time), TEXT: TEXT})}


def lucky(state: Mapping[str, Mapping[str, Mapping[str, Json]]]) -> bool:
    return float(state[BOX][NAME]["luck"]) > 0.5


def fails(state: Mapping[str, Mapping[str, Mapping[str, Json]]]) -> bool:
    raise ValueError(TEXT)


def text(state: Mapping[str, Mapping[str, Mapping[str, Json]]]) -> str:
    return TEXT
