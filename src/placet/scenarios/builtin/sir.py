"""SIR on a network: the infectious infect the people that they are linked to, then recover.

The links are a table without agents. A person catches the disease from a person that is linked to
it and infectious, which the rule checks; whether it does is drawn by the policy.

Source: Kermack and McKendrick, "A contribution to the mathematical theory of epidemics", 1927, on
a random network as in Mesa's example.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from placet.kernel import Domain, Draft, Field, Kind, Table
from placet.kernel.plugin.domain import NewPopulation
from placet.kernel.plugin.rows import Rows
from placet.kernel.state.tree import WorldState
from placet.scenarios.population_view import PopulationView

PEOPLE, LINKS = "sir.people", "sir.links"
SUSCEPTIBLE: Final = 0
INFECTIOUS: Final = 1
RECOVERED: Final = 2


class Sir(Domain):
    """People with `links` links between them, of whom `outbreak` are infectious at the start.

    Raises:
        ValueError: There is no link, or `outbreak` is negative.
    """

    name, version = "sir", "1"

    def __init__(self, links: int = 1_500, outbreak: int = 5) -> None:
        if links < 1:
            raise ValueError(f"links is a number of links of at least 1, got {links!r}")
        if outbreak < 0:
            raise ValueError(f"outbreak is a number of people of at least 0, got {outbreak!r}")
        self._links, self._outbreak = links, outbreak
        person, link = Field("i4", low=0), Field("i4", low=0, high=links - 1)
        self.tables = (
            Table(PEOPLE, {"state": Field("u1", high=RECOVERED)}),
            Table(LINKS, {"one": person, "other": person}, rows=links),
        )
        self.kinds = (
            Kind("Catch", {"link": link}, rows=catch, table=PEOPLE),
            Kind("Recover", {"from_state": Field("u1")}, rows=recover, table=PEOPLE),
        )

    def settings(self) -> Mapping[str, Any]:
        """Return the keywords that rebuild this domain."""
        return {"links": self._links, "outbreak": self._outbreak}

    def on_populate(self, draft: Draft, population: NewPopulation) -> None:
        """Link pairs of people at random, no pair twice, and infect some people."""
        random, count = np.random.default_rng(draft.randint_below(2**32, "links")), population.count
        pairs = random.choice(count * (count - 1) // 2, self._links, replace=False)
        other = ((1 + np.sqrt(1 + 8 * pairs.astype(float))) / 2).astype(np.int64)
        other -= other * (other - 1) // 2 > pairs  # where the root was rounded up
        draft.columns(LINKS).set("one", pairs - other * (other - 1) // 2)
        draft.columns(LINKS).set("other", other)
        infected = random.permutation(count)[: self._outbreak]
        if "state" not in population.given:
            draft.columns(PEOPLE).set("state", INFECTIOUS, infected)


def catch(rows: Rows) -> None:
    """Become infectious by a link to a person who is."""
    link, links = rows.payload["link"], rows.table(LINKS)
    one, other = links["one"][link], links["other"][link]
    source = np.where(one == rows.numbers, other, one)
    is_own = (one == rows.numbers) | (other == rows.numbers)
    rows.refuse(~is_own, "no_link", "the link must be one of the person")
    rows.refuse(rows.own["state"] != SUSCEPTIBLE, "immune", "the person must be susceptible")
    is_infectious = rows.table(PEOPLE)["state"][source] == INFECTIOUS
    rows.refuse(~is_infectious, "not_infectious", "the other person must be infectious")
    rows.write("state", INFECTIOUS)


def recover(rows: Rows) -> None:
    """Become immune after having been infectious."""
    rows.refuse(rows.own["state"] != INFECTIOUS, "not_infectious", "only the infectious recover")
    rows.write("state", RECOVERED)


def spread(view: PopulationView) -> dict[str, Any]:
    """Return who catches the disease by which link, and who recovers.

    Options: the chances `infect`, by each link to an infectious person, and `recover`, in a tick.
    """
    state, links = view["state"], view.table(LINKS)
    one, other = links["one"], links["other"]
    targets = np.concatenate([one, other])
    is_hot = np.concatenate([state[other], state[one]]) == INFECTIOUS
    exposure = np.bincount(targets[is_hot], minlength=view.count)
    chance = 1 - (1 - view.options.get("infect", 0.08)) ** exposure
    is_caught = (state == SUSCEPTIBLE) & (view.random_unit("infect") < chance)
    by_link = np.zeros(view.count, np.int64)
    by_link[targets[is_hot]] = np.flatnonzero(is_hot) % len(one)
    is_over = (state == INFECTIOUS) & (view.random_unit("over") < view.options.get("recover", 0.2))
    return {
        "Catch": view.only(is_caught, link=by_link[is_caught]),
        "Recover": view.only(is_over, from_state=state[is_over]),
    }


def states(state: WorldState) -> dict[str, int]:
    """Return the number of people in each state."""
    counts = np.bincount((state.columns(PEOPLE) or {})["state"], minlength=RECOVERED + 1).tolist()
    return dict(zip(("susceptible", "infectious", "recovered"), counts, strict=True))
