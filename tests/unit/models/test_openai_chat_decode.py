"""Responses of Chat Completions, with the variations of its hosts."""

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from mainspring.errors import ContextExceededError, ErrorCode, InvalidResponseError, ModelError, NetworkError
from mainspring.events import TextDelta, ToolCallEnd
from mainspring.messages import Cost, RedactedThinkingBlock, TextBlock, ThinkingBlock, ToolUseBlock, Usage
from mainspring.models.wire.openai_chat import decode_chat_response
from tests.unit.models.wire import call, calls, chunk, message, profile, read, sse


@pytest.mark.covers("STR-04", "STR-05", "STR-06", "STR-07", "STR-08", "STR-10", "MOD-05")
def test_events_are_in_order_and_each_has_its_partial_message() -> None:
    events = read(
        sse(
            chunk({"role": "assistant", "content": ""}),
            chunk({"reasoning_content": "Hm"}),
            chunk({"reasoning_content": "m."}),
            chunk({"content": "Let me "}),
            chunk({"content": "look."}),
            chunk({"tool_calls": [call("look", "", id="c1", index=0)]}),
            chunk({"tool_calls": [call(None, '{"at":', index=0)]}),
            chunk({"tool_calls": [call(None, '"x"}', index=0)]}),
            chunk({}, "tool_calls"),
        )
    )

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
    assert events[2].partial.thinking == "Hm"
    assert events[6].partial.text == "Let me "
    assert events[0].partial.content == ()
    assert isinstance(events[6], TextDelta)
    assert events[6].index == 1
    assert isinstance(events[12], ToolCallEnd)
    assert events[12].call == ToolUseBlock("c1", "look", {"at": "x"})
    assert [type(b) for b in events[-1].partial.content] == [ThinkingBlock, TextBlock, ToolUseBlock]
    assert events[-1].partial.stop_reason == "tool_use"
    assert (events[-1].partial.provider, events[-1].partial.model) == ("host", "m1")


# --- calls -------------------------------------------------------------------------------------------------------------


