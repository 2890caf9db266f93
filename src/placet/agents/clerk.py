"""The session's own voice: what it records in the log, and what it reads there."""

from collections.abc import Mapping, Sequence
from typing import Final

from placet.agents.ports import Handle, World
from placet.agents.record import Decision, Hold, Route
from placet.agents.turn import End
from placet.agents.views import rows_of
from placet.schemas.codec import Json
from placet.schemas.intent import Intent

CLERK: Final = "session.clerk"
"""The agent in whose name sessions record; it is permitted nothing else."""

_TEXT_CHARS_MAX: Final = 8_000


class Clerk:
    """Records one session.

    Args:
        world: Where.
        voice: The clerk's handle.
        session: Name of the session.
        agent_id: Whose proposals it is about.
    """

    def __init__(self, world: World, voice: Handle, session: str, agent_id: str) -> None:
        self._world = world
        self._voice = voice
        self._session = session
        self._agent_id = agent_id

    async def begin(self, message: str, mode: str, route: Route) -> int:
        """Record that a turn begins, and give its number.

        Raises:
            RuntimeError: Another session of the same name has gone on in between.
        """
        session = (await rows_of(self._world, "session.sessions")).get(self._session, {"turns": 0})
        number: int = session["turns"] + 1
        intent = self._voice.intent(
            "session.turn",
            session=self._session,
            turn=number,
            agent=self._agent_id,
            mode=mode,
            route=route,
            message=message,
        )
        verdict = await self._world.submit([intent])
        if not verdict.admitted:
            raise RuntimeError(f"the turn could not begin: {verdict.refusals[0].message}")
        return number

    async def end(self, turn: int, end: End, results: Sequence[Decision], hold_id: str) -> None:
        """Record how a turn ended."""
        intent = self._voice.intent(
            "session.end",
            session=self._session,
            turn=turn,
            outcome=end.outcome,
            stop=str(end.stop),
            text=end.message[:_TEXT_CHARS_MAX],
            results=[one.told() for one in results],
            hold=hold_id,
        )
        await self._world.submit([intent])

    def ask(self, turn: int, attempt: int, adapter: str, digest: str) -> Intent:
        """Make the intent by which a proposer is asked."""
        return self._voice.intent(
            "session.ask",
            session=self._session,
            turn=turn,
            attempt=attempt,
            adapter=adapter,
            digest=digest,
        )

    async def grant(
        self, kinds: str, equals: Mapping[str, Json], uses: int, seconds: float, by: str
    ) -> str:
        """Record that a person permits something ahead, and give the grant's name.

        Raises:
            PermissionError: The gate refused it.
        """
        name = f"{self._session}-grant-{self._world.seq}"
        intent = self._voice.intent(
            "session.grant",
            grant=name,
            proposer=self._agent_id,
            kinds=kinds,
            equals=dict(equals),
            uses=uses,
            seconds=seconds,
            by=by,
        )
        verdict = await self._world.submit([intent])
        if not verdict.admitted:
            raise PermissionError(verdict.refusals[0].message)
        return name

    async def holds(self) -> list[Hold]:
        """List the holds of this session, oldest first; what is past its time says `expired`."""
        found = []
        for name, held in (await rows_of(self._world, "session.holds")).items():
            if held["session"] == self._session:
                fields = {key: held[key] for key in Hold.model_fields if key in held}
                if held["state"] == "open" and self._world.sim_time > held["expires"]:
                    fields["state"] = "expired"
                found.append(Hold(id=name, **fields))
        return sorted(found, key=lambda hold: (hold.base_seq, hold.id))

    async def turns(self) -> list[dict[str, Json]]:
        """List what the state keeps of this session's turns, oldest first."""
        rows = await rows_of(self._world, "session.turns")
        return [rows[name] for name in sorted(rows) if name.rpartition("/")[0] == self._session]

    async def running(self) -> list[int]:
        """Give the numbers of turns that are begun and not ended."""
        rows = await rows_of(self._world, "session.turns")
        parts = [(name.rpartition("/"), row["outcome"]) for name, row in sorted(rows.items())]
        return [
            int(number)
            for (session, _, number), outcome in parts
            if session == self._session and outcome == "running"
        ]
