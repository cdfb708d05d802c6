"""Plugins: the one way to extend an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from mainspring.loop.agent import CoreAgent


@runtime_checkable
class Plugin(Protocol):
    """An extension of an agent: a session, permissions, skills, telemetry, or something of the application."""

    def install(self, agent: CoreAgent) -> None:
        """Register hooks and tools. Called once, when the agent is created."""
        ...

    def for_child(self) -> Plugin | None:
        """Return the plugin that a subagent gets, if any."""
        ...


@runtime_checkable
class PreparablePlug(Protocol):
    """A plugin (or an environment) with work to do before the first run: connect, read, start."""

    async def prepare(self) -> None:
        """Prepare for runs. Called by `CoreAgent.warmup`, together with others; called again only if it raised."""
        ...


@runtime_checkable
class RunGuard(Protocol):
    """A plugin that can reject a run before anything of it happens, for example when its session is closed."""

    def check_run(self) -> None:
        """Raise an exception to reject the run."""
        ...


@runtime_checkable
class ResettablePlug(Protocol):
    """A plugin with a state that belongs to the conversation."""

    def reset(self) -> None:
        """Forget that state: the conversation was reset."""
        ...
