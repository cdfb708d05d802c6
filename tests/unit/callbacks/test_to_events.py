"""Restoring events from callbacks."""

from typing import Any

import pytest

from mainspring.agent.agent import Agent
from mainspring.callbacks import callbacks_to_events
from mainspring.env import MemoryEnv
from mainspring.errors import AgentAbortedError, AgentProviderError, NetworkError
from mainspring.events import AgentEnd, MessageUpdate, TextDelta, ToolExecutionEnd, UsageUpdate
from mainspring.messages import Usage
from mainspring.run_options import RunOptions
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import tool


@tool
async def look(key: str) -> str:
    """Look something up."""
    if key == "bad":
        raise ValueError("no bad")
    return f"value of {key}"


async def run_and_collect(*script: Any, **options: Any) -> tuple[list[Any], list[Any]]:
    """Return the events of a run as published, and as restored from callbacks."""
    restored: list[Any] = []
    published: list[Any] = []
    one = Agent(
        ScriptedModel(*script),
        execution=MemoryEnv({}),
        tools=[look],
        callbacks=callbacks_to_events(restored.append),
        **options,
    )
    one.subscribe(lambda event: published.append(event.event if isinstance(event, MessageUpdate) else event))
    await one.run("what is a?", raise_errors=False)
    return published, restored


def event_types(events: list[Any]) -> list[str]:
    """Return the event types, without those that callbacks cannot report: partial tool calls and empty text."""
    return [e.type for e in events if not e.type.startswith("toolcall_")]


@pytest.mark.covers("HOK-43")
async def test_events_are_restored_from_callbacks() -> None:
    published, restored = await run_and_collect(
        Reply("let me see", calls=[ScriptedCall("look", {"key": "a"})], usage=Usage(output_tokens=3), chunk_count=3),
        [ScriptedCall("look", {"key": "bad"}), ScriptedCall("look", {"key": "b"})],
        Reply("it is a", chunk_count=2),
    )
    assert event_types(restored) == event_types(published)
    assert [e.text for e in restored if isinstance(e, TextDelta)] == [
        e.text for e in published if isinstance(e, TextDelta)
    ]
    assert [(e.call.name, e.result.text, e.result.is_error) for e in restored if isinstance(e, ToolExecutionEnd)] == [
        (e.call.name, e.result.text, e.result.is_error) for e in published if isinstance(e, ToolExecutionEnd)
    ]
    restored_end: Any = restored[-1]
    published_end: Any = published[-1]
    assert type(restored_end) is type(published_end) is AgentEnd
    assert [m.text for m in restored_end.messages] == [m.text for m in published_end.messages]
    assert (restored_end.status, restored_end.error) == ("completed", None)
    assert restored_end.messages[1].usage == Usage(output_tokens=3)
    assert [(e.turn, e.usage.total_tokens, e.total.total_tokens) for e in restored if isinstance(e, UsageUpdate)] == [
        (e.turn, e.usage.total_tokens, e.total.total_tokens) for e in published if isinstance(e, UsageUpdate)
    ]


@pytest.mark.covers("HOK-43")
async def test_failure_is_restored_from_callbacks() -> None:
    published, restored = await run_and_collect(
        Reply("half", error=NetworkError("cut"), truncate_after=1), behavior=RunOptions(retry=None)
    )
    assert isinstance(restored[-1].exception, AgentProviderError | NetworkError)
    assert [e.type for e in restored][-2:] == ["error", "agent_end"]
    assert (restored[-1].status, published[-1].status) == ("error", "error")
    assert restored[-2].message.text == "half"


def test_abort_is_restored_with_its_own_status() -> None:
    from mainspring.callbacks import ErrorReport
    from mainspring.events import SpanContext

    restored: list[Any] = []
    converter = callbacks_to_events(restored.append)
    span = SpanContext("a" * 32, "b" * 16)
    assert converter.on_agent_start
    assert converter.on_error
    assert converter.on_agent_end
    converter.on_agent_start(span, "")
    converter.on_error(span, ErrorReport.from_exception(AgentAbortedError("stop")))
    converter.on_agent_end(span, "")
    assert (restored[-1].status, restored[-1].run_id) == ("aborted", "a" * 32)
    assert converter.on_permission_request is None
