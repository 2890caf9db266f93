"""The session domain: the rules of turns and grants, and their states."""

from collections.abc import Mapping
from typing import Final

from placet.domains.session.payloads import (
    APPROVALS_MAX,
    GRANTS,
    PROPOSE,
    RECORDER,
    SESSIONS,
    TURNS,
    AskPayload,
    EndPayload,
    GrantPayload,
    GuardPayload,
    TurnPayload,
    UsePayload,
)
from placet.kernel.plugin.domain import Domain, Kind, Rule, RuleRefusal, refuse
from placet.kernel.state.draft import Draft
from placet.kernel.state.tree import State
from placet.schemas.codec import Json
from placet.schemas.effect import Effect, Settlement
from placet.schemas.identity import Ref
from placet.schemas.intent import Intent

_GRANTS_PER_UNIT: Final = 30
_GRANTS_LOOKED_AT_PER_UNIT: Final = 3
"""Grants that are listed, and whose fields are read, for one unit of work."""


class Sessions(Domain):
    """The domain of sessions: their turns and grants. The domain `approvals` holds their plans.

    Args:
        turns_kept: Latest turns that the state keeps of each session; the log has all of them.
        grants_kept: Grants that the state keeps of the whole world.
    """

    name = "session"
    version = "2"
    collections = (GRANTS, SESSIONS, TURNS)
    needs = ("approvals",)
    former_settings = ("approvals_kept",)

    def __init__(self, *, turns_kept: int = 64, grants_kept: int = 1_024) -> None:
        self._turns_kept = turns_kept
        self._grants_kept = grants_kept
        self.kinds = (
            _kind("turn", TurnPayload, self._turn, "A turn begins."),
            _kind("ask", AskPayload, _ask, "Ask a proposer.", PROPOSE),
            _kind("end", EndPayload, _end, "A turn ends."),
            _kind("grant", GrantPayload, self._grant, "A person permits kinds in advance."),
            _kind("use", UsePayload, _use, "A grant is used."),
            _kind("guard", GuardPayload, _guard, "Only if nothing has changed since."),
        )

    def settings(self) -> Mapping[str, Json]:
        """Return the keyword arguments that recreate the domain."""
        return {"turns_kept": self._turns_kept, "grants_kept": self._grants_kept}

    def on_remove(self, draft: Draft, agent_id: str) -> None:
        """Remove an agent's entities; the log keeps them.

        A later agent of the same name is a different one.

        A session keeps its count of turns, so that a late answer cannot match a later turn of the
        same number.
        """
        for collection, field in ((TURNS, "agent"), (GRANTS, "proposer")):
            for entity in _owned(draft, collection, field, agent_id):
                draft.delete(collection, entity)
        for session in _owned(draft, SESSIONS, "agent", agent_id):
            draft.put(SESSIONS, session, "approvals", ())

    def on_settle(self, draft: Draft, effect: Effect, settlement: Settlement) -> None:
        """Add the requests, tokens and source of the price of a proposer's answer to its turn."""
        if effect.kind != PROPOSE:
            return
        turn = _turn_id(effect.payload)
        answer = settlement.output if isinstance(settlement.output, Mapping) else {}
        used = answer.get("usage")
        if not draft.exists(TURNS, turn) or not used:
            return
        requests, tokens_in, tokens_out, _ = used
        draft.put(TURNS, turn, "requests", draft.get(TURNS, turn, "requests") + requests)
        draft.put(TURNS, turn, "tokens", draft.get(TURNS, turn, "tokens") + tokens_in + tokens_out)
        if "price" in answer:
            draft.put(TURNS, turn, "price", answer["price"])

    def may_see(self, state: State, agent_id: str, ref: Ref) -> bool:
        """Return whether a session or turn is the agent's; False for grants.

        False for a collection as a whole, because it also has entities of other agents. A session
        is visible while its latest turn is in the state, so sessions of a removed agent are not.
        """
        if ref.entity is None:
            return False
        turn = ref.entity
        if ref.collection == SESSIONS:
            turn = turn_id(ref.entity, state.get(SESSIONS, ref.entity, "turns", 0))
        if ref.collection in {SESSIONS, TURNS}:
            return bool(state.get(TURNS, turn, "agent") == agent_id)
        return False

    def _turn(self, draft: Draft, intent: Intent) -> RuleRefusal | None:
        payload: Mapping[str, Json] = intent["payload"]
        session, number = payload["session"], payload["turn"]
        if not draft.exists(SESSIONS, session):
            draft.create(
                SESSIONS, session, {"agent": payload["agent"], "turns": 0, "approvals": ()}
            )
        owner = draft.get(SESSIONS, session, "agent")
        if owner != payload["agent"]:
            message = other_agent(session, owner, payload["agent"])
            return refuse("agent_other", message, at="/agent")
        turns = draft.get(SESSIONS, session, "turns")
        if number != turns + 1:
            return refuse(
                "turn_out_of_order",
                f"session {session!r} has {turns} turns, expected {turns + 1}, got {number}; open "
                "the session again to continue",
                at="/turn",
            )
        draft.put(SESSIONS, session, "turns", number)
        draft.create(
            TURNS,
            _turn_id(payload),
            {
                **{name: payload[name] for name in ("agent", "mode", "route", "message")},
                "outcome": "running",
                "stop": "",
                "text": "",
                "results": (),
                "requests": 0,
                "tokens": 0,
            },
        )
        _forget(draft, TURNS, turn_id(session, number - self._turns_kept))
        return None

    def _grant(self, draft: Draft, intent: Intent) -> RuleRefusal | None:
        payload: Mapping[str, Json] = intent["payload"]
        grant = payload["grant"]
        if draft.exists(GRANTS, grant):
            return refuse("grant_exists", f"there is a grant {grant!r} already", at="/grant")
        if payload["by"] == payload["proposer"]:
            return refuse("grant_own", "an agent cannot grant a permission to itself", at="/by")
        grants = list(draft.ids(GRANTS))
        draft.charge(len(grants) // _GRANTS_PER_UNIT)
        if len(grants) >= self._grants_kept:
            draft.charge(len(grants) // _GRANTS_LOOKED_AT_PER_UNIT)
            ended = [name for name in grants if _is_over(draft, name)]
            if not ended:
                return refuse(
                    "grants_full", f"at most {self._grants_kept} grants may be open; let some end"
                )
            for name in ended:
                draft.delete(GRANTS, name)
        fields = {name: payload[name] for name in payload if name not in {"grant", "seconds"}}
        draft.create(GRANTS, grant, {**fields, "expires": draft.sim_time + payload["seconds"]})
        return None


def _kind(name: str, payload: object, rule: Rule, summary: str, *effects: str) -> Kind:
    """Make a kind that only the session recorder may use."""

    def guarded(draft: Draft, intent: Intent) -> RuleRefusal | None:
        if intent["agent_id"] != RECORDER:
            return refuse(
                "recorder_only", f"{RECORDER!r} alone records sessions; propose something else"
            )
        return rule(draft, intent)

    return Kind(f"session.{name}", payload, guarded, effects=effects, summary=summary)


def _guard(draft: Draft, intent: Intent) -> RuleRefusal | None:
    seq = intent["payload"]["seq"]
    if draft.seq == seq:
        return None
    return refuse("seq_changed", f"this was meant for seq {seq}, it is {draft.seq}; look again")


def _ask(draft: Draft, intent: Intent) -> RuleRefusal | None:
    payload: Mapping[str, Json] = intent["payload"]
    if draft.get(TURNS, _turn_id(payload), "outcome") != "running":
        return _not_running(_turn_id(payload), "/turn")
    names = ["session", "turn", "attempt"]
    if "request" in payload:  # so a fork reuses the answer to the very same request alone
        names += ["digest", "request"]
    draft.emit(PROPOSE, {name: payload[name] for name in names})
    return None


def _end(draft: Draft, intent: Intent) -> RuleRefusal | None:
    payload: Mapping[str, Json] = intent["payload"]
    turn = _turn_id(payload)
    if draft.get(TURNS, turn, "outcome") != "running":
        return _not_running(turn, "/turn")
    for name in ("outcome", "stop", "text", "results"):
        draft.put(TURNS, turn, name, payload[name])
    _remember_held(draft, payload)
    return None


def _remember_held(draft: Draft, payload: Mapping[str, Json]) -> None:
    """Keep the id of the request that a turn made, until a turn records the end of the request."""
    session, asked, ended = payload["session"], payload.get("approval_id"), payload.get("ended", ())
    if not asked and not ended:
        return
    waiting = [one for one in draft.get(SESSIONS, session, "approvals") if one not in ended]
    if asked and asked not in waiting:
        waiting.append(asked)
    draft.put(SESSIONS, session, "approvals", tuple(waiting[-APPROVALS_MAX:]))


def _use(draft: Draft, intent: Intent) -> RuleRefusal | None:
    payload: Mapping[str, Json] = intent["payload"]
    grant = draft.entity(GRANTS, payload["grant"])
    if grant is None or grant["proposer"] not in {payload["proposer"], "*"}:
        return refuse(
            "grant_unknown", f"there is no grant {payload['grant']!r} for it", at="/grant"
        )
    left = grant["uses"] - payload["uses"]
    if left < 0 or draft.sim_time > grant["expires"]:
        return refuse("grant_over", f"grant {payload['grant']!r} is used up or over", at="/grant")
    draft.put(GRANTS, payload["grant"], "uses", left)
    return None


def other_agent(session: str, owner: str, agent: str) -> str:
    """Return the refusal for an agent that continues another agent's session."""
    return (
        f"session {session!r} belongs to agent {owner!r}, not to {agent!r}; continue it as "
        f"{owner!r}, or open a session with another name"
    )


def turn_id(session: str, number: int) -> str:
    """Return the id of a turn: `<session>/<number>`, six digits."""
    return f"{session}/{number:06d}"


def _turn_id(payload: Mapping[str, Json]) -> str:
    return turn_id(payload["session"], payload["turn"])


def _not_running(turn: str, at: str) -> RuleRefusal:
    return refuse("turn_unknown", f"turn {turn} is not running", at=at)


def _owned(draft: Draft, collection: str, field: str, agent_id: str) -> list[str]:
    """List an agent's entities in a collection."""
    return [
        entity
        for entity in draft.ids(collection)
        if draft.get(collection, entity, field) == agent_id
    ]


def _forget(draft: Draft, collection: str, entity: str) -> None:
    if draft.exists(collection, entity):
        draft.delete(collection, entity)


def _is_over(draft: Draft, grant: str) -> bool:
    fields: Mapping[str, Json] = draft.entity(GRANTS, grant) or {}
    return bool(fields["uses"] == 0 or draft.sim_time > fields["expires"])
