"""Slash commands: each a function from its arguments to something that every front end can show."""
