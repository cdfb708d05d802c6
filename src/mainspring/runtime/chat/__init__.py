"""The chat engine: commands in, events out, and nothing that draws."""
