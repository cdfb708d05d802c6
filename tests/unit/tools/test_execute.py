"""Running a tool: errors, cancellation, and results."""

import asyncio
import logging
import os
import threading
from typing import Any

import pytest

from mainspring import Agent
from mainspring.cancellation import CancelToken
from mainspring.env import MemoryEnv
from mainspring.errors import (
    AuthenticationError,
    ConfigError,
    ModelNotFoundError,
    ModelTimeoutError,
    NetworkError,
    PermissionDeniedError,
    ProviderConfigError,
    RateLimitedError,
    ToolError,
)
from mainspring.messages import ImageBlock, TextBlock
from mainspring.testing import ScriptedCall, ScriptedModel
from mainspring.tools import Tool, ToolContext, ToolErrorCode, ToolResult, tool
from mainspring.tools.execute import (
    error_result,
    output_bytes,
    rebuild_exception,
    replace_images,
    result_from_exception,
    run_tool,
    safe_str,
)


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


class MissingFileError(FileNotFoundError):
    pass


@pytest.mark.covers("TDF-12")
@pytest.mark.parametrize(
    ("error", "text", "code"),
    [
        (ToolError("no such city"), "no such city", ToolErrorCode.UNKNOWN),
        (PermissionDeniedError("no"), "no", ToolErrorCode.PERMISSION_DENIED),
        (TimeoutError("5 s"), "5 s", ToolErrorCode.TIMEOUT),
        (TimeoutError(), "look took too long", ToolErrorCode.TIMEOUT),
        (FileNotFoundError("x.txt"), "Error: x.txt", ToolErrorCode.NOT_FOUND),
        (MissingFileError("y.txt"), "Error: y.txt", ToolErrorCode.NOT_FOUND),
        (OSError("disk"), "Error: disk", ToolErrorCode.IO_ERROR),
        (PermissionError("locked"), "Error: locked", ToolErrorCode.PERMISSION_DENIED),
        (PermissionError(1, "frozen", "x"), "Error: [Errno 1] frozen: 'x'", ToolErrorCode.PERMISSION_DENIED),
        (PermissionError(13, "Permission denied"), "Error: [Errno 13] Permission denied", ToolErrorCode.IO_ERROR),
        (PermissionError(1, os.strerror(1)), f"Error: [Errno 1] {os.strerror(1)}", ToolErrorCode.IO_ERROR),
        (rebuild_exception("PermissionError", "[Errno 13] no"), "Error: [Errno 13] no", ToolErrorCode.IO_ERROR),
        (ConnectionResetError("reset"), "Error: reset", ToolErrorCode.IO_ERROR),
        (ConfigError("no key"), "Error: no key", ToolErrorCode.CONFIG_ERROR),
        (ProviderConfigError("no key"), "Error: no key", ToolErrorCode.CONFIG_ERROR),
        (AuthenticationError("bad key"), "Error: bad key", ToolErrorCode.CONFIG_ERROR),
        (RateLimitedError("slow down"), "Error: slow down", ToolErrorCode.RATE_LIMITED),
        (ModelTimeoutError("30 s"), "Error: 30 s", ToolErrorCode.TIMEOUT),
        (ModelNotFoundError("no gpt"), "Error: no gpt", ToolErrorCode.NOT_FOUND),
        (NetworkError("down"), "Error: down", ToolErrorCode.IO_ERROR),
        (ValueError("bad"), "Error: ValueError: bad", ToolErrorCode.UNKNOWN),
        (
            ExceptionGroup(
                "unhandled errors in a TaskGroup", [ValueError("bad"), ExceptionGroup("more", [KeyError("k")])]
            ),
            "Error: ExceptionGroup: unhandled errors in a TaskGroup: ValueError: bad; ExceptionGroup: more: KeyError: 'k'",
            ToolErrorCode.UNKNOWN,
        ),
        (UnprintableError(), "Error: UnprintableError: (its text cannot be had: ValueError)", ToolErrorCode.UNKNOWN),
    ],
)
def test_exception_becomes_an_error_result_with_a_code(error: Exception, text: str, code: ToolErrorCode) -> None:
    result = result_from_exception("look", error)
    assert (result.output, result.is_error, result.code) == (text, True, code)
    assert (result.title, result.metadata, result.attachments) == ("", {}, ())


