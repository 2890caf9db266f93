"""Reads a policy of a TOML file, and makes the domain that judges by it."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from placet.schemas.codec import Json
from placet.schemas.limits import DOCUMENT_BYTES_MAX
from placet_tools.domain import ToolsDomain
from placet_tools.policy import ToolPolicyError
from placet_tools.tools import Tools

PolicySource: TypeAlias = str | Path | Mapping[str, Json]
"""A policy: path of its TOML file, or the values of one."""


def domain_of(tools: Tools, approve_from: str, policy: PolicySource | None) -> ToolsDomain:
    """Return the domain of tools under a policy.

    Args:
        tools: The tools.
        approve_from: Least risk that needs an approval, where the policy names none.
        policy: The policy; None for none.

    Raises:
        ToolError: `approve_from` is no risk.
        ToolPolicyError: The policy cannot be read, or does not fit the tools; the message begins
            with the file and the place.
    """
    values = None if policy is None else read_policy(policy)
    try:
        return tools.domain(approve_from=approve_from, policy=values)
    except ToolPolicyError as error:
        raise ToolPolicyError(f"{name_of(policy)}: {error}") from None


def read_policy(policy: PolicySource) -> Mapping[str, Json]:
    """Return the values of a policy.

    Raises:
        ToolPolicyError: The file cannot be read, or is no TOML.
    """
    if isinstance(policy, Mapping):
        return policy
    path: object = policy
    if not isinstance(path, str | Path) or not str(path):
        raise ToolPolicyError(
            f"a policy is the path of a TOML file, or the values of one, got {policy!r:.120}; "
            "leave it out for none"
        )
    try:
        with Path(policy).open("rb") as file:
            data = file.read(DOCUMENT_BYTES_MAX + 1)
    except OSError as error:
        raise ToolPolicyError(f"cannot read the policy {policy}: {error.strerror}") from None
    if len(data) > DOCUMENT_BYTES_MAX:
        raise ToolPolicyError(f"{policy}: a policy has at most {DOCUMENT_BYTES_MAX} bytes")
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ToolPolicyError(f"{policy}: it is no TOML: {error}") from None


def name_of(policy: PolicySource | None) -> str:
    """Return the name of a policy for messages."""
    return str(policy) if isinstance(policy, str | Path) else "policy"
