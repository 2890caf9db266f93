"""`placet explain` and `Orchestrator.explain`: their text and their JSON."""

from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest

from placet import Orchestrator, OrchestratorConfig
from placet.cli.commands.explain import _change_rows, _result_lines, explanation_lines
from placet.cli.terminal import plain_lines
from placet.domains.world import World
from placet.history.bisect import bisect
from placet.history.explain import explain, explain_seq
from placet.kernel import Kernel, KernelConfig, Kind
from placet.schemas.config import QuotaSpec
from placet.schemas.errors import StoreError
from placet.schemas.log.record import LogAppend, decode_record
from placet.stores.memory import MemoryEventLog
from placet.stores.url import open_event_log
from tests.cli.command_line import move
from tests.cli.test_verify import DOMAINS, a_log, forged, in_memory, stored
from tests.golden.make import square
from tests.kernel.builders import add, intent, kernel_of
from tests.kernel.domains import Lab
from tests.kernel.plugin.test_rules_version import poured_in_liters, tank_2
from tests.stores.snapshots.logs import cut_at, snapshot_at, write_log

QUOTAS: dict[str, QuotaSpec] = {"Move": {"rate": 1, "burst": 2}}


def lines_of(explained):
    return list(plain_lines(explanation_lines(explained)))


@pytest.fixture
def lived(placet):
    """A log of a move, a refused move, a contention, a scheduled batch, and unrecorded refusals."""
    records: list[bytes] = []
    kernel = Kernel(
        World(objects={"cup": {"position": [1, 0]}}, max_step=4),
        KernelConfig(quotas=QUOTAS),
        sink=records.append,
    )
    for agent_id in ("ann", "bob"):
        kernel.register_agent(agent_id, position=[0, 0])
    take = {"target_id": "cup", "interaction_type": "pickup"}
    fresh = {"context_seq": kernel.seq}
    kernel.decide([move(number=0, to=(1.0, 0.0, 0.0), **fresh), move(number=1, **fresh)], 1.0)
    kernel.decide([move(number=2, to=(9.0, 9.0, 0.0))], 4.0)
    kernel.decide_group(
        [[move(a, 7, kind="Interact", payload=take, context_seq=5)] for a in ("ann", "bob")], 5.0
    )
    kernel.decide([move(number=3), move(number=4), move(number=5)])  # beyond the burst
    kernel.decide({"intents": [move("bob", 8, context_seq=6)], "sim_time": 9})
    kernel.decide([], 9.0)
    kernel.tick(10.0)
    stored(placet.folder / "a.db", records)
    return placet


def words(outcome):
    """The text without its layout."""
    return " ".join(outcome.out.split())


def test_an_admitted_batch_is_explained_stage_by_stage(lived):
    outcome = lived("explain", "a.db", "ann", "ann:1")
    assert outcome.code == 0
    told = words(outcome)
    assert told.startswith("ann ann:1: admitted at seq 5 batch b1, submitted by operator")
    assert "> 1 ann ann:1 Move" in told
    for stage in (
        "structure passed 2 intents of at most 512",
        "agent passed ann: registered, not suspended, may propose all kinds; proposed Move",
        "dedup passed ann:0 … ann:1 are new; 0 verdicts of ann remembered",
        "staleness passed intent 0: context_seq 3, the world was at seq 3: 0 behind, no bound",
        "reads world.agents/ann: not changed by another agent",
        "quota passed ann, Move: 1/s, burst 2, one per 1 s; available 2, charged 2, left 0",
        "backpressure passed the batch requests no effect, and is not scheduled for later",
        "domain passed intent 0: rule Move of world 2+",
    ):
        assert stage in told
    assert "Changes: world.agents/ann position [0.0,0.0,0.0] -> [1.0,2.0,0.0]" in told


def test_a_refusal_is_explained_by_the_rule_that_made_it(lived):
    told = words(lived("explain", "a.db", "ann", "ann:2"))
    assert told.startswith("ann ann:2: refused by domain: world.step_too_long batch b2")
    assert "✗ world.step_too_long: from [1.0, 2.0, 0.0] to [9.0, 9.0, 0.0] is" in told


