"""Parse, repair, and coerce the arguments of tool calls."""
