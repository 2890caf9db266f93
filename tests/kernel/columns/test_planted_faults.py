"""Faults that were made, or nearly, in column batches: each is planted, and a law must find it."""

from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from placet.kernel.arrays import row_codes, words
from placet.kernel.arrays.authors import SEVERAL
from placet.kernel.columns import contention, decide, form, record, settle
from placet.kernel.ledger.members import Members
from placet.kernel.ledger.ordinals import Ordinals
from placet.kernel.log import replay
from placet.kernel.log.replay import Divergence
from tests.kernel.columns.laws import run_law_a, run_law_b

Patch = pytest.MonkeyPatch
WORLDS_MAX = 60
FAULTS: dict[str, tuple[str, Callable[[Patch], None]]] = {}


def fault(law: str) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """Add a fault to the table, with the law that finds it."""

    def added(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
        FAULTS[plant.__name__] = (law, plant)
        return plant

    return added


def wrap(patch: Patch, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Replace a function by one that is made of it."""
    patch.setattr(owner, name, make(getattr(owner, name)))


# the record


@fault("A")
def the_payload_is_known_by_its_object(patch: Patch) -> None:
    patch.setattr(record, "_is_same", lambda column, values: column is values)


@fault("A")
def reasons_are_numbered_by_call(patch: Patch) -> None:
    def numbered(codes: Any, made: Any, batch: Any) -> Any:
        used = np.unique(codes[codes >= row_codes.RULE]).tolist()
        return [(code, f"{batch.domain}.{made[code - row_codes.RULE][0]}", "") for code in used]

    patch.setattr(decide, "numbered", numbered)


@fault("A")
def reasons_that_refused_no_row_are_kept(patch: Patch) -> None:
    def make(numbered: Any) -> Any:
        def kept(codes: Any, made: Any, batch: Any) -> Any:
            reasons = numbered(codes, made, batch)
            return reasons + [(99, name, "") for name, _ in made[len(reasons) :]]

        return kept

    wrap(patch, decide, "numbered", make)


@fault("A")
def the_content_of_a_request_is_not_compared(patch: Patch) -> None:
    patch.setattr(form, "fingerprint_of", lambda *_: 7)


# halves


@fault("A")
def halves_end_at_two_rows(patch: Patch) -> None:
    def make(joined: Any) -> Any:
        def paired(whole: Any, parts: Any) -> Any:
            whole = joined(whole, parts)
            faults = np.flatnonzero(whole.code == row_codes.RULE_ERROR)
            whole.code[np.minimum(faults | 1, whole.n - 1)] = row_codes.RULE_ERROR
            return whole

        return paired

    wrap(patch, decide, "_joined", make)


# contention


@fault("A")
def ties_go_to_the_last_in_the_fair_order(patch: Patch) -> None:
    def make_one(grant: Any) -> Any:
        return lambda places, slot, size, words, lost_to: grant(places, slot, size, ~words, lost_to)

    wrap(patch, decide, "grant_one", make_one)
    wrap(
        patch,
        decide,
        "grant_several",
        lambda grant: lambda order, *rest: grant(order[::-1], *rest),
    )


@fault("A")
def reservations_name_the_winner_of_another_claim(patch: Patch) -> None:
    wrap(
        patch,
        contention,
        "_name_winners",
        lambda name: lambda lost, order, slots, *rest: name(lost, order, slots[::-1], *rest),
    )


@fault("A")
def winners_are_named_by_their_place(patch: Patch) -> None:
    def make(decided: Any) -> Any:
        def named(batch: Any, seen: Any, payload: Any, codes: Any, lost_to: Any) -> Any:
            result = decided(batch, seen, payload, codes, lost_to)
            if not len(result.winners):
                return result
            places = lost_to[seen.code == row_codes.CONFLICT].astype(np.int32)
            return result._replace(winners=places)

        return named

    wrap(patch, decide, "_decided", make)


@fault("A")
def additions_pass_in_the_order_of_rows(patch: Patch) -> None:
    class Unordered:
        """Numpy, whose argsort leaves the order of rows."""

        def __getattr__(self, name: str) -> Any:
            return getattr(np, name)

        @staticmethod
        def argsort(words: Any) -> Any:
            return np.arange(len(words))

    patch.setattr(decide, "np", Unordered())


@fault("A")
def a_sum_may_not_reach_its_bound(patch: Patch) -> None:
    def make(additions_of: Any) -> Any:
        def narrowed(*args: Any) -> Any:
            found = additions_of(*args)
            return {
                key: adds._replace(low=adds.low + 1, high=adds.high - 1)
                for key, adds in found.items()
            }

        return narrowed

    wrap(patch, decide, "additions_of", make)


@fault("A")
def danger_is_not_seen(patch: Patch) -> None:
    patch.setattr(decide, "in_danger", lambda *_: {})


@fault("A")
def a_value_may_not_equal_its_bound(patch: Patch) -> None:
    def make(misfits: Any) -> Any:
        def strict(field: Any, values: Any) -> Any:
            wrong = misfits(field, values)
            if field.low is None or field.is_float or field.sizes:
                return wrong
            at_bound = values <= field.low
            return at_bound if wrong is None else wrong | at_bound

        return strict

    wrap(patch, decide, "misfits", make)


# the gate


@fault("A")
def a_change_at_the_context_makes_a_row_stale(patch: Patch) -> None:
    def make(check: Any) -> Any:
        return lambda batch, *rest: check(
            SimpleNamespace(**{**batch._asdict(), "contexts": batch.contexts - 1}), *rest
        )

    wrap(patch, decide, "_check_own", make)


@fault("A")
def a_full_bucket_is_over(patch: Patch) -> None:
    wrap(
        patch,
        Members,
        "over",
        lambda over: (
            lambda self, bucket, quota, rows, now_ns: over(self, bucket, quota, rows, now_ns - 1)
        ),
    )


@fault("B")
def refused_rows_are_charged(patch: Patch) -> None:
    wrap(
        patch,
        Members,
        "charge",
        lambda charge: (
            lambda self, bucket, quota, _rows, now_ns: charge(self, bucket, quota, None, now_ns)
        ),
    )


@fault("B")
def rows_are_not_counted_for_ordinary_intents(patch: Patch) -> None:
    patch.setattr(Ordinals, "_rows_of", lambda *_: 0)


@fault("B")
def ordinary_intents_are_not_counted_for_rows(patch: Patch) -> None:
    patch.setattr(Ordinals, "of_members", lambda *_: [])


# applying


@fault("A")
def a_put_at_no_row_writes_the_last(patch: Patch) -> None:
    def make(write: Any) -> Any:
        def wraps(table: Any, call: Any, target: Any) -> None:
            write(table, call, target)
            if target.is_row is not None and call.op == "put":  # as numpy takes -1
                table.writable(call.field)[-1] = call.values[~target.is_row][-1]
                table.mark_dirty(call.field, None)

        return wraps

    wrap(patch, settle, "_write", make)


@fault("A")
def a_row_of_several_authors_has_the_last(patch: Patch) -> None:
    def make(stamp: Any) -> Any:
        def stamped(table: Any, *args: Any, **options: Any) -> None:
            stamp(table, *args, **options)
            table.bys[table.bys == SEVERAL] = 0

        return stamped

    wrap(patch, settle, "_stamp", make)


@fault("A")
def a_table_is_stamped_once_a_call(patch: Patch) -> None:
    def make(stamp: Any) -> Any:
        def stamped(*args: Any, is_first: bool) -> None:
            stamp(*args, is_first=True)

        return stamped

    wrap(patch, settle, "_stamp", make)


@fault("A")
def a_fold_replaces_the_fields_of_a_row(patch: Patch) -> None:
    def make(fold: Any) -> Any:
        def folded(state: Any, change: Any) -> None:
            if change.collection in state.tables and change.fields is not None:
                entity = state.tables[change.collection].entities[change.entity]
                entity.fields = dict(change.fields)
                return
            fold(state, change)

        return folded

    wrap(patch, replay, "_fold_entity", make)


@fault("B")
def rows_are_not_counted_at_all(patch: Patch) -> None:
    wrap(patch, Members, "count_admitted", lambda _: lambda *_: None)


# digests


@fault("digest")
def sums_of_a_digest_lose_their_carries(patch: Patch) -> None:
    patch.setattr(words, "_exact_sum", lambda values, _: int(values.sum()))


@fault("dump")
def a_bucket_without_charges_is_dumped(patch: Patch) -> None:
    def make(dump: Any) -> Any:
        def dumped(self: Any, now_ns: int) -> Any:
            parts = dump(self, now_ns)
            parts[8] = [[name, tats.tobytes()] for name, tats in sorted(self.tats.items())]
            return parts

        return dumped

    wrap(patch, Members, "dump", make)


def check_sums_of_digests() -> None:
    """Check that the sum over the rows of a table does not depend on their split."""
    keys = words.row_keys("row", 1_000)
    values = words.mix_array(3, keys)
    total = words.summed_hash(keys, values, 9, words.buffers())
    for at in range(1, 1_000, 50):
        parts = [
            words.summed_hash(keys[part], values[part], 9, words.buffers())
            for part in (slice(at), slice(at, None))
        ]
        assert sum(parts) == total


def check_dump_of_buckets() -> None:
    """Check that a bucket which was made and not charged is no part of a population's dump."""
    members = Members(
        "birds", "lab.agents", 3, 0, owner="x", permissions=None, priority_max=9, quotas={}
    )
    before = members.dump(0)
    members.tats_of("Take")
    assert members.dump(0) == before


def search(law: str) -> None:
    """Raise what a law finds in some worlds."""
    seen: Counter[str] = Counter()
    if law == "digest":
        check_sums_of_digests()
    elif law == "dump":
        check_dump_of_buckets()
    else:
        for seed in range(WORLDS_MAX):
            if law == "A":
                run_law_a(seed, seen)
            else:
                run_law_b(seed)


@pytest.mark.parametrize("law", ["digest", "dump"])
def test_small_laws_hold(law: str) -> None:
    search(law)


@pytest.mark.parametrize("name", FAULTS)
def test_a_law_finds_a_planted_fault(name: str, monkeypatch: Patch) -> None:
    law, plant = FAULTS[name]
    plant(monkeypatch)
    with pytest.raises((AssertionError, Divergence)):  # no other: the planted code itself runs
        search(law)