def test_a_conflict_shows_its_winner(lived):
    losers = [a for a in ("ann", "bob") if "refused" in lived("explain", "a.db", a, f"{a}:7").out]
    (loser,) = losers
    winner = {"ann": "bob", "bob": "ann"}[loser]
    report = lived("explain", "a.db", loser, f"{loser}:7", "--json").json()
    assert report["conflict"]["winner"] == winner
    assert report["conflict"]["req_ids"] == [f"{winner}:7"]
    told = words(lived("explain", "a.db", loser, f"{loser}:7"))
    assert f"{winner} took world.objects/cup first with b" in told
    assert "the order is: due time, priority, then a draw from the seed" in told


def test_a_row_of_a_column_batch_is_explained_as_an_intent(placet):
    records: list[bytes] = []
    square(records)
    stored(placet.folder / "square.db", records)
    by = ("--domain", "tests.golden.square:Square")
    told = words(placet("explain", "square.db", "sellers:11", "Settle:1", *by))
    assert told.startswith("sellers:11 Settle:1: refused by domain: conflict batch b1")
    assert "stall 6, within 0 and 8" in told
    assert "Settle:1 is new; 0 verdicts on column batches of sellers remembered (at most 2)" in told
    assert "took a row that it claimed first, in the same group" in told
    at = next(r.seq for r in map(decode_record, records) if getattr(r, "req_id", "") == "Settle:1")
    told = words(placet("explain", "square.db", "sellers:0", "--seq", f"{at}", *by))
    assert told.startswith("sellers:0 Settle:1: admitted at seq")
    assert "square.people/sellers:0 stall -1 -> 0" in told
    told = words(placet("explain", "square.db", "--seq", f"{at}", *by))
    assert told.startswith(f"columns at seq {at}")
    assert placet("explain", "square.db", "sellers:0", *by).code == 2
    assert "has no row" in placet("explain", "square.db", "ann", "--seq", f"{at}", *by).err


def test_a_scheduled_batch_shows_the_stages_of_its_arrival(lived):
    told = words(lived("explain", "a.db", "bob", "bob:8"))
    assert told.startswith("bob bob:8: admitted at seq 8")
    assert "quota passed on arrival" in told
    assert "Earlier it was scheduled (record" in told
    told = words(lived("explain", "a.db", "--seq", "7"))
    assert "schedule: 0 batches, at most 10000" in told
    assert "the rules run when the batch is due, at 9 s" in told


def test_a_request_without_a_record_is_unknown_with_hints(lived):
    outcome = lived("explain", "a.db", "ann", "ann:4")
    assert outcome.code == 1
    told = words(outcome)
    assert told.startswith("ann ann:4: unknown The log holds no verdict on this request.")
    assert "quota the agent exceeded its quota" in told
    assert "placet_refusals_total" in told
    assert "Known from the log: 'ann' is registered and not suspended; of its requests" in told
    assert "no agent 'zoe' was ever registered" in words(lived("explain", "a.db", "zoe", "1"))
    report = lived("explain", "a.db", "zoe", "1", "--json").json()
    assert (report["answer"], report["stages"], report["record"]) == ("unknown", [], None)


@pytest.mark.parametrize(
    ("seq", "begins"),
    [
        (0, "header at seq 0, 0 s (record 0)"),
        (
            1,
            "configured at seq 1, 0 s (record 1) staleness_threshold null quotas Move 1/s",
        ),
        (2, "registered at seq 2, 0 s (record 2) agent_id"),
        (4, "ann ann:0: admitted at seq 4"),
        (9, "tick at seq 9, 10 s"),
    ],
)
def test_any_seq_can_be_explained(lived, seq, begins):
    assert words(lived("explain", "a.db", "--seq", str(seq))).startswith(begins)


def test_invalid_arguments_are_errors(lived):
    outcome = lived("explain", "a.db", "--seq", "99")
    assert (outcome.code, "it ends at seq 9" in outcome.err) == (1, True)
    for arguments in (["a.db"], ["a.db", "ann"], ["a.db", "ann", "ann:1", "--seq", "1"]):
        outcome = lived("explain", *arguments)
        assert (outcome.code, "give AGENT and REQ_ID, or --seq N" in outcome.err) == (2, True)
    assert lived("explain", "nowhere.db", "ann", "1").code == 1


