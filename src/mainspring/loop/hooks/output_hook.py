"""The hook of structured output."""

from __future__ import annotations

from typing import Any

from mainspring.loop.hooks.run import Hook


class OutputHook(Hook):
    """A run that was to end in structured output has come to an end.

    ``output`` is the validated value, or ``None`` where there is none; then ``error`` says why, and the run's result falls back to
    its text. ``attempts`` counts the answers that were tried.
    """

    event = "output"
    mutable = ("output",)
    when = "When an answer fits the schema, or no further one is asked for."
    __slots__ = ("attempts", "error", "output", "raw")

    def __init__(self, output: Any, raw: Any, attempts: int, error: str = "") -> None:
        self.output = output
        self.raw = raw
        self.attempts = attempts
        self.error = error
