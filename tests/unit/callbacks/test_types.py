"""Callbacks receive everything in order and never block the run."""

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any, get_args

import pytest

from mainspring.agent.agent import Agent
from mainspring.callbacks import AgentCallbacks, CallbacksPlug, ErrorReport
from mainspring.env import MemoryEnv
from mainspring.errors import AgentAbortedError, AgentProviderError, NetworkError, RateLimitedError
from mainspring.events import RunEvent, SpanContext, StreamEvent
from mainspring.loop.hooks import HOOKS, ModelErrorHook, ToolGate
from mainspring.messages import Usage
from mainspring.models import RetryConfig
from mainspring.permissions import Permissions
from mainspring.run_options import RunOptions
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import Attachment, ToolErrorCode, ToolResult, tool
from mainspring.tools.builtin import write_file
from mainspring.tools.response import ErrorResponse, SuccessResponse

pytestmark = pytest.mark.usefixtures("no_blocking")

NO_RETRY = RunOptions(retry=None)
SPANNED = [
    "on_agent_start", "on_agent_end", "on_llm_start", "on_llm_stream", "on_llm_end", "on_tool_start", "on_tool_end",
    "on_error", "on_debug", "on_trace",
]  # fmt: skip


@tool
async def look(key: str) -> ToolResult:
    """Look something up."""
    if key == "bad":
        raise FileNotFoundError("no bad")
    return ToolResult(
        output=f"value of {key}",
        title=f"looked at {key}",
        metadata={"key": key},
        attachments=(Attachment("a", "text/plain"),),
    )


class CallbackRecorder:
    """Callbacks that record their arguments."""

    def __init__(self, *names: str) -> None:
        self.log: list[tuple[str, tuple[Any, ...]]] = []
        requested = names or (*SPANNED[:8], "on_spinner_start", "on_spinner_stop")
        callbacks: dict[str, Any] = {name: self._writer(name) for name in requested}
        self.callbacks = AgentCallbacks(**callbacks)

    def _writer(self, name: str) -> Callable[..., None]:
        return lambda *arguments: self.log.append((name.removeprefix("on_"), arguments))

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.log]

    def calls_of(self, name: str) -> list[tuple[Any, ...]]:
        return [arguments for callback, arguments in self.log if callback == name]


def make_agent(recorder: CallbackRecorder | AgentCallbacks, *script: Any, **options: Any) -> Agent:
    callbacks = recorder if isinstance(recorder, AgentCallbacks) else recorder.callbacks
    options.setdefault("tools", [look])
    return Agent(ScriptedModel(*script), execution=MemoryEnv({}), callbacks=callbacks, **options)


@pytest.mark.covers("HOK-01", "HOK-02", "HOK-03", "HOK-04", "HOK-11")
async def test_callbacks_run_in_order() -> None:
    recorder = CallbackRecorder()
    first = Reply("let me see", calls=[ScriptedCall("look", {"key": "a"})], usage=Usage(output_tokens=3), chunk_count=2)
    await make_agent(recorder, first, "it is a").run("what is a?")
    assert recorder.names == [
        "agent_start", "spinner_start", "llm_start", "llm_stream", "llm_stream", "llm_end", "tool_start", "tool_end",
        "llm_start", "llm_stream", "llm_end", "spinner_stop", "agent_end",
    ]  # fmt: skip
    assert recorder.calls_of("agent_start")[0][1] == "what is a?"
    assert (recorder.calls_of("spinner_start"), recorder.calls_of("spinner_stop")) == ([("Thinking",)], [()])
    assert recorder.calls_of("agent_end")[0][1] == "it is a"
    _, model, messages = recorder.calls_of("llm_start")[0]
    assert (model, [m.text for m in messages]) == ("scripted:scripted-1", ["what is a?"])
    assert "".join(chunk for _, chunk in recorder.calls_of("llm_stream")) == "let me seeit is a"
    assert [(text, usage.output_tokens) for _, text, usage in recorder.calls_of("llm_end")] == [
        ("let me see", 3),
        ("it is a", 0),
    ]
    assert recorder.calls_of("tool_start")[0][1:] == ("look", {"key": "a"})
    assert recorder.calls_of("tool_end")[0][1] == "look"