def test_an_explanation_without_the_domain_uses_the_log_only(placet):
    (placet.folder / "domains_of_an_explanation.py").write_text(DOMAINS)
    from placet.plugins.domains import find_domain

    domain = find_domain("domains_of_an_explanation:factory")()
    stored(placet.folder / "own.db", a_log(domain))
    told = words(placet("explain", "own.db", "ann", "ann:0"))
    assert "its reads are not known without its domain" in told
    assert "intent 0: rule Move of a domain that is not available" in told
    assert "Note: not re-executed: the log does not have the settings" in told
    spec = "domains_of_an_explanation:ready"
    told = words(placet("explain", "own.db", "ann", "ann:0", "--domain", spec))
    assert "reads world.agents/ann: not changed by another agent" in told


def test_a_diverging_log_is_explained_as_written():
    group: list[bytes] = []
    kernel = kernel_of(Lab(), sink=group)
    kernel.decide_group([[intent("Grab", {"thing": "cup"}, agent_id=a)] for a in ("alice", "bob")])
    log = in_memory(group)
    loser = (kernel.tree.get("lab.things", "cup", "holder") == "alice" and "bob") or "alice"
    assert explain(log, loser, "r", [Lab()]).conflict is not None

    class Generous(Lab):
        """A domain with the same name and other rules."""

        kinds = tuple(
            kind if kind.name != "Grab" else type(kind)("Grab", kind.payload, lambda d, i: None)
            for kind in Lab.kinds
        )

    explained = explain(log, loser, "r", [Generous()])
    assert explained.answer == "refused"
    assert "see `placet verify`" in explained.notes[-1]
    assert explained.conflict is None


def test_a_request_that_cannot_be_upcast_is_explained_as_written():
    log = in_memory(poured_in_liters())
    broken = tank_2(lambda payload: {"milliliters": payload["gallons"]})
    explained = explain(log, "alice", "p", [broken])
    assert explained.answer == "admitted"
    assert "upcaster of Pour from version 1 raised KeyError" in explained.notes[-1]


def test_a_forged_record_is_explained():
    explained = explain(in_memory(forged(a_log())), "ann", "ann:0")
    assert explained.changes[0]["fields"]["position"]["after"] == [3.0, 0.0, 0.0]


def test_a_compacted_answer_is_explained_from_the_dedup_window(tmp_path):
    records: list[bytes] = []
    kernel = kernel_of(Lab(), sink=records)
    kernel.decide(add("r:0"))
    kernel.decide(intent("Take", {"amount": 99}, "r:1"))
    for number in range(2, 9):
        kernel.decide(add(f"r:{number}"))
    log = write_log(tmp_path / "a.db", records)
    assert explain(log, "alice", "r:0", [Lab()]).is_known
    for at in (8, 10):
        snapshot_at(log, records, at)
    cut_at(log, 7)
    admitted, refused, never = (explain(log, "alice", f"r:{n}", [Lab()]) for n in (0, 1, 99))
    assert "this request among them: it was admitted, with its batch, at seq 5" in admitted.notes
    assert "this request among them: it was refused by domain: lab.too_few" in refused.notes
    assert never.notes[-1] == "its latest decided request is 'r:8'"
    told = "\n".join(lines_of(admitted))
    assert "its verdict is older\nthan the log" in told
    assert "Known from the log: the log was compacted up to seq" in told


def test_a_forgotten_agent_is_not_reported_as_never_registered():
    records: list[bytes] = []
    kernel = kernel_of(Lab(), sink=records, limits={"removed_agents_max": 1})
    for agent_id in ("alice", "bob"):
        kernel.change_agent(agent_id, "removed")
    notes = explain(in_memory(records), "alice", "r", [Lab()]).notes
    assert notes == ("'alice' is not registered; agents removed long ago are forgotten",)


def test_numbers_are_rounded_unless_the_change_would_vanish():
    change = {"entity": "a/b", "what": "changed"}
    fields = {
        "long": {"before": [0.1 + 0.2, 1 / 3], "after": [24.557504718642495, 1]},
        "near": {"before": 0.3, "after": 0.1 + 0.2},
    }
    rows = _change_rows({**change, "fields": fields})
    assert rows[0] == ("a/b", "long", "[0.3,0.333333] -> [24.5575,1]")
    assert rows[1] == ("", "near", "0.3 -> 0.30000000000000004")


