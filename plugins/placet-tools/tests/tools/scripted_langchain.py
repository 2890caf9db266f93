"""A scripted model of LangChain, and the graphs that call it."""

from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

Answer = list[tuple[str, dict[str, Any]]]
"""The calls of one answer: tool and arguments of each."""


class Script(BaseChatModel):
    """A model whose n-th answer in a conversation is the n-th of the script, and then `done`.

    The ids of the calls are the same in each answer, as those of some models are.
    """

    answers: list[Answer]

    @property
    def _llm_type(self) -> str:
        return "script"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        turn = sum(isinstance(message, AIMessage) for message in messages)
        answer = self.answers[turn] if turn < len(self.answers) else []
        calls = [
            {"name": name, "args": arguments, "id": f"c{n}"}
            for n, (name, arguments) in enumerate(answer)
        ]
        message = AIMessage("" if calls else "done", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])


def agent_graph(tools: Sequence[BaseTool], checkpointer: Any, *answers: Answer) -> Any:
    """Return an agent of LangChain, in which each call is a task of its own."""
    return create_agent(Script(answers=list(answers)), tools, checkpointer=checkpointer)


def node_graph(tools: Sequence[BaseTool], checkpointer: Any, *answers: Answer) -> Any:
    """Return a graph of which one `ToolNode` makes all calls of an answer."""
    model = Script(answers=list(answers))
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=checkpointer)


def results(state: dict[str, Any]) -> list[str]:
    """Return what the model received of its calls, in the order of the messages."""
    return [str(one.content) for one in state["messages"] if isinstance(one, ToolMessage)]
