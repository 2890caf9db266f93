"""The containers that live as long as a world or a server: their bounds, or why they have none.

`docs/reference/limits.md` has the table of `BOUNDS`, and `test_bounds.py` holds both to the code.
In a bound, `{name}` is a field of `Limits`, `HttpLimits` or `ObserverLimits`, and `{module:NAME}` a
constant.
"""

from typing import Final, NamedTuple


class Bound(NamedTuple):
    """The bound of something that clients can fill.

    Attributes:
        holds: What the containers hold.
        fields: The containers, as `file:Class.field`; the others of a row follow the first.
        number: Bound in number.
        size: Bound in bytes.
        share: Bound of one agent, token, caller or address; empty where the row is of one.
        beyond: The answer, or what happens, beyond the bound.
    """

    holds: str
    fields: tuple[str, ...]
    number: str
    size: str
    share: str
    beyond: str


PAYLOAD: Final = "each at most {payload_bytes_max}"

BOUNDS: Final = (
    Bound(
        "batches in the queue",
        (
            "actors/mailbox.py:Mailbox._lane",
            "actors/mailbox.py:Mailbox._sizes",
            "actors/admission/fair_queue.py:FairQueue.lanes",
            "actors/admission/fair_queue.py:FairQueue._schedule",
            "actors/admission/queue.py:BatchQueue._undecided",
            "actors/admission/shed_queue.py:SheddingQueue._ranks",
            "actors/admission/shed_queue.py:SheddingQueue._lowest_first",
            "actors/admission/shed_queue.py:PriorityBucket._batches",
            "actors/admission/shed_queue.py:_Owners._by_owner",
            "actors/admission/shed_queue.py:_Owners._by_count",
            "actors/admission/ingress.py:Ingress._submitted",
        ),
        "256, or two for each agent (`mailbox_batches_max`)",
        "{mailbox_bytes_max}",
        "once half is taken, the free places",
        "`queue_full`, or the policy of back-pressure",
    ),
    Bound(
        "tickets of leases",
        (
            "kernel/ledger/leases.py:LeaseTable.tickets",
            "kernel/ledger/leases.py:LeaseTable.free_at",
            "kernel/ledger/leases.py:LeaseTable._finish",
        ),
        "`Leases(tickets_max=)`, 64; `refs_max` entities each, 8, and as many that rest",
        "{payload_bytes_max} each",
        "one ticket an agent; one owner's tickets share one part of the time",
        "`lease_refused`",
    ),
    Bound(
        "batches in the wait queue",
        (
            "actors/admission/wait_queue.py:WaitingQueue._by_reply",
            "actors/admission/wait_queue.py:WaitingQueue._default_deadlines",
            "actors/admission/wait_queue.py:WaitingQueue._deadlines",
        ),
        "{wait_queue_batches_max}",
        "{wait_queue_bytes_max}",
        "as many as it leaves free",
        "`queue_full`",
    ),
    Bound(
        "scheduled batches",
        (
            "kernel/ledger/ledger.py:Ledger.scheduled",
            "kernel/ledger/ledger.py:Ledger.schedule",
            "kernel/ledger/ledger.py:Ledger.schedule_shares",
            "kernel/ledger/ledger.py:ScheduleShare.heap",
        ),
        "{schedule_batches_max}",
        "{schedule_bytes_max}",
        "{schedule_batches_per_agent_max}, {schedule_bytes_per_agent_max}",
        "`schedule_full`, with the time of room",
    ),
    Bound(
        "open effects of a kind; dead letters are among them",
        (
            "kernel/ledger/ledger.py:Ledger.outbox",
            "kernel/ledger/ledger.py:Ledger.outbox_depth",
            "kernel/ledger/ledger.py:Ledger.outbox_shares",
            "kernel/ledger/ledger.py:Ledger.marks",
            "actors/effects/executor.py:Executor._waiting",
            "actors/effects/executor.py:Executor._marks",
            "actors/effects/executor.py:Executor._pauses",
            "actors/effects/executor.py:Executor._taken",
            "actors/effects/executor.py:Executor._started",
            "actors/effects/outcomes.py:Outcomes._decided",
            "actors/effects/outcomes.py:Outcomes._waiters",
            "actors/effects/executor.py:Executor._outcomes",
        ),
        "{outbox_depth_max}, and those of one batch ({effects_per_batch_max})",
        PAYLOAD,
        "once half is taken, the free places, and 32 in any case",
        "`executor_busy`",
    ),
    Bound(
        "latest outcomes of effects",
        ("actors/effects/outcomes.py:Outcomes._durable",),
        "{placet.actors.effects.outcomes:KEPT_MAX}",
        PAYLOAD,
        "",
        "older ones are read from the log",
    ),
    Bound(
        "remembered requests (dedup windows)",
        (
            "kernel/ledger/dedup_window.py:Window.ids",
            "kernel/ledger/dedup_window.py:Window.ranges",
            "kernel/ledger/dedup_window.py:Window.entries",
            "kernel/ledger/dedup_window.py:Window.forgotten",
            "kernel/ledger/dedup_window.py:DedupWindows.recency",
            "kernel/ledger/dedup_window.py:DedupWindows._displaced",
        ),
        "{dedup_entries_max}",
        "a req_id has at most 128 characters",
        "{window_ids_max} ids, {window_sequences_max} sequences",
        "the oldest is forgotten: `req_id_too_old`, or a new request",
    ),
    Bound(
        "populations, and the verdicts on their column batches",
        (
            "kernel/ledger/ledger.py:Ledger.populations",
            "kernel/ledger/ordinals.py:Ordinals.populations",
            "kernel/ledger/members.py:Members.forgotten",
            "kernel/ledger/members.py:Members.remembered",
            "kernel/ledger/members.py:Members.tats",
            "kernel/ledger/members.py:Members.windows",
        ),
        "one of each declared table of agents; {column_batches_kept} verdicts each",
        "{column_rows_max} members each; a verdict has 9 bytes a row",
        "only an operator registers populations; {window_sequences_max} sequences of req_ids each",
        "ValueError; the oldest verdict is forgotten: `req_id_too_old`, or a new request",
    ),
    Bound(
        "agents, and those removed",
        (
            "kernel/ledger/ledger.py:Ledger.agents",
            "kernel/ledger/ledger.py:Ledger.owned",
            "kernel/ledger/ledger.py:Ledger.gone",
            "kernel/ledger/ordinals.py:Ordinals.sums",
        ),
        "{agents_max}, {removed_agents_max}",
        "attributes are a payload, which the domain may keep",
        "only an operator registers agents; a token is one agent in a design",
        "422; the oldest removed names share one generation",
    ),
    Bound(
        "submitters with a rate or a debt",
        (
            "actors/admission/ingress.py:SubmissionRates.tats",
            "actors/admission/debts.py:DebtMeter.tats",
            "actors/admission/debts.py:Debts.owing",
            "actors/admission/shed_queue.py:AgeTracker.recent",
            "actors/admission/shed_queue.py:AgeTracker.earlier",
        ),
        "{ingress_submitters_max}",
        "a name and a number",
        "",
        "the one absent longest is forgotten",
    ),
    Bound(
        "groups that wait for the store, with their answers",
        ("actors/committer.py:Committer._waiting",),
        "{groups_in_flight_max}",
        "{placet.actors.committer:IN_FLIGHT_BYTES_MAX}, and as much being written",
        "",
        "deciding pauses, then the queue fills",
    ),
    Bound(
        "records kept for subscribers",
        (
            "actors/publisher.py:Publisher._recent",
            "actors/publisher.py:_RecentEvents._events",
        ),
        "{subscriber_events_max}",
        "{placet.actors.publisher:RECENT_BYTES_MAX}",
        "",
        "a subscriber behind them reads the log",
    ),
    Bound(
        "streams (WebSockets, events of approvals), subscriptions and observers of theirs",
        (
            "server/approvals/events.py:ApprovalEvents._open",
            "server/streams.py:Streams._of_submitter",
            "server/streams.py:SendTurns._waiting",
            "actors/publisher.py:Publisher._places",
            "actors/observation/hub.py:ObserverHub._observers",
            "actors/observation/interest.py:_DomainIndex.inputs",
            "actors/observation/interest.py:_DomainIndex.members",
            "actors/observation/interest.py:InterestManager._indexes_of",
        ),
        "{streams_max}",
        "a view of its world each",
        "{streams_per_token_max}",
        "503; 429 for one token",
    ),
    Bound(
        "changes and events that an observer has not taken",
        (
            "actors/observation/observer.py:DirtySet.marks",
            "actors/observation/observer.py:DirtySet.events",
            "actors/observation/observer.py:Observer._known",
            "actors/observation/observer.py:DeltaPacker._scores",
        ),
        "{marks_max} marks, {events_max} events",
        PAYLOAD + ", shared by observers",
        "",
        "the next observation is a snapshot, with the number of dropped events",
    ),
    Bound(
        "texts of pages that streams share",
        ("server/streams.py:PageTexts._pages",),
        "",
        "{placet.server.streams:_TEXT_CHARS_MAX} characters",
        "",
        "the oldest page is encoded again",
    ),
    Bound(
        "connections",
        (
            "server/http/connection.py:Connections.of_address",
            "server/http/connection.py:Connections._waiting",
            "actors/mailbox.py:Mailbox._control",
        ),
        "{connections_max}, and by the open files of the process",
        "{head_bytes_max} of a head; a control message has no body",
        "{connections_per_address_max} of an address",
        "503",
    ),
    Bound(
        "bodies of a caller, until they are answered",
        (
            "server/http/fair_share.py:_Caller.waiting",
            "server/http/fair_share.py:Callers._callers",
        ),
        "{caller_waiting_max} wait",
        "{caller_bytes_max}, or one body of {body_bytes_max}",
        "this is one caller's",
        "429 `busy`",
    ),
    Bound(
        "notices of requests for approval that wait for a receiver",
        ("server/approvals/notices.py:_Sender.queue",),
        "{placet.server.approvals.notices:_QUEUE_MAX} of each channel",
        "a name of a world and an id each",
        "",
        "the oldest is dropped, counted and logged",
    ),
    Bound(
        "worlds of a server, such as designs: five files and a thread each",
        (
            "server/approvals/notices.py:Notices._followers",
            "server/worlds.py:Worlds._open",
            "server/worlds.py:Worlds._watches",
            "server/worlds.py:Worlds.unopened",
            "server/worlds.py:Worlds.creators",
            "server/streams.py:Streams.reopenings",
            "server/history/timelines.py:Timelines._played",
        ),
        "{worlds_max}, and half of the open files of the process",
        "the state of each is its domain's",
        "{worlds_per_token_max}; at most the free places, and 8 in any case",
        "503; 403 for one token at its number",
    ),
    Bound(
        "forks that a server plays",
        (
            "server/history/timelines.py:Timelines._forks",
            "server/history/timelines.py:Timelines._origins",
            "server/history/timelines.py:Timelines._owners",
        ),
        "{forks_max}",
        "on disk, in a temporary folder",
        "{forks_per_token_max}",
        "409",
    ),
    Bound(
        "open sessions with agents",
        ("agents/session/session.py:Session._catalogues",),
        "{sessions_max}",
        "a message has at most {placet.agents.proposal.limits:MESSAGE_BYTES_MAX}; the state keeps "
        "64 turns of each, and 1 024 approval requests of the world",
        "operators only; open approval requests are never dropped",
        "503; `approvals.requests_full`",
    ),
    Bound(
        "requests to models that are not answered",
        (
            "agents/loop/model_calls.py:ModelCalls._waiting",
            "agents/loop/model_calls.py:ModelCalls.turns",
        ),
        "one for each session; messages wait for their turn in their requests",
        "{placet.schemas.limits:MODEL_ANSWER_BYTES_MAX} of an answer as it arrives",
        "",
        "the turn ends: no answer is available",
    ),
    Bound(
        "MCP sessions over HTTP",
        (
            "frontends/mcp/session_shares.py:SessionShares._open",
            "frontends/mcp/session_shares.py:SessionShares._opening",
        ),
        "{mcp_sessions_max}",
        "about 230 KB each",
        "{mcp_sessions_per_token_max}; one ends when it was idle for "
        "{mcp_session_idle_seconds_max} s",
        "503; 429 for one token",
    ),
    Bound(
        "load refusals that are repeated",
        ("actors/admission/ingress.py:Ingress._cached",),
        "{placet.actors.admission.overload:CACHED_USES_MAX}",
        "one refusal each",
        "",
        "all are built again",
    ),
    Bound(
        "faults and unknown versions that are logged",
        (
            "runtime/telemetry/world_logger.py:WorldLogger._faults",
            "runtime/telemetry/world_logger.py:WorldLogger._versions",
        ),
        "{placet.runtime.telemetry.world_logger:_FAULTS_MAX}, "
        "{placet.runtime.telemetry.world_logger:_VERSIONS_MAX}",
        "a name, or a message of one line",
        "",
        "the oldest fault is logged as new; no more versions are logged",
    ),
    Bound(
        "intents admitted at one moment, not summed yet",
        (
            "kernel/ledger/ordinals.py:Ordinals.pending",
            "kernel/ledger/ordinals.py:Ordinals.names",
        ),
        "{placet.kernel.ledger.ordinals:PENDING_MAX} batches; single batches of the moment",
        "a reference to a name each",
        "",
        "they are summed",
    ),
    Bound(
        "label values of metrics",
        (
            "actors/metrics.py:Counters._intents",
            "actors/metrics.py:Counters._refusals",
            "actors/metrics.py:Counters.rejected_at_ingress",
            "actors/metrics.py:Counters.effect_seconds",
            "actors/metrics.py:Counters.effect_counts",
        ),
        "kinds and codes of the domains; unknown kinds share one",
        "a number each",
        "",
        "a client adds none",
    ),
)

