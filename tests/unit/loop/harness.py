"""Shared parts of the loop tests: a scripted model, short ways to write replies, and a check of calls and results."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterable
from typing import Any

from mainspring.env import MemoryEnv
from mainspring.events import StreamEvent
from mainspring.loop import CoreAgent, LoopConfig, LoopOptions
from mainspring.messages import AgentMessage, Message, StopReason, ToolUseBlock, Usage
from mainspring.models import ModelInfo, ModelRequest, ModelResponse
from mainspring.models.message_builder import MessageBuilder
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel

_ids = itertools.count()


class Hang(Reply, frozen=True):
    """A reply that sets ``started`` after ``after`` deltas and then hangs."""

    after: int = 1
    started: asyncio.Event | None = None


class Script:
    """A scripted model that stores the original ``requests`` and whose replies may hang."""

    def __init__(self, *answers: Any) -> None:
        self.answers = answers
        self.requests: list[ModelRequest] = []
        self.info = ModelInfo("scripted-1", "scripted")
        self.provider, self.model = "scripted", "scripted-1"
        self._model = ScriptedModel(*[a for a in answers if not isinstance(a, list)])

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        answer = self.answers[len(self.requests)] if len(self.requests) < len(self.answers) else None
        self.requests.append(request)
        deltas = 0
        async for event in _as_is(answer) if isinstance(answer, list) else self._model.stream(request):
            yield event
            deltas += event.type.endswith("_delta")
            if isinstance(answer, Hang) and deltas >= answer.after:
                if answer.started:
                    answer.started.set()
                await asyncio.Event().wait()

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return await self._model.complete(request)

    async def aclose(self) -> None:
        await self._model.aclose()


async def _as_is(blocks: list[ToolUseBlock]) -> AsyncIterator[StreamEvent]:
    """Stream a reply of calls with invalid IDs that no real provider creates."""
    draft = MessageBuilder("scripted", "scripted-1")
    yield draft.start()
    for block in blocks:
        index = draft.open_call(block.id, block.name).index
        yield draft.close_call(index, input=block.input)
    yield draft.done("tool_use")


def tokens_of(count: int) -> Usage | None:
    return Usage(output_tokens=count) if count else None


def text_reply(
    text: str,
    *,
    thinking: str = "",
    tokens: int = 0,
    size: int = 0,
    hang_after: int = 0,
    started: asyncio.Event | None = None,
) -> Reply:
    """Return a text reply in pieces of ``size`` characters, or one that hangs."""
    pieces = max(1, len(text) // size) if size else 1
    if hang_after:
        return Hang(text, chunk_count=len(text), after=hang_after, started=started)
    return Reply(text, thinking=thinking, usage=tokens_of(tokens), chunk_count=pieces)


def tool_call_reply(name: str, /, *, tokens: int = 0, stop: StopReason | None = None, **arguments: Any) -> Reply:
    """Return a reply with one tool call."""
    return Reply(calls=(ScriptedCall(name, arguments, f"call{next(_ids)}"),), usage=tokens_of(tokens), stop_reason=stop)


def tool_calls_reply(*answers: Reply | ToolUseBlock) -> Any:
    """Combine the calls of several replies into one; blocks are used unchanged, with their IDs."""
    if all(isinstance(a, ToolUseBlock) for a in answers):
        return list(answers)
    return Reply(calls=tuple([a.calls[0] for a in answers if isinstance(a, Reply)]))


def truncated_reply(text: str, after: Reply) -> Reply:
    """Return a reply that breaks off in the middle of the call ``after``."""
    return Reply(text, calls=after.calls, usage=after.usage, truncate_after=2)


def fail(error: Exception) -> Exception:
    """Return an error for a request that fails."""
    return error


def make_config(
    model: Script, *, behavior: LoopOptions | None = None, vision: bool = True, **fields: Any
) -> LoopConfig:
    """Return a configuration for a scripted model."""
    settled = behavior or LoopOptions()
    if not vision:
        model.info = ModelInfo("scripted-1", "scripted", vision=False)
    return LoopConfig(model=model, env=MemoryEnv({}), behavior=settled, **fields)


def make_agent(model: Script, **options: Any) -> CoreAgent:
    """Return an agent with a scripted model."""
    return CoreAgent(model, env=MemoryEnv({}), **options)


def block_types(messages: Iterable[AgentMessage]) -> list[str]:
    """Return the role or custom type of each message."""
    return [m.role if isinstance(m, Message) else f"custom:{m.custom_type}" for m in messages]


def assert_results_follow_calls(messages: Iterable[AgentMessage]) -> None:
    """Assert that every call has exactly one result, in the next message and in the order of the calls."""
    history = list(messages)
    for i, message in enumerate(history):
        if not isinstance(message, Message):
            continue
        if message.tool_uses:
            following = history[i + 1]
            assert isinstance(following, Message)
            assert [r.tool_use_id for r in following.tool_results] == [c.id for c in message.tool_uses]
            assert [r.name for r in following.tool_results] == [c.name for c in message.tool_uses]
        elif message.tool_results:
            before = history[i - 1]
            assert isinstance(before, Message)
            assert before.tool_uses


def as_message(message: AgentMessage) -> Message:
    """Assert that the message belongs to the model conversation and return it."""
    assert isinstance(message, Message)
    return message
