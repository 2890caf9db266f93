"""The session recorder: writes the session's records to the log, and reads them."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

import anyio

from placet.agents.ports import Handle, WorldPort
from placet.agents.proposal.codes import Code
from placet.agents.proposal.turn_result import ActionOutcome, Route, TurnEnd
from placet.agents.proposal.view_json import cut
from placet.domains.session import KINDS, turn_id
from placet.kernel.plugin import approved
from placet.schemas.codec import Json, canonical
from placet.schemas.errors import ClosedError, PlacetError, StoreError
from placet.schemas.intent import Intent
from placet.schemas.refusal import STAGE_OF, RefusalCode, Stage
from placet.schemas.verdict import Verdict

_TEXT_BYTES_MAX: Final = 8_000
_RESULTS_BYTES_MAX: Final = 40_000
"""Keeps the payload of `session.end` below the size limit of a payload."""
_RESULTS_MAX: Final = 64
_TRIES: Final = 3
_TURNS_READ: Final = 64

UNPROPOSED: Final = KINDS | approved.KINDS
"""Kinds of the recorders of sessions and of approvals, which no agent proposes."""

GONE: Final = TurnEnd(
    "failed",
    Code.OPERATOR_STOPPED,
    "the caller disconnected; check which actions were applied before you repeat the message",
)
"""End of a turn whose caller was canceled."""
GONE_SECONDS: Final = 5.0
"""Real seconds within which the end of a canceled turn must be recorded."""


class SystemIntentFactory:
    """A builder of the recorder's intents.

    They depend on no view: `context_seq` is the current seq.

    Args:
        world: The world whose seq is used.
        handle: Handle of the agent `session.recorder`.
    """

    def __init__(self, world: WorldPort, handle: Handle) -> None:
        self._world = world
        self._handle = handle

    def intent(self, kind: str, /, **payload: Json) -> Intent:
        """Build an intent of a kind with a payload."""
        intent = self._handle.intent(kind, **payload)
        intent["context_seq"] = self._world.seq
        return intent


class SessionRecorder:
    """The writer of one session's records in the world's log: turns, model calls, grants.

    Args:
        world: The world whose log has the session.
        system_intents: Builds the recorder's intents.
        session: Name of the session.
        agent: Handle of the agent that proposes in the session.
    """

    def __init__(
        self, world: WorldPort, system_intents: SystemIntentFactory, session: str, agent: Handle
    ) -> None:
        self._world = world
        self._system_intents = system_intents
        self._session = session
        self._agent = agent

    async def begin(self, message: str, mode: str, route: Route) -> int:
        """Record the start of a turn, and return its number.

        Raises:
            SessionError: The start cannot be recorded, or the agent was removed.
        """
        tries = 0
        while True:
            intent = self._system_intents.intent(
                "session.turn",
                session=self._session,
                turn=await self._count() + 1,
                agent=self._agent.agent_id,
                mode=mode,
                route=route,
                message=message,
            )
            try:
                verdict = await self._world.submit([intent], identity=self._agent)
            except anyio.get_cancelled_exc_class():
                await self._end_if_started(intent)
                raise
            if verdict.admitted:
                number: int = intent["payload"]["turn"]
                return number
            if RefusalCode.UNAUTHORIZED in verdict.codes:
                why = f"agent {self._agent.agent_id!r} was removed; open the session again"
                raise SessionError(why, code=RefusalCode.AGENT_UNKNOWN, route=route)
            tries += 1
            if tries == _TRIES or "session.turn_out_of_order" not in verdict.codes:
                message = f"the turn could not begin: {verdict.refusals[0].message}"
                raise SessionError(message, verdict=verdict, route=route)

    async def _end_if_started(self, intent: Intent) -> None:
        """End a turn whose caller was canceled while its beginning was recorded."""
        # If the world is closed, the next `open` of the session ends the turn.
        with suppress(ClosedError, StoreError), anyio.move_on_after(GONE_SECONDS, shield=True):
            verdict = await self._world.submit([intent], dry_run=True)
            if verdict.replayed and verdict.admitted:
                await self.end(intent["payload"]["turn"], GONE)

    async def end(
        self,
        turn: int,
        end: TurnEnd,
        results: Sequence[ActionOutcome] = (),
        approval_id: str = "",
        ended: Sequence[str] = (),
    ) -> None:
        """Record the end of a turn.

        Args:
            turn: Number of the turn.
            end: Its outcome.
            results: Results of its actions.
            approval_id: The approval request of the plan that it held; empty for none.
            ended: Ids of the approval requests whose end this turn records.

        Raises:
            SessionError: The end cannot be recorded.
        """
        rows, about = _result_rows(results), (approval_id, ended)
        verdict = await self._submit_end(turn, end, rows, *about)
        if any(STAGE_OF.get(code) is Stage.STRUCTURE for code in verdict.codes):
            # An output may be nested too deeply for a payload. Record the decisions without the
            # outputs: without a record, the applied actions would be unknown.
            bare = [_without_output(row) for row in rows]
            verdict = await self._submit_end(turn, end, bare, *about)
        if not verdict.admitted and "session.turn_unknown" not in verdict.codes:
            message = (
                f"the end of the turn is not recorded: {verdict.refusals[0].message}; look what "
                "was done before you say it again"
            )
            raise SessionError(message, verdict=verdict, has_started=True)

    async def _submit_end(
        self,
        turn: int,
        end: TurnEnd,
        results: list[dict[str, Json]],
        approval_id: str,
        ended: Sequence[str],
    ) -> Verdict:
        requests: dict[str, Json] = {"approval_id": approval_id} if approval_id else {}
        if ended:
            requests["ended"] = list(ended)
        intent = self._system_intents.intent(
            "session.end",
            session=self._session,
            turn=turn,
            outcome=end.outcome,
            stop=str(end.stop),
            text=cut(end.message, _TEXT_BYTES_MAX),
            results=results,
            **requests,
        )
        return await self._world.submit([intent])

    def ask(self, turn: int, attempt: int, adapter: str, digest: str, request: str) -> Intent:
        """Build the intent that records a call of an adapter.

        Args:
            turn: Number of the turn.
            attempt: Number of the call in the turn.
            adapter: Class of the adapter.
            digest: Digest of the planner input.
            request: Digest of the whole request.
        """
        return self._system_intents.intent(
            "session.ask",
            session=self._session,
            turn=turn,
            attempt=attempt,
            adapter=adapter,
            digest=digest,
            request=request,
        )

    async def grant(
        self, kinds: str, equals: Mapping[str, Json], uses: int, seconds: float, by: str
    ) -> str:
        """Record that a person permits kinds in advance; return the name of the grant.

        Raises:
            PermissionError: The gate refused the grant, or the agent was removed.
        """
        intent = self._system_intents.intent(
            "session.grant",
            proposer=self._agent.agent_id,
            kinds=kinds,
            equals=dict(equals),
            uses=uses,
            seconds=seconds,
            by=by,
        )
        name = f"{self._session}-grant-{intent['req_id']}"  # unique; two grants may share a seq
        intent["payload"]["grant"] = name
        verdict = await self._world.submit([intent], identity=self._agent)
        if not verdict.admitted:
            raise PermissionError(verdict.refusals[0].message)
        return name

    async def waiting(self) -> Sequence[str]:
        """Return the held plans of this session whose end no turn has recorded."""
        approvals: Sequence[str] = (await self._row())["approvals"]
        return approvals

    async def turns(
        self, count: int | None = None, *, before: int | None = None
    ) -> list[dict[str, Json]]:
        """Return the turns of this session that are in the state, oldest first.

        Args:
            count: Maximum number of turns, the latest ones; None for all.
            before: Return only turns with a lower number; None for all.
        """
        return list((await self._numbered(count, before)).values())

    async def running(self) -> list[int]:
        """Return the numbers of the turns whose end is not recorded yet."""
        turns = await self._numbered(None)
        return [number for number, row in turns.items() if row["outcome"] == "running"]

    async def _numbered(
        self, count: int | None, before: int | None = None
    ) -> dict[int, dict[str, Json]]:
        """Read turns by number, latest first, until a number that the state does not keep."""
        last = await self._count() if before is None else before - 1
        turns: dict[int, dict[str, Json]] = {}
        while last > 0 and (count is None or len(turns) < count):
            number = max(0, last - (_TURNS_READ if count is None else count))
            names = {turn_id(self._session, n): n for n in range(number + 1, last + 1)}
            rows = await self._world.gateway.entities("session.turns", list(names))
            turns.update({names[name]: row for name, row in rows.items()})
            if len(rows) < len(names):
                break
            last = number
        return dict(sorted(turns.items()))

    async def _count(self) -> int:
        count: int = (await self._row())["turns"]
        return count

    async def _row(self) -> dict[str, Json]:
        """Return the row of the session; an empty one if it belongs to another agent now."""
        row = await row_of(self._world, self._session)
        is_own = row is not None and row["agent"] == self._agent.agent_id
        return row if row is not None and is_own else {"turns": 0, "approvals": []}


async def row_of(world: WorldPort, session: str) -> dict[str, Json] | None:
    """Return the state's entity of a session; None if the session has no turns yet."""
    return (await world.gateway.entities("session.sessions", [session])).get(session)


