"""Mainspring: a typed, async agent runtime. One loop, any model, tools from plain functions.

Everything public is exported here and imported on first use, so that ``import mainspring`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mainspring.errors import (
        AgentAbortedError as AgentAbortedError,
        AgentBusyError as AgentBusyError,
        AgentContextExceededError as AgentContextExceededError,
        AgentError as AgentError,
        AgentProviderError as AgentProviderError,
        ConfigError as ConfigError,
        ErrorCode as ErrorCode,
        MainspringError as MainspringError,
        ModelError as ModelError,
        PermissionDeniedError as PermissionDeniedError,
        SessionError as SessionError,
        ToolError as ToolError,
    )
    from mainspring.events import (
        AgentEnd as AgentEnd,
        AgentEvent as AgentEvent,
        AgentStart as AgentStart,
        CancelToken as CancelToken,
        Done as Done,
        EventStream as EventStream,
        Hook as Hook,
        MessageEnd as MessageEnd,
        MessageStart as MessageStart,
        MessageUpdate as MessageUpdate,
        ModelRetry as ModelRetry,
        StreamError as StreamError,
        StreamEvent as StreamEvent,
        TextDelta as TextDelta,
        ThinkingDelta as ThinkingDelta,
        ToolAfter as ToolAfter,
        ToolBefore as ToolBefore,
        ToolCallDelta as ToolCallDelta,
        ToolCallEnd as ToolCallEnd,
        ToolCallStart as ToolCallStart,
        ToolExecutionEnd as ToolExecutionEnd,
        ToolExecutionStart as ToolExecutionStart,
        ToolExecutionUpdate as ToolExecutionUpdate,
        ToolGate as ToolGate,
        ToolPermit as ToolPermit,
        TurnAfter as TurnAfter,
        TurnBefore as TurnBefore,
        TurnEnd as TurnEnd,
        TurnStart as TurnStart,
    )
    from mainspring.loop import (
        AgentRun as AgentRun,
        AgentStats as AgentStats,
        Behavior as Behavior,
        CoreAgent as CoreAgent,
        HookBus as HookBus,
        LoopConfig as LoopConfig,
        LoopContext as LoopContext,
        LoopResult as LoopResult,
        Plug as Plug,
        RunResult as RunResult,
        Steps as Steps,
        agent_loop as agent_loop,
    )
    from mainspring.messages import (
        AgentMessage as AgentMessage,
        ContentBlock as ContentBlock,
        Cost as Cost,
        CustomMessage as CustomMessage,
        ImageBlock as ImageBlock,
        Message as Message,
        TextBlock as TextBlock,
        ThinkingBlock as ThinkingBlock,
        ToolResultBlock as ToolResultBlock,
        ToolUseBlock as ToolUseBlock,
        Usage as Usage,
    )
    from mainspring.models import (
        LLMClient as LLMClient,
        ModelProvider as ModelProvider,
        ModelRequest as ModelRequest,
        RetryConfig as RetryConfig,
        create_model as create_model,
    )
    from mainspring.policies.permissions import Permissions as Permissions
    from mainspring.runtime.agent import Agent as Agent, create_agent as create_agent
    from mainspring.sessions import Session as Session
    from mainspring.tools import (
        Tool as Tool,
        ToolContext as ToolContext,
        ToolRegistry as ToolRegistry,
        ToolResult as ToolResult,
        define_tool as define_tool,
        tool as tool,
    )

__version__ = "0.1.0"

_HOMES = {
    "errors": "AgentAbortedError AgentBusyError AgentContextExceededError AgentError AgentProviderError ConfigError ErrorCode "
    "MainspringError ModelError PermissionDeniedError SessionError ToolError",
    "events": "AgentEnd AgentEvent AgentStart CancelToken Done EventStream Hook MessageEnd MessageStart MessageUpdate ModelRetry "
    "StreamError StreamEvent TextDelta ThinkingDelta ToolAfter ToolBefore ToolCallDelta ToolCallEnd ToolCallStart "
    "ToolExecutionEnd ToolExecutionStart ToolExecutionUpdate ToolGate ToolPermit TurnAfter TurnBefore TurnEnd TurnStart",
    "loop": "AgentRun AgentStats Behavior CoreAgent HookBus LoopConfig LoopContext LoopResult Plug RunResult Steps agent_loop",
    "messages": "AgentMessage ContentBlock Cost CustomMessage ImageBlock Message TextBlock ThinkingBlock ToolResultBlock "
    "ToolUseBlock Usage",
    "models": "LLMClient ModelProvider ModelRequest RetryConfig create_model",
    "policies.permissions": "Permissions",
    "runtime.agent": "Agent create_agent",
    "sessions": "Session",
    "tools": "Tool ToolContext ToolRegistry ToolResult define_tool tool",
}
_EXPORTS = {name: f"mainspring.{home}" for home, names in _HOMES.items() for name in names.split()}

__all__ = sorted(_EXPORTS)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    home = _EXPORTS.get(name)
    if home is None:
        raise AttributeError(f"module 'mainspring' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
