"""Callbacks: told of everything in order, never in the way."""

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from mainspring.agent.agent import Agent
from mainspring.callbacks import AgentCallbacks, CallbacksPlug, ErrorReport
from mainspring.env import MemoryEnv
from mainspring.errors import AgentAbortedError, AgentProviderError, NetworkError, RateLimitedError
from mainspring.events import SpanContext
from mainspring.loop import RunOptions
from mainspring.loop.hooks import HOOKS, ModelErrorHook, ToolGate
from mainspring.messages import Usage
from mainspring.models import RetryConfig
from mainspring.permissions import Permissions
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


class Told:
    """What callbacks were told, and callbacks that write it down."""

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

    def of(self, name: str) -> list[tuple[Any, ...]]:
        return [arguments for told, arguments in self.log if told == name]


def agent(told: Told | AgentCallbacks, *script: Any, **options: Any) -> Agent:
    callbacks = told if isinstance(told, AgentCallbacks) else told.callbacks
    options.setdefault("tools", [look])
    return Agent(ScriptedModel(*script), execution=MemoryEnv({}), callbacks=callbacks, **options)


@pytest.mark.covers("HOK-01", "HOK-02", "HOK-03", "HOK-04", "HOK-11")
async def test_a_run_is_told_in_order() -> None:
    told = Told()
    first = Reply("let me see", calls=[ScriptedCall("look", {"key": "a"})], usage=Usage(output_tokens=3), chunk_count=2)
    await agent(told, first, "it is a").run("what is a?")
    assert told.names == [
        "agent_start", "spinner_start", "llm_start", "llm_stream", "llm_stream", "llm_end", "tool_start", "tool_end",
        "llm_start", "llm_stream", "llm_end", "spinner_stop", "agent_end",
    ]  # fmt: skip
    assert told.of("agent_start")[0][1] == "what is a?"
    assert told.of("agent_end")[0][1] == "it is a"
    _, model, messages = told.of("llm_start")[0]
    assert (model, [m.text for m in messages]) == ("scripted:scripted-1", ["what is a?"])
    assert "".join(chunk for _, chunk in told.of("llm_stream")) == "let me seeit is a"
    assert [(text, usage.output_tokens) for _, text, usage in told.of("llm_end")] == [("let me see", 3), ("it is a", 0)]
    assert told.of("tool_start")[0][1:] == ("look", {"key": "a"})


@pytest.mark.covers("HOK-12", "TDF-11")
async def test_the_end_of_a_tool_is_told_in_both_forms() -> None:
    told = Told("on_tool_end")
    await agent(
        told, [ScriptedCall("look", {"key": "a"}), ScriptedCall("look", {"key": "bad"}), ScriptedCall("nothing")], "end"
    ).run("go")
    (_, name, response, result), (_, _, failure, failed), (_, _, unknown, _) = sorted(
        told.of("tool_end"), key=lambda t: (t[1], t[2].success is False)
    )
    assert (name, response) == ("look", SuccessResponse("value of a", "looked at a"))
    assert (result.title, result.metadata, len(result.attachments)) == ("looked at a", {"key": "a"}, 1)
    assert failure == ErrorResponse(ToolErrorCode.NOT_FOUND, "Error: no bad")
    assert (failed.is_error, failed.code) == (True, ToolErrorCode.NOT_FOUND)
    assert unknown.error is ToolErrorCode.NOT_FOUND


@pytest.mark.covers("HOK-03", "HOK-12")
async def test_refused_and_substituted_calls_are_told_too() -> None:
    told = Told("on_tool_start", "on_tool_end")
    one = agent(told, [ScriptedCall("look", {"key": "a"}), ScriptedCall("look", {"key": "b"})], "end")

    @one.on(ToolGate)
    def gate(hook: ToolGate) -> None:
        if hook.input["key"] == "a":
            hook.block = "not a"
        else:
            hook.result = "other"

    await one.run("go")
    ends = told.of("tool_end")
    assert [e[2] for e in ends] == [
        ErrorResponse(ToolErrorCode.PERMISSION_DENIED, "Blocked: not a"),
        SuccessResponse("other", "other"),
    ]
    assert len(told.of("tool_start")) == 2


