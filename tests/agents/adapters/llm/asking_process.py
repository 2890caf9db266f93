"""A process that is killed while it waits for a model: `python asking_process.py URL STORE`."""

import asyncio
import sys

from placet.agents import Llm, Session
from placet.domains.world import World
from placet.testing.faults import OpenAI


async def main(url: str, store: str) -> None:
    llm = Llm(OpenAI().model(url))
    async with Session.open(domain=World(), adapter=llm, store=store) as session:
        await session.send("say hi")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
