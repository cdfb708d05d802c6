"""A conversation that does not fit."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mainspring import Message, Session, define_tool
from mainspring.errors import AgentContextExceededError, ConfigError, ContextExceededError, ErrorCode, NetworkError
from mainspring.loop.hooks import ContextCompacted, ModelErrorHook, SideModelCall
from mainspring.messages import AgentMessage
from mainspring.models import ModelRequest
from mainspring.policies.compaction.auto_compact import window_from_error
from mainspring.testing import ScriptedCall
from tests.unit.policies.harness import agent, requests, texts, words

TOO_LONG = ContextExceededError("prompt is too long: 210000 tokens > 200000 maximum", provider="scripted")
BIG = "x" * 40_000


def looking(*script: Any, output: str = BIG, **options: Any) -> Any:
    async def execute(args: dict[str, Any], ctx: Any) -> str:
        return output

    tool = define_tool("look", {"description": "Look.", "parameters": {"type": "object"}, "execute": execute})
    return agent(*script, tools=[tool], **options)


@pytest.mark.covers("CMP-12")
async def test_results_of_earlier_turns_go_and_the_model_is_asked_again() -> None:
    compacted: list[ContextCompacted] = []
    made = looking(ScriptedCall("look"), ScriptedCall("look"), TOO_LONG, "done")
    made.on(ContextCompacted, compacted.append)

    result = await made.run("go")

    assert result.status == "completed"
    old, last = texts(requests(made)[-1].messages)
    assert old.startswith("[Result of look left out to save room: 40000 bytes")
    assert 16_000 < len(last) < 17_000
    assert "bytes left out, since the conversation was too long" in last
    assert words(made.messages) == ["go"]
    [hook] = compacted
    assert texts(hook.before) == [BIG, BIG]
    assert tuple(made.messages[: len(hook.after)]) == hook.after


@pytest.mark.covers("CMP-12", "CMP-14")
async def test_it_is_done_once_in_a_turn() -> None:
    made = looking(ScriptedCall("look"), ScriptedCall("look"), TOO_LONG, TOO_LONG, "never")

    with pytest.raises(AgentContextExceededError, match="prompt is too long") as caught:
        await made.run("go")

    assert len(requests(made)) == 4
    assert isinstance(caught.value.cause, ContextExceededError)
    assert caught.value.cause.code is ErrorCode.CONTEXT_LENGTH_EXCEEDED


@pytest.mark.covers("CMP-12")
async def test_another_turn_may_need_it_again() -> None:
    made = looking(ScriptedCall("look"), TOO_LONG, ScriptedCall("look"), TOO_LONG, "done")

    assert (await made.run("go")).status == "completed"


@pytest.mark.covers("CMP-14")
@pytest.mark.parametrize("script", [[TOO_LONG, "never"], [ScriptedCall("look"), TOO_LONG, "never"]])
async def test_where_nothing_can_go_the_error_stands(script: Any) -> None:
    made = looking(*script, output="short")

    with pytest.raises(AgentContextExceededError, match="prompt is too long"):
        await made.run("word " * 100)

    assert len(requests(made)) == len(script) - 1


@pytest.mark.covers("CMP-14")
async def test_it_can_be_off() -> None:
    made = looking(ScriptedCall("look"), ScriptedCall("look"), TOO_LONG, "never", on_overflow="fail")

    with pytest.raises(AgentContextExceededError):
        await made.run("go")
    assert texts(made.messages) == [BIG, BIG]

    with pytest.raises(ConfigError, match="on_overflow must be 'compact' or 'fail', or a Compactor, not 'no'"):
        await looking("x", on_overflow="no").run("go")


async def test_other_failures_are_none_of_its_business() -> None:
    made = looking(ScriptedCall("look"), ScriptedCall("look"), NetworkError("down"), "never", retry=None)

    with pytest.raises(Exception, match="down"):
        await made.run("go")
    assert texts(made.messages) == [BIG, BIG]


@pytest.mark.covers("CMP-12")
async def test_the_session_keeps_both_what_is_sent_and_what_was_said(tmp_path: Any) -> None:
    session = Session.create(str(tmp_path), home=tmp_path)
    made = looking(ScriptedCall("look"), ScriptedCall("look"), TOO_LONG, "done", session=session)
    await made.run("go")
    session.close()

    again = Session.open(session.id, home=tmp_path)
    stored = texts(again.messages)
    again.close()

    assert stored == texts(made.messages)
    assert stored[0].startswith("[Result of look left out")
    assert BIG in _stored(tmp_path)


def _stored(folder: Path) -> str:
    return next(folder.rglob("*.jsonl")).read_text()


class Own:
    """A compactor that notes what it is given."""

    def __init__(self, answer: Sequence[AgentMessage] | None) -> None:
        self.answer = answer
        self.asked: list[tuple[int, str, bool]] = []

    async def compact(
        self, messages: Sequence[AgentMessage], *, reason: str, side_call: SideModelCall | None = None
    ) -> Sequence[AgentMessage] | None:
        self.asked.append((len(messages), reason, side_call is not None))
        if self.answer is None and side_call is not None:
            summary = await side_call("summary", ModelRequest([Message.user("sum up")]))
            return [Message.user(summary.text)]
        return self.answer


@pytest.mark.covers("CMP-12")
async def test_a_compactor_of_ones_own_may_ask_a_model() -> None:
    own = Own(None)
    made = looking(ScriptedCall("look"), TOO_LONG, "what happened so far", "done", on_overflow=own)

    result = await made.run("go")

    assert own.asked == [(3, "overflow", True)]
    assert [m.text for m in requests(made)[-1].messages] == ["what happened so far"]
    assert result.text == "done"


@pytest.mark.covers("CMP-12", "CMP-14")
@pytest.mark.parametrize("answer", [[], [Message.user("go"), Message.user("y" * 39_900)]])
async def test_one_that_frees_too_little_is_not_followed(answer: list[AgentMessage]) -> None:
    made = looking(ScriptedCall("look"), TOO_LONG, "never", on_overflow=Own(answer))

    with pytest.raises(AgentContextExceededError):
        await made.run("go")

    assert texts(made.messages) == [BIG]


@pytest.mark.covers("CMP-12", "CMP-14")
async def test_nobody_is_asked_to_compact_twice_in_a_turn() -> None:
    class Halving(Own):
        async def compact(self, messages: Sequence[AgentMessage], **options: Any) -> Sequence[AgentMessage]:
            self.asked.append((len(messages), "", True))
            [message] = messages
            assert isinstance(message, Message)
            return [Message.user(message.text[: len(message.text) // 2])]

    own = Halving(())
    made = looking(TOO_LONG, TOO_LONG, "never", on_overflow=own)

    with pytest.raises(AgentContextExceededError):
        await made.run("word " * 1000)

    assert len(own.asked) == 1
    assert len(requests(made)) == 2


async def test_an_application_that_answers_first_is_not_overruled() -> None:
    made = looking(ScriptedCall("look"), ScriptedCall("look"), TOO_LONG, "done")
    made.on(ModelErrorHook, lambda hook: hook.retry([Message.user("short")]))

    await made.run("go")

    assert words(made.messages) == ["short"]


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
def test_an_error_may_tell_the_window(text: str, window: int | None) -> None:
    assert window_from_error(text) == window
