"""Sampling options in each protocol: the fields of recorded requests, and a note about options that are not sent."""

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest

from mainspring.errors import ConfigWarning, ModelError
from mainspring.messages import Message, ToolDefinition
from mainspring.models import (
    ChatCapabilities,
    Failure,
    GeminiDialect,
    HttpModel,
    LLMClient,
    MemoryResponse,
    MemoryTransport,
    ModelRequest,
    Sampling,
    Success,
    create_model,
)
from mainspring.models.embedded import create_embedded_model

EVERY = Sampling(top_p=0.9, top_k=40, seed=7, presence_penalty=0.5, frequency_penalty=-0.5, parallel_tool_calls=False)
LOOK = ToolDefinition("look", "Looks.", {"type": "object", "properties": {}})
OTHER = ToolDefinition("other", "Other.", {"type": "object", "properties": {}})


def rejection(text: str) -> MemoryResponse:
    return MemoryResponse(json.dumps({"error": {"message": text}}).encode(), 400)


def accepted(spec: str) -> MemoryResponse:
    is_ollama = spec.startswith("ollama:")
    return MemoryResponse(b'{"message":{},"done":true,"done_reason":"stop"}\n' if is_ollama else b"data: [DONE]\n\n")


async def send(
    spec: str, *responses: MemoryResponse, settings: Any = None, **fields: Any
) -> tuple[list[Any], list[str]]:
    """Send a request with every option; return the bodies and the notes."""
    model = create_model(spec, api_key="k", **(settings or {}))
    assert isinstance(model, HttpModel)
    transport = MemoryTransport(*(responses or (accepted(spec),)))
    notes: list[str] = []
    given = {"sampling": EVERY, "tools": (LOOK, OTHER), "notify": notes.append, **fields}
    with suppress(ModelError):  # the responses are empty: only the requests matter
        await model.with_transport(transport).complete(ModelRequest([Message.user("Hi")], **given))
    return [json.loads(sent.body) for sent in transport.requests], notes


async def test_chat_completions_has_every_option_but_top_k_of_openai() -> None:
    [body], [note] = await send("openai:gpt-4o", tool_choice="look", stop=["#"], temperature=0.3, extra={"user": "u"})

    names = ("top_p", "seed", "presence_penalty", "frequency_penalty", "parallel_tool_calls", "stop", "temperature")
    assert [body[name] for name in names] == [0.9, 7, 0.5, -0.5, False, ["#"], 0.3]
    assert body["tool_choice"] == {"type": "function", "function": {"name": "look"}}
    assert (body["user"], "top_k" in body) == ("u", False)
    assert note == "top_k: not sent, because openai:gpt-4o does not support this option in this request."


async def test_other_hosts_of_chat_completions_receive_top_k() -> None:
    [body], notes = await send("compatible:m", settings={"base_url": "https://h.example/v1"})

    assert (body["top_k"], body["top_p"], notes) == (40, 0.9, [])


async def test_responses() -> None:
    [body], [note] = await send("openai:gpt-4o", settings={"api": "responses"}, tool_choice="required", stop=["#"])

    assert (body["top_p"], body["parallel_tool_calls"], body["tool_choice"]) == (0.9, False, "required")
    assert not {"top_k", "seed", "presence_penalty", "frequency_penalty", "stop"} & body.keys()
    assert note.startswith("top_k, seed, presence_penalty, frequency_penalty, stop: not sent")


@pytest.mark.parametrize(
    ("choice", "sent"),
    [("auto", {"type": "auto"}), ("required", {"type": "any"}), ("look", {"type": "tool", "name": "look"})],
)
async def test_anthropic_messages(choice: str, sent: dict[str, Any]) -> None:
    [body], [note] = await send("anthropic:claude-3-5-sonnet", tool_choice=choice, stop=["#"])

    assert (body["top_p"], body["top_k"], body["stop_sequences"]) == (0.9, 40, ["#"])
    assert body["tool_choice"] == {**sent, "disable_parallel_tool_use": True}
    assert not {"seed", "presence_penalty", "frequency_penalty", "disable_parallel_tool_use"} & body.keys()
    assert note.startswith("seed, presence_penalty, frequency_penalty: not sent")


