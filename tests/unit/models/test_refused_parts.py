"""A host that refuses a part of requests, in any words: the request is sent again without it, and the user is informed."""

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import permutations
from typing import Any

import pytest

from mainspring import Agent
from mainspring.errors import ContextExceededError, ModelError
from mainspring.events import Notice
from mainspring.messages import (
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
)
from mainspring.models import HttpModel
from mainspring.models.port import ModelInfo, ModelRequest, Sampling
from mainspring.models.profile import ModelProfile
from mainspring.models.transport.port import Timeouts, TransportResponse
from mainspring.models.transport.recording import MemoryResponse
from mainspring.models.wire.anthropic.protocol import AnthropicProtocol
from mainspring.models.wire.gemini.protocol import GeminiProtocol
from mainspring.models.wire.ollama import OllamaProtocol
from mainspring.models.wire.openai_chat import ChatCompletionsProtocol
from mainspring.models.wire.openai_responses.protocol import ResponsesProtocol
from tests.unit.models.wire import chunk, profile, sse

PIXEL, OTHER = ImageBlock("image/png", "R09PRA=="), ImageBlock("image/png", "QkFE")
LOOK = ToolDefinition("look", "Looks.", {"type": "object"})
GOOD = sse(chunk({"content": "Hello"}, "stop"))
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


class Host:
    """A transport that refuses requests by their content.

    Args:
        refuses: Function that returns the body of the refusal, or ``None`` to accept.
        status: Status of the refusal.
    """

    def __init__(self, refuses: Callable[[dict[str, Any]], Any], status: int = 400, good: bytes = GOOD) -> None:
        self._refuses = refuses
        self._status = status
        self._good = good
        self.requests: list[dict[str, Any]] = []

    @asynccontextmanager
    async def open(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts
    ) -> AsyncGenerator[TransportResponse]:
        self.requests.append(json.loads(body))
        refusal = self._refuses(self.requests[-1])
        yield (
            MemoryResponse(self._good)
            if refusal is None
            else MemoryResponse(json.dumps(refusal).encode(), self._status)
        )

    async def aclose(self) -> None:
        pass


def has(text: str) -> Callable[[Any], bool]:
    return lambda body: text in json.dumps(body)


def create_http_model(host: Host, protocol: Any = None) -> HttpModel:
    return HttpModel(profile(), protocol or ChatCompletionsProtocol(), transport=host)


def create_request(**fields: Any) -> ModelRequest:
    messages = [Message.user([TextBlock("Look"), PIXEL])]
    return ModelRequest(**{"messages": messages, "system": "Be kind.", "tools": [LOOK], **fields})


WORDINGS: list[tuple[int, Any]] = [
    (400, {"error": {"message": "Bad Request"}}),
    (400, {"error": {"message": "messages[3]: unknown variant, expected `text` at line 1 column 300"}}),
    (400, {"error": {"code": "1210", "message": "The parameters are wrong. Please check the documentation."}}),
    (400, {"object": "error", "message": "", "code": 400}),
    (404, {"error": {"message": "No endpoints found that support this request", "code": 404}}),
    (404, {"error": {"message": "The model cannot do this", "code": 404}}),
    (405, {"error": "unsupported"}),
    (409, {"error": {"message": "This combination is not possible"}}),
    (415, {"message": "No."}),
    (422, {"detail": [{"loc": ["body", "messages", 3, "content"], "msg": "Input should be a valid string"}]}),
    (422, {"detail": "Unprocessable"}),
    (501, {"error": {"message": "Not Implemented"}}),
]
PARTS: list[tuple[str, Callable[[Any], bool], dict[str, Any]]] = [
    ("images", has("data:image"), {}),
    ("stream_options", has('"stream_options"'), {}),
    ("parallel tool calls", has('"parallel_tool_calls"'), {"sampling": Sampling(parallel_tool_calls=False)}),
    ("a forced tool call", has('"tool_choice"'), {"tool_choice": "required"}),
    ("the schema of the response", has('"response_format"'), {"schema": SCHEMA}),
    ("reasoning", has('"reasoning_effort"'), {"thinking": "high"}),
    ("sampling options and stop sequences", has('"temperature"'), {"temperature": 0.5}),
    ("sampling options and stop sequences", has('"seed"'), {"sampling": Sampling(seed=1)}),
    ("the field max_tokens", has('"max_tokens"'), {"max_output_tokens": 100}),
    ("the output limit", lambda body: any(name.startswith("max_") for name in body), {"max_output_tokens": 100}),
    ("the system prompt in its own role", has('"role": "system"'), {}),
    ("tools", has('"tools"'), {}),
]


