"""`placet mcp`: a world as tools of the Model Context Protocol (extra `mcp`)."""
