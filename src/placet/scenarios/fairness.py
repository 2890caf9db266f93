"""How evenly a run dealt: who was decided how often, who won what several wanted, and against whom.

A contest is what several wanted in one group of the log: all but one of them were refused with the
name of the one who was first. These are counts of a report. They are no metrics: a label for each
agent, or each pair of them, would have no bound.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from placet.schemas.codec import Json
from placet.schemas.intent import Intent
from placet.schemas.refusal import Stage
from placet.schemas.verdict import Verdict

_OUTSIDE: Final = frozenset({Stage.ADMISSION, Stage.STRUCTURE})
"""What is refused there never reached the core, and may be no intent at all."""

PAIRS_MAX: Final = 200_000
"""Pairs of loser and winner that are counted; of those met later nothing is kept."""

TOP_PAIRS: Final = 3


class AgentPair(NamedTuple):
    """Who lost to whom."""

    loser: str
    winner: str


class FairnessStats:
    """Counts verdicts, and what their refusals tell of who was first.

    Attributes:
        decided: Batches that reached the core, by agent; all that it names.
        wins: Contests won, by agent.
        pairs: How often one lost to another.
    """

    def __init__(self) -> None:
        self.decided: Counter[str] = Counter()
        self.wins: Counter[str] = Counter()
        self.pairs: Counter[AgentPair] = Counter()
        self.entered: set[str] = set()
        self._seen: set[tuple[str, str]] = set()

    def begin_group(self) -> None:
        """Begin the next group: what is won from now on is won again."""
        self._seen.clear()

    def count(self, batch: Sequence[Intent], verdict: Verdict) -> None:
        """Count one answer."""
        if all(refusal.stage not in _OUTSIDE for refusal in verdict.refusals):
            self.decided.update({intent["agent_id"] for intent in batch})
        for refusal in verdict.refusals:
            winner, resource = refusal.details.get("winner"), refusal.details.get("resource")
            if isinstance(winner, str) and isinstance(resource, str):
                self._count_loss(batch[refusal.index or 0]["agent_id"], winner, resource)

    def _count_loss(self, loser: str, winner: str, resource: str) -> None:
        self.entered |= {loser, winner}
        if (resource, winner) not in self._seen:
            self._seen.add((resource, winner))
            self.wins[winner] += 1
        pair = AgentPair(loser, winner)
        if pair in self.pairs or len(self.pairs) < PAIRS_MAX:
            self.pairs[pair] += 1

    def as_dict(self, agents: int) -> dict[str, Json]:
        """Return the figures of a report on so many agents."""
        won = self.wins.total()
        return {
            "jain_decided": _rounded(jain(self.decided.values(), agents)),
            "contests": won,
            "contestants": len(self.entered),
            "jain_wins": _rounded(jain(self.wins.values(), len(self.entered))),
            "jain_wins_of_a_lottery": _rounded(lottery_jain_index(won, len(self.entered))),
            "lost_to": [[*pair, count] for pair, count in self.top_pairs()],
        }

    def top_pairs(self) -> list[tuple[AgentPair, int]]:
        """Return the pairs of most losses; of as many, by name."""
        return sorted(self.pairs.items(), key=lambda item: (-item[1], item[0]))[:TOP_PAIRS]


def jain(parts: Iterable[int], count: int) -> float | None:
    """Return how even parts are: 1 if all of `count` have as much, `1 / count` if one has it all.

    Args:
        parts: Of those who have any.
        count: How many there are, with those who have none.

    Source: Jain, Chiu and Hawe, "A quantitative measure of fairness and discrimination for resource
    allocation in shared computer systems", 1984.
    """
    known = list(parts)
    squares = sum(part * part for part in known)
    return sum(known) ** 2 / (count * squares) if squares else None


def lottery_jain_index(wins: int, count: int) -> float | None:
    """Return what the index is of where each win is drawn among all alike: it is not 1.

    The expected sum of squares of a multinomial is `wins + wins * (wins - 1) / count`.
    """
    return wins / (count + wins - 1) if wins and count else None


def _rounded(index: float | None) -> float | None:
    return None if index is None else round(index, 4)