@pytest.mark.covers("HOK-12", "TDF-11")
async def test_tool_end_receives_a_response_and_a_result() -> None:
    recorder = CallbackRecorder("on_tool_end")
    await make_agent(
        recorder,
        [ScriptedCall("look", {"key": "a"}), ScriptedCall("look", {"key": "bad"}), ScriptedCall("nothing")],
        "end",
    ).run("go")
    (_, name, response, result), (_, _, failure, failed), (_, _, unknown, _) = sorted(
        recorder.calls_of("tool_end"), key=lambda t: (t[1], t[2].success is False)
    )
    assert (name, response) == ("look", SuccessResponse("value of a", "looked at a"))
    assert (result.title, result.metadata, len(result.attachments)) == ("looked at a", {"key": "a"}, 1)
    assert failure == ErrorResponse(ToolErrorCode.NOT_FOUND, "Error: no bad")
    assert (failed.is_error, failed.code) == (True, ToolErrorCode.NOT_FOUND)
    assert unknown.error is ToolErrorCode.NOT_FOUND


@pytest.mark.covers("HOK-03", "HOK-12")
async def test_blocked_and_replaced_calls_reach_the_callbacks() -> None:
    recorder = CallbackRecorder("on_tool_start", "on_tool_end")
    one = make_agent(recorder, [ScriptedCall("look", {"key": "a"}), ScriptedCall("look", {"key": "b"})], "end")

    @one.on(ToolGate)
    def gate(hook: ToolGate) -> None:
        if hook.input["key"] == "a":
            hook.block = "not a"
        else:
            hook.result = "other"

    await one.run("go")
    ends = recorder.calls_of("tool_end")
    assert [e[2] for e in ends] == [
        ErrorResponse(ToolErrorCode.PERMISSION_DENIED, "Blocked: not a"),
        SuccessResponse("other", "other"),
    ]
    assert len(recorder.calls_of("tool_start")) == 2


@pytest.mark.covers("HOK-10")
async def test_run_is_one_trace_with_a_span_for_each_operation() -> None:
    recorder = CallbackRecorder(*SPANNED)
    numbers = iter(range(1, 1000))
    plug = CallbacksPlug(recorder.callbacks, random=lambda n: next(numbers).to_bytes(n, "big"))
    one = Agent(
        ScriptedModel(ScriptedCall("look", {"key": "a"}), "end"), execution=MemoryEnv({}), tools=[look], plugs=[plug]
    )
    await one.run("go")
    root = recorder.calls_of("agent_start")[0][0]
    assert root == SpanContext("0" * 31 + "1", "0" * 15 + "2", None)
    spans = {
        name: [a[0] for a in recorder.calls_of(name)]
        for name in ("llm_start", "llm_stream", "llm_end", "tool_start", "tool_end")
    }
    assert spans["llm_start"] == spans["llm_end"]
    assert spans["llm_stream"] == [spans["llm_end"][1]]
    assert spans["tool_start"] == spans["tool_end"]
    children = {*spans["llm_start"], *spans["tool_start"]}
    assert len({s.span_id for s in children}) == 3
    assert {(s.trace_id, s.parent_span_id) for s in children} == {(root.trace_id, root.span_id)}
    assert {a[0].trace_id for name in recorder.names for a in recorder.calls_of(name)} == {root.trace_id}

    outer = SpanContext("a" * 32, "b" * 16)
    joined = CallbackRecorder("on_agent_start")
    one = Agent(ScriptedModel("x"), execution=MemoryEnv({}), plugs=[CallbacksPlug(joined.callbacks, parent=outer)])
    await one.run("go")
    span = joined.calls_of("agent_start")[0][0]
    assert (span.trace_id, span.parent_span_id) == ("a" * 32, "b" * 16)
    assert re.fullmatch(r"[0-9a-f]{16}", span.span_id)
    again = SpanContext.root(lambda n: b"\x01" * n)
    assert re.fullmatch(r"[0-9a-f]{32}", again.trace_id)


