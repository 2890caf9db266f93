"""The commands of a conversation, besides the kinds: `/help`, `/state`, `/approvals`, `/mode`.

A kind that has the name of one of these words wins: what can be proposed is the domain's to name.
"""

from collections.abc import Callable, Mapping
from typing import Final

from anyio.from_thread import BlockingPortal

from placet.agents.proposal.catalogue import Catalogue
from placet.agents.proposal.modes import MODES
from placet.agents.session.session import Session
from placet.frontends.render import Renderer
from placet.frontends.world_factory import catalogue_of
from placet.schemas.codec import Json

_HELP: Final[Mapping[str, str]] = {
    "/help": "list the commands",
    "/kinds": "list the kinds; propose one with /KIND key=value ...",
    "/state [PATH]": "show the state that the agent sees, or its part at PATH",
    "/approvals": "list the plans that wait for a person",
    "/approve [ID]": "apply a waiting plan; the newest without ID",
    "/deny [ID]": "refuse a waiting plan",
    "/turns": "list the turns of the conversation",
    "/mode [MODE]": f"show or set what the agent may do without confirmation: {', '.join(MODES)}",
    "/quit": "end the conversation, like the end of the input",
}
_DECISIONS: Final = {"/approve": "approve", "/deny": "deny"}


class SlashCommands:
    """Answers the commands of the chat itself, such as `/help` and `/mode`.

    Args:
        session: The session of the conversation.
        portal: Runs calls in the session's thread.
        screen: Shows the answers.
    """

    def __init__(self, session: Session, portal: BlockingPortal, screen: Renderer) -> None:
        self._session = session
        self._portal = portal
        self._screen = screen
        self._answers: Mapping[str, Callable[[str], bool]] = {
            "/help": self._help,
            "/kinds": self._kinds,
            "/state": self._state,
            "/approvals": self._approvals,
            "/turns": self._turns,
            "/mode": self._mode,
        }

    def knows(self, text: str) -> bool:
        """Return whether a line is a command of the chat, such as `/help`, and not a kind's."""
        word, _ = _split(text)
        return word in self._answers and word[1:] not in self._session.world.gateway.registry.kinds

    def answer(self, text: str) -> bool:
        """Run a command of the chat and show its result; return False if it failed."""
        word, rest = _split(text)
        return self._answers[word](rest)

    def resolution(self, text: str) -> tuple[str, str] | None:
        """Parse `/approve` or `/deny`.

        Returns:
            The decision and the id of its approval request, by default the newest open one (empty
            if there is none); None if the line is another.
        """
        word, approval_id = _split(text)
        decision = _DECISIONS.get(word)
        if decision is None or word[1:] in self._session.world.gateway.registry.kinds:
            return None
        return decision, approval_id or self._newest()

    def _newest(self) -> str:
        """Return the id of the newest open approval request; empty if there is none."""
        approvals = self._portal.call(self._session.approvals)
        return next(
            (approval.id for approval in reversed(approvals) if approval.state == "open"), ""
        )

    def _help(self, _rest: str) -> bool:
        commands = [command.pattern for command in self._catalogue().commands]
        more = {"sentences": commands} if commands else {}
        self._screen.value("help", {**_HELP, **more})
        return True

    def _kinds(self, _rest: str) -> bool:
        kinds = {kind.name: f"{kind.summary} ({kind.risk})" for kind in self._catalogue()}
        self._screen.value("kinds", kinds)
        return True

    def _state(self, path: str) -> bool:
        value: Json = self._portal.call(self._session.state)
        parts = [part for part in path.split("/", 2) if part]
        for part in parts:
            if not isinstance(value, Mapping) or part not in value:
                return self._complain(f"there is nothing at {path!r} that the agent sees")
            value = value[part]
        self._screen.value("state", value if isinstance(value, Mapping | str) else [value])
        return True

    def _approvals(self, _rest: str) -> bool:
        self._screen.approvals(self._portal.call(self._session.approvals))
        return True

    def _turns(self, _rest: str) -> bool:
        self._screen.turns(self._portal.call(self._session.turns))
        return True

    def _mode(self, name: str) -> bool:
        if name and name not in MODES:
            return self._complain(f"unknown mode {name!r}; the modes are {', '.join(MODES)}")
        if name:
            self._session.mode = name
        self._screen.value("mode", self._session.mode)
        return True

    def _complain(self, text: str) -> bool:
        self._screen.value("error", text)
        return False

    def _catalogue(self) -> Catalogue:
        return self._portal.call(catalogue_of, self._session)


def _split(text: str) -> tuple[str, str]:
    """Return the first word of a line, which is not empty, and the rest."""
    word, *rest = text.split(maxsplit=1)
    return word, "".join(rest)
