"""Responses of the Responses protocol: its events, and hosts that leave out, repeat, or change them."""

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from mainspring.errors import (
    AuthenticationError,
    ContextExceededError,
    InvalidResponseError,
    ModelError,
    NetworkError,
    RateLimitedError,
)
from mainspring.events import ThinkingEnd
from mainspring.messages import RedactedThinkingBlock, TextBlock, ThinkingBlock
from mainspring.models.codec.response_reader import ResponseReader
from mainspring.models.port import ModelInfo
from mainspring.models.profile import ModelProfile
from mainspring.models.wire.openai_responses import ResponsesDecoder
from mainspring.models.wire.openai_responses.payloads import decode_item_metadata
from tests.unit.models.responses_wire import (
    added,
    calls,
    completed,
    delta,
    done,
    event,
    message,
    profile,
    read,
    sse,
    text_item,
    whole,
)

USAGE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 60},
    "output_tokens": 40,
    "output_tokens_details": {"reasoning_tokens": 30},
    "total_tokens": 140,
}
FULL = (
    event("created", response={"id": "resp_1", "status": "in_progress", "output": []}),
    event("in_progress", response={"id": "resp_1", "status": "in_progress"}),
    added(0, "reasoning", summary=[]),
    event("reasoning_summary_part.added", output_index=0, item_id="i0", summary_index=0),
    delta("reasoning_summary_text", 0, "Let me ", summary_index=0),
    delta("reasoning_summary_text", 0, "look.", summary_index=0),
    done(0, "reasoning", summary=[{"type": "summary_text", "text": "Let me look."}], encrypted_content="gAAA"),
    added(1, "message", role="assistant", content=[]),
    event(
        "content_part.added", output_index=1, item_id="i1", content_index=0, part={"type": "output_text", "text": ""}
    ),
    delta("output_text", 1, "Hel", content_index=0),
    delta("output_text", 1, "lo", content_index=0),
    event("output_text.done", output_index=1, item_id="i1", content_index=0, text="Hello"),
    done(1, "message", role="assistant", phase="commentary", content=[{"type": "output_text", "text": "Hello"}]),
    added(2, "function_call", call_id="call_a", name="look", arguments=""),
    delta("function_call_arguments", 2, '{"at":'),
    delta("function_call_arguments", 2, ' "x"}'),
    event("function_call_arguments.done", output_index=2, item_id="i2", arguments='{"at": "x"}'),
    done(2, "function_call", call_id="call_a", name="look", arguments='{"at": "x"}'),
    completed(usage=USAGE),
)


@pytest.mark.covers("PRV-10", "STR-04", "STR-05", "STR-06", "STR-07", "STR-08", "STR-12")
def test_stream_becomes_the_usual_events() -> None:
    events = read(sse(*FULL))

    assert [e.type for e in events] == [
        "start",
        "thinking_start",
        "thinking_delta",
        "thinking_delta",
        "thinking_end",
        "text_start",
        "text_delta",
        "text_delta",
        "text_end",
        "toolcall_start",
        "toolcall_delta",
        "toolcall_delta",
        "toolcall_end",
        "done",
    ]
    last = message(*FULL)
    assert (last.thinking, last.text, calls(last)) == ("Let me look.", "Hello", [("call_a", "look", {"at": "x"})])
    assert last.stop_reason == "tool_use"


@pytest.mark.covers("PRV-10")
def test_text_of_a_reasoning_item_is_reasoning() -> None:
    stream = [
        added(0, "reasoning"),
        delta("output_text", 0, "Hm."),
        delta("output_text", 0, " So."),
        done(0, "reasoning"),
    ]
    stream += [added(1, "message"), delta("output_text", 1, "Hi"), done(1, "message"), completed()]

    assert [e.type for e in read(sse(*stream))] == [
        *("start", "thinking_start", "thinking_delta", "thinking_delta", "thinking_end"),
        *("text_start", "text_delta", "text_end", "done"),
    ]
    assert (message(*stream).thinking, message(*stream).text) == ("Hm. So.", "Hi")


@pytest.mark.covers("PRV-10")
@pytest.mark.parametrize("kind", ["output_text", "refusal", "reasoning_text", "reasoning_summary_text"])
def test_deltas_belong_to_the_open_item(kind: str) -> None:
    reasons = "reasoning" in kind
    last = message(added(0, "reasoning" if reasons else "message"), delta(kind, 0, "Hm."), completed())

    assert (last.thinking, last.text) == (("Hm.", "") if reasons else ("", "Hm."))