@pytest.mark.parametrize(("status", "refusal"), WORDINGS)
@pytest.mark.parametrize(("label", "is_part", "fields"), PARTS)
async def test_refused_part_is_found_by_what_the_request_contains(
    label: str, is_part: Callable[[Any], bool], fields: dict[str, Any], status: int, refusal: Any
) -> None:
    host = Host(lambda body: refusal if is_part(body) else None, status)
    http_model, notes = create_http_model(host), list[str]()

    counts: list[int] = []
    for _ in range(2):
        response = await http_model.complete(create_request(warn=notes.append, **fields))
        assert response.text == "Hello"
        counts.append(len(host.requests))

    assert is_part(host.requests[0])
    assert counts[1] == counts[0] + 1, "The second request must not contain the part."
    [note] = notes
    assert note.startswith(f"host:m1 refused {label} (")
    limits = ("the field max_tokens", "the output limit")
    others = [
        is_other
        for name, is_other, _ in PARTS
        if name != label and not (label in limits and name in limits) and is_other(host.requests[0])
    ]
    assert all(is_other(host.requests[-1]) for is_other in others), "Only the refused part may be left out."


@pytest.mark.parametrize(
    ("protocol", "good"),
    [
        (
            AnthropicProtocol(),
            sse(
                {"type": "message_start", "message": {"usage": {}}},
                {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hello"}},
                {"type": "content_block_stop", "index": 0},
                {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
                {"type": "message_stop"},
                done=False,
            ),
        ),
        (
            GeminiProtocol(),
            sse({"candidates": [{"content": {"parts": [{"text": "Hello"}]}, "finishReason": "STOP"}]}, done=False),
        ),
        (OllamaProtocol(), b'{"message":{"content":"Hello"},"done":true,"done_reason":"stop"}\n'),
        (
            ResponsesProtocol(),
            sse(
                {
                    "type": "response.completed",
                    "response": {
                        "status": "completed",
                        "output": [{"type": "message", "content": [{"type": "output_text", "text": "Hello"}]}],
                    },
                },
                done=False,
            ),
        ),
    ],
    ids=["messages", "gemini", "ollama", "responses"],
)
@pytest.mark.parametrize(
    ("label", "is_part"),
    [("images", has("R09PRA==")), ("tools", has('"look"')), ("the schema of the response", has('"properties": {"a"'))],
)
async def test_every_protocol_leaves_out_the_refused_part(
    protocol: Any, good: bytes, label: str, is_part: Callable[[Any], bool]
) -> None:
    host = Host(lambda body: {"error": {"message": "Bad Request"}} if is_part(body) else None, good=good)
    notes: list[str] = []

    request = create_request(warn=notes.append, schema=SCHEMA, tools=[LOOK] if label != "images" else [])
    if isinstance(protocol, GeminiProtocol) and "schema" in label:
        request.tools = ()  # Not sent together.
    assert (await create_http_model(host, protocol).complete(request)).text == "Hello"

    assert [note.partition(" (")[0] for note in notes] == [f"host:m1 refused {label}"]


async def test_several_refused_parts_are_found() -> None:
    def refuse(body: dict[str, Any]) -> Any:
        named = [name for name in ("stream_options", "tools") if name in body]
        return {"error": {"message": f"Wrong: {named[0]}!"}} if named else None

    for refuses in (refuse, lambda body: {"error": "Bad Request"} if refuse(body) else None):
        host = Host(refuses)
        http_model, notes = create_http_model(host), list[str]()
        assert (await http_model.complete(create_request(warn=notes.append))).text == "Hello"
        assert "stream_options" in notes[0]
        assert "tools" in notes[0]


def _length(body: Any) -> int:
    return len(json.dumps([body["messages"], body.get("tools")])) // 4


RULES: list[tuple[Callable[[Any], bool], Callable[[Any], str]]] = [
    (
        lambda body: _length(body) + body.get("max_tokens", 0) > 8192,
        lambda body: f"Request length {_length(body)} + {body['max_tokens']} is greater than max_seq_len 8192",
    ),
    (lambda body: body.get("max_tokens", 0) > 4000, lambda body: "max_tokens must be at most 4000"),
    (has("data:image"), lambda body: "Unsupported content"),
    (has('"stream_options"'), lambda body: "Extra inputs are not permitted"),
    (has('"response_format"'), lambda body: "Not with this model"),
    (lambda body: any("content" not in message for message in body["messages"]), lambda body: "Field required"),
    (has('"role": "system"'), lambda body: "Bad role"),
]
"""Refusals of a host, most of them in words that name another part or none."""


@pytest.mark.parametrize("text", ["Bad Request", "Extra inputs are not permitted: stream_options"])
async def test_note_quotes_the_refusal_of_the_part_and_not_that_of_a_limit(text: str) -> None:
    def refuse(body: Any) -> Any:
        if "stream_options" in body:
            return {"error": {"message": text}}
        return {"error": {"message": "max_tokens must be at most 4000"}} if body.get("max_tokens", 0) > 4000 else None

    host, notes = Host(refuse), list[str]()
    at = ModelProfile(ModelInfo("m1", "host"), f"http://{len(text)}.note/v1")

    await HttpModel(at, ChatCompletionsProtocol(), transport=host).complete(
        create_request(max_output_tokens=16_384, warn=notes.append)
    )

    assert len(notes) == 1
    assert notes[0].startswith(f"host:m1 refused stream_options ({text}")


async def test_two_refusals_in_any_order_are_learned() -> None:
    history = [
        Message.user("Start"),
        Message("assistant", (ToolUseBlock("c1", "look", {}),), provider="host", model="m1"),
        Message("user", (ToolResultBlock("c1", "look", "Blue"),)),
        Message.user([TextBlock("Look"), PIXEL]),
    ]
    for order in permutations(RULES, 2):
        host = Host(
            lambda body, order=order: next(
                ({"error": {"message": text(body)}} for is_refused, text in order if is_refused(body)), None
            )
        )
        at = ModelProfile(ModelInfo("m1", "host"), f"http://{id(order)}/v1")
        http_model = HttpModel(at, ChatCompletionsProtocol(), transport=host)
        request = ModelRequest(history, system="Be kind.", tools=[LOOK], schema=SCHEMA, max_output_tokens=16_384)

        assert (await http_model.complete(request)).text == "Hello"
        assert len(host.requests) <= 12
        count = len(host.requests)
        assert (await http_model.complete(request)).text == "Hello"
        assert len(host.requests) == count + 1
        assert "tools" in host.requests[-1]


@pytest.mark.parametrize(
    ("status", "refusal"),
    [
        (401, {"error": {"message": "image input is not supported"}}),
        (402, {"error": {"message": "Payment required for images"}}),
        (403, {"error": {"message": "Images are not allowed for your account"}}),
        (404, {"error": {"message": "The model `m1` does not exist", "code": "model_not_found"}}),
        (404, {"error": {"message": "The model `gpt-4-vision` does not exist or you do not have access to it."}}),
        (404, {"detail": "Not Found"}),
        (404, {"error": {"message": "refused"}}),
        (404, {}),
        (407, {"error": {"message": "Sign in"}}),
        (431, {"error": {"message": "Header too long"}}),
        (451, {"error": {"message": "Not in your country"}}),
        (404, {"error": {"message": "No endpoints found for vendor/m1"}}),
        (413, {"error": {"message": "The prompt is too long: 9000 tokens"}}),
        (429, {"error": {"message": "Too many images"}}),
        (400, {"error": {"message": "prompt is too long: 9000 tokens > 8000 maximum"}}),
        (400, {"error": {"message": "The response was filtered due to our content management policy"}}),
        (500, {"error": {"message": "Internal server error"}}),
        (503, {"error": {"message": "image service unavailable"}}),
    ],
)
async def test_refusal_with_another_meaning_is_reported_after_one_request(status: int, refusal: Any) -> None:
    host = Host(lambda body: refusal, status)

    with pytest.raises(ModelError):
        await create_http_model(host).complete(create_request())

    assert len(host.requests) == 1


@pytest.mark.parametrize(
    ("status", "refusal"),
    [
        (400, {"error": {"message": "Invalid model: this model does not accept image input"}}),
        (400, {"error": {"message": "The model `m1` is not available for vision requests"}}),
        (404, {"error": {"message": "model m1 not found for image modality", "code": "model_not_found"}}),
        (400, {"error": {"message": "Multimodal input is against the content policy of this model"}}),
        (400, {"error": {"message": "You are not authorized to send images to this model"}}),
        (400, {"error": {"message": "Billing: images need a paid plan"}}),
        (400, {"error": {"message": "当前模型不支持图片输入"}}),
        (200, {"error_code": 336003, "error_msg": "the content of messages must be string"}),
    ],
)
async def test_refused_images_are_found_although_the_words_suggest_another_error(status: int, refusal: Any) -> None:
    host = Host(lambda body: None, status)
    host._refuses = lambda body: refusal if has("data:image")(body) else setattr(host, "_status", 200)
    notes: list[str] = []

    response = await create_http_model(host).complete(create_request(warn=notes.append))

    assert response.text == "Hello"
    assert [note.partition(" (")[0] for note in notes] == ["host:m1 refused images"]
    assert len(host.requests) == 2


async def test_model_with_images_in_its_name_that_is_not_found_is_reported_after_one_request() -> None:
    host = Host(lambda body: {"error": {"message": "model vision-tool does not exist"}}, 404)
    http_model = HttpModel(profile(model="vision-tool"), ChatCompletionsProtocol(), transport=host)

    with pytest.raises(ModelError):
        await http_model.complete(create_request())

    assert len(host.requests) == 1


@pytest.mark.parametrize(
    "refusal",
    [
        {"error": {"message": "messages.1.content: none is not an allowed value"}},
        {"error": {"message": "Invalid 'content': 'content' field must be a string or an array of objects."}},
        {"error": {"message": "Bad Request"}},
    ],
)
async def test_calls_without_text_have_an_empty_text_for_a_host_that_requires_one(refusal: Any) -> None:
    host = Host(lambda body: refusal if any("content" not in message for message in body["messages"]) else None)
    http_model, notes = create_http_model(host), list[str]()
    history = [
        Message.user("Look"),
        Message("assistant", (ToolUseBlock("c1", "look", {}),), provider="host", model="m1"),
        Message("user", (ToolResultBlock("c1", "look", "Blue"),)),
    ]

    for _ in range(2):
        response = await http_model.complete(ModelRequest(history, tools=[LOOK], warn=notes.append))
        assert response.text == "Hello"

    assert [note.partition(" (")[0] for note in notes] == ["host:m1 refused messages without text"]
    assert host.requests[-1]["messages"][1]["content"] == ""
    assert host.requests[-1]["tools"]
    assert len(host.requests) <= 6


async def test_request_that_no_change_makes_acceptable_fails_with_its_refusal_and_changes_nothing() -> None:
    host = Host(lambda body: {"error": {"message": f"Bad request number {len(host.requests)}"}})
    http_model, notes = create_http_model(host), list[str]()
    before = http_model.profile

    with pytest.raises(ModelError, match="number 1"):
        await http_model.complete(create_request(warn=notes.append))

    bodies = [json.dumps(body) for body in host.requests]
    assert len(set(bodies)) == len(bodies) <= 4
    assert (http_model.profile, notes) == (before, [])


@pytest.mark.parametrize("text", ["Bad Request", "Something about tools, images, temperature, and a schema"])
async def test_lasting_refusal_costs_a_handful_of_requests(text: str) -> None:
    host = Host(lambda body: {"error": {"message": text}})
    fields: dict[str, Any] = {"schema": SCHEMA, "temperature": 0.5, "thinking": "high", "tool_choice": "required"}

    with pytest.raises(ModelError, match=text):
        await create_http_model(host).complete(create_request(max_output_tokens=100, **fields))

    assert len(host.requests) <= 6


async def test_another_failure_of_a_trial_is_reported() -> None:
    host = Host(lambda body: {"error": {"message": "x"}})
    statuses = iter([400, 429])
    host._refuses = lambda body: setattr(host, "_status", next(statuses)) or {"error": {"message": "Bad"}}

    with pytest.raises(ModelError) as caught:
        await create_http_model(host).complete(create_request())

    assert (caught.value.status, len(host.requests)) == (429, 2)


@pytest.mark.parametrize(
    "refusal",
    [
        {"error": {"message": "Not a multimodal model", "code": 400}},
        {"error": {"message": "No images, please", "type": "invalid_request_error"}},
        {"error": {"message": "Images are not for me"}},
    ],
)
@pytest.mark.parametrize("form", ["body", "event", "after the first event"])
async def test_refusal_inside_an_accepted_response_is_one(form: str, refusal: Any) -> None:
    host = Host(lambda body: None)
    http_model, notes = create_http_model(host), list[str]()
    start = sse(chunk({"role": "assistant", "content": ""}), done=False)
    bodies = {
        "body": json.dumps(refusal).encode(),
        "event": sse(refusal),
        "after the first event": start + sse(refusal),
    }
    host._refuses = lambda body: setattr(host, "_good", bodies[form] if has("data:image")(body) else GOOD)

    response = await http_model.complete(create_request(warn=notes.append))

    assert response.text == "Hello"
    assert [note.partition(" (")[0] for note in notes] == ["host:m1 refused images"]
    assert len(host.requests) == 2


async def test_failure_inside_an_accepted_response_that_names_no_part_is_reported_after_one_request() -> None:
    for failure in (
        {"message": "Something broke"},
        {"message": "Overloaded", "code": 529},
        {"message": "No", "code": 401},
    ):
        host = Host(lambda body: None, good=sse({"error": failure}))
        with pytest.raises(ModelError, match=failure["message"]):
            await create_http_model(host).complete(create_request())
        assert len(host.requests) == 1


@pytest.mark.parametrize("is_newest_enough", [True, False])
async def test_request_that_is_too_large_is_sent_again_without_images(is_newest_enough: bool) -> None:
    is_large = has("QkFE") if is_newest_enough else has("data:image")
    host = Host(lambda body: {"message": "Payload Too Large"} if is_large(body) else None, 413)
    http_model, notes = create_http_model(host), list[str]()

    request = ModelRequest([Message.user([PIXEL]), Message.user([OTHER])], tools=[LOOK], warn=notes.append)
    assert (await http_model.complete(request)).text == "Hello"

    assert has("R09PRA==")(host.requests[-1]) is is_newest_enough
    assert notes[0].startswith(
        f"host:m1 refused {'the newest images' if is_newest_enough else 'images'} (Payload Too Large)"
    )
    with pytest.raises(ContextExceededError):
        await create_http_model(Host(lambda body: {"message": "Payload Too Large"}, 413)).complete(request)


async def test_server_error_about_a_schema_with_tools_is_a_refusal_of_the_schema() -> None:
    error = {
        "error": {"code": 500, "message": "Cannot use custom grammar constraints with tools.", "type": "server_error"}
    }
    host, notes = Host(lambda body: error if "response_format" in body else None, 500), list[str]()

    await create_http_model(host).complete(create_request(schema=SCHEMA, warn=notes.append))

    assert [note.partition(" (")[0] for note in notes] == ["host:m1 refused the schema of the response"]
    assert len(host.requests) == 2


@pytest.mark.parametrize(
    ("status", "error", "is_retried"),
    [
        (400, "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.", True),
        (400, "Failed to parse tool call: unexpected token", True),
        (500, "error parsing tool call: raw='{\"a\": ' err=unexpected end of JSON input", False),
        (500, "CUDA error: out of memory in function ggml_cuda", True),
        (400, "You exceeded your current quota, please check your plan and billing. Tools need credits.", True),
        (400, "Error while preparing the tools of the request", True),
        (422, "Invalid function schema", True),
    ],
)
async def test_failure_that_passes_removes_no_tools(status: int, error: str, is_retried: bool) -> None:
    failures = iter([{"error": {"message": error}}])
    host, notes = Host(lambda body: next(failures, None), status), list[str]()
    http_model, request = create_http_model(host), create_request(messages=[Message.user("Look")], warn=notes.append)

    if not is_retried:  # A failure of a server is retried later.
        with pytest.raises(ModelError):
            await http_model.complete(request)
    await http_model.complete(request)

    assert len(host.requests) == 2
    assert all("tools" in body for body in host.requests)
    assert not notes


@pytest.mark.parametrize(
    "text",
    [
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
        "thinking is enabled but reasoning_content is missing in assistant tool call message at index 1",
        "Missing `reasoning_content` field in the assistant message at message index 1.",
    ],
)
async def test_host_that_requires_reasoning_in_each_message_gets_it(text: str) -> None:
    def refuse(body: Any) -> Any:
        lacks = any(m["role"] == "assistant" and not m.get("reasoning_content") for m in body["messages"])
        return {"error": {"message": text}} if lacks else None

    host, notes = Host(refuse), list[str]()
    http_model = create_http_model(host)
    history = [
        Message.user("Look"),
        Message.assistant([ToolUseBlock("c1", "look")], provider="host", model="m1"),
        Message.user([ToolResultBlock("c1", "look", "A")]),
        Message.assistant([ThinkingBlock("Hm.", "reasoning_content"), TextBlock("Blue.")], provider="host", model="m1"),
        Message.user("Sure?"),
    ]

    for _ in range(2):
        await http_model.complete(ModelRequest(history, tools=[LOOK], warn=notes.append))

    assert len(host.requests) == 3
    assert [m.get("reasoning_content") for m in host.requests[-1]["messages"] if m["role"] == "assistant"] == [
        " ",
        "Hm.",
    ]
    assert not notes


async def test_refusal_without_words_that_passes_removes_nothing() -> None:
    failures = iter([{"error": {"message": "Bad Request"}}])
    host = Host(lambda body: next(failures, None))
    http_model, notes = create_http_model(host), list[str]()
    before = http_model.profile

    await http_model.complete(create_request(warn=notes.append, temperature=0.5, thinking="high", schema=SCHEMA))

    assert host.requests[0] == host.requests[-1]
    assert len(host.requests) == 3
    assert (http_model.profile, notes) == (before, [])


@pytest.mark.parametrize(
    ("text", "is_noted"),
    [
        ("Unsupported parameter: 'reasoning_effort' is not supported with this model.", True),
        ("Unsupported value: 'high' is not supported. Supported values are: 'low' and 'medium'.", False),
    ],
)
async def test_reasoning_that_is_refused_by_name_is_reported(text: str, is_noted: bool) -> None:
    error = {"error": {"message": f"{text} (reasoning_effort)"}}
    host = Host(lambda body: error if body.get("reasoning_effort") == "high" else None)
    http_model, notes = create_http_model(host), list[str]()

    await http_model.complete(create_request(thinking="high", warn=notes.append))

    assert len(host.requests) == 2
    assert [note.partition(" (")[0] for note in notes] == ["host:m1 refused reasoning"] * is_noted


@pytest.mark.parametrize("text", ["m1 does not support tools", "Bad Request"])
async def test_tools_are_left_out_after_the_same_request_failed_twice(text: str) -> None:
    host = Host(lambda body: {"error": {"message": text}} if "tools" in body else None)
    http_model, notes = create_http_model(host), list[str]()
    request = create_request(messages=[Message.user("Look")], warn=notes.append)

    for _ in range(2):
        assert (await http_model.complete(request)).text == "Hello"

    assert [note.partition(" (")[0] for note in notes] == ["host:m1 refused tools"]
    with_tools = [json.dumps(body) for body in host.requests if "tools" in body]
    assert with_tools.count(with_tools[0]) == 2
    assert len(host.requests) == (4 if "tools" in text else 8)


async def test_server_error_about_roles_is_a_refusal_of_the_system_role() -> None:
    for text, is_role in (("Jinja Exception: System role not supported", True), ("System error", False)):
        host = Host(lambda body, text=text: {"error": text} if has('"role": "system"')(body) else None, 500)
        if is_role:
            assert (await create_http_model(host).complete(create_request())).text == "Hello"
        else:
            with pytest.raises(ModelError):
                await create_http_model(host).complete(create_request())


async def test_several_calls_of_a_message_are_sent_one_by_one_to_a_host_that_accepts_only_one() -> None:
    def refuse(body: Any) -> Any:
        is_joined = any(len(message.get("tool_calls", ())) > 1 for message in body["messages"])
        return {"error": {"message": "This model only supports single tool-calls at once!"}} if is_joined else None

    host = Host(refuse)
    http_model, notes = create_http_model(host), list[str]()
    calls = [ToolUseBlock("c1", "look", {"at": "sky"}), ToolUseBlock("c2", "look", {"at": "sea"})]
    results = [ToolResultBlock("c1", "look", "Blue"), ToolResultBlock("c2", "look", "Green")]
    history = [
        Message.user("Look"),
        Message.assistant([TextBlock("Well."), *calls], provider="host", model="m1"),
        Message.user([*results, TextBlock("Hurry")]),
    ]

    for _ in range(2):
        await http_model.complete(ModelRequest(history, tools=[LOOK], warn=notes.append))

    assert [note.partition(" (")[0] for note in notes] == ["host:m1 refused several tool calls in one message"]
    assert len(host.requests) == 3
    sent = host.requests[-1]["messages"]
    assert [(m["role"], m.get("tool_call_id") or [c["id"] for c in m.get("tool_calls", ())]) for m in sent] == [
        ("user", []),
        ("assistant", ["c1"]),
        ("tool", "c1"),
        ("assistant", ["c2"]),
        ("tool", "c2"),
        ("user", []),
    ]
    assert [sent[at]["content"] for at in (1, 2, 4, 5)] == ["Well.", "Blue", "Green", "Hurry"]


@pytest.mark.parametrize("text", ["image input is not supported - you may need the mmproj", "Internal Server Error"])
async def test_server_error_with_images_is_a_refusal_if_it_mentions_them_or_repeats(text: str) -> None:
    host = Host(lambda body: {"error": {"code": 500, "message": text}} if has("data:image")(body) else None, 500)
    http_model = create_http_model(host)

    if "image" not in text:
        with pytest.raises(ModelError):
            await http_model.complete(create_request())
    assert (await http_model.complete(create_request())).text == "Hello"
    assert not http_model.info.vision


async def test_single_server_error_removes_no_images() -> None:
    failures = iter([{"error": {"message": "Internal Server Error"}}, None])
    http_model = create_http_model(Host(lambda body: next(failures), 500))

    with pytest.raises(ModelError):
        await http_model.complete(create_request())
    assert (await http_model.complete(create_request())).text == "Hello"
    assert http_model.info.vision


async def test_model_that_has_seen_images_loses_only_the_refused_one() -> None:
    host = Host(lambda body: {"error": {"message": "Bad Request"}} if has("QkFE")(body) else None)
    http_model, notes = create_http_model(host), list[str]()
    history = [
        Message.user([PIXEL]),
        Message.assistant("Nice.", provider="host", model="m1"),
        Message.user([OTHER]),
    ]

    assert (await http_model.complete(ModelRequest(history, warn=notes.append))).text == "Hello"

    assert http_model.info.vision
    assert has("R09PRA==")(host.requests[-1])
    assert "the newest images" in notes[0]


async def test_model_that_has_called_tools_does_not_lose_them() -> None:
    host = Host(lambda body: {"error": {"message": "Bad Request"}} if "tools" in body else None)
    history = [
        Message.user("Look"),
        Message.assistant([ToolUseBlock("c1", "look")], provider="host", model="m1"),
        Message.user([ToolResultBlock("c1", "look", "A")]),
    ]

    with pytest.raises(ModelError):
        await create_http_model(host).complete(ModelRequest(history, tools=[LOOK]))


async def test_calls_in_the_history_become_text_for_a_host_without_tools() -> None:
    host = Host(lambda body: {"error": {"message": "tools are not supported"}} if "tools" in body else None)
    history = [
        Message.user("Look"),
        Message.assistant([ToolUseBlock("c1", "look", {"at": "sky"})], provider="other", model="m2"),
        Message.user([ToolResultBlock("c1", "look", (TextBlock("Blue"), PIXEL))]),
    ]

    await create_http_model(host).complete(ModelRequest(history, tools=[LOOK], tool_choice="required"))

    sent = host.requests[-1]
    assert [m["role"] for m in sent["messages"]] == ["user", "assistant", "user"]
    assert sent["messages"][1]["content"] == '[called look with {"at":"sky"}]'
    assert sent["messages"][2]["content"][0]["text"] == "[result of look]"
    assert sent["messages"][2]["content"][1]["text"] == "Blue"
    assert has("data:image")(sent["messages"][2])
    assert "tool_choice" not in sent


async def test_roles_alternate_without_the_system_role() -> None:
    host = Host(lambda body: {"error": "Only user and assistant roles"} if has('"system"')(body) else None)

    await create_http_model(host).complete(ModelRequest([Message.user("Hi")], system="Be kind."))

    assert [(m["role"], m["content"]) for m in host.requests[-1]["messages"]] == [
        ("user", "Be kind."),
        ("assistant", "Understood."),
        ("user", "Hi"),
    ]


async def test_agent_publishes_a_notice_once_and_continues() -> None:
    host = Host(lambda body: {"error": {"message": "Bad Request"}} if has("data:image")(body) else None)
    notices: list[Notice] = []
    agent = Agent(create_http_model(host))
    agent.on(Notice, notices.append)

    first = await agent.run([TextBlock("Look"), PIXEL])
    second = await agent.run("And now?")

    assert (first.text, second.text) == ("Hello", "Hello")
    assert [(n.level, n.text.partition(" (")[0]) for n in notices] == [("warn", "host:m1 refused images")]


async def test_note_is_logged_if_nothing_receives_it(caplog: pytest.LogCaptureFixture) -> None:
    host = Host(lambda body: {"error": {"message": "Bad Request"}} if has("data:image")(body) else None)

    await create_http_model(host).complete(create_request())

    assert "host:m1 refused images" in caplog.text
