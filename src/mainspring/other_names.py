"""Names of other agent libraries, each with the name here, for the text of errors. Loaded only when a name is unknown."""

from __future__ import annotations

OPTION_ADVICE: dict[str, dict[str, str]] = {
    "Agent": {
        "result_type": "Use output_type=...",
        "instructions": "Use system=..., a text or a function of the context.",
        "system_prompt": "Use system=..., a text or a function of the context.",
        "prompt": "Use system=..., a text or a function of the context.",
        "model_settings": "Use behavior=RunOptions(temperature=..., ...).",
        "retries": "Use behavior=RunOptions(max_output_retries=..., retry=RetryConfig(...)).",
        "toolsets": "Use tools=..., a list of tools or a Toolset.",
        "history": "Use messages=..., or agent.conversation(history=...).",
        "message_history": "Use messages=..., or agent.conversation(history=...).",
        "input_guardrails": 'Use a handler of the hook "input": hooks={"input": check}.',
        "output_guardrails": "Use a validator: @agent.output_validator.",
        "callback_handler": "Use callbacks=AgentCallbacks(...), or agent.subscribe(listener).",
        "instrument": "Use plugs=[Tracing(Telemetry())], of mainspring.telemetry.",
        "session_manager": "Use session=...",
        "checkpointer": "Use session=...",
        "handoff_description": "Use handoffs=[Handoff(agent, description)] of the agent that hands off.",
    },
    "a run": {
        "usage_limits": "Use behavior=RunOptions(max_turns=..., max_total_tokens=..., max_cost=...).",
        "model_settings": "Use behavior=RunOptions(temperature=..., ...).",
        "context": "Use deps=...",
        "result_type": "It is an option of the agent: Agent(..., output_type=...).",
        "instructions": "Use system=...",
        "toolsets": "Use tools=...",
        "run_config": "Use behavior=RunOptions(...).",
    },
    "@tool": {
        "retries": "Raise ToolError in the function: the model reads the text and calls again.",
        "timeout": "Use `async with asyncio.timeout(...)` in the function.",
        "name_override": "Use name=...",
        "description_override": "Use description=...",
        "needs_approval": "Use requires_approval=...",
        "strict": "Leave it out: arguments are always validated.",
        "strict_mode": "Leave it out: arguments are always validated.",
        "failure_error_function": "Raise ToolError in the function: the model reads the text.",
        "is_enabled": "Use the plugin ToolFilter of mainspring.policies.",
        "prepare": "Use the plugin ToolFilter of mainspring.policies.",
        "sequential": "Use concurrency_safe=False.",
    },
}
"""Advice for the options of other libraries, by the function that takes the options."""

RUN_OPTION_NAMES = {
    "max_steps": "max_turns",
    "max_iterations": "max_turns",
    "max_loops": "max_turns",
    "request_limit": "max_turns",
    "recursion_limit": "max_turns",
    "total_tokens_limit": "max_total_tokens",
    "max_tokens": "max_output_tokens",
    "reasoning_effort": "thinking",
    "stop_sequences": "stop",
}
"""The run options for names of other libraries."""

ATTRIBUTE_ADVICE: dict[str, dict[str, str]] = {
    "Agent": {
        "tool": "Use Agent(tools=[function]); the parameter `ctx: ToolContext` has the dependencies.",
        "tool_plain": "Use Agent(tools=[function]).",
        "system_prompt": "Use Agent(system=function); the function gets a RunContext.",
        "instructions": "Use Agent(system=function); the function gets a RunContext.",
        "run_stream": "Use `async with agent.stream(prompt) as run`.",
        "run_stream_events": "Use `async with agent.stream(prompt) as run`.",
        "run_streamed": "Use `async with agent.stream(prompt) as run`.",
        "stream_async": "Use `async with agent.stream(prompt) as run`.",
        "astream": "Use `async with agent.stream(prompt) as run`.",
        "iter": "Use `async with agent.stream(prompt) as run`.",
        "invoke": "Use agent.run_sync(prompt).",
        "ainvoke": "Use `await agent.run(prompt)`.",
        "invoke_async": "Use `await agent.run(prompt)`.",
        "override": "Pass the model to a run: agent.run(..., model=ScriptedModel(...)).",
        "result_validator": "Use @agent.output_validator.",
        "clone": "Use agent.conversation(), or create another Agent.",
    },
    "RunResult": {
        "data": "Use result.output.",
        "final_output": "Use result.output.",
        "structured_output": "Use result.output.",
        "final_output_as": "Use result.output_as(kind).",
        "all_messages": "Use agent.messages.",
        "all_messages_json": "Use encode_messages(agent.messages).",
        "new_messages": "Use result.messages.",
        "new_messages_json": "Use encode_messages(result.messages).",
        "to_input_list": "Use agent.messages.",
        "last_agent": "Use result.agent, the name of the agent.",
        "new_items": "Use result.messages.",
        "metrics": "Use result.stats.",
    },
}
"""Advice for attributes of other libraries, by class."""

