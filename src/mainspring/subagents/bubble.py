"""What a sub-agent does is heard by its parent, and the parent's gates hold for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mainspring.loop.hooks import CHILD_HOOKS, ChildHook, Handler, Hook, ToolGate, ToolPermit, TurnBefore
from mainspring.subagents.run import Child

if TYPE_CHECKING:
    from mainspring.events import RunStatus
    from mainspring.loop import CoreAgent
    from mainspring.loop.hooks import HookBus

_BEHIND_CHILD = 5  # behind the child's own handlers, before the gates of its policies
_SPENDING = 96  # behind those who may still spend something


def connect(child: Child, agent: CoreAgent, parent: CoreAgent, over_limit: Callable[[], RunStatus | None]) -> None:
    """Have ``parent`` hear what ``agent`` does, decide with its gates, and end it at its own limits.

    What only tells something is passed on if somebody listens now; gates always, since one may be added at any time.
    """
    for wrapper in CHILD_HOOKS:
        if wrapper.gate or parent.bus.has(wrapper):
            agent.on(wrapper.of, _tell(child, wrapper, parent.bus), order=_BEHIND_CHILD)
            agent.on(wrapper, _pass_on(wrapper, parent.bus), order=_BEHIND_CHILD)
    # What an application refuses its agent is refused to sub-agents too, without a word about it. Policies of the parent
    # judge by its own history, and its plugs have their own form in the child: both are left out.
    for gate in (ToolGate, ToolPermit):
        agent.on(gate, _obey(gate, parent), order=_BEHIND_CHILD - 1)

    def stop(hook: TurnBefore) -> None:
        hook.stop = hook.stop or over_limit()

    agent.on(TurnBefore, stop, order=_SPENDING)


def _tell(child: Child, wrapper: type[ChildHook], bus: HookBus) -> Handler[Any]:
    async def tell(hook: Hook) -> None:
        if bus.has(wrapper):
            told = wrapper(child.id, child.name, child.depth, hook)
            told.side_call = hook.side_call
            await bus.emit(told)

    return tell


def _pass_on(wrapper: type[ChildHook], bus: HookBus) -> Handler[Any]:
    async def pass_on(hook: ChildHook) -> None:
        if bus.has(wrapper):
            await bus.emit(hook)

    return pass_on


def _obey(gate: type[Hook], parent: CoreAgent) -> Handler[Any]:
    def is_the_applications(order: int, handler: Handler[Any]) -> bool:
        return order < _BEHIND_CHILD and getattr(handler, "__self__", None) not in parent.plugs

    async def obey(hook: Hook) -> None:
        if parent.bus.has(gate):
            await parent.bus.emit(hook, only=is_the_applications)

    return obey