def test_error_result_is_an_error() -> None:
    assert error_result("x", ToolErrorCode.TIMEOUT) == ToolResult(output="x", is_error=True, code=ToolErrorCode.TIMEOUT)
    assert safe_str(KeyError("x")) == "'x'"


@pytest.mark.parametrize(
    "kind", [ToolError, PermissionDeniedError, TimeoutError, FileNotFoundError, OSError, ConfigError, RateLimitedError]
)
def test_known_exception_is_rebuilt_as_its_class(kind: type[Exception]) -> None:
    error = rebuild_exception(kind.__name__, "why")
    assert (type(error), str(error)) == (kind, "why")


def test_unknown_exception_is_rebuilt_under_its_name() -> None:
    error = rebuild_exception("OddError", "why")
    assert (type(error).__name__, type(error).__bases__, str(error)) == ("OddError", (Exception,), "why")
    assert result_from_exception("look", error).output == "Error: OddError: why"


@pytest.mark.covers("TEX-19")
def test_output_size_counts_utf8_text_and_base64_images() -> None:
    assert (output_bytes(""), output_bytes("a€"), output_bytes("\ud800")) == (0, 4, 1)
    assert output_bytes((TextBlock("a€"), ImageBlock("image/png", "AAAA"), TextBlock("b"))) == 9
    assert output_bytes(()) == 0


@pytest.mark.covers("TEX-17")
def test_images_are_replaced_by_a_line() -> None:
    image = ImageBlock("image/png", "AAAA")
    line = TextBlock("[image left out: this model cannot see images]")
    assert replace_images([TextBlock("a"), image, image]) == (TextBlock("a"), line, line)


def make_context(signal: CancelToken | None = None) -> ToolContext:
    return ToolContext(env=MemoryEnv({}), signal=signal)


@tool
async def echo(text: str) -> str:
    """Repeat."""
    return text


async def test_tool_gets_its_arguments_and_returns_a_result() -> None:
    assert await run_tool(echo, {"text": "hi"}, make_context()) == ToolResult(output="hi")


async def test_invalid_output_type_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def odd() -> Any:
        """Return something that a model cannot read."""
        return object()

    with pytest.raises(TypeError, match="odd") as caught:
        await run_tool(odd, {}, make_context())
    assert [(r.levelno, r.getMessage()) for r in caplog.records] == [(logging.ERROR, str(caught.value))]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (SystemExit(3), "Error: SystemExit: 3"),
        (GeneratorExit(), "Error: GeneratorExit"),
        (asyncio.CancelledError("mine"), "Error: CancelledError: mine"),
    ],
)
async def test_tool_cannot_exit_the_program_or_the_run(error: BaseException, text: str) -> None:
    @tool
    async def stop() -> str:
        """Stop."""
        raise error

    with pytest.raises(ToolError) as caught:
        await run_tool(stop, {}, make_context())
    assert str(caught.value) == text
    assert caught.value.__cause__ is error


@tool
async def interrupt() -> str:
    """Interrupt."""
    raise KeyboardInterrupt


def test_keyboard_interrupt_passes_through() -> None:
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(run_tool(interrupt, {}, make_context()))


async def test_tool_does_not_start_if_the_signal_is_set() -> None:
    signal, ran = CancelToken(), list[int]()

    @tool
    async def act() -> str:
        """Act."""
        ran.append(1)
        return "x"

    signal.cancel("stopped")
    with pytest.raises(asyncio.CancelledError, match="stopped"):
        await run_tool(act, {}, make_context(signal))
    assert ran == []


