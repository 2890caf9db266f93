"""The chat loop: typed lines go to the session, results to the renderer.

The world runs in a separate thread with its event loop; lines are read in the main thread, so that
the terminal's editing works and Ctrl-C reaches the waiting code: at the prompt it ends the
conversation, in a turn it stops the turn.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from queue import SimpleQueue
from typing import Final, NamedTuple

from anyio.from_thread import BlockingPortal

from placet.agents.adapters.scripted import Answer
from placet.agents.proposal.adapter import PlannerInput, PlannerOutput
from placet.agents.proposal.turn_result import ApprovalRequest, Turn
from placet.agents.session.message_route import parse_command
from placet.agents.session.session import Session
from placet.cli.signals import Terminated
from placet.frontends.adapter_names import TerminalHumanAdapter
from placet.frontends.chat.slash_commands import SlashCommands
from placet.frontends.render import Renderer
from placet.schemas.codec import Json

Ask = Callable[[str], str | None]
"""Shows a prompt and gives the line that is typed; None is the end."""
Actions = list[tuple[str, dict[str, Json]]]

_FAILED: Final = frozenset({"refused", "clarify", "failed"})
_NOT_READ: Final = "expected lines of /kind key=value, and an empty line at their end"


class Person(NamedTuple):
    """The person at the terminal.

    Attributes:
        name: Name for the log, as the person who confirmed.
        role: Role for approvals; empty if none.
        is_there: The person can be asked; False if lines come from a file or a pipe.
    """

    name: str
    role: str = ""
    is_there: bool = False


class ChatLoop:
    """The read-and-answer loop of one conversation in a terminal.

    Args:
        session: An open session, which runs in the portal's thread.
        portal: Runs calls in the session's thread.
        person: The person who talks.
        ask: Shows a prompt and returns a line; None at the end of the input.
        screen: Shows the results.
        human: The person as the proposer of the session; None if that is another.

    Attributes:
        has_failed: Whether any line was refused, unclear or failed.
    """

    def __init__(
        self,
        session: Session,
        portal: BlockingPortal,
        person: Person,
        *,
        ask: Ask,
        screen: Renderer,
        human: TerminalHumanAdapter | None = None,
    ) -> None:
        self.has_failed = False
        self._session = session
        self._portal = portal
        self._person = person
        self._ask = ask
        self._screen = screen
        self._human = human
        self._words = SlashCommands(session, portal, screen)

    def run(self) -> None:
        """Read and answer lines until the end of the input, or `/quit`.

        Raises:
            KeyboardInterrupt: Ctrl-C at the prompt, or in a turn without a terminal; SIGTERM.
        """
        while (line := self._ask("> ")) is not None:
            text = line.strip()
            if text == "/quit":
                return
            if text:
                self._answer(text)

    @property
    def is_unsettled(self) -> bool:
        """Whether an approval request of the session is open."""
        return any(
            approval.state == "open" for approval in self._portal.call(self._session.approvals)
        )

    def _answer(self, text: str) -> None:
        resolution = self._words.resolution(text)
        if resolution is not None:
            decision, approval_id = resolution
            if not approval_id:
                self._screen.value("error", "no plan waits for a person")
                self.has_failed = True
                return
            self._say(self._resolving(approval_id, decision), is_denial=decision == "deny")
        elif self._words.knows(text):
            self.has_failed |= not self._words.answer(text)
        else:
            self._say(partial(self._session.send, text))

    def _say(self, begin: Callable[[], Awaitable[Turn]], *, is_denial: bool = False) -> None:
        turn: Turn | None = self._turn(begin)
        while turn is not None:
            self._screen.turn(turn)
            if is_denial and turn.stop == "denied" and turn.message.startswith("deny by "):
                return  # the person denied it
            self.has_failed |= turn.outcome in _FAILED
            if not turn.approval_id:
                return
            turn, is_denial = self._settle(turn.approval_id)

    def _turn(self, begin: Callable[[], Awaitable[Turn]]) -> Turn:
        """Have a turn. Ctrl-C stops it, and what had come of it by then is given; twice, it ends.

        Raises:
            KeyboardInterrupt: Ctrl-C without a terminal, or pressed again; SIGTERM.
        """
        dirty_set: SimpleQueue[PlannerInput | None] = SimpleQueue()
        if self._human is not None:
            self._human.on_question = dirty_set.put
        future = self._portal.start_task_soon(begin)
        future.add_done_callback(lambda _: dirty_set.put(None))
        try:
            while (context := dirty_set.get()) is not None:
                self._propose(context)
        except KeyboardInterrupt as interrupt:
            self._portal.call(self._stop)
            turn = future.result()
            if not self._person.is_there or isinstance(interrupt, Terminated):
                raise
            return turn
        return future.result()

    async def _stop(self) -> None:
        self._session.stop()
        await self._hand_in(PlannerOutput(text="(stopped)"))

    # approval requests

    def _resolving(self, approval_id: str, decision: str) -> Callable[[], Awaitable[Turn]]:
        return partial(
            self._session.resolve,
            approval_id,
            decision,  # type: ignore[arg-type]  # the session judges it
            self._person.name,
            role=self._person.role,
        )

    def _settle(self, approval_id: str) -> tuple[Turn | None, bool]:
        """Ask about an approval request on a terminal.

        Return the resulting turn, and whether it was denied.

        An action that is read-only is shown by its kind's own words, whatever the proposer called
        it.
        """
        self._screen.approval(self._approval(approval_id))
        if not self._person.is_there:
            return None, False
        while True:
            word = (self._ask("apply it? [y]es [n]o [e]dit [l]ater: ") or "later").strip().lower()
            if word in {"y", "yes"}:
                return self._turn(self._resolving(approval_id, "approve")), False
            if word in {"n", "no"}:
                return self._turn(self._resolving(approval_id, "deny")), True
            if word in {"e", "edit"}:
                actions = self._actions()
                if actions:
                    person = self._person
                    edit = partial(
                        self._session.edit, approval_id, actions, person.name, role=person.role
                    )
                    return self._turn(edit), False
            elif word in {"l", "later"}:
                return None, False

    def _approval(self, approval_id: str) -> ApprovalRequest:
        approvals = self._portal.call(self._session.approvals)
        return next(approval for approval in approvals if approval.id == approval_id)

    # proposals of a person

    def _propose(self, context: PlannerInput) -> None:
        """Ask the person what to propose."""
        assert self._human is not None, "only a person is asked here"
        for issue in context.repairs[-1].issues if context.repairs else ():
            self._screen.value("error", issue.message)
        self._screen.value("asked", context.message)
        self._portal.call(self._hand_in, self._proposal())

    def _proposal(self) -> Answer:
        first = self._ask("propose> ")
        if first is None or not first.strip():
            return PlannerOutput(text="(nothing proposed)")
        if not first.lstrip().startswith("/"):
            return PlannerOutput(text=first.strip())
        return self._actions(first)

    async def _hand_in(self, answer: Answer) -> None:
        """Answer the question that waits; there is none where it was too late."""
        if self._human is not None:
            for question in self._human.questions[:1]:
                self._human.answer(question.number, answer)

    def _actions(self, first: str | None = None) -> Actions:
        """Read actions, a line each, up to an empty one."""
        actions: Actions = []
        line = self._ask("  / ") if first is None else first
        while line is not None and line.strip():
            text = line.strip()
            commanded = parse_command(text if text.startswith("/") else f"/{text}")
            if commanded is None or commanded.error:
                self._screen.value("error", commanded.error if commanded else _NOT_READ)
            else:
                actions.append((commanded.kind, commanded.payload))
            line = self._ask("  / ")
        return actions