@pytest.mark.covers("HOK-10")
async def test_everything_of_a_run_is_one_trace_and_each_operation_a_span_of_its_own() -> None:
    told = Told(*SPANNED)
    numbers = iter(range(1, 1000))
    plug = CallbacksPlug(told.callbacks, random=lambda n: next(numbers).to_bytes(n, "big"))
    one = Agent(
        ScriptedModel(ScriptedCall("look", {"key": "a"}), "end"), execution=MemoryEnv({}), tools=[look], plugs=[plug]
    )
    await one.run("go")
    root = told.of("agent_start")[0][0]
    assert root == SpanContext("0" * 31 + "1", "0" * 15 + "2", None)
    spans = {
        name: [a[0] for a in told.of(name)] for name in ("llm_start", "llm_stream", "llm_end", "tool_start", "tool_end")
    }
    assert spans["llm_start"] == spans["llm_end"]
    assert spans["llm_stream"] == [spans["llm_end"][1]]
    assert spans["tool_start"] == spans["tool_end"]
    children = {*spans["llm_start"], *spans["tool_start"]}
    assert len({s.span_id for s in children}) == 3
    assert {(s.trace_id, s.parent_span_id) for s in children} == {(root.trace_id, root.span_id)}
    assert {a[0].trace_id for name in told.names for a in told.of(name)} == {root.trace_id}

    outer = SpanContext("a" * 32, "b" * 16)
    joined = Told("on_agent_start")
    one = Agent(ScriptedModel("x"), execution=MemoryEnv({}), plugs=[CallbacksPlug(joined.callbacks, parent=outer)])
    await one.run("go")
    span = joined.of("agent_start")[0][0]
    assert (span.trace_id, span.parent_span_id) == ("a" * 32, "b" * 16)
    assert re.fullmatch(r"[0-9a-f]{16}", span.span_id)
    again = SpanContext.root(lambda n: b"\x01" * n)
    assert re.fullmatch(r"[0-9a-f]{32}", again.trace_id)


@pytest.mark.covers("HOK-06", "HOK-43", "HOK-11", "ERR-06")
async def test_a_failure_is_told_once_in_fields_and_the_end_comes_all_the_same() -> None:
    told = Told()
    error = RateLimitedError("slow down, sk-abcdefghijklmnopqrstuvwx1", retry_after=7, status=429, reason="quota")
    with pytest.raises(AgentProviderError):
        await agent(told, error, behavior=NO_RETRY).run("go")
    assert told.names[-3:] == ["error", "spinner_stop", "agent_end"]
    assert told.names.count("error") == 1
    span, report = told.of("error")[0]
    assert isinstance(span, SpanContext)
    assert (report.code, report.reason, report.retry_after, report.status) == ("RATE_LIMITED", "quota", 7, 429)
    assert (report.provider, report.retryable) == ("scripted", True)
    assert "sk-" not in report.message
    assert told.of("agent_end")[0][1] == ""
    assert "llm_end" not in told.names


@pytest.mark.covers("HOK-43")
async def test_a_failure_that_a_handler_mends_is_none() -> None:
    told = Told()
    one = agent(told, NetworkError("cut", retryable=False), "fine", behavior=NO_RETRY)
    one.on(ModelErrorHook, lambda hook: hook.retry())
    await one.run("go")
    assert told.of("error") == []
    assert told.names.count("llm_start") == 2


@pytest.mark.covers("HOK-43")
async def test_an_abort_is_told_as_one() -> None:
    told = Told()
    one = agent(told, ScriptedCall("look", {"key": "a"}), "never")
    one.on("tool:before", lambda hook: one.abort("enough"))
    with pytest.raises(AgentAbortedError):
        await one.run("go")
    report = told.of("error")[0][1]
    assert (report.code, report.message) == ("ABORTED", "enough")
    assert told.names[-1] == "agent_end"
    assert told.names.count("tool_start") == told.names.count("tool_end") == 1


@pytest.mark.covers("HOK-05")
async def test_an_answer_comes_as_a_generator_of_its_pieces() -> None:
    answers: list[list[str]] = []
    tasks: list[asyncio.Task[None]] = []

    async def read(stream: AsyncGenerator[str, None]) -> None:
        pieces: list[str] = []
        answers.append(pieces)
        pieces += [piece async for piece in stream]

    def on_answer_stream(stream: AsyncGenerator[str, None]) -> None:
        tasks.append(asyncio.create_task(read(stream)))

    callbacks = AgentCallbacks(on_answer_stream=on_answer_stream)
    await agent(
        callbacks,
        Reply("one two", calls=[ScriptedCall("look", {"key": "a"})], chunk_count=2),
        ScriptedCall("look", {"key": "b"}),
        "end",
    ).run("go")
    await asyncio.gather(*tasks)
    assert answers == [["one ", "two"], ["end"]]

    cut = agent(callbacks, Reply("half", truncate_after=1), behavior=NO_RETRY)
    with contextlib.suppress(AgentProviderError):
        await cut.run("go")
    await asyncio.gather(*tasks)
    assert answers[2] == ["half"]


