"""Conversations that exceed the context window."""

import re
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from mainspring import Message, Session, define_tool
from mainspring.errors import AgentContextExceededError, ConfigError, ContextExceededError, ErrorCode, NetworkError
from mainspring.events import ContextCompacted
from mainspring.loop.hooks import ModelErrorHook, SideModelCall
from mainspring.messages import AgentMessage, Usage
from mainspring.models import ModelRequest
from mainspring.models.token_refusals import parse_limits
from mainspring.policies.compaction import Compaction
from mainspring.testing import Reply, ScriptedCall
from tests.unit.policies.harness import make_agent, requests, texts, words

TOO_LONG = ContextExceededError("prompt is too long: 210000 tokens > 200000 maximum", provider="scripted")
BIG = "x" * 40_000


def agent_with_output(*script: Any, output: str = BIG, **options: Any) -> Any:
    async def execute(args: dict[str, Any], ctx: Any) -> str:
        return output

    tool = define_tool("look", {"description": "Look.", "parameters": {"type": "object"}, "execute": execute})
    return make_agent(*script, tools=[tool], **options)


@pytest.mark.covers("CMP-12", "RET-18")
async def test_overflow_drops_old_results_and_retries() -> None:
    compacted: list[ContextCompacted] = []
    agent = agent_with_output(ScriptedCall("look"), ScriptedCall("look"), TOO_LONG, "done")
    agent.on(ContextCompacted, compacted.append)

    result = await agent.run("go")

    assert result.status == "completed"
    old, last = texts(requests(agent)[-1].messages)
    assert old.startswith("[Result of look left out to save space: 40000 bytes")
    assert 16_000 < len(last) < 17_000
    assert "bytes left out, since the conversation was too long" in last
    assert words(agent.messages) == ["go"]
    [event] = compacted
    assert texts(event.replaced) == [BIG, BIG]
    assert tuple(agent.messages[: event.after]) == event.messages


async def test_note_counts_everything_that_repeated_overflows_left_out() -> None:
    agent = agent_with_output(ScriptedCall("look"), TOO_LONG, TOO_LONG, TOO_LONG, "done")

    assert (await agent.run("go")).text == "done"

    [last] = texts(requests(agent)[-1].messages)
    [left_out] = re.findall(r"\[\.\.\. (\d+) bytes left out", last)
    assert last.count("x") == len(BIG) - int(left_out)
    assert len(last) < 5_000


@pytest.mark.parametrize(
    ("usage", "is_compacted"),
    [
        (Usage(7000, 1192), True),
        (Usage(7000, 1190), True),
        (Usage(7000, 1500), False),
        (Usage(100, 16_384), False),
        (Usage(1024, 4096), False),
    ],
)
async def test_full_window_during_reasoning_compacts(usage: Usage, is_compacted: bool) -> None:
    full = Reply(thinking="hm", stop_reason="max_tokens", usage=usage)
    agent = agent_with_output(ScriptedCall("look"), ScriptedCall("look"), full, "done")

    result = await agent.run("go")

    assert (result.text, len(requests(agent))) == (("done", 4) if is_compacted else ("", 3))
    assert result.stop_reason == ("end_turn" if is_compacted else "max_tokens")
    if is_compacted:
        assert texts(requests(agent)[-1].messages)[0].startswith("[Result of look left out to save space")
        assert result.usage.output_tokens >= usage.output_tokens


async def test_full_window_that_cannot_be_compacted_ends_the_run() -> None:
    agent = agent_with_output(Reply(thinking="hm", stop_reason="max_tokens", usage=Usage(7000, 1192)), "never")

    result = await agent.run("go")

    assert (result.status, result.stop_reason, len(requests(agent))) == ("completed", "max_tokens", 1)


