"""Servers: front ends for programs, each a thin codec over the chat engine."""
