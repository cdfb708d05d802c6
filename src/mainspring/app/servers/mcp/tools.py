"""What the server offers: two tools, as a client sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp import types

from mainspring.app.chat.events import RunFinished
from mainspring.redaction import redact

RUN_TOOL = "run"
SESSIONS_TOOL = "sessions"

TOOLS = [
    types.Tool(
        name=RUN_TOOL,
        title="Run a task",
        description=(
            "Give a task to a coding agent that reads, searches, edits and runs commands in its project folder, as far as it is "
            "allowed, and get its answer. It knows nothing of this conversation: say all that matters. With `session` it goes on "
            "where an earlier task ended."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "prompt": {"type": "string", "minLength": 1, "description": "The task. @path attaches a file."},
                "session": {"type": "string", "description": "Id of the session to go on with; a new one if left out."},
            },
            "required": ["prompt"],
            "additionalProperties": False,
        },
        output_schema={
            "type": "object",
            "properties": {
                "answer": {"type": "string"},
                "session": {"type": "string"},
                "status": {"type": "string"},
                "turns": {"type": "integer"},
                "tokens": {"type": "integer"},
                "denied": {"type": "integer"},
                "cost": {"type": ["number", "null"]},
            },
            "required": ["answer", "session", "status"],
        },
        annotations=types.ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True),
    ),
    types.Tool(
        name=SESSIONS_TOOL,
        title="List sessions",
        description="The sessions of the agent's project folder, last used first: what `run` can go on with.",
        input_schema={
            "type": "object",
            "properties": {"limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}},
            "additionalProperties": False,
        },
        annotations=types.ToolAnnotations(read_only_hint=True),
    ),
]


def run_result(finished: RunFinished, session: str) -> types.CallToolResult:
    """What a run gives."""
    answer = finished.text
    facts: dict[str, Any] = {
        "answer": answer,
        "session": session,
        "status": finished.status,
        "turns": finished.turns,
        "tokens": finished.tokens,
        "denied": finished.denied,
        "cost": finished.cost,
    }
    notes: list[str] = []
    if finished.status != "completed":
        why = f": {finished.error}" if finished.error else ""
        notes.append(f"The run did not complete ({finished.status}){why}. {finished.hint}".strip())
    if finished.denied:
        notes.append(
            f"{finished.denied} of its calls were not permitted; start the server with --allow RULE to permit them."
        )
    if session:
        notes.append(f"(session {session})")
    text = "\n\n".join([part for part in (answer, *notes) if part])
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)],
        structured_content=facts,
        is_error=finished.status == "error",
    )


def error_result(text: str) -> types.CallToolResult:
    """A call that could not be made."""
    return types.CallToolResult(content=[types.TextContent(type="text", text=redact(text))], is_error=True)


def sessions_result(sessions: Sequence[Any]) -> types.CallToolResult:
    """The sessions, a line each."""
    lines = [
        f"{info.id}  {info.updated:%Y-%m-%d %H:%M}  {' '.join((info.title or info.preview).split())[:100]}"
        if info.updated
        else f"{info.id}  {info.title or info.preview}"
        for info in sessions
    ]
    text = "\n".join(lines) or "There are no sessions yet."
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])
