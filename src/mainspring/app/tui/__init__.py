"""The terminal UI: shows the events of the chat engine, and turns what the user types into its commands."""
