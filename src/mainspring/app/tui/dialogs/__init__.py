"""Dialogs of the terminal UI."""
