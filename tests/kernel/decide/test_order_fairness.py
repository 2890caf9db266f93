"""Ties are drawn (G14): over many groups each of several equals is equally likely at each rank.

Chi-square tests over thousands of groups. Seeds are fixed, so each test gives the same every time;
its bounds are those that a fair draw leaves once in ten thousand.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from itertools import combinations, pairwise, permutations
from random import Random
from statistics import NormalDist
from typing import TYPE_CHECKING

import pytest

from placet.kernel.decide import order
from placet.kernel.decide.order import execution_order
from placet.kernel.decide.single.batch import single_of
from tests.kernel.builders import add, checked, kernel_of

if TYPE_CHECKING:
    from placet.schemas.batch import CheckedBatch

GROUPS = 4_000
NAMES = ("zoe", "ann", "Bob", "eve_2", "eve_10", "00", "mallory", "x")

Order = list[tuple[int, str]]
"""Of one group: where each came among those who came, and its name; in order of execution."""


def orders(
    names: Sequence[str], groups: int = GROUPS, *, seed: int = 7, as_rows: bool = False
) -> list[Order]:
    """Submit the same equal batches in many groups, each time in another order."""
    kernel = kernel_of(agents=names)
    batches = [checked(kernel, [add("r", agent_id=name)]) for name in names]
    chance, told = Random(seed), []
    for number in range(groups):
        kernel.ledger.group = number
        came: list[CheckedBatch] = chance.sample(batches, len(batches))
        group = [(as_rows and single_of(batch)) or batch for batch in came]
        places = execution_order(group, kernel.ledger, seed, 0)
        told.append([(place, came[place].agents[0]) for place in places])
    return told


def is_uniform(counts: Counter[Hashable], kinds: int) -> bool:
    """Return whether a fair draw gives such counts; Pearson's chi-square.

    Source: for its distribution, the cube root of Wilson and Hilferty, 1931.
    """
    expected = counts.total() / kinds
    statistic = sum((count - expected) ** 2 for count in counts.values()) / expected
    statistic += expected * (kinds - len(counts))
    degrees = kinds - 1
    normal = NormalDist(1 - 2 / (9 * degrees), (2 / (9 * degrees)) ** 0.5)
    return normal.cdf((statistic / degrees) ** (1 / 3)) < 1 - 1e-4


def faults(told: list[Order], names: Sequence[str]) -> set[str]:
    """Return the properties in which the draws are not fair."""
    count, found = len(names), set[str]()
    for place in range(count):
        if not is_uniform(Counter(one[place][1] for one in told), count):
            found.add("name")
        if not is_uniform(Counter(one[place][0] for one in told), count):
            found.add("arrival")
    for pair in combinations(names, 2):
        firsts = Counter(next(name for _, name in one if name in pair) for one in told)
        if not is_uniform(firsts, 2):  # type: ignore[arg-type]  # names are hashable
            found.add("pair")
    follows = Counter(one[0][1] == before[0][1] for before, one in pairwise(told))
    if abs(follows[True] - len(told) / count) > 4 * (len(told) / count) ** 0.5:
        found.add("who won before")
    return found


@pytest.mark.parametrize(("seed", "as_rows"), [(0, False), (1, True), (2**63 - 1, False)])
def test_every_rank_is_as_likely_for_each_of_equals(seed, as_rows):
    assert not faults(orders(NAMES, seed=seed, as_rows=as_rows), NAMES)


def test_rows_and_checked_batches_have_the_same_order():
    assert orders(NAMES, 50) == orders(NAMES, 50, as_rows=True)


def test_neither_registration_order_nor_name_has_weight():
    for names in (sorted(NAMES), sorted(NAMES, reverse=True)):
        assert not faults(orders(names, GROUPS // 2), names)


def test_every_permutation_of_four_is_as_likely():
    told = orders(NAMES[:4], 6_000)
    drawn = Counter(tuple(name for _, name in one) for one in told)
    assert set(drawn) == set(permutations(NAMES[:4]))
    assert is_uniform(drawn, 24)  # type: ignore[arg-type]  # tuples are hashable


def by_index(key: order.Key, index: int) -> order.Key:
    return (*key[:2], index, key[3])


def by_arrival(key: order.Key, index: int) -> order.Key:
    return (*key[:2], 0, key[3])


def a_little_by_index(key: order.Key, index: int) -> order.Key:
    return (*key[:2], key[2] + (index << 58), key[3])


@pytest.mark.parametrize(
    ("planted", "found"),
    [(by_index, "name"), (by_arrival, "arrival"), (a_little_by_index, "pair")],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_a_planted_bias_is_found(
    monkeypatch: pytest.MonkeyPatch,
    planted: Callable[[order.Key, int], order.Key],
    found: str,
) -> None:
    merged = order._merged

    def biased(keys, queues):
        return merged(
            [
                planted(key, NAMES.index(agents[0]))
                for key, agents in zip(keys, queues, strict=True)
            ],
            queues,
        )

    monkeypatch.setattr(order, "_merged", biased)
    assert found in faults(orders(NAMES), NAMES)
