"""Callbacks: plain functions that are told what an agent does. An adapter over hooks and events, and back."""

from typing import TYPE_CHECKING

from mainspring.lazy import exports

if TYPE_CHECKING:
    from mainspring.runtime.callbacks.callbacks import AgentCallbacks as AgentCallbacks
    from mainspring.runtime.callbacks.callbacks import ErrorReport as ErrorReport
    from mainspring.runtime.callbacks.callbacks import PermissionAnswer as PermissionAnswer
    from mainspring.runtime.callbacks.plug import CallbacksPlug as CallbacksPlug
    from mainspring.runtime.callbacks.to_events import callbacks_to_events as callbacks_to_events

__all__, __getattr__ = exports(
    __name__,
    {
        "callbacks": "AgentCallbacks ErrorReport PermissionAnswer",
        "plug": "CallbacksPlug",
        "to_events": "callbacks_to_events",
    },
)
