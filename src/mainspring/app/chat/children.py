"""Sub-agents, as a chat tells of them: each nested below the one that started it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from mainspring.app.chat.event_translation import Teller, of_child
from mainspring.app.chat.events import ChatEvent, ChildFinished, ChildStarted
from mainspring.app.chat.tool_display import Display
from mainspring.loop import CoreAgent
from mainspring.loop.hooks import SpawnBefore, SpawnComplete, SpawnError
from mainspring.redaction import redact
from mainspring.subagents import Child

_LAST = 900  # behind gates that may keep a sub-agent from running


class Children:
    """Hears of sub-agents on all levels.

    Args:
        tell: Is told.
        display: Gives names of tools for people.
        changed: Called where figures may have changed.
    """

    def __init__(self, tell: Callable[[ChatEvent], None], display: Display, changed: Callable[[], None]) -> None:
        self._tell = tell
        self._display = display
        self._changed = changed
        self._running: set[str] = set()

    @property
    def running(self) -> int:
        """How many run."""
        return len(self._running)

    def knows(self, id: str) -> bool:
        """Whether a sub-agent of this name runs."""
        return id in self._running

    def listen(self, agent: CoreAgent, parent: str = "") -> None:
        """Hear of the sub-agents of an agent, and of theirs."""
        agent.on(SpawnBefore, lambda hook: self._begin(hook, parent), order=_LAST)
        agent.on(SpawnComplete, lambda hook: self._end(hook, hook.text))
        agent.on(SpawnError, lambda hook: self._end(hook, "", hook.error))

    def _begin(self, hook: SpawnBefore, parent: str) -> None:
        if hook.block:
            return
        self._running.add(hook.child_id)
        self._tell(ChildStarted(hook.child_id, hook.child, hook.task, hook.depth, parent))
        child: CoreAgent = hook.agent
        child.bus.observe(Teller(of_child(hook.child_id, self._tell), self._display, self._changed))
        self.listen(child, hook.child_id)
        self._changed()

    def _end(self, hook: SpawnComplete | SpawnError, text: str, error: BaseException | None = None) -> None:
        if hook.child_id not in self._running:
            self._tell(ChildStarted(hook.child_id, hook.child, hook.task, hook.depth))
        self._running.discard(hook.child_id)
        stats: Any = hook.stats
        cost = stats.usage.cost
        self._tell(
            ChildFinished(
                id=hook.child_id,
                name=hook.child,
                status=stats.status,
                text=text,
                error=redact(str(error)) or type(error).__name__ if error is not None else "",
                turns=stats.turns,
                tokens=stats.usage.total_tokens,
                cost=None if cost is None else cost.total,
                seconds=round(stats.seconds, 3),
            )
        )
        self._changed()


def find_child(children: Iterable[Child], id: str) -> Child | None:
    """A sub-agent that runs or waits, on whatever level."""
    for child in children:
        if child.id == id:
            return child
        below = getattr(child.agent, "children", ())
        found = find_child(below, id)
        if found is not None:
            return found
    return None
