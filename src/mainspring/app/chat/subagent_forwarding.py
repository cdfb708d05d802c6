"""Publishes the events of subagents on the bus of the outermost agent, until the library does."""

from __future__ import annotations

from mainspring.events import ErrorInfo, RunEvent, SubagentEnd, SubagentEvent, SubagentStart
from mainspring.loop import CoreAgent
from mainspring.loop.hooks import BeforeSpawn, HookBus, SpawnComplete, SpawnError

_ORDER_LAST = 900  # after gates that may prevent a subagent from running


def forward_subagents(agent: CoreAgent, bus: HookBus, path: tuple[str, ...] = ()) -> None:
    """Publish the events of the subagents of an agent, on all levels."""

    def publish(event: RunEvent) -> None:
        bus.publish(SubagentEvent(path, event) if path else event)

    def begin(hook: BeforeSpawn) -> None:
        if hook.block:
            return
        publish(SubagentStart(hook.child_id, hook.child, hook.task, hook.depth))
        inner = (*path, hook.child_id)
        child: CoreAgent = hook.agent

        def forward(event: RunEvent) -> None:
            bus.publish(SubagentEvent(inner, event))

        child.bus.subscribe(forward)
        forward_subagents(child, bus, inner)

    def end(hook: SpawnComplete | SpawnError) -> None:
        error = hook.error if isinstance(hook, SpawnError) else None
        text = hook.text if isinstance(hook, SpawnComplete) else ""
        info = None if error is None else ErrorInfo.from_exception(error)
        publish(SubagentEnd(hook.child_id, hook.child, hook.task, hook.depth, hook.stats, text, info, error))

    agent.on(BeforeSpawn, begin, order=_ORDER_LAST)
    agent.on(SpawnComplete, end)
    agent.on(SpawnError, end)
