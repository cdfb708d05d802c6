"""Recording and replay: a recorded run is replayed without model, tools, or clock."""

import ast
from pathlib import Path
from typing import Any

import pytest

from mainspring.cancellation import CancelToken
from mainspring.errors import AgentProviderError, RateLimitedError
from mainspring.loop import LoopContext, LoopOptions, agent_loop
from mainspring.messages import Message, encode_message
from mainspring.models import RetryConfig
from mainspring.testing import RecordingSteps, ReplayError, ReplaySteps
from mainspring.tools import ToolRegistry, tool
from tests.unit.loop.harness import Script, as_message, fail, make_config, text_reply, tool_call_reply, tool_calls_reply


def make_context(ran: list[str]) -> LoopContext:
    @tool
    async def act(n: str) -> str:
        """Act."""
        ran.append(n)
        if n == "bad":
            raise ValueError("it broke")
        return f"did {n}"

    return LoopContext(tools=ToolRegistry([act]))


@pytest.mark.covers("TST-10")
async def test_recorded_run_is_replayed_without_model_tools_or_clock() -> None:
    ran: list[str] = []
    steering, follow_ups = [Message.user("hurry")], [Message.user("and again")]

    def take_from(queue: list[Message]) -> Any:
        return lambda: [queue.pop()] if queue else []

    recorder = RecordingSteps()
    retry = RetryConfig(base_delay_seconds=0.001, max_delay_seconds=0.001, jitter=0)
    model = Script(
        fail(RateLimitedError("slow down")),
        tool_calls_reply(tool_call_reply("act", n="1"), tool_call_reply("act", n="bad"), tool_call_reply("nope")),
        text_reply("a"),
        text_reply("b"),
    )
    live = make_context(ran)
    options: Any = {"behavior": LoopOptions(retry=retry)}
    first = await agent_loop(
        "go",
        live,
        make_config(
            model, steps=recorder, get_steering=take_from(steering), get_follow_up=take_from(follow_ups), **options
        ),
    )
    assert ran == ["1", "bad"]
    assert {"now", "id", "elapsed", "model", "sleep", "steer", "follow_up"} <= {s.kind for s in recorder.record}

    unused_model = Script()
    again = make_context(ran)
    empty: Any = lambda: []  # noqa: E731
    second = await agent_loop(
        [Message.user("go", timestamp=as_message(live.messages[0]).timestamp)],
        again,
        make_config(
            unused_model, steps=ReplaySteps(recorder.record), get_steering=empty, get_follow_up=empty, **options
        ),
    )
    assert ran == ["1", "bad"], "no tool ran again"
    assert unused_model.requests == []
    assert [encode_message(m) for m in again.messages] == [encode_message(m) for m in live.messages]
    assert (second.run_id, second.stats.seconds, second.stats.tool_counts) == (
        first.run_id,
        first.stats.seconds,
        first.stats.tool_counts,
    )


@pytest.mark.covers("TST-10")
async def test_replay_that_differs_from_its_record_fails() -> None:
    recorder = RecordingSteps()
    await agent_loop("go", LoopContext(), make_config(Script(text_reply("a")), steps=recorder))
    with pytest.raises(ReplayError, match="'steer'"):
        await agent_loop(
            "go", LoopContext(), make_config(Script(), steps=ReplaySteps(recorder.record), get_steering=lambda: [])
        )


async def test_failed_request_is_replayed_with_its_error() -> None:
    recorder = RecordingSteps()
    options: Any = {"behavior": LoopOptions(retry=None)}
    for steps in (recorder, None):
        given = steps or ReplaySteps(recorder.record)
        with pytest.raises(AgentProviderError, match="slow down") as caught:
            await agent_loop(
                "go", LoopContext(), make_config(Script(fail(RateLimitedError("slow down"))), steps=given, **options)
            )
        cause = caught.value.cause
        assert isinstance(cause, RateLimitedError)


async def test_sleep_ends_when_the_run_is_aborted() -> None:
    signal = CancelToken()
    signal.cancel()
    await RecordingSteps().sleep(3600, signal)


@pytest.mark.covers("TST-10")
def test_loop_uses_clock_randomness_and_model_only_through_steps(repository: Path) -> None:
    """Only `steps.py` may access the clock, randomness, sleep, and the model."""
    forbidden = {"time", "random", "uuid", "secrets", "os", "datetime", "socket", "subprocess"}
    for path in sorted((repository / "src/mainspring/loop").glob("*.py")):
        if path.name == "steps.py":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {a.name.split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
        imported |= {str(n.module).split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
        assert not imported & forbidden, path.name
        called = {ast.unparse(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
        assert not {c for c in called if c.endswith((".stream", ".complete", "utc_now"))} & {
            "model.stream",
            "provider.stream",
            "utc_now",
        }, path.name
