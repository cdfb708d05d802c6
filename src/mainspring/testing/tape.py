"""Tapes: recordings of real runs with model traffic and tool results, replayed without network or tools."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, cast, get_args

import msgspec
from msgspec import Struct

from mainspring.cancellation import CancelToken
from mainspring.errors import ConfigError, ErrorCode, MainspringError, ModelError, describe_failure, model_error
from mainspring.events import Done, StreamEvent, StreamStart
from mainspring.loop import LiveSteps, Steps
from mainspring.loop.steps import QueueReader
from mainspring.messages import AgentMessage, Message, ToolUseBlock
from mainspring.models import HttpModel, ModelProvider, ModelRequest, RecordingTransport, ReplayTransport, create_model
from mainspring.models.transport.port import Timeouts, TransportResponse
from mainspring.models.transport.recording import header_secrets
from mainspring.redaction import Redactor, redact_stream
from mainspring.tools import ToolResult
from mainspring.tools.execute import rebuild_exception


class RecordedStep(Struct, frozen=True):
    """One recorded side effect of a run with its result. Plain data, so it can be stored."""

    kind: str
    value: Any = None
    error: dict[str, Any] | None = None


class RecordingSteps:
    """Executes steps and records their results as `RecordedStep` values in order.

    Attributes:
        record: The recorded steps.
    """

    def __init__(self, steps: Steps | None = None) -> None:
        self.record: list[RecordedStep] = []
        self._steps = steps or LiveSteps()

    def now(self) -> datetime:
        return self._keep("now", self._steps.now())

    def elapsed(self) -> float:
        return self._keep("elapsed", self._steps.elapsed())

    def new_id(self) -> str:
        return self._keep("id", self._steps.new_id())

    async def sleep(self, seconds: float, signal: CancelToken | None) -> bool:
        return self._keep("sleep", await self._steps.sleep(seconds, signal))

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Callable[[], object]:
        return self._steps.call_later(seconds, callback)

    async def model(self, provider: ModelProvider, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        try:
            async with aclosing(cast("Any", self._steps.model(provider, request))) as events:
                async for event in events:
                    if isinstance(event, Done):
                        self._keep("model", event.message)
                    yield event
        except ModelError as error:
            self.record.append(RecordedStep("model", error.partial, _error_fields(error)))
            raise

    async def tool(self, call: ToolUseBlock, run: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        try:
            result = await self._steps.tool(call, run)
        except Exception as error:
            self.record.append(
                RecordedStep(
                    f"tool:{call.id}", None, {"type": type(error).__name__, "message": describe_failure(error)}
                )
            )
            raise
        return self._keep(f"tool:{call.id}", result)

    async def receive(self, topic: str, getter: QueueReader) -> Sequence[AgentMessage]:
        return self._keep(topic, tuple(await self._steps.receive(topic, getter)))

    def _keep(self, kind: str, value: Any) -> Any:
        self.record.append(RecordedStep(kind, value))
        return value


class ReplayError(MainspringError):
    """The run requested a step that the record does not contain: the code or its inputs differ from the recording."""


class ReplaySteps:
    """Replays the steps of `RecordingSteps`; uses neither model nor tools nor clock.

    Steps of one kind are replayed in order; tool calls are found by ID, since parallel calls may finish in any order.
    """

    def __init__(self, record: Sequence[RecordedStep]) -> None:
        self._remaining: dict[str, list[RecordedStep]] = {}
        for step in record:
            self._remaining.setdefault(step.kind, []).append(step)

    def now(self) -> datetime:
        return self._next("now").value

    def elapsed(self) -> float:
        return self._next("elapsed").value

    def new_id(self) -> str:
        return self._next("id").value

    async def sleep(self, seconds: float, signal: CancelToken | None) -> bool:
        return self._next("sleep").value

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Callable[[], object]:
        return lambda: None  # the recorded clock shows that a limit was reached

    async def model(self, provider: ModelProvider, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        step = self._next("model")
        if step.error is not None:
            raise model_error(**{**step.error, "code": ErrorCode(step.error["code"]), "partial": step.value})
        message: Message = step.value
        yield StreamStart()
        yield Done(message.stop_reason or "end_turn", message)

    async def tool(self, call: ToolUseBlock, run: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        step = self._next(f"tool:{call.id}")
        if step.error is not None:
            raise rebuild_exception(step.error["type"], step.error["message"])
        return step.value

    async def receive(self, topic: str, getter: QueueReader) -> Sequence[AgentMessage]:
        return self._next(topic).value

    def _next(self, kind: str) -> RecordedStep:
        recorded = self._remaining.get(kind)
        if not recorded:
            raise ReplayError(f"The record contains no further {kind!r} step. The run differs from the recording.")
        return recorded.pop(0)


def _error_fields(error: ModelError) -> dict[str, Any]:
    fields = ("message", "code", "reason", "retryable", "retry_after", "status", "provider", "model", "request_id")
    return {name: getattr(error, name) for name in fields}


_VERSION = 1
"""Version of the tape format."""


TapeMode = Literal["replay", "once", "record"]
"""Whether a tape is replayed, recorded if it does not exist, or recorded again."""
TapeTools = Literal["recorded", "live"]


class Tape:
    """One real run, recorded or replayed.

    ```python
    with Tape("tapes/weather.jsonl", "once") as tape:
        agent = Agent(tape.model("openai:gpt-5-mini"), tools=[forecast], steps=tape.steps)
        result = await agent.run("What should I pack for Oslo?")
    ```

    A tape is JSON Lines: a header, then every exchange with the model's host in its recorded form, then every tool call with its
    result. Secrets are redacted. A new tape is written when the block ends without an exception, and replaces an old one as a
    whole.

    Args:
        path: The file.
        mode: ``replay`` replays and never records; ``once`` replays an existing file and records a missing one; ``record`` always
            records.
        tools: For replay, ``recorded`` returns the recorded results and runs no tools; ``live`` runs them.
        secrets: Values to redact, in addition to the keys that were sent and all recognized secrets.

    Attributes:
        path: The file.
        recording: Whether the tape is recorded, not replayed.
        steps: For ``Agent(steps=...)``.

    Raises:
        ConfigError: If the mode is unknown.
        ReplayError: If the tape is missing or invalid; at the end of the block, if the run made a tool call that was not recorded,
            or did not make all recorded calls; when recording, if a tool call was aborted.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        mode: TapeMode = "replay",
        *,
        tools: TapeTools = "recorded",
        secrets: Sequence[str] = (),
    ) -> None:
        for name, value, known in (("mode", mode, get_args(TapeMode)), ("tools", tools, get_args(TapeTools))):
            if value not in known:
                raise ConfigError(f"{name} of a tape must be {' or '.join(map(repr, known))}, not {value!r}.")
        self.path = Path(path)
        self.recording = mode == "record" or (mode == "once" and not self.path.exists())
        self._redactor = Redactor.of(values=secrets)
        self._calls: list[dict[str, Any]] = []
        self._dropped = False
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.steps: Steps
        if self.recording:
            self._folder = tempfile.TemporaryDirectory(prefix="mainspring-tape-")
            self.steps = _Recorder(self._calls)
        else:
            exchanges, self._calls = _read(self.path)
            self._replay = ReplayTransport(exchanges)
            self._player = _ReplaySteps(self._calls, self._redactor.value, live=tools == "live")
            self.steps = self._player

    def model(self, model: ModelProvider | str, **settings: Any) -> ModelProvider:
        """Return the model for the agent. Replay needs no key.

        Args:
            model: A model, or ``provider:model``.
            settings: Settings of the provider, as for `create_model`.

        Raises:
            ConfigError: If this model is not called over HTTP; `RecordingSteps` records any model.
        """
        if isinstance(model, str):
            if not self.recording:
                settings = {"api_key": _NO_KEY, **settings}
            model = create_model(model, **settings)
        if not isinstance(model, HttpModel):
            raise ConfigError(
                f"{model!r} is not called over HTTP, so a tape cannot record it. Use RecordingSteps, which records any model."
            )
        if self._folder is None:
            return model.with_transport(_MaskingReplayTransport(self._replay, self._redactor.value))
        return model.with_transport(
            _KeyCollectingTransport(self._folder.name, provider=model.provider, on_keys=self._redactor.add)
        )

    def discard(self) -> None:
        """Neither write nor check the tape: the run failed."""
        self._dropped = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._folder is not None:
            with self._folder:
                if error is None and not self._dropped:
                    self._save(Path(self._folder.name))
        elif self._player.misses and isinstance(error, MainspringError):
            raise ReplayError(
                f"{self.path}: {self._player.misses[0]}. {_RERECORD_HINT}"
            ) from error  # the rest follows from the first error
        elif error is None and not self._dropped:
            self._check()

    def _check(self) -> None:
        if self._player.misses:
            raise ReplayError(f"{self.path}: {self._player.misses[0]}. {_RERECORD_HINT}")
        unused = [f"{e['request'].get('method')} {e['request'].get('path')}" for e in self._replay.unused]
        unused += [f"a call of {call['name']}" for call in self._player.unused]
        if unused:
            raise ReplayError(
                f"{self.path}: the run ended before {unused[0]} ({len(unused)} left in total). {_RERECORD_HINT}"
            )

    def _save(self, folder: Path) -> None:
        stopped = [call["name"] for call in self._calls if len(call) == len(_ASKED)]
        if stopped:  # the abort itself is not recorded, so a replay could not repeat it
            raise ReplayError(
                f"{self.path} was not written: a call of {', '.join(stopped)} was aborted, which a tape cannot replay. "
                "Record a run in which every call finishes, and test aborts with ScriptedModel"
            )
        exchanges = [json.loads(file.read_bytes()) for file in sorted(folder.glob("*.json"))]
        calls = [{"tool": self._redactor.value(call)} for call in self._calls]
        lines = [{"tape": _VERSION}, *({"exchange": self._redact_exchange(e)} for e in exchanges), *calls]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        part.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
        part.replace(self.path)

    def _redact_exchange(self, exchange: dict[str, Any]) -> dict[str, Any]:
        body = exchange["response"].pop("body_text")  # checked as a stream, and not again as a text, which may break it
        clean = self._redactor.value(exchange)
        clean["response"]["body_text"] = redact_stream(self._redactor, body)
        return clean


