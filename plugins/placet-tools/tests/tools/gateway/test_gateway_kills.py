"""A killed gateway, or a killed server, runs no call twice, and its log has each that ran."""

import os
import signal
import subprocess
import tempfile
from pathlib import Path
from random import Random

import pytest
from tests.tools.gateway.plain_client import Folder, PlainClient, told, tool

from placet.schemas.log.expand import expanded
from placet.schemas.log.record import Admitted, Settled, decode_record
from placet.stores.url import open_event_log

KILLS = 10
CALLS = 40
AT_ONCE_MAX = 4
NEVER = ("--approve-from", "never")


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="placet-") as name:
        folder = Folder(Path(name))
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        folder.has_tools(tool("work", inputSchema=schema))
        yield folder


def server_of(gateway: int) -> int:
    """Return the process that a gateway has started."""
    found = subprocess.run(["pgrep", "-P", str(gateway)], capture_output=True, check=True)
    return int(found.stdout.split()[0])


def recorded(store: str) -> tuple[list[int], set[int]]:
    """Return the numbers of the calls that the log admits, and of those that it does not settle."""
    records = [
        one for _, data in open_event_log(store).read() for one in expanded(decode_record(data))
    ]
    admitted = [one for one in records if isinstance(one, Admitted) and one.effects]
    numbers = {effect[0]: effect[2]["args"]["n"] for one in admitted for effect in one.effects}
    settled = {one.effect_seq for one in records if isinstance(one, Settled)}
    return list(numbers.values()), {n for seq, n in numbers.items() if seq not in settled}


@pytest.mark.slow
@pytest.mark.parametrize("killed", ["gateway", "server"])
async def test_a_kill_at_random_runs_no_call_twice(folder, killed, record_property):
    rng, number, answered = Random(1), 0, set()
    for _ in range(KILLS):
        async with PlainClient(folder, *NEVER, "--store", folder.store) as client:
            await client.begin()
            await client.tools()
            victim = client.process.pid if killed == "gateway" else server_of(client.process.pid)
            asked, last = {}, number + rng.randrange(1, CALLS)
            while number < last:
                for _ in range(rng.randrange(1, AT_ONCE_MAX)):
                    number += 1
                    request = client.request("tools/call", name="work", arguments={"n": number})
                    asked[request] = number
                answered.add(asked.pop((await client.receive())["id"]))
            os.kill(victim, signal.SIGKILL)
            while (message := await client.receive()) is not None:
                result = message["result"]
                if "isError" not in result:
                    answered.add(asked.pop(message["id"]))
                else:
                    assert told(result)["status"] in {"doubt", "failed", "refused"}
    async with PlainClient(folder, *NEVER, "--store", folder.store) as client:
        await client.begin()  # what was admitted and not begun runs now
        await client.call("placet_outcome", key="none")
        assert "isError" not in await client.call("work", n=0)
    ran = folder.ran()
    assert set(ran.values()) == {1}
    admitted, unsettled = recorded(folder.store)
    assert len(admitted) == len(set(admitted))
    assert not unsettled & answered
    for call in range(1, number + 1):
        times = ran[f'["work", {{"n": {call}}}]']
        assert times == 1 or call not in answered
        assert times == 0 or call in admitted
    async with PlainClient(folder, *NEVER, "--store", folder.store) as client:
        await client.begin()
        for call in unsettled:  # what may have been done is not done again
            assert told(await client.call("work", n=call))["codes"] == ["mcp.same_running"]
    assert folder.ran() == ran
    figures = f"{KILLS} kills, {sum(ran.values())} calls ran, {len(unsettled)} in doubt"
    record_property("figures", figures)