def make_call_chunks(*pieces: dict[str, Any] | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [chunk({"tool_calls": p if isinstance(p, list) else [p]}) for p in pieces] + [chunk({}, "tool_calls")]


CALLS: dict[str, tuple[list[Any], list[tuple[str, str, Any]]]] = {
    "interleaved by index": (
        [
            call("a", "", id="1", index=0),
            call("b", "", id="2", index=1),
            call(None, '{"x":', index=0),
            call(None, '{"y":', index=1),
            call(None, "1}", index=0),
            call(None, "2}", index=1),
        ],
        [("1", "a", {"x": 1}), ("2", "b", {"y": 2})],
    ),
    "index 0 for all, new ids": (
        [call("a", '{"x":1}', id="1", index=0), call("b", '{"y":2}', id="2", index=0)],
        [("1", "a", {"x": 1}), ("2", "b", {"y": 2})],
    ),
    "index 0 for all, pieces follow their call": (
        [
            call("a", "", id="1", index=0),
            call(None, '{"x":1}', index=0),
            call("b", "", id="2", index=0),
            call(None, '{"y":', index=0),
            call(None, "2}", index=0),
        ],
        [("1", "a", {"x": 1}), ("2", "b", {"y": 2})],
    ),
    "no index": (
        [call("a", '{"x":', id="1"), call(None, "1}"), call("b", '{"y":', id="2"), call(None, "2}")],
        [("1", "a", {"x": 1}), ("2", "b", {"y": 2})],
    ),
    "no index, id repeated": (
        [call("a", '{"x":', id="1"), call("a", "1}", id="1"), call("b", "{}", id="2")],
        [("1", "a", {"x": 1}), ("2", "b", {})],
    ),
    "id repeated as an empty text": (
        [call("a", '{"x":', id="1", index=0), call("", "1}", id="", index=0)],
        [("1", "a", {"x": 1})],
    ),
    "id repeated as null": (
        [call("a", '{"x":', id="1", index=0), call(None, "1}", id=None, index=0)],
        [("1", "a", {"x": 1})],
    ),
    "neither id nor index, each call whole": (
        [call("a", '{"x":1}'), call("b", '{"y":2}')],
        [("call_r1_0", "a", {"x": 1}), ("call_r1_1", "b", {"y": 2})],
    ),
    "neither id nor index, two at once": (
        [[call("a", '{"x":1}'), call("a", '{"x":1}')]],
        [("call_r1_0", "a", {"x": 1}), ("call_r1_1", "a", {"x": 1})],
    ),
    "neither id nor index, without arguments": (
        [call("a", ""), call("b", "")],
        [("call_r1_0", "a", {}), ("call_r1_1", "b", {})],
    ),
    "id comes late": (
        [call("a", "", index=0), call(None, '{"x":', id="1", index=0), call(None, "1}", id="1", index=0)],
        [("1", "a", {"x": 1})],
    ),
    "name comes late": ([call("", "", id="1", index=0), call("a", "{}", index=0)], [("1", "a", {})]),
    "name in pieces": (
        [call("loo", id="1", index=0), call("k", index=0), call(None, "{}", index=0)],
        [("1", "look", {})],
    ),
    "name repeated": ([call("a", '{"x":', id="1", index=0), call("a", "1}", id="1", index=0)], [("1", "a", {"x": 1})]),
    "arguments once more, whole": (
        [call("a", '{"x":', id="1", index=0), call(None, "1}", index=0), call("a", '{"x":1}', id="1", index=0)],
        [("1", "a", {"x": 1})],
    ),
    "arguments as an object": ([call("a", {"x": 1}, id="1", index=0)], [("1", "a", {"x": 1})]),
    "arguments null": ([{"id": "1", "index": 0, "function": {"name": "a", "arguments": None}}], [("1", "a", {})]),
    "arguments missing": ([call("a", id="1", index=0)], [("1", "a", {})]),
    "one id for two calls": (
        [call("a", '{"x":1}', id="1", index=0), call("b", '{"y":2}', id="1", index=1)],
        [("1", "a", {"x": 1}), ("call_r1_1", "b", {"y": 2})],
    ),
    "index as text": ([call("a", '{"x":', id="1", index="0"), call(None, "1}", index="0")], [("1", "a", {"x": 1})]),
    "id as number": ([call("a", "{}", id=17, index=0)], [("17", "a", {})]),
    "index jumps": (
        [call("a", '{"x":', id="1", index=1), call("b", "{}", id="2", index=3), call(None, "1}", index=1)],
        [("1", "a", {"x": 1}), ("2", "b", {})],
    ),
    "arguments at another index than their call": (
        [
            call("a", "", id="1", index=1),
            call(None, '{"x":', index=0),
            call(None, "1}", index=0),
            call("b", "{}", id="2", index=2),
        ],
        [("1", "a", {"x": 1}), ("2", "b", {})],
    ),
    "type only, then nothing": (
        [{"id": "1", "index": 0, "type": "function", "function": {"name": "a"}}],
        [("1", "a", {})],
    ),
    "broken arguments stay as text": ([call("a", '{"x": 1', id="1", index=0)], [("1", "a", '{"x": 1')]),
}


@pytest.mark.parametrize(("pieces", "expected"), CALLS.values(), ids=CALLS.keys())
def test_call_pieces_are_joined(pieces: list[Any], expected: list[tuple[str, str, Any]]) -> None:
    assert calls(message(*make_call_chunks(*pieces))) == expected


def test_legacy_function_calls_are_calls() -> None:
    answer = message(
        chunk({"function_call": {"name": "look", "arguments": ""}}),
        chunk({"function_call": {"arguments": '{"at":'}}),
        chunk({"function_call": {"arguments": "1}"}}),
        chunk({}, "function_call"),
    )

    assert calls(answer) == [("call_r1_0", "look", {"at": 1})]
    assert answer.stop_reason == "tool_use"


def test_calls_of_an_unstreamed_response_are_not_merged() -> None:
    twice = {"type": "function", "id": "", "function": {"name": "a", "arguments": "{}"}}
    whole = {
        "id": "r1",
        "choices": [{"message": {"content": None, "tool_calls": [twice, twice]}, "finish_reason": "stop"}],
    }

    answer = decode_chat_response(json.dumps(whole).encode(), profile())

    assert calls(answer) == [("call_r1_0", "a", {}), ("call_r1_1", "a", {})]
    assert answer.stop_reason == "tool_use"


def test_call_without_an_id_gets_a_unique_id() -> None:
    first, second = (
        message(*[{**c, "id": None} for c in make_call_chunks(call("a", "{}"))]).tool_uses[0].id for _ in range(2)
    )

    assert first
    assert second
    assert first != second


def test_signature_of_a_call_is_kept() -> None:
    extra = {"google": {"thought_signature": "sig"}}

    answer = message(*make_call_chunks(call("a", "{}", id="1", index=0, extra_content=extra)))

    assert json.loads(answer.tool_uses[0].signature or "") == extra


# --- reasoning ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "thinking"])
def test_reasoning_is_read_from_several_fields(field: str) -> None:
    answer = message(
        chunk({field: "a"}), chunk({field: "b", "content": ""}), chunk({"content": "c"}), chunk({}, "stop")
    )

    assert answer.content == (ThinkingBlock("ab", field), TextBlock("c"))


def test_duplicate_reasoning_is_read_once() -> None:
    answer = message(
        chunk(
            {"reasoning": "a", "reasoning_content": "a", "reasoning_details": [{"type": "reasoning.text", "text": "a"}]}
        ),
        chunk({"content": "b"}, "stop"),
    )

    assert answer.thinking == "a"


def test_opaque_reasoning_is_kept_unchanged() -> None:
    text = {"type": "reasoning.text", "index": 0, "format": "anthropic-claude-v1"}
    secret = {"type": "reasoning.encrypted", "data": "gAAA", "id": "rs_1", "format": "openai-responses-v1", "index": 1}
    answer = message(
        chunk({"reasoning": "a", "reasoning_details": [{**text, "text": "a"}]}),
        chunk({"reasoning": "b", "reasoning_details": [{**text, "text": "b"}]}),
        chunk({"reasoning_details": [{**text, "signature": "sig"}]}),
        chunk({"reasoning_details": [secret]}),
        chunk({"content": "c"}, "stop"),
    )

    thinking, redacted, _ = answer.content
    assert isinstance(thinking, ThinkingBlock)
    assert thinking.thinking == "ab"
    assert json.loads(thinking.signature or "") == {**text, "signature": "sig"}
    assert isinstance(redacted, RedactedThinkingBlock)
    assert json.loads(redacted.data) == secret


def test_content_can_be_a_list_of_parts() -> None:
    answer = message(
        chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}]}),
        chunk({"content": [{"type": "thinking", "thinking": "m."}, {"type": "text", "text": "So "}, "be it"]}),
        chunk({"content": [{"type": "reference", "reference_ids": [1]}]}),
        chunk({"content": "."}, "stop"),
    )

    assert (answer.thinking, answer.text) == ("Hmm.", "So be it.")


