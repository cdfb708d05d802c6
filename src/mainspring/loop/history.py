"""How messages join the history: under an id, in one place, heard by stores before anything else happens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from mainspring.events import MessageEnd, MessageStart, TurnEnd
from mainspring.loop.hooks import BeforeInject, MessagesAdded, MessageSource, ToolResultsAfter
from mainspring.loop.state import RunState
from mainspring.loop.tool_calls import ToolCallBatch
from mainspring.messages import AgentMessage, Message, to_messages


async def append_messages(run: RunState, messages: str | Sequence[AgentMessage], source: MessageSource) -> None:
    """Let messages join, of any kind but calls and their results."""
    if not messages:
        return
    stamped = tuple([m if m.id else replace(m, id=run.config.steps.new_id()) for m in to_messages(messages)])
    run.append(stamped)
    if source != "assistant":  # an answer was announced while it was received
        for message in stamped:
            run.bus.publish(MessageStart(message))
            run.bus.publish(MessageEnd(message))
    if run.bus.has(MessagesAdded):
        await run.emit(MessagesAdded(run.id, stamped, source))


async def append_tool_results(run: RunState, message: Message, answers: ToolCallBatch) -> Sequence[AgentMessage]:
    """Let calls and results join together, so that the history never holds one without the other.

    Returns:
        What handlers want to have said right behind them.
    """
    steps, bus = run.config.steps, run.bus
    ordered = tuple([answers.results[c.id] for c in message.tool_uses])
    results = Message("user", ordered, timestamp=steps.now(), id=steps.new_id())
    run.append((message, results))
    follow: Sequence[AgentMessage] = ()
    if bus.has(ToolResultsAfter):
        follow = (await run.emit(ToolResultsAfter(run.id, message, results))).follow
    bus.publish(MessageStart(results))
    bus.publish(MessageEnd(results))
    bus.publish(TurnEnd(run.turn, message, ordered))
    return follow


async def inject_messages(run: RunState, messages: Sequence[AgentMessage], kind: Literal["steer", "follow_up"]) -> bool:
    """Let what was waiting join; says whether there was any. What was taken is not lost where the run is stopped now."""
    try:
        if messages and run.bus.has(BeforeInject):
            messages = (await run.emit(BeforeInject(kind, list(messages)))).messages
    finally:
        await append_messages(run, messages, kind)
    return bool(messages)
