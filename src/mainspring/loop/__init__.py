"""The loop, and the core agent around it."""

from mainspring.loop.agent import CoreAgent, Inbox, Prompt
from mainspring.loop.hooks import Handler, HookBus, Hooks, Observer
from mainspring.loop.loop import agent_loop
from mainspring.loop.options import Behavior, Settled
from mainspring.loop.plug import Plug, Prepares, Resets
from mainspring.loop.result import AgentRun, AgentStats, RunResult
from mainspring.loop.state import Approve, Deny, LoopConfig, LoopContext, Pending
from mainspring.loop.steps import LiveSteps, Steps
from mainspring.tools import output_bytes

__all__ = [
    "AgentRun",
    "AgentStats",
    "Approve",
    "Behavior",
    "CoreAgent",
    "Deny",
    "Handler",
    "HookBus",
    "Hooks",
    "Inbox",
    "LiveSteps",
    "LoopConfig",
    "LoopContext",
    "Observer",
    "Pending",
    "Plug",
    "Prepares",
    "Prompt",
    "Resets",
    "RunResult",
    "Settled",
    "Steps",
    "agent_loop",
    "output_bytes",
]