async def test_anthropic_messages_with_thinking_have_only_a_high_top_p() -> None:
    [low], [note] = await send(
        "anthropic:claude-sonnet-4-5", sampling=Sampling(top_p=0.5, top_k=3), temperature=0.2, thinking="low"
    )
    [high], notes = await send("anthropic:claude-sonnet-4-5", sampling=Sampling(top_p=0.96), thinking="low")

    assert low["thinking"]
    assert not {"top_p", "top_k", "temperature"} & low.keys()
    assert note.startswith("top_p, top_k, temperature: not sent")
    assert (high["top_p"], notes) == (0.96, [])


async def test_newer_claude_models_receive_no_sampling() -> None:
    [body], [note] = await send("anthropic:claude-opus-4-7", sampling=Sampling(top_p=0.96, top_k=3), temperature=0.2)

    assert not {"top_p", "top_k", "temperature"} & body.keys()
    assert note.startswith("top_p, top_k, temperature: not sent")


async def test_gemini() -> None:
    [body], [note] = await send("gemini:gemini-2.5-flash", tool_choice="look", stop=["#"])

    config = body["generationConfig"]
    names = ("topP", "topK", "seed", "presencePenalty", "frequencyPenalty", "stopSequences")
    assert [config[name] for name in names] == [0.9, 40, 7, 0.5, -0.5, ["#"]]
    assert body["toolConfig"]["functionCallingConfig"] == {"mode": "ANY", "allowedFunctionNames": ["look"]}
    assert note.startswith("parallel_tool_calls: not sent")


async def test_ollama() -> None:
    [body], [note] = await send("ollama:m", tool_choice="look", stop=["#"])

    names = ("top_p", "top_k", "seed", "presence_penalty", "frequency_penalty", "stop")
    assert [body["options"][name] for name in names] == [0.9, 40, 7, 0.5, -0.5, ["#"]]
    assert note.startswith("parallel_tool_calls, tool_choice: not sent")


@pytest.mark.parametrize(
    ("spec", "settings", "text", "field", "name"),
    [
        ("openai:m", {}, "Unsupported parameter: 'top_p' is not supported with this model.", "top_p", "top_p"),
        ("openai:m", {}, "Unsupported parameter: 'seed' is not supported.", "seed", "seed"),
        ("openai:m", {}, "Unrecognized request argument: parallel_tool_calls", "parallel_tool_calls", "parallel_tool_calls"),
        ("openai:m", {"api": "responses"}, "Unsupported parameter: 'top_p'", "top_p", "top_p"),
        ("openai:m", {"api": "responses"}, "Unknown parameter: 'parallel_tool_calls'.", "parallel_tool_calls", "parallel_tool_calls"),
        ("anthropic:claude-3-5-sonnet", {}, "top_k: Extra inputs are not permitted", "top_k", "top_k"),
        ("anthropic:claude-sonnet-4-5", {}, "`temperature` and `top_p` cannot both be specified for this model.", "top_p", "top_p"),
        ("gemini:gemini-2.5-flash", {}, 'Unknown name "topK": Cannot find field.', "topK", "top_k"),
        ("gemini:gemini-2.5-flash", {}, "Penalty is not enabled for this model", "presencePenalty", "presence_penalty"),
        ("ollama:m", {}, "option seed is not supported", "seed", "seed"),
    ],
)  # fmt: skip
async def test_rejected_option_is_left_out_with_a_note(
    spec: str, settings: dict[str, Any], text: str, field: str, name: str
) -> None:
    bodies, [note] = await send(spec, rejection(text), accepted(spec), settings=settings, temperature=0.5)
    first, second = json.dumps(bodies[0]), json.dumps(bodies[1])

    assert f'"{field}"' in first
    assert f'"{field}"' not in second
    assert '"temperature"' in second
    assert name in note


async def test_host_may_reject_all_options_one_after_the_other() -> None:
    names = ("top_p", "seed", "presence_penalty", "frequency_penalty", "parallel_tool_calls", "temperature", "stop")
    responses = [rejection(f"unsupported: {name}") for name in names]
    bodies, [note] = await send("openai:m", *responses, accepted("openai:m"), temperature=0.5, stop=["#"])

    assert len(bodies) == 8
    assert not set(names) & bodies[-1].keys()
    assert all(name in note for name in names)


