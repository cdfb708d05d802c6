"""The repair of a conversation when a request is built."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from mainspring.messages import ImageBlock, Message, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from mainspring.models.codec.normalize import (
    MISSING_RESULT_TEXT,
    iter_complete_turns,
    nine_char_id,
    prepare_message,
    rename_repeated_calls,
    sanitize_call_id,
)


def user(*blocks: Any) -> Message:
    return Message("user", tuple(TextBlock(b) if isinstance(b, str) else b for b in blocks))


def call_tools(*ids: str, **fields: Any) -> Message:
    return Message("assistant", tuple(ToolUseBlock(id, f"tool_{id}") for id in ids), **fields)


def make_result(id: str, text: str = "ok", **fields: Any) -> ToolResultBlock:
    return ToolResultBlock(id, f"tool_{id}", text, **fields)


def repair(*messages: Message) -> list[Message]:
    return [m for unit, _ in iter_complete_turns(messages) for m in unit]


def outline(messages: list[Message]) -> list[str]:
    """Return one word per block: ``u:text``, ``+id`` for a call, ``-id`` for its result, ``!id`` for an inserted result."""
    words: list[str] = []
    for message in messages:
        for block in message.content:
            match block:
                case ToolUseBlock():
                    words.append(f"+{block.id}")
                case ToolResultBlock():
                    words.append(f"{'!' if block.text == MISSING_RESULT_TEXT else '-'}{block.tool_use_id}")
                case TextBlock():
                    words.append(f"{message.role[0]}:{block.text}")
                case _:
                    words.append(type(block).__name__)
    return words


@pytest.mark.covers("MSG-21", "MSG-23", "TST-09")
@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([user("a"), call_tools("1"), user(make_result("1")), user("b")], "u:a +1 -1 u:b"),
        ([user("a"), call_tools("1", "2"), user(make_result("2"), make_result("1"))], "u:a +1 +2 -1 -2"),
        ([user("a"), call_tools("1", "2"), user(make_result("1")), user(make_result("2"))], "u:a +1 +2 -1 -2"),
        (
            [
                user("a"),
                call_tools("1", "2"),
                user("wait"),
                user(make_result("2")),
                user("now"),
                user(make_result("1"), "b"),
            ],
            "u:a +1 +2 -1 -2 u:wait u:now u:b",
        ),
        ([user("a"), call_tools("1")], "u:a +1 !1"),
        ([user("a"), call_tools("1"), user("b")], "u:a +1 !1 u:b"),
        ([user("a"), call_tools("1", "2"), user(make_result("2"))], "u:a +1 +2 !1 -2"),
        ([user("a"), call_tools("1"), call_tools("2"), user(make_result("2"), make_result("1"))], "u:a +1 !1 +2 -2"),
        ([user(make_result("9")), user("a")], "u:a"),
        ([user("a", make_result("9"))], "u:a"),
        ([user("a"), call_tools("1"), user(make_result("1"), make_result("9"))], "u:a +1 -1"),
        ([user("a"), call_tools("1"), user(make_result("1")), user(make_result("1", "again"), "b")], "u:a +1 -1 u:b"),
        (
            [user("a"), call_tools("1"), user(make_result("1")), call_tools("1"), user(make_result("1"))],
            "u:a +1 -1 +1 -1",
        ),
        ([user("a"), call_tools("1", "1"), user(make_result("1"))], "u:a +1 -1"),
        (
            [user("a"), call_tools("1", stop_reason="aborted"), user(make_result("1", is_error=True)), user("b")],
            "u:a u:b",
        ),
        ([user("a"), call_tools("1", stop_reason="error"), user("b")], "u:a u:b"),
        ([user("a"), call_tools("1", stop_reason="error")], "u:a"),
        (
            [
                user("a"),
                call_tools("1", "2", stop_reason="aborted"),
                user(make_result("1"), make_result("2", is_error=True)),
            ],
            "u:a +1 +2 -1 -2",
        ),
        (
            [user("a"), Message.assistant("half", stop_reason="aborted"), user("b")],
            "u:a a:half u:[Your response above was interrupted (aborted) before it was complete; the user saw it up to there.] u:b",
        ),
        ([user("a"), Message.assistant("whole", stop_reason="max_tokens"), user("b")], "u:a a:whole u:b"),
        ([user("a"), call_tools("1"), Message.system("s"), user(make_result("1"))], "u:a +1 -1 s:s"),
    ],
)
def test_each_call_is_followed_by_exactly_one_result(history: list[Message], expected: str) -> None:
    assert " ".join(outline(repair(*history))) == expected


@pytest.mark.covers("MSG-21", "TST-09")
def test_missing_result_is_replaced_by_an_error_with_the_tool_name() -> None:
    [_, result] = repair(call_tools("1"))

    assert result.content == (
        ToolResultBlock("1", "tool_1", "Tool execution was interrupted; its outcome is unknown", True),
    )


def test_repeated_call_ids_of_later_turns_are_renamed_with_their_results() -> None:
    turns = [[call_tools("read_0", "list_1"), user(make_result("read_0"), make_result("list_1"))] for _ in range(3)]
    used: set[str] = set()
    renamed: list[list[Message]] = []
    for unit in turns:
        renamed.append(rename_repeated_calls(unit, used))
        used.update(call.id for call in renamed[-1][0].tool_uses)

    assert renamed[0] is turns[0]
    assert [outline(unit) for unit in renamed[1:]] == [
        [f"+read_0_{n}", f"+list_1_{n}", f"-read_0_{n}", f"-list_1_{n}"] for n in (2, 3)
    ]


def test_valid_messages_are_not_copied() -> None:
    history = [user("a"), call_tools("1"), user(make_result("1"), "and"), Message.assistant("b")]

    assert [id(m) for m in repair(*history)] == [id(m) for m in history]


def test_history_is_not_changed() -> None:
    history = [call_tools("1", "2"), user(make_result("2"), make_result("9")), user("b")]
    before = [m.content for m in history]

    repair(*history)

    assert [m.content for m in history] == before


IDS = st.sampled_from("123")
STEPS = st.one_of(
    st.builds(lambda ids: call_tools(*ids), st.lists(IDS, min_size=1, max_size=3)),
    st.builds(lambda ids: call_tools(*ids, stop_reason="aborted"), st.lists(IDS, min_size=1, max_size=2)),
    st.builds(lambda ids: user(*[make_result(i) for i in ids]), st.lists(IDS, min_size=1, max_size=3)),
    st.just(user("text")),
    st.just(Message.assistant("answer")),
)


@given(st.lists(STEPS, max_size=10))
def test_any_history_becomes_valid(history: list[Message]) -> None:
    repaired = repair(*history)

    for before, message in zip([None, *repaired], repaired, strict=False):
        called_ids = [c.id for c in before.tool_uses] if before else []
        assert [r.tool_use_id for r in message.tool_results] == (called_ids if message.tool_results else [])
        assert bool(message.tool_results) == bool(called_ids)
    assert not repaired or not repaired[-1].tool_uses


@given(st.lists(STEPS, max_size=10), st.data())
def test_repair_can_continue_from_a_complete_turn(history: list[Message], data: st.DataObject) -> None:
    split = data.draw(st.integers(0, len(history)))
    settled: list[Message] = []
    at = 0
    for unit, end in iter_complete_turns(history[:split]):
        if end > at:
            settled += unit
            at = end

    continued = settled + [m for unit, _ in iter_complete_turns(history, at) for m in unit]

    assert outline(continued) == outline(repair(*history))


# --- single messages ---------------------------------------------------------------------------------------------------


def test_content_that_the_receiver_cannot_use_is_removed() -> None:
    thought = Message("assistant", (ThinkingBlock("Hm.", "sig"), TextBlock("So.", "sig")), provider="p", model="m")

    assert prepare_message(thought, "p", "m", vision=True) is thought
    for provider, model in (("p", "other"), ("other", "m")):
        cleaned = prepare_message(thought, provider, model, vision=True)
        assert cleaned is not None
        assert cleaned.content == (TextBlock("So."),)
    assert (
        prepare_message(Message("assistant", (ThinkingBlock("Hm."),), provider="p", model="m"), "p", "m", vision=True)
        is None
    )
    assert prepare_message(user("", " \n"), "p", "m", vision=True) is None


def test_images_become_text_for_a_model_without_vision() -> None:
    picture = ImageBlock("image/png", "QUJD")
    message = Message("user", (ToolResultBlock("1", "shot", (picture,)), picture))

    assert prepare_message(message, "p", "m", vision=True) is message
    blind = prepare_message(message, "p", "m", vision=False)
    assert blind is not None
    result, text = blind.content
    marker = TextBlock("[image/png image left out: this model takes no images]")
    assert isinstance(result, ToolResultBlock)
    assert result.content == (marker,)
    assert text == marker


@pytest.mark.parametrize("id", ["", "call|1", "fc_1|rs_2", "x" * 65, "ünï", "toolu_1_", "a b", "a.b:c"])
def test_invalid_call_ids_are_replaced_consistently(id: str) -> None:
    called = prepare_message(Message("assistant", (ToolUseBlock(id, "t"),)), "p", "m", vision=True)
    answered = prepare_message(Message("user", (ToolResultBlock(id, "t", "ok"),)), "p", "m", vision=True)

    assert called is not None
    assert answered is not None
    new = called.tool_uses[0].id
    assert new == answered.tool_results[0].tool_use_id
    assert 0 < len(new) <= 40
    assert new.isascii()
    assert new.replace("_", "").replace("-", "").isalnum()
    assert new[-1] not in "_-"


def test_valid_ids_are_unchanged_and_different_ids_stay_different() -> None:
    assert sanitize_call_id("call_abc-123") == "call_abc-123"
    assert len({sanitize_call_id(i) for i in ("a|b", "a:b", "a_b", "a.b")}) == 4
    assert nine_char_id("abcDEF123") == "abcDEF123"
    assert len({nine_char_id(f"call_{i}") for i in range(2000)}) == 2000
    assert all(len(nine_char_id(f"call_{i}")) == 9 for i in range(50))
