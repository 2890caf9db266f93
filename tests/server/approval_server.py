"""A running `approval_desk`, and a client of it."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager

import httpx

from tests.server.approval_desk import TOKENS

LATEST_SECONDS = 60


class DeskServer:
    """A server of the desk in a process of its own."""

    def __init__(self, process):
        self.process = process
        self.url = self._told()["url"]
        self.world = f"{self.url}/api/v1/worlds/world"

    def _told(self):
        line = self.process.stdout.readline()
        assert line, "the server has ended"
        return json.loads(line)

    def ask(self, *calls, **more):
        """Have the server ask for an approval; return the id of the request."""
        self.process.stdin.write(json.dumps({"calls": calls, **more}) + "\n")
        self.process.stdin.flush()
        return self._told()

    def headers(self, token):
        return {"authorization": f"Bearer {TOKENS[token]}"}

    def get(self, path, token="ann"):
        return httpx.get(
            f"{self.world}/{path}", headers=self.headers(token), timeout=LATEST_SECONDS
        )

    def decide(self, request, decision="approve", token="ann", **more):
        digest = self.get(f"approvals/{request}", token).json()["digest"]
        return httpx.post(
            f"{self.world}/approvals/{request}",
            json={"decision": decision, "digest": digest, **more},
            headers=self.headers(token),
            timeout=LATEST_SECONDS,
        )


@contextmanager
def running_desk(*arguments, environ=None, stderr=None):
    """Run a server of the desk until the block ends."""
    command = [sys.executable, "-m", "tests.server.approval_desk", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command,
        stdin=pipe,
        stdout=pipe,
        stderr=stderr,
        text=True,
        env={**os.environ, **(environ or {})},
    ) as process:
        try:
            yield DeskServer(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()  # else the thread that reads it would hold the process up
            process.terminate()
            process.wait(LATEST_SECONDS)
