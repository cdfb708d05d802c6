"""A model that follows a script."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from mainspring.errors import ModelError, ModelTimeoutError, NetworkError
from mainspring.events import StreamEvent
from mainspring.messages import Message, StopReason, Usage
from mainspring.models.message_builder import MessageBuilder
from mainspring.models.port import ModelBase, ModelInfo, ModelRequest
from mainspring.text import pluralize


class ScriptedCall(Struct, frozen=True):
    """A tool call to make. ``raw`` is argument text to send instead of ``input``, for tests of invalid JSON."""

    name: str
    input: Mapping[str, Any] = {}
    id: str = ""
    raw: str | None = None


Call = ScriptedCall
"""Short name of `ScriptedCall`."""


class Reply(Struct, frozen=True):
    """A scripted response.

    Attributes:
        text: The text.
        calls: The tool calls.
        thinking: Reasoning before the text.
        usage: Token counts to report.
        stop_reason: Stop reason; ``tool_use`` or ``end_turn`` by default.
        error: Raised instead of the end; with ``truncate_after`` in the middle.
        truncate_after: Number of deltas before the stream breaks (with a `NetworkError` if ``error`` is not set).
        delay: Seconds before the first event.
        delta_delay: Seconds before each delta.
        chunk_count: Number of deltas for text and arguments.
    """

    text: str = ""
    calls: Sequence[ScriptedCall] = ()
    thinking: str = ""
    usage: Usage | None = None
    stop_reason: StopReason | None = None
    error: Exception | None = None
    truncate_after: int | None = None
    delay: float = 0.0
    delta_delay: float = 0.0
    chunk_count: int = 1


ScriptStep = str | Reply | ScriptedCall | Sequence[ScriptedCall] | Exception
"""A step of a script: text, a reply, calls, or an error to raise."""


class RecordedRequest(Struct, frozen=True):
    """A request with the messages at the time of the call."""

    request: ModelRequest
    messages: list[Message] = field(default_factory=list[Message])


class ScriptedModel(ModelBase):
    """A `ModelProvider` that follows a script and records its requests.

    Args:
        script: The responses, in order: text, `Reply`, `ScriptedCall`, a list of calls, an exception, or a function of the request
            that returns one of these.
        loop: Whether to start again at the end of the script; otherwise a further request raises.
        provider: Name of the provider.
        model: ID of the model.
        info: Facts about the model.

    Attributes:
        requests: The requests so far.
        closed: Number of its streams that were closed before their end.
    """

    def __init__(
        self,
        *script: ScriptStep | Callable[[ModelRequest], ScriptStep],
        loop: bool = False,
        provider: str = "scripted",
        model: str = "scripted-1",
        info: ModelInfo | None = None,
    ) -> None:
        for step in script:
            if not callable(step):
                to_reply(step)  # reject an invalid step here, not in the run
        self._script = list(script)
        self._loop = loop
        self._next = 0
        self._info = info or ModelInfo(model, provider)
        self.requests: list[RecordedRequest] = []
        self.closed = 0

    @property
    def remaining(self) -> int:
        """The number of responses left in the script."""
        return max(0, len(self._script) - self._next)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        """Return the next response of the script.

        Raises:
            ModelError: If the script contains one.
            AssertionError: If the script is at its end.
        """
        self.requests.append(RecordedRequest(request, list(request.messages)))
        reply = self._next_reply(request)
        deadline = None if request.timeout is None else asyncio.get_running_loop().time() + request.timeout
        done = False
        try:
            await self._wait(reply.delay, request, deadline)
            draft = MessageBuilder(self.provider, self.model)
            draft.usage = reply.usage
            for event in _events(reply, draft, len(self.requests)):
                if event.type.endswith("_delta"):
                    await self._wait(reply.delta_delay, request, deadline)
                yield event
            if reply.error is not None or reply.truncate_after is not None:
                raise self._failure(reply, draft)
            reason: StopReason = reply.stop_reason or ("tool_use" if reply.calls else "end_turn")
            yield draft.done(reason)
            done = True
        except Exception:
            done = True
            raise
        finally:
            self.closed += not done

    async def aclose(self) -> None:
        """Do nothing: it has no resources."""

    async def _wait(self, seconds: float, request: ModelRequest, deadline: float | None) -> None:
        """Wait as the host of the reply would, within the time limit of the request."""
        if not seconds:
            return
        try:
            async with asyncio.timeout_at(deadline):
                await asyncio.sleep(seconds)
        except TimeoutError:
            text = f"{self.model} did not respond within {request.timeout:g}s."
            raise ModelTimeoutError(text, reason="total_timeout", provider=self.provider, model=self.model) from None

    def _next_reply(self, request: ModelRequest) -> Reply:
        if self._next >= len(self._script):
            if not (self._loop and self._script):
                raise AssertionError(
                    f"ScriptedModel got request {self._next + 1}, but its script has {pluralize(len(self._script), 'response')}."
                )
            self._next = 0
        step: Any = self._script[self._next]
        self._next += 1
        if callable(step):
            step = step(request)
        return to_reply(step)

    def _failure(self, reply: Reply, draft: MessageBuilder) -> Exception:
        error = reply.error or NetworkError("the stream was cut", reason="stream_cut")
        if isinstance(error, ModelError):
            error.provider = error.provider or self.provider
            error.model = error.model or self.model
            if len(draft) and error.partial is None:
                error.partial = draft.message()
        return error


def to_reply(step: Any) -> Reply:
    """Convert a step of a script to a reply.

    Raises:
        TypeError: If it is not a step.
    """
    match step:
        case Reply():
            return step
        case str():
            return Reply(step)
        case ScriptedCall():
            return Reply(calls=(step,))
        case Exception():
            return Reply(error=step)
        case [*calls] if all(isinstance(call, ScriptedCall) for call in calls):
            return Reply(calls=tuple(calls))
        case _:
            raise TypeError(
                f"A step of a script must be text, a Reply, a ScriptedCall, a list of them, an exception, or a function of the "
                f"request, not {step!r:.80}."
            )


def _events(reply: Reply, draft: MessageBuilder, turn: int) -> Iterator[StreamEvent]:
    """Yield the events of a reply, up to the point where the stream breaks."""
    parts = [("thinking", reply.thinking)] if reply.thinking else []
    parts += [("text", reply.text)] if reply.text or not (reply.calls or reply.thinking) else []
    if reply.error is None or reply.text or reply.calls or reply.thinking:
        yield draft.start()
    else:
        return
    remaining = reply.truncate_after if reply.truncate_after is not None else sys.maxsize
    for kind, text in parts:
        if not remaining:
            return
        opened = draft.open_text() if kind == "text" else draft.open_thinking()
        yield opened
        for piece in _split(text, reply.chunk_count)[:remaining]:
            remaining -= 1
            yield draft.text(opened.index, piece) if kind == "text" else draft.thinking(opened.index, piece)
        if remaining:
            yield draft.close_text(opened.index) if kind == "text" else draft.close_thinking(opened.index)
    for number, call in enumerate(reply.calls):
        if not remaining:
            return
        begun = draft.open_call(call.id or f"call_{turn}_{number}", call.name)
        yield begun
        text = call.raw if call.raw is not None else msgspec.json.encode(dict(call.input)).decode()
        for piece in _split(text, reply.chunk_count)[:remaining]:
            remaining -= 1
            yield draft.arguments(begun.index, piece)
        if remaining:
            yield draft.close_call(begun.index)


def _split(text: str, pieces: int) -> list[str]:
    size = max(1, -(-len(text) // max(1, pieces)))
    return [text[i : i + size] for i in range(0, len(text), size)]
