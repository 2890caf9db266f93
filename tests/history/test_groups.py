"""Laws of a log with `SingleBlock` records: read at any seq as if each batch had one record."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import msgspec
import pytest

from placet.actors.ports import EventLog
from placet.domains.world import World
from placet.history.bisect import bisect
from placet.history.diff import diff
from placet.history.effects import dead_letters, open_effects
from placet.history.explain import explain, explain_seq
from placet.history.fork import fork, replay_to
from placet.history.pack import check, pack
from placet.history.position import Position
from placet.history.reader import fold
from placet.history.selection import Selection, selected_records
from placet.history.verify_log import verify_log
from placet.kernel import Kernel, KernelConfig
from placet.kernel.log.snapshot import world_digest
from placet.schemas.effect import Settlement
from placet.schemas.explanation import Explanation
from placet.schemas.log.cut import first_batches
from placet.schemas.log.expand import batches_of, expanded
from placet.schemas.log.record import (
    Admitted,
    Record,
    Refused,
    SingleBlock,
    decode_record,
    encode_record,
    intents_of,
    record_hash,
)
from placet.stores.pack import PackEventLog
from placet.stores.url import open_event_log
from tests.history.forks import DOMAINS, log_of, make_fork, records_in
from tests.kernel.builders import intent, kernel_of
from tests.kernel.domains import MAIL
from tests.levels import soak_between

AGENTS = tuple(f"agent:{n}" for n in range(6))
KINDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Add", {"amount": 1}),
    ("Fail", {"how": "refuse"}),
    ("Grab", {"thing": "cup"}),  # one wins
    ("Look", {"thing": "cup"}),
    ("Mail", {"count": 2}),
    ("Clamp", {"amount": 9}),
    ("Say", {"text": "ho"}),
    ("Put", {"thing": "a", "field": "x", "value": [1, 2]}),
)


def lived(seed: int, groups: int = 7) -> list[bytes]:
    """Return the log of a world whose batches were decided in groups, and some alone."""
    log: list[bytes] = []
    chance = Random(seed)
    kernel = kernel_of(DOMAINS, sink=log, agents=AGENTS, limits={"checkpoint_groups": 3})
    kernel.change_executor(MAIL, 99)
    for number in range(groups):
        group: list[Any] = []
        for agent_id in chance.sample(AGENTS, 5):
            kind, payload = chance.choice(KINDS)
            seq = max(0, kernel.seq - chance.choice([0, 0, 0, 9]))
            fields = {"agent_id": agent_id, "context_seq": seq, "priority": chance.choice([5, 9])}
            group.append([intent(kind, payload, f"r:{number}", **fields)])
            if chance.random() < 0.2:  # a batch of two ends the record
                group.append(
                    [intent("Add", {"amount": 1}, f"{n}:{number}", **fields) for n in "xy"]
                )
        kernel.decide_group(group, number / 2)
        for effect in kernel.open_effects()[:1]:
            kernel.settle(Settlement(effect.key, succeeded=number % 2 == 0, output="lost"))
        if number % 3 == 2:
            kernel.tick(number / 2)
    return log


def one_by_one(log: Sequence[bytes]) -> list[bytes]:
    """Return the log that the same world would have with a record for each batch."""
    single: list[bytes] = []
    for data in log:
        for record in expanded(decode_record(data)):
            prev = record_hash(single[-1]) if single else record.prev
            single.append(encode_record(msgspec.structs.replace(record, prev=prev)))
    return single


@pytest.fixture(params=soak_between(range(3), 3))
def logs(request) -> tuple[EventLog, EventLog]:
    log = lived(request.param)
    groups = [r for r in map(decode_record, log) if isinstance(r, SingleBlock)]
    assert any(len(group.numbers) > 3 for group in groups)
    assert any(group.refused for group in groups)
    assert any(group.effects for group in groups)
    return log_of(log), log_of(one_by_one(log))


def seqs_in(log: EventLog) -> list[int]:
    """Return every seq at which a batch or another record ends."""
    return sorted({record.seq for _, record in selected_records(log, Selection())})


def records_of(log: EventLog) -> list[Record]:
    return [decode_record(data) for _, data in log.read()]


def test_the_first_batches_of_a_group_are_the_same_as_in_the_whole_group(logs):
    for record in records_of(logs[0]):
        if isinstance(record, SingleBlock):
            batches = batches_of(record)
            for count in range(1, len(batches) + 1):
                head = decode_record(encode_record(first_batches(record, count)))
                assert list(expanded(head)) == list(batches[:count])


def test_a_log_is_folded_to_any_seq(logs):
    for seq in seqs_in(logs[1]):
        for read in (fold, replay_to):
            digests = [
                (past.ledger.seq, world_digest(past.state, past.ledger))
                for past in (read(log, seq) for log in logs)
            ]
            assert digests[0] == digests[1]
            assert digests[0][0] == seq


def test_positions_are_the_same_batches(logs):
    """A seq includes the refusals that were decided after it in the same group, and no others."""
    for seq in seqs_in(logs[1]):
        first, second = (
            [batch for data in copied(log, seq) for batch in expanded(decode_record(data))]
            for log in logs
        )
        assert len(first) == len(second)
        for batch in first[1:]:
            if isinstance(batch, Admitted | Refused):
                assert batch.group_seq < seq


def copied(log: EventLog, seq: int) -> list[bytes]:
    """Return the records of a log that a fork at a seq would copy."""
    past = replay_to(log, Position(seq=seq))
    records = [data for _, data in log.read()]
    if past.journal.prev in {record_hash(data) for data in records}:
        return records[: past.journal.count]
    group = decode_record(records[past.journal.count - 1])
    assert isinstance(group, SingleBlock)
    heads = [encode_record(first_batches(group, n + 1)) for n in range(len(group.numbers))]
    head = next(data for data in heads if record_hash(data) == past.journal.prev)
    return [*records[: past.journal.count - 1], head]


def without_ordinals(explained: Explanation) -> Explanation:
    """Return an explanation without the numbers of records."""
    earlier = tuple({**told, "record": 0} for told in explained.earlier)
    conflict = None if explained.conflict is None else {**explained.conflict, "record": 0}
    effects = tuple(
        {**told, "outcome": {**told["outcome"], "record": 0}} for told in explained.effects
    )
    return replace(explained, record=0, earlier=earlier, conflict=conflict, effects=effects)


def test_every_request_and_every_seq_is_explained_alike(logs):
    requests = [
        (told["agent_id"], told["req_id"])
        for record in records_of(logs[1])
        if isinstance(record, Admitted | Refused)
        for told in intents_of(record)
    ]
    assert requests
    for agent_id, req_id in requests:
        first, second = (without_ordinals(explain(log, agent_id, req_id, DOMAINS)) for log in logs)
        assert first == second
        assert first.notes == ()
    for seq in seqs_in(logs[1])[1:]:
        first, second = (without_ordinals(explain_seq(log, seq, DOMAINS)) for log in logs)
        assert first == second


def test_worlds_effects_and_verifications_are_the_same(logs):
    assert diff(*logs).is_empty
    for seq in seqs_in(logs[1])[4::3]:
        assert diff(*logs, at=seq).is_empty
    letters = [dead_letters(log, "world") for log in logs]
    assert letters[0] == letters[1] != []
    assert open_effects(logs[0], is_running=True) == open_effects(logs[1], is_running=True)
    verified = [verify_log(log, DOMAINS) for log in logs]
    for one in verified:
        assert one.integrity.is_ok
        assert one.unverified == ()
    assert verified[0].batches == verified[1].batches


def test_a_fork_inside_a_group_continues_as_one_between_records(logs, tmp_path):
    inside = 0
    groups = [r for r in records_of(logs[0]) if isinstance(r, SingleBlock) and len(r.puts) > 1]
    for at in sorted({group.seq - offset for group in groups[::2] for offset in (0, 1)}):
        made = [
            make_fork(
                [data for _, data in log.read()],
                tmp_path,
                at,
                f"{name}{at}.db",
                world="child",
                effects="simulate",
                is_replayed=True,
            )
            for name, log in zip("ab", logs, strict=True)
        ]
        reports = [fork.counterfactual for fork in made if fork.counterfactual is not None]
        assert len(reports) == len(logs)
        for report in reports:
            report.changed.clear()  # they name records
        assert reports[0] == reports[1]
        if not reports[0].notes:  # no claim was left behind
            assert reports[0].batches == reports[0].same
            assert reports[0].digest == reports[0].parent_digest
        stored = [open_event_log(fork.store) for fork in made]
        pasts = [fold(log) for log in stored]
        assert len({world_digest(past.state, past.ledger) for past in pasts}) == 1
        assert verify_log(stored[0], DOMAINS).integrity.is_ok
        parent = [data for _, data in logs[0].read()]
        if records_in(made[0].store)[made[0].record - 1] != parent[made[0].record - 1]:
            inside += 1
            parting = bisect(logs[0], stored[0], DOMAINS)
            assert parting.second["type"] == "fork_adopted"
    assert inside


def test_a_pack_from_inside_a_group_begins_before_the_group(logs, tmp_path):
    seqs = seqs_in(logs[1])
    for at in seqs[len(seqs) // 2 :: 4]:
        packed = pack(logs[0], tmp_path / f"{at}.placet", from_seq=at)
        log = PackEventLog(packed.path)
        assert check(log, DOMAINS).is_ok
        assert fold(log, at).state.digest() == fold(logs[1], at).state.digest()


def test_bisect_names_the_batch_of_a_group_that_differs():
    records = walked()
    parent = log_of(records)
    at = next(n for n, data in enumerate(records) if isinstance(decode_record(data), SingleBlock))
    group = decode_record(records[at])
    assert isinstance(group, SingleBlock)
    assert None not in group.puts
    puts: list[Any] = [*group.puts]
    puts[2] = (*puts[2][:2], [9.0, 9.0, 0.0], puts[2][3])
    forged = [*records[:at], encode_record(msgspec.structs.replace(group, puts=puts))]
    for data in records[at + 1 :]:
        prev = record_hash(forged[-1])
        forged.append(encode_record(msgspec.structs.replace(decode_record(data), prev=prev)))
    parting = bisect(parent, log_of(forged))
    assert (parting.record, parting.part) == (at, f"world.agents/{mover(group, 2)} position")
    assert isinstance(parting.first, dict)
    assert parting.first["type"] == "batch"
    assert parting.values == ([2.0, 1.0, 0.0], [9.0, 9.0, 0.0])
    assert parting.decided_as == "first"
    assert (parting.seq, parting.rule) == (batches_of(group)[2].seq - 1, MOVE)


MOVE = f"Move of world {World().version}"


def mover(group: SingleBlock, place: int) -> str:
    agent_id: str = intents_of(batches_of(group)[place])[0]["agent_id"]
    return agent_id


def walked() -> list[bytes]:
    """Return the log of agents that move in two ticks: every change of its groups is one put."""
    log: list[bytes] = []
    kernel = Kernel(World(), KernelConfig(seed=7), sink=log.append)
    for agent_id in AGENTS:
        kernel.register_agent(agent_id, position=[0, 0])
    for tick in (1, 2):
        moves = [
            [intent("Move", {"to": [2, tick]}, f"m:{tick}", agent_id=agent_id)]
            for agent_id in AGENTS
        ]
        kernel.step(1.0, moves)
    return log


def test_a_world_of_plain_puts_is_folded_and_forked_at_every_batch(tmp_path):
    log, single = (log_of(records) for records in (walked(), one_by_one(walked())))
    for seq in seqs_in(single)[len(AGENTS) :]:
        pasts = [replay_to(one, seq) for one in (log, single)]
        assert len({world_digest(past.state, past.ledger) for past in pasts}) == 1
    inside = max(seqs_in(single)) - 3
    made = fork(log, str(tmp_path / "inside.db"), at=inside)
    assert verify_log(open_event_log(made.store)).integrity.is_ok
    assert fold(open_event_log(made.store)).state.digest() == fold(single, inside).state.digest()


def test_refusals_at_the_beginning_of_a_later_group_lie_after_a_seq():
    log: list[bytes] = []
    kernel = kernel_of(DOMAINS, sink=log, agents=AGENTS)
    kernel.decide([intent("Add", {"amount": 1}, "before", agent_id=AGENTS[0])])
    opened_at = kernel.seq
    group = [
        [intent("Fail", {"how": "refuse"}, "first", agent_id=AGENTS[1], priority=99)],
        [intent("Add", {"amount": 1}, "second", agent_id=AGENTS[2])],
        [intent("Fail", {"how": "refuse"}, "third", agent_id=AGENTS[3], priority=1)],
        [intent("Add", {"amount": 1}, "fourth", agent_id=AGENTS[4], priority=0)],
    ]
    assert [verdict.admitted for verdict in kernel.decide_group(group)] == [False, True] * 2
    for records in (log, one_by_one(log)):
        reads = [requests_to(log_of(records), opened_at + taken) for taken in range(3)]
        assert reads == [["before"], ["before", "first", "second", "third"], [*reads[1], "fourth"]]


def requests_to(log: EventLog, seq: int) -> list[str]:
    """Return the req_ids of the batches before a position."""
    batches = [batch for data in copied(log, seq) for batch in expanded(decode_record(data))]
    return [
        told["req_id"]
        for batch in batches
        if isinstance(batch, Admitted | Refused)
        for told in intents_of(batch)
    ]
