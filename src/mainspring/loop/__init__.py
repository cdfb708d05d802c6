"""The loop, and the core agent around it."""

from mainspring.loop.agent import CoreAgent, Prompt
from mainspring.loop.behavior import Behavior, Settled
from mainspring.loop.bus import Handler, HookBus, Hooks, Observer
from mainspring.loop.dispatch import output_bytes
from mainspring.loop.inbox import Inbox
from mainspring.loop.loop import agent_loop
from mainspring.loop.plug import Plug
from mainspring.loop.result import AgentRun, AgentStats, RunResult
from mainspring.loop.run import LoopConfig, LoopContext, LoopResult, Pending
from mainspring.loop.steps import LiveSteps, Steps

__all__ = [
    "AgentRun",
    "AgentStats",
    "Behavior",
    "CoreAgent",
    "Handler",
    "HookBus",
    "Hooks",
    "Inbox",
    "LiveSteps",
    "LoopConfig",
    "LoopContext",
    "LoopResult",
    "Observer",
    "Pending",
    "Plug",
    "Prompt",
    "RunResult",
    "Settled",
    "Steps",
    "agent_loop",
    "output_bytes",
]
