"""Names of rows are reserved, and members of populations are neither removed nor registered."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from typing_extensions import TypedDict

from placet.errors import AgentError, ValidationError
from placet.kernel import Domain, Field, Kernel, KernelConfig, Kind, RecordList, Table
from placet.kernel.log.replay import Divergence, folded
from placet.schemas.limits import Limits
from placet.schemas.log.record import TableMade, decode_record, encode_record
from tests.kernel.columns.lab import lab_kernel


class _Who(TypedDict):
    who: str


def _remove(draft: Any, intent: Any) -> None:
    draft.remove(intent["payload"]["who"])


def _register(draft: Any, intent: Any) -> None:
    draft.register(intent["payload"]["who"])


class Registry(Domain):
    """A domain whose rules register and remove agents."""

    name, version = "registry", "1"
    kinds = (Kind("Leave", _Who, _remove), Kind("Join", _Who, _register))


def world() -> Kernel:
    kernel = lab_kernel(3, 5, KernelConfig(seed=1), more=(Registry(),))
    kernel.register_population("birds", 3, table="lab.agents")
    kernel.register_agent("ann")
    return kernel


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda k: k.register_agent("cells:3"), "row of the table 'lab.cells'"),
        (lambda k: k.register_agent("birds:300"), "row of the table 'lab.agents'"),
        (lambda k: k.remove_agent("birds:1"), "member of a population"),
        (lambda k: k.set_agent_permissions("birds:1", {"Move"}), "member of a population"),
        (lambda k: k.register_agent("birds:1", permissions={"Move"}), "member of a population"),
        (lambda k: k.change_agent("birds:3", "suspended"), "not registered"),
        (lambda k: k.register_population("cells", 3, table="lab.agents"), "already"),
    ],
)
def test_a_reserved_name_is_refused(call: Callable[[Kernel], object], message: str) -> None:
    kernel = world()
    before = (kernel.record_count, kernel.world_digest())
    with pytest.raises((AgentError, ValueError), match=message):
        call(kernel)
    assert (kernel.record_count, kernel.world_digest()) == before


@pytest.mark.parametrize(
    ("kind", "who", "code"),
    [
        ("Leave", "birds:1", "registry.agent_is_member"),
        ("Join", "birds:1", "registry.agent_exists"),
        ("Join", "cells:4", "registry.agent_exists"),
    ],
)
def test_a_rule_is_refused_a_reserved_name(kind: str, who: str, code: str) -> None:
    kernel = world()
    verdict = kernel.decide(kernel.intent(kind, {"who": who}, agent="ann"))
    assert verdict.codes == (code,)


def test_a_member_is_suspended_and_resumed() -> None:
    kernel = world()
    kernel.change_agent("birds:1", "suspended")
    assert kernel.population("birds").suspended.tolist() == [False, True, False]
    kernel.change_agent("birds:1", "resumed")
    assert not kernel.population("birds").suspended.any()


def test_a_boolean_default_is_read_back_from_the_log() -> None:
    class Lamps(Registry):
        tables = (Table("registry.lamps", {"lit": Field("b1", default=True)}, rows=3),)

    log = RecordList()
    kernel = Kernel(Lamps(), sink=log)
    assert folded(log).state.digest().hex() == kernel.digest()
    assert kernel.state["registry.lamps"]["lamps:1"]["lit"] is True


def test_a_table_beyond_the_limit_of_rows_is_refused_and_a_forged_one_is_not_folded() -> None:
    class Many(Registry):
        tables = (Table("registry.many", {"x": Field("i1")}, rows=11),)

    limits = Limits(column_rows_max=10)
    with pytest.raises(ValidationError, match=r"column_rows_max"):
        Kernel(Many(), KernelConfig(limits=limits))
    log = RecordList()
    Kernel(Many(), KernelConfig(), sink=log)
    record = decode_record(log[-1])
    assert isinstance(record, TableMade)
    forged = encode_record(replace(record, count=2**40))
    with pytest.raises(Divergence, match=r"rows, where at most"):
        folded([*log[:-1], forged])


def test_an_effect_of_on_populate_takes_the_population_back() -> None:
    class Emitting(Registry):
        tables = (Table("registry.lamps", {"lit": Field("b1")}),)

        def on_populate(self, draft: Any, population: Any) -> None:
            draft.emit("ring", {})

    kernel = Kernel(Emitting())
    kernel.change_executor("ring", 3)
    before = (kernel.record_count, kernel.world_digest())
    with pytest.raises(ValidationError, match="emitted an effect"):
        kernel.register_population("lamps", 3, table="registry.lamps")
    assert (kernel.record_count, kernel.world_digest()) == before


def test_a_log_that_was_cut_between_two_tables_has_both_again() -> None:
    class Two(Registry):
        tables = tuple(Table(f"registry.{name}", {"x": Field("i1")}, rows=2) for name in "ab")

        def on_open(self, draft: Any) -> None:
            draft.columns("registry.b").set("x", 3)

    log = RecordList()
    kernel = Kernel(Two(), sink=log)
    assert isinstance(decode_record(log[-2]), TableMade)
    again = Kernel(Two(), history=log[:-1])
    assert again.digest() == kernel.digest()
