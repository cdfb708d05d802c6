"""The agent loop, and the core agent around it."""

from mainspring.events import AgentStats
from mainspring.loop.agent import CoreAgent, MessageQueue, Plugin, PreparablePlug, Prompt, ResettablePlug, RunGuard
from mainspring.loop.hooks import EventListener, Handler, HookBus, Hooks
from mainspring.loop.loop import agent_loop
from mainspring.loop.options import LoopOptions
from mainspring.loop.result import LoopRun, RunHandle, RunResult
from mainspring.loop.state import Approve, Deny, LoopConfig, LoopContext, PendingCalls
from mainspring.loop.steps import LiveSteps, Steps
from mainspring.tools import output_bytes

__all__ = [
    "AgentStats",
    "Approve",
    "CoreAgent",
    "Deny",
    "EventListener",
    "Handler",
    "HookBus",
    "Hooks",
    "LiveSteps",
    "LoopConfig",
    "LoopContext",
    "LoopOptions",
    "LoopRun",
    "MessageQueue",
    "PendingCalls",
    "Plugin",
    "PreparablePlug",
    "Prompt",
    "ResettablePlug",
    "RunGuard",
    "RunHandle",
    "RunResult",
    "Steps",
    "agent_loop",
    "output_bytes",
]


def __dir__() -> list[str]:
    return __all__
