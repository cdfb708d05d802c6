"""MCP server: the agent as a tool of MCP clients."""
