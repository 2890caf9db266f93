"""Fairness statistics of a run: decisions per agent, contests won, and who lost to whom.

A contest is a resource that several agents wanted in one group of the log: all but one were refused
with a conflict that names the winner. The counts are for a report, not metrics: a label per
agent, or per pair of agents, would be unbounded.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from placet.schemas.codec import Json
from placet.schemas.intent import Intent
from placet.schemas.refusal import Stage
from placet.schemas.verdict import Verdict

_NOT_DECIDED: Final = frozenset({Stage.ADMISSION, Stage.STRUCTURE})
"""Refused before the core; the batch may be malformed."""

PAIRS_MAX: Final = 200_000
"""Maximum counted pairs of loser and winner; later pairs are ignored."""

TOP_PAIRS: Final = 3

if TYPE_CHECKING:
    from placet.kernel.columns.verdict import ColumnVerdict


class MemberCounts(NamedTuple):
    """The counts of the members of a population, as arrays with an item for each member.

    Attributes:
        decided: Number of rows that the gate decided.
        wins: Number of column batches in which it won a contest.
        entered: Whether it took part in a contest.
    """

    decided: Any
    wins: Any
    entered: Any


class AgentPair(NamedTuple):
    """An agent refused for a conflict (`loser`), and the agent that claimed the resource first."""

    loser: str
    winner: str


class FairnessStats:
    """Counts decisions by agent, and contests by winner and loser.

    In a contest, agents claim one resource in the same group of batches: the first claim wins, and
    the intent of every other agent is refused as a conflict.

    Attributes:
        decided: Number of batches that the gate decided, by agent, for every agent in the batch.
        wins: Number of contests that each agent won.
        pairs: Number of refusals by loser and winner.
        entered: Agents that took part in a contest.
        members: Population -> the counts of its members. The other attributes do not count
            members.
    """

    def __init__(self) -> None:
        self.decided: Counter[str] = Counter()
        self.wins: Counter[str] = Counter()
        self.pairs: Counter[AgentPair] = Counter()
        self.entered: set[str] = set()
        self.members: dict[str, MemberCounts] = {}
        self._won_in_group: set[tuple[str, str]] = set()

    def begin_group(self) -> None:
        """Start the next group: the same resource can be won once per group."""
        self._won_in_group.clear()

    def count(self, batch: Sequence[Intent], verdict: Verdict) -> None:
        """Add the verdict of one batch to the counts."""
        refusals = verdict.refusals  # all of one stage
        if not refusals or refusals[0].stage not in _NOT_DECIDED:
            for agent_id in {intent["agent_id"] for intent in batch}:
                self.decided[agent_id] += 1
        if not refusals or refusals[0].stage is not Stage.DOMAIN:
            return
        for refusal in refusals:
            winner, resource = refusal.details.get("winner"), refusal.details.get("resource")
            if isinstance(winner, str) and isinstance(resource, str):
                self._count_loss(batch[refusal.index or 0]["agent_id"], winner, resource)

    def count_columns(self, verdict: "ColumnVerdict", count: int) -> None:
        """Add the verdict on a column batch of a population with so many members. O(rows), arrays.

        A member that others lost to won one contest of the batch.
        """
        import numpy as np  # noqa: PLC0415  # an extra

        from placet.kernel.arrays.row_codes import ROW_CODES  # noqa: PLC0415  # imports numpy

        known = self.members.get(verdict.population)
        if known is None:
            known = MemberCounts(
                np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.bool_)
            )
            self.members[verdict.population] = known
        early = [code for code, row_code in ROW_CODES.items() if row_code.stage in _NOT_DECIDED]
        known.decided[verdict.numbers[~np.isin(verdict.codes, early)]] += 1
        has_lost = verdict.winners >= 0
        winners = np.unique(verdict.winners[has_lost])
        known.wins[winners] += 1
        known.entered[winners] = known.entered[verdict.numbers[has_lost]] = True

    def _count_loss(self, loser: str, winner: str, resource: str) -> None:
        self.entered |= {loser, winner}
        if (resource, winner) not in self._won_in_group:
            self._won_in_group.add((resource, winner))
            self.wins[winner] += 1
        pair = AgentPair(loser, winner)
        if pair in self.pairs or len(self.pairs) < PAIRS_MAX:
            self.pairs[pair] += 1

    def as_dict(self, agents: int) -> dict[str, Json]:
        """Return the figures as plain JSON for a `RunReport`.

        Args:
            agents: Number of agents in the run, the members of populations included.
        """
        members = self.members.values()
        decided = chain(self.decided.values(), *(each.decided.tolist() for each in members))
        wins = [*self.wins.values(), *chain(*(each.wins.tolist() for each in members))]
        entered = len(self.entered) + sum(int(each.entered.sum()) for each in members)
        return {
            "jain_decided": _rounded(jain(decided, agents)),
            "contests": sum(wins),
            "contestants": entered,
            "jain_wins": _rounded(jain(wins, entered)),
            "jain_wins_of_a_lottery": _rounded(lottery_jain_index(sum(wins), entered)),
            "lost_to": [[*pair, count] for pair, count in self.top_pairs()],
        }

    def top_pairs(self) -> list[tuple[AgentPair, int]]:
        """Return the loser-winner pairs with the most refusals and their counts, highest first."""
        return sorted(self.pairs.items(), key=lambda item: (-item[1], item[0]))[:TOP_PAIRS]


def jain(parts: Iterable[int], count: int) -> float | None:
    """Return Jain's index: 1 if all shares are equal, `1 / count` if one agent has everything.

    Args:
        parts: The shares that are not zero; zeros may be included.
        count: Number of agents, including those without a share.

    Source: Jain, Chiu and Hawe, "A quantitative measure of fairness and discrimination for resource
    allocation in shared computer systems", 1984.
    """
    shares = list(parts)
    squares = sum(part * part for part in shares)
    return sum(shares) ** 2 / (count * squares) if squares else None


def lottery_jain_index(wins: int, count: int) -> float | None:
    """Return the expected Jain index of a fair lottery over `count` agents, which is below 1.

    The expected sum of squares of a multinomial is `wins + wins * (wins - 1) / count`.
    """
    return wins / (count + wins - 1) if wins and count else None


def _rounded(index: float | None) -> float | None:
    return None if index is None else round(index, 4)
