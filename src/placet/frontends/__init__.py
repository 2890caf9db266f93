"""Conversations with agents: in a terminal, over MCP and over HTTP.

They are found by entry points (`placet.plugins.entry_points`). Every message passes through the
same session and the same gate, whichever frontend received it.

    chat/: `placet chat`, the conversation in a terminal, shown by render.py. mcp/: `placet mcp`, a
    world as tools and resources. sessions/: sessions over HTTP. world_factory.py: the world of a
    conversation. adapters.py: adapters by name; offline_adapter.py: the adapter that needs no
    model.
"""
