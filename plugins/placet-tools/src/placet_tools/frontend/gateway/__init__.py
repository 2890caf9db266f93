"""A gateway before an MCP server: its tools run when the gate admits a call."""