@pytest.mark.covers("HOK-07")
async def test_debug_and_trace() -> None:
    told = Told("on_debug", "on_trace")
    failing = NetworkError("cut")
    await agent(
        told,
        failing,
        ScriptedCall("look", {"key": "bad"}),
        "end",
        behavior=RunOptions(retry=RetryConfig(base_delay_ms=1)),
    ).run("go")
    lines = [message for _, message, _ in told.of("debug")]
    assert lines[0] == "turn 1 begins"
    assert any(line.startswith("the model call is retried in") for line in lines)
    assert "look failed" in lines
    assert lines[-1] == "the run is over: completed"
    types = [kind for _, kind, _ in told.of("trace")]
    assert types[0] == "agent_start"
    assert types[-1] == "agent_end"
    assert "tool_execution_end" in types
    assert not any(kind.endswith("_delta") for kind in types)


@pytest.mark.covers("HOK-08")
@pytest.mark.parametrize("is_async", [True, False])
async def test_permission_requests_reach_the_callback_and_never_block_the_loop(is_async: bool) -> None:
    asked: list[dict[str, Any]] = []
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    def answer(request: Any) -> bool:
        asked.append({k: request[k] for k in ("scope", "resource", "action")})
        before = ticks
        if not is_async:
            while ticks < before + 5:  # waits in a thread, and the loop goes on
                pass
        return request["resource"].endswith("yes.txt")

    async def answer_later(request: Any) -> bool:
        await asyncio.sleep(0)
        return answer(request)

    calls = [ScriptedCall("write_file", {"path": f"{name}.txt", "content": "x"}) for name in ("yes", "no")]
    one = agent(
        AgentCallbacks(on_permission_request=answer_later if is_async else answer),
        calls, "end", tools=[write_file], permissions=Permissions(),
    )  # fmt: skip
    ticking = asyncio.create_task(tick())
    await one.run("go")
    ticking.cancel()
    assert [(a["scope"], a["action"]) for a in asked] == [("fs-write", "write")] * 2
    assert (await one.env.stat("yes.txt")).size == 1
    with pytest.raises(FileNotFoundError):
        await one.env.stat("no.txt")


async def test_permissions_that_have_somebody_to_ask_keep_him() -> None:
    own = Permissions(on_permission_request=lambda request: True)
    asking = own.on_permission_request
    agent(AgentCallbacks(on_permission_request=lambda request: False), permissions=own)
    assert own.on_permission_request is asking


@pytest.mark.covers("HOK-09")
async def test_each_callback_may_be_left_out_and_none_may_be_async() -> None:
    for name in [*SPANNED, "on_spinner_start", "on_spinner_stop", "on_answer_stream"]:
        told = Told(name)
        one = agent(told, ScriptedCall("look", {"key": "a"}), "end")
        assert (await one.run("go")).text == "end"
        assert bool(told.log) == (name != "on_error")

    async def later(*arguments: Any) -> None: ...

    callback: Any = later
    with pytest.raises(TypeError, match="on_tool_end is async"):
        AgentCallbacks(on_tool_end=callback)


async def test_without_callbacks_nothing_is_registered() -> None:
    plain = Agent(ScriptedModel("x"), execution=MemoryEnv({}))
    empty = agent(AgentCallbacks(), "x")
    assert empty.bus.listeners == plain.bus.listeners == ()
    for event in ("turn:before", "model:error"):
        assert not empty.bus.has(HOOKS[event])


@pytest.mark.covers("HOK-09")
async def test_a_callback_that_raises_is_logged_and_the_rest_is_told(caplog: pytest.LogCaptureFixture) -> None:
    told = Told("on_spinner_start", "on_agent_end")

    def broken(*arguments: Any) -> None:
        raise ZeroDivisionError

    callbacks = AgentCallbacks(
        on_agent_start=broken,
        on_llm_stream=broken,
        on_spinner_start=told.callbacks.on_spinner_start,
        on_agent_end=told.callbacks.on_agent_end,
    )
    with caplog.at_level(logging.ERROR, logger="mainspring"):
        assert (await agent(callbacks, "end").run("go")).text == "end"
    assert told.names == ["spinner_start", "agent_end"]
    assert "broken failed" in caplog.text


async def test_each_run_is_told_anew() -> None:
    told = Told("on_agent_start", "on_agent_end")
    one = agent(told, "one", "two")
    await one.run("first")
    await one.run("second")
    assert [a[1] for _, a in told.log] == ["first", "one", "second", "two"]
    assert len({a[0].trace_id for _, a in told.log}) == 2


@pytest.mark.covers("ERR-06")
def test_reports_of_failures_of_all_kinds() -> None:
    assert ErrorReport.from_exception(AgentAbortedError("stop")).code == "ABORTED"
    assert ErrorReport.from_exception(ValueError("api_key=abcdefghij12345")).message == "api_key=[redacted]"
    assert ErrorReport.from_exception(ValueError()).message == "ValueError"
    wrapped = AgentProviderError("no", cause=NetworkError("no", status=503))
    assert (ErrorReport.from_exception(wrapped).code, ErrorReport.from_exception(wrapped).status) == (
        "NETWORK_ERROR",
        503,
    )
    assert ErrorReport.from_exception(wrapped).error is wrapped