@pytest.mark.covers("TEX-31")
async def test_signal_cancels_the_tool_and_waits_for_cleanup() -> None:
    signal, cleaned = CancelToken(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        signal.cancel("stopped")
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(3):
                await asyncio.sleep(0)
            cleaned.set()
        return "never"

    with pytest.raises(asyncio.CancelledError):
        await run_tool(wait, {}, make_context(signal))
    assert cleaned.is_set(), "the default grace is enough"


async def test_tool_that_exceeds_the_grace_period_is_abandoned() -> None:
    signal, release, done = CancelToken(), asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        signal.cancel("stopped")
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        done.set()
        return "too late"

    with pytest.raises(asyncio.CancelledError):
        await run_tool(wait, {}, make_context(signal), 0.001)
    assert not done.is_set()
    release.set()
    await done.wait()


async def test_tool_that_finishes_in_the_grace_period_keeps_its_result() -> None:
    signal = CancelToken()

    @tool
    async def finish() -> str:
        """Finish in spite of the signal."""
        signal.cancel("stopped")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done after all"
        return "never"

    assert (await run_tool(finish, {}, make_context(signal), 1)).output == "done after all"


async def test_outside_cancellation_is_raised() -> None:
    started = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        await asyncio.Event().wait()
        return "never"

    run: Any = asyncio.ensure_future(run_tool(wait, {}, make_context()))
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run


def test_bug_in_a_tool_is_logged_and_the_model_gets_no_secrets(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "value-of-the-key-123")

    def look_up() -> None:
        raise KeyError("no entry for value-of-the-key-123 or ghp_" + "a1B2" * 9)

    with pytest.raises(KeyError) as raised:
        look_up()
    result = result_from_exception("shop", raised.value)

    assert result.text == "Error: KeyError: 'no entry for [redacted] or [redacted]'"
    [record] = caplog.records
    assert (record.name, record.levelname) == ("mainspring", "ERROR")
    assert "Tool shop raised an unexpected exception:\nTraceback" in record.message
    assert "in look_up" in record.message
    assert "value-of-the-key-123" not in record.message

    caplog.clear()
    result_from_exception("shop", ToolError("expected"))
    result_from_exception("shop", FileNotFoundError("expected"))
    assert caplog.records == []


async def test_slow_tool_is_stopped_at_its_time_limit() -> None:
    stopped: list[str] = []

    @tool(timeout=0.01)
    async def slow() -> str:
        """Wait."""
        await asyncio.Event().wait()
        return "never"

    @tool(timeout=0.01)
    def blocking(ctx: ToolContext) -> str:
        """Wait in a thread."""
        reached = threading.Event()
        ctx.signal.on_cancel(reached.set)
        reached.wait()
        stopped.append(ctx.signal.reason)
        done.set()
        return "too late"

    @tool(timeout=60)
    async def quick(ctx: ToolContext) -> str:
        """Return at once."""
        return "done"

    done = threading.Event()
    model = ScriptedModel([ScriptedCall("slow"), ScriptedCall("blocking"), ScriptedCall("quick")], "ok")
    result = await Agent(model, tools=[slow, blocking, quick], execution=MemoryEnv({})).run("go")
    texts = [(r.text, r.is_error) for r in result.tool_results]
    text = "{} was stopped at its time limit of 0.01s; what it did until then is unknown."
    assert texts == [(text.format("slow"), True), (text.format("blocking"), True), ("done", False)]
    await asyncio.to_thread(done.wait)
    assert stopped == ["time limit of the tool"]


async def test_abort_and_cancellation_of_a_tool_with_a_time_limit_are_no_timeout() -> None:
    started = asyncio.Event()

    async def wait(arguments: dict[str, Any], ctx: ToolContext) -> str:
        started.set()
        await asyncio.Event().wait()
        return "never"

    slow = Tool(name="slow", description="", input_schema={"type": "object"}, execute=wait, timeout=60)
    signal = CancelToken()
    running = asyncio.ensure_future(run_tool(slow, {}, make_context(signal), 0.01))
    await started.wait()
    signal.cancel("enough")
    with pytest.raises(asyncio.CancelledError):
        await running
    running = asyncio.ensure_future(run_tool(slow, {}, make_context(), 0.01))
    started.clear()
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


@pytest.mark.parametrize("seconds", [0, -1, "5", True, float("nan")])
def test_time_limit_of_a_tool_is_a_number_of_seconds(seconds: Any) -> None:
    with pytest.raises(ConfigError, match="timeout of the tool look must be a number of seconds above 0"):

        @tool(timeout=seconds)
        def look() -> None:
            """Look."""
