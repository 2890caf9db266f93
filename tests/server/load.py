"""Clients that submit to a server without a pause, and what they were answered."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from tests.cli.command_line import move
from tests.server.process import Running

PAUSE_SECONDS = 0.01


class Load:
    """Submits batches, one after the other for each agent; a failed one is sent again.

    Attributes:
        acknowledged: `(agent, req_id)` of each admitted batch, with its seq.
        failures: Number of answers 503, and of connections that failed.
    """

    def __init__(self, server: Running, agents: int, payload: str = "") -> None:
        self.acknowledged: dict[tuple[str, str], int] = {}
        self.failures = 0
        self.contradictions: list[str] = []
        self._server = server
        self._payload = payload
        self._news = threading.Condition()
        self._is_over = threading.Event()
        self._agents = [f"agent{number}" for number in range(agents)]
        for agent in self._agents:
            assert server.post("agents", {"agent_id": agent}).status_code == 201

    @contextmanager
    def running(self) -> Iterator[None]:
        threads = [threading.Thread(target=self._submit, args=(one,)) for one in self._agents]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            for thread in threads:
                thread.join()

    def wait_for_more(self, count: int, seconds: float = 60) -> None:
        """Wait until so many more batches are acknowledged."""
        with self._news:
            wanted = len(self.acknowledged) + count
            assert self._news.wait_for(lambda: len(self.acknowledged) >= wanted, seconds)

    def wait_for_failures(self, count: int, seconds: float = 60) -> None:
        """Wait until so many more requests have failed."""
        with self._news:
            wanted = self.failures + count
            assert self._news.wait_for(lambda: self.failures >= wanted, seconds)

    def check_kept(self) -> None:
        """Check that the world still has each acknowledged batch, at its seq."""
        assert self.contradictions == []
        for (agent, req_id), seq in self.acknowledged.items():
            query = {"agent_id": agent, "req_id": req_id}
            kept = self._server.client.get("/api/v1/worlds/world/verdicts", params=query).json()
            assert (kept["admitted"], kept["seq"]) == (True, seq)

    def _submit(self, agent: str) -> None:
        with httpx.Client(base_url=self._server.told["url"], timeout=60) as client:
            client.headers.update(self._server.headers)
            number = 0
            while not self._is_over.is_set():
                if self._send(client, agent, number):
                    number += 1
                else:
                    self._is_over.wait(PAUSE_SECONDS)

    def _send(self, client: httpx.Client, agent: str, number: int) -> bool:
        intents = [move(agent, number)]
        if self._payload:
            speak = {"kind": "Speak", "payload": {"text": self._payload}}
            intents.append({**move(agent, number), **speak, "req_id": f"{number}:speak"})
        try:
            answer = client.post("/api/v1/worlds/world/batches", json=intents)
        except httpx.TransportError:
            answer = None
        with self._news:
            self._news.notify_all()
            if answer is None or answer.status_code == 503:
                self.failures += 1
                return False
            verdict = answer.json()
            if not verdict.get("admitted"):
                self.contradictions.append(answer.text)
            key = (agent, intents[0]["req_id"])
            self.acknowledged[key] = verdict["seq"]
            return True