def test_a_thousand_changes_are_truncated():
    objects = {f"cup_{number}": {"position": [number, 0]} for number in range(100)}
    records: list[bytes] = []
    Kernel(World(objects=objects), sink=records.append)
    lines = lines_of(explain_seq(in_memory(records), 0))
    assert len(lines) < 130
    assert lines[-1].endswith("more fields; --json has them all")


def test_many_intents_and_wide_values_are_truncated():
    records: list[bytes] = []
    kernel = Kernel(World(), sink=records.append)
    kernel.register_agent("ann")
    say = {"text": "é" * 500}
    batch = [move(number=n, kind="Speak", payload=say, context_seq=2) for n in range(20)]
    kernel.decide(batch)
    lines = lines_of(explain(in_memory(records), "ann", "ann:19"))
    assert any("and 8 more" in line for line in lines)
    assert any(line.strip().startswith("> 19") for line in lines)
    assert max(map(len, lines)) < 260


def test_created_and_deleted_entities_and_effects_are_rendered():
    records: list[bytes] = []
    kernel = kernel_of(Lab(things=("a",)), sink=records)
    kernel.decide([
        intent("Drop", {"thing": "a"}, "p"),
        intent("Mail", {"count": 1}, "q"),
        intent("Put", {"thing": "b", "field": "x", "value": None}, "r"),
    ])  # fmt: skip
    kernel.decide([intent("Glance", {"thing": "b"}, "s", context_seq=7, agent_id="bob")])
    log = in_memory(records)
    text = "\n".join(lines_of(explain(log, "alice", "q", [Lab(things=("a",))])))
    assert "lab.things/a        deleted" in text
    assert "lab.things/b (new)" in text
    assert "Effect world/5/1" not in text
    assert 'Effect world/6/0: mail {"number":0,"to":"alice"}' in text
    assert "executor mail: 0 open effects, at most 1000" in text
    text = "\n".join(lines_of(explain(log, "bob", "s", [Lab(things=("a",))])))
    assert "No changes." in text or "Changes:" in text


def test_suspension_and_staleness_are_rendered():
    records: list[bytes] = []
    kernel = kernel_of(
        Lab(things=("a",)), sink=records, staleness_threshold=50, limits={"window_ids_max": 2}
    )
    kernel.decide([intent("Grab", {"thing": "a"}, "p", agent_id="bob", context_seq=4)])
    look = intent("Look", {"thing": "a"}, "q", valid_until=9)
    kernel.decide([{**look, "context_seq": 4}])
    kernel.decide([{**look, "context_seq": 5}])
    kernel.decide({"intents": [intent("Add", {"amount": 1}, "z", context_seq=6)], "sim_time": 1})
    kernel.change_agent("alice", "removed")
    kernel.decide([], 2.0)
    log, lab = in_memory(records), [Lab(things=("a",))]
    explained = explain(log, "alice", "q", lab)
    assert [one["codes"] for one in explained.earlier] == [["stale_context"]]
    text = "\n".join(lines_of(explained))
    assert "q was decided before (stale_context); with a newer context it is decided anew" in text
    assert "at most 50 allowed" in text
    assert "valid until 9 s" in text
    assert "Earlier it was refused: stale_context" in text
    text = "\n".join(lines_of(explain(log, "alice", "z", lab)))
    assert "alice is not registered" in text
    explained = explain(log, "alice", "gone", lab)
    assert "'alice' was registered once, and was removed" in explained.notes


def test_a_string_in_a_payload_is_not_taken_for_a_request():
    log = in_memory(a_log())
    assert not explain(log, "ann", "bob").is_known
    assert not explain(log, "ann", "ann").is_known  # her registration holds both


def test_a_log_compacted_without_a_snapshot_cannot_be_explained():
    log, records = MemoryEventLog(), a_log()
    epoch = log.open()
    for ordinal, data in enumerate(records):
        seq = decode_record(records[ordinal - 1]).seq if ordinal else 0
        log.append(LogAppend(ordinal, seq, decode_record(data).seq, (data,)), epoch)
    assert explain_seq(log, 2).answer == "registered"
    with pytest.raises(StoreError, match="it ends at seq"):
        explain_seq(log, 30)
    log.compact(6, epoch, appends_max=100)
    for request in ("ann:0", "ann:2"):
        with pytest.raises(StoreError, match="was compacted up to seq"):
            explain(log, "ann", request)
    assert bisect(log, log).shared
    with pytest.raises(StoreError, match="differ before record 6"):
        bisect(log, in_memory(forged(records)))


