"""From callbacks back to events."""

from typing import Any

import pytest

from mainspring.agent.agent import Agent
from mainspring.callbacks import callbacks_to_events
from mainspring.env import MemoryEnv
from mainspring.errors import AgentAbortedError, AgentProviderError, NetworkError
from mainspring.events import AgentEnd, MessageUpdate, TextDelta, ToolExecutionEnd
from mainspring.loop import RunOptions
from mainspring.messages import Usage
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import tool


@tool
async def look(key: str) -> str:
    """Look something up."""
    if key == "bad":
        raise ValueError("no bad")
    return f"value of {key}"


async def both(*script: Any, **options: Any) -> tuple[list[Any], list[Any]]:
    """The events of a run as they are, and as they come back from callbacks."""
    back: list[Any] = []
    own: list[Any] = []
    one = Agent(
        ScriptedModel(*script),
        execution=MemoryEnv({}),
        tools=[look],
        callbacks=callbacks_to_events(back.append),
        **options,
    )
    one.subscribe(lambda event: own.append(event.event if isinstance(event, MessageUpdate) else event))
    await one.run("what is a?", raise_errors=False)
    return own, back


def shape(events: list[Any]) -> list[str]:
    """Types of events, but for those that callbacks cannot tell: of calls while they are written, and of empty text."""
    return [e.type for e in events if not e.type.startswith("toolcall_")]


@pytest.mark.covers("HOK-43")
async def test_events_come_back_as_they_were() -> None:
    own, back = await both(
        Reply("let me see", calls=[ScriptedCall("look", {"key": "a"})], usage=Usage(output_tokens=3), chunk_count=3),
        [ScriptedCall("look", {"key": "bad"}), ScriptedCall("look", {"key": "b"})],
        Reply("it is a", chunk_count=2),
    )
    assert shape(back) == shape(own)
    assert [e.text for e in back if isinstance(e, TextDelta)] == [e.text for e in own if isinstance(e, TextDelta)]
    assert [(e.call.name, e.result.text, e.result.is_error) for e in back if isinstance(e, ToolExecutionEnd)] == [
        (e.call.name, e.result.text, e.result.is_error) for e in own if isinstance(e, ToolExecutionEnd)
    ]
    mine: Any = back[-1]
    theirs: Any = own[-1]
    assert type(mine) is type(theirs) is AgentEnd
    assert [m.text for m in mine.messages] == [m.text for m in theirs.messages]
    assert (mine.status, mine.error) == ("completed", None)
    assert mine.messages[1].usage == Usage(output_tokens=3)


@pytest.mark.covers("HOK-43")
async def test_a_failure_comes_back_too() -> None:
    own, back = await both(Reply("half", error=NetworkError("cut"), truncate_after=1), behavior=RunOptions(retry=None))
    assert isinstance(back[-1].error, AgentProviderError | NetworkError)
    assert [e.type for e in back][-2:] == ["error", "agent_end"]
    assert (back[-1].status, own[-1].status) == ("error", "error")
    assert back[-2].message.text == "half"


def test_an_abort_has_its_own_status() -> None:
    from mainspring.callbacks import ErrorReport
    from mainspring.events import SpanContext

    back: list[Any] = []
    told = callbacks_to_events(back.append)
    span = SpanContext("a" * 32, "b" * 16)
    assert told.on_agent_start
    assert told.on_error
    assert told.on_agent_end
    told.on_agent_start(span, "")
    told.on_error(span, ErrorReport.from_exception(AgentAbortedError("stop")))
    told.on_agent_end(span, "")
    assert (back[-1].status, back[-1].run_id) == ("aborted", "a" * 32)
    assert told.on_permission_request is None
