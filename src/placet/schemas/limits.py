"""All bounds on one page (G12).

A limit has its unit in its name. A value above a limit is answered by a refusal or a typed error,
never silently dropped. All can be set per world: `OrchestratorConfig(limits=Limits(...))`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

from placet.schemas.keywords import explain_keywords

SECOND_NS = 1_000_000_000

SIM_TIME_NS_MAX: Final = 2**62
"""Simulated time ends after 146 years, so that sums of times fit 64 bits."""

EFFECT_ATTEMPTS_MAX: Final = 5
"""Default attempts at an effect. No limit of a world, because no decision of the gate uses it."""

# Work is counted in units, never in time, so that every machine decides alike. One unit is about
# 1 us of CPython 3.11 at 3 GHz; what `docs/decisions/0032` measured is converted by this table.
INTENT_WORK: Final = 5
"""Units of one intent: its checks, an ordinary rule, and its part of the record."""

REFUSED_INTENT_WORK: Final = 20
"""Units of one intent of a batch without valid structure: two validations, and the description."""

KIB_WORK: Final = 3
"""Units of 1 024 bytes of an encoded batch: validation, hashes and the record."""


AGENT_CHANGE_WORK: Final = 30
"""Units of one agent that a rule registers or removes, beside the writes of the domains' hooks."""

# Reads over HTTP are counted in the same units, by entities read and bytes sent.
READ_WORK: Final = 100
"""Units of a request that reads, whatever it reads."""

QUESTION_WORK: Final = 2_000
"""Units of a question to the past: it takes a thread, and decodes at least a stretch of the log."""

READ_KIB_WORK: Final = 20
"""Units of 1 024 bytes of an answer: copies, encoding and sending."""

READ_ENTITY_WORK: Final = 10
"""Units of an entity, or of an event, of which is decided whether an agent sees it."""

READ_RECORD_WORK: Final = 10
"""Units of a record of a log that is replayed, searched or copied for an answer."""

LEASE_REFS_MAX: Final = 64
"""Maximum number of entities of one lease, by any setting."""

ROW_FAULTS_MAX: Final = 10_000
"""Maximum number of rows of a column batch for which its rule may raise. To find one takes several
calls of the rule, about 0.1 ms together; the rows after the last are refused without a call.
"""


def base_work(intents: int, encoded_bytes: int) -> int:
    """Return the units of work of a batch by its size, without the work that its rules charge."""
    return intents * INTENT_WORK + (encoded_bytes >> 10) * KIB_WORK


MODEL_ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of one answer of a model's server, as it arrives. No limit of a world."""

SCENARIO_AGENTS_MAX: Final = 1_000_000
SCENARIO_MEMBERS_MAX: Final = 10_000_000
SCENARIO_TICKS_MAX: Final = 100_000_000
"""Bounds of a scenario, checked by its loader. No limits of a world."""

SEED_MAX: Final = 2**63 - 1
"""Highest seed of a scenario and of the command line."""

DOCUMENT_BYTES_MAX: Final = 64 * 1024 * 1024
DOCUMENT_DEPTH_MAX: Final = 64
"""Bounds of a file that is read whole: a scenario, settings, tokens, the manifest of a study. No
limits of a world.
"""

DERIVED_BYTES_MAX: Final = 1 << 29
"""Bytes of a key frame or a snapshot along a log, once it is decompressed."""

DERIVED_BYTES_SPARE: Final = 1 << 22
DERIVED_BYTES_PER_LOG_BYTE: Final = 8
"""A state is written by its log, so one that is many times larger than the log is none of it."""


def derived_bytes_max(log_bytes: int) -> int:
    """Return the bound of a decompressed key frame or snapshot of a log of so many bytes."""
    by_log = DERIVED_BYTES_SPARE + log_bytes * DERIVED_BYTES_PER_LOG_BYTE
    return min(DERIVED_BYTES_MAX, by_log)


