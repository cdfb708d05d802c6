"""Mainspring: a typed, async agent runtime. One loop, any model, tools from plain functions.

Everything public is exported here and imported on first use, so that ``import mainspring`` costs nothing.
"""

from __future__ import annotations

from mainspring.lazy import TYPE_CHECKING, lazy_exports

if TYPE_CHECKING:
    from mainspring.agent.agent import Agent as Agent, create_agent as create_agent
    from mainspring.agent.conversation import Conversation as Conversation
    from mainspring.agent.handoffs import Handoff as Handoff, without_tool_calls as without_tool_calls
    from mainspring.callbacks import AgentCallbacks as AgentCallbacks
    from mainspring.cancellation import CancelToken as CancelToken
    from mainspring.errors import (
        AgentAbortedError as AgentAbortedError,
        AgentBusyError as AgentBusyError,
        AgentContextExceededError as AgentContextExceededError,
        AgentError as AgentError,
        AgentOutputError as AgentOutputError,
        AgentProviderError as AgentProviderError,
        ConfigError as ConfigError,
        ErrorCode as ErrorCode,
        MainspringError as MainspringError,
        ModelError as ModelError,
        PermissionDeniedError as PermissionDeniedError,
        ProviderError as ProviderError,
        SessionError as SessionError,
        ToolError as ToolError,
    )
    from mainspring.events import (
        AgentEnd as AgentEnd,
        AgentStart as AgentStart,
        Done as Done,
        Event as Event,
        EventStream as EventStream,
        MessageEnd as MessageEnd,
        MessageStart as MessageStart,
        MessageUpdate as MessageUpdate,
        ModelCallRetry as ModelCallRetry,
        StreamError as StreamError,
        StreamEvent as StreamEvent,
        TextDelta as TextDelta,
        ThinkingDelta as ThinkingDelta,
        ToolCallDelta as ToolCallDelta,
        ToolCallEnd as ToolCallEnd,
        ToolCallStart as ToolCallStart,
        ToolExecutionEnd as ToolExecutionEnd,
        ToolExecutionStart as ToolExecutionStart,
        ToolExecutionUpdate as ToolExecutionUpdate,
        TurnEnd as TurnEnd,
        TurnStart as TurnStart,
    )
    from mainspring.extensions import ExtensionAPI as ExtensionAPI, Extensions as Extensions
    from mainspring.extensions.command_hooks import CommandHook as CommandHook, CommandHooks as CommandHooks
    from mainspring.loop import (
        AgentStats as AgentStats,
        Approve as Approve,
        CoreAgent as CoreAgent,
        Deny as Deny,
        HookBus as HookBus,
        LoopConfig as LoopConfig,
        LoopContext as LoopContext,
        PendingCalls as PendingCalls,
        Plugin as Plugin,
        RunHandle as RunHandle,
        RunResult as RunResult,
        Steps as Steps,
        agent_loop as agent_loop,
    )
    from mainspring.loop.hooks import (
        Hook as Hook,
        PermissionCheck as PermissionCheck,
        ToolBefore as ToolBefore,
        ToolFinished as ToolFinished,
        ToolGate as ToolGate,
        TurnAfter as TurnAfter,
        TurnBefore as TurnBefore,
    )
    from mainspring.mcp import (
        McpPlug as McpPlug,
        McpServerConfig as McpServerConfig,
        connect_mcp as connect_mcp,
        create_tool_search as create_tool_search,
    )
    from mainspring.memory import Memory as Memory
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
        decode_messages as decode_messages,
        encode_messages as encode_messages,
    )
    from mainspring.models import (
        LLMClient as LLMClient,
        ModelProvider as ModelProvider,
        ModelRequest as ModelRequest,
        RetryConfig as RetryConfig,
        create_model as create_model,
    )
    from mainspring.permissions import Permissions as Permissions
    from mainspring.policies.budgets import Budget as Budget, Ledger as Ledger, ToolBudget as ToolBudget
    from mainspring.policies.compaction import Compaction as Compaction, Compactor as Compactor
    from mainspring.policies.disclosure import Disclosure as Disclosure, ToolSearchOptions as ToolSearchOptions
    from mainspring.policies.relevant_history import (
        MessageHistory as MessageHistory,
        RelevantHistory as RelevantHistory,
    )
    from mainspring.policies.request_settings import ThinkingDecay as ThinkingDecay
    from mainspring.presets import Preset as Preset, merge_presets as merge_presets
    from mainspring.run_options import Behavior as Behavior, RunOptions as RunOptions
    from mainspring.sessions import Session as Session
    from mainspring.subagents import AgentDefinition as AgentDefinition, Subagents as Subagents
    from mainspring.tools import (
        RunContext as RunContext,
        Tool as Tool,
        ToolContext as ToolContext,
        ToolRegistry as ToolRegistry,
        ToolResult as ToolResult,
        Toolset as Toolset,
        define_tool as define_tool,
        tool as tool,
    )

__version__ = "0.1.0"

_HOMES = {
    "errors": "AgentAbortedError AgentBusyError AgentContextExceededError AgentError AgentOutputError AgentProviderError ConfigError ErrorCode MainspringError ModelError PermissionDeniedError ProviderError SessionError ToolError",
    "events": "AgentEnd Event AgentStart Done EventStream MessageEnd MessageStart MessageUpdate ModelCallRetry StreamError StreamEvent TextDelta ThinkingDelta ToolCallDelta ToolCallEnd ToolCallStart ToolExecutionEnd ToolExecutionStart ToolExecutionUpdate TurnEnd TurnStart",
    "cancellation": "CancelToken",
    "loop.hooks": "Hook ToolFinished ToolBefore ToolGate PermissionCheck TurnAfter TurnBefore",
    "extensions": "ExtensionAPI Extensions",
    "extensions.command_hooks": "CommandHook CommandHooks",
    "loop": "RunHandle AgentStats Approve CoreAgent Deny HookBus LoopConfig LoopContext PendingCalls Plugin RunResult Steps agent_loop",
    "messages": "AgentMessage ContentBlock Cost CustomMessage ImageBlock Message TextBlock ThinkingBlock ToolResultBlock ToolUseBlock Usage decode_messages encode_messages",
    "models": "LLMClient ModelProvider ModelRequest RetryConfig create_model",
    "policies.relevant_history": "MessageHistory RelevantHistory",
    "policies.request_settings": "ThinkingDecay",
    "run_options": "Behavior RunOptions",
    "policies.budgets": "Budget Ledger ToolBudget",
    "policies.compaction": "Compaction Compactor",
    "mcp": "McpPlug McpServerConfig connect_mcp create_tool_search",
    "memory": "Memory",
    "policies.disclosure": "Disclosure ToolSearchOptions",
    "permissions": "Permissions",
    "presets": "Preset merge_presets",
    "agent.agent": "Agent create_agent",
    "agent.conversation": "Conversation",
    "agent.handoffs": "Handoff without_tool_calls",
    "callbacks": "AgentCallbacks",
    "sessions": "Session",
    "subagents": "AgentDefinition Subagents",
    "tools": "RunContext Tool ToolContext ToolRegistry ToolResult Toolset define_tool tool",
}
lazy_exports(__name__, _HOMES)
