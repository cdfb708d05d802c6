"""What the tests of sessions share: an agent with a session, and looks at what is stored."""

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


def agent(session: Session, *script: Any, tools: Sequence[Tool] = (look,), **options: Any) -> CoreAgent:
    """An agent whose model follows a script and whose conversation is in a session."""
    return CoreAgent(ScriptedModel(*script), env=MemoryEnv(), tools=tools, plugs=[SessionPlug(session)], **options)


def calling(*ids: str, tool: str = "look", text: str = "") -> Reply:
    """An answer with a call for each id."""
    return Reply(text, calls=[ScriptedCall(tool, {"key": i}, id=i) for i in ids])


def stored(session: Session) -> list[dict[str, Any]]:
    """The lines of a session's file."""
    return [json.loads(line) for line in text_of(session).splitlines()]


def text_of(session: Session) -> str:
    """A session's file."""
    return Path(session.location).read_text("utf-8")


def types(session: Session) -> list[str]:
    """The types of a session's lines."""
    return [line["type"] for line in stored(session)]


def encoded(messages: Iterable[AgentMessage]) -> list[bytes]:
    """Messages in a form that can be compared."""
    return [encode_message(m) for m in messages]


def texts(messages: Iterable[AgentMessage]) -> list[str]:
    """Who says what, calls and results included."""
    out: list[str] = []
    for m in messages:
        assert isinstance(m, Message)
        parts = [m.text, *[f"{c.id}?" for c in m.tool_uses], *[f"{r.tool_use_id}={r.text}" for r in m.tool_results]]
        out.append(f"{m.role}: {' '.join(p for p in parts if p)}")
    return out


def check_paired(messages: Sequence[AgentMessage]) -> None:
    """Every call has exactly one result, right behind it, and no result is without its call."""
    seen = [m for m in messages if isinstance(m, Message)]
    for i, message in enumerate(seen):
        calls = [c.id for c in message.tool_uses] if message.role == "assistant" else []
        after = [r.tool_use_id for r in seen[i + 1].tool_results] if i + 1 < len(seen) else []
        assert after == calls, f"message {i}: calls {calls}, results {after}"
    assert not (seen and seen[0].tool_results)