def test_rare_facts_are_rendered():
    records: list[bytes] = []
    kernel = kernel_of(Lab(), sink=records, world_quota={"rate": 2, "burst": 3})
    kernel.decide([intent("Grab", {"thing": "cup"}, "o", agent_id="bob", schema_version="1.9.0")])
    kernel.decide([intent("Look", {"thing": None}, "p", context_seq=5)])
    kernel.decide({"intents": [intent("Glance", {"thing": "cup"}, "q")], "sim_time": 1})
    kernel.register_agent("carol", owner="bob")
    kernel.decide([], 2.0)
    log = in_memory(records)

    def text(agent_id: str, req_id: str) -> str:
        return "\n".join(lines_of(explain(log, agent_id, req_id, [Lab()])))

    assert "warning version_unknown" in text("bob", "o")
    assert "all agents together, all kinds: 2/s, burst 3" in text("alice", "p")
    assert "staleness is left to the rule of its kind" in text("alice", "q")


def test_an_unknown_request_reports_a_suspended_agent():
    records: list[bytes] = []
    kernel = Kernel(World(), sink=records.append)
    kernel.register_agent("ann")
    kernel.change_agent("ann", "suspended")
    (note,) = explain(in_memory(records), "ann", "1").notes
    assert note == "'ann' is registered and suspended; of its requests 0 verdicts are remembered"


# the face of an open world


@pytest.mark.parametrize("store", ["memory://", "sqlite:///world.db"])
async def test_an_open_world_explains_itself(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    domain = World(max_step=2, interactions={"wave": lambda draft, given: None})
    async with Orchestrator(domain, OrchestratorConfig(store=store)) as world:
        ann = await world.register_agent("ann", position=[0, 0])
        refused = await ann.submit([ann.intent("Move", to=[9, 0])])
        req_id = refused.refusals[0].req_id or ""
        explained = await world.explain("ann", req_id)
        assert explained.answer == "refused"
        assert explained.stages[-1].refusals[0]["code"] == "world.step_too_long"
        assert explained.notes == ()  # its own domain is at hand, though the log cannot remake it
        assert not (await world.explain("ann", "never")).is_known
    if store != "memory://":
        log = open_event_log(store)
        assert explain(log, "ann", req_id).notes


def test_the_value_that_refused_a_batch_is_that_of_its_decision():
    changed = [{"entity": "world.agents/ann", "now": {"team": None}}]
    stage: Any = SimpleNamespace(refusals=[{"changed": changed}])
    explained: Any = SimpleNamespace(conflict=None, stages=[stage], changes=[])
    assert list(islice(_result_lines(explained), 2)) == [
        "",
        'world.agents/ann was then {"team":null}',
    ]


def spoiled() -> MemoryEventLog:
    """A log of a rule that raised; its record has the type of the exception alone."""
    records: list[bytes] = []
    kernel = kernel_of(Lab(), sink=records)
    kernel.decide([intent("Fail", {"how": "raise"}, "r1")])
    assert all(b"domains.py" not in record and b"a bug" not in record for record in records)
    return in_memory(records)


def test_the_exception_of_a_rule_is_found_again_from_the_log():
    explained = explain(spoiled(), "alice", "r1", [Lab()])
    (fault,) = explained.faults
    assert (fault["where"], fault["error"]) == ("rule of Fail", "ZeroDivisionError: a bug")
    assert fault["place"].endswith("in divide_by_nothing")
    told = lines_of(explained)
    assert '      raise ZeroDivisionError("a bug")' in told
    assert "ZeroDivisionError: a bug (" in str(explained)


class Mended(Lab):
    """The lab, whose kind `Fail` does nothing."""

    kinds = tuple(
        Kind(kind.name, kind.payload, lambda draft, one: None) if kind.name == "Fail" else kind
        for kind in Lab.kinds
    )


def test_a_rule_that_raises_no_more_has_a_note():
    explained = explain(spoiled(), "alice", "r1", [Mended()])
    assert explained.faults == ()
    note = (
        "the rule raised then and does not raise now: it, or something that it reads outside of "
        "the state, has changed"
    )
    assert note in explained.notes
