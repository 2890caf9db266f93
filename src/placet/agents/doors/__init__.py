"""The doors of the layer of agents: a terminal, MCP and HTTP.

They are found by entry points (`placet.runtime.guests`). What one lets in passes through the same
session, and the same gate, as what any other does.

    chat.py            `placet chat`: talk.py, own_words.py, screen.py are its conversation
    mcp_command.py     `placet mcp`: mcp_*.py are its tools and resources
    http_sessions.py   sessions over HTTP
    opened.py          the world they talk in
    proposers.py       who proposes there, offline.py where no model does
"""
