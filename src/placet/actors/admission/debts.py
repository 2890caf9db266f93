"""Rates of the work and of the log bytes of dry runs, refused and repeated batches.

A quota of the log cannot count them, because such a batch leaves the ledger unchanged.

A batch is charged when it is decided, or when its structure is refused. The next batches of its
agent are refused until the debt is within the burst again. So an agent may exceed its burst by the
batches that it has queued at that time, which the queue bounds; over any longer time it keeps its
rate. Only a world in real time has these rates: simulated time may run arbitrarily faster than the
disk and the processor.

The algorithm is that of a `Quota`, with the test after the fact.
"""

from collections import OrderedDict
from collections.abc import Iterable

from placet.kernel.commit.commit import Unpaid
from placet.schemas.config import Quota
from placet.schemas.limits import SECOND_NS, Limits
from placet.schemas.refusal import STAGE_OF, Refusal, RefusalCode


class DebtMeter:
    """A rate limiter that charges agents after the fact: per agent, and for all agents together.

    Use beyond the rate is a debt, which shrinks with time. All times are monotonic nanoseconds.

    The rate of all agents refuses only agents that have a debt, so that agents whose batches pass
    are not refused for others.

    Args:
        rate: Amount per second that one agent may use; the unit is the caller's, such as bytes.
        burst: Debt that one agent may have without waiting.
        world_rate: Amount per second of all agents together.
        world_burst: Debt that all agents together may have.
        agents_max: Number of agents to remember; the least recently charged is forgotten.

    Attributes:
        tats: Theoretical arrival time of each agent that has a debt; the latest charged comes last.
    """

    def __init__(
        self, rate: int, burst: int, world_rate: int, world_burst: int, agents_max: int
    ) -> None:
        # Rounded up, so that no rate is exceeded.
        self._rate = Quota(-(-SECOND_NS // rate), burst)
        self._world_rate = Quota(-(-SECOND_NS // world_rate), world_burst)
        self._agents_max = agents_max
        self._world_tat = 0
        self.tats: OrderedDict[str, int] = OrderedDict()

    def charge(self, agent_id: str, amount: int, now_ns: int) -> None:
        """Add an amount that an agent has used to its debt and to that of all agents."""
        self._world_tat = self._world_rate.charged(self._world_tat, amount, now_ns)
        self.tats[agent_id] = self._rate.charged(self.tats.get(agent_id, 0), amount, now_ns)
        self.tats.move_to_end(agent_id)
        if len(self.tats) > self._agents_max:
            self.tats.popitem(last=False)

    def wait_ns(self, agent_id: str, now_ns: int) -> int:
        """Return the nanoseconds until an agent's debt is within the limits; 0 if it is now."""
        tat = self.tats.get(agent_id)
        if tat is None:
            return 0
        if tat <= now_ns:
            del self.tats[agent_id]
            return 0
        # The rate of all agents refuses an agent for as long as it has a debt at all.
        world_ns = min(self._world_rate.over_ns(self._world_tat, now_ns), tat - now_ns)
        return max(0, self._rate.over_ns(tat, now_ns), world_ns)


class Debts:
    """The debts of agents for dry runs, refused and repeated batches: log bytes, units of work.

    Attributes:
        owing: Ids of the agents that may have a debt, used as a set; usually empty.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        agents_max = limits.ingress_submitters_max
        rates = (
            limits.refused_bytes_per_second_max,
            limits.refused_bytes_burst_max,
            limits.world_refused_bytes_per_second_max,
        )
        self._log_bytes = DebtMeter(*rates, limits.world_refused_bytes_burst_max, agents_max)
        bytes_rule = "the refused batches of {!r} may add {} bytes/s to the log"
        rates_of_work = (
            limits.unpaid_work_per_second_max,
            limits.unpaid_work_burst_max,
            limits.world_unpaid_work_per_second_max,
        )
        self._work = DebtMeter(*rates_of_work, limits.world_unpaid_work_burst_max, agents_max)
        work_rule = "dry runs, refused and repeated batches of {!r} may use {} units of work/s"
        self._meters = (
            (self._log_bytes, RefusalCode.LOG_RATE_EXCEEDED, "refused_bytes", bytes_rule, rates),
            (self._work, RefusalCode.WORK_EXCEEDED, "unpaid_work", work_rule, rates_of_work),
        )

        self.owing: OrderedDict[str, None] = OrderedDict()

    def charge(self, unpaid: Iterable[Unpaid], now_ns: int) -> None:
        """Charge agents for decided batches; each item is `(agent_id, log_bytes, work)`."""
        for agent_id, log_bytes, work in unpaid:
            self.owing[agent_id] = None
            self._work.charge(agent_id, work, now_ns)
            if log_bytes:
                self._log_bytes.charge(agent_id, log_bytes, now_ns)
        while len(self.owing) > self._limits.ingress_submitters_max:
            self.owing.popitem(last=False)

    def refusal(self, agent_id: str, now_ns: int) -> Refusal | None:
        """Return the refusal of an agent's next batch, with `retry_after`.

        None if its debts allow it.
        """
        for meter, code, amount, rule, (rate, burst, world_rate) in self._meters:
            wait_ns = meter.wait_ns(agent_id, now_ns)
            if wait_ns:
                retry_after = wait_ns / SECOND_NS
                return Refusal(
                    code.value,
                    f"{rule.format(agent_id, rate)} (burst {burst}), those of all agents "
                    f"{world_rate}; retry in {retry_after:.4f} s",
                    STAGE_OF[code],
                    retry_after=retry_after,
                    details={
                        "agent_id": agent_id,
                        "signal": f"{amount}_per_second",
                        "limit": rate,
                    },
                )
        if agent_id not in self._work.tats and agent_id not in self._log_bytes.tats:
            self.owing.pop(agent_id, None)
        return None