@pytest.mark.covers("PRV-10")
@pytest.mark.parametrize("names", [{}, {"output_index": None}, {"item_id": None}])
def test_text_inside_a_reasoning_item_is_reasoning(names: dict[str, Any]) -> None:
    last = message(
        added(0, "reasoning"),
        event("output_text.delta", **{"output_index": 0, "item_id": "i0", "delta": "th", **names}),
        event("output_text.delta", **{"output_index": 0, "item_id": "i0", "delta": "ink", **names}),
        done(0, "reasoning", content=[{"type": "reasoning_text", "text": "think"}]),
        added(1, "message"),
        delta("output_text", 1, "Hello"),
        completed(),
    )

    assert [type(block) for block in last.content] == [ThinkingBlock, TextBlock]
    assert (last.thinking, last.text) == ("think", "Hello")


@pytest.mark.covers("MOD-29")
def test_tokens_are_counted_once() -> None:
    info = ModelInfo("m1", "host", prices=(1.0, 10.0, 0.1, 1.0))
    usage = message(*FULL, using=ModelProfile(info, "http://host/v1")).usage

    assert usage is not None
    assert (usage.input_tokens, usage.cache_read, usage.output_tokens, usage.reasoning_tokens) == (40, 60, 40, 30)
    assert usage.total_tokens == 140
    assert usage.cost is not None
    assert usage.cost.total == pytest.approx((40 * 1 + 60 * 0.1 + 40 * 10) / 1e6)


def test_reasoning_keeps_the_metadata_for_its_return() -> None:
    block = message(*FULL).content[0]

    assert isinstance(block, ThinkingBlock)
    assert decode_item_metadata(block.signature) == {"type": "reasoning", "id": "i0", "encrypted_content": "gAAA"}
    text = message(*FULL).content[1]
    assert isinstance(text, TextBlock)
    assert decode_item_metadata(text.signature) == {"id": "i1", "phase": "commentary"}


def test_each_part_of_the_reasoning_is_a_block() -> None:
    parts = [{"type": "summary_text", "text": text} for text in ("One.", "Two.")]
    streamed = message(
        added(0, "reasoning"),
        delta("reasoning_summary_text", 0, "One.", summary_index=0),
        delta("reasoning_summary_text", 0, "Two.", summary_index=1),
        done(0, "reasoning", summary=parts, encrypted_content="e"),
        completed(),
    )
    full_output = whole({"output": [{"type": "reasoning", "id": "i0", "summary": parts, "encrypted_content": "e"}]})

    for last in (streamed, full_output):
        blocks = [b for b in last.content if isinstance(b, ThinkingBlock)]
        assert [b.thinking for b in blocks] == ["One.", "Two."]
        assert decode_item_metadata(blocks[0].signature) == {"part": "summary"}
        assert decode_item_metadata(blocks[1].signature) == {"type": "reasoning", "id": "i0", "encrypted_content": "e"}


def test_encrypted_reasoning_without_text_is_kept() -> None:
    events = read(sse(added(0, "reasoning"), done(0, "reasoning", summary=[], encrypted_content="e"), completed()))

    end = next(e for e in events if isinstance(e, ThinkingEnd))
    assert end.text == ""
    assert "encrypted_content" in str(events[-1].partial.content[0])


# --- missing and repeated events ---------------------------------------------------------------------------------------


def events_without(*kinds: str) -> list[dict[str, Any]]:
    return [e for e in FULL if not e["type"].removeprefix("response.").startswith(kinds)]


@pytest.mark.parametrize(
    "events",
    [
        events_without("output_item.done"),
        events_without("output_text.delta", "function_call_arguments.delta", "reasoning_summary_text.delta"),
        events_without("output_item.added"),
        events_without("output_item.added", "output_text.delta", "function_call_arguments.delta", "reasoning_summary"),
        events_without("created", "in_progress", "content_part", "output_text.done", "function_call_arguments.done"),
        [e for event_ in FULL for e in (event_, event_) if not e["type"].endswith(".delta")],
    ],
    ids=["no items done", "no pieces", "no beginnings", "only items done", "bare", "all twice, no pieces"],
)
def test_missing_or_repeated_events_do_not_change_the_message(events: list[dict[str, Any]]) -> None:
    full_output = [e["item"] for e in FULL if e["type"].endswith("item.done")]
    last = message(*events[:-1], completed(*full_output, usage=USAGE))

    assert (last.thinking, last.text, calls(last)) == ("Let me look.", "Hello", [("call_a", "look", {"at": "x"})])
    assert last.stop_reason == "tool_use"


