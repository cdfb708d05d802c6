"""A tool that raises an unusual exception fails only its own call, not the run or the program."""

import asyncio
import threading
from typing import Any

import pytest

from mainspring.errors import AgentAbortedError
from mainspring.messages import TextBlock
from mainspring.tools import ToolResult, define_tool, tool
from tests.unit.loop.harness import (
    Script,
    as_message,
    assert_results_follow_calls,
    make_agent,
    text_reply,
    tool_call_reply,
    tool_calls_reply,
)


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


STOPS = [SystemExit(3), GeneratorExit(), asyncio.CancelledError(), BaseExceptionGroup("g", [SystemExit(1)]),
         StopIteration(7), StopAsyncIteration(), UnprintableError()]  # fmt: skip


def make_failing_tool(error: BaseException, kind: str) -> Any:
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
    """Succeed."""
    await asyncio.sleep(0)
    return "fine"


@pytest.mark.covers("TDF-12", "TEX-21")
@pytest.mark.parametrize("kind", ["async", "sync", "parts"])
@pytest.mark.parametrize("error", STOPS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("is_parallel", [False, True])
async def test_tool_exception_of_any_kind_becomes_its_result(
    error: BaseException, kind: str, is_parallel: bool
) -> None:
    request = (
        [tool_call_reply("fine"), tool_call_reply("stop"), tool_call_reply("fine")]
        if is_parallel
        else [tool_call_reply("stop")]
    )
    agent = make_agent(
        Script(tool_calls_reply(*request), text_reply("done")), tools=[make_failing_tool(error, kind), fine]
    )
    result = await agent.run("go")
    assert result.text == "done"
    assert_results_follow_calls(agent.messages)
    results = {r.name: r for r in as_message(agent.messages[2]).tool_results}
    assert results["stop"].is_error
    assert type(error).__name__ in results["stop"].text or isinstance(error, StopIteration | StopAsyncIteration)
    assert not is_parallel or results["fine"].text == "fine"


async def test_cancelling_the_run_is_not_a_tool_failure() -> None:
    started = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        await asyncio.Event().wait()
        return ""

    agent = make_agent(
        Script(tool_calls_reply(tool_call_reply("wait"), tool_call_reply("fine")), text_reply("done")),
        tools=[wait, fine],
    )
    run = asyncio.ensure_future(agent.run("go"))
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert_results_follow_calls(agent.messages)


async def test_cancelling_queued_calls_leaves_no_warnings(recwarn: pytest.WarningsRecorder) -> None:
    started = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        await asyncio.Event().wait()
        return ""

    agent = make_agent(
        Script(tool_calls_reply(*[tool_call_reply("wait") for _ in range(60)]), text_reply("done")), tools=[wait]
    )
    run = asyncio.ensure_future(agent.run("go"))
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert_results_follow_calls(agent.messages)
    assert not [w for w in recwarn if "never awaited" in str(w.message)]


@pytest.mark.parametrize("output", [None, 5, ["a"], {"a": 1}, b"x", (1, 2), (TextBlock("a"), "b")])
async def test_invalid_output_is_converted_to_text(output: Any) -> None:
    @tool
    async def odd() -> ToolResult:
        """Return invalid output."""
        return ToolResult(output=output, title="t")

    agent = make_agent(Script(tool_call_reply("odd"), text_reply("done")), tools=[odd])
    await agent.run("go")
    assert isinstance(as_message(agent.messages[2]).tool_results[0].content, str)


async def test_transform_can_return_plain_text() -> None:
    agent = make_agent(
        Script(tool_calls_reply(tool_call_reply("fine"), tool_call_reply("fine")), text_reply("done")), tools=[fine]
    )
    agent.on("tool:transform", lambda ctx: {"result": "shorter"})
    await agent.run("go")
    assert [r.text for r in as_message(agent.messages[2]).tool_results] == ["shorter", "shorter"]


def test_blocked_thread_stops_neither_the_loop_nor_the_next_call() -> None:
    hold, inside = threading.Event(), threading.Semaphore(0)

    @tool
    def block() -> str:
        """Block."""
        inside.release()
        hold.wait()
        return ""

    async def main() -> None:
        agent = make_agent(
            Script(tool_calls_reply(*[tool_call_reply("block") for _ in range(40)]), text_reply("done")), tools=[block]
        )
        run = asyncio.ensure_future(agent.run("go"))
        await asyncio.to_thread(inside.acquire)
        agent.abort()
        with pytest.raises(AgentAbortedError):
            await run
        assert_results_follow_calls(agent.messages)
        assert await asyncio.to_thread(lambda: "free") == "free"

    try:
        asyncio.run(main())
    finally:
        hold.set()
