"""Callbacks: plain functions that are told what an agent does. An adapter over hooks and events, and back."""

from mainspring.runtime.callbacks.callbacks import AgentCallbacks, ErrorReport, PermissionAnswer
from mainspring.runtime.callbacks.plug import CallbacksPlug
from mainspring.runtime.callbacks.to_events import callbacks_to_events

__all__ = ["AgentCallbacks", "CallbacksPlug", "ErrorReport", "PermissionAnswer", "callbacks_to_events"]