def test_refusal_is_read_as_text() -> None:
    assert message(chunk({"refusal": "I cannot "}), chunk({"refusal": "do that."}, "stop")).text == "I cannot do that."


# --- chunks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "odd",
    [
        {"choices": []},
        {"choices": None},
        {"id": "x"},
        {"choices": [], "usage": None, "prompt_filter_results": []},
        {"choices": [{"index": 0, "delta": None}]},
        {"choices": [{"index": 0}]},
        {"choices": [{"index": 1, "delta": {"content": "other"}, "finish_reason": "length"}]},
        {"choices": [{"delta": {"content": None, "tool_calls": None, "function_call": None, "refusal": None}}]},
        {"choices": [{"index": 0, "delta": {"role": "assistant", "tool_calls": []}}], "created": "now", "error": None},
    ],
)
def test_empty_chunks_are_ignored(odd: dict[str, Any]) -> None:
    answer = message(odd, chunk({"content": "a"}), odd, chunk({"content": "b"}), odd, chunk({}, "stop"), odd)

    assert (answer.text, answer.stop_reason) == ("ab", "end_turn")


def test_only_the_first_choice_is_used() -> None:
    both = {"choices": [{"index": 1, "delta": {"content": "no"}}, {"index": 0, "delta": {"content": "yes"}}]}

    assert message(both, chunk({}, "stop")).text == "yes"


