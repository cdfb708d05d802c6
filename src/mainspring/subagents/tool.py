"""The tool ``spawn``: what a model sees of sub-agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mainspring.text import pluralize
from mainspring.tools import Tool, ToolContext, ToolErrorCode, ToolResult

if TYPE_CHECKING:
    from mainspring.subagents.plug import Subagents
    from mainspring.subagents.run import SubagentResult

SPAWN_TOOL = "spawn"

_DESCRIPTION = (
    "Start a sub-agent: an agent of its own that works on one task and returns its final answer. It begins with an empty "
    "conversation and sees nothing of this one, so the task must say everything it needs to know, and what to answer with. Use it "
    "for work whose steps need not be seen here. Several calls in one reply run side by side."
)
_MAX_DESCRIPTION_CHARS = 400  # of a kind of sub-agent; all of them stand in every request
_STATUS_NOTES = {
    "max_turns": "it reached its limit of turns",
    "max_tokens": "it reached its limit of tokens",
    "max_cost": "it reached its limit of cost",
    "max_seconds": "it reached its limit of time",
    "denied": "it was refused something",
    "paused": "it stopped at a call that a person must answer",
    "aborted": "it was stopped",
    "error": "it failed",
}


def create_spawn_tool(subagents: Subagents) -> Tool:
    """The tool, for one agent. Its text depends on nothing but the definitions, so requests stay the same byte for byte."""

    async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        ctx.metadata(title=_title(arguments))
        result = await subagents.spawn(
            arguments["task"], arguments.get("agent", ""), tools=arguments.get("tools"), signal=ctx.signal
        )
        return to_tool_result(result, _title(arguments), subagents.max_characters)

    return Tool(
        name=SPAWN_TOOL,
        description=_description(subagents),
        input_schema=_schema(subagents),
        execute=execute,
        label="Sub-agent",
        source="builtin",
        access=lambda arguments: (),  # itself it touches nothing; each call of the child is judged as it comes
    )


def to_tool_result(result: SubagentResult, title: str, max_characters: int) -> ToolResult:
    """What the parent's model is told, and figures for applications."""
    stats = result.stats
    text = _truncate_middle(result.text, max_characters)
    done = result.status == "completed"
    if not done:
        why = _STATUS_NOTES.get(result.status, result.status) + (
            f" ({result.error})" if result.error is not None else ""
        )
        text = (
            f"[The sub-agent did not finish: {why}.{' What it had so far:' if text.strip() else ''}]\n{text}".rstrip()
        )
    elif not text.strip():
        calls = sum(stats.tool_counts.values())
        text = f"[The sub-agent ended without an answer, after {pluralize(stats.turns, 'turn')} and {pluralize(calls, 'tool call')}.]"
    failed = result.error is not None or not result.text.strip()
    return ToolResult(
        output=text,
        title=title,
        metadata={
            "child_id": stats.child_id,
            "agent": stats.child,
            "depth": stats.depth,
            "status": result.status,
            "turns": stats.turns,
            "tokens": stats.usage.total_tokens,
            "cost": stats.usage.cost.total if stats.usage.cost else None,
            "seconds": stats.seconds,
            "tool_counts": dict(stats.tool_counts),
        },
        is_error=failed,
        code=ToolErrorCode.UNKNOWN if failed else None,
    )


def _truncate_middle(text: str, most: int) -> str:
    """The text with its middle left out where it is too long: the end holds the conclusion."""
    if len(text) <= most:
        return text
    tail = most // 3
    return f"{text[: most - tail]}\n[… {len(text) - most} characters left out …]\n{text[-tail:] if tail else ''}"


def _title(arguments: dict[str, Any]) -> str:
    task = " ".join(str(arguments["task"]).split())
    name = arguments.get("agent")
    return f"{name}: {task[:80]}" if name else task[:80]


def _description(subagents: Subagents) -> str:
    if not subagents.definitions:
        return _DESCRIPTION
    lines = [_line(d.name, d.description) for d in subagents.definitions.values()]
    return f"{_DESCRIPTION}\n\nKinds, for `agent` (without it, one with the same tools as you):\n" + "\n".join(lines)


def _line(name: str, description: str) -> str:
    text = " ".join(description.split())
    if len(text) > _MAX_DESCRIPTION_CHARS:
        text = text[: _MAX_DESCRIPTION_CHARS - 1] + "…"
    return f"- {name}: {text}" if text else f"- {name}"


def _schema(subagents: Subagents) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "task": {"type": "string", "minLength": 1, "description": "What to do, with all that must be known for it."}
    }
    if subagents.definitions:
        kinds = list(subagents.definitions)
        properties["agent"] = {"type": "string", "enum": kinds, "description": "The kind of sub-agent."}
    properties["tools"] = {
        "type": "array",
        "items": {"type": "string"},
        "description": "The only tools it may use, by name. Default: all that its kind has.",
    }
    return {"type": "object", "properties": properties, "required": ["task"], "additionalProperties": False}
