"""A tool that stops in an odd way is a failed call, never the end of the run or of the program."""

import asyncio
import threading
from typing import Any

import pytest

from mainspring.errors import AgentAbortedError
from mainspring.messages import TextBlock
from mainspring.tools import ToolResult, define_tool, tool
from tests.unit.loop.harness import Script, agent, assert_results_follow_calls, calls, said, text_reply, tool_call_reply


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


STOPS = [SystemExit(3), GeneratorExit(), asyncio.CancelledError(), BaseExceptionGroup("g", [SystemExit(1)]),
         StopIteration(7), StopAsyncIteration(), Unspeakable()]  # fmt: skip


def stopping(error: BaseException, kind: str) -> Any:
    def stop(*_: Any) -> str:
        raise error

    async def stop_soon() -> str:
        await asyncio.sleep(0)
        raise error

    if kind == "parts":
        return define_tool("stop", description="Stop.", parameters={"type": "object", "properties": {}}, execute=stop)
    return tool(name="stop", description="Stop.")(stop_soon if kind == "async" else lambda: stop())


@tool
async def fine() -> str:
    """Go on."""
    await asyncio.sleep(0)
    return "fine"


@pytest.mark.covers("TDF-12", "TEX-21")
@pytest.mark.parametrize("kind", ["async", "sync", "parts"])
@pytest.mark.parametrize("error", STOPS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("among", [False, True])
async def test_whatever_a_tool_raises_is_its_result(error: BaseException, kind: str, among: bool) -> None:
    request = (
        [tool_call_reply("fine"), tool_call_reply("stop"), tool_call_reply("fine")]
        if among
        else [tool_call_reply("stop")]
    )
    a = agent(Script(calls(*request), text_reply("done")), tools=[stopping(error, kind), fine])
    async with asyncio.timeout(5):
        result = await a.run("go")
    assert result.text == "done"
    assert_results_follow_calls(a.messages)
    results = {r.name: r for r in said(a.messages[2]).tool_results}
    assert results["stop"].is_error
    assert type(error).__name__ in results["stop"].text or isinstance(error, StopIteration | StopAsyncIteration)
    assert not among or results["fine"].text == "fine"


async def test_cancelling_the_run_is_no_failure_of_the_tool() -> None:
    started = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        await asyncio.Event().wait()
        return ""

    a = agent(Script(calls(tool_call_reply("wait"), tool_call_reply("fine")), text_reply("done")), tools=[wait, fine])
    run = asyncio.ensure_future(a.run("go"))
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert_results_follow_calls(a.messages)


async def test_calls_that_wait_for_room_are_given_up_quietly(recwarn: pytest.WarningsRecorder) -> None:
    started = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        await asyncio.Event().wait()
        return ""

    a = agent(Script(calls(*[tool_call_reply("wait") for _ in range(60)]), text_reply("done")), tools=[wait])
    run = asyncio.ensure_future(a.run("go"))
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert_results_follow_calls(a.messages)
    assert not [w for w in recwarn if "never awaited" in str(w.message)]


@pytest.mark.parametrize("output", [None, 5, ["a"], {"a": 1}, b"x", (1, 2), (TextBlock("a"), "b")])
async def test_an_output_that_is_none_becomes_one(output: Any) -> None:
    @tool
    async def odd() -> ToolResult:
        """Give something else."""
        return ToolResult(output=output, title="t")

    a = agent(Script(tool_call_reply("odd"), text_reply("done")), tools=[odd])
    await a.run("go")
    assert isinstance(said(a.messages[2]).tool_results[0].content, str)


async def test_a_transform_may_give_plain_text() -> None:
    a = agent(Script(calls(tool_call_reply("fine"), tool_call_reply("fine")), text_reply("done")), tools=[fine])
    a.on("tool:transform", lambda ctx: {"result": "shorter"})
    await a.run("go")
    assert [r.text for r in said(a.messages[2]).tool_results] == ["shorter", "shorter"]


def test_a_thread_that_never_ends_holds_neither_the_loop_nor_the_next_call() -> None:
    hold, inside = threading.Event(), threading.Semaphore(0)

    @tool
    def block() -> str:
        """Block."""
        inside.release()
        hold.wait()
        return ""

    async def main() -> None:
        a = agent(Script(calls(*[tool_call_reply("block") for _ in range(40)]), text_reply("done")), tools=[block])
        run = asyncio.ensure_future(a.run("go"))
        await asyncio.to_thread(inside.acquire)
        a.abort()
        with pytest.raises(AgentAbortedError):
            await run
        assert_results_follow_calls(a.messages)
        assert await asyncio.to_thread(lambda: "free") == "free"

    try:
        asyncio.run(asyncio.wait_for(main(), 20))
    finally:
        hold.set()