@pytest.mark.covers("ERR-08")
@pytest.mark.parametrize(
    ("content", "text"),
    [
        ('{"answer": ', '{"answer": '),
        ("```json\n{oops", "```json\n{oops"),
        ('<tool_call>{"name": "look", ', '<tool_call>{"name": "look", '),
        (7, "7"),
        (["a", {"type": "text", "text": "b"}, {"type": "unheard of"}, None], "ab"),
        ({"answer": "Ö"}, '{"answer": "Ö"}'),
    ],
)
def test_unparsable_content_is_read_as_text(content: Any, text: str) -> None:
    streamed = message(chunk({"content": content}), chunk({}, "stop"))
    body = {"choices": [{"index": 0, "message": {"content": content}, "finish_reason": "stop"}]}
    for answer in (streamed, decode_chat_response(json.dumps(body).encode(), profile())):
        assert (answer.text, answer.stop_reason) == (text, "end_turn")
        assert not answer.tool_uses


def test_fields_of_unexpected_types_are_read_if_possible() -> None:
    answer = message(
        {
            "id": 5,
            "choices": [{"index": "0", "delta": {"content": {"type": "text", "text": "a"}}, "finish_reason": None}],
        },
        {"choices": [{"index": 0, "delta": {"content": 1, "tool_calls": {}, "reasoning": ["x"]}, "finish_reason": {}}]},
        {"choices": "none", "usage": []},
        chunk({}, "stop"),
    )

    assert answer.text == "a1"
    assert answer.thinking == "x"


def test_repeated_message_after_deltas_is_ignored() -> None:
    repeated = {"choices": [{"index": 0, "message": {"content": "ab"}, "finish_reason": "stop"}]}

    assert message(chunk({"content": "a"}), chunk({"content": "b"}), repeated).text == "ab"


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ([r"\ud83d", r"\ude00 ok"], "😀 ok"),
        ([r"a\ud83d", "b"], "ab"),
        ([r"\ude00a"], "\ufffda"),
        (["a\nb\tc"], "a\nb\tc"),
    ],
)
def test_surrogates_and_raw_control_characters_are_read(pieces: list[str], text: str) -> None:
    raw = [json.dumps(chunk({"content": "HERE"})).replace("HERE", piece) for piece in pieces]
    stream = "".join(f"data: {r}\r\n\r\n" for r in raw) if "\n" not in text else None
    if stream is None:  # A line feed ends a line of the stream, so only an unstreamed body can contain one.
        whole = raw[0].replace("delta", "message").encode()
        assert read(whole)[-1].partial.text == text
        return
    body = stream.encode() + sse(chunk({}, "stop"))

    assert read(body)[-1].partial.text == text


# --- the end of a response ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("stop", "end_turn"),
        ("STOP", "end_turn"),
        ("eos", "end_turn"),
        ("eos_token", "end_turn"),
        ("FinishReason.STOP", "end_turn"),
        ("completed", "end_turn"),
        ("length", "max_tokens"),
        ("model_length", "max_tokens"),
        ("max_tokens", "max_tokens"),
        ("stop_sequence", "stop_sequence"),
        ("tool_calls", "tool_use"),
        (None, "end_turn"),
    ],
)
@pytest.mark.covers("STR-08", "MSG-14")
def test_finish_reason_is_mapped_to_a_stop_reason(finish: str | None, reason: str) -> None:
    assert message(chunk({"content": "a"}), chunk({}, finish)).stop_reason == reason


def test_unknown_finish_reason_is_an_error_with_the_partial_message() -> None:
    with pytest.raises(InvalidResponseError, match="unknown reason.*finish reason something_new") as caught:
        message(chunk({"content": "So"}), chunk({}, "something_new"))

    assert (caught.value.reason, caught.value.retryable) == ("unknown_stop", False)
    assert caught.value.partial is not None
    assert caught.value.partial.text == "So"