EXEMPT: Final[dict[str, tuple[str, ...]]] = {
    "configuration or code fills it, before clients come": (
        "actors/effects/dispatcher.py:Executors.by_kind",
        "actors/metrics.py:Counters.gauges",
        "actors/metrics.py:Counters.snapshots",
        "actors/observation/interest.py:InterestManager._indexes",
        "actors/supervisor.py:Supervisor._failures",
        "actors/supervisor.py:Supervisor._scopes",
        "agents/adapters/replay.py:ReplayAdapter._calls",
        "agents/adapters/scripted.py:ScriptedAdapter._steps",
        "agents/proposal/catalogue.py:Catalogue._adapters",
        "agents/proposal/catalogue.py:Catalogue.kinds",
        "frontends/chat/slash_commands.py:SlashCommands._answers",
        "kernel/ledger/ledger.py:Ledger.executors",
        "runtime/api/signatures.py:Signature.defaults",
        "runtime/config.py:OrchestratorConfig.origin",
        "runtime/config.py:OrchestratorConfig.quotas",
        "runtime/recorded_world.py:RecordedWorld.origin",
        "server/approvals/notices.py:Notices._senders",
        "server/approvals/notices.py:Notices._tasks",
        "server/approvals/notices.py:_Sender.counts",
        "server/config.py:ServeConfig.claims",
        "server/config.py:ServeConfig.people",
        "server/credentials.py:Credentials._known",
        "server/http/reads.py:Reads._debts",
        "server/http/reads.py:Reads._held_ns",
        "server/history/controls.py:SentControls.commands",
        "server/http/routing.py:Body.examples",
        "server/http/routing.py:Routes._hot",
        "server/http/routing.py:Routes._paths",
        "server/http/routing.py:_Endpoint._operations",
        "server/worlds.py:Worlds.on_opened",
        "server/worlds.py:Worlds.on_reopened",
    ),
    "one request, turn, group or look fills it, and it ends with that": (
        "actors/committer.py:CycleOutput.decided",
        "actors/committer.py:CycleOutput.effects",
        "actors/committer.py:CycleOutput.owed",
        "actors/committer.py:CycleOutput.replies",
        "actors/observation/replica.py:ReplicaEntity._anonymous",
        "actors/observation/replica.py:ReplicaEntity._deltas",
        "actors/observation/replica.py:ReplicaEntity._redacted",
        "actors/observation/viewer.py:_Cut.collections",
        "actors/observation/viewer.py:_Cut._parts",
        "actors/observation/viewer.py:_SeenState._collections",
        "agents/loop/planning_loop.py:PlanningLoop.attempts",
        "agents/loop/planning_loop.py:TurnUsage.repairing",
        "agents/loop/planning_loop.py:TurnUsage.seen",
        "agents/loop/turn_lease.py:TurnLease._refs",
        "agents/proposal/legacy.py:ChatIntent.if_unchanged",
        "agents/proposal/legacy.py:ChatIntent.inputs",
        "agents/proposal/plan.py:Action.payload",
        "frontends/sessions/bodies.py:ReplacementAction.payload",
        "server/approvals/outcomes.py:_Search._effects",
        "server/approvals/outcomes.py:_Search._found",
        "server/routes/approvals.py:ReplacementCall.payload",
        "frontends/sessions/bodies.py:SessionOpening.people",
        "runtime/offline_writer.py:OfflineWriter._records",
        "runtime/offline_writer.py:OfflineWriter.domains",
        "server/routes/agents.py:Registration.attributes",
        "server/routes/agents.py:Registration.quotas",
        "server/routes/history.py:ForkRequest.dropped",
        "server/routes/history.py:ForkRequest.put",
    ),
    "the program that embeds the world fills it, by a task, observer or subscription of its own": (
        "actors/policies/contention.py:Contention._refs",
        "actors/timers/lease_waiters.py:LeaseWaiters.waiting",
        "runtime/agent_lease.py:AgentLease.refs",
        "actors/barrier.py:Barrier._missing",
        "actors/barrier.py:Barrier._passed",
        "actors/observation/delayed_observer.py:DelayQueue._due",
        "actors/observation/delayed_observer.py:DelayQueue._samples",
        "actors/observation/delayed_observer.py:DelayQueue._waiting",
        "actors/observation/delayed_observer.py:DelayedObserver._distances",
        "actors/observation/delayed_observer.py:DelayedObserver._dues",
        "actors/observation/hub.py:ObserverHub._delayed",
        "actors/policies/runner.py:PolicySupervisor._removed",
        "actors/policies/runner.py:PolicySupervisor._runs",
        "actors/policies/staleness_scope.py:StalenessScope._conditions",
        "actors/policies/staleness_scope.py:StalenessScope.changed",
        "actors/policies/subscriptions.py:SubscriptionTable._by_ref",
        "actors/policies/subscriptions.py:SubscriptionTable._counting",
        "actors/policies/subscriptions.py:SubscriptionTable._wide",
        "actors/policies/subscriptions.py:SubscriptionTable.open",
        "actors/timers/time_participants.py:TimeParticipants._names",
        "actors/timers/time_participants.py:TimeParticipants._pending",
        "actors/timers/time_participants.py:TimeParticipants._submitters",
        "actors/timers/time_participants.py:TimeParticipants._thinking",
        "actors/timers/timer_queue.py:TimerQueue._heap",
        "agents/adapters/human.py:HumanAdapter._answers",
        "agents/adapters/human.py:HumanAdapter._open",
    ),
    "an index of the state, which is the domain's": (
        "actors/observation/cut_indexes.py:CutIndexes._grids",
        "actors/observation/cut_indexes.py:CutIndexes._history",
    ),
}
"""Containers without a row in the table, by the reason."""