EXPORT_ADVICE = {
    "ModelRetry": "Use ToolError.",
    "UsageLimits": "Use RunOptions(max_turns=..., max_total_tokens=..., max_cost=...).",
    "ModelSettings": "Use RunOptions.",
    "RunConfig": "Use RunOptions.",
    "Runner": "Use agent.run(prompt), agent.run_sync(prompt), or agent.stream(prompt).",
    "function_tool": "Use tool.",
    "handoff": "Use Handoff, or Agent(handoffs=[agent]).",
    "RunContextWrapper": "Use ToolContext in tools, and RunContext elsewhere.",
    "TestModel": "Use ScriptedModel of mainspring.testing.",
    "FunctionModel": "Use ScriptedModel(function) of mainspring.testing.",
    "InputGuardrail": 'Use a handler of the hook "input".',
    "input_guardrail": 'Use a handler of the hook "input".',
    "OutputGuardrail": "Use @agent.output_validator.",
    "output_guardrail": "Use @agent.output_validator.",
    "SQLiteSession": "Use Session.",
    "FileSessionManager": "Use Session.",
    "AgentHooks": "Use Agent(hooks={...}), or AgentCallbacks.",
    "RunHooks": "Use Agent(hooks={...}), or AgentCallbacks.",
    "HookProvider": "Use Plugin.",
    "MCPServerStdio": "Use McpServerConfig(command=..., args=[...]) in Agent(mcp_servers=[...]).",
    "MCPServerStreamableHttp": 'Use McpServerConfig(transport="http", url=...) in Agent(mcp_servers=[...]).',
    "MCPServerStreamableHTTP": 'Use McpServerConfig(transport="http", url=...) in Agent(mcp_servers=[...]).',
    "MCPClient": "Use connect_mcp, or Agent(mcp_servers=[...]).",
    "BinaryContent": "Use ImageBlock.",
    "ImageUrl": "Use ImageBlock, with the data of the image in base64.",
    "FunctionToolset": "Use Toolset.",
    "DeferredToolRequests": "Use agent.pending, and agent.answer({call_id: Approve()}).",
    "DeferredToolResults": "Use agent.answer({call_id: Approve()}).",
    "ToolApproved": "Use Approve.",
    "ToolDenied": "Use Deny.",
    "AgentRunResult": "Use RunResult.",
    "StateGraph": "Write the steps in Python; see docs/composition.md.",
    "Graph": "Write the steps in Python; see docs/composition.md.",
}
"""Advice for exports of other libraries."""


def find_option_advice(owner: str, name: str) -> str:
    """Return the advice for an unknown option of a function; empty if no other library has it."""
    return OPTION_ADVICE.get(owner, {}).get(name, "")


def find_run_option_name(name: str) -> str:
    """Return the run option for a name of another library; any other name unchanged."""
    return RUN_OPTION_NAMES.get(name, name)


def find_attribute_advice(kind: str, name: str) -> str:
    """Return the advice for an unknown attribute of a class; empty if no other library has it."""
    return ATTRIBUTE_ADVICE[kind].get(name, "")


def find_export_advice(name: str) -> str:
    """Return the advice for an unknown export; empty if no other library has it."""
    return EXPORT_ADVICE.get(name, "")
