"""The doors of the layer of agents: a terminal, MCP and HTTP.

They are found by entry points (`placet.runtime.entry_points`). What one lets in passes through the same
session, and the same gate, as what any other does.

    chat/command.py            `placet chat`: loop.py, slash_commands.py, render.py are its conversation
    mcp/command.py     `placet mcp`: mcp_*.py are its tools and resources
    sessions/routes.py   sessions over HTTP
    world_factory.py          the world they talk in
    adapters.py       who proposes there, offline_adapter.py where no model does
"""
