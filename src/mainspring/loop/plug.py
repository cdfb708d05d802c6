"""The one way to extend an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from mainspring.loop.agent import CoreAgent


@runtime_checkable
class Plugin(Protocol):
    """Something that is put into an agent: a session, permissions, skills, telemetry, an application's own thing.

    Above: the agent. Below: the hook bus and the registry, by which alone a plug acts.
    """

    def install(self, agent: CoreAgent) -> None:
        """Register hooks and tools. Called once, when the agent is made."""
        ...

    def for_child(self) -> Plugin | None:
        """What a sub-agent gets of this; ``None`` is nothing."""
        ...


@runtime_checkable
class PreparablePlug(Protocol):
    """A plug (or an environment) that has something to do before the first run: connect, read, start."""

    async def prepare(self) -> None:
        """Get ready. Called once by `CoreAgent.warmup`, beside those of others; again only where it raised."""
        ...


@runtime_checkable
class ResettablePlug(Protocol):
    """A plug that keeps something of the conversation."""

    def reset(self) -> None:
        """Forget it: the conversation starts anew."""
        ...
