"""Helpers that several built-in tools use."""
