"""The terminal command."""
