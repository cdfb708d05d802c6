"""Set the sampling options of requests; loaded only if one is set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mainspring.events import Notice
from mainspring.loop.hooks import HookBus, TurnBefore
from mainspring.loop.policy import PolicyContext
from mainspring.models import Sampling


def create_sampling_policy(options: Any, run: PolicyContext) -> Callable[[TurnBefore], None]:
    """Return the handler of `turn:before`."""
    notes = run.conversation_state(_Notes, _Notes)
    return SamplingPolicy(options, run.agent.bus, notes).before


class _Notes(set[str]):
    """The notes about options that the user has received in a conversation."""


class SamplingPolicy:
    """Sets the sampling options of each request, and reports the options that the model does not support.

    Args:
        options: The `SamplingOptions`.
        bus: Bus that publishes the notes.
        notes: Notes that were published before.
    """

    def __init__(self, options: Any, bus: HookBus, notes: set[str]) -> None:
        self._options = options
        fields = Sampling(**{name: getattr(options, name) for name in Sampling.__struct_fields__})
        self._sampling = None if fields == Sampling() else fields
        self._bus = bus
        self._notes = notes

    def before(self, hook: TurnBefore) -> None:
        """Handle `turn:before`.

        A call is forced in the first turn only: otherwise the run could not end with a response.
        """
        request, options = hook.request, self._options
        request.sampling, request.notify = self._sampling, self._report
        if options.stop:
            request.stop = tuple(options.stop)
        if options.extra_body:
            request.extra = {**request.extra, **options.extra_body}
        choice = options.tool_choice
        if choice == "none" or (choice != "auto" and hook.turn == 1):
            if choice in ("none", "required") or any(tool.name == choice for tool in request.tools):
                request.tool_choice = choice
            else:
                self._report(f"tool_choice names the unknown tool {choice!r}, and is not sent.")

    def _report(self, note: str) -> None:
        if note not in self._notes:
            self._notes.add(note)
            self._bus.publish(Notice(note, "warn"))
