"""An MCP server of the SDK, whose tools use what a server may ask of its client."""

import asyncio
import sys

from mcp.server.mcpserver import Context, MCPServer
from mcp.types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    SamplingMessage,
    TextContent,
)

server = MCPServer("shop")
started: list[str] = []


@server.tool()
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def fail() -> str:
    """Raise."""
    raise ValueError("it broke")


@server.tool()
async def progress(ctx: Context) -> str:
    """Report progress."""
    await ctx.report_progress(1, 2, "half")
    return "reported"


@server.tool()
async def sample(ctx: Context) -> str:
    """Ask the client's model."""
    message = SamplingMessage(role="user", content=TextContent(type="text", text="hello"))
    answer = await ctx.session.create_message([message], max_tokens=9)
    return str(answer.content)


@server.tool()
async def roots(ctx: Context) -> str:
    """Ask for the client's folders."""
    return str([str(root.uri) for root in (await ctx.session.list_roots()).roots])


@server.tool()
async def ask(what: str, ctx: Context) -> str | InputRequiredResult:
    """Ask the user of the client, by an answer that comes before the result."""
    started.append(what)
    if ctx.input_responses is None:
        schema = {"type": "object", "properties": {"color": {"type": "string"}}}
        form = ElicitRequestFormParams(message=what, requested_schema=schema)
        return InputRequiredResult(
            request_state="asked", input_requests={"form": ElicitRequest(params=form)}
        )
    answer = ctx.input_responses["form"]
    assert isinstance(answer, ElicitResult)
    return f"{ctx.request_state}: {answer.content}, {len(started)} times"


@server.tool()
async def grow() -> str:
    """Add a tool."""

    async def fresh() -> str:
        return "fresh"

    server.add_tool(fresh)
    return "grown"


@server.resource("shop://orders")
def orders() -> str:
    """List the orders."""
    return "A7"


@server.resource("shop://slow")
async def slow() -> str:
    """Never end."""
    await asyncio.sleep(600)
    return ""


@server.prompt()
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello {name}"


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        server.run("streamable-http", port=int(sys.argv[2]))
    else:
        server.run("stdio")
