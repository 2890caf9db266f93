"""Agents of frameworks that are killed: their tools append to a file outside, which counts."""

import asyncio

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from tests.tools.killed_shop import config, kill_at, shop
from tests.tools.scripted_langchain import agent_graph, node_graph, results
from tests.tools.scripted_openai import agent_of, run
from tests.tools.scripted_openai import results as results_of_run

from placet_tools import Gate
from tests.crash.process_forker import Report

CALLS = [("charge", {"order": "A"}), ("send", {"order": "A"})]
THREAD = {"configurable": {"thread_id": "t"}}
GRAPHS = {"agent": agent_graph, "node": node_graph}


def run_once(report: Report, *, framework: str, point: str, **places: str) -> None:
    """Run an agent, or the rest of a graph that was killed; report what its model received."""
    asyncio.run(_run_once(report, framework, point, **places))


async def _run_once(
    report: Report, framework: str, point: str, *, store: str, outside: str, threads: str
) -> None:
    tools = shop(outside, kill_at(point) if point else lambda reached: None)
    async with Gate(tools, store=store, config=config()) as gate:
        if framework == "openai":
            calls = [(f"c{n}", *call) for n, call in enumerate(CALLS)]
            agent = agent_of(gate.openai_agents("support", run="r"), calls)
            received = [*results_of_run(await run(agent)).values()]
        else:
            async with AsyncSqliteSaver.from_conn_string(threads) as saver:
                graph = GRAPHS[framework](gate.langgraph("support"), saver, CALLS)
                begun = (await graph.aget_state(THREAD)).next
                start = None if begun else {"messages": [("user", "go")]}
                received = results(await graph.ainvoke(start, THREAD, durability="sync"))
        report.send("ended", received=received)