@pytest.mark.covers("HOK-06", "HOK-43", "HOK-11", "ERR-06")
async def test_failure_is_reported_once_and_agent_end_still_fires() -> None:
    recorder = CallbackRecorder()
    error = RateLimitedError("slow down, sk-abcdefghijklmnopqrstuvwx1", retry_after=7, status=429, reason="quota")
    with pytest.raises(AgentProviderError):
        await make_agent(recorder, error, behavior=NO_RETRY).run("go")
    assert recorder.names[-3:] == ["error", "spinner_stop", "agent_end"]
    assert recorder.names.count("error") == 1
    span, report = recorder.calls_of("error")[0]
    assert span == recorder.calls_of("llm_start")[0][0]
    assert (report.code, report.reason, report.retry_after, report.status) == ("RATE_LIMITED", "quota", 7, 429)
    assert (report.provider, report.retryable) == ("scripted", True)
    assert "sk-" not in report.message
    assert recorder.calls_of("agent_end")[0][1] == ""
    assert "llm_end" not in recorder.names


@pytest.mark.covers("HOK-43")
async def test_failure_fixed_by_a_retry_is_not_reported() -> None:
    recorder = CallbackRecorder()
    one = make_agent(recorder, NetworkError("cut", retryable=False), "fine", behavior=NO_RETRY)
    one.on(ModelErrorHook, lambda hook: hook.retry())
    await one.run("go")
    assert recorder.calls_of("error") == []
    assert recorder.names.count("llm_start") == 2


@pytest.mark.covers("HOK-06", "HOK-43")
async def test_abort_is_reported_as_an_abort() -> None:
    recorder = CallbackRecorder()
    one = make_agent(recorder, ScriptedCall("look", {"key": "a"}), "never")
    one.on("tool:before", lambda hook: one.abort("enough"))
    with pytest.raises(AgentAbortedError):
        await one.run("go")
    report = recorder.calls_of("error")[0][1]
    assert (report.code, report.message) == ("ABORTED", "enough")
    assert recorder.names[-1] == "agent_end"
    assert recorder.names.count("tool_start") == recorder.names.count("tool_end") == 1


@pytest.mark.covers("HOK-05")
async def test_answer_stream_yields_the_text_in_chunks() -> None:
    answers: list[list[str]] = []
    tasks: list[asyncio.Task[None]] = []

    async def read(stream: AsyncGenerator[str, None]) -> None:
        pieces: list[str] = []
        answers.append(pieces)
        pieces += [piece async for piece in stream]

    def on_answer_stream(stream: AsyncGenerator[str, None]) -> None:
        tasks.append(asyncio.create_task(read(stream)))

    callbacks = AgentCallbacks(on_answer_stream=on_answer_stream)
    await make_agent(
        callbacks,
        Reply("one two", calls=[ScriptedCall("look", {"key": "a"})], chunk_count=2),
        ScriptedCall("look", {"key": "b"}),
        "end",
    ).run("go")
    await asyncio.gather(*tasks)
    assert answers == [["one ", "two"], ["end"]]

    cut = make_agent(callbacks, Reply("half", truncate_after=1), behavior=NO_RETRY)
    with contextlib.suppress(AgentProviderError):
        await cut.run("go")
    await asyncio.gather(*tasks)
    assert answers[2] == ["half"]


@pytest.mark.covers("HOK-07")
async def test_debug_and_trace_callbacks_receive_messages_and_events() -> None:
    recorder = CallbackRecorder("on_debug", "on_trace")
    failing = NetworkError("cut")
    await make_agent(
        recorder,
        failing,
        ScriptedCall("look", {"key": "bad"}),
        "end",
        behavior=RunOptions(retry=RetryConfig(base_delay_seconds=0.001)),
    ).run("go")
    lines = [message for _, message, _ in recorder.calls_of("debug")]
    facts = [each for _, _, each in recorder.calls_of("debug")]
    assert (facts[0]["turn"], facts[1]["attempt"], facts[-1]) == (1, 1, {"status": "completed"})
    assert lines[0] == "turn 1 begins"
    assert any(line.startswith("the model call is retried in") for line in lines)
    assert "look failed" in lines
    assert lines[-1] == "the run is over: completed"
    types = [kind for _, kind, _ in recorder.calls_of("trace")]
    assert types[0] == "agent_start"
    assert types[-1] == "agent_end"
    assert "tool_execution_end" in types
    assert not any(kind.endswith("_delta") for kind in types)