_ASKED = ("name", "input")
_NO_KEY = "unused-key"
_RERECORD_HINT = "If the change is intended, record the tape again (mode 'record', or pytest --tapes=record)."


class _Recorder(LiveSteps):
    """Executes steps, and records every tool call in the order in which the calls were made."""

    __slots__ = ("_calls",)

    def __init__(self, calls: list[dict[str, Any]]) -> None:
        super().__init__()
        self._calls = calls

    async def tool(self, call: ToolUseBlock, run: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        record: dict[str, Any] = {"name": call.name, "input": dict(call.input)}
        self._calls.append(record)
        try:
            result = await run()
        except Exception as error:
            record["error"] = {"type": type(error).__name__, "message": describe_failure(error)}
            raise
        plain = msgspec.json.decode(msgspec.json.encode(result, enc_hook=str))
        record["result"] = {k: v for k, v in plain.items() if v or k == "output"}
        return result


class _KeyCollectingTransport(RecordingTransport):
    """Collects the keys that are sent, so that they can be redacted elsewhere, too."""

    def __init__(self, folder: str, *, provider: str, on_keys: Callable[[Iterable[str]], None]) -> None:
        super().__init__(folder, provider=provider)
        self._on_keys = on_keys

    @asynccontextmanager
    async def open(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts
    ) -> AsyncGenerator[TransportResponse]:
        self._on_keys(header_secrets(headers))
        async with super().open(method, url, headers, body, timeouts) as answer:
            yield answer


class _MaskingReplayTransport:
    """A `Transport` that redacts requests like the tape, so that the two can be compared."""

    def __init__(self, replay: ReplayTransport, masked: Callable[[Any], Any]) -> None:
        self._replay = replay
        self._masked = masked

    def open(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts
    ) -> AbstractAsyncContextManager[TransportResponse]:
        if body:
            body = json.dumps(self._masked(json.loads(body))).encode()
        return self._replay.open(method, url, headers, body, timeouts)

    async def aclose(self) -> None:
        await self._replay.aclose()


class _ReplaySteps(LiveSteps):
    """Replays tools from the tape, without waiting."""

    __slots__ = ("_live", "_masked", "misses", "unused")

    def __init__(self, calls: Iterable[Mapping[str, Any]], masked: Callable[[Any], Any], *, live: bool) -> None:
        super().__init__()
        self.unused = [] if live else [call["tool"] for call in calls]
        self.misses: list[str] = []
        self._masked = masked
        self._live = live

    async def sleep(self, seconds: float, signal: CancelToken | None) -> bool:
        return not (signal is not None and signal.cancelled)

    async def tool(self, call: ToolUseBlock, run: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        if self._live:
            return await run()
        request = self._masked(dict(call.input))
        for at, record in enumerate(self.unused):
            if (record["name"], record["input"]) == (call.name, request):
                return _outcome(self.unused.pop(at))
        same = [record["input"] for record in self.unused if record["name"] == call.name]
        text = f"{call.name} was called with {json.dumps(request)[:200]}, but the recording has " + (
            f"{json.dumps(same[0])[:200]}" if same else "no further call of it"
        )
        self.misses.append(text)
        raise ReplayError(text)


def _outcome(record: Mapping[str, Any]) -> ToolResult:
    if "error" in record:
        raise rebuild_exception(record["error"]["type"], record["error"]["message"])
    return msgspec.convert(record["result"], ToolResult)


def _read(path: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Read the exchanges and the calls of a tape.

    Raises:
        ReplayError: If the tape is invalid.
    """
    if not path.exists():
        raise ReplayError(f"Tape not found: {path}. Record it (mode 'once', or pytest --tapes=once).")
    lines: list[dict[str, Any]] = []
    for number, text in enumerate(path.read_bytes().split(b"\n"), 1):
        try:
            if text.strip():
                lines.append(msgspec.json.decode(text, type=dict[str, Any]))
        except (msgspec.MsgspecError, ValueError) as error:
            raise ReplayError(f"{path} is not a valid tape: line {number}: {error}") from None
    version = lines[0].get("tape") if lines else None
    if version != _VERSION:
        raise ReplayError(
            f"{path} is not a tape of version {_VERSION}: its first line has version {version!r}. Record it again."
        )
    for number, line in enumerate(lines[1:], 2):
        try:
            msgspec.convert(line, _Line)
        except msgspec.ValidationError as error:
            raise ReplayError(f"{path} cannot be replayed: entry {number}: {error}. Record it again.") from None
    return [line["exchange"] for line in lines if "exchange" in line], [line for line in lines if "tool" in line]


class _RequestLine(Struct):
    method: str
    path: str


class _ResponseLine(Struct):
    status: int = 200
    headers: dict[str, str] = {}
    body_text: str = ""


class _Exchange(Struct):
    request: _RequestLine
    response: _ResponseLine


class _Failure(Struct):
    type: str
    message: str


class _ToolCall(Struct):
    name: str
    input: dict[str, Any]
    result: ToolResult | None = None
    error: _Failure | None = None

    def __post_init__(self) -> None:
        if self.result is None and self.error is None:
            raise ValueError("a call has neither result nor error")


class _Line(Struct):
    """A line of a tape after its header; validated, so that errors in edited tapes have a location."""

    exchange: _Exchange | None = None
    tool: _ToolCall | None = None
