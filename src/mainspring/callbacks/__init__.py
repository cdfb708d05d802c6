"""Callbacks: plain functions that are notified of an agent's actions.

An adapter over hooks and events, and back.
"""

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.callbacks.plug import CallbacksPlug as CallbacksPlug
    from mainspring.callbacks.to_events import callbacks_to_events as callbacks_to_events
    from mainspring.callbacks.types import (
        AgentCallbacks as AgentCallbacks,
        ErrorReport as ErrorReport,
        PermissionResult as PermissionResult,
    )

lazy_exports(
    __name__,
    {
        "types": "AgentCallbacks ErrorReport PermissionResult",
        "plug": "CallbacksPlug",
        "to_events": "callbacks_to_events",
    },
)
