"""The domain of tools: each tool is a kind of intent and a kind of effect of the same name.

The rule of a tool checks its consequence, the rules of the author, and the approval; then it
records the call and emits the effect, which runs once the batch is durable. The key of a call is
that of `placet.kernel.plugin.approved`: the part of the req_id before the last slash.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Annotated, Final

from pydantic import Field
from typing_extensions import TypedDict

from placet.kernel.plugin.approved import APPROVAL_REQUIRED, digest_of, is_approved, key_of
from placet.kernel.plugin.domain import Domain, Kind, Rule, RuleRefusal, refuse
from placet.kernel.plugin.noted_refusals import REFUSE
from placet.kernel.plugin.noted_times import NOTE_TIME
from placet.kernel.state.draft import Draft
from placet.kernel.state.tree import State
from placet.schemas.codec import Json, canonical, thaw
from placet.schemas.effect import Effect, Settlement
from placet.schemas.identity import Ref
from placet.schemas.intent import Intent
from placet.schemas.refusal import Refusal
from placet_tools.parts.erasure import ERASE, ErasePayload, erase_rule
from placet_tools.policy import APPROVE_FROM, parse_policy
from placet_tools.policy.counting import CountPayload
from placet_tools.policy.enforcement import NO_ANSWER, Enforcement
from placet_tools.records import Records
from placet_tools.refused_calls import QUOTA, RefuseCallsPayload
from placet_tools.tool import DeclaredTool, ToolError

PLAN: Final = "plan"
UNDO: Final = "undo"
RELEASE: Final = "release"
COUNT: Final = "count_calls"

KEY_KNOWN: Final = "key_known"
ROLE: Final = "operator"
"""Role of the person who approves, where a rule names no other."""

_UNDO_SUFFIX: Final = "~undo"
_WALL_TIME: Final = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00$"

_OF_RISK: Final = "a call of this risk needs a person"

_OF_ONCE: Final = "A call of another agent has the same consequence."

_Key = Annotated[str, Field(min_length=1, max_length=128)]


class PlanPayload(TypedDict):
    """Payload of `plan`: the keys of the calls that follow in the batch."""

    keys: Annotated[list[_Key], Field(min_length=2, max_length=256)]


class UndoPayload(TypedDict):
    """Payload of `undo`: a call of a plan that failed; the call that undoes it follows."""

    plan: _Key
    key: _Key


class ReleasePlanPayload(TypedDict):
    """Payload of `release`: a plan of which no more calls are undone."""

    plan: _Key


class NoteTimePayload(TypedDict):
    """Payload of `note_time`: the wall time of an opening, UTC, in the form of ISO 8601."""

    at: Annotated[str, Field(pattern=_WALL_TIME)]


def undo_key(key: str) -> str:
    """Return the key of the call that undoes a call."""
    return f"{key}{_UNDO_SUFFIX}"


def undone_key(key: str) -> str:
    """Return the key of the call that a call would undo by its key; else the key itself."""
    return key.removesuffix(_UNDO_SUFFIX)


class ToolsDomain(Domain):
    """The domain of the tools of one program. Make it by `Tools.domain` or `Gate`.

    Args:
        name: Name of the domain.
        tools: Its tools by name.
        approve_from: Least risk that needs an approval; `never` for none.
        policy: The policy over the calls, as plain values of a TOML file; None for none.
        runs_on_workers: The functions run in the programs that call: see `Gate(url=...)`.

    Attributes:
        tools: The tools by name.
        records: The collections of its calls.
        has_marks: A tool has secrets or personal data, so no refusal has an argument that is
            not declared, or does not fit: its value may be one of them.
        enforced: The policy in force.
        approve_from: Least risk that needs an approval, where the policy names none.
        runs_on_workers: The functions run in the programs that call, and not where the log is open.
        recorder: Id of the agent that begins plans, undoes their calls and counts earlier calls;
            any other agent is refused these kinds.

    Raises:
        ToolError: `approve_from` is no risk.
        ToolPolicyError: The policy does not fit the tools.
    """

    executors = "placet_tools.frontend.executors:executors_of"
    needs = ("approvals",)

    def __init__(
        self,
        name: str,
        tools: Mapping[str, DeclaredTool],
        *,
        approve_from: str,
        policy: Mapping[str, Json] | None = None,
        runs_on_workers: bool = False,
    ) -> None:
        if approve_from not in APPROVE_FROM:
            known = ", ".join(APPROVE_FROM)
            raise ToolError(f"approve_from must be one of {known}, got {approve_from!r}")
        self.name = name
        self.tools = dict(sorted(tools.items()))  # as the settings in a log have them
        self.has_marks = any(tool.marks for tool in tools.values())
        self._by_kind = {self.kind_of(tool): one for tool, one in self.tools.items()}
        self.records = Records.of(name)
        self.recorder = f"{name}.recorder"  # of this prefix, so no other domain initializes it
        self.collections = self.records
        parsed = None if policy is None else parse_policy(policy, self.tools)
        self.enforced = Enforcement(parsed, self.records)
        quotas = self.enforced.quotas(self.tools)
        of_tools = {self.kind_of(name): quota for name, quota in quotas.items()}
        self.quotas = {**of_tools, self.prefixed(REFUSE): QUOTA}
        self.approve_from = approve_from
        self.runs_on_workers = runs_on_workers
        self.kinds = (
            *[self._tool_kind(tool) for tool in self.tools.values()],
            self._own_kind(PLAN, PlanPayload, self._plan, "Several calls are decided as one."),
            self._own_kind(UNDO, UndoPayload, self._undo, "A call of a failed plan is undone."),
            self._own_kind(RELEASE, ReleasePlanPayload, self._release, "No more calls are undone."),
            self._own_kind(
                COUNT,
                CountPayload,
                self.enforced.count,
                "Earlier calls are counted for a new rule.",
            ),
            self._own_kind(
                ERASE, ErasePayload, erase_rule(self.records.erased), "Personal data are erased."
            ),
            self._own_kind(
                REFUSE, RefuseCallsPayload, lambda *_: None, "Calls that are in no other record."
            ),
            self._own_kind(NOTE_TIME, NoteTimePayload, self._note_time, "A program opens the log."),
        )
        self.version = self._version()

    def kind_of(self, tool: str) -> str:
        """Return the kind of a tool, which is its kind of effect too."""
        declared = self.tools.get(tool)
        return f"{self.name}.{(declared and declared.kind) or tool}"

    def prefixed(self, name: str) -> str:
        """Return a name with the prefix of the domain: of a kind that is no tool, or of a code."""
        return f"{self.name}.{name}"

    def reason_of(self, kind: str, refusal: Refusal) -> str:
        """Return why a call needs a person, as a line for the person.

        Args:
            kind: Kind of the call.
            refusal: The refusal `approval_required` of the call.
        """
        tool = self.tool_of(kind)
        name = kind if tool is None else f"{tool.name} (risk {tool.risk})"
        return f"{name}: {refusal.details.get('asks') or refusal.message}"

    def tool_of(self, kind: str) -> DeclaredTool | None:
        """Return the tool of a kind; None if it is no tool of this domain."""
        return self._by_kind.get(kind)

    def settings(self) -> Mapping[str, Json]:
        """Return the keyword arguments of `Tools.domain` that recreate the domain."""
        return {"approve_from": self.approve_from, "policy": self.enforced.data}

    def on_open(self, draft: Draft) -> None:
        """Create the markings of the policy in a new world."""
        self.enforced.open(draft)

    def on_settle(self, draft: Draft, effect: Effect, settlement: Settlement) -> None:
        """Record the outcome of a call."""
        tool = self.tool_of(effect.kind)
        if tool is not None:
            key, done = effect.payload["key"], settlement.succeeded
            if done:
                self.enforced.note_done(draft, tool.name, effect, settlement.output)
            else:
                self.enforced.note_failed(draft, tool.name, effect)
            self.records.end(draft, key, succeeded=done, output=settlement.output)

    def on_remove(self, draft: Draft, agent_id: str) -> None:
        """Detach the calls of a removed agent, because a later one of this name is another agent.

        O(kept calls).
        """
        for key in list(draft.ids(self.records.calls)):
            if draft.get(self.records.calls, key, "agent") == agent_id:
                draft.put(self.records.calls, key, "agent", "")

    def may_see(self, state: State, agent_id: str, ref: Ref) -> bool:
        """Return whether an entity is a call of the agent, or of a collection of the author."""
        if ref.collection == self.records.calls and ref.entity is not None:
            return bool(state.get(ref.collection, ref.entity, "agent") == agent_id)
        return ref.collection not in self.records

    # tools

    def _tool_kind(self, tool: DeclaredTool) -> Kind:
        kind, is_once = self.kind_of(tool.name), tool.delivery == "at_most_once"

        def rule(draft: Draft, intent: Intent) -> RuleRefusal | None:
            key = key_of(intent["req_id"])
            undoes = self._undone_by(draft, key, intent)
            call = self._record_of(draft, tool, intent, undoes)
            refusal = self._judge(draft, tool, intent, call)
            if refusal is not None and not self._permits(draft, intent, refusal, undoes):
                return refusal
            self.records.begin(draft, key, call)
            self.enforced.note_started(draft, tool.name, intent)
            draft.emit(kind, {"key": key, "args": intent["payload"]}, started=is_once)
            return None

        return Kind(
            kind,
            tool.logged,
            rule,
            effects=(kind,),
            # The record of a call changes the state, so none is of the risk `read`.
            risk="low" if tool.risk == "read" else tool.risk,
            summary=tool.summary,
            discloses=self.enforced.discloses(tool.name) or (_OF_ONCE if tool.once else ""),
        )

    def _record_of(
        self, draft: Draft, tool: DeclaredTool, intent: Intent, undoes: str
    ) -> dict[str, Json]:
        payload, agent, key = intent["payload"], intent["agent_id"], key_of(intent["req_id"])
        digest = digest_of(intent["kind"], payload, agent)
        consequence = tool.consequence(payload)
        if consequence or tool.delivery == "at_most_once":
            once = _short(consequence) if consequence else digest
        else:
            once = ""
        plan = self._plan_of(draft, key)
        return {
            "tool": tool.name,
            "agent": agent,
            "digest": digest,
            "once": once,
            "plan": plan,
            "undoes": undoes,
            "args": payload if plan and tool.undo else None,
        }

    def _judge(
        self, draft: Draft, tool: DeclaredTool, intent: Intent, call: Mapping[str, Json]
    ) -> RuleRefusal | None:
        """Return the refusal of a call; an approval that it needs comes last."""
        key = key_of(intent["req_id"])
        if (known := draft.entity(self.records.calls, key)) is not None:
            is_own = known["agent"] == intent["agent_id"]
            state = known["state"] if is_own else "of another agent"
            return refuse(KEY_KNOWN, f"call {key!r} is {state}; it does not run again")
        if (refusal := self._same(draft, tool, call)) is not None:
            return refusal
        answer = NO_ANSWER if call["undoes"] else self.enforced.judge(draft, tool.name, intent)
        if answer.refusal is not None:
            return answer.refusal
        needed = None
        for rule in tool.rules:
            refusal = rule(draft, intent)
            if refusal is not None and refusal.code != APPROVAL_REQUIRED:
                return refusal
            needed = needed or refusal
        by_risk = answer.is_held is None
        if needed is None and (self._needs_approval(tool) if by_risk else answer.is_held):
            why = f"{tool.name} has the risk {tool.risk!r}" if by_risk else "the policy asks for it"
            message = f"{why}, so a person must approve the call"
            needed = refuse(APPROVAL_REQUIRED, message, asks=answer.asks or _OF_RISK)
        return needed and self.enforced.with_role(tool.name, needed)

    def _permits(self, draft: Draft, intent: Intent, refusal: RuleRefusal, undoes: str) -> bool:
        """Return whether the call has the approval that it needs, or undoes an admitted call."""
        if refusal.code != APPROVAL_REQUIRED:
            return False
        role = refusal.details.get("role", ROLE)
        return bool(undoes) or is_approved(draft, intent, role=role)

    def _same(
        self, draft: Draft, tool: DeclaredTool, call: Mapping[str, Json]
    ) -> RuleRefusal | None:
        """Return the refusal of a call whose consequence another call has, or may have."""
        holder = draft.entity(self.records.once, call["once"]) if call["once"] else None
        if holder is None:
            return None
        is_own = draft.get(self.records.calls, holder["key"], "agent") == call["agent"]
        who = f"call {holder['key']!r}" if is_own else "a call of another agent"
        if holder["state"] == "running":
            message = f"{who} does the same, and runs or is in doubt; do not repeat it"
            return refuse("same_running", message)
        if tool.once and holder["state"] == "done":
            message = f"{who} has done this, and it is done once; do not repeat it"
            return refuse("same_done", message)
        return None

    def _needs_approval(self, tool: DeclaredTool) -> bool:
        policy = self.enforced.policy
        least = (policy and policy.approve_from) or self.approve_from
        return APPROVE_FROM.index(tool.risk) >= APPROVE_FROM.index(least)

    # plans

    def _own_kind(self, name: str, payload: object, rule: Rule, summary: str) -> Kind:
        """Make a kind that the recorder alone may submit."""

        def guarded(draft: Draft, intent: Intent) -> RuleRefusal | None:
            if intent["agent_id"] != self.recorder:
                who = repr(self.recorder)
                return refuse("recorder_only", f"{who} alone records plans; call a tool")
            return rule(draft, intent)

        return Kind(self.prefixed(name), payload, guarded, summary=summary)

    def _plan(self, draft: Draft, intent: Intent) -> RuleRefusal | None:
        keys: Json = intent["payload"]["keys"]
        plans = self.records.plans
        draft.charge(len(keys))
        if draft.exists(plans, keys[0]):
            return refuse(KEY_KNOWN, f"there is a plan {keys[0]!r} already", key=keys[0])
        draft.create(plans, keys[0], {"keys": keys, "state": "running", "undoing": ""})
        return None

    def _plan_of(self, draft: Draft, key: str) -> str:
        """Return the plan of a call by its key; empty for a single call.

        The keys of a plan are `<key>.<number>`, and the first of them names the plan.
        """
        first = f"{key.rpartition('.')[0]}.0"
        return first if key in draft.get(self.records.plans, first, "keys", ()) else ""

    def _undo(self, draft: Draft, intent: Intent) -> RuleRefusal | None:
        plan, key = intent["payload"]["plan"], intent["payload"]["key"]
        is_undoing = draft.get(self.records.plans, plan, "state") == "undoing"
        if not is_undoing or draft.get(self.records.calls, key, "state") != "done":
            return refuse("undo_unknown", f"call {key!r} of plan {plan!r} is not to be undone")
        draft.put(self.records.plans, plan, "undoing", key)
        return None

    def _undone_by(self, draft: Draft, key: str, intent: Intent) -> str:
        """Return the key of the call that a call undoes; empty if it undoes none."""
        undone = undone_key(key)
        call = draft.entity(self.records.calls, undone) if undone != key else None
        if call is None or draft.get(self.records.plans, call["plan"], "undoing") != undone:
            return ""
        tool, undo = self.tools[call["tool"]], self.tool_of(intent["kind"])
        is_meant = (
            undo is not None and undo.name == tool.undo and call["agent"] == intent["agent_id"]
        )
        if not is_meant or intent["payload"] != self.undo_arguments(call):
            return ""
        return undone

    def undo_arguments(self, call: Mapping[str, Json]) -> Json:
        """Return the arguments of the call that undoes a call of a plan, by its record."""
        tool = self.tools[call["tool"]]
        undo = self.tools[tool.undo]
        arguments = thaw(tool.undo_arguments(undo.logged.model_fields, call))
        return undo.logged.model_validate(arguments).model_dump(mode="json")

    def _release(self, draft: Draft, intent: Intent) -> RuleRefusal | None:
        plan = intent["payload"]["plan"]
        if draft.get(self.records.plans, plan, "state") != "undoing":
            return refuse("plan_unknown", f"plan {plan!r} is not being undone")
        self.records.release_plan(draft, plan)
        return None

    def _note_time(self, draft: Draft, intent: Intent) -> RuleRefusal | None:
        self.records.note_time(draft, intent["payload"]["at"])
        return None

    def versions(self) -> dict[str, str]:
        """Return a version of each tool, which changes with its declaration."""
        return {name: _digest(_declared(tool)) for name, tool in self.tools.items()}

    def _version(self) -> str:
        """Return a version that changes with the declaration of a tool."""
        return _digest([_declared(tool) for tool in self.tools.values()])


def _declared(tool: DeclaredTool) -> list[Json]:
    return [
        tool.name,
        tool.logged.model_json_schema(),
        tool.risk,
        tool.delivery,
        tool.once,
        tool.undo,
        tool.definition,
    ]


def _digest(declared: Json) -> str:
    return blake2b(canonical(declared), digest_size=4).hexdigest()


def _short(text: str) -> str:
    """Return a text of any length as the name of an entity."""
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()
