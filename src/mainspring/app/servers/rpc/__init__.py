"""JSON lines: the chat engine for any program."""
