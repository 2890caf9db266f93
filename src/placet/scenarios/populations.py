"""The populations of a run: their registration, and the column batches of their policies.

In a tick the batches of the agents come first, as one group. Then come the column batches, each a
group by itself: those of a population together, in the order in which its policy returned them. The
order of the populations is drawn for each tick, so none has an advantage that lasts.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from placet.kernel.columns.batch import ColumnBatch
from placet.kernel.columns.form import checked
from placet.kernel.kernel import Kernel
from placet.kernel.prng import random_u64
from placet.scenarios.policies import place_of
from placet.scenarios.population_view import PopulationView, Some
from placet.scenarios.scenario import Scenario
from placet.scenarios.scenario_agent import PolicyError, short_text
from placet.scenarios.ticks import REQ_IDS, req_id_of
from placet.scenarios.values import ColumnPopulation, ScenarioError
from placet.schemas.errors import describe_error

ColumnPolicy: TypeAlias = "Callable[[PopulationView], Mapping[str, Mapping[str, object] | Some]]"
"""Returns, by name of a kind, the payload arrays of all members, or `view.only(...)` of some."""


@dataclass(frozen=True, slots=True)
class Populations:
    """The populations of a run.

    Attributes:
        scenario: The scenario of the run.
        policies: By population, its policy.
        columns: By population, initial columns that are no plain JSON.
    """

    scenario: Scenario
    policies: Mapping[str, ColumnPolicy]
    columns: Mapping[str, Mapping[str, object]] = field(default_factory=dict)

    def unregistered(self, kernel: Kernel) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the name of each population that is to be registered, and its keywords.

        Raises:
            ScenarioError: The world has a population with another count or table; or a table does
                not exist, or a column does not fit.
        """
        for name, population in self.scenario.populations.items():
            if name in kernel.ledger.populations:
                self._require_same(kernel, name, population)
                continue
            yield (
                name,
                {
                    "count": population.count,
                    "table": population.table,
                    "permissions": population.permissions,
                    "quotas": population.quotas,
                    **self.columns.get(name, {}),
                    **population.columns,
                },
            )

    def error(self, name: str, key: str, problem: str) -> ScenarioError:
        """Return the error of a value of a population."""
        path = f"populations.{name}.{key}" if key else f"populations.{name}"
        return ScenarioError(self.scenario.name, path, problem)

    def batches(self, kernel: Kernel) -> list[ColumnBatch]:
        """Call the policies at the present state, and return their batches in their order.

        Raises:
            PolicyError: A policy raised, or returned something else than arrays of a payload.
        """
        made: list[ColumnBatch] = []
        for name in self.in_order(kernel):
            made += self.batches_of(kernel, name)
        return made

    def require_form(self, kernel: Kernel, batches: Sequence[ColumnBatch]) -> None:
        """Check the form of batches that the kernel refused.

        Raises:
            PolicyError: The form of one is wrong; its text names the policy.
        """
        for batch in batches:
            try:
                checked(batch, kernel.ledger, kernel.registry)
            except ValueError as error:
                problem = f"returned arrays of no batch of {batch.kind!r}: {error}; returned for"
                raise self._fault(str(batch.population), problem) from error

    def _require_same(self, kernel: Kernel, name: str, population: ColumnPopulation) -> None:
        members = kernel.ledger.populations[name]
        if (members.count, members.table) != (population.count, population.table):
            problem = (
                f"the log has {members.count} members of {members.table!r}, the scenario has "
                f"{population.count} of {population.table!r}; name a new store"
            )
            raise self.error(name, "", problem)

    def in_order(self, kernel: Kernel) -> list[str]:
        """Return the names of the populations in their order in the present tick."""
        if len(self.policies) == 1:
            return list(self.policies)
        tick, seed, now_ns = kernel.ledger.tick, kernel.config.seed, kernel.ledger.now_ns
        turn = {
            name: random_u64(seed, tick, now_ns, 0, "order of populations", name)
            for name in self.policies
        }
        return sorted(turn, key=lambda name: (turn[name], name))

    def batches_of(self, kernel: Kernel, name: str) -> Iterator[ColumnBatch]:
        """Call the policy of a population at the present state, and yield its batches.

        Raises:
            PolicyError: It raised, or returned something else than arrays of a payload.
        """
        view = PopulationView(kernel, name, self.scenario.populations[name].options)
        try:
            answer: object = self.policies[name](view)
        except Exception as error:
            problem = (
                f"raised {describe_error(error)} in tick {view.tick + 1} ({view.sim_time:g} s) for"
            )
            raise self._fault(name, problem, error) from error
        if not isinstance(answer, Mapping):
            problem = f"returned {short_text(answer)} (return a dict of kinds, {{}} for none) for"
            raise self._fault(name, problem)
        for number, (kind, given) in enumerate(answer.items()):
            agents, payload = given if isinstance(given, Some) else (None, given)
            if not isinstance(payload, Mapping):
                problem = (
                    f"returned {short_text(payload)} for the kind {kind!r} (return a dict of "
                    "payload arrays, or view.only(...)) for"
                )
                raise self._fault(name, problem)
            if agents is not None and not len(agents):
                continue  # no member acts
            own = {key: own_values(kernel, values) for key, values in payload.items()}
            req_id = req_id_of(view.tick * REQ_IDS + number)
            yield ColumnBatch(kind, name, own, req_id, agents, view.seq)

    def unsendable(self, name: str, problem: str, tick: int) -> PolicyError:
        """Return the error of batches that cannot be sent to the process of the kernel."""
        problem = f"returned arrays that cannot be pickled ({problem}) in tick {tick + 1} for"
        return self._fault(name, problem)

    def _fault(self, name: str, problem: str, error: Exception | None = None) -> PolicyError:
        place = place_of(None, error)
        key = f"populations.{name}.policy"
        return PolicyError(self.scenario.name, key, f"{problem} {name}{place}", name)


def own_values(kernel: Kernel, values: object) -> object:
    """Return the values of a payload; copied if they may be a view of a column of the world.

    An earlier batch of the tick would change a column under a later one.
    """
    if not isinstance(values, np.ndarray):
        return values
    tables = kernel.tree.tables.values()
    is_column = any(
        np.may_share_memory(values, column) for table in tables for column in table.columns.values()
    )
    return values.copy() if is_column else values
