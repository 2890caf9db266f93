"""Strict parsing of the bodies of sessions over HTTP: a value, or a `Problem`."""

from placet.agents.proposal.modes import MODES
from placet.agents.session.opener import session_name
from placet.cli.terminal import CommandError
from placet.domains.session.payloads import ROLE_CHARS_MAX
from placet.frontends.adapters import proposer
from placet.schemas.codec import Json
from placet.schemas.json_value import format_value
from placet.server.http.bodies import identity
from placet.server.http.problems import Problem


def name_of(value: Json) -> str:
    """Read the name of a session, which is a part of its path."""
    if not isinstance(value, str):
        raise Problem("request_invalid", f"session must be a string, got {format_value(value)}")
    try:
        name = session_name(value)
    except ValueError as error:
        raise Problem("request_invalid", str(error)) from error
    if "/" in name or name in {".", ".."}:
        raise Problem(
            "request_invalid", "a session is a part of a path: it has no '/', and is no '.' or '..'"
        )
    return name


def mode_of(value: Json) -> str:
    """Read how much the agent may do by itself."""
    if not isinstance(value, str) or value not in MODES:
        raise Problem(
            "request_invalid", f"mode must be one of {', '.join(MODES)}, got {format_value(value)}"
        )
    return value


def people_of(value: Json, agent: str) -> dict[str, str]:
    """Read who may talk and decide: name -> role."""
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise Problem("request_invalid", "people must be an object: name -> role, which may be ''")
    if any(len(role) > ROLE_CHARS_MAX for role in value.values()):
        raise Problem("request_invalid", f"a role has at most {ROLE_CHARS_MAX} characters")
    names = {identity(name, "a name of people"): role for name, role in value.items()}
    if agent in names:
        raise Problem("request_invalid", f"{agent!r} proposes, so it does not decide")
    return names


def adapter_of(name: Json) -> object:
    """Return the named adapter; None for none. A person cannot be asked here."""
    if name is None:
        return None
    if not isinstance(name, str) or name == "human":
        raise Problem("request_invalid", "proposer must be 'scripted', a model, or null")
    try:
        return proposer(name)
    except CommandError as error:
        raise Problem("request_invalid", str(error)) from error


def actions_of(value: Json) -> list[tuple[str, dict[str, Json]]]:
    """Return a person's replacement actions: kinds and payloads."""
    expected = Problem("request_invalid", "actions must be an array of {kind, payload}")
    if not isinstance(value, list) or not value:
        raise expected
    actions = []
    for one in value:
        if not isinstance(one, dict) or one.keys() - {"kind", "payload"}:
            raise expected
        kind, payload = one.get("kind"), one.get("payload", {})
        if not isinstance(kind, str) or not isinstance(payload, dict):
            raise expected
        actions.append((kind, payload))
    return actions
