"""A server of OpenAI's chat completions in a process of its own; the message decides the answer.

`python -m tests.agents.adapters.llm.model_server FILE` prints its address, and appends a line of
JSON to FILE for each request. `ModelServer` starts it for a test.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from placet.testing.faults import OpenAI, ReceivedRequest, ScriptedModelServer, ServerAnswer

ROOT = Path(__file__).parents[4]
OPENAI = OpenAI()
LATEST_SECONDS = 60


def _speak(text: str, **options: Any) -> ServerAnswer:
    return OPENAI.says(("Speak", {"text": text}), text="Here I go.", **options)


ANSWERS: Mapping[str, Callable[[], ServerAnswer]] = {
    "say hello": lambda: _speak("hello"),
    "say hello uncounted": lambda: _speak("hello", usage=0),
    "misspell": lambda: OPENAI.says(("Speek", {"text": "hello"})),
    "only talk": lambda: OPENAI.says(text="Nothing to do."),
    "fail 401": lambda: OPENAI.fails(401, "Incorrect API key: body-7c1"),
    "fail 404": lambda: OPENAI.fails(404, "no such model"),
    "fail 429": lambda: OPENAI.fails(429, "slow down", ("retry-after", "600")),
    "fail 500": lambda: OPENAI.fails(500, "oh", ("retry-after-ms", "1")),
    "break the JSON": lambda: ServerAnswer(text='{"choices": ['),
    "send a page": lambda: ServerAnswer(text="<html>It works!</html>", kind="text/html"),
    "be silent": lambda: ServerAnswer(is_silent=True),
}


class ByMessage(ScriptedModelServer):
    """Answers each request by the last message of its user, and writes it down."""

    def __init__(self, file: Path) -> None:
        super().__init__([])
        self._file = file

    def answer_to(self, request: ReceivedRequest) -> ServerAnswer:
        """Return the answer to a message."""
        message = OPENAI.read(request).user[-1]
        noted = {
            "message": message,
            "max_tokens": request.body.get("max_tokens"),
            "stream": request.body.get("stream", False),
            "key": request.headers["authorization"].removeprefix("Bearer "),
        }
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(noted) + "\n")
        return ANSWERS[message]()


class ModelServer:
    """The server, as a test starts it; `with ModelServer(folder) as server`."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "requests.jsonl"
        self._file.touch()
        self._popen = subprocess.Popen(
            [sys.executable, "-m", "tests.agents.adapters.llm.model_server", str(self._file)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._popen.stdout is not None
        self.base_url = self._popen.stdout.readline().strip()

    def __enter__(self) -> "ModelServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def address(self) -> str:
        """Host and port."""
        return self.base_url.removeprefix("http://").removesuffix("/v1")

    def requests(self) -> list[dict[str, Any]]:
        """Return all requests so far, oldest first."""
        return [json.loads(line) for line in self._file.read_text("utf-8").splitlines()]

    def stop(self) -> None:
        """End the process; nothing listens at the address afterwards."""
        with self._popen:
            self._popen.kill()
            self._popen.wait(LATEST_SECONDS)


async def _main(file: str) -> None:
    async with ByMessage(Path(file)) as provider:
        sys.stdout.write(f"{provider.url}/v1\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