def test_completed_event_alone_contains_everything() -> None:
    full_output = [e["item"] for e in FULL if e["type"].endswith("item.done")]
    last = message(completed(*full_output, usage=USAGE))

    assert [b.__class__.__name__ for b in last.content] == ["ThinkingBlock", "TextBlock", "ToolUseBlock"]
    assert calls(last) == [("call_a", "look", {"at": "x"})]
    assert last.content == whole({"status": "completed", "output": full_output}).content


def test_completed_event_repeats_no_content() -> None:
    full_output = [e["item"] for e in FULL if e["type"].endswith("item.done")]
    last = message(*FULL[:-1], completed(*full_output))
    others = message(*FULL[:-1], completed(*[{**item, "id": f"other{at}"} for at, item in enumerate(full_output)]))

    assert last.content == others.content == message(*FULL).content


def test_changing_item_ids_are_tolerated() -> None:
    numbers = iter(range(100))
    events = json.loads(json.dumps(FULL))
    for e in events:
        for holder in (e, e.get("item") or {}):
            for name in ("id", "item_id"):
                if name in holder:
                    holder[name] = f"rotated-{next(numbers)}"
    last = message(*events)

    assert (last.thinking, last.text, calls(last)) == ("Let me look.", "Hello", [("call_a", "look", {"at": "x"})])


def test_identical_output_indexes_are_tolerated() -> None:
    events = [{**e, "output_index": 0} if "output_index" in e else e for e in FULL]
    last = message(*events)

    assert (last.thinking, last.text, calls(last)) == ("Let me look.", "Hello", [("call_a", "look", {"at": "x"})])


def test_deltas_without_id_or_index_continue_the_open_item() -> None:
    events = [{k: v for k, v in e.items() if k not in ("output_index", "item_id")} for e in FULL]

    assert message(*events).text == "Hello"


def test_parallel_calls_can_be_interleaved() -> None:
    last = message(
        added(0, "function_call", call_id="a", name="one"),
        added(1, "function_call", call_id="b", name="two"),
        delta("function_call_arguments", 0, '{"x"'),
        delta("function_call_arguments", 1, '{"y"'),
        delta("function_call_arguments", 0, ":1}"),
        delta("function_call_arguments", 1, ":2}"),
        completed(),
    )

    assert calls(last) == [("a", "one", {"x": 1}), ("b", "two", {"y": 2})]


def test_final_version_of_a_message_or_call_wins() -> None:
    last = message(
        added(0, "message"),
        delta("output_text", 0, "Trimmed."),
        done(0, "message", role="assistant", content=[{"type": "output_text", "text": "The whole text."}]),
        added(1, "function_call", call_id="a", name="look"),
        delta("function_call_arguments", 1, '{"at": "old'),
        done(1, "function_call", call_id="a", name="look", arguments='{"at": "new"}'),
        completed(),
    )

    assert (last.text, calls(last)) == ("The whole text.", [("a", "look", {"at": "new"})])


@pytest.mark.parametrize("arguments", [None, "", " ", "null", "{}"])
def test_call_without_arguments_has_an_empty_input(arguments: str | None) -> None:
    assert calls(message(done(0, "function_call", call_id="a", name="now", arguments=arguments), completed())) == [
        ("a", "now", {})
    ]


def test_missing_or_duplicate_call_ids_become_unique() -> None:
    events = (
        event("created", response={"id": "resp_abc"}),
        done(0, "function_call", call_id="a", name="one", arguments="{}"),
        event("output_item.done", output_index=1, item={"type": "function_call", "name": "two", "arguments": "{}"}),
        done(2, "function_call", call_id="a", name="three", arguments="{}"),
        completed(),
    )
    ids = [c.id for c in message(*events).tool_uses]

    assert len(set(ids)) == 3
    assert ids == [c.id for c in message(*events).tool_uses]


def test_late_tool_name_is_used() -> None:
    last = message(
        delta("function_call_arguments", 0, '{"a":1}'),
        done(0, "function_call", call_id="call_z", name="late", arguments='{"a":1}'),
        completed(),
    )

    assert calls(last) == [("call_z", "late", {"a": 1})]


def test_free_text_of_a_custom_tool_becomes_its_input() -> None:
    last = message(
        added(0, "custom_tool_call", call_id="a", name="sql", input=""),
        delta("custom_tool_call_input", 0, "SELECT "),
        delta("custom_tool_call_input", 0, "1"),
        done(0, "custom_tool_call", call_id="a", name="sql", input="SELECT 1"),
        completed(),
    )

    assert calls(last) == [("a", "sql", {"input": "SELECT 1"})]


