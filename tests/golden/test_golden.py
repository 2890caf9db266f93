"""Logs of older releases are still read: the same digests, the same decisions (G22)."""

import json
from pathlib import Path

import pytest

from placet.history.verify_log import verify_log
from placet.kernel import Domain
from placet.kernel.arrays.row_codes import DENIED, PAYLOAD
from placet.kernel.log.replay import Replayer, folded
from placet.kernel.log.snapshot import world_digest
from placet.kernel.log.verify import Verifier
from placet.kernel.plugin.rules_version import Rules
from placet.plugins.domains import remake
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import (
    _TYPES,
    Admitted,
    Columns,
    Refused,
    decode_record,
    encode_record,
    group_of,
    record_hash,
    record_type,
)
from placet.stores.url import open_event_log
from tests.golden.make import RELEASE, WORLDS, make
from tests.golden.post import Post, Watchman
from tests.golden.square import Square

GOLDEN = Path(__file__).parent
LOGS = sorted(GOLDEN.glob("*/*.db"))
OTHER_RULES = {
    GOLDEN / "0.1" / "town_of_rules_1.db": ["it was decided by world 1+", ", and world 2+"],
    GOLDEN / "0.1" / "session_of_rules_1.db": ["the settings of session were", "and are"],
}
"""Logs of earlier rules, and why they are not judged: a used target made others stale in `world`,
and `session` held plans itself."""
EACH_LOG = pytest.mark.parametrize("path", LOGS, ids=lambda p: f"{p.parent.name}/{p.stem}")
EACH_OF_THESE_RULES = pytest.mark.parametrize(
    "path", [p for p in LOGS if p not in OTHER_RULES], ids=lambda p: f"{p.parent.name}/{p.stem}"
)


def records_of(path: Path) -> list[bytes]:
    return [data for _, data in open_event_log(f"sqlite:///{path}").read()]


def expected_of(path: Path) -> dict[str, object]:
    digests = json.loads((path.parent / "digests.json").read_text(encoding="utf-8"))
    expected: dict[str, object] = digests[path.stem]
    return expected


def summary(past: Replayer) -> dict[str, object]:
    return {
        "records": past.journal.count,
        "seq": past.ledger.seq,
        "chain": past.journal.prev.hex(),
        "state_digest": past.state.digest().hex(),
        "world_digest": world_digest(past.state, past.ledger).hex(),
    }


def domains_of(rules: Rules) -> list[Domain]:
    """Today's domains: the post in its newest form, whatever the log was made with."""
    own = {"post": Post, "square": Square}.get(rules.domains[0][0])
    return remake(rules) if own is None else [own()]


@EACH_LOG
def test_an_old_log_replays_to_its_digests(path):
    assert path.stat().st_size <= 60_000
    expected = expected_of(path)
    del expected["types"]
    assert summary(folded(records_of(path))) == expected


@EACH_OF_THESE_RULES
def test_an_old_log_is_verified(path):
    log = open_event_log(f"sqlite:///{path}")
    again = verify_log(log, domains_of, validator=Watchman())
    assert again.integrity.first_divergence is None
    assert (again.unverified, again.refused_by_host) == ((), 0)
    written = [r for data in records_of(path) for r in expanded(decode_record(data))]
    batches = [record for record in written if group_of(record) is not None]
    assert again.batches == len(batches)


@pytest.mark.parametrize(("path", "why"), OTHER_RULES.items(), ids=["world", "session"])
def test_a_log_of_other_rules_is_folded_and_not_judged(path, why):
    again = verify_log(open_event_log(f"sqlite:///{path}"), domains_of)
    assert again.integrity.first_divergence is None
    assert again.batches == 0
    (unverified,) = again.unverified
    assert [part for part in why if part in unverified.why] == why


@EACH_OF_THESE_RULES
def test_verification_ends_with_the_same_ledger(path):
    verifier = Verifier(domains_of, validator=Watchman())
    for data in records_of(path):
        verifier.apply(data)
    expected = expected_of(path)
    del expected["types"]
    assert summary(verifier) == expected


@EACH_LOG
def test_a_decoded_record_is_encoded_to_the_same_bytes(path):
    for data in records_of(path):
        assert encode_record(decode_record(data)) == data


def test_the_golden_logs_contain_every_type_of_record():
    written = [decode_record(data) for path in LOGS for data in records_of(path)]
    assert {record_type(record) for record in written} == set(_TYPES.values())
    records = [batch for record in written for batch in expanded(record)]
    codes = {code for r in records if isinstance(r, Refused) for _, _, code, _ in r.refusals}
    assert codes >= {
        "conflict", "stale_context", "expired", "permission_denied", "agent_suspended",
        "world.cooldown", "world.step_too_long", "post.refused", "post.unknown",
        "tool_unregistered",
    }  # fmt: skip
    admitted = [record for record in records if isinstance(record, Admitted)]
    for is_there in (
        lambda r: r.normalized, lambda r: r.notices, lambda r: r.order, lambda r: r.effects,
        lambda r: r.due_of, lambda r: len(r.contexts) > 1,
    ):  # fmt: skip
        assert any(map(is_there, admitted))
    columns = [record for record in records if isinstance(record, Columns)]
    for is_there_too in (
        lambda r: r.seq == r.group_seq, lambda r: not r.codes, lambda r: r.agents,
        lambda r: r.winners, lambda r: type(r.contexts) is bytes,
        lambda r: {c.op for c in r.changes} == {"add"}, lambda r: any(c.column for c in r.changes),
    ):  # fmt: skip
        assert any(map(is_there_too, columns))
    assert {code for r in columns for code in r.codes} >= set(range(PAYLOAD, DENIED))


def test_present_code_writes_the_golden_logs_byte_for_byte(tmp_path):
    """Where this fails for a release that is out, the format has changed: make a new one."""
    make(tmp_path)
    for name in WORLDS:
        made = records_of(tmp_path / f"{name}.db")
        assert record_hash(made[-1]) == record_hash(records_of(GOLDEN / RELEASE / f"{name}.db")[-1])
