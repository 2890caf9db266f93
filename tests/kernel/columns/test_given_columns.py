"""The initial columns of a population: constants, and hooks that must leave them as given."""

from typing import Any

import numpy as np
import pytest

from placet import Simulation
from placet.kernel import Domain, Field, Kernel, KernelConfig, Kind, RecordList, Table
from placet.kernel.log.replay import folded
from placet.kernel.log.verify import Verifier
from placet.schemas.errors import ValidationError

N = 4
FIELDS = {"at": Field("f8", 2), "cell": Field("i4", default=7), "wide": Field("i2", 4)}


class Town(Domain):
    name, version = "town", "1"
    tables = (Table("town.people", FIELDS),)
    kinds = (Kind("Rest", {"for_s": Field("i4")}, rows=lambda rows: None, table="town.people"),)

    def __init__(self, hook: Any = None) -> None:
        self._hook = hook

    def on_populate(self, draft: Any, population: Any) -> None:
        if self._hook is not None:
            self._hook(draft, population)


@pytest.mark.parametrize(
    ("given", "field", "expected"),
    [
        ({"cell": 3}, "cell", [3] * N),
        ({"cell": np.int64(3)}, "cell", [3] * N),
        ({"cell": [1, 2, 3, 4]}, "cell", [1, 2, 3, 4]),
        ({"at": 1}, "at", [[1, 1]] * N),
        ({"at": (1, 2)}, "at", [[1, 2]] * N),
        ({"at": [[1, 2]] * N}, "at", [[1, 2]] * N),
        ({"wide": [1, 2, 3, 4]}, "wide", [[1, 2, 3, 4]] * N),
    ],
)
def test_a_constant_is_that_of_each_member_of_a_kernel_and_a_simulation(given, field, expected):
    kernel = Kernel(Town())
    people = kernel.register_population("people", N, table="town.people", **given)
    assert people[field].tolist() == expected
    spec = {"count": N, "table": "town.people", "policy": lambda view: {}, "columns": given}
    run = Simulation(Town(), populations={"people": spec})
    run.run(ticks=1)
    assert run.population("people")[field].tolist() == expected


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"cell": [1, 2]}, "shape"),
        ({"at": [1, 2, 3]}, "shape"),
        ({"at": [[1, 2], [3]]}, "at of 'people'"),
        ({"cell": "three"}, "cell of 'people'"),
        ({"cel": 3}, "did you mean 'cell'"),
    ],
)
def test_a_column_that_does_not_fit_is_refused(given, text):
    with pytest.raises(ValueError, match=text):
        Kernel(Town()).register_population("people", N, table="town.people", **given)


def by_column(draft: Any, population: Any) -> None:
    draft.columns(population.table).set("cell", 9, where=[1])


def by_row(draft: Any, population: Any) -> None:
    draft.put(population.table, "people:1", "cell", 9)


@pytest.mark.parametrize("hook", [by_column, by_row])
@pytest.mark.parametrize("cell", [3, FIELDS["cell"].default])
def test_a_hook_that_writes_a_given_column_fails_the_registration(hook, cell):
    log = RecordList()
    kernel = Kernel(Town(hook), sink=log)
    before = len(log), kernel.world_digest()
    with pytest.raises(ValidationError, match=r"'cell' of town\.people, which was given"):
        kernel.register_population("people", N, table="town.people", cell=cell)
    assert (len(log), kernel.world_digest()) == before
    kernel.register_population("people", N, table="town.people")
    assert kernel.population("people")["cell"].tolist() == [7, 9, 7, 7]


def test_a_hook_reads_which_columns_were_given_live_and_when_decided_again():
    seen = []

    def hook(draft: Any, population: Any) -> None:
        seen.append(population.given)
        draft.columns(population.table).set("at", 1)
        if "cell" not in population.given:
            draft.columns(population.table).set("cell", 5)

    log = RecordList()
    kernel = Kernel(Town(hook), KernelConfig(), sink=log)
    kernel.register_population("people", N, table="town.people", cell=FIELDS["cell"].default)
    assert kernel.population("people")["cell"].tolist() == [7] * N
    verifier = Verifier([Town(hook)])
    for data in log:
        verifier.apply(data)
    assert seen == [{"cell"}] * 2
    assert folded(log).state.digest().hex() == verifier.state.digest().hex() == kernel.digest()
