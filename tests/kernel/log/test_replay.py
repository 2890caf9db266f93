"""A log can be replayed, continued, and reproduced by another kernel."""

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given, settings

from placet.kernel import Kernel, KernelConfig
from placet.kernel.log.replay import Divergence, Replayer
from placet.kernel.log.snapshot import world_digest
from placet.kernel.state.tree import State
from placet.schemas.effect import Settlement
from placet.schemas.errors import StoreError
from placet.schemas.limits import Limits
from placet.schemas.log.record import (
    Admitted,
    Checkpoint,
    Configured,
    decode_record,
    encode_record,
    record_hash,
)
from tests.kernel.builders import add, intent, kernel_of, restore, reused
from tests.kernel.domains import Annex, Lab
from tests.kernel.traces import SETTINGS, TRACES, random_trace, run_trace, summary, time_of
from tests.levels import examples

ROOT = Path(__file__).parents[3]
EACH_SETTING = pytest.mark.parametrize("setting", SETTINGS)


def folded(log):
    replayer = Replayer()
    for data in log:
        replayer.apply(data)
    return replayer


def test_a_replay_of_ticks_needs_constant_memory(monkeypatch):
    monkeypatch.setattr("placet.kernel.log.replay.DIRTY_MAX", 100)
    kernel, log = reused()
    for number in range(300):
        kernel.tick(float(number))
    state = folded(log).state
    assert len(state.dirty) < 200
    assert state.digest().hex() == kernel.digest()


@EACH_SETTING
@settings(max_examples=examples(40))
@given(trace=TRACES)
@example(trace=random_trace(1))
@example(trace=random_trace(2))
@example(trace=random_trace(3))
def test_a_replay_gives_the_same_state_and_ledger(setting, trace):
    """fold(log) = live: state digest, world digest, chain, time and seq."""
    kernel, log = reused(**SETTINGS[setting])
    run_trace(kernel, trace)
    replayer = folded(log)
    assert replayer.state.digest().hex() == kernel.digest()
    assert world_digest(replayer.state, replayer.ledger).hex() == kernel.world_digest()
    assert replayer.journal.prev == record_hash(log[-1])
    assert (replayer.journal.count, replayer.ledger.seq) == (kernel.record_count, kernel.seq)
    assert replayer.state.as_dict() == kernel.tree.as_dict()


@EACH_SETTING
@settings(max_examples=examples(40))
@given(trace=TRACES)
@example(trace=random_trace(1))
@example(trace=random_trace(2))
@example(trace=random_trace(3))
def test_two_kernels_with_the_same_inputs_write_the_same_bytes(setting, trace):
    """Same groups -> same records, same verdicts."""
    kernel, log = reused(**SETTINGS[setting])
    other, other_log = reused(1, **SETTINGS[setting])
    assert run_trace(kernel, trace) == run_trace(other, trace)
    assert log == other_log
    assert kernel.snapshot() == other.snapshot()


@EACH_SETTING
@settings(max_examples=examples(20))
@given(before=TRACES, after=TRACES)
@example(before=random_trace(4), after=random_trace(5))
@example(before=random_trace(6), after=random_trace(7))
def test_a_kernel_restored_from_a_snapshot_continues_identically(setting, before, after):
    """restore(snapshot) = the world, now and in all that follows."""
    kernel, log = reused(**SETTINGS[setting])
    run_trace(kernel, before)
    snapshot, length = kernel.snapshot(), len(log)
    other, other_log = reused(1, **SETTINGS[setting])
    del other_log[:]
    restore(other, snapshot)
    assert other.snapshot() == snapshot
    assert other.digest() == kernel.digest()
    now = time_of(before)
    assert run_trace(other, after, now) == run_trace(kernel, after, now)
    assert other_log == log[length:]
    assert other.snapshot() == kernel.snapshot()


@EACH_SETTING
@settings(max_examples=examples(20))
@given(before=TRACES, after=TRACES)
@example(before=random_trace(4), after=random_trace(5))
@example(before=random_trace(6), after=random_trace(7))
def test_a_kernel_opened_from_its_log_continues_identically(setting, before, after):
    """Kernel(history=log) decides further batches as the kernel that wrote the log."""
    kernel, log = reused(**SETTINGS[setting])
    run_trace(kernel, before)
    other = kernel_of(history=log, **SETTINGS[setting])
    assert other.world_digest() == kernel.world_digest()
    now = time_of(before)
    kernel.decide_group([], now)

    def outcomes(answers):
        return [
            [(v["admitted"], v["seq"], [r["code"] for r in v["refusals"]]) for v in answer]
            if isinstance(answer, list)
            else answer
            for answer in answers
        ]  # fmt: skip

    assert outcomes(run_trace(other, after, now)) == outcomes(run_trace(kernel, after, now))
    assert other.digest() == kernel.digest()


