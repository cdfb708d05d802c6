"""Mainspring: a typed, async agent runtime. One loop, any model, tools from plain functions.

Everything public is exported here and imported on first use, so that ``import mainspring`` costs nothing.
"""

from __future__ import annotations

from mainspring.lazy import TYPE_CHECKING, lazy_exports

if TYPE_CHECKING:
    from mainspring.agent.agent import Agent as Agent
    from mainspring.agent.agent import create_agent as create_agent
    from mainspring.agent.conversation import Conversation as Conversation
    from mainspring.agent.handoffs import Handoff as Handoff
    from mainspring.agent.handoffs import without_tool_calls as without_tool_calls
    from mainspring.callbacks import AgentCallbacks as AgentCallbacks
    from mainspring.cancellation import CancelToken as CancelToken
    from mainspring.errors import (
        AgentAbortedError as AgentAbortedError,
    )
    from mainspring.errors import (
        AgentBusyError as AgentBusyError,
    )
    from mainspring.errors import (
        AgentContextExceededError as AgentContextExceededError,
    )
    from mainspring.errors import (
        AgentError as AgentError,
    )
    from mainspring.errors import (
        AgentOutputError as AgentOutputError,
    )
    from mainspring.errors import (
        AgentProviderError as AgentProviderError,
    )
    from mainspring.errors import (
        ConfigError as ConfigError,
    )
    from mainspring.errors import (
        ErrorCode as ErrorCode,
    )
    from mainspring.errors import (
        MainspringError as MainspringError,
    )
    from mainspring.errors import (
        ModelError as ModelError,
    )
    from mainspring.errors import (
        PermissionDeniedError as PermissionDeniedError,
    )
    from mainspring.errors import (
        ProviderError as ProviderError,
    )
    from mainspring.errors import (
        SessionError as SessionError,
    )
    from mainspring.errors import (
        ToolError as ToolError,
    )
    from mainspring.events import (
        AgentEnd as AgentEnd,
    )
    from mainspring.events import (
        AgentStart as AgentStart,
    )
    from mainspring.events import (
        Done as Done,
    )
    from mainspring.events import Event as Event
    from mainspring.events import (
        EventStream as EventStream,
    )
    from mainspring.events import (
        MessageEnd as MessageEnd,
    )
    from mainspring.events import (
        MessageStart as MessageStart,
    )
    from mainspring.events import (
        MessageUpdate as MessageUpdate,
    )
    from mainspring.events import (
        ModelCallRetry as ModelCallRetry,
    )
    from mainspring.events import (
        StreamError as StreamError,
    )
    from mainspring.events import (
        StreamEvent as StreamEvent,
    )
    from mainspring.events import (
        TextDelta as TextDelta,
    )
    from mainspring.events import (
        ThinkingDelta as ThinkingDelta,
    )
    from mainspring.events import (
        ToolCallDelta as ToolCallDelta,
    )
    from mainspring.events import (
        ToolCallEnd as ToolCallEnd,
    )
    from mainspring.events import (
        ToolCallStart as ToolCallStart,
    )
    from mainspring.events import (
        ToolExecutionEnd as ToolExecutionEnd,
    )
    from mainspring.events import (
        ToolExecutionStart as ToolExecutionStart,
    )
    from mainspring.events import (
        ToolExecutionUpdate as ToolExecutionUpdate,
    )
    from mainspring.events import (
        TurnEnd as TurnEnd,
    )
    from mainspring.events import (
        TurnStart as TurnStart,
    )
    from mainspring.extensions import ExtensionAPI as ExtensionAPI
    from mainspring.extensions import Extensions as Extensions
    from mainspring.extensions.command_hooks import CommandHook as CommandHook
    from mainspring.extensions.command_hooks import CommandHooks as CommandHooks
    from mainspring.loop import (
        AgentStats as AgentStats,
    )
    from mainspring.loop import (
        Approve as Approve,
    )
    from mainspring.loop import (
        CoreAgent as CoreAgent,
    )
    from mainspring.loop import (
        Deny as Deny,
    )
    from mainspring.loop import (
        HookBus as HookBus,
    )
    from mainspring.loop import (
        LoopConfig as LoopConfig,
    )
    from mainspring.loop import (
        LoopContext as LoopContext,
    )
    from mainspring.loop import PendingCalls as PendingCalls
    from mainspring.loop import Plugin as Plugin
    from mainspring.loop import RunHandle as RunHandle
    from mainspring.loop import (
        RunResult as RunResult,
    )
    from mainspring.loop import (
        Steps as Steps,
    )
    from mainspring.loop import (
        agent_loop as agent_loop,
    )
    from mainspring.loop.hooks import Hook as Hook
    from mainspring.loop.hooks import PermissionCheck as PermissionCheck
    from mainspring.loop.hooks import ToolBefore as ToolBefore
    from mainspring.loop.hooks import ToolFinished as ToolFinished
    from mainspring.loop.hooks import ToolGate as ToolGate
    from mainspring.loop.hooks import TurnAfter as TurnAfter
    from mainspring.loop.hooks import TurnBefore as TurnBefore
    from mainspring.mcp import McpPlug as McpPlug
    from mainspring.mcp import McpServerConfig as McpServerConfig
    from mainspring.mcp import connect_mcp as connect_mcp
    from mainspring.mcp import create_tool_search as create_tool_search
    from mainspring.memory import Memory as Memory
    from mainspring.messages import (
        AgentMessage as AgentMessage,
    )
    from mainspring.messages import (
        ContentBlock as ContentBlock,
    )
    from mainspring.messages import (
        Cost as Cost,
    )
    from mainspring.messages import (
        CustomMessage as CustomMessage,
    )
    from mainspring.messages import (
        ImageBlock as ImageBlock,
    )
    from mainspring.messages import (
        Message as Message,
    )
    from mainspring.messages import (
        TextBlock as TextBlock,
    )
    from mainspring.messages import (
        ThinkingBlock as ThinkingBlock,
    )
    from mainspring.messages import (
        ToolResultBlock as ToolResultBlock,
    )
    from mainspring.messages import (
        ToolUseBlock as ToolUseBlock,
    )
    from mainspring.messages import (
        Usage as Usage,
    )
    from mainspring.messages import (
        decode_messages as decode_messages,
    )
    from mainspring.messages import (
        encode_messages as encode_messages,
    )
    from mainspring.models import (
        LLMClient as LLMClient,
    )
    from mainspring.models import (
        ModelProvider as ModelProvider,
    )
    from mainspring.models import (
        ModelRequest as ModelRequest,
    )
    from mainspring.models import (
        RetryConfig as RetryConfig,
    )
    from mainspring.models import (
        create_model as create_model,
    )
    from mainspring.permissions import Permissions as Permissions
    from mainspring.policies.budgets import Budget as Budget
    from mainspring.policies.budgets import Ledger as Ledger
    from mainspring.policies.budgets import ToolBudget as ToolBudget
    from mainspring.policies.compaction import Compaction as Compaction
    from mainspring.policies.compaction import Compactor as Compactor
    from mainspring.policies.disclosure import Disclosure as Disclosure
    from mainspring.policies.disclosure import ToolSearchOptions as ToolSearchOptions
    from mainspring.policies.relevant_history import MessageHistory as MessageHistory
    from mainspring.policies.relevant_history import RelevantHistory as RelevantHistory
    from mainspring.policies.request_settings import ThinkingDecay as ThinkingDecay
    from mainspring.presets import Preset as Preset
    from mainspring.presets import merge_presets as merge_presets
    from mainspring.run_options import Behavior as Behavior
    from mainspring.run_options import RunOptions as RunOptions
    from mainspring.sessions import Session as Session
    from mainspring.subagents import AgentDefinition as AgentDefinition
    from mainspring.subagents import Subagents as Subagents
    from mainspring.tools import (
        RunContext as RunContext,
    )
    from mainspring.tools import (
        Tool as Tool,
    )
    from mainspring.tools import (
        ToolContext as ToolContext,
    )
    from mainspring.tools import (
        ToolRegistry as ToolRegistry,
    )
    from mainspring.tools import (
        ToolResult as ToolResult,
    )
    from mainspring.tools import Toolset as Toolset
    from mainspring.tools import (
        define_tool as define_tool,
    )
    from mainspring.tools import (
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
