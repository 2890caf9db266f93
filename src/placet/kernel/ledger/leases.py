"""Leases: the tickets of agents that want to change some entities alone for a while.

A ticket waits, is called (its entities are free, and its agent may start), runs (no other agent may
change its entities), and is gone. Requests, starts and releases come with records. Calls, lapses
and ends follow from the tickets and the simulated time, so they need no record: `at` computes them
on a copy, and a record first brings the table to its time. A live world and a fold therefore
process the same events in the same order, even if refused batches advanced the live clock.

The order is that of fair queueing: a ticket whose owner has had less than its part goes first,
among these the one that would end first. A waiting agent holds nothing, so there is no deadlock.
After a lease of d seconds its entities are free of leases for d * (1 - share) / share.

Source: eligibility and least finish of WF2Q (Bennett and Zhang, INFOCOM 1996).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from placet.kernel.ledger.agent import Agent
from placet.schemas.codec import Json
from placet.schemas.config import LeaseSettings
from placet.schemas.identity import Ref
from placet.schemas.intent import Intent
from placet.schemas.limits import SECOND_NS

LEASE: Final = "placet.lease"
RELEASE: Final = "placet.release"
LEASE_KINDS: Final = frozenset({LEASE, RELEASE})

_MILLION: Final = 1_000_000
_NEVER_NS: Final = 2**63


@dataclass(slots=True)
class Ticket:
    """The ticket of one agent.

    Attributes:
        number: Number of the request, from 1.
        agent_id: The agent.
        owner: Owner of the agent, whose tickets share one part of the time.
        refs: The entities, sorted.
        length_ns: Requested length.
        finish: Virtual time at which the owner has used its part, with this ticket.
        called_ns: Time since which the agent may start; None while it waits.
        started_ns: Time of the start; None before.
        until_ns: Latest end; None before the start.
    """

    number: int
    agent_id: str
    owner: str
    refs: tuple[Ref, ...]
    length_ns: int
    finish: int
    called_ns: int | None = None
    started_ns: int | None = None
    until_ns: int | None = None


class _Moment(NamedTuple):
    """A table that holds at every time from one to before another."""

    from_ns: int
    table: "LeaseTable"
    before_ns: int


class LeaseTable:
    """The tickets of one world at the time of the latest record that concerns them.

    Attributes:
        settings: Bounds of the leases.
        tickets: Ticket of each agent, in order of number.
        free_at: End of the rest of entities after a lease, nanoseconds.
    """

    __slots__ = ("_finish", "_held", "_moment", "_now_ns", "_numbers", "_virtual", "free_at",
                 "settings", "tickets")  # fmt: skip

    def __init__(self, settings: LeaseSettings) -> None:
        self.settings = settings
        self.tickets: dict[str, Ticket] = {}
        self.free_at: dict[Ref, int] = {}
        self._numbers = 0
        self._virtual = 0  # leased time, divided by the number of tickets at each end
        self._finish: dict[str, int] = {}  # owner -> finish of its latest lease, while later
        self._now_ns = 0
        self._moment: _Moment | None = None
        self._held: dict[Ref, Ticket] | None = None

    def copy(self) -> "LeaseTable":
        """Return a copy, which shares nothing that changes."""
        other = LeaseTable(self.settings)
        other.load(self.dump())
        return other

    # read

    def at(self, now_ns: int) -> "LeaseTable":
        """Return the table as it is at a time; this one is not changed. O(tickets^2) at most."""
        if not self.tickets and not self.free_at:
            return self
        moment = self._moment
        if moment is None or not moment.from_ns <= now_ns < moment.before_ns:
            table = self.copy()
            table.advance(now_ns)
            moment = self._moment = _Moment(now_ns, table, table.next_event_ns() or _NEVER_NS)
        return moment.table

    @property
    def held(self) -> Mapping[Ref, Ticket]:
        """The running ticket on each leased entity; of a table that `at` returned."""
        if self._held is None:
            running = [t for t in self.tickets.values() if t.until_ns is not None]
            self._held = {ref: ticket for ticket in running for ref in ticket.refs}
        return self._held

    def next_event_ns(self) -> int | None:
        """Return the time of the next end, lapse, or end of a rest; None if there is none."""
        ends = [t.until_ns for t in self.tickets.values() if t.until_ns is not None]
        lapses = [
            t.called_ns + self.settings.start_ns_max
            for t in self.tickets.values()
            if t.called_ns is not None and t.until_ns is None
        ]
        rests = [ns for ns in self.free_at.values() if ns > self._now_ns]
        return min((*ends, *lapses, *rests), default=None)

    def answer_of(self, ticket: Ticket) -> dict[str, Json]:
        """Return the output of a lease intent: `granted`, `until` in seconds, and `ahead`.

        `ahead` counts the tickets on its own entities alone: a number of all tickets would tell of
        leases on hidden entities.
        """
        ahead = sum(
            other is not ticket
            and (other.called_ns is not None or self._place(other) < self._place(ticket))
            and not set(ticket.refs).isdisjoint(other.refs)
            for other in self.tickets.values()
        )
        until = None if ticket.until_ns is None else ticket.until_ns / SECOND_NS
        return {"granted": until is not None, "until": until, "ahead": ahead}

    # change, by records alone

    def set_settings(self, settings: LeaseSettings) -> None:
        """Replace the bounds of the leases."""
        self.settings = settings
        self._moment = self._held = None

    def request(
        self, agent_id: str, owner: str, payload: Mapping[str, Json], now_ns: int
    ) -> Ticket:
        """Add the ticket of an agent, or start the one that it has if that is called."""
        self.advance(now_ns)
        ticket = self.tickets.get(agent_id)
        if ticket is None:
            self._numbers += 1
            length_ns = round(payload["seconds"] * SECOND_NS)
            waits_for = [t.finish for t in self.tickets.values() if t.owner == owner]
            start = max(self._virtual, self._finish.get(owner, 0), *waits_for, 0)
            ticket = Ticket(
                self._numbers, agent_id, owner, refs_of(payload), length_ns, start + length_ns
            )
            self.tickets[agent_id] = ticket
            self._call()
        if payload.get("begin", True) and ticket.called_ns is not None and not ticket.until_ns:
            ticket.started_ns, ticket.until_ns = now_ns, now_ns + ticket.length_ns
        return ticket

    def release(self, agent_id: str, now_ns: int) -> bool:
        """Remove the ticket of an agent; return whether it had one."""
        self.advance(now_ns)
        ticket = self.tickets.get(agent_id)
        if ticket is None:
            return False
        if ticket.until_ns is not None:
            self._end(ticket, now_ns)
        else:
            self._drop(ticket, now_ns)
        self._call()
        return True

    def advance(self, now_ns: int) -> None:
        """Process ends, lapses and calls up to a time in order, however it is split into calls."""
        self._moment = self._held = None
        self._call()
        while (due_ns := self.next_event_ns()) is not None and due_ns <= now_ns:
            self._now_ns = max(self._now_ns, due_ns)
            for ticket in list(self.tickets.values()):
                if ticket.until_ns is not None:
                    if ticket.until_ns <= self._now_ns:
                        self._end(ticket, ticket.until_ns)
                elif ticket.called_ns is not None:
                    self._lapse(ticket)
            self._call()
        self._now_ns = max(self._now_ns, now_ns)
        self.free_at = {ref: ns for ref, ns in self.free_at.items() if ns > self._now_ns}

    def _call(self) -> None:
        """Call each waiting ticket whose entities are rested and in no called or earlier ticket."""
        taken = {ref for t in self.tickets.values() if t.called_ns is not None for ref in t.refs}
        for ticket in sorted(self.tickets.values(), key=self._place):
            is_rested = all(self.free_at.get(ref, 0) <= self._now_ns for ref in ticket.refs)
            if ticket.called_ns is None and is_rested and taken.isdisjoint(ticket.refs):
                ticket.called_ns = self._now_ns
            taken.update(ticket.refs)

    def _place(self, ticket: Ticket) -> tuple[bool, int, int]:
        """Return the place of a ticket in the order: owners that had their part come last."""
        return ticket.finish - ticket.length_ns > self._virtual, ticket.finish, ticket.number

    def _lapse(self, ticket: Ticket) -> None:
        """Drop a called ticket that was not started in time."""
        assert ticket.called_ns is not None, "only a called ticket lapses"
        start_ns_max = self.settings.start_ns_max
        if ticket.called_ns + start_ns_max <= self._now_ns:
            self._drop(ticket, ticket.called_ns + start_ns_max)

    def _drop(self, ticket: Ticket, at_ns: int) -> None:
        """Drop a ticket that was not started, and charge its owner for the time since its call."""
        if ticket.called_ns is not None:
            self._charge(ticket, at_ns - ticket.called_ns)
        del self.tickets[ticket.agent_id]

    def _end(self, ticket: Ticket, at_ns: int) -> None:
        """End a lease: charge its owner for the used time, and let its entities rest."""
        assert ticket.started_ns is not None, "only a running lease ends"
        used, share_ppm = at_ns - ticket.started_ns, self.settings.share_ppm
        self._charge(ticket, used)
        for ref in ticket.refs:
            self.free_at[ref] = at_ns + used * (_MILLION - share_ppm) // share_ppm
        del self.tickets[ticket.agent_id]

    def _charge(self, ticket: Ticket, used_ns: int) -> None:
        """Charge an owner for the time in which its ticket kept others from the entities."""
        self._virtual += used_ns // len(self.tickets)
        self._finish[ticket.owner] = ticket.finish - ticket.length_ns + used_ns
        self._finish = {owner: at for owner, at in self._finish.items() if at > self._virtual}

    # snapshots

    @property
    def is_unused(self) -> bool:
        """No ticket was requested so far."""
        return not self._numbers

    def dump(self) -> list[Json]:
        """Return the table as plain JSON. O(tickets)."""
        tickets = [
            [t.number, t.agent_id, t.owner, [list(ref) for ref in t.refs], t.length_ns, t.finish,
             t.called_ns, t.started_ns, t.until_ns]
            for t in self.tickets.values()
        ]  # fmt: skip
        resting = sorted([*ref, ns] for ref, ns in self.free_at.items())
        return [self._numbers, self._virtual, self._finish, self._now_ns, tickets, resting]

    def load(self, dumped: Sequence[Json]) -> None:
        """Take the content over from a dump."""
        self._numbers, self._virtual, finish, self._now_ns, tickets, resting = dumped
        self._finish = dict(finish)
        for number, agent_id, owner, refs, *rest in tickets:
            pairs = tuple(Ref(*ref) for ref in refs)
            self.tickets[agent_id] = Ticket(number, agent_id, owner, pairs, *rest)
        self.free_at = {Ref(collection, entity): ns for collection, entity, ns in resting}


def has_lease_kinds(counts: Iterable[tuple[str, str, int]]) -> bool:
    """Return whether a batch with these counts requests or releases a lease."""
    return any(kind in LEASE_KINDS for _, kind, _ in counts)


def refs_of(payload: Mapping[str, Json]) -> tuple[Ref, ...]:
    """Return the entities of a request, sorted, each once."""
    return tuple(sorted({Ref(*ref) for ref in payload["refs"]}))


def apply_intents(
    table: LeaseTable, intents: Sequence[Intent], agents: Mapping[str, Agent], now_ns: int
) -> dict[int, Json]:
    """Apply the lease intents of an admitted batch in order; return the output of each.

    Args:
        table: The table, which is changed.
        intents: Intents of the batch.
        agents: The agents of the world.
        now_ns: Time of its record.
    """
    outputs: dict[int, Json] = {}
    for position, intent in enumerate(intents):
        agent_id = intent["agent_id"]
        if intent["kind"] == LEASE:
            ticket = table.request(agent_id, agents[agent_id].owner, intent["payload"], now_ns)
            outputs[position] = table.answer_of(ticket)
        elif intent["kind"] == RELEASE:
            outputs[position] = {"released": table.release(agent_id, now_ns)}
    return outputs