@pytest.mark.covers("HOK-08")
@pytest.mark.parametrize("is_async", [True, False])
async def test_permission_requests_reach_the_callback_and_never_block_the_loop(is_async: bool) -> None:
    requests: list[dict[str, Any]] = []
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    def answer(request: Any) -> bool:
        requests.append({k: request[k] for k in ("scope", "resource", "action")})
        before = ticks
        if not is_async:
            deadline = time.monotonic() + 120
            while ticks < before + 5 and time.monotonic() < deadline:  # runs in a thread while the loop continues
                pass
            assert ticks >= before + 5, "the loop waits for the callback"
        return request["resource"].endswith("yes.txt")

    async def answer_later(request: Any) -> bool:
        await asyncio.sleep(0)
        return answer(request)

    calls = [ScriptedCall("write_file", {"path": f"{name}.txt", "content": "x"}) for name in ("yes", "no")]
    one = make_agent(
        AgentCallbacks(on_permission_request=answer_later if is_async else answer),
        calls, "end", tools=[write_file], permissions=Permissions(),
    )  # fmt: skip
    ticking = asyncio.create_task(tick())
    await one.run("go")
    ticking.cancel()
    assert [(a["scope"], a["action"]) for a in requests] == [("fs-write", "write")] * 2
    assert (await one.env.stat("yes.txt")).size == 1
    with pytest.raises(FileNotFoundError):
        await one.env.stat("no.txt")


async def test_callback_does_not_replace_the_handler_of_permissions() -> None:
    configured = Permissions(on_permission_request=lambda request: True)
    asking = configured.on_permission_request
    make_agent(AgentCallbacks(on_permission_request=lambda request: False), permissions=configured)
    assert configured.on_permission_request is asking


@pytest.mark.covers("HOK-09")
async def test_each_callback_is_optional_and_must_be_synchronous() -> None:
    for name in [*SPANNED, "on_spinner_start", "on_spinner_stop", "on_answer_stream"]:
        recorder = CallbackRecorder(name)
        one = make_agent(recorder, ScriptedCall("look", {"key": "a"}), "end")
        assert (await one.run("go")).text == "end"
        assert bool(recorder.log) == (name != "on_error")

    async def later(*arguments: Any) -> None: ...

    callback: Any = later
    with pytest.raises(TypeError, match="on_tool_end is async"):
        AgentCallbacks(on_tool_end=callback)


async def test_without_callbacks_nothing_is_registered() -> None:
    plain = Agent(ScriptedModel("x"), execution=MemoryEnv({}))
    empty = make_agent(AgentCallbacks(), "x")
    for event in get_args(RunEvent | StreamEvent):
        assert not empty.bus.is_heard(event)
        assert not plain.bus.is_heard(event)
    for event in ("turn:before", "model:error"):
        assert not empty.bus.has(HOOKS[event])


@pytest.mark.covers("HOK-09")
async def test_failing_callback_is_logged_and_the_others_still_run(caplog: pytest.LogCaptureFixture) -> None:
    recorder = CallbackRecorder("on_spinner_start", "on_agent_end")

    def broken(*arguments: Any) -> None:
        raise ZeroDivisionError

    callbacks = AgentCallbacks(
        on_agent_start=broken,
        on_llm_stream=broken,
        on_spinner_start=recorder.callbacks.on_spinner_start,
        on_agent_end=recorder.callbacks.on_agent_end,
    )
    with caplog.at_level(logging.ERROR, logger="mainspring"):
        assert (await make_agent(callbacks, "end").run("go")).text == "end"
    assert recorder.names == ["spinner_start", "agent_end"]
    assert "broken failed" in caplog.text


async def test_each_run_is_reported_with_its_own_trace() -> None:
    recorder = CallbackRecorder("on_agent_start", "on_agent_end")
    one = make_agent(recorder, "one", "two")
    await one.run("first")
    await one.run("second")
    assert [a[1] for _, a in recorder.log] == ["first", "one", "second", "two"]
    assert len({a[0].trace_id for _, a in recorder.log}) == 2


@pytest.mark.covers("ERR-06")
def test_error_reports_cover_every_kind_of_failure() -> None:
    assert ErrorReport.from_exception(AgentAbortedError("stop")).code == "ABORTED"
    assert ErrorReport.from_exception(ValueError("api_key=abcdefghij12345")).message == "api_key=[redacted]"
    assert ErrorReport.from_exception(ValueError()).message == "ValueError"
    wrapped = AgentProviderError("no", cause=NetworkError("no", status=503))
    assert (ErrorReport.from_exception(wrapped).code, ErrorReport.from_exception(wrapped).status) == (
        "NETWORK_ERROR",
        503,
    )
    assert ErrorReport.from_exception(wrapped).error is wrapped
