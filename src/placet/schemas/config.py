"""The settings that affect decisions: plain data for the kernel."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil, inf, nextafter
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from typing_extensions import TypedDict

from placet.schemas.codec import without_numpy
from placet.schemas.identity import is_identity
from placet.schemas.keywords import explain_keywords, require_a
from placet.schemas.limits import LEASE_REFS_MAX, SECOND_NS, Limits

OnRuleError: TypeAlias = Literal["refuse", "raise"]
ON_RULE_ERROR: Final[tuple[OnRuleError, ...]] = get_args(OnRuleError)

FULL_BURST_NS_MAX: Final = 2**62
"""About 146 years: the theoretical arrival time of a bucket then fits 64 bits at any time."""


ALL_KINDS: Final = "*"
"""Key of the quota that all kinds of one agent share."""

AGENT_WORK: Final = "work:agent"
WORLD_WORK: Final = "work:world"
"""Keys of the quotas in units of work, of each agent and of all agents together; no kind has a
colon in its name.
"""


class QuotaSpec(TypedDict):
    """A quota as users write it: `{"rate": per second, "burst": count}`."""

    rate: float
    burst: int


class Quota(NamedTuple):
    """A rate in integer nanoseconds, by the generic cell rate algorithm (GCRA).

    A bucket is one integer, its theoretical arrival time (TAT). Quotas of the ledger count intents
    in simulated time; the rate limiters of the ingress and of the server count in monotonic time.

    Attributes:
        interval_ns: Nanoseconds that one intent, byte or unit of work costs.
        burst: Amount that may pass at once after a long pause.

    Source: ITU-T I.371 (Generic Cell Rate Algorithm, virtual scheduling).
    """

    interval_ns: int
    burst: int

    def charged(self, tat_ns: int, amount: int, now_ns: int) -> int:
        """Return the TAT of a bucket after a charge: amount intervals past its TAT, or past now."""
        begins_ns = tat_ns if tat_ns > now_ns else now_ns  # noqa: FURB136  # max() is another call
        return begins_ns + amount * self.interval_ns

    def over_ns(self, tat_ns: int, now_ns: int) -> int:
        """Return the nanoseconds until a bucket is within its burst; at most 0 if it is now."""
        return tat_ns - self.burst * self.interval_ns - now_ns

    @property
    def rate(self) -> float:
        """Intents per simulated second."""
        return SECOND_NS / self.interval_ns

    def spec(self) -> QuotaSpec:
        """Return the quota in the user's form, the inverse of `of`.

        An interval longer than a month corresponds to only a few floats, so the rate is searched
        among the neighboring floats.
        """
        interval_ns, plain = self.interval_ns, round(self.rate, 9)
        if plain and ceil(SECOND_NS / plain) == interval_ns:  # 0.5, as a user writes it
            return {"rate": plain, "burst": self.burst}
        # `of` rounds the interval up, so the rate lies within the last nanosecond of the interval.
        rate = float(SECOND_NS) if interval_ns == 1 else SECOND_NS / (interval_ns - 0.5)
        while ceil(SECOND_NS / rate) < interval_ns:
            rate = nextafter(rate, 0.0)
        while ceil(SECOND_NS / rate) > interval_ns:
            rate = nextafter(rate, inf)
        return {"rate": rate, "burst": self.burst}

    @classmethod
    def of(cls, spec: object) -> "Quota":
        """Read a user's quota. The interval is rounded up, so that the rate is never exceeded.

        Raises:
            ValueError: The rate is not positive and finite, the burst is not a positive int, or a
                full burst takes longer than `FULL_BURST_NS_MAX` to earn.
        """
        spec = without_numpy(spec)
        shown = dict(spec) if isinstance(spec, Mapping) else spec
        rate = burst = None
        if isinstance(shown, dict) and set(shown) == {"rate", "burst"}:
            rate, burst = shown["rate"], shown["burst"]
        if isinstance(rate, bool) or not isinstance(rate, int | float):
            raise ValueError(f"a quota is {{'rate': per second, 'burst': count}}, got {shown!r}")
        if not 0 < rate <= SECOND_NS:
            raise ValueError(
                f"a quota's rate must be > 0 and <= {SECOND_NS} per second, got {rate!r}"
            )
        if type(burst) is not int or burst < 1:
            raise ValueError(f"a quota's burst must be an int >= 1, got {burst!r}")
        interval_ns = SECOND_NS / rate
        if burst > FULL_BURST_NS_MAX or interval_ns * burst > FULL_BURST_NS_MAX:
            raise ValueError(
                f"a quota's burst must be earned within {FULL_BURST_NS_MAX // SECOND_NS} s, "
                f"got {shown!r}"
            )
        return cls(ceil(interval_ns), burst)


class LeaseSettings(NamedTuple):
    """The settings of leases in whole numbers, as the log has them.

    Attributes:
        length_ns_max: Longest lease, nanoseconds.
        share_ppm: Largest share of the time for which an entity is leased, in millionths.
        refs_max: Entities of one lease.
        tickets_max: Tickets of all agents together.
        start_ns_max: Time within which a called agent must start, nanoseconds.
    """

    length_ns_max: int
    share_ppm: int
    refs_max: int
    tickets_max: int
    start_ns_max: int


@explain_keywords
@dataclass(frozen=True, slots=True, kw_only=True)
class Leases:
    """Turns on leases: an agent may change some entities alone for a while.

    While a lease runs, a batch of another agent that would change its entities is refused.

    Attributes:
        seconds_max: Longest lease, simulated seconds.
        share: Largest share of the time for which an entity is leased, from 0.01 to 1: after a
            lease of d seconds it is free of leases for d * (1 - share) / share.
        refs_max: Entities of one lease, 1 to 64.
        tickets_max: Leases that run or wait, of all agents together, 1 to 1 000.
        begin_within: Simulated seconds within which an agent whose turn it is must start its lease.

    Raises:
        ValueError: A value is not in its range.
    """

    seconds_max: float = 10.0
    share: float = 0.5
    refs_max: int = 8
    tickets_max: int = 64
    begin_within: float = 1.0

    def __post_init__(self) -> None:
        for name, low, high in _LEASE_RANGES:
            value: object = getattr(self, name)
            whole = name.endswith("s_max") and name != "seconds_max"
            if type(value) not in ({int} if whole else {int, float}) or not low <= value <= high:  # type: ignore[operator]  # a number
                kind = "an int" if whole else "a number"
                raise ValueError(
                    f"{name} of leases must be {kind} from {low:g} to {high:g}, got {value!r}"
                )

    def settings(self) -> LeaseSettings:
        """Return these settings in whole numbers."""
        return LeaseSettings(
            round(self.seconds_max * SECOND_NS),
            round(self.share * 1_000_000),
            self.refs_max,
            self.tickets_max,
            round(self.begin_within * SECOND_NS),
        )

    @classmethod
    def of(cls, settings: LeaseSettings) -> "Leases":
        """Return the leases with these settings."""
        return cls(
            seconds_max=settings.length_ns_max / SECOND_NS,
            share=settings.share_ppm / 1_000_000,
            refs_max=settings.refs_max,
            tickets_max=settings.tickets_max,
            begin_within=settings.start_ns_max / SECOND_NS,
        )


_LEASE_RANGES: Final = (
    ("seconds_max", 0.001, 86_400.0),
    ("share", 0.01, 1.0),
    ("refs_max", 1, LEASE_REFS_MAX),
    ("tickets_max", 1, 1_000),
    ("begin_within", 0.001, 3_600.0),
)


@explain_keywords
@dataclass(frozen=True, slots=True, kw_only=True)
class KernelConfig:
    """The kernel's configuration.

    Attributes:
        world: Name of the world; part of every effect key.
        seed: 64-bit seed of tie-breaks and random draws.
        staleness_threshold: Refuse an intent whose `context_seq` is more than this many seqs
            behind; None never refuses for age, 0 allows no lag.
        quotas: Quota of each kind; `*` limits all kinds of an agent together. `work:agent` and
            `work:world` limit units of work instead of intents, of each agent and of all together.
        world_quota: Quota of all agents and kinds together; None is no limit.
        default_permissions: Kinds permitted to an agent registered without permissions; None is
            all.
        leases: Bounds of leases; None: the world has none.
        limits: Bounds of the world.
        on_rule_error: `refuse`: a batch for which a domain's code raises is refused as
            `rule_error`. `raise`: the exception leaves the kernel's method, for development: the
            batch is undone, and has no record. Of a group, the batches decided before it stay,
            and the others are not decided. It is no part of the world: the log does not keep it.
    """

    world: str = "world"
    seed: int = 0
    staleness_threshold: int | None = None
    quotas: Mapping[str, Mapping[str, float] | QuotaSpec] = field(default_factory=dict)
    world_quota: Mapping[str, float] | QuotaSpec | None = None
    default_permissions: frozenset[str] | None = None
    leases: Leases | None = None
    limits: Limits = field(default_factory=Limits)
    on_rule_error: OnRuleError = "refuse"

    def __post_init__(self) -> None:
        if self.on_rule_error not in ON_RULE_ERROR:
            raise ValueError(
                f"on_rule_error must be one of {', '.join(ON_RULE_ERROR)}, "
                f"got {self.on_rule_error!r}"
            )
        if type(self.seed) is not int or not 0 <= self.seed < 2**64:
            raise ValueError(f"seed must be an int in 0..2**64-1, got {self.seed!r}")
        if not is_identity(self.world):
            raise ValueError(
                f"world must be 1 to 128 characters without control characters, got {self.world!r}"
            )
        threshold = self.staleness_threshold
        if threshold is not None and (type(threshold) is not int or threshold < 0):
            raise ValueError(f"staleness_threshold must be None or an int >= 0, got {threshold!r}")
        quotas: object = self.quotas
        if not isinstance(quotas, Mapping):
            raise TypeError(
                "quotas must be a mapping such as {'Speak': {'rate': 2, 'burst': 4}}, "
                f"got {quotas!r}"
            )
        require_a(self.limits, Limits, "limits")
        if self.leases is not None:
            require_a(self.leases, Leases, "leases")
        for spec in quotas.values():
            Quota.of(spec)
        if self.world_quota is not None:
            Quota.of(self.world_quota)
        permitted_kinds(self.default_permissions)


def permitted_kinds(permissions: Iterable[str] | None) -> frozenset[str] | None:
    """Return permissions as a frozenset of kinds; None permits all kinds.

    The kernel refuses a name that is no kind, unless its effect validator takes permissions.

    Raises:
        ValueError: The value is one string, or contains a non-string.
    """
    if permissions is None:
        return None
    permitted = frozenset(permissions)
    if isinstance(permissions, str) or not all(isinstance(kind, str) for kind in permitted):
        raise ValueError(f"permissions must be a set of kinds or None, got {permissions!r}")
    return permitted