@EACH_SETTING
@settings(max_examples=examples(40))
@given(trace=TRACES)
@example(trace=random_trace(1))
@example(trace=random_trace(2))
@example(trace=random_trace(3))
def test_the_incremental_digest_equals_a_new_computation(setting, trace):
    """Incremental digest = digest of a copy, after every step."""
    kernel, _ = reused(**SETTINGS[setting])
    now = 0.0
    for step in trace:
        run_trace(kernel, [step], now)
        now += time_of([step])
        assert kernel.digest() == State.load(kernel.tree.dump()).digest().hex()


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["wide", "tight"])
def test_a_trace_gives_the_same_log_on_every_hash_seed(setting, tmp_path):
    """The order of sets and of hashes is nowhere in a record."""
    story = tmp_path / "story.json"
    story.write_text(json.dumps([setting, random_trace(8, steps=400)]))
    told = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "tests.kernel.traces", str(story)]
        outcome = subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True
        )
        told.append(json.loads(outcome.stdout))
    kernel, log = reused(**SETTINGS[setting])
    run_trace(kernel, json.loads(story.read_text())[1])
    assert told[0] == told[1] == summary(kernel, log)
    assert kernel.seq > 100


def test_dry_runs_and_refusals_of_load_are_not_on_the_log():
    kernel, log = reused(quotas={"Add": {"rate": 1, "burst": 1}})
    kernel.decide(add("a"), 1.0)
    length = len(log)
    kernel.decide(add("b"), 1.5)
    kernel.decide({"intents": [add("c")], "dry_run": True}, 9.0)
    kernel.decide([], 9.0)
    kernel.decide(add("d", agent_id="nobody"), 9.0)
    assert len(log) == length
    assert folded(log).ledger.now_ns == 10**9
    assert kernel.sim_time == 9.0


# What cannot be read back


def log_of_a_short_trace():
    kernel, log = reused(limits={"checkpoint_groups": 1})
    kernel.decide([add("a"), add("b")])
    kernel.decide(intent("Take", {"amount": 99}, "c"))
    kernel.tick(1.0)
    return list(log)


def rechained(log, at, change):
    """Change one record, and bind all that follow to it anew."""
    changed, prev = [], None
    for place, data in enumerate(log):
        record = decode_record(data)
        if place == at:
            record = change(record)
        if prev is not None:
            record = msgspec.structs.replace(record, prev=prev)
        changed.append(encode_record(record))
        prev = record_hash(changed[-1])
    return changed


def place_of(log, kind):
    return next(i for i, data in enumerate(log) if isinstance(decode_record(data), kind))


def test_every_changed_byte_of_a_log_is_detected():
    log = log_of_a_short_trace()
    whole = folded(log)
    for place, data in enumerate(log[:-1]):
        for at in range(0, len(data), 7):
            flipped = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
            with pytest.raises(Divergence) as raised:
                folded([*log[:place], flipped, *log[place + 1 :]])
            assert raised.value.record in {place, place + 1}
    assert folded(log).journal.prev == whole.journal.prev


def test_a_missing_doubled_or_moved_record_is_detected():
    log = log_of_a_short_trace()
    for broken, record, why in [
        ([log[0], *log[2:]], 1, "the chain is broken"),
        ([*log[:3], *log[2:]], 3, "the chain is broken"),
        ([log[0], log[2], log[1], *log[3:]], 1, "the chain is broken"),
        (log[1:], 0, "the chain is broken"),
        ([b"\x00"], 0, "no record of a known format"),
    ]:
        with pytest.raises(Divergence, match=why) as raised:
            folded(broken)
        assert raised.value.record == record


def test_a_log_has_one_header_and_begins_with_it():
    log = log_of_a_short_trace()
    headless = rechained(log[1:], 0, lambda r: msgspec.structs.replace(r, prev=bytes(16)))
    with pytest.raises(Divergence, match="a log begins with its header, got configured"):
        folded(headless)
    two = [
        *log,
        encode_record(msgspec.structs.replace(decode_record(log[0]), prev=record_hash(log[-1]))),
    ]
    with pytest.raises(Divergence, match="a log begins with its header, got header"):
        folded(two)


@pytest.mark.parametrize("version", [1, 3])
def test_a_log_of_another_format_is_refused(version):
    _, log = reused()
    other = rechained(log, 0, lambda r: msgspec.structs.replace(r, format_version=version))
    why = f"the log is of format {version}, and this release reads format 2; "
    with pytest.raises(StoreError, match=why):
        folded(other)


