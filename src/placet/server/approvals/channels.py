"""The two ways to send a notice of a new request: a webhook, and a command.

A webhook is signed as Standard Webhooks has it (https://www.standardwebhooks.com): the headers
`webhook-id`, `webhook-timestamp` in seconds, and `webhook-signature`, which is `v1,` and the
base64 of the HMAC-SHA256 of `<id>.<timestamp>.<body>`. A command gets the body on stdin.
"""

import asyncio
import os
import shutil
import signal
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from hmac import digest
from typing import TYPE_CHECKING, Final, Protocol

from placet.schemas.errors import PlacetError
from placet.server.approvals_config import ApprovalsConfig

if TYPE_CHECKING:
    import httpx

_SECRET_PREFIX: Final = "whsec_"
_WEBHOOK_SECONDS_MAX: Final = 10.0
_COMMAND_SECONDS_MAX: Final = 30.0
_STATUSES_MIN: Final = 400
_STATUSES_MAX: Final = 500
_LATER: Final = frozenset({408, 425, 429})
"""Statuses of a client's fault that ask to send again."""


class NoticesError(PlacetError):
    """The error of notices that cannot be sent: no secret, or no such program."""


class NotSent(Exception):  # noqa: N818  # the name states the fault
    """The error of one attempt to send a notice.

    Attributes:
        is_final: Another attempt would fail too.
    """

    def __init__(self, why: str, *, is_final: bool = False) -> None:
        super().__init__(why)
        self.is_final = is_final


class Channel(Protocol):
    """One way to send a notice.

    Attributes:
        name: Its name, in metrics and in the log.
    """

    name: str

    async def send(self, notice_id: str, body: bytes) -> None:
        """Send one notice once; bounded in time.

        Args:
            notice_id: Id of the notice, the same in every attempt.
            body: The notice as JSON.

        Raises:
            NotSent: The receiver did not accept it.
        """

    async def close(self) -> None:
        """Free the connections of the channel."""


def channels_of(config: ApprovalsConfig, environ: Mapping[str, str]) -> list[Channel]:
    """Return the configured channels; none if nothing is configured.

    Args:
        config: The configuration.
        environ: The environment variables, one of which has the secret of the webhook.

    Raises:
        NoticesError: The variable of the secret is not set, or there is no such program.
    """
    channels: list[Channel] = []
    if config.webhook is not None and config.webhook_secret_env is not None:
        secret = environ.get(config.webhook_secret_env, "")
        if not secret:
            raise NoticesError(
                "approvals.webhook_secret_env: the environment has no "
                f"{config.webhook_secret_env}, or it is empty; set it to the secret with which the "
                "receiver checks signatures"
            )
        channels.append(WebhookChannel(config.webhook, secret_bytes(secret)))
    if config.command is not None:
        program = shutil.which(config.command[0])
        if program is None:
            raise NoticesError(
                f"approvals.command: there is no program {config.command[0]!r}; give its path"
            )
        channels.append(CommandChannel([program, *config.command[1:]]))
    return channels


def secret_bytes(secret: str) -> bytes:
    """Return the bytes of a secret: after the prefix `whsec_` it is base64, else plain text.

    Raises:
        NoticesError: The rest of a secret with this prefix is no base64.
    """
    if not secret.startswith(_SECRET_PREFIX):
        return secret.encode()
    try:
        return b64decode(secret.removeprefix(_SECRET_PREFIX), validate=True)
    except Base64Error as error:
        raise NoticesError(
            f"the secret of the webhook begins with {_SECRET_PREFIX}, so base64 must follow"
        ) from error


def signature(secret: bytes, notice_id: str, timestamp: int, body: bytes) -> str:
    """Return the value of the header `webhook-signature`."""
    signed = f"{notice_id}.{timestamp}.".encode() + body
    return "v1," + b64encode(digest(secret, signed, "sha256")).decode()


class WebhookChannel:
    """Sends notices by POST.

    Args:
        url: Address of the receiver.
        secret: Secret of the signatures.
        now: Returns the time as seconds since 1970.
    """

    name = "webhook"

    def __init__(self, url: str, secret: bytes, now: Callable[[], float] | None = None) -> None:
        self._url = url
        self._secret = secret
        self._now = now or _unix_time
        self._client: httpx.AsyncClient | None = None

    async def send(self, notice_id: str, body: bytes) -> None:
        """Send one notice once, within 10 s; the answer's body is not read."""
        import httpx  # noqa: PLC0415  # only with a webhook

        timestamp = int(self._now())
        headers = {
            "content-type": "application/json",
            "webhook-id": notice_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signature(self._secret, notice_id, timestamp, body),
        }
        if self._client is None:
            self._client = httpx.AsyncClient(timeout=_WEBHOOK_SECONDS_MAX)
        try:
            # The limit of the client is of each step; this one is of all of them.
            async with (
                asyncio.timeout(_WEBHOOK_SECONDS_MAX),
                self._client.stream("POST", self._url, content=body, headers=headers) as answer,
            ):
                status = answer.status_code
        except TimeoutError:
            raise NotSent(f"no answer within {_WEBHOOK_SECONDS_MAX:g} s") from None
        except httpx.HTTPError as error:  # its text may have the address, which may be a secret
            raise NotSent(type(error).__name__) from error
        if status >= _STATUSES_MIN:
            is_final = status < _STATUSES_MAX and status not in _LATER
            raise NotSent(f"status {status}", is_final=is_final)

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()


class CommandChannel:
    """Runs a program for each notice, with the notice on stdin.

    Its output is dropped, and its errors are those of the server's process.

    Args:
        command: The program and its arguments.
    """

    name = "command"

    def __init__(self, command: list[str]) -> None:
        self._command = command

    async def send(self, notice_id: str, body: bytes) -> None:
        """Run the program once, within 30 s; then it is killed with the processes it started."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise NotSent(f"it does not start: {error.strerror or error}") from error
        try:
            async with asyncio.timeout(_COMMAND_SECONDS_MAX):
                await process.communicate(body)
        except TimeoutError:
            raise NotSent(f"it did not end within {_COMMAND_SECONDS_MAX:g} s") from None
        finally:
            if process.returncode is None:
                _kill(process.pid)
                await process.wait()
        if process.returncode:
            raise NotSent(f"exit code {process.returncode}")

    async def close(self) -> None:
        """Do nothing: a program that runs is ended by the cancellation of `send`."""


def _kill(pid: int) -> None:
    """Kill a process and its group, which it leads."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _unix_time() -> float:
    import time  # noqa: PLC0415  # the clock is an argument, in tests another

    return time.time()
