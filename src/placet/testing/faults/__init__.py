"""Faults for authors of agents: a model server with scripted answers, latencies and failures.

async with ScriptedModelServer([OpenAI().fails(429, "slow down"), ...]) as server:
llm = Llm(OpenAI().model(server.url))
"""

from placet.testing.faults.model_server import ReceivedRequest, ScriptedModelServer, ServerAnswer
from placet.testing.faults.wire_formats import Anthropic, OpenAI, ParsedRequest, Responses, Wire

__all__ = [
    "Anthropic",
    "OpenAI",
    "ParsedRequest",
    "ReceivedRequest",
    "Responses",
    "ScriptedModelServer",
    "ServerAnswer",
    "Wire",
]