@pytest.mark.parametrize("finish", ["tool_calls", "stop", "function_call", "tool_use", None])
def test_stop_reason_is_tool_use_if_there_are_calls(finish: str | None) -> None:
    assert (
        message(chunk({"tool_calls": [call("a", "{}", id="1", index=0)]}), chunk({}, finish)).stop_reason == "tool_use"
    )


def test_reported_stop_text_is_a_stop_sequence() -> None:
    ended = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "stop_reason": "###"}]}

    assert message(chunk({"content": "a"}), ended).stop_reason == "stop_sequence"


def test_output_limit_inside_a_call_keeps_the_truncated_call() -> None:
    answer = message(
        chunk({"tool_calls": [call("write", '{"path": "a", "text": "ab', id="1", index=0)]}), chunk({}, "length")
    )

    assert answer.stop_reason == "max_tokens"
    assert calls(answer) == [("1", "write", '{"path": "a", "text": "ab')]


def test_done_marker_is_optional_after_a_finish_reason() -> None:
    assert message(chunk({"content": "a"}, "stop"), done=False).text == "a"
    assert message(chunk({"content": "a"}), done=True).text == "a"


@pytest.mark.covers("STR-13", "STR-09")
def test_interrupted_stream_keeps_the_partial_message_and_ends_no_call() -> None:
    body = sse(
        chunk({"content": "a"}), chunk({"tool_calls": [call("rm", '{"path": "/"}', id="1", index=0)]}), done=False
    )

    with pytest.raises(NetworkError) as caught:
        read(body)

    error = caught.value
    assert (error.reason, error.retryable, error.provider, error.model) == ("stream_cut", True, "host", "m1")
    assert error.partial is not None
    assert error.partial.text == "a"
    assert error.partial.tool_uses == (ToolUseBlock("1", "rm", {}, '{"path": "/"}'),)


def test_truncated_last_chunk_is_an_interrupted_stream() -> None:
    whole = sse(chunk({"content": "a"}), chunk({"content": "b"}), done=False)

    with pytest.raises(NetworkError, match="closed before the response was complete"):
        read(whole[:-20])


@pytest.mark.covers("MOD-04")
@pytest.mark.parametrize(
    "body", [sse(chunk({}, "stop")), sse(chunk({"content": ""}), chunk({"content": None}, "stop"))]
)
def test_empty_response_becomes_empty_text(body: bytes) -> None:
    answer = read(body)[-1].partial

    assert answer.content == (TextBlock(""),)
    assert answer.stop_reason == "end_turn"


def test_data_to_send_back_survives_without_text_and_with_lone_surrogates() -> None:
    answer = message(chunk({"extra_content": {"google": {"thought_signature": "S"}}}), chunk({}, "stop"))
    assert answer.content == (TextBlock("", '{"google":{"thought_signature":"S"}}'),)

    odd = '{"choices": [{"delta": {"content": "Hi", "extra_content": {"google": "\\ud800"}}, "finish_reason": "stop"}]}'
    assert read(sse(odd))[-1].partial.content == (TextBlock("Hi", '{"google":"\ufffd"}'),)


def test_response_with_only_reasoning_is_kept() -> None:
    assert message(chunk({"reasoning": "Hm"}), chunk({}, "length")).content == (ThinkingBlock("Hm", "reasoning"),)


# --- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chunks", "code", "status"),
    [
        ([{"error": {"message": "Overloaded", "type": "overloaded_error"}}], ErrorCode.RATE_LIMITED, None),
        ([{"error": {"code": 429, "message": "slow down"}}], ErrorCode.RATE_LIMITED, 429),
        ([{"error": {"code": 502, "message": "bad gateway"}, "choices": []}], ErrorCode.NETWORK_ERROR, 502),
        ([{"error": "rate limit reached"}], ErrorCode.RATE_LIMITED, None),
        ([chunk({}, "error") | {"error": {"message": "x", "code": "server_error"}}], ErrorCode.NETWORK_ERROR, None),
        (
            [{"choices": [{"delta": {}, "finish_reason": "error", "error": {"code": 503, "message": "no"}}]}],
            ErrorCode.NETWORK_ERROR,
            503,
        ),
        ([{"x_groq": {"error": "over capacity"}, "choices": [{"delta": {}}]}], ErrorCode.RATE_LIMITED, None),
        ([chunk({}, "insufficient_system_resource")], ErrorCode.NETWORK_ERROR, None),
    ],
)
def test_error_during_the_stream_is_raised_with_the_partial_message(
    chunks: list[dict[str, Any]], code: ErrorCode, status: int | None
) -> None:
    with pytest.raises(ModelError) as caught:
        message(chunk({"content": "so far"}), *chunks)

    assert (caught.value.code, caught.value.status) == (code, status)
    assert caught.value.partial is not None
    assert caught.value.partial.text == "so far"


