"""A server of payments that need a person, in a process of its own, for the tests of approvals.

Each line on stdin is a request to ask for, as JSON: `{"calls": [[kind, payload], ...], "agent",
"role", "about", "seconds"}`. Each line on stdout is JSON too: first the address, then the id of
each request.
"""

import asyncio
import json
import sys

from placet import Inbox, OrchestratorConfig
from placet.domains.approvals import Approvals
from placet.kernel import Domain, Kind, is_approved, refuse
from placet.schemas.effect import DoNotRetry, OutcomeUnknown
from placet.schemas.identity import OPERATOR
from placet.server import create_app
from placet.server.approvals_config import ApprovalsConfig
from placet.server.config import ServeConfig
from placet.server.credentials import Credentials, KnownToken, hash_of
from placet.server.listener import listen, run_server, run_to_signal, url_of
from tests.runtime.ledger_desk import Desk

TOKENS = {name: f"token-of-{name}-{'x' * 20}" for name in (OPERATOR, "ann", "bob", "zed")}
PEOPLE = {"ann": ["manager"], "bob": []}
"""Zed is no person."""


class Bank(Domain):
    """Transfers outside, each of which needs an approval."""

    name = "bank"
    version = "1"

    def __init__(self):
        self.kinds = (Kind("bank.send", dict, _send, effects=("bank.send",), risk="high"),)


def _send(draft, intent):
    if not is_approved(draft, intent):
        return refuse("approval_required", "a person approves it")
    draft.emit("bank.send", dict(intent["payload"]))
    return None


async def send(effect):
    """Stand for the bank: its answer is in the payload."""
    if effect.payload["answer"] == "failed":
        raise DoNotRetry("no such account")
    if effect.payload["answer"] == "doubt":
        raise OutcomeUnknown("the line went dead")
    return {"receipt": effect.payload["answer"]}


def say(value):
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


async def ask(world, line):
    alice = await world.register_agent(line.get("agent", "alice"))
    intents = [alice.intent(kind, payload) for kind, payload in line["calls"]]
    answer = await Inbox(world).ask(
        intents,
        agent=alice,
        role=line.get("role", ""),
        about=line.get("about"),
        seconds=line.get("seconds", 3_600.0),
    )
    return answer.request.id if answer.request else list(answer.codes)


async def serve(app, config, listening):
    world = app.state.context.worlds.first

    async def asking():
        await world.register_executor("bank.send", send, delivery="at_most_once")
        say({"url": url_of(listening)})
        while line := await asyncio.to_thread(sys.stdin.readline):
            say(await ask(world, json.loads(line)))

    tasks = []
    return await run_server(
        app, config, listening, lambda: tasks.append(asyncio.ensure_future(asking()))
    )


def main(store="memory://", approvals="{}"):
    config = ServeConfig(port=0, people=PEOPLE, approvals=ApprovalsConfig(**json.loads(approvals)))
    known = Credentials(KnownToken(name, hash_of(token)) for name, token in TOKENS.items())
    app = create_app(
        [Desk(), Bank(), Approvals()],
        OrchestratorConfig(store=store),
        credentials=known,
        serve=config,
    )
    listening = listen(config)
    raise SystemExit(run_to_signal(listening, serve(app, config, listening)))


if __name__ == "__main__":
    main(*sys.argv[1:])
