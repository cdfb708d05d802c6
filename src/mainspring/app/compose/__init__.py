"""Compose an agent with its plugins from settings and options."""