def test_error_event_may_be_plain_text() -> None:
    with pytest.raises(ModelError, match="upstream went away"):
        read(sse(chunk({"content": "a"}), done=False) + b"event: error\ndata: upstream went away\n\n")


@pytest.mark.parametrize(
    "body",
    [
        b'{"error":{"message":"No such thing","type":"invalid_request_error","code":"model_not_found"}}',
        b'{"object":"error","message":"The model `x` does not exist.","type":"NotFoundError","code":404}',
        b'[{"error":{"code":404,"message":"models/x is not found","status":"NOT_FOUND"}}]',
        b'{"detail":"model x not found"}',
    ],
)
def test_error_body_raises(body: bytes) -> None:
    with pytest.raises(ModelError) as caught:
        read(body)

    assert caught.value.code is ErrorCode.MODEL_NOT_FOUND


@pytest.mark.covers("PKG-07", "RET-21")
@pytest.mark.parametrize(
    ("body", "reason", "text"),
    [
        (b'{"choices":[]}', "empty", "no choices"),
        (b'{"id":"x"}', "empty", "no choices"),
        (b"<html><body>Bad gateway</body></html>", "html", "web page"),
        (b"upstream connect error", "not_json", "upstream connect error"),
        (b"[1, 2]", "not_json", "not valid JSON"),
        (b"data: {\n\n", "not_json", "not valid JSON"),
        (b"data: <html>\n\n", "html", "web page"),
    ],
)
def test_invalid_response_raises(body: bytes, reason: str, text: str) -> None:
    with pytest.raises(InvalidResponseError, match=text) as caught:
        read(body)

    assert (caught.value.reason, caught.value.retryable) == (reason, False)


@pytest.mark.covers("RET-21")
@pytest.mark.parametrize(
    "body", [b"", b"  \n", b"data: [DONE]\n\n", b": ping\n\n", b'data: {"choices":[]}\n\ndata: [DONE]\n\n']
)
def test_response_without_any_content_can_be_retried(body: bytes) -> None:
    with pytest.raises(InvalidResponseError, match="The response is empty") as caught:
        read(body)

    assert (caught.value.reason, caught.value.retryable) == ("empty", True)


def test_filtered_response_raises_with_the_partial_message() -> None:
    with pytest.raises(ModelError, match="content filter") as caught:
        message(chunk({"content": "Well, "}), chunk({}, "content_filter"))

    assert (caught.value.reason, caught.value.retryable) == ("content_filter", False)
    assert caught.value.partial is not None
    assert caught.value.partial.text == "Well, "


@pytest.mark.covers("TST-09")
def test_context_overflow_can_be_a_finish_reason() -> None:
    with pytest.raises(ContextExceededError) as caught:
        message(chunk({"content": "a"}), chunk({}, "model_context_window_exceeded"))

    assert caught.value.partial is not None


@pytest.mark.parametrize("by", [1, 7, None])
def test_unstreamed_response_is_read(by: int | None) -> None:
    whole = {
        "id": "r1",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    }

    events = read(b"\xef\xbb\xbf \n" + json.dumps(whole, indent=2).encode(), by=by)

    assert [e.type for e in events] == ["start", "text_start", "text_delta", "text_end", "done"]
    assert events[-1].partial.text == "Hi."
    assert events[-1].partial.usage == Usage(3, 2)


# --- usage -------------------------------------------------------------------------------------------------------------

COUNTS = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