async def test_unset_options_add_nothing_to_a_request() -> None:
    [plain], notes = await send("openai:m", sampling=None)
    [unset], _ = await send("openai:m", sampling=Sampling())

    assert plain == unset
    assert plain.keys() == {"model", "stream", "stream_options", "tools", "messages"}
    assert notes == []


async def test_option_that_a_host_does_not_support_can_be_declared() -> None:
    dialect = {"unsupported": ["seed"]}
    [body], [note] = await send("compatible:m", settings={"base_url": "https://h.example/v1", "dialect": dialect})

    assert "seed" not in body
    assert note.startswith("seed: not sent")
    assert (ChatCapabilities().unsupported, GeminiDialect().unsupported) == ((), ())


async def test_tools_of_the_host_follow_those_of_the_request() -> None:
    [body], _ = await send("openai:m", extra={"tools": [{"type": "web_search"}]})

    assert [tool["type"] for tool in body["tools"]] == ["function", "function", "web_search"]


async def test_client_takes_each_option_per_call() -> None:
    model = create_model("openai:gpt-4o", api_key="k")
    assert isinstance(model, HttpModel)
    answer = {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}
    body = b"data: %s\n\ndata: [DONE]\n\n" % json.dumps(answer).encode()
    transport = MemoryTransport(MemoryResponse(body), MemoryResponse(body))
    client = LLMClient(model.with_transport(transport))

    with pytest.warns(ConfigWarning, match="top_k: not sent, because openai:gpt-4o"):
        await client.invoke("Hi", top_p=0.5, top_k=3, seed=1, stop=["#"], extra_body={"user": "u"})
    await client.stream("Hi", frequency_penalty=1.0, presence_penalty=0.0)
    first, second = [json.loads(sent.body) for sent in transport.requests]

    assert [first[name] for name in ("top_p", "seed", "stop", "user")] == [0.5, 1, ["#"], "u"]
    assert (second["frequency_penalty"], second["presence_penalty"]) == (1.0, 0.0)
    wrong = await client.invoke("Hi", temprature=1)
    assert not isinstance(wrong, Success)
    assert isinstance(wrong, Failure)
    assert "Did you mean 'temperature'?" in wrong.message


@pytest.mark.parametrize(
    ("spec", "settings"),
    [
        ("openai:m", {}),
        ("openai:m", {"api": "responses"}),
        ("anthropic:claude-sonnet-4-5", {}),
        ("gemini:gemini-2.5-flash", {}),
        ("ollama:m", {}),
    ],
)
def test_request_without_options_calls_no_function_for_them(spec: str, settings: dict[str, Any]) -> None:
    model = create_model(spec, api_key="k", **settings)
    assert isinstance(model, HttpModel)
    request = ModelRequest([Message.user("Hi")], tools=(LOOK,), temperature=0.5)
    with_options = ModelRequest([Message.user("Hi")], tools=(LOOK,), sampling=EVERY)

    assert count_calls_into("sampling.py", lambda: model._protocol.encode(request, model.profile)) == 0
    assert count_calls_into("sampling.py", lambda: model._protocol.encode(with_options, model.profile)) > 0


def count_calls_into(file: str, run: Callable[[], object]) -> int:
    """Return the number of calls of functions in a file."""
    calls: list[str] = []

    def record(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.endswith(f"/{file}"):
            calls.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(record)
    try:
        run()
    finally:
        sys.setprofile(before)
    return len(calls)


def test_embedded_model_sends_them_to_its_server_but_parallel_calls() -> None:
    model = create_embedded_model({"model": "/tmp/none.gguf"})
    notes: list[str] = []
    request = ModelRequest([Message.user("Hi")], tools=(LOOK,), sampling=EVERY, notify=notes.append)

    assert model._build_request(request, "", messages=[]).sampling == EVERY
    assert [note.partition(":")[0] for note in notes] == ["parallel_tool_calls"]
