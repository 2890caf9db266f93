"""`placet verify` and `placet bisect`: re-execution of a stored log."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from placet.domains.world import World
from placet.history.bisect import bisect
from placet.history.verify_log import verify_log
from placet.kernel import Domain, Kernel, KernelConfig
from placet.schemas.log.record import (
    Admitted,
    Changes,
    LogAppend,
    Refused,
    decode_record,
    encode_record,
    record_hash,
)
from placet.stores.memory import MemoryEventLog
from placet.stores.url import open_event_log
from tests.cli.command_line import move

DOMAINS = """
from placet.domains.world import World

def wave(draft, intent):
    draft.put("world.agents", intent["agent_id"], "waved", draft.seq)

def factory():
    return World(interactions={"wave": wave})

def step(draft, intent):
    draft.put("world.agents", intent["agent_id"], "waved", draft.draw("wave"))

ready = factory()
other = World(interactions={"wave": step})
"""


def stored(path: Path, records: Sequence[bytes]) -> str:
    """Store records in a file without checking them."""
    log = open_event_log(f"sqlite:///{path}")
    log.append(LogAppend(0, 0, decode_record(records[-1]).seq, tuple(records)), log.open())
    log.close()
    return path.name


def a_log(
    domain: Domain | None = None, *, far: float = 2.0, moves: int = 3, **config: Any
) -> list[bytes]:
    """A world of two moving agents; the last move goes `far`."""
    records: list[bytes] = []
    kernel = Kernel(domain or World(max_step=4), KernelConfig(**config), sink=records.append)
    for agent_id in ("ann", "bob"):
        kernel.register_agent(agent_id, position=[0, 0])
    for number in range(moves):
        kernel.decide([move(number=number, to=(1.0, number, 0.0), context_seq=kernel.seq)], number)
    kernel.decide([move("bob", to=(far, 0.0, 0.0), context_seq=kernel.seq)])
    kernel.tick(9.0)
    return records


def forged(records: list[bytes], batch_id: str = "b1") -> list[bytes]:
    """Change the target of a batch, and hash all later records again."""
    made = list(records)
    for ordinal, data in enumerate(records):
        record: Any = decode_record(data)
        if isinstance(record, Admitted) and record.batch_id == batch_id:
            change = record.changes.entities[0]
            fields = {**(change.fields or {}), "position": [3.0, 0.0, 0.0]}
            record = msgspec.structs.replace(
                record, changes=Changes([msgspec.structs.replace(change, fields=fields)])
            )
        prev = record_hash(made[ordinal - 1]) if ordinal else record.prev
        made[ordinal] = encode_record(msgspec.structs.replace(record, prev=prev))
    return made


# verify


def test_verify_recreates_the_domain_from_the_settings_in_the_log(placet, town):
    report = town.report
    verified = placet("verify", "town.db", "--json").json()
    decided = verified["verified"]
    assert verified["digest"] == report["digest"]
    assert decided["unverified"] == []
    types = [event["type"] for event in placet("log", "town.db", "--json").json()]
    assert decided["batches"] == types.count("batch") + types.count("refused")
    assert decided["others"] == types.count("registered") + types.count("tick")
    assert "Re-executed: " in placet("verify", "town.db").out


def test_verify_names_a_forged_record_and_its_rule(placet):
    name = stored(placet.folder / "forged.db", forged(a_log()))
    checked = placet("verify", name, "--replay-only")
    assert checked.code == 0
    assert "by chain and digests; no decision was re-executed" in checked.out
    outcome = placet("verify", name)
    assert outcome.code == 1
    assert "is NOT valid from record 4 on" in outcome.out
    lines = {line.split()[0]: line.split(maxsplit=1)[1] for line in outcome.out.splitlines()[1:-2]}
    assert lines["batch"] == "b1 of ann, ann:0"
    assert lines["part"] == "world.agents/ann position"
    assert (lines["recorded"], lines["decided"]) == ("[3.0,0.0,0.0]", "[1.0,0.0,0.0]")
    assert lines["rule"].startswith("Move of world 2+")
    first = placet("verify", name, "--json").json()["first_divergence"]
    assert (first["record"], first["agent_id"]) == (4, "ann")


def test_verify_reads_a_log_while_it_is_written(tmp_path):
    records = a_log()
    log = open_event_log(f"sqlite:///{tmp_path}/live.db")
    epoch = log.open()
    for ordinal, data in enumerate(records):
        seq = decode_record(records[ordinal - 1]).seq if ordinal else 0
        log.append(LogAppend(ordinal, seq, decode_record(data).seq, (data,)), epoch)
        report = verify_log(open_event_log(f"sqlite:///{tmp_path}/live.db"))
        assert report.integrity.is_ok
        assert report.integrity.records == ordinal + 1
    log.close()


def test_settings_that_are_code_must_be_passed(placet):
    (placet.folder / "domains_of_a_test.py").write_text(DOMAINS)
    from placet.plugins.domains import find_domain

    records = a_log(find_domain("domains_of_a_test:factory")())
    name = stored(placet.folder / "own.db", records)
    outcome = placet("verify", name)
    assert outcome.code == 0
    assert "Not re-executed: records 2 to " in outcome.out
    first = outcome.out.splitlines()[0]
    assert "is valid as far as it was checked, by chain and digests; the decisions of re" in first
    assert "give it: --domain module:attribute" in outcome.out
    for spec in ("domains_of_a_test:ready", "domains_of_a_test:factory"):
        decided = placet("verify", name, "--domain", spec, "--json").json()["verified"]
        assert (decided["batches"], decided["unverified"]) == (4, [])
    outcome = placet("verify", name, "--domain", "world")
    assert outcome.code == 1
    assert "cannot verify own.db: it was decided by world 2+" in outcome.err


def test_another_domain_than_the_logs_is_an_error_that_names_both(placet):
    name = stored(placet.folder / "a.db", a_log())
    outcome = placet("verify", name, "--domain", "tests.kernel.domains:Lab")
    assert outcome.code == 1
    assert "the log is of the domains world, and 'lab' is given" in outcome.err
    outcome = placet("verify", name, "--domain", "nowhere:World")
    assert "cannot import the module" in outcome.err
    outcome = placet("verify", name, "--domain", "tests.cli.test_verify:a_log")
    assert "makes no domain" in outcome.err


def test_a_domain_that_rejects_its_logged_settings_is_an_error(placet, monkeypatch):
    name = stored(placet.folder / "a.db", a_log())

    def narrower(self, *, bounds=None):
        raise AssertionError("it is never made")

    monkeypatch.setattr(World, "__init__", narrower)
    outcome = placet("verify", name)
    assert "cannot be made again with the settings of the log" in outcome.out


def test_refusals_of_the_host_validator_are_counted_separately(placet):
    class Guard:
        def validate_intent(self, given, state):
            return given["agent_id"] != "bob"

    records: list[bytes] = []
    kernel = Kernel(World(), sink=records.append, effect_validator=Guard())
    for agent_id in ("ann", "bob"):
        kernel.register_agent(agent_id)
        kernel.decide([move(agent_id, context_seq=kernel.seq)])
    name = stored(placet.folder / "a.db", records)
    outcome = placet("verify", name)
    assert outcome.code == 0
    assert "Not re-executed: 1 refusal by the effect validator of the host" in outcome.out
    log = open_event_log(f"sqlite:///{placet.folder}/a.db")
    assert verify_log(log, validator=Guard()).refused_by_host == 0


# bisect


def in_memory(records: Sequence[bytes]) -> MemoryEventLog:
    log = MemoryEventLog()
    log.append(LogAppend(0, 0, decode_record(records[-1]).seq, tuple(records)), log.open())
    return log


def test_bisect_finds_the_first_different_record_reading_few():
    one = a_log(moves=900)
    other = a_log(moves=900, far=3.0)
    parting = bisect(in_memory(one), in_memory(other))
    at = next(n for n, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1])
    assert (parting.record, parting.shared) == (at, False)
    assert parting.part == "proposed intents"
    assert parting.reads <= 2 * 12
    assert parting.rule == ""
    assert parting.decided_as == "both"


def test_bisect_finds_the_forged_log():
    parting = bisect(in_memory(a_log()), in_memory(forged(a_log())))
    assert (parting.record, parting.seq) == (4, 3)
    assert parting.part == "world.agents/ann position"
    assert parting.values == ([1.0, 0.0, 0.0], [3.0, 0.0, 0.0])
    assert parting.rule.startswith("Move of world 2+")
    assert parting.decided_as == "first"
    assert bisect(in_memory(forged(a_log())), in_memory(a_log())).decided_as == "second"


def test_logs_with_other_settings_are_compared_without_their_hashes():
    near, far = a_log(), a_log(World(max_step=1.5))
    parting = bisect(in_memory(near), in_memory(far))
    assert set(parting.set_up) >= {"settings", "fingerprint", "domains"}
    assert isinstance(decode_record(far[parting.record]), Refused)
    assert parting.part == "the verdict"
    assert parting.values == ("admitted", "refused at domain, world.step_too_long")
    assert parting.decided_as == "both"
    shared = bisect(in_memory(a_log(far=0.5)), in_memory(a_log(World(max_step=1.5), far=0.5)))
    assert (shared.shared, shared.record) == (True, len(near))


def renumbered(records: list[bytes], start: int) -> list[bytes]:
    """Renumber the batches from a record on, as if an earlier batch had left no record."""
    made = records[:start]
    for data in records[start:]:
        record: Any = decode_record(data)
        if isinstance(record, Admitted | Refused):
            record = msgspec.structs.replace(record, batch_id=f"b{int(record.batch_id[1:]) + 1}")
        prev = record_hash(made[-1])
        made.append(encode_record(msgspec.structs.replace(record, prev=prev)))
    return made


@pytest.mark.parametrize("start", [4, 7])
def test_different_batch_counts_alone_are_no_divergence(start):
    records = a_log()
    parting = bisect(in_memory(records), in_memory(renumbered(records, start)))
    assert (parting.shared, parting.record, parting.seq) == (True, 9, 8)
    assert (parting.renumbered, parting.set_up) == (start, ())


def test_a_divergence_after_different_batch_counts_is_found():
    records = renumbered(forged(a_log(), batch_id="b3"), 4)
    parting = bisect(in_memory(a_log()), in_memory(records))
    assert (parting.shared, parting.renumbered, parting.record) == (False, 4, 6)
    assert (parting.part, parting.decided_as) == ("world.agents/ann position", "first")


def test_a_longer_log_does_not_diverge_from_its_prefix():
    records = a_log()
    parting = bisect(in_memory(records), in_memory(records[:-1]))
    assert (parting.shared, parting.record, parting.seq) == (True, len(records) - 1, 7)


def test_logs_of_two_worlds_diverge_at_the_first_record():
    parting = bisect(in_memory(a_log()), in_memory(a_log(seed=9)))
    assert (parting.record, parting.part) == (0, "its seed")


def test_a_tick_with_other_draws_is_named_with_them():
    from tests.kernel.domains import COUNTS, Lab

    class Later(Lab):
        def on_tick(self, draft, sim_time):
            super().on_tick(draft, sim_time)
            draft.put(COUNTS, "clock", "draw", draft.randint_below(6, "toss"))

    logs = []
    for domain in (Lab(), Later()):
        records: list[bytes] = []
        Kernel(domain, sink=records.append).tick(1.0)
        logs.append(in_memory(records))
    parting = bisect(logs[0], logs[1], [Lab()])
    assert parting.part == f"{COUNTS}/clock draw"
    assert (parting.rule, parting.decided_as) == ("on_tick of lab 1", "first")
    assert [draw["purpose"] for draw in parting.draws] == ["tick"]
    assert bisect(logs[0], logs[1]).decided_as is None  # the lab is not installed


def test_the_bisect_command_prints_the_first_difference(placet):
    stored(placet.folder / "a.db", a_log())
    stored(placet.folder / "b.db", forged(a_log()))
    outcome = placet("bisect", "a.db", "b.db")
    assert outcome.code == 1
    assert outcome.out.startswith("a.db and b.db first differ at record 4, after seq 3")
    assert "re-executed  as in a.db" in outcome.out
    assert placet("bisect", "a.db", "b.db", "--json").json()["part"] == "world.agents/ann position"
    outcome = placet("bisect", "a.db", "a.db")
    assert outcome.code == 0
    assert "are equal in all 9 records" in outcome.out
    stored(placet.folder / "c.db", a_log(World(max_step=1.5)))
    stored(placet.folder / "d.db", renumbered(a_log(), 5))
    outcome = placet("bisect", "a.db", "d.db")
    assert outcome.code == 0
    assert outcome.out.startswith("From record 5 on the batch numbers differ, as after")
    assert "a.db and d.db are equal but for batch numbers, in all 9 records" in outcome.out
    outcome = placet("bisect", "a.db", "c.db")
    assert "The headers of the logs differ: domains, fingerprint" in outcome.out