class SessionError(PlacetError):
    """The error of a session that cannot be opened, or whose record is refused.

    Attributes:
        code: Code of the refusal, also if there is no verdict.
        has_started: The turn had started, so that some of its actions may be applied.
        route: Route of the message, if the error is about a turn.
    """

    def __init__(
        self,
        message: str,
        *,
        verdict: Verdict | None = None,
        code: str = "",
        has_started: bool = False,
        route: Route = "agent",
    ) -> None:
        super().__init__(message, verdict=verdict)
        self.has_started = has_started
        self.route = route
        self._code = code

    @property
    def code(self) -> str | None:
        """Code of the refusal."""
        return self._code or super().code


def _result_rows(results: Sequence[ActionOutcome]) -> list[dict[str, Json]]:
    """Return the results as the log keeps them: all of them, with as much of their outputs as fits.

    Measured as the gate measures a payload: a number may be longer there than it is as JSON.
    """
    left, rows = _RESULTS_BYTES_MAX, []
    for result in results[:_RESULTS_MAX]:
        row = result.to_row()
        size = len(canonical(row))
        if size > left:
            row = _without_output(row)
            size = len(canonical(row))
        left -= size
        rows.append(row)
    return rows


def _without_output(row: dict[str, Json]) -> dict[str, Json]:
    return {**row, "output": None, "is_truncated": True} if "output" in row else row
