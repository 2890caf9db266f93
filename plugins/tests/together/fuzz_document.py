"""A run of schemathesis against a server: every check, in every phase, from one seed.

As a program it is a longer run: `python -m tests.together.fuzz_document DOMAIN EXAMPLES SEED`.
"""

import collections
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import Status, events, from_schema
from schemathesis.specs.openapi.checks import (
    ensure_resource_availability,
    positive_data_acceptance,
)
from tests.together.document_exceptions import answered, unsaid

from tests.server.process import Running, running

PHASES = ("examples", "coverage", "fuzzing", "stateful")
ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "world": ("--domain", "world"),
    "program": ("--domain", "program"),
    "design": ("--domain", "design", "--sessions"),
}
REFUSED = ["401", "403", "404", "405", "409", "410", "413", "415", "422", "428", "429"]
"""Statuses for what the document does not allow; 5xx is none."""


@schemathesis.check
def accepted_unless_unsaid(ctx: Any, response: Any, case: Any) -> None:
    """Check as `positive_data_acceptance` and `not_a_server_error` do, but for the exceptions."""
    sent, path = response.request.body, case.operation.path
    if not unsaid(answered(path, sent, response.status_code, response.content)):
        not_a_server_error(ctx, response, case)
        positive_data_acceptance(ctx, response, case)


@schemathesis.check
def available_unless_unencoded(ctx: Any, response: Any, case: Any) -> None:
    """Check as `ensure_resource_availability` does, but for a name with a percent sign.

    schemathesis 4.32 puts such a name into the path as it is, where it is another name.
    """
    if not any("%" in str(value) for value in case.path_parameters.values()):
        ensure_resource_availability(ctx, response, case)


class Found(NamedTuple):
    """The outcome of a run.

    Attributes:
        failures: A text for each failure or error.
        cases: Number of requests, by phase.
        statuses: Number of answers, by status.
    """

    failures: list[str]
    cases: collections.Counter[str]
    statuses: collections.Counter[int]


def fuzz(
    server: Running,
    examples: int,
    seed: int,
    uncovered: Sequence[str] = (),
    document: Mapping[str, Any] | None = None,
) -> Found:
    """Run schemathesis against a server, with the operator's token.

    Args:
        server: The server.
        examples: Most requests to an operation in a random phase.
        seed: The seed of all that is random.
        uncovered: Paths without the phase that sends each bound of each field.
        document: The document to hold the server to; None for its own.
    """
    names = ("world", "design_id", "program")
    config = SchemathesisConfig.from_dict(
        {
            "seed": seed,
            "base-url": server.told["url"],
            "auth": {"openapi": {"token": {"bearer": server.told["operator_token"]}}},
            "parameters": {f"path.{name}": "world" for name in names},
            "continue-on-failure": True,
            "suppress-health-check": ["all"],
            "generation": {"max-examples": examples, "no-shrink": True, "database": "none"},
            "phases": {name: {"enabled": True} for name in PHASES},
            "checks": {
                # these are in the two checks of this file
                "ensure_resource_availability": {"enabled": False},
                "positive_data_acceptance": {"enabled": False},
                "not_a_server_error": {"enabled": False},
                "negative_data_rejection": {
                    "expected-statuses": [
                        "401",
                        "403",
                        "404",
                        "405",
                        "409",
                        "413",
                        "415",
                        "422",
                        "428",
                    ]
                },
            },
            "operations": [
                {"include-path": path, "phases": {"coverage": {"enabled": False}}}
                for path in uncovered
            ],
        }
    )
    document = document or server.client.get("/openapi.json").json()
    schema = schemathesis.openapi.from_dict(dict(document), config=config)

    @schema.hook
    def after_call(context: Any, case: Any, response: Any) -> None:
        if case.operation.path.endswith("/pause"):  # else batches wait for it to end
            server.post("resume", None)

    found = Found([], collections.Counter(), collections.Counter())
    for event in from_schema(schema).execute():
        if isinstance(event, events.NonFatalError):
            found.failures.append(f"{event.label}: {event.value!r}")
        elif isinstance(event, events.FatalError):
            found.failures.append(repr(event.exception))
        elif isinstance(event, events.ScenarioFinished):
            _count(event, found)
    return found


def _count(event: events.ScenarioFinished, found: Found) -> None:
    recorder = event.recorder
    found.cases[event.phase.value] += len(recorder.cases)
    for case_id, exchange in recorder.interactions.items():
        answer = exchange.response
        if answer is not None:
            found.statuses[answer.status_code] += 1
        for check in recorder.checks.get(case_id, ()):
            if check.status is Status.FAILURE and check.failure_info is not None:
                failure = check.failure_info.failure
                request = exchange.request
                found.failures.append(
                    f"{event.phase.value} {check.name}: {failure.title}, {failure.message}\n"
                    f"  {request.method} {request.uri} {(request.body or b'')[:2000]!r}\n"
                    f"  {'' if answer is None else _reasons(answer.status_code, answer.content)}"
                )


def _reasons(status: int, content: bytes | None) -> str:
    """Return the status and the reasons of an answer: the messages of a verdict, or its text."""
    text = (content or b"").decode(errors="replace")
    refusals = answered("", None, 0, content or b"").refusals
    return f"{status} {[refusal['message'][:150] for refusal in refusals] or text[:400]}"


def _main(domain: str, examples: str, seed: str, *uncovered: str) -> None:
    start = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Path(folder), *ARGUMENTS[domain]) as server,
    ):
        found = fuzz(server, int(examples), int(seed), uncovered)
    print("\n".join(found.failures))  # noqa: T201
    took = round(time.monotonic() - start, 1)
    statuses = dict(sorted(found.statuses.items()))
    told = {"seconds": took, "cases": found.cases, "statuses": statuses}
    print(json.dumps({"failures": len(found.failures), **told}))  # noqa: T201


if __name__ == "__main__":
    _main(*sys.argv[1:])
