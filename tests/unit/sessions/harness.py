"""Helpers for session tests: agents with a session, and views of stored lines."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from mainspring.env.memory import MemoryEnv
from mainspring.loop import CoreAgent
from mainspring.messages import AgentMessage, Message, encode_message
from mainspring.sessions import Session, SessionOptions, SessionPlug
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import Tool, tool

QUICK = SessionOptions(fsync="never", retry_after=0.0)


@tool
async def look(key: str = "") -> str:
    """Look something up."""
    return f"value of {key}"


def make_agent(session: Session, *script: Any, tools: Sequence[Tool] = (look,), **options: Any) -> CoreAgent:
    """Create an agent with a scripted model that stores its conversation in a session."""
    return CoreAgent(ScriptedModel(*script), env=MemoryEnv(), tools=tools, plugs=[SessionPlug(session)], **options)


def make_calls(*ids: str, tool: str = "look", text: str = "") -> Reply:
    """Return a response with one call per ID."""
    return Reply(text, calls=[ScriptedCall(tool, {"key": i}, id=i) for i in ids])


def read_lines(session: Session) -> list[dict[str, Any]]:
    """Return the decoded lines of a session file."""
    return [json.loads(line) for line in read_text(session).splitlines()]


def read_text(session: Session) -> str:
    """Return the text of a session file."""
    return Path(session.location).read_text("utf-8")


def line_types(session: Session) -> list[str]:
    """Return the types of the lines of a session file."""
    return [line["type"] for line in read_lines(session)]


def encode_all(messages: Iterable[AgentMessage]) -> list[bytes]:
    """Encode messages for comparison."""
    return [encode_message(m) for m in messages]


def describe(messages: Iterable[AgentMessage]) -> list[str]:
    """Describe each message by role, text, calls, and results."""
    out: list[str] = []
    for m in messages:
        assert isinstance(m, Message)
        parts = [m.text, *[f"{c.id}?" for c in m.tool_uses], *[f"{r.tool_use_id}={r.text}" for r in m.tool_results]]
        out.append(f"{m.role}: {' '.join(p for p in parts if p)}")
    return out


def check_paired(messages: Sequence[AgentMessage]) -> None:
    """Assert that every call has exactly one result in the next message, and every result a call."""
    seen = [m for m in messages if isinstance(m, Message)]
    for i, message in enumerate(seen):
        calls = [c.id for c in message.tool_uses] if message.role == "assistant" else []
        after = [r.tool_use_id for r in seen[i + 1].tool_results] if i + 1 < len(seen) else []
        assert after == calls, f"message {i}: calls {calls}, results {after}"
    assert not (seen and seen[0].tool_results)
