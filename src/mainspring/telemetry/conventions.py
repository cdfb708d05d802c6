"""Names from OpenTelemetry's conventions for generative AI, and additional names of our own. The only module that depends on
their version.
"""

from __future__ import annotations

from typing import Final

_VERSION: Final = "1.41.1"
"""Version of the semantic conventions; those for generative AI as of 2026-05-11, when they moved to a separate repository."""

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.41.0"

SCOPE: Final = "mainspring"
"""The instrumentation scope of all spans, metrics and events."""

# --- operations, and the names of spans ---
CHAT: Final = "chat"
INVOKE_AGENT: Final = "invoke_agent"
EXECUTE_TOOL: Final = "execute_tool"
CLASSIC_NAMES: Final = {INVOKE_AGENT: "agent.run", CHAT: "gen_ai.chat", EXECUTE_TOOL: "tool.execute"}
CLASSIC_TOOL_NAME: Final = "tool.name"
CLASSIC_TOOL_SUCCESS: Final = "tool.result.success"
CLASSIC_TOOL_MILLISECONDS: Final = "duration_ms"

# --- attributes ---
AGENT_NAME: Final = "gen_ai.agent.name"
AGENT_ID: Final = "gen_ai.agent.id"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
ERROR_TYPE: Final = "error.type"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OPERATION: Final = "gen_ai.operation.name"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
OUTPUT_TYPE: Final = "gen_ai.output.type"
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_STOP: Final = "gen_ai.request.stop_sequences"
REQUEST_STREAM: Final = "gen_ai.request.stream"
REQUEST_TEMPERATURE: Final = "gen_ai.request.temperature"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
RESPONSE_MODEL: Final = "gen_ai.response.model"
TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
SYSTEM_INSTRUCTIONS: Final = "gen_ai.system_instructions"
TOKEN_TYPE: Final = "gen_ai.token.type"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_DEFINITIONS: Final = "gen_ai.tool.definitions"
TOOL_DESCRIPTION: Final = "gen_ai.tool.description"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_RESULT: Final = "gen_ai.tool.call.result"
TOOL_TYPE: Final = "gen_ai.tool.type"
USAGE_INPUT: Final = "gen_ai.usage.input_tokens"
USAGE_OUTPUT: Final = "gen_ai.usage.output_tokens"
USAGE_CACHE_READ: Final = "gen_ai.usage.cache_read.input_tokens"
USAGE_CACHE_WRITE: Final = "gen_ai.usage.cache_creation.input_tokens"
USAGE_REASONING: Final = "gen_ai.usage.reasoning.output_tokens"
MCP_METHOD: Final = "mcp.method.name"

# --- names that the conventions lack ---
RUN_ID: Final = "mainspring.run.id"
RUN_STATUS: Final = "mainspring.run.status"
TURNS: Final = "mainspring.run.turns"
TURN: Final = "mainspring.turn"
COST: Final = "mainspring.usage.cost"  # US dollars; omitted if a price is unknown
RETRIES: Final = "mainspring.retries"
PURPOSE: Final = "mainspring.purpose"
TOOL_SUCCESS: Final = "mainspring.tool.success"
TOOL_SECONDS: Final = "mainspring.tool.duration"
MCP_SERVER: Final = "mainspring.mcp.server"
MCP_OUTCOME: Final = "mainspring.mcp.outcome"
MCP_TOOLS: Final = "mainspring.mcp.tools"
MCP_BOOTSTRAP: Final = "mainspring.mcp.bootstrap.duration"

# --- events ---
DETAILS_EVENT: Final = "gen_ai.client.inference.operation.details"
EXCEPTION_EVENT: Final = "gen_ai.client.operation.exception"
RETRY_EVENT: Final = "mainspring.retry"
SIDE_CALL_EVENT: Final = "mainspring.side_call"
COMPACTED_EVENT: Final = "mainspring.context.compacted"

# --- metrics: name, unit, description ---
TOKEN_USAGE: Final = ("gen_ai.client.token.usage", "{token}", "Number of input and output tokens used.")
DURATION: Final = ("gen_ai.client.operation.duration", "s", "GenAI operation duration.")
FIRST_CHUNK: Final = ("gen_ai.client.operation.time_to_first_chunk", "s", "Time until the first piece of a response.")
PER_CHUNK: Final = ("gen_ai.client.operation.time_per_output_chunk", "s", "Time between two pieces of a response.")
MCP_DURATION: Final = ("mcp.client.operation.duration", "s", "Time until an MCP server has responded.")
TOOL_DURATION: Final = ("mainspring.tool.duration", "s", "Duration of a tool.")
COST_TOTAL: Final = ("mainspring.usage.cost", "{USD}", "Cost of model calls, if prices are known.")

TOKEN_BUCKETS: Final = tuple(float(4**n) for n in range(14))
SECONDS_BUCKETS: Final = tuple(0.01 * 2**n for n in range(14))
CHUNK_BUCKETS: Final = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)

PROVIDER_NAMES: Final = {
    "anthropic": "anthropic",
    "azure": "azure.ai.openai",
    "foundry": "azure.ai.inference",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}
"""Our provider names that differ in the conventions; other names are the same there, or not defined."""

STOP_REASONS: Final = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool_call"}
"""Our stop reasons in the terms of the conventions; ``error`` and ``aborted`` are the same there."""