@pytest.mark.covers("CMP-12", "CMP-14")
async def test_overflow_after_three_compactions_fails() -> None:
    agent = agent_with_output(ScriptedCall("look"), ScriptedCall("look"), *[TOO_LONG] * 4, "never")

    with pytest.raises(AgentContextExceededError, match="prompt is too long") as caught:
        await agent.run("go")

    lengths = [len(texts(request.messages)[-1]) for request in requests(agent)[2:]]
    assert lengths[0] == len(BIG)
    assert [length // 4000 for length in lengths] == [10, 4, 2, 1]
    assert isinstance(caught.value.cause, ContextExceededError)
    assert caught.value.cause.code is ErrorCode.CONTEXT_LENGTH_EXCEEDED


async def test_result_of_the_newest_turn_is_shortened_if_a_summary_frees_nothing() -> None:
    script = [ScriptedCall("look"), TOO_LONG, "A summary of what was said.", "done"]
    agent = agent_with_output(*script, compaction=Compaction())

    assert (await agent.run("go")).text == "done"

    [result] = texts(requests(agent)[-1].messages)
    assert 16_000 < len(result) < 17_000


@pytest.mark.covers("CMP-12")
async def test_overflow_is_handled_again_in_another_turn() -> None:
    agent = agent_with_output(ScriptedCall("look"), TOO_LONG, ScriptedCall("look"), TOO_LONG, "done")

    assert (await agent.run("go")).status == "completed"


@pytest.mark.covers("CMP-14")
@pytest.mark.parametrize("script", [[TOO_LONG, "never"], [ScriptedCall("look"), TOO_LONG, "never"]])
async def test_overflow_fails_if_nothing_can_be_dropped(script: Any) -> None:
    agent = agent_with_output(*script, output="short")

    with pytest.raises(AgentContextExceededError, match="prompt is too long"):
        await agent.run("word " * 100)

    assert len(requests(agent)) == len(script) - 1


@pytest.mark.covers("CMP-14")
async def test_overflow_handling_can_be_off() -> None:
    agent = agent_with_output(ScriptedCall("look"), ScriptedCall("look"), TOO_LONG, "never", on_overflow="fail")

    with pytest.raises(AgentContextExceededError):
        await agent.run("go")
    assert texts(agent.messages) == [BIG, BIG]

    with pytest.raises(ConfigError, match="on_overflow must be 'compact' or 'fail', or a Compactor, not 'no'"):
        await agent_with_output("x", on_overflow="no").run("go")


async def test_other_errors_are_not_handled() -> None:
    agent = agent_with_output(ScriptedCall("look"), ScriptedCall("look"), NetworkError("down"), "never", retry=None)

    with pytest.raises(Exception, match="down"):
        await agent.run("go")
    assert texts(agent.messages) == [BIG, BIG]


@pytest.mark.covers("CMP-12")
async def test_session_stores_the_original_and_the_shortened_results(tmp_path: Any) -> None:
    session = Session.create(str(tmp_path), home=tmp_path)
    agent = agent_with_output(ScriptedCall("look"), ScriptedCall("look"), TOO_LONG, "done", session=session)
    await agent.run("go")
    session.close()

    again = Session.open(session.id, home=tmp_path)
    stored = texts(again.messages)
    again.close()

    assert stored == texts(agent.messages)
    assert stored[0].startswith("[Result of look left out")
    assert BIG in _read_session(tmp_path)


def _read_session(folder: Path) -> str:
    return next(folder.rglob("*.jsonl")).read_text()


class RecordingCompactor:
    """Records its arguments and returns a fixed history or a summary."""

    def __init__(self, answer: Sequence[AgentMessage] | None) -> None:
        self.answer = answer
        self.calls: list[tuple[int, str, bool]] = []

    async def compact(
        self, messages: Sequence[AgentMessage], *, reason: str, side_call: SideModelCall | None = None
    ) -> Sequence[AgentMessage] | None:
        self.calls.append((len(messages), reason, side_call is not None))
        if self.answer is None and side_call is not None:
            summary = await side_call("summary", ModelRequest([Message.user("sum up")]))
            return [Message.user(summary.text)]
        return self.answer


@pytest.mark.covers("CMP-12")
async def test_custom_compactor_can_call_a_model() -> None:
    compactor = RecordingCompactor(None)
    agent = agent_with_output(ScriptedCall("look"), TOO_LONG, "what happened so far", "done", on_overflow=compactor)

    result = await agent.run("go")

    assert compactor.calls == [(3, "overflow", True)]
    assert [m.text for m in requests(agent)[-1].messages] == ["what happened so far"]
    assert result.text == "done"


@pytest.mark.covers("CMP-12", "CMP-14")
@pytest.mark.parametrize("answer", [[], [Message.user("go"), Message.user("y" * 39_900)]])
async def test_compactor_that_frees_too_little_is_ignored(answer: list[AgentMessage]) -> None:
    agent = agent_with_output(ScriptedCall("look"), TOO_LONG, "never", on_overflow=RecordingCompactor(answer))

    with pytest.raises(AgentContextExceededError):
        await agent.run("go")

    assert texts(agent.messages) == [BIG]


@pytest.mark.covers("CMP-12", "CMP-14")
@pytest.mark.parametrize("overflows", [2, 3, 4])
async def test_compactor_runs_up_to_three_times_in_a_turn(overflows: int) -> None:
    class HalvingCompactor(RecordingCompactor):
        async def compact(self, messages: Sequence[AgentMessage], **options: Any) -> Sequence[AgentMessage]:
            self.calls.append((len(messages), "", True))
            [message] = messages
            assert isinstance(message, Message)
            return [Message.user(message.text[: len(message.text) // 2])]

    compactor = HalvingCompactor(())
    agent = agent_with_output(*[TOO_LONG] * overflows, "done", on_overflow=compactor)

    with pytest.raises(AgentContextExceededError) if overflows > 3 else nullcontext():
        assert (await agent.run("word " * 1000)).text == "done"

    assert len(compactor.calls) == min(overflows, 3)
    assert len(requests(agent)) == min(overflows + 1, 4)


async def test_retry_by_an_application_takes_precedence() -> None:
    agent = agent_with_output(ScriptedCall("look"), ScriptedCall("look"), TOO_LONG, "done")
    agent.on(ModelErrorHook, lambda hook: hook.retry([Message.user("short")]))

    await agent.run("go")

    assert words(agent.messages) == ["short"]


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("prompt is too long: 210000 tokens > 200000 maximum", 200_000),
        (
            "This model's maximum context length is 131072 tokens. However, your messages resulted in 140000 tokens.",
            131_072,
        ),
        ("The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).", 1_048_576),
        ("This model's maximum prompt length is 131072 but the request contains 537812 tokens.", 131_072),
        ("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000", 200_000),
        (
            "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
            32_768,
        ),
        ("Your request exceeded model token limit: 131072", 131_072),
        ("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens", 4096),
        ("request (9021 tokens) exceeds the available context size (8192 tokens), try increasing it", 8192),
        ("prompt too long; exceeded max context length by 500 tokens", None),
        ("Context size has been exceeded.", None),
    ],
)
def test_window_from_error(text: str, window: int | None) -> None:
    assert parse_limits(text).context_window == window


def plain_history(count: int, size: int = 2_000) -> list[Message]:
    return [
        Message.user(f"question {n} " + "x" * size) if n % 2 == 0 else Message.assistant(f"answer {n} " + "y" * size)
        for n in range(count)
    ]


@pytest.mark.covers("CMP-12")
@pytest.mark.parametrize("has_results", [False, True])
async def test_overflow_of_messages_is_summarized_once_by_default(has_results: bool) -> None:
    history = plain_history(120)
    call = [ScriptedCall("look")] if has_results else []
    agent = agent_with_output(*call, TOO_LONG, "## Goal\nThe summary", "done", output="small", messages=history)

    result = await agent.run("hi")

    assert (result.status, result.text) == ("completed", "done")
    assert len(requests(agent)) == len(call) + 3
    last = requests(agent)[-1].messages
    assert "The summary" in last[0].text
    assert len(last) < 60
    assert words(last)[-1] == "hi"


async def test_overflow_that_no_compaction_can_resolve_fails_without_another_request() -> None:
    agent = agent_with_output(TOO_LONG, "never")

    with pytest.raises(AgentContextExceededError):
        await agent.run("x" * 100_000)

    assert len(requests(agent)) == 1
