"""JSON lines: a conversation for any program."""
