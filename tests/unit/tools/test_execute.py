"""Running one tool: what it raises, how it is cancelled, and how its failure and its output are described."""

import asyncio
import logging
from typing import Any

import pytest

from mainspring.cancellation import CancelToken
from mainspring.env import MemoryEnv
from mainspring.errors import PermissionDeniedError, ToolError
from mainspring.messages import ImageBlock, TextBlock
from mainspring.tools import ToolContext, ToolErrorCode, ToolResult, tool
from mainspring.tools.execute import (
    error_result,
    output_bytes,
    rebuild_exception,
    replace_images,
    result_from_exception,
    run_tool,
    safe_str,
)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


class Missing(FileNotFoundError):
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
        (Missing("y.txt"), "Error: y.txt", ToolErrorCode.NOT_FOUND),
        (OSError("disk"), "Error: disk", ToolErrorCode.IO_ERROR),
        (ValueError("bad"), "Error: ValueError: bad", ToolErrorCode.UNKNOWN),
        (Unspeakable(), "Error: Unspeakable: (its text cannot be had: ValueError)", ToolErrorCode.UNKNOWN),
    ],
)
def test_an_exception_becomes_an_error_with_a_code(error: Exception, text: str, code: ToolErrorCode) -> None:
    result = result_from_exception("look", error)
    assert (result.output, result.is_error, result.code) == (text, True, code)
    assert (result.title, result.metadata, result.attachments) == ("", {}, ())


def test_an_error_result_is_an_error() -> None:
    assert error_result("x", ToolErrorCode.TIMEOUT) == ToolResult(output="x", is_error=True, code=ToolErrorCode.TIMEOUT)
    assert safe_str(KeyError("x")) == "'x'"


@pytest.mark.parametrize("kind", [ToolError, PermissionDeniedError, TimeoutError, FileNotFoundError, OSError])
def test_a_known_exception_is_rebuilt_as_its_class(kind: type[Exception]) -> None:
    error = rebuild_exception(kind.__name__, "why")
    assert (type(error), str(error)) == (kind, "why")


def test_an_unknown_exception_is_rebuilt_under_its_name() -> None:
    error = rebuild_exception("OddError", "why")
    assert (type(error).__name__, type(error).__bases__, str(error)) == ("OddError", (Exception,), "why")
    assert result_from_exception("look", error).output == "Error: OddError: why"


@pytest.mark.covers("TEX-19")
def test_the_size_of_an_output_is_its_utf8_text_and_its_base64_images() -> None:
    assert (output_bytes(""), output_bytes("a€"), output_bytes("\ud800")) == (0, 4, 1)
    assert output_bytes((TextBlock("a€"), ImageBlock("image/png", "AAAA"), TextBlock("b"))) == 9
    assert output_bytes(()) == 0


@pytest.mark.covers("TEX-17")
def test_each_image_is_replaced_by_a_line_and_text_stays() -> None:
    image = ImageBlock("image/png", "AAAA")
    line = TextBlock("[image left out: this model cannot see images]")
    assert replace_images([TextBlock("a"), image, image]) == (TextBlock("a"), line, line)


def context(signal: CancelToken | None = None) -> ToolContext:
    return ToolContext(env=MemoryEnv({}), signal=signal)


@tool
async def echo(text: str) -> str:
    """Repeat."""
    return text


async def test_a_tool_gets_its_arguments_and_its_output_is_a_result() -> None:
    assert await run_tool(echo, {"text": "hi"}, context()) == ToolResult(output="hi")


async def test_an_output_of_the_wrong_type_is_logged_for_the_developer(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def odd() -> Any:
        """Return something that a model cannot read."""
        return object()

    with pytest.raises(TypeError, match="odd") as caught:
        await run_tool(odd, {}, context())
    assert [(r.levelno, r.getMessage()) for r in caplog.records] == [(logging.ERROR, str(caught.value))]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (SystemExit(3), "Error: SystemExit: 3"),
        (GeneratorExit(), "Error: GeneratorExit: "),
        (asyncio.CancelledError("mine"), "Error: CancelledError: mine"),
    ],
)
async def test_a_tool_cannot_end_the_program_or_the_run(error: BaseException, text: str) -> None:
    @tool
    async def stop() -> str:
        """Stop."""
        raise error

    with pytest.raises(ToolError) as caught:
        await run_tool(stop, {}, context())
    assert str(caught.value) == text
    assert caught.value.__cause__ is error


@tool
async def interrupt() -> str:
    """Interrupt."""
    raise KeyboardInterrupt


def test_an_interrupt_passes_through() -> None:
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(run_tool(interrupt, {}, context()))


async def test_a_set_signal_runs_nothing() -> None:
    signal, ran = CancelToken(), list[int]()

    @tool
    async def act() -> str:
        """Act."""
        ran.append(1)
        return "x"

    signal.cancel("stopped")
    with pytest.raises(asyncio.CancelledError, match="stopped"):
        await run_tool(act, {}, context(signal))
    assert ran == []


@pytest.mark.covers("TEX-31")
async def test_a_signal_cancels_the_tool_and_the_grace_is_that_of_the_caller() -> None:
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
        await run_tool(wait, {}, context(signal))
    assert cleaned.is_set(), "the default grace is enough"


async def test_a_tool_that_outlasts_its_grace_is_abandoned() -> None:
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
        await run_tool(wait, {}, context(signal), 0.001)
    assert not done.is_set()
    release.set()
    await done.wait()


async def test_a_tool_that_finishes_during_the_grace_keeps_its_result() -> None:
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

    assert (await run_tool(finish, {}, context(signal), 1)).output == "done after all"


async def test_a_cancellation_from_outside_is_a_cancellation() -> None:
    started = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        await asyncio.Event().wait()
        return "never"

    run: Any = asyncio.ensure_future(run_tool(wait, {}, context()))
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
