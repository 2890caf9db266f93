"""The configuration of notices of new requests for approval: the section `[approvals]`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

_VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalsConfig:
    """The receivers of notices of new requests for approval.

    Attributes:
        webhook: Address to which each request is sent by POST, as JSON with a signature; None for
            none.
        webhook_secret_env: Name of the environment variable with the secret of the signature.
        command: Program and arguments, run for each request with its JSON on stdin; None for none.

    Raises:
        ValueError: A value is none of these.
    """

    webhook: str | None = None
    webhook_secret_env: str | None = None
    command: list[str] | None = None

    def __post_init__(self) -> None:
        if self.webhook is not None and not _is_address(self.webhook):
            raise ValueError(  # without the value, which may hold a password
                "webhook must be an address of http or https without name and password, such as "
                "https://example.org/approvals"
            )
        if (self.webhook is None) != (self.webhook_secret_env is None):
            raise ValueError(
                "webhook and webhook_secret_env are set together: the receiver checks the "
                "signature, which is made with the secret of this environment variable"
            )
        if self.webhook_secret_env is not None and not _VARIABLE.fullmatch(self.webhook_secret_env):
            raise ValueError(  # without the value, which may be the secret
                "webhook_secret_env must be the name of an environment variable in capitals, not "
                "the secret"
            )
        if self.command is not None and not _is_command(self.command):
            raise ValueError(
                f"command must be a list of the program and its arguments, got {self.command!r:.80}"
            )


def _is_command(command: Sequence[str]) -> bool:
    is_list = isinstance(command, list) and all(isinstance(one, str) for one in command)
    return is_list and bool(command) and bool(command[0])


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        has_place = parts.port != 0 and bool(parts.hostname)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and has_place and parts.username is None
