"""How messages join the history: under an id, in one place, heard by stores before anything else happens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from mainspring.events import MessageEnd, MessageStart, TurnEnd
from mainspring.loop.hooks import SessionTurns, SteerInject, ToolResultsAfter, TurnSource
from mainspring.loop.state import Run
from mainspring.loop.tool_calls import Answers
from mainspring.messages import AgentMessage, Message, as_messages


async def join(run: Run, messages: str | Sequence[AgentMessage], source: TurnSource) -> None:
    """Let messages join, of any kind but calls and their results."""
    if not messages:
        return
    stamped = tuple([m if m.id else replace(m, id=run.config.steps.new_id()) for m in as_messages(messages)])
    run.append(stamped)
    if source != "assistant":  # an answer was announced while it was received
        for message in stamped:
            run.bus.publish(MessageStart(message))
            run.bus.publish(MessageEnd(message))
    if run.bus.has(SessionTurns):
        await run.emit(SessionTurns(run.id, stamped, source))


async def pair(run: Run, message: Message, answers: Answers) -> Sequence[AgentMessage]:
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


async def inject(run: Run, messages: Sequence[AgentMessage], kind: Literal["steer", "follow_up"]) -> bool:
    """Let what was waiting join; says whether there was any. What was taken is not lost where the run is stopped now."""
    try:
        if messages and run.bus.has(SteerInject):
            messages = (await run.emit(SteerInject(kind, list(messages)))).messages
    finally:
        await join(run, messages, kind)
    return bool(messages)
