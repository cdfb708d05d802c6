"""Responses of Anthropic Messages, with the variations of gateways."""

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

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
def test_stream_becomes_the_usual_events() -> None:
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
    decoded = events[-1].partial
    assert decoded.content[:2] == (ThinkingBlock("Hmm.", "SIG"), TextBlock("Looking."))
    assert calls(decoded) == [("c1", "look", {"at": "x"})]
    assert (decoded.stop_reason, decoded.provider, decoded.model) == ("tool_use", "host", "m1")
    assert decoded.usage == Usage(10, 20)


@pytest.mark.covers("MOD-03", "MOD-39")
def test_unstreamed_response_equals_the_streamed_one() -> None:
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


def test_parallel_calls_can_grow_at_the_same_time() -> None:
    decoded = message(
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

    assert calls(decoded) == [("a", "one", {"m": 1}), ("b", "two", {"n": 2})]


@pytest.mark.parametrize("pieces", [(), ("",), ("{}",), ("", "  ")])
def test_call_without_arguments_has_an_empty_input(pieces: tuple[str, ...]) -> None:
    assert calls(message(begin(), *call(0, "c", "now", *pieces), *end("tool_use"))) == [("c", "now", {})]


def test_arguments_in_the_start_event_are_published_as_a_delta() -> None:
    events = read(sse(begin(), start(0, "tool_use", id="c", name="look", input={"at": 1}), stop(0), *end("tool_use")))

    assert [e.type for e in events] == ["start", "toolcall_start", "toolcall_delta", "toolcall_end", "done"]
    assert calls(events[-1].partial) == [("c", "look", {"at": 1})]


def test_missing_or_duplicate_call_ids_become_unique() -> None:
    decoded = message(begin("msg_01ABC"), *call(0, "c", "a"), *call(1, "c", "b"), *call(2, "", "d"), *end("tool_use"))

    ids = [id for id, _, _ in calls(decoded)]
    assert len(set(ids)) == 3
    assert all(ids)
    again = message(begin("msg_01ABC"), *call(0, "c", "a"), *call(1, "c", "b"), *call(2, "", "d"), *end("tool_use"))
    assert calls(again) == calls(decoded)


@pytest.mark.covers("MSG-14")
@pytest.mark.parametrize(
    ("finish_reason", "reason"),
    [
        ("end_turn", "end_turn"),
        ("stop_sequence", "stop_sequence"),
        ("max_tokens", "max_tokens"),
        ("pause_turn", "pause_turn"),
        ("compaction", "pause_turn"),
        ("stop", "end_turn"),
    ],
)
def test_stop_reason_is_mapped(finish_reason: str, reason: str) -> None:
    assert message(begin(), *text(0, "Hi"), *end(finish_reason)).stop_reason == reason


def test_unknown_stop_reason_is_an_error() -> None:
    with pytest.raises(InvalidResponseError, match="unknown reason.*stop reason something_new") as caught:
        message(begin(), *text(0, "So"), *end("something_new"))

    assert caught.value.partial is not None
    assert caught.value.partial.text == "So"


def test_stop_reason_is_tool_use_for_complete_calls_and_max_tokens_for_truncated_ones() -> None:
    assert message(begin(), *call(0, "c", "now"), *end("end_turn")).stop_reason == "tool_use"
    cut = message(begin(), *call(0, "c", "look", '{"at": "x'), *end("max_tokens"))
    assert cut.stop_reason == "max_tokens"
    assert calls(cut) == [("c", "look", '{"at": "x')]


# --- server tools and compaction ---------------------------------------------------------------------------------------


def test_results_of_server_tools_are_kept_as_opaque_blocks() -> None:
    result = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"url": "u"}]}
    decoded = message(
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

    request, found, words = decoded.content
    assert isinstance(request, RedactedThinkingBlock)
    assert isinstance(found, RedactedThinkingBlock)
    called = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
    assert json.loads(request.data) == called
    assert json.loads(found.data) == result
    assert words == TextBlock("Found it.")
    assert decoded.tool_uses == ()
    assert decoded.stop_reason == "end_turn"


def test_unknown_blocks_deltas_and_events_are_skipped() -> None:
    decoded = message(
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

    assert decoded.content == (TextBlock("Hi"),)


def test_compaction_block_of_the_host_is_kept() -> None:
    decoded = message(
        begin(),
        start(0, "compaction", content=None),
        delta(0, "compaction", content="So far"),
        stop(0),
        *end("compaction"),
    )

    [compaction] = decoded.content
    assert isinstance(compaction, RedactedThinkingBlock)
    assert json.loads(compaction.data) == {"type": "compaction", "content": "So far"}


def test_call_from_code_execution_keeps_its_caller() -> None:
    caller = {"type": "code_execution_20250825", "tool_id": "s1"}
    request = message(begin(), start(0, "tool_use", id="c", name="look", input={}, caller=caller), *end("tool_use"))
    answered = message(begin(), start(0, "tool_use", id="c", name="look", input={}, caller=caller), *end("end_turn"))

    assert json.loads(request.tool_uses[0].signature or "") == caller
    assert (request.stop_reason, answered.stop_reason) == ("tool_use", "end_turn")
    direct = message(begin(), start(0, "tool_use", id="c", name="look", caller={"type": "direct"}), *end("tool_use"))
    assert direct.tool_uses[0].signature is None


# --- usage -------------------------------------------------------------------------------------------------------------


@pytest.mark.covers("CAC-08", "MOD-30")
def test_cached_tokens_are_counted_once_and_zeros_do_not_overwrite() -> None:
    decoded = message(
        begin(input_tokens=10, cache_read_input_tokens=100, cache_creation_input_tokens=50, output_tokens=1),
        *text(0, "Hi"),
        *end(usage={"input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 7}),
    )

    assert decoded.usage is not None
    assert decoded.usage == Usage(10, 7, 100, 50)
    assert decoded.usage.prompt_tokens == 160
    assert decoded.usage.total_tokens == 167


@pytest.mark.covers("CAC-08")
def test_cache_writes_are_summed_over_their_lifetimes() -> None:
    created = {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 20}

    decoded = whole(content=[], usage={"input_tokens": 1, "output_tokens": 2, "cache_creation": created})
    both = whole(
        content=[],
        usage={"input_tokens": 1, "output_tokens": 2, "cache_creation": created, "cache_creation_input_tokens": 50},
    )

    assert decoded.usage == both.usage == Usage(1, 2, 0, 50)


@pytest.mark.covers("CAC-08", "MOD-31")
def test_usage_has_a_cost_and_reasoning_is_part_of_the_output() -> None:
    using = profile(prices=(3.0, 15.0, 0.3, 3.75))
    usage = {
        "input_tokens": 1_000_000,
        "output_tokens": 1_000_000,
        "cache_read_input_tokens": 1_000_000,
        "cache_creation": {"ephemeral_5m_input_tokens": 1_000_000, "ephemeral_1h_input_tokens": 1_000_000},
        "output_tokens_details": {"thinking_tokens": 400},
    }

    decoded = whole(content=[], usage=usage, using=using).usage

    assert decoded is not None
    assert decoded.reasoning_tokens == 400
    assert decoded.cost == Cost(3.0, 15.0, 0.3, 3.75 + 6.0)
    assert whole(content=[], usage=usage).usage == Usage(1_000_000, 1_000_000, 1_000_000, 2_000_000, 400)


def test_cost_of_a_host_compaction_is_included() -> None:
    one = {"input_tokens": 1_000_000, "output_tokens": 1_000_000}
    usage = {**one, "iterations": [{"type": "compaction", **one}, {"type": "message", **one}]}

    decoded = whole(content=[], usage=usage, using=profile(prices=(3.0, 15.0, 0.3, 3.75))).usage

    assert decoded is not None
    assert (decoded.input_tokens, decoded.output_tokens) == (1_000_000, 1_000_000)
    assert decoded.cost == Cost(6.0, 30.0)
    assert whole(content=[], usage=usage).usage == Usage(1_000_000, 1_000_000)


def test_response_without_counts_has_no_usage() -> None:
    assert message(begin(), *text(0, "Hi"), *end()).usage is None


# --- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "error_text", "error", "reason"),
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
def test_error_during_the_stream_is_raised_with_the_partial_message(
    kind: str, error_text: str, error: type[ModelError], reason: str
) -> None:
    finish_reason = {"type": "error", "error": {"type": kind, "message": error_text}}

    with pytest.raises(error, match=error_text) as caught:
        message(begin(input_tokens=3), start(0, "text", text=""), delta(0, "text", text="Hel"), finish_reason)

    assert caught.value.reason == reason
    assert caught.value.partial is not None
    assert caught.value.partial.text == "Hel"
    assert caught.value.partial.usage == Usage(3, 0)


@pytest.mark.covers("RET-21")
@pytest.mark.parametrize("body", [b"[]", b"<html>Gateway</html>", b'{"type": "message"}', b"data: <html>\n\n"])
def test_invalid_response_raises(body: bytes) -> None:
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
def test_error_body_raises(body: bytes) -> None:
    with pytest.raises(ModelError, match="Overloaded") as caught:
        read(body)

    assert caught.value.retryable


def test_refusal_raises_with_the_partial_message() -> None:
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


def test_full_context_window_raises_context_exceeded() -> None:
    with pytest.raises(ContextExceededError) as caught:
        message(begin(), *text(0, "And so"), *end("model_context_window_exceeded"))

    assert caught.value.partial is not None
    assert caught.value.partial.text == "And so"


@pytest.mark.covers("STR-13")
@pytest.mark.parametrize("cut", [1, 2, 3, 4])
def test_interrupted_stream_raises(cut: int) -> None:
    events = [begin(), start(0, "text", text=""), delta(0, "text", text="Hel"), stop(0), *end()]

    with pytest.raises(NetworkError) as caught:
        read(sse(*events[:cut]))

    assert caught.value.reason == "stream_cut"
    assert (caught.value.partial.text if caught.value.partial else "") == ("Hel" if cut > 2 else "")


def test_truncated_last_event_is_reported_as_an_interrupted_stream() -> None:
    with pytest.raises(NetworkError, match="before the response was complete"):
        read(sse(begin(), *text(0, "Hi")) + b'event: message_delta\ndata: {"type": "mess')


def test_response_with_a_stop_reason_is_complete_without_an_end_event() -> None:
    decoder = AnthropicDecoder(profile())
    out: list[Any] = []
    for event in (begin(), *text(0, "Hi"), end()[0]):
        decoder.feed("", json.dumps(event).encode(), out)

    assert decoder.complete
    assert not decoder.ended
    decoder.finish(out)
    assert out[-1].type == "done"


# --- gateways ----------------------------------------------------------------------------------------------------------


def test_event_name_replaces_a_missing_type_and_vice_versa() -> None:
    named = sse(begin(), *text(0, "Hi"), *end()).replace(b'"type": "message_stop"', b'"x": 1')
    unnamed = sse(*[json.dumps(event) for event in (begin(), *text(0, "Hi"), *end())])

    assert read(named)[-1].partial.text == read(unnamed)[-1].partial.text == "Hi"


def test_start_and_stop_events_can_be_missing() -> None:
    decoded = message(
        delta(0, "thinking", thinking="Hm."),
        delta(0, "signature", signature="S"),
        delta(1, "text", text="Hi"),
        start(2, "tool_use", id="c", name="look"),
        delta(2, "input_json", partial_json="{}"),
        end("tool_use")[0],
        "[DONE]",
    )

    assert decoded.content[:2] == (ThinkingBlock("Hm.", "S"), TextBlock("Hi"))
    assert calls(decoded) == [("c", "look", {})]


def test_duplicate_start_event_is_ignored() -> None:
    events = read(sse(begin(), begin(), *text(0, "Hi"), *end()))

    assert [event.type for event in events] == ["start", "text_start", "text_delta", "text_end", "done"]


def test_second_response_replaces_one_that_broke_off_without_output() -> None:
    decoded = message(
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

    assert calls(decoded) == [("c2", "look", {"at": "x"})]
    assert decoded.thinking == ""
    assert decoded.usage == Usage(10, 3)


@pytest.mark.parametrize("received_blocks", [text(0, "Hel"), call(0, "c", "now")])
def test_second_response_after_output_raises(received_blocks: list[dict[str, Any]]) -> None:
    with pytest.raises(NetworkError, match="second response") as caught:
        message(begin("first"), *received_blocks, begin("second"), *text(0, "Hello"), *end())

    assert caught.value.partial is not None
    assert len(caught.value.partial.content) == 1


def test_events_after_the_end_are_ignored() -> None:
    decoded = message(begin("one"), *text(0, "Hi"), *end(), begin("two"), *text(0, " there"), *end("max_tokens"))

    assert (decoded.text, decoded.stop_reason) == ("Hi", "end_turn")


def test_empty_response_becomes_empty_text() -> None:
    assert message(begin(), *text(0), *end()).content == (TextBlock(""),)
    assert whole(content=[]).content == (TextBlock(""),)


def test_control_characters_invalid_types_and_split_characters_are_read() -> None:
    raw = '{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a\nb"}}'.replace(
        "\n", "\x01"
    )
    surrogate_deltas = [
        '{"type": "content_block_delta", "index": "0", "delta": {"type": "text_delta", "text": "\\ud83d"}}',
        '{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "\\ude00"}}',
    ]

    decoded = message(begin(), start(0, "text", text=""), raw, *surrogate_deltas, stop(0), *end())

    assert decoded.text == "a\x01b\N{GRINNING FACE}"


@given(st.binary(max_size=200))
def test_decoder_accepts_any_bytes(data: bytes) -> None:
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
def test_decoder_accepts_any_events(events: list[Any]) -> None:
    try:
        decoded = read(sse(*[json.dumps(event) for event in [begin(), *events, *end()]]))
    except ModelError:
        return
    assert decoded[-1].type == "done"
    assert decoded[-1].partial.content
