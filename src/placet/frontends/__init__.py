"""The doors of the layer of agents: a terminal, MCP and HTTP.

They are found by entry points (`placet.runtime.entry_points`). What one lets in passes through the
same session, and the same gate, as what any other does.

    chat/: `placet chat`, the conversation in a terminal, shown by render.py. mcp/: `placet mcp`, a
    world as tools and resources. sessions/: sessions over HTTP. world_factory.py: the world of a
    conversation. adapters.py: the proposers by name; offline_adapter.py: the one without a model.
"""
