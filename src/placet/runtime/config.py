"""The configuration of one world."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, get_args

from placet.actors.admission.queue import Backpressure
from placet.actors.admission.time_scaled_queue import FACTOR_MIN, WAIT_MS, Dilation
from placet.runtime.telemetry.logging import LOG_FORMATS, LOG_LEVELS
from placet.schemas.codec import Json
from placet.schemas.config import KernelConfig, Leases, QuotaSpec, permitted_kinds
from placet.schemas.keywords import explain_keywords, require_a
from placet.schemas.limits import Limits
from placet.stores.snapshots.writer import EVERY_SEQS, KEPT_MIN
from placet.stores.url import url_text

ClockName = Literal["realtime", "stepped", "next_event"]
CLOCKS: Final[tuple[ClockName, ...]] = get_args(ClockName)
BACKPRESSURE: Final[tuple[Backpressure, ...]] = get_args(Backpressure)


@explain_keywords
@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorConfig:
    """The configuration of one world. Everything has a default.

        config = OrchestratorConfig(
            store="memory://",
            seed=7,
            clock="stepped",
            quotas={"Speak": {"rate": 0.5, "burst": 3}},
        )

    Attributes:
        store: Where the log is: `memory://`, `sqlite:///town.db`, `sqlite:////abs/town.db`;
            `?synchronous=full|normal|off` for SQLite; `postgresql://user@host/db?world=town`.
        seed: Seed of tie-breaks and random draws, 0..2**64-1.
        clock: `realtime`; `stepped`: time moves only by `step(dt)`; `next_event`: time jumps to the
            next event once every participant waits.
        tick_s: `next_event` only: interval of ticks in simulated seconds; None for no ticks.
        instant_groups_max: `next_event` only: maximum number of groups decided at one simulated
            instant.
        agent_think_seconds_max: `next_event` only: real seconds that one computation of an agent
            may hold up simulated time.
        staleness_threshold: Refuse batches more than this many seqs behind; None turns it off, 0 is
            strict.
        quotas: `{kind: {"rate": per second, "burst": count}}`; kind `*` is all kinds of an agent,
            `work:agent` and `work:world` units of work (`docs/concepts/backpressure.md`).
        world_quota: A quota, `{"rate", "burst"}`, for all agents together.
        default_permissions: Kinds that an agent may use if its registration names none; None is
            all.
        mailbox_batches_max: Maximum number of queued batches; None is the larger of 256 and twice
            the number of registered agents.
        mailbox_bytes_max: Maximum bytes of the queued batches together; None is that of `limits`.
        backpressure: Overflow policy of a full queue. `reject`: the batch is refused with a
            `retry_after`. `wait`: it goes to a wait queue, within its `valid_for_s`. `shed_lowest`:
            it displaces a batch of lower priority, if there is one. `dilate`: it goes to a wait
            queue, and simulated time runs slower until that is short again; its `valid_for_s` is
            simulated. `dilate` requires `realtime`.
        dilation_wait_ms: Under `dilate`: real milliseconds that a batch may wait before time slows.
        dilation_factor_min: Under `dilate`: lowest number of simulated seconds per real second.
        world: Name of the world; part of every effect key.
        standby: If another process writes the store, follow its log until that process is gone,
            then open the world. Needs a store with a lease: `postgresql://`.
        take_over: Open the store even if another process writes it, and fence that process. It
            stops at its next write; its acknowledged batches are kept.
        read_only: Show the world of a store without writing anything, and follow its log while
            another process writes it. Settings, quotas and limits are those of the log; time is
            that of its latest record. Methods that write raise `ReadOnlyError`.
        snapshot_every_seqs: Write a snapshot of a store on disk, in a separate process, after this
            many seqs (or records): it bounds the time of the next opening. None for never.
        snapshots_kept: Number of snapshots to keep, at least 2.
        compact_log: Remove from a store on disk the records that two snapshots (or all that are
            kept) cover. Removed records can no longer be replayed, explained or verified.
        anchors: File to which the head of the log's chain is appended: when the world is opened,
            every 10 s in which it changed, and when it is closed. `placet verify --anchors` detects
            by it that the end of a log was cut off, so keep it on another disk.
        origin: Description of how the world was started, for programs that start it again: plain
            JSON, kept in the first record of its log.
        leases: Bounds of leases, during which only one agent may change some entities; None turns
            leases off. Requires `realtime`: with the other clocks, time waits for the agents.
        limits: All other limits.
        metrics_port: Port of the Prometheus metrics, on loopback; 0 is any free port, None is off.
        log_format: `console`, `json`, or `host` for the host program's structlog.
        log_level: `debug` (a line per group), `info` (per refusal), `warning`, `error`,
            `critical` (nothing).
    """

    store: str = "memory://"
    seed: int = 0
    clock: ClockName = "realtime"
    tick_s: float | None = None
    instant_groups_max: int = 10_000
    agent_think_seconds_max: int = 600
    staleness_threshold: int | None = None
    quotas: Mapping[str, Mapping[str, float] | QuotaSpec] = field(default_factory=dict)
    world_quota: Mapping[str, float] | QuotaSpec | None = None
    default_permissions: frozenset[str] | None = None
    mailbox_batches_max: int | None = None
    mailbox_bytes_max: int | None = None
    backpressure: Backpressure = "reject"
    dilation_wait_ms: int = WAIT_MS
    dilation_factor_min: float = FACTOR_MIN
    world: str = "world"
    standby: bool = False
    take_over: bool = False
    read_only: bool = False
    snapshot_every_seqs: int | None = EVERY_SEQS
    snapshots_kept: int = KEPT_MIN
    compact_log: bool = False
    anchors: str | None = None
    origin: Mapping[str, Json] = field(default_factory=dict)
    leases: Leases | None = None
    limits: Limits = field(default_factory=Limits)
    metrics_port: int | None = None
    log_format: str = "console"
    log_level: str = "warning"

    def __post_init__(self) -> None:
        object.__setattr__(self, "store", url_text(self.store))
        if self.clock not in CLOCKS:
            raise ValueError(f"clock must be one of {CLOCKS}, got {self.clock!r}")
        if self.backpressure not in BACKPRESSURE:
            raise ValueError(
                f"backpressure must be one of {', '.join(BACKPRESSURE)}, got {self.backpressure!r}"
            )
        for name, value, known in (
            ("log_format", self.log_format, LOG_FORMATS),
            ("log_level", self.log_level, LOG_LEVELS),
        ):
            if value not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")
        if self.backpressure == "dilate" and self.clock != "realtime":
            raise ValueError(
                "backpressure 'dilate' slows a time that runs by itself: it needs "
                f"clock='realtime', got {self.clock!r}"
            )
        self.dilation()
        if self.leases is not None and self.clock != "realtime":
            raise ValueError(
                f"leases need clock='realtime', got {self.clock!r}: on that clock time waits for "
                "agents that think, so none of them is too slow"
            )
        self._check_moments()
        self._check_snapshots()
        if self.standby + self.take_over + self.read_only > 1:
            raise ValueError("only one of standby, take-over and read-only can be set")
        if self.anchors is not None and self.read_only:
            raise ValueError("anchors are appended by the writer of a log, got read_only too")
        require_a(self.limits, Limits, "limits")
        self.kernel_config()

    def _check_moments(self) -> None:
        tick_s = self.tick_s
        if tick_s is not None and self.clock != "next_event":
            raise ValueError(
                f"tick_s is of a world with clock='next_event', got {self.clock!r}; a stepped one "
                "ticks at each step"
            )
        if tick_s is not None and not 1e-9 <= tick_s < 1e9:  # noqa: PLR2004  # a nanosecond, 30 years
            raise ValueError(f"tick_s must be None or seconds above 0, got {tick_s!r}")
        for name in ("instant_groups_max", "agent_think_seconds_max"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ValueError(f"{name} must be an int >= 1, got {value!r}")

    def _check_snapshots(self) -> None:
        every, snapshots = self.snapshot_every_seqs, self.snapshots_kept
        if every is not None and (type(every) is not int or every < 1):
            raise ValueError(f"snapshot_every_seqs must be None or an int >= 1, got {every!r}")
        if type(snapshots) is not int or snapshots < KEPT_MIN:
            raise ValueError(f"snapshots_kept must be an int >= {KEPT_MIN}, got {snapshots!r}")
        if self.compact_log and (every is None or self.store.startswith("memory:")):
            raise ValueError(
                "compact_log removes what snapshots hold: it needs a store on disk and "
                f"snapshot_every_seqs, got store {self.store!r} and {every!r}"
            )

    def dilation(self) -> Dilation:
        """Build the object that computes the speed of time under `dilate`.

        Raises:
            ValueError: A value is invalid.
        """
        return Dilation(self.dilation_wait_ms, self.dilation_factor_min)

    def kernel_config(self) -> KernelConfig:
        """Build the part of the configuration by which the kernel decides.

        Raises:
            ValueError: A value is invalid.
        """
        own = {
            "mailbox_batches_max": self.mailbox_batches_max,
            "mailbox_bytes_max": self.mailbox_bytes_max,
        }
        limits = replace(self.limits, **{k: v for k, v in own.items() if v is not None})
        return KernelConfig(
            world=self.world,
            seed=self.seed,
            staleness_threshold=self.staleness_threshold,
            quotas=self.quotas,
            world_quota=self.world_quota,
            default_permissions=permitted_kinds(self.default_permissions),
            leases=self.leases,
            limits=limits,
        )
