"""The rules of sessions, in stepped time."""

from itertools import count
from typing import Any

import pytest

from placet.actors.observation.viewer import Viewer
from placet.domains.session import KINDS, RECORDER, Sessions
from placet.kernel import Kernel, KernelConfig
from placet.kernel.log.replay import folded
from placet.kernel.log.snapshot import world_digest
from placet.kernel.log.verify import Verifier


class Room:
    """A kernel with sessions alone, and the recorder's handle."""

    def __init__(self, **settings: Any) -> None:
        self.records: list[bytes] = []
        self.kernel = Kernel(Sessions(**settings), KernelConfig(), sink=self.records.append)
        self.kernel.register_agent(RECORDER, permissions=KINDS)
        self._numbers = count(1)

    def says(self, kind: str, *, now: float = 0.0, **payload: Any) -> str:
        """Submit as the recorder; return the code of the refusal, or ""."""
        intent = {
            "kind": f"session.{kind}",
            "payload": payload,
            "agent_id": RECORDER,
            "req_id": f"r:{next(self._numbers)}",
            "context_seq": self.kernel.seq,
            "priority": 10,
            "schema_version": "1.0.0",
        }
        verdict = self.kernel.decide([intent], now)
        return "" if verdict.admitted else str(verdict.refusals[0].code).removeprefix("session.")

    def turn(self, number: int, agent: str = "ann") -> str:
        return self.says(
            "turn", session="s", turn=number, agent=agent, mode="assisted", route="agent",
            message="m",
        )  # fmt: skip

    def grant(self, name: str, **changed: Any) -> str:
        now = changed.pop("now", 0.0)
        told = {"proposer": "ann", "by": "eve", "uses": 2, "seconds": 10.0, **changed}
        return self.says("grant", now=now, grant=name, kinds="*", equals={}, **told)

    def use(self, name: str, *, uses: int = 1, by: str = "ann", now: float = 0.0) -> str:
        return self.says("use", now=now, grant=name, proposer=by, uses=uses)

    def end(self, number: int, **requests: Any) -> str:
        told: dict[str, Any] = {"outcome": "said", "stop": "said", "text": "", "results": []}
        return self.says("end", session="s", turn=number, **told, **requests)

    def waiting(self) -> tuple[str, ...]:
        """Return the requests whose end no turn has recorded."""
        return tuple(self.rows("sessions")["s"]["approvals"])

    def rows(self, collection: str) -> dict[str, Any]:
        return dict(self.kernel.state.get(f"session.{collection}", {}))

    def seen_by(self, agent_id: str) -> dict[str, list[str]]:
        state = Viewer(self.kernel).view(self.kernel, agent_id).state
        return {name: list(rows) for name, rows in state.items()}


@pytest.fixture
def room() -> Room:
    made = Room()
    assert made.turn(1) == ""
    return made


def test_turns_are_numbered_one_after_the_other(room: Room) -> None:
    assert [room.turn(number) for number in (1, 3, 2)] == ["turn_out_of_order"] * 2 + [""]


@pytest.mark.parametrize("number", [1, 2, 9])
def test_a_session_belongs_to_one_agent_at_every_turn(room: Room, number: int) -> None:
    assert room.turn(number, agent="bob") == "agent_other"
    assert room.rows("sessions")["s"]["agent"] == "ann"
    assert room.turn(2) == ""


def test_the_state_keeps_a_bounded_number_of_turns() -> None:
    room = Room(turns_kept=3)
    assert {room.turn(number) for number in range(1, 8)} == {""}
    assert sorted(room.rows("turns")) == ["s/000005", "s/000006", "s/000007"]


def test_a_turn_that_is_not_running_cannot_ask_or_end(room: Room) -> None:
    ask: dict[str, Any] = {"session": "s", "attempt": 1, "adapter": "x", "digest": ""}
    assert room.says("ask", turn=1, **ask) == "tool_unregistered"
    assert [room.end(1), room.end(1)] == ["", "turn_unknown"]
    assert room.says("ask", turn=1, **ask) == "turn_unknown"
    assert room.end(9) == "turn_unknown"


def test_a_session_keeps_its_held_plans_until_a_turn_records_their_end(room: Room) -> None:
    assert room.end(1, approval_id="a") == ""
    assert (room.turn(2), room.end(2, approval_id="a")) == ("", "")
    assert (room.turn(3), room.end(3, approval_id="b")) == ("", "")
    assert room.waiting() == ("a", "b")
    assert (room.turn(4), room.end(4, ended=["a", "other"], approval_id="c")) == ("", "")
    assert room.waiting() == ("b", "c")