@pytest.mark.parametrize(
    "type",
    ["web_search_call", "code_interpreter_call", "file_search_call", "image_generation_call", "mcp_call", "novelty"],
)
def test_host_executed_tool_is_not_a_call(type: str) -> None:
    last = message(
        added(0, type, name="x", arguments="{}"),
        event(f"{type}.in_progress", output_index=0, item_id="i0"),
        event("mcp_call_arguments.delta", output_index=0, item_id="i0", delta="{}"),
        event("shell_call_output_content.delta", output_index=0, delta={"stdout": "x"}),
        done(0, type, status="completed", output="text", arguments="{}", name="x"),
        done(1, "message", role="assistant", content=[{"type": "output_text", "text": "Found it."}]),
        completed(),
    )

    assert (last.text, last.tool_uses, last.stop_reason) == ("Found it.", (), "end_turn")


def test_refusal_is_read_as_text() -> None:
    part = {"type": "refusal", "refusal": "No."}

    assert whole({"output": [text_item("", content=[part])]}).text == "No."


def test_compaction_item_of_the_host_is_kept_once() -> None:
    item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA"}
    last = message(done(0, "compaction", encrypted_content="gAAA"), completed(item, text_item("Hi")))

    compactions = [b for b in last.content if isinstance(b, RedactedThinkingBlock)]
    assert len(compactions) == 1
    assert last.text == "Hi"


@pytest.mark.covers("MOD-04")
def test_empty_response_becomes_empty_text() -> None:
    assert message(completed()).content == (TextBlock(""),)
    assert whole({"output": []}).content == (TextBlock(""),)


# --- the end of a response ---------------------------------------------------------------------------------------------


def test_output_limit_sets_the_stop_reason() -> None:
    last = message(
        added(0, "function_call", call_id="a", name="write"),
        delta("function_call_arguments", 0, '{"text": "half'),
        completed(status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
    )

    assert last.stop_reason == "max_tokens"
    assert last.tool_uses[0].raw_input == '{"text": "half'


@pytest.mark.parametrize(
    ("reason", "kind", "code"),
    [
        ("content_filter", ModelError, "content_filter"),
        ("context_length_exceeded", ContextExceededError, "overflow"),
        ("power_cut", NetworkError, "stream_cut"),
    ],
)
def test_incomplete_response_raises(reason: str, kind: type[ModelError], code: str) -> None:
    with pytest.raises(kind) as caught:
        message(
            added(0, "message"),
            delta("output_text", 0, "So far"),
            completed(status="incomplete", incomplete_details={"reason": reason}),
        )

    assert caught.value.reason == code
    assert caught.value.partial is not None
    assert caught.value.partial.text == "So far"


@pytest.mark.covers("PRV-10")
@pytest.mark.parametrize(
    "failure",
    [
        {"type": "error", "code": "rate_limit_exceeded", "message": "Slow down"},
        {"type": "error", "error": {"type": "rate_limit_error", "code": "rate_limit_exceeded", "message": "Slow down"}},
        {"error": {"code": "rate_limit_exceeded", "message": "Slow down"}},
        event(
            "failed", response={"status": "failed", "error": {"code": "rate_limit_exceeded", "message": "Slow down"}}
        ),
    ],
)
def test_error_event_raises(failure: dict[str, Any]) -> None:
    with pytest.raises(RateLimitedError, match="Slow down") as caught:
        message(added(0, "message"), delta("output_text", 0, "So far"), failure)

    assert caught.value.partial is not None
    assert caught.value.partial.text == "So far"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ({"error": {"code": "invalid_api_key", "message": "Bad key"}}, AuthenticationError),
        ({"status": "failed", "output": [], "error": {"code": "server_error", "message": "Oops"}}, NetworkError),
        ({"status": "failed", "output": [], "error": None}, ModelError),
        ({"detail": "Could not parse your authentication token. Please try signing in again."}, AuthenticationError),
        ({"status": "cancelled", "output": []}, NetworkError),
        ({"status": "queued", "output": []}, InvalidResponseError),
        ({"status": "something_new", "output": []}, InvalidResponseError),
        ({"object": "response.input_tokens", "input_tokens": 51}, InvalidResponseError),
        ({"choices": [{"message": {"content": "Hi"}}]}, InvalidResponseError),
    ],
)
def test_invalid_or_failed_unstreamed_response_raises(answer: dict[str, Any], kind: type[ModelError]) -> None:
    with pytest.raises(kind):
        whole(answer)


@pytest.mark.covers("STR-13")
def test_stream_without_an_end_is_an_interrupted_stream() -> None:
    with pytest.raises(NetworkError, match="before the response was complete") as caught:
        message(*FULL[:-1])

    assert caught.value.partial is not None
    assert caught.value.partial.text == "Hello"