@pytest.mark.covers("MOD-29")
@pytest.mark.parametrize(
    "chunks",
    [
        [chunk({"content": "a"}, "stop"), {"choices": [], "usage": COUNTS}],
        [chunk({"content": "a"}, "stop", usage=COUNTS)],
        [chunk({"content": "a"}), chunk({}, "stop", usage=COUNTS), {"choices": [], "usage": None}],
        [{"choices": [{"delta": {"content": "a"}, "finish_reason": "stop", "usage": COUNTS}]}],
        [chunk({"content": "a"}, "stop", x_groq={"id": "x", "usage": COUNTS})],
        [
            chunk({"content": "a"}, usage={**COUNTS, "completion_tokens": 1, "total_tokens": 11}),
            chunk({}, "stop", usage=COUNTS),
        ],
        [chunk({"content": "a"}, usage=COUNTS), chunk({}, "stop", usage={"prompt_tokens": 0, "completion_tokens": 0})],
    ],
)
def test_usage_is_read_from_every_position(chunks: list[dict[str, Any]]) -> None:
    assert message(*chunks).usage == Usage(10, 5)


def test_missing_usage_is_not_zero_usage() -> None:
    assert message(chunk({"content": "a"}, "stop")).usage is None


def test_known_price_gives_a_cost() -> None:
    answer = message(chunk({"content": "a"}, "stop", usage=COUNTS), using=profile(prices=(1.0, 2.0, 0.5, 1.0)))

    assert answer.usage is not None
    assert answer.usage.cost == Cost(10 / 1e6, 10 / 1e6)


# --- any input ---------------------------------------------------------------------------------------------------------

SCALARS = st.none() | st.booleans() | st.integers(-3, 10**12) | st.floats(allow_nan=False) | st.text(max_size=5)
ANY = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "text", "thinking", "message", "code", "name", "arguments", "id"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


def optional_fields(*names: str, of: st.SearchStrategy[Any] = ANY) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(names), of, max_size=4)


FUNCTIONS = optional_fields("name", "arguments")
PIECES = optional_fields("id", "index", "type", of=SCALARS) | st.fixed_dictionaries(
    {}, optional={"id": SCALARS, "index": SCALARS, "function": FUNCTIONS | ANY, "custom": ANY, "extra_content": ANY}
)
DELTAS = st.fixed_dictionaries(
    {},
    optional={
        "content": ANY,
        "reasoning": ANY,
        "reasoning_content": ANY,
        "reasoning_details": ANY
        | st.lists(optional_fields("type", "text", "summary", "data", "signature", "index"), max_size=2),
        "refusal": ANY,
        "tool_calls": ANY | st.lists(PIECES, max_size=3),
        "function_call": ANY | FUNCTIONS,
        "extra_content": ANY,
    },
)
CHOICES = st.fixed_dictionaries(
    {},
    optional={
        "index": st.just(0) | SCALARS,
        "delta": DELTAS | ANY,
        "message": DELTAS | ANY,
        "finish_reason": st.sampled_from(["stop", "length", "tool_calls"]) | ANY,
        "usage": ANY,
    },
)
COUNTS_OF_ANY = optional_fields("prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details", "cost")
CHUNKS = st.fixed_dictionaries(
    {},
    optional={"id": ANY, "choices": st.lists(CHOICES, max_size=2) | ANY, "usage": COUNTS_OF_ANY | ANY, "x_groq": ANY},
)


@settings(max_examples=400)
@given(st.lists(CHUNKS, max_size=5), st.booleans())
def test_any_objects_give_a_message_or_a_model_error(objects: list[dict[str, Any]], done: bool) -> None:
    body = sse(*objects, done=done)
    try:
        events = read(body)
    except ModelError:
        return

    last = events[-1].partial
    assert events[-1].type == "done"
    assert last.content
    assert last.stop_reason in ("end_turn", "tool_use", "max_tokens", "stop_sequence")
    assert len({c.id for c in last.tool_uses}) == len(last.tool_uses)
    assert all(e.partial is not None for e in events)


@settings(max_examples=200)
@given(st.binary(max_size=80))
def test_any_bytes_give_a_model_error(body: bytes) -> None:
    with pytest.raises(ModelError):
        read(body)