def test_the_number_of_held_plans_of_a_session_is_bounded(room: Room) -> None:
    for number in range(1, 101):
        assert (room.end(number, approval_id=f"a{number}"), room.turn(number + 1)) == ("", "")
    assert room.waiting() == tuple(f"a{number}" for number in range(37, 101))


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({}, ""),
        ({"uses": 2}, ""),
        ({"uses": 3}, "grant_over"),
        ({"by": "bob"}, "grant_unknown"),
        ({"now": 10.0}, ""),
        ({"now": 10.001}, "grant_over"),
    ],
)
def test_the_uses_and_expiry_of_a_grant(room: Room, changed: dict[str, Any], code: str) -> None:
    assert room.grant("g") == ""
    assert room.use("g", **changed) == code
    assert room.rows("grants")["g"]["uses"] == (2 if code else 2 - changed.get("uses", 1))


def test_a_wildcard_grant_is_for_every_agent_and_no_agent_grants_to_itself(room: Room) -> None:
    assert room.grant("g", proposer="*") == ""
    assert room.use("g", by="bob") == ""
    assert room.use("zzz") == "grant_unknown"
    assert room.grant("g") == "grant_exists"
    assert room.grant("own", by="ann") == "grant_own"


def test_used_up_and_expired_grants_free_their_slots() -> None:
    room = Room(grants_kept=2)
    assert [room.grant(name, uses=1) for name in "abc"] == ["", "", "grants_full"]
    assert room.use("a") == ""
    assert room.grant("d") == ""
    assert sorted(room.rows("grants")) == ["b", "d"]
    assert room.grant("e", now=10.5) == ""
    assert sorted(room.rows("grants")) == ["e"]


def test_the_held_plans_and_grants_of_an_agent_end_with_it(room: Room) -> None:
    room.kernel.register_agent("ann")
    assert room.end(1, approval_id="open") == ""
    assert [room.grant("hers"), room.grant("all", proposer="*")] == [""] * 2
    room.kernel.change_agent("ann", "removed")
    room.kernel.register_agent("ann")
    assert [room.use("hers"), room.use("all")] == ["grant_unknown", ""]
    assert room.waiting() == ()


def test_a_later_agent_of_the_same_name_sees_nothing_of_the_former(room: Room) -> None:
    room.kernel.register_agent("ann")
    assert [room.end(1, approval_id="open"), room.turn(2)] == [""] * 2
    assert list(room.seen_by("ann")) == ["session.sessions", "session.turns"]
    room.kernel.change_agent("ann", "removed")
    room.kernel.register_agent("ann")
    assert room.seen_by("ann") == {}
    assert room.end(2) == "turn_unknown", "it has ended with its agent"
    assert [room.turn(1), room.turn(3)] == ["turn_out_of_order", ""], "no turn's name comes twice"
    assert room.seen_by("ann") == {"session.sessions": ["s"], "session.turns": ["s/000003"]}


def test_another_agents_session_is_left_alone_by_a_removal(room: Room) -> None:
    room.kernel.register_agent("bob")
    assert room.end(1, approval_id="open") == ""
    before = room.seen_by("ann")
    room.kernel.change_agent("bob", "removed")
    assert room.seen_by("ann") == before
    assert room.waiting() == ("open",)


def test_the_removal_of_an_agent_replays_to_the_same_state(room: Room) -> None:
    room.kernel.register_agent("ann")
    assert [room.end(1, approval_id="h"), room.grant("g"), room.turn(2)] == [""] * 3
    room.kernel.change_agent("ann", "removed")
    assert room.turn(3) == ""
    again = Verifier([Sessions()])
    for data in room.records:
        again.apply(data)
    digests = {world_digest(one.state, one.ledger).hex() for one in (again, folded(room.records))}
    assert digests == {room.kernel.world_digest()}


def test_a_guard_passes_at_one_seq_only(room: Room) -> None:
    assert room.says("guard", seq=room.kernel.seq + 1) == ""
    assert room.says("guard", seq=room.kernel.seq) == "seq_changed"


def test_settings_recreate_the_domain() -> None:
    made = Sessions(turns_kept=1, grants_kept=3)
    assert Sessions(**made.settings()).settings() == made.settings()