@pytest.mark.parametrize(
    ("kind", "change", "why"),
    [
        (Configured, {"seq": 5}, "its seq is 5, expected 1"),
        (Configured, {"quotas": {"Add": (1, 0, 2)}}, "no record of a known format"),
        (Admitted, {"seq": 7}, "its seq is 7, expected 6"),
        (Admitted, {"contexts": [0]}, "batch does not fit"),
        (Admitted, {"due_of": 3}, "batch does not fit"),
        (Checkpoint, {"state_digest": bytes(16)}, "the state digest is"),
    ],
)
def test_an_inconsistent_record_is_named(kind, change, why):
    log = log_of_a_short_trace()
    place = place_of(log, kind)
    with pytest.raises(Divergence, match=why) as raised:
        folded(rechained(log, place, lambda r: msgspec.structs.replace(r, **change)))
    assert raised.value.record == place
    assert f"record {place}, after seq {raised.value.seq}" in str(raised.value)


def test_a_settlement_of_an_unknown_effect_is_named():
    kernel, log = reused()
    kernel.decide(intent("Mail", {"count": 1}))
    kernel.settle(Settlement(kernel.open_effects()[0].key, succeeded=True))
    changed = rechained(log, len(log) - 1, lambda r: msgspec.structs.replace(r, effect_index=7))
    with pytest.raises(Divergence, match="settled does not fit"):
        folded(changed)


def test_a_batch_may_have_any_name_in_the_log():
    log = log_of_a_short_trace()
    place = place_of(log, Admitted)
    replayer = folded(rechained(log, place, lambda r: msgspec.structs.replace(r, batch_id="x")))
    assert replayer.batches_seen == 2


def test_a_change_of_a_missing_entity_is_named():
    log = log_of_a_short_trace()

    def elsewhere(record):
        changes = record.changes
        moved = [msgspec.structs.replace(changes.entities[0], entity="nobody")]
        return msgspec.structs.replace(
            record, changes=msgspec.structs.replace(changes, entities=moved)
        )

    place = place_of(log, Admitted)
    with pytest.raises(Divergence, match=r"lab\.counts/nobody is changed but not there"):
        folded(rechained(log, place, elsewhere))


# Opening


def test_a_log_of_other_domains_or_another_world_is_not_opened():
    _, log = reused()
    with pytest.raises(StoreError, match=r"the log is of the domains \['lab'\]"):
        Kernel([Lab(), Annex()], history=log)
    with pytest.raises(StoreError, match="opened as 'other' with seed 0"):
        Kernel(Lab(), KernelConfig(world="other"), history=log)
    with pytest.raises(StoreError, match="with seed 1"):
        Kernel(Lab(), KernelConfig(seed=1), history=log)


def test_only_changed_settings_write_a_record():
    _, log = reused()
    assert Kernel(Lab(), history=log).record_count == len(log)
    config = KernelConfig(staleness_threshold=1, limits=Limits(tombstones_max=7))
    more: list[bytes] = []
    kernel = Kernel(Lab(), config, history=log, sink=more.append)
    assert kernel.history_end == (kernel.seq - 1, len(log))
    replayer = folded([*log, *more])
    assert replayer.ledger.policy == kernel.ledger.policy
    assert replayer.state.tombstones_max == kernel.tree.tombstones_max == 7


def test_a_validator_is_informed_of_registered_agents():
    told: dict[str, set[str]] = {}

    class Validator:
        def validate_intent(self, intent, world_state):
            return intent["kind"] in told.get(intent["agent_id"], ())

        def set_agent_permissions(self, agent_id, permissions):
            told[agent_id] = permissions

    log: list[bytes] = []
    kernel = kernel_of(sink=log, validator=Validator())
    kernel.set_agent_permissions("alice", {"Add"})
    assert told["alice"] == {"Add"}
    assert told["bob"] == set(kernel.registry.kinds)
    snapshot = kernel.snapshot()
    told.clear()
    again = kernel_of(history=log, validator=Validator())
    assert again.decide(add("a")).admitted
    told.clear()
    again.restore(snapshot)
    assert told["alice"] == {"Add"}


@pytest.mark.parametrize(
    "data", [b"", b"\x90", b"\x01", b"nonsense", b"\x96\x01\x02\x03\x04\x05\x06"]
)
def test_an_invalid_snapshot_is_refused_and_changes_nothing(data):
    kernel, _ = reused()
    before = kernel.snapshot()
    with pytest.raises(ValueError, match="this is no snapshot of a known version"):
        kernel.restore(data)
    assert kernel.snapshot() == before


def test_a_snapshot_of_a_newer_version_is_refused():
    kernel, _ = reused()
    world, *rest = msgspec.msgpack.decode(kernel.snapshot())
    parts = msgspec.msgpack.decode(world)
    newer = msgspec.msgpack.encode([msgspec.msgpack.encode([parts[0] + 1, *parts[1:]]), *rest])
    with pytest.raises(ValueError, match="snapshot version 3 is unknown, expected 2"):
        kernel.restore(newer)