WORKERS_MAX: Final = 4_096
"""Worker processes of one run. No limit of a world."""

SWEEP_RUNS_MAX: Final = 1_000_000
SWEEP_TIMEOUT_S_MAX: Final = 365 * 86_400
SWEEP_MANIFEST_BYTES_MAX: Final = 1024 * 1024 * 1024
OUTCOME_BITS_MAX: Final = 1_023
"""Bounds of one sweep: its runs, the longest time of a run, the list of its scenarios in the
folder, and an integer that an outcome returns (so many bits are below the largest double). No
limits of a world.
"""


_ZERO_IS_NONE: Final = frozenset({"connections_per_address_max"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bounds:
    """Bounds, each a positive int; 0 or None only where that is no limit."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and field.default is None:
                continue
            is_optional = field.name in _ZERO_IS_NONE
            if type(value) is not int or value < (0 if is_optional else 1):
                wanted = "a positive int, or 0 for no limit" if is_optional else "a positive int"
                raise ValueError(
                    f"limit {field.name!r} must be {wanted}, got {value!r}; "
                    f"the default is {field.default}"
                )


@explain_keywords
@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(_Bounds):
    """The bounds of one world. Defaults suit one process on a small machine."""

    # the wire
    batch_intents_max: int = 512
    batch_bytes_max: int = 2 * 1024 * 1024
    payload_bytes_max: int = 64 * 1024
    payload_depth_max: int = 64
    batch_values_max: int = 16_384
    refusals_listed_max: int = 32
    changes_listed_max: int = 16
    suggestions_max: int = 3
    # the kernel
    agents_max: int = 1_000_000
    removed_agents_max: int = 100_000
    window_ids_max: int = 1_024
    window_age_ns_max: int = 600 * SECOND_NS
    window_sequences_max: int = 16
    dedup_entries_max: int = 16_000_000
    schedule_batches_max: int = 10_000
    schedule_bytes_max: int = 256 * 1024 * 1024
    schedule_batches_per_agent_max: int = 1_000
    schedule_bytes_per_agent_max: int = 16 * 1024 * 1024
    schedule_ahead_ns_max: int = 30 * 24 * 3600 * SECOND_NS
    effects_per_batch_max: int = 512
    outbox_depth_max: int = 1_024
    tombstones_max: int = 4_096
    checkpoint_groups: int = 256
    column_rows_max: int = 1_000_000
    column_bytes_max: int = 256 * 1024 * 1024
    column_batches_kept: int = 2
    batch_work_max: int = 10_000
    group_work_max: int = 10_000
    # the actors
    mailbox_batches_max: int | None = None
    """None is 256, or twice the number of registered agents where that is more."""
    mailbox_bytes_max: int = 256 * 1024 * 1024
    mailbox_age_ms_max: int = 5_000
    loop_lag_ms_max: int = 1_000
    wait_queue_batches_max: int = 10_000
    wait_queue_bytes_max: int = 256 * 1024 * 1024
    wait_queue_ms_max: int = 60_000
    ingress_rate_per_second_max: int = 20_000
    ingress_burst_max: int = 40_000
    ingress_submitters_max: int = 100_000
    refused_bytes_per_second_max: int = 1024 * 1024
    refused_bytes_burst_max: int = 16 * 1024 * 1024
    world_refused_bytes_per_second_max: int = 8 * 1024 * 1024
    world_refused_bytes_burst_max: int = 64 * 1024 * 1024
    unpaid_work_per_second_max: int = 500_000
    unpaid_work_burst_max: int = 2_000_000
    world_unpaid_work_per_second_max: int = 800_000
    world_unpaid_work_burst_max: int = 8_000_000
    group_batches_max: int = 32
    group_ms_max: int = 2
    groups_in_flight_max: int = 64
    subscriber_events_max: int = 10_000
    executor_concurrency_max: int = 16
    effect_seconds_max: int = 60
    restarts_max: int = 5
    restart_window_s: int = 60
    shutdown_seconds_max: int = 10
    # the stores
    log_bytes_max: int = 1024 * 1024 * 1024
    snapshot_seconds_max: int = 600

    def recorded(self) -> dict[str, int]:
        """Return the limits as a log records them.

        A limit added after the format is recorded only if it differs from its default, so that a
        world without it keeps the bytes of its log. Either such a default never changes, or a
        re-execution does not check the limit (`GateContext.checks_shares`).
        """
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        defaults = {field.name: field.default for field in fields(self)}
        return {
            name: value
            for name, value in values.items()
            if value is not None and (name not in _ADDED_LATER or value != defaults[name])
        }

    @classmethod
    def of_record(cls, recorded: Mapping[str, int]) -> "Limits":
        """Read limits from a log; a limit that this release does not know is dropped.

        A limit of work that is missing is no limit: the log decided without it.
        """
        known = {name: value for name, value in recorded.items() if name in cls.__slots__}
        return cls(**_BEFORE_WORK | known)

    def mailbox_places(self, agents: int) -> int:
        """Return the maximum number of queued batches in a world with `agents` agents."""
        if self.mailbox_batches_max is not None:
            return self.mailbox_batches_max
        return max(_MAILBOX_PLACES_MIN, _MAILBOX_PLACES_PER_AGENT * agents)


_MAILBOX_PLACES_MIN: Final = 256
_MAILBOX_PLACES_PER_AGENT: Final = 2

_ADDED_LATER: Final = frozenset(
    {
        "removed_agents_max",
        "schedule_bytes_max",
        "schedule_batches_per_agent_max",
        "schedule_bytes_per_agent_max",
        "column_rows_max",
        "column_bytes_max",
        "column_batches_kept",
    }
)

UNLIMITED: Final = 2**62

_BEFORE_WORK: Final = {
    "batch_values_max": UNLIMITED,
    "batch_work_max": UNLIMITED,
    "group_work_max": UNLIMITED,
}
"""Limits of a log that was written before work was counted: it decided without them."""


@explain_keywords
@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits(_Bounds):
    """The bounds of the HTTP server. None affects a decision, so none is in the log."""

    head_bytes_max: int = 64 * 1024
    head_seconds_max: int = 30
    body_bytes_max: int = 4 * 1024 * 1024
    body_seconds_max: int = 30
    page_items_max: int = 1_000
    streams_max: int = 1_000
    streams_per_token_max: int = 16
    stream_lag_seqs_max: int = 10_000
    stream_send_seconds_max: int = 30
    # of a WebSocket that takes batches
    socket_message_bytes_max: int = 64 * 1024
    socket_in_flight_max: int = 32
    socket_bytes_per_second_max: int = 128 * 1024
    """A frame counts 256 bytes besides its own. Beyond it the client is read later."""
    socket_bytes_burst_max: int = 256 * 1024
    connections_max: int = 2_000
    connections_per_address_max: int = 1_000
    """0 is no limit: behind a proxy all clients have its address."""
    caller_bytes_max: int = 256 * 1024
    caller_waiting_max: int = 64
    metrics_age_ms_max: int = 1_000
    # reading, by a caller: the name of a token
    read_work_per_second_max: int = 300_000
    read_work_burst_max: int = 1_000_000
    all_read_work_per_second_max: int = 600_000
    all_read_work_burst_max: int = 4_000_000
    reads_per_token_max: int = 16
    questions_max: int = 2
    forks_max: int = 16
    forks_per_token_max: int = 4
    worlds_max: int = 1_000
    worlds_per_token_max: int = 100
    sessions_max: int = 1_000
    mcp_sessions_max: int = 256
    mcp_sessions_per_token_max: int = 64
    mcp_session_idle_seconds_max: int = 600


@explain_keywords
@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverLimits(_Bounds):
    """The bounds of one observer's buffer. None affects a decision, so none is in the log."""

    marks_max: int = 10_000
    events_max: int = 1_000
