"""Verdicts on column batches: counts, arrays, and the ordinary verdict of one row."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from placet.kernel import ColumnBatch, Domain, Field, Kernel, KernelConfig, Kind, RecordList, Table
from placet.kernel.visibility.policy import Visibility
from placet.schemas.limits import Limits
from placet.schemas.refusal import STAGE_OF
from tests.kernel.columns.lab import lab_kernel

if TYPE_CHECKING:
    from placet.schemas.verdict import Verdict

N = 4
SLOW = {"rate": 0.5, "burst": 1}


def world(population: Any = None, **options: Any) -> Kernel:
    """Return a world of four birds."""
    kernel = lab_kernel(N, N, KernelConfig(seed=1, **options), sink=RecordList())
    kernel.register_population(
        "birds",
        N,
        table="lab.agents",
        position=np.full((N, 2), 500.0),
        cell=np.arange(N),
        **(population or {}),
    )
    return kernel


def roll(req_id: str = "a:0", **parts: Any) -> ColumnBatch:
    return ColumnBatch("Swap", "birds", {}, req_id, **parts)


def refusal_of(verdict: Any, row: int) -> Any:
    """Return the only refusal of a row, whose stage must be that of its code."""
    one: Verdict = verdict[row]
    assert not one.admitted
    assert one.seq is None
    (refusal,) = one.refusals
    assert refusal.index == row
    assert refusal.req_id == verdict.req_id
    assert refusal.stage == STAGE_OF.get(refusal.code, "domain")
    assert refusal.details["agent_id"] == f"birds:{row}"
    return refusal


def test_an_admitted_row_has_the_verdict_of_an_intent() -> None:
    kernel = world()
    (verdict,) = kernel.step(1.0, [roll()])
    assert verdict.counts() == {"admitted": N}
    assert verdict.retry_after is None
    assert verdict.admitted.all()
    assert [verdict.code_of(code) for code in verdict.codes.tolist()] == ["admitted"] * N
    assert not verdict.codes.flags.writeable
    one = verdict[-1]
    assert (one.admitted, one.seq, one.req_ids) == (True, verdict.seq, ["a:0"])
    assert len(list(verdict)) == len(verdict) == N
    for row in (N, -N - 1):
        with pytest.raises(IndexError, match=rf"rows 0\.\.3, and no row {row}"):
            verdict[row]
    assert repr(verdict) == "<ColumnVerdict b1 of birds: {'admitted': 4}>"


def test_names_of_codes_are_plain_strings() -> None:
    kernel = world()
    kernel.change_agent("birds:1", "suspended")
    x = [1, 3, 4, 5]
    verdict = kernel.decide_columns(ColumnBatch("Fragile", "birds", {"x": x}, "a:0"))
    assert {type(name) for name in verdict.counts()} == {str}
    assert verdict.counts() == {
        "admitted": 1, "agent_suspended": 1, "lab.four": 1, "lab.five": 1,
    }  # fmt: skip
    assert refusal_of(verdict, 3).message == "x is not 5"


def test_a_payload_that_does_not_fit_names_the_bounds() -> None:
    verdict = world().decide_columns(
        ColumnBatch("Move", "birds", {"to": [[500.0, 500.0]] * 3 + [[-1, 2]]}, "a:0")
    )
    refusal = refusal_of(verdict, 3)
    assert refusal.code == "payload_invalid"
    assert "out of bounds: to 0..1000.0" in refusal.message


def test_a_stranger_may_not_speak_for_a_population() -> None:
    kernel = world({"owner": "keeper"})
    refusal = refusal_of(kernel.decide_columns(roll(submitter="thief")), 2)
    assert refusal.code == "agent_not_yours"
    assert "'thief' may not speak for population 'birds'; submit as the" in refusal.message
    assert kernel.decide_columns(roll("b:0", submitter="keeper")).admitted.all()


def test_a_kind_that_is_not_permitted_names_those_that_are() -> None:
    for permissions, shown in (({"Move"}, "['Move']"), (set(), "nothing")):
        refusal = refusal_of(world({"permissions": permissions}).decide_columns(roll()), 0)
        assert refusal.code == "permission_denied"
        assert refusal.message.endswith(f"may not propose Swap; it may propose {shown}")


def test_a_suspended_member_is_refused_alone() -> None:
    kernel = world()
    kernel.change_agent("birds:1", "suspended")
    verdict = kernel.decide_columns(roll())
    assert verdict.admitted.tolist() == [True, False, True, True]
    assert "'birds:1' is suspended; it may propose again" in refusal_of(verdict, 1).message


def test_contexts_are_named_where_they_are_known() -> None:
    kernel = world(staleness_threshold=1)
    for number in range(3):
        kernel.decide_columns(roll(f"a:{number}", context_seq=kernel.seq))
    seq = kernel.seq
    batch = roll("b:0", context_seq=[seq, seq + 1, seq - 2, seq])
    verdict = kernel.decide_columns(batch)
    assert verdict.counts() == {"admitted": 2, "context_from_future": 1, "stale_context": 1}
    future, behind = refusal_of(verdict, 1), refusal_of(verdict, 2)
    assert f"context_seq {seq + 1} is ahead of the world, which is at seq {seq};" in future.message
    assert f"context_seq {seq - 2} is 2 behind the world at seq {seq};" in behind.message
    assert behind.details["context_seq"] == seq - 2
    again = kernel.decide_columns(roll("b:0", context_seq=0))
    assert again.replayed
    refusal = refusal_of(again, 1)
    assert refusal.message == "the world has not reached its context"
    assert "context_seq" not in refusal.details


def test_two_causes_of_one_code_are_counted_together() -> None:
    kernel = world(staleness_threshold=1)
    for number in range(3):
        kernel.decide_columns(roll(f"a:{number}"))
    seq = kernel.seq
    kernel.patch([("lab.agents", "birds:0", {"hue": 1}, False)], "paint")
    contexts = [seq, seq - 2, seq, seq]
    to = np.full((N, 2), 500.0)
    verdict = kernel.decide_columns(
        ColumnBatch("Move", "birds", {"to": to}, "b:0", context_seq=contexts)
    )
    assert len(set(verdict.codes.tolist())) == 3
    assert verdict.counts() == {"admitted": 2, "stale_context": 2}


def test_a_stale_row_shows_what_changed_as_it_is_now() -> None:
    kernel = world()
    seq = kernel.seq
    kernel.patch([("lab.agents", "birds:2", {"hue": 1}, False)], "paint")
    to = np.full((N, 2), 500.0)
    verdict = kernel.decide_columns(
        ColumnBatch("Move", "birds", {"to": to}, "a:0", context_seq=seq)
    )
    refusal = refusal_of(verdict, 2)
    assert f"lab.agents/birds:2 changed after context_seq {seq};" in refusal.message
    (change,) = refusal.changed
    assert (change["entity"], change["by"]) == ("lab.agents/birds:2", "operator")
    assert change["now"]["hue"] == 1
    kernel.patch([("lab.agents", "birds:2", {"hue": 3}, False)], "paint")
    assert refusal_of(verdict, 2).changed[0]["now"]["hue"] == 3


@pytest.mark.parametrize("own", [True, False])
def test_a_quota_names_the_seconds_until_a_row_passes(own: bool) -> None:
    quotas = {"Swap": SLOW}
    kernel = world({"quotas": quotas}) if own else world(quotas=quotas)
    assert kernel.decide_columns(roll("a:0", agents=[1, 2]), 1.0).admitted.all()
    verdict = kernel.decide_columns(roll("a:1"), 1.5)
    assert verdict.admitted.tolist() == [True, False, False, True]
    assert verdict.retry_after is not None
    seconds = verdict.retry_after.tolist()
    assert np.isnan(seconds[0])
    assert seconds[1] == refusal_of(verdict, 1).retry_after == 1.5
    assert "quota is used up; retry in 1.50 s" in refusal_of(verdict, 1).message
    assert kernel.decide_columns(roll("a:2", agents=[1]), 1.5 + seconds[1]).admitted.all()


def test_a_retry_at_the_named_second_is_never_too_early() -> None:
    kernel = world({"quotas": {"Swap": {"rate": 0.3, "burst": 1}}})
    now = 0.1
    for number in range(30):
        assert kernel.decide_columns(roll(f"a:{number}"), now).admitted.all()
        verdict = kernel.decide_columns(roll(f"b:{number}"))
        assert verdict.retry_after is not None
        now = kernel.sim_time + float(verdict.retry_after[0])
        assert kernel.decide_columns(roll(f"c:{number}"), now).admitted.all()
        now = kernel.sim_time + 1e8 / 7


def test_the_quota_of_the_world_refuses_all_rows_that_reach_it() -> None:
    kernel = world(world_quota={"rate": 1.0, "burst": N})
    kernel.change_agent("birds:3", "suspended")
    assert kernel.decide_columns(roll("a:0"), 1.0).counts() == {"admitted": 3, "agent_suspended": 1}
    verdict = kernel.decide_columns(roll("a:1"), 1.0)
    assert verdict.counts() == {"agent_suspended": 1, "quota_exceeded": 3}
    refusal = refusal_of(verdict, 0)
    assert refusal.retry_after == 2.0
    assert "the world's quota is used up; retry in 2.00 s" in refusal.message
    assert kernel.decide_columns(roll("a:2"), 3.0).counts()["admitted"] == 3


def test_more_rows_than_the_burst_of_the_world_never_pass() -> None:
    verdict = world(world_quota={"rate": 1.0, "burst": N - 1}).decide_columns(roll())
    assert verdict.retry_after is not None
    assert np.isinf(verdict.retry_after).all()
    refusal = refusal_of(verdict, 0)
    assert refusal.retry_after is None
    assert "waiting does not help; send fewer rows at once" in refusal.message


def test_a_request_that_was_used_is_named() -> None:
    kernel = world()
    first = kernel.decide_columns(roll("a:0"))
    again = kernel.decide_columns(roll("a:0"))
    assert (again.replayed, again.seq, again[0].replayed) == (True, first.seq, True)
    other = kernel.decide_columns(roll("a:0", agents=[1]))
    assert other[0].refusals[0].code == "req_id_reused"
    assert "'a:0'; send it under a new req_id" in other[0].refusals[0].message
    for number in (1, 2):
        kernel.decide_columns(roll(f"a:{number}"))
    old = refusal_of(kernel.decide_columns(roll("a:0")), 0)
    assert old.code == "req_id_too_old"


def test_sequences_of_requests_are_forgotten_beyond_a_limit() -> None:
    kernel = world(limits=Limits(column_batches_kept=1, window_sequences_max=2))
    for stem in "abcd":
        assert kernel.decide_columns(roll(f"{stem}:0")).admitted.all()
    assert kernel.decide_columns(roll("c:0")).counts() == {"req_id_too_old": N}
    assert kernel.decide_columns(roll("a:0")).admitted.all()


def test_a_rule_that_raises_is_named() -> None:
    verdict = world().decide_columns(ColumnBatch("Fragile", "birds", {"x": [1, 3, 1, 1]}, "a:0"))
    refusal = refusal_of(verdict, 1)
    assert refusal.code == "rule_error"
    assert "the rule of Fragile raised for this row" in refusal.message


def test_a_value_out_of_bounds_is_a_code_of_the_domain() -> None:
    verdict = world().decide_columns(ColumnBatch("Fragile", "birds", {"x": [1, 9, 1, 1]}, "a:0"))
    assert refusal_of(verdict, 1).code == "lab.out_of_bounds"


def take(rows: Any) -> None:
    rows.claim("den.people", rows.payload["what"])
    rows.write("has", rows.payload["what"])


class Den(Domain):
    """People who see themselves alone, or all."""

    name, version = "den", "1"
    tables = (Table("den.people", {"has": Field("i4")}),)
    kinds = (Kind("Take", {"what": Field("i4")}, rows=take, table="den.people"),)
    hides = ("den.people",)

    def __init__(self, *, is_open: bool) -> None:
        self.is_open = is_open

    def may_see(self, state: Any, agent_id: str, ref: Any) -> bool:
        return self.is_open or ref.entity == agent_id


def test_a_lost_claim_names_the_winner_and_its_change() -> None:
    kernel = world()
    batch = ColumnBatch("Take", "birds", {"cell": [1, 1, 2, 3]}, "a:0")
    verdict = kernel.decide_columns(batch)
    loser = int(np.flatnonzero(verdict.winners >= 0)[0])
    winner = f"birds:{verdict.winners[loser]}"
    refusal = refusal_of(verdict, loser)
    assert refusal.code == "conflict"
    assert refusal.details["winner"] == winner
    assert f"was taken at the same moment by {winner!r}; look again" in refusal.message
    assert [change["entity"] for change in refusal.changed] == [f"lab.agents/{winner}"]
    assert refusal.changed[0]["by"] == winner


@pytest.mark.parametrize("is_open", [True, False])
def test_a_change_is_shown_to_an_agent_that_may_see_it(is_open: bool) -> None:
    kernel = Kernel(Den(is_open=is_open))
    kernel.register_population("people", 3, table="den.people")
    verdict = kernel.decide_columns(ColumnBatch("Take", "people", {"what": [1, 1, 1]}, "a:0"))
    loser = int(np.flatnonzero(verdict.winners >= 0)[0])
    assert bool(verdict[loser].refusals[0].changed) == is_open


class OwnAlone(Visibility):
    """Shows each agent its own entity alone."""

    agent_collection = "den.people"
    hides: frozenset[str] | None = frozenset({"den.people"})

    def may_see(self, state: Any, agent_id: str, ref: Any) -> bool:
        return bool(ref.entity == agent_id)


class HiddenDen(Den):
    """People who do not know of each other."""

    sight: Any = OwnAlone()

    def __init__(self) -> None:
        super().__init__(is_open=False)
        self.sight = OwnAlone()


def test_a_winner_is_named_only_where_the_agent_may_know_of_it() -> None:
    kernel = Kernel(HiddenDen())
    kernel.register_population("people", 3, table="den.people")
    verdict = kernel.decide_columns(ColumnBatch("Take", "people", {"what": [1, 1, 1]}, "a:0"))
    loser = int(np.flatnonzero(verdict.winners >= 0)[0])
    refusal = verdict[loser].refusals[0]
    assert "winner" not in refusal.details
    assert refusal.message.endswith("at the same moment; look again and choose another")
    assert refusal.changed == ()
