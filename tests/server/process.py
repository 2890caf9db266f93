"""A server in a separate process, and a client with the operator's token."""

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from tests.cli.command_line import Process

LATEST_SECONDS = 60


class Running(NamedTuple):
    """A server that runs, and a client with the operator's token."""

    process: Process
    told: dict[str, Any]
    client: httpx.Client

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.told['operator_token']}"}

    def until_status(self, path: str, status: int) -> httpx.Response:
        """Ask for a path until it is answered by a status."""
        until = time.monotonic() + 3 * LATEST_SECONDS
        while (answer := self.client.get(path)).status_code != status:
            assert time.monotonic() < until, f"{path} still answers {answer.text}"
            time.sleep(0.02)
        return answer

    def post(self, path: str, body: object, **more: Any) -> httpx.Response:
        return self.client.post(f"/api/v1/worlds/world/{path}", json=body, **more)


@contextlib.contextmanager
def running(folder: Path, *arguments: str, token: str = "") -> Iterator[Running]:
    """Run a server; `token` is the operator's where it is given tokens, else it makes one."""
    # A machine that stands still for a second is no overload.
    command = (
        "serve",
        "--port",
        "0",
        "--json",
        "--set",
        "limits.loop_lag_ms_max=600000",
        *arguments,
    )
    with Process(*command, folder=folder) as process:
        told = json.loads(process.out.readline())
        headers = {"authorization": f"Bearer {token or told['operator_token']}"}
        timeout = httpx.Timeout(LATEST_SECONDS)
        with httpx.Client(base_url=told["url"], headers=headers, timeout=timeout) as client:
            yield Running(process, told, client)
