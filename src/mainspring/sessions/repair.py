"""Every call has exactly one result right behind it, whatever became of the program that made it.

What is put in says what really happened, as far as that is known, and that it is an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from mainspring.messages import AgentMessage, Message, ToolResultBlock, ToolUseBlock
from mainspring.sessions.history import OpenCalls

INTERRUPTED = (
    "Interrupted, outcome unknown: the program was stopped while this call was running. It may have taken effect in full, in "
    "part or not at all; look before you make it again."
)
NOT_STARTED = "Not started: the program was stopped before this call ran."
RECORD_LOST = "Outcome unknown: the record of this call is damaged. Look before you make it again."


def missing_results(calls: OpenCalls) -> list[ToolResultBlock]:
    """For each call without a result one that says why, in the order of the calls."""
    return [_missing(calls, call) for call in calls.message.tool_uses if call.id not in calls.results]


def _missing(calls: OpenCalls, call: ToolUseBlock) -> ToolResultBlock:
    if calls.doubtful:
        text = RECORD_LOST
    else:
        text = INTERRUPTED if call.id in calls.started else NOT_STARTED
    return ToolResultBlock(call.id, call.name, text, True)


def well_paired(
    messages: Sequence[AgentMessage], refs: Sequence[str]
) -> tuple[list[AgentMessage], list[str], int] | None:
    """The history with each call answered once, right behind it, and no result without its call.

    Returns:
        The messages, the entries that hold them, and how many places were mended; ``None`` if there was nothing to do.
    """
    out: list[AgentMessage] = []
    held: list[str] = []
    mended = 0
    waiting: Sequence[ToolUseBlock] = ()
    for message, ref in zip(messages, refs, strict=True):
        if not isinstance(message, Message):  # a model does not see it, so it may stand anywhere
            out.append(message)
            held.append(ref)
            continue
        results = message.tool_results
        answering = bool(results) and message.role == "user"
        if waiting and not answering:
            out.append(_lost(waiting, message))
            held.append("")
            mended += 1
        fixed = _answers(message, waiting if answering else []) if results else message
        mended += fixed is not message
        waiting = fixed.tool_uses if fixed.role == "assistant" else ()
        if fixed.content or not results:
            out.append(fixed)
            held.append(ref if fixed is message else "")
    if waiting:
        out.append(_lost(waiting, out[-1]))
        held.append("")
        mended += 1
    return (out, held, mended) if mended else None


def _lost(calls: Sequence[ToolUseBlock], near: AgentMessage) -> Message:
    blocks = tuple([ToolResultBlock(c.id, c.name, RECORD_LOST, True) for c in calls])
    return Message("user", blocks, timestamp=near.timestamp)


def _answers(message: Message, calls: Sequence[ToolUseBlock]) -> Message:
    """The message with one result for each of ``calls``, in their order, before whatever else it holds."""
    given: dict[str, ToolResultBlock] = {}
    for block in message.tool_results:
        given.setdefault(block.tool_use_id, block)
    wanted = [given.get(c.id) or ToolResultBlock(c.id, c.name, RECORD_LOST, True) for c in calls]
    if len(message.tool_results) == len(wanted) and all(
        a is b for a, b in zip(message.tool_results, wanted, strict=True)
    ):
        return message
    rest = [b for b in message.content if not isinstance(b, ToolResultBlock)]
    return replace(message, content=(*wanted, *rest))