def test_done_marker_can_end_the_stream() -> None:
    assert message(*FULL[:-1], "[DONE]").text == "Hello"


def test_events_after_the_end_are_ignored() -> None:
    assert message(*FULL, added(9, "message"), delta("output_text", 9, "More"), "[DONE]").text == "Hello"


def test_empty_or_invalid_stream_raises() -> None:
    for data in (b"", b"data: [DONE]\n\n", b": ping\n\n"):
        with pytest.raises(InvalidResponseError, match="empty"):
            read(data)
    with pytest.raises(InvalidResponseError, match="web page"):
        read(b"<html></html>")
    with pytest.raises(InvalidResponseError, match="not valid JSON"):
        read(b"data: hello\n\n")


def test_values_of_the_wrong_type_are_ignored() -> None:
    last = message(
        {"type": "response.created", "response": {"id": 5, "output": {}}},
        {"type": "response.output_item.added", "output_index": "0", "item": {"type": "message", "id": 7, "content": {}}},
        {"type": "response.output_text.delta", "output_index": "0", "delta": "Hi\x07", "logprobs": 1},
        {"type": "response.output_item.done", "output_index": 1, "item": {"type": "function_call", "call_id": "a", "name": "f", "arguments": {"x": 1}}},
        {"type": "response.completed", "response": {"output": [5], "usage": []}},
    )  # fmt: skip

    assert (last.text, calls(last)) == ("Hi\x07", [("a", "f", {"x": 1})])


def test_control_characters_and_surrogates_are_read() -> None:
    raw = [
        '{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"i0"}}',
        '{"type":"response.output_text.delta","output_index":0,"item_id":"i0","delta":"a\tb \\ud83d"}',
        '{"type":"response.output_text.delta","output_index":0,"item_id":"i0","delta":"\\ude00 \\ud83d!"}',
    ]

    assert message(*raw, completed()).text == "a\tb 😀 �!"


def test_event_name_replaces_a_missing_type() -> None:
    body = b"".join(
        f"event: {e['type']}\ndata: {json.dumps({k: v for k, v in e.items() if k != 'type'})}\n\n".encode()
        for e in FULL
    )

    assert read(body)[-1].partial.text == "Hello"


def test_decoder_knows_when_the_response_is_complete() -> None:
    decoder = ResponsesDecoder(profile())
    reader = ResponseReader(decoder)
    reader.feed(sse(*FULL[:-1]))
    assert (decoder.complete, decoder.ended) == (False, False)
    reader.feed(sse(FULL[-1]))
    assert (decoder.complete, decoder.ended) == (True, True)


JUNK = (
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.just([]) | st.just({}) | st.just([{"type": 1}])
)


def change_event(event_: dict[str, Any], data: st.DataObject) -> dict[str, Any]:
    """Return an event with some fields removed or replaced, at any depth."""
    decoded: dict[str, Any] = {}
    for name, value in event_.items():
        match data.draw(st.sampled_from(["keep"] * 12 + ["drop", "junk"])):
            case "keep":
                decoded[name] = change_event(value, data) if isinstance(value, dict) else value
            case "junk":
                decoded[name] = data.draw(JUNK)
            case _:
                pass
    return decoded


@settings(max_examples=40)
@given(data=st.data())
def test_any_events_give_a_message_or_a_model_error(data: st.DataObject) -> None:
    order = data.draw(st.lists(st.sampled_from(FULL), max_size=25))
    sent = [change_event(e, data) for e in [*order, FULL[-1]]]
    reader = ResponseReader(ResponsesDecoder(profile()))
    events = [*reader.feed(sse(*sent)), *reader.finish()]

    assert reader.error is not None or events[-1].type == "done"
    kinds = [e.type for e in events]
    if reader.error is None:
        for kind in ("text", "thinking", "toolcall"):
            assert kinds.count(f"{kind}_start") == kinds.count(f"{kind}_end")
        assert events[-1].partial.content


@given(data=st.data())
def test_missing_or_repeated_events_do_not_change_the_content(data: st.DataObject) -> None:
    """Each event in the middle may be missing or repeated, except for deltas, which may only be missing."""
    full_output = [e["item"] for e in FULL if e["type"].endswith("item.done")]
    sent: list[dict[str, Any]] = []
    for e in FULL[:-1]:
        times = 1 if e["type"].endswith(".delta") else data.draw(st.integers(0, 2))
        sent += [e] * times
    last = message(*sent, completed(*full_output, usage=USAGE))

    assert (last.thinking, last.text, calls(last)) == ("Let me look.", "Hello", [("call_a", "look", {"at": "x"})])
