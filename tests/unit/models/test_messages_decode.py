"""Answers of Anthropic Messages, with the oddities of gateways before it."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.errors import (
    ContextExceededError,
    ErrorCode,
    InvalidResponseError,
    ModelError,
    NetworkError,
    RateLimitedError,
)
from mainspring.messages import Cost, RedactedThinkingBlock, TextBlock, ThinkingBlock, Usage
from mainspring.models.wire.anthropic import AnthropicDecoder
from tests.unit.models.messages_wire import (
    begin,
    call,
    calls,
    delta,
    end,
    message,
    profile,
    read,
    sse,
    start,
    stop,
    text,
    whole,
)

PING = {"type": "ping"}


@pytest.mark.covers("STR-04", "STR-05", "STR-06", "STR-07", "STR-08", "STR-12", "MOD-39")
def test_a_stream_becomes_the_events_that_all_protocols_have() -> None:
    events = read(
        sse(
            begin(input_tokens=10, output_tokens=1),
            PING,
            start(0, "thinking", thinking="", signature=""),
            delta(0, "thinking", thinking="Hm"),
            delta(0, "thinking", thinking="m."),
            delta(0, "signature", signature="SIG"),
            stop(0),
            *text(1, "Look", "ing."),
            *call(2, "c1", "look", '{"at"', ': "x"}'),
            *end("tool_use", usage={"output_tokens": 20}),
        )
    )

    assert [event.type for event in events] == [
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
    made = events[-1].partial
    assert made.content[:2] == (ThinkingBlock("Hmm.", "SIG"), TextBlock("Looking."))
    assert calls(made) == [("c1", "look", {"at": "x"})]
    assert (made.stop_reason, made.provider, made.model) == ("tool_use", "host", "m1")
    assert made.usage == Usage(10, 20)


@pytest.mark.covers("MOD-03", "MOD-39")
def test_an_answer_at_once_is_the_same_as_a_streamed_one() -> None:
    blocks = [
        {"type": "thinking", "thinking": "Hm.", "signature": "SIG"},
        {"type": "redacted_thinking", "data": "XXXX"},
        {"type": "text", "text": "Looking."},
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "x"}},
        {"type": "tool_use", "id": "c2", "name": "now", "input": {}},
    ]
    usage = {"input_tokens": 10, "output_tokens": 20, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 7}
    streamed = message(
        begin(input_tokens=10, cache_read_input_tokens=5, cache_creation_input_tokens=7, output_tokens=1),
        start(0, "thinking", thinking=""),
        delta(0, "thinking", thinking="Hm."),
        delta(0, "signature", signature="SIG"),
        stop(0),
        start(1, "redacted_thinking", data="XXXX"),
        stop(1),
        *text(2, "Looking."),
        *call(3, "c1", "look", '{"at":"x"}'),
        *call(4, "c2", "now", ""),
        *end("tool_use", usage={"output_tokens": 20}),
    )

    at_once = whole(content=blocks, stop_reason="tool_use", usage=usage)

    assert at_once.content == streamed.content
    assert at_once.usage == streamed.usage == Usage(10, 20, 5, 7)
    assert at_once.stop_reason == streamed.stop_reason == "tool_use"


def test_parallel_calls_may_grow_at_the_same_time() -> None:
    made = message(
        begin(),
        start(0, "tool_use", id="a", name="one", input={}),
        start(1, "tool_use", id="b", name="two", input={}),
        delta(1, "input_json", partial_json='{"n":'),
        delta(0, "input_json", partial_json='{"m":'),
        delta(1, "input_json", partial_json="2}"),
        delta(0, "input_json", partial_json="1}"),
        stop(0),
        stop(1),
        *end("tool_use"),
    )

    assert calls(made) == [("a", "one", {"m": 1}), ("b", "two", {"n": 2})]


@pytest.mark.parametrize("pieces", [(), ("",), ("{}",), ("", "  ")])
def test_a_call_without_arguments_has_none(pieces: tuple[str, ...]) -> None:
    assert calls(message(begin(), *call(0, "c", "now", *pieces), *end("tool_use"))) == [("c", "now", {})]


def test_arguments_that_come_with_the_start_are_told_as_a_piece_too() -> None:
    events = read(sse(begin(), start(0, "tool_use", id="c", name="look", input={"at": 1}), stop(0), *end("tool_use")))

    assert [e.type for e in events] == ["start", "toolcall_start", "toolcall_delta", "toolcall_end", "done"]
    assert calls(events[-1].partial) == [("c", "look", {"at": 1})]


def test_calls_of_one_id_are_told_apart_and_ids_are_never_missing() -> None:
    made = message(begin("msg_01ABC"), *call(0, "c", "a"), *call(1, "c", "b"), *call(2, "", "d"), *end("tool_use"))

    ids = [id for id, _, _ in calls(made)]
    assert len(set(ids)) == 3
    assert all(ids)
    again = message(begin("msg_01ABC"), *call(0, "c", "a"), *call(1, "c", "b"), *call(2, "", "d"), *end("tool_use"))
    assert calls(again) == calls(made)


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ("end_turn", "end_turn"),
        ("stop_sequence", "stop_sequence"),
        ("max_tokens", "max_tokens"),
        ("pause_turn", "end_turn"),
        ("compaction", "end_turn"),
        ("something_new", "end_turn"),
    ],
)
def test_reasons_to_stop(told: str, reason: str) -> None:
    assert message(begin(), *text(0, "Hi"), *end(told)).stop_reason == reason


def test_calls_stop_for_their_answers_whatever_a_gateway_says_but_not_when_they_were_cut() -> None:
    assert message(begin(), *call(0, "c", "now"), *end("end_turn")).stop_reason == "tool_use"
    cut = message(begin(), *call(0, "c", "look", '{"at": "x'), *end("max_tokens"))
    assert cut.stop_reason == "max_tokens"
    assert calls(cut) == [("c", "look", '{"at": "x')]


# --- what the host does by itself --------------------------------------------------------------------------------------


def test_what_the_hosts_own_tools_did_is_kept_but_is_no_text_and_no_call() -> None:
    result = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"url": "u"}]}
    made = message(
        begin(),
        start(0, "server_tool_use", id="s1", name="web_search", input={}),
        delta(0, "input_json", partial_json='{"query":'),
        delta(0, "input_json", partial_json='"x"}'),
        stop(0),
        {"type": "content_block_start", "index": 1, "content_block": result},
        stop(1),
        *text(2, "Found it."),
        *end(),
    )

    request, found, words = made.content
    assert isinstance(request, RedactedThinkingBlock)
    assert isinstance(found, RedactedThinkingBlock)
    called = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
    assert json.loads(request.data) == called
    assert json.loads(found.data) == result
    assert words == TextBlock("Found it.")
    assert made.tool_uses == ()
    assert made.stop_reason == "end_turn"


def test_blocks_deltas_and_events_that_nobody_knows_are_skipped() -> None:
    made = message(
        begin(),
        {"type": "news"},
        start(0, "hologram", rays=3),
        delta(0, "ray", ray=1),
        stop(0),
        start(1, "text", text=""),
        delta(1, "citations", citation={"cited_text": "x"}),
        delta(1, "text", text="Hi"),
        delta(9, "ray", ray=1),
        stop(1),
        stop(7),
        *end(),
    )

    assert made.content == (TextBlock("Hi"),)


def test_a_summary_of_the_host_is_kept() -> None:
    made = message(
        begin(),
        start(0, "compaction", content=None),
        delta(0, "compaction", content="So far"),
        stop(0),
        *end("compaction"),
    )

    [kept] = made.content
    assert isinstance(kept, RedactedThinkingBlock)
    assert json.loads(kept.data) == {"type": "compaction", "content": "So far"}


def test_a_call_of_code_that_the_host_runs_keeps_who_made_it() -> None:
    caller = {"type": "code_execution_20250825", "tool_id": "s1"}
    request = message(begin(), start(0, "tool_use", id="c", name="look", input={}, caller=caller), *end("tool_use"))
    answered = message(begin(), start(0, "tool_use", id="c", name="look", input={}, caller=caller), *end("end_turn"))

    assert json.loads(request.tool_uses[0].signature or "") == caller
    assert (request.stop_reason, answered.stop_reason) == ("tool_use", "end_turn")
    direct = message(begin(), start(0, "tool_use", id="c", name="look", caller={"type": "direct"}), *end("tool_use"))
    assert direct.tool_uses[0].signature is None


# --- usage -------------------------------------------------------------------------------------------------------------


@pytest.mark.covers("CAC-08", "MOD-30")
def test_cached_tokens_are_counted_once_and_zeros_overwrite_nothing() -> None:
    made = message(
        begin(input_tokens=10, cache_read_input_tokens=100, cache_creation_input_tokens=50, output_tokens=1),
        *text(0, "Hi"),
        *end(usage={"input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 7}),
    )

    assert made.usage is not None
    assert made.usage == Usage(10, 7, 100, 50)
    assert made.usage.prompt_tokens == 160
    assert made.usage.total_tokens == 167


@pytest.mark.covers("CAC-08")
def test_cache_writes_that_are_told_by_lifetime_only() -> None:
    created = {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 20}

    made = whole(content=[], usage={"input_tokens": 1, "output_tokens": 2, "cache_creation": created})
    both = whole(
        content=[],
        usage={"input_tokens": 1, "output_tokens": 2, "cache_creation": created, "cache_creation_input_tokens": 50},
    )

    assert made.usage == both.usage == Usage(1, 2, 0, 50)


@pytest.mark.covers("CAC-08", "MOD-31")
def test_usage_has_its_cost_and_reasoning_is_part_of_the_output() -> None:
    using = profile(prices=(3.0, 15.0, 0.3, 3.75))
    usage = {
        "input_tokens": 1_000_000,
        "output_tokens": 1_000_000,
        "cache_read_input_tokens": 1_000_000,
        "cache_creation": {"ephemeral_5m_input_tokens": 1_000_000, "ephemeral_1h_input_tokens": 1_000_000},
        "output_tokens_details": {"thinking_tokens": 400},
    }

    made = whole(content=[], usage=usage, using=using).usage

    assert made is not None
    assert made.reasoning_tokens == 400
    assert made.cost == Cost(3.0, 15.0, 0.3, 3.75 + 6.0)
    assert whole(content=[], usage=usage).usage == Usage(1_000_000, 1_000_000, 1_000_000, 2_000_000, 400)


def test_the_cost_of_a_summary_by_the_host_is_part_of_the_answers() -> None:
    one = {"input_tokens": 1_000_000, "output_tokens": 1_000_000}
    usage = {**one, "iterations": [{"type": "compaction", **one}, {"type": "message", **one}]}

    made = whole(content=[], usage=usage, using=profile(prices=(3.0, 15.0, 0.3, 3.75))).usage

    assert made is not None
    assert (made.input_tokens, made.output_tokens) == (1_000_000, 1_000_000)
    assert made.cost == Cost(6.0, 30.0)
    assert whole(content=[], usage=usage).usage == Usage(1_000_000, 1_000_000)


def test_an_answer_that_tells_no_counts_has_none() -> None:
    assert message(begin(), *text(0, "Hi"), *end()).usage is None


# --- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "text_of_it", "error", "reason"),
    [
        ("overloaded_error", "Overloaded", RateLimitedError, "overloaded"),
        ("rate_limit_error", "Slow down", RateLimitedError, "rate_limit"),
        ("api_error", "Internal server error", NetworkError, "server_error"),
        (
            "invalid_request_error",
            "prompt is too long: 210000 tokens > 200000 maximum",
            ContextExceededError,
            "overflow",
        ),
    ],
)
def test_an_error_in_mid_stream_is_raised_with_what_had_arrived(
    kind: str, text_of_it: str, error: type[ModelError], reason: str
) -> None:
    told = {"type": "error", "error": {"type": kind, "message": text_of_it}}

    with pytest.raises(error, match=text_of_it) as caught:
        message(begin(input_tokens=3), start(0, "text", text=""), delta(0, "text", text="Hel"), told)

    assert caught.value.reason == reason
    assert caught.value.partial is not None
    assert caught.value.partial.text == "Hel"
    assert caught.value.partial.usage == Usage(3, 0)


@pytest.mark.covers("RET-21")
@pytest.mark.parametrize("body", [b"", b"[]", b"<html>Gateway</html>", b'{"type": "message"}', b"data: <html>\n\n"])
def test_what_is_no_answer_is_an_invalid_one(body: bytes) -> None:
    with pytest.raises(InvalidResponseError) as caught:
        read(body)

    assert not caught.value.retryable


@pytest.mark.parametrize(
    "body",
    [
        b'{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}',
        b'{"error": {"type": "overloaded_error", "message": "Overloaded"}}',
        b'event: error\ndata: {"error": {"type": "overloaded_error", "message": "Overloaded"}}\n\n',
        b'event: error\ndata: {"type": "overloaded_error", "message": "Overloaded"}\n\n',
        b'data: {"message": "Overloaded"}\n\n',
    ],
)
def test_an_error_instead_of_an_answer(body: bytes) -> None:
    with pytest.raises(ModelError, match="Overloaded") as caught:
        read(body)

    assert caught.value.retryable


def test_a_refusal_is_an_error_that_keeps_what_was_said() -> None:
    details = {"category": "cyber", "explanation": "Blocked by policy."}

    with pytest.raises(ModelError, match="Blocked by policy") as caught:
        message(begin(input_tokens=1), *text(0, "Sure, "), *end("refusal", stop_details=details))

    error = caught.value
    assert (error.code, error.reason, error.retryable) == (ErrorCode.UNKNOWN, "content_filter", False)
    assert error.partial is not None
    assert error.partial.text == "Sure, "
    assert error.partial.usage == Usage(1, 0)
    with pytest.raises(ModelError, match="refusal"):
        whole(content=[], stop_reason="refusal", stop_details=None)


def test_a_window_that_is_full_calls_for_a_shorter_conversation() -> None:
    with pytest.raises(ContextExceededError) as caught:
        message(begin(), *text(0, "And so"), *end("model_context_window_exceeded"))

    assert caught.value.partial is not None
    assert caught.value.partial.text == "And so"


@pytest.mark.covers("STR-13")
@pytest.mark.parametrize("cut", [1, 2, 3, 4])
def test_a_stream_that_is_cut_is_no_answer(cut: int) -> None:
    events = [begin(), start(0, "text", text=""), delta(0, "text", text="Hel"), stop(0), *end()]

    with pytest.raises(NetworkError) as caught:
        read(sse(*events[:cut]))

    assert caught.value.reason == "stream_cut"
    assert (caught.value.partial.text if caught.value.partial else "") == ("Hel" if cut > 2 else "")


def test_a_torn_last_event_says_no_more_than_that_the_stream_was_cut() -> None:
    with pytest.raises(NetworkError, match="before the response was complete"):
        read(sse(begin(), *text(0, "Hi")) + b'event: message_delta\ndata: {"type": "mess')


def test_an_answer_whose_reason_to_stop_is_known_is_complete_without_its_end() -> None:
    decoder = AnthropicDecoder(profile())
    out: list[Any] = []
    for event in (begin(), *text(0, "Hi"), end()[0]):
        decoder.feed("", json.dumps(event).encode(), out)

    assert decoder.complete
    assert not decoder.ended
    decoder.finish(out)
    assert out[-1].type == "done"


# --- gateways ----------------------------------------------------------------------------------------------------------


def test_names_of_events_do_where_types_are_missing_and_the_other_way_round() -> None:
    named = sse(begin(), *text(0, "Hi"), *end()).replace(b'"type": "message_stop"', b'"x": 1')
    unnamed = sse(*[json.dumps(event) for event in (begin(), *text(0, "Hi"), *end())])

    assert read(named)[-1].partial.text == read(unnamed)[-1].partial.text == "Hi"


def test_starts_and_ends_may_be_missing() -> None:
    made = message(
        delta(0, "thinking", thinking="Hm."),
        delta(0, "signature", signature="S"),
        delta(1, "text", text="Hi"),
        start(2, "tool_use", id="c", name="look"),
        delta(2, "input_json", partial_json="{}"),
        end("tool_use")[0],
        "[DONE]",
    )

    assert made.content[:2] == (ThinkingBlock("Hm.", "S"), TextBlock("Hi"))
    assert calls(made) == [("c", "look", {})]


def test_a_beginning_that_is_said_twice_changes_nothing() -> None:
    events = read(sse(begin(), begin(), *text(0, "Hi"), *end()))

    assert [event.type for event in events] == ["start", "text_start", "text_delta", "text_end", "done"]


def test_a_second_answer_takes_the_place_of_one_that_broke_off_unheard() -> None:
    made = message(
        begin("first", input_tokens=9),
        start(0, "thinking", thinking=""),
        delta(0, "thinking", thinking="I will call."),
        stop(0),
        start(1, "tool_use", id="c1", name="look", input={}),
        delta(1, "input_json", partial_json='{"at":"Sp'),
        begin("second", input_tokens=10),
        *call(0, "c2", "look", '{"at":"x"}'),
        *end("tool_use", usage={"output_tokens": 3}),
    )

    assert calls(made) == [("c2", "look", {"at": "x"})]
    assert made.thinking == ""
    assert made.usage == Usage(10, 3)


@pytest.mark.parametrize("said", [text(0, "Hel"), call(0, "c", "now")])
def test_a_second_answer_behind_words_or_calls_is_an_error(said: list[dict[str, Any]]) -> None:
    with pytest.raises(NetworkError, match="second response") as caught:
        message(begin("first"), *said, begin("second"), *text(0, "Hello"), *end())

    assert caught.value.partial is not None
    assert len(caught.value.partial.content) == 1


def test_nothing_behind_the_end_belongs_to_the_answer() -> None:
    made = message(begin("one"), *text(0, "Hi"), *end(), begin("two"), *text(0, " there"), *end("max_tokens"))

    assert (made.text, made.stop_reason) == ("Hi", "end_turn")


def test_an_empty_answer_is_one_empty_text() -> None:
    assert message(begin(), *text(0), *end()).content == (TextBlock(""),)
    assert whole(content=[]).content == (TextBlock(""),)


def test_control_characters_bad_types_and_cut_characters_are_read() -> None:
    raw = '{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a\nb"}}'.replace(
        "\n", "\x01"
    )
    halves = [
        '{"type": "content_block_delta", "index": "0", "delta": {"type": "text_delta", "text": "\\ud83d"}}',
        '{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "\\ude00"}}',
    ]

    made = message(begin(), start(0, "text", text=""), raw, *halves, stop(0), *end())

    assert made.text == "a\x01b\N{GRINNING FACE}"


@given(st.binary(max_size=200))
def test_no_bytes_break_it(data: bytes) -> None:
    try:
        events = read(data)
    except ModelError:
        return
    assert events[-1].type == "done"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = (
    "type",
    "index",
    "delta",
    "content_block",
    "message",
    "usage",
    "error",
    "id",
    "content",
    "input",
    "stop_reason",
)
TYPES = ("message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "ping")
EVENTS = st.fixed_dictionaries({"type": st.sampled_from(TYPES) | JSON}, optional=dict.fromkeys(NAMES[1:7], JSON))
SHAPED = st.builds(
    lambda kind, index, inner, fields: {
        "type": kind,
        "index": index,
        **dict.fromkeys(NAMES[2:5], {"type": inner, **fields}),
    },
    st.sampled_from(TYPES),
    st.integers(-1, 3) | JSON,
    st.sampled_from(
        ("text", "thinking", "tool_use", "redacted_thinking", "server_tool_use", "text_delta", "compaction")
    ),
    st.dictionaries(st.sampled_from((*NAMES, "text", "thinking", "partial_json", "name", "data", "caller")), JSON),
)


@settings(max_examples=40)
@given(st.lists(EVENTS | SHAPED, max_size=5))
def test_no_events_break_it(events: list[Any]) -> None:
    try:
        made = read(sse(*[json.dumps(event) for event in [begin(), *events, *end()]]))
    except ModelError:
        return
    assert made[-1].type == "done"
    assert made[-1].partial.content
