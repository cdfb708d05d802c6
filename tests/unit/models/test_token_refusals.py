"""Limits that hosts report in rejections are learned, and the request is sent again with a lower output limit."""

import html
import json
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st
from msgspec.structs import replace

from mainspring.errors import ContextExceededError, ModelError
from mainspring.messages import Message, TextBlock, Usage
from mainspring.models import classify_error
from mainspring.models.codec.protocol import WireProtocol
from mainspring.models.http_model import HttpModel
from mainspring.models.port import ModelInfo, ModelRequest
from mainspring.models.profile import ModelProfile
from mainspring.models.token_refusals import ReportedLimits, parse_limits
from mainspring.models.transport.port import Timeouts, TransportResponse
from mainspring.models.transport.recording import MemoryResponse
from mainspring.models.wire.anthropic import AnthropicProtocol
from mainspring.models.wire.ollama import OllamaProtocol
from mainspring.models.wire.openai_chat import ChatCompletionsProtocol
from tests.unit.models.limit_wordings import OUTPUT, PROMPT, WINDOW, Wording
from tests.unit.models.wire import chunk, sse

SENT = 16_384
HI = (Message.user("Hi"),)
_hosts = count()

_CHAT = sse(chunk({"content": "fine"}), chunk({}, "stop"))
_MESSAGES = json.dumps({"content": [{"type": "text", "text": "fine"}], "stop_reason": "end_turn"}).encode()
_OLLAMA = json.dumps({"message": {"content": "fine"}, "done": True, "done_reason": "stop"}).encode() + b"\n"

Shape = tuple[WireProtocol, int, Callable[[str], bytes], bytes]
"""Protocol, status and body of a rejection, and the response to an accepted request."""


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


HOSTS: Mapping[str, Shape] = {
    "OpenAI": (
        ChatCompletionsProtocol(),
        400,
        lambda text: _json({"error": {"message": text, "type": "invalid_request_error", "code": None}}),
        _CHAT,
    ),
    "vLLM": (
        ChatCompletionsProtocol(),
        400,
        lambda text: _json({"object": "error", "message": text, "type": "BadRequestError", "code": 400}),
        _CHAT,
    ),
    "TGI": (ChatCompletionsProtocol(), 422, lambda text: _json({"error": text, "error_type": "validation"}), _CHAT),
    "FastAPI": (
        ChatCompletionsProtocol(),
        422,
        lambda text: _json({"detail": [{"loc": ["body"], "msg": text, "type": "value_error"}]}),
        _CHAT,
    ),
    "OpenRouter": (
        ChatCompletionsProtocol(),
        400,
        lambda text: _json(
            {
                "error": {
                    "message": "Provider returned error",
                    "code": 400,
                    "metadata": {"raw": _json({"error": {"message": text}}).decode()},
                }
            }
        ),
        _CHAT,
    ),
    "LM Studio, in the stream": (
        ChatCompletionsProtocol(),
        200,
        lambda text: b"event: error\ndata: " + _json({"error": {"message": text}}) + b"\n\n",
        _CHAT,
    ),
    "Anthropic": (
        AnthropicProtocol(),
        400,
        lambda text: _json({"type": "error", "error": {"type": "invalid_request_error", "message": text}}),
        _MESSAGES,
    ),
    "Ollama": (OllamaProtocol(), 400, lambda text: _json({"error": text}), _OLLAMA),
}


class Host:
    """A host that rejects an output limit above its own, and a prompt and an output limit above its window."""

    def __init__(self, shape: Shape, wording: Wording, *, window: int = 10**9, output: int = 10**9) -> None:
        _, self._status, self._rejection, self._accepted = shape
        self._wording, self._window, self._output = wording, window, output
        self.limits: list[int] = []

    @asynccontextmanager
    async def open(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts
    ) -> AsyncGenerator[TransportResponse]:
        fields = json.loads(body)
        names = ("max_tokens", "max_completion_tokens")
        limit = next(
            (fields[name] for name in names if name in fields), fields.get("options", {}).get("num_predict", 0)
        )
        prompt = len(json.dumps([fields.get("system"), fields["messages"], fields.get("tools")])) // 4
        self.limits.append(limit)
        if limit > self._output or prompt + limit > self._window:
            text = self._wording(prompt, limit, min(self._window, self._output))
            yield MemoryResponse(self._rejection(text), self._status)
        else:
            yield MemoryResponse(self._accepted)

    async def aclose(self) -> None:
        pass


def model_at(shape: Shape, host: Host, name: str) -> HttpModel:
    return HttpModel(
        ModelProfile(ModelInfo("m", "host"), f"http://{name}/v1"), shape[0], lambda: "k" * 20, transport=host
    )


def request(system: int = 0) -> ModelRequest:
    return ModelRequest(HI, system="word " * (system // 5), max_output_tokens=SENT)


@pytest.mark.parametrize("host_name", HOSTS)
@given(
    wording=st.sampled_from(sorted(WINDOW)),
    window=st.sampled_from([4096, 8192, 8000, 10_240, 16_384, 12_345]),
    system=st.integers(0, 12_000),
)
@example(wording="Japanese", window=4096, system=11_190)
@settings(max_examples=60)
async def test_window_is_learned(host_name: str, wording: str, window: int, system: int) -> None:
    shape, name = HOSTS[host_name], f"host{next(_hosts)}"
    host = Host(shape, WINDOW[wording], window=window)

    response = await model_at(shape, host, name).complete(request(system))

    assert response.text == "fine"
    assert len(host.limits) == 2
    is_exact = wording not in (
        "vLLM without the prompt",
        "vLLM with a wrong prompt",
        "vLLM with characters",
        "LightLLM",
    )
    assert host.limits[1] >= ((window - (system + 300) // 4) // 2 if is_exact else window // 8) - 1  # rounded
    later = model_at(shape, host, name)
    assert later.info.context_window == window
    assert model_at(shape, host, f"{name}-other").info.context_window is None, "limits of a host are those of that host"
    assert (await later.complete(request())).text == "fine"
    assert len(host.limits) == 3


@pytest.mark.parametrize("host_name", HOSTS)
@given(wording=st.sampled_from(sorted(OUTPUT)), output=st.sampled_from([1024, 4096, 8000, 8192, 12_345]))
@settings(max_examples=60)
async def test_output_limit_is_learned(host_name: str, wording: str, output: int) -> None:
    shape, name = HOSTS[host_name], f"host{next(_hosts)}"
    host = Host(shape, OUTPUT[wording], output=output)

    assert (await model_at(shape, host, name).complete(request())).text == "fine"

    assert host.limits[0] == SENT
    assert output - 1 <= host.limits[1] <= output
    later = model_at(shape, host, name)
    assert later.info.context_window is None
    assert (await later.complete(request())).text == "fine"
    assert host.limits[2:] == [host.limits[1]]


@pytest.mark.parametrize("host_name", HOSTS)
@given(wording=st.sampled_from(sorted(PROMPT)), window=st.sampled_from([4096, 8192, 12_345]))
@settings(max_examples=40)
async def test_window_is_learned_from_a_prompt_that_is_too_long(host_name: str, wording: str, window: int) -> None:
    shape, name = HOSTS[host_name], f"host{next(_hosts)}"
    host = Host(shape, PROMPT[wording], window=window)
    model = model_at(shape, host, name)

    with pytest.raises(ContextExceededError):
        await model.complete(request(4 * window + 4000))

    assert len(host.limits) == 1
    assert model.info.context_window == window
    assert (await model.complete(request())).text == "fine"
    assert len(host.limits) == 2


@pytest.mark.parametrize("separator", [",", "_", "\u00a0", "\u202f", "’"])
@given(st.sampled_from(sorted(WINDOW | OUTPUT | PROMPT)), st.integers(1000, 900_000), st.integers(2, 200))
async def test_separators_of_digits_change_nothing(separator: str, wording: str, prompt: int, thousands: int) -> None:
    text = (WINDOW | OUTPUT | PROMPT)[wording](prompt, SENT, 1000 * thousands + 24)
    grouped = re.sub(r"(?<![\w.-])\d{4,}(?![\w.-]*[a-z_-])", lambda n: f"{int(n[0]):,}".replace(",", separator), text)

    assert parse_limits(grouped, SENT) == parse_limits(text, SENT)


@pytest.mark.parametrize(
    ("text", "window", "output"),
    [
        ("maximum context length is 128k tokens, but your request has 130K tokens", 128_000, None),
        ("The context window of this model is 1M tokens", 1_000_000, None),
        ("max_tokens must be at most 8k", None, 8000),
        ("The input (140 000 tokens) is longer than the context length (131 072 tokens)", 131_072, None),
        ("Die maximale Kontextlänge beträgt 131.072 Tokens, angefragt wurden 140.000 Tokens", 131_072, None),
        ("La longueur maximale du contexte est de 32 768 jetons", 32_768, None),
        ("最大上下文长度为１２８０００", 128_000, None),
        ("gpt-4-32k is not a model with 1.5 tokens", None, None),
    ],
)
async def test_numbers_with_units_and_separators(text: str, window: int | None, output: int | None) -> None:
    limits = parse_limits(text, SENT)
    assert (limits.context_window, limits.max_output_tokens) == (window, output)


@pytest.mark.parametrize("wording", sorted(WINDOW | OUTPUT | PROMPT))
async def test_limits_are_found_in_json_within_json_and_in_web_pages(wording: str) -> None:
    text = (WINDOW | OUTPUT | PROMPT)[wording](9000, SENT, 8192)
    expected = parse_limits(text, SENT)
    inner = json.dumps({"error": {"message": text}}, ensure_ascii=False)
    bodies = [
        json.dumps({"error": {"message": inner}}),
        json.dumps({"error": {"message": f"litellm.BadRequestError: {inner}"}}),
        json.dumps({"detail": inner}),
    ]
    if re.search("token|context|上下文", text):
        page = f"<html><head><title>400 Bad Request</title></head><body><h1>Error</h1><p>{html.escape(text)}</p></body></html>"
        bodies += [page]

    for body in bodies:
        limits = parse_limits(classify_error(400, {}, body.encode()).message, SENT)
        assert (limits.context_window, limits.max_output_tokens) == (
            expected.context_window,
            expected.max_output_tokens,
        )


async def test_number_of_tokens_is_not_read_as_a_status() -> None:
    shape = HOSTS["LM Studio, in the stream"]
    host = Host(shape, lambda n, m, w: WINDOW["SambaNova"](401, m, w), window=4096)

    assert (await model_at(shape, host, "stream").complete(request())).text == "fine"

    assert host.limits == [SENT, 4096 - 401 - 32]


async def test_both_limits_of_a_host_are_learned() -> None:
    shape = HOSTS["OpenAI"]

    def text(n: int, m: int, limit: int) -> str:
        return OUTPUT["OpenAI"](n, m, 8192) if m > 8192 else WINDOW["vLLM"](n, m, 8192)

    host = Host(shape, text, window=8192)

    assert (await model_at(shape, host, "both").complete(request(4000))).text == "fine"

    assert len(host.limits) == 3


async def test_wrong_usage_does_not_repeat_the_rejection() -> None:
    shape = HOSTS["OpenAI"]
    host = Host(shape, WINDOW["vLLM, old"], window=8192)
    model = model_at(shape, host, "usage")
    first = request(12_000)
    await model.complete(first)
    answered = Message("assistant", (TextBlock("fine"),), Usage(10, 5))

    await model.complete(replace(first, messages=(*HI, answered, *HI)))

    assert len(host.limits) == 3


async def test_credit_that_is_left_limits_one_request() -> None:
    def text(n: int, m: int, limit: int) -> str:
        return f"This request requires more credits, or fewer max_tokens. You requested up to {m} tokens, but can only afford {limit}."

    protocol, _, rejection, accepted = HOSTS["OpenAI"]
    shape = (protocol, 402, rejection, accepted)
    host = Host(shape, text, output=1234)
    model = model_at(shape, host, "credit")

    assert (await model.complete(request())).text == "fine"

    assert host.limits == [SENT, 1234]
    assert model.info.max_output_tokens is None


async def test_output_limit_is_lowered_if_the_rejection_has_no_number() -> None:
    host = Host(HOSTS["OpenAI"], lambda n, m, w: "Please reduce the length of the messages or completion.", window=8192)

    assert (await model_at(HOSTS["OpenAI"], host, "mute").complete(request())).text == "fine"

    assert host.limits == [SENT, 4096]


async def test_negative_output_limit_of_a_gateway_is_an_overflow() -> None:
    text = "max_tokens must be at least 1, got -736. (parameter=max_tokens, value=-736)"
    host = Host(HOSTS["OpenAI"], lambda n, m, w: text, window=8192)

    with pytest.raises(ContextExceededError):
        await model_at(HOSTS["OpenAI"], host, "negative").complete(request(36_000))

    assert host.limits == [SENT, 4096]


async def test_size_in_the_fields_of_an_error_is_learned() -> None:
    def rejection(text: str) -> bytes:
        return _json({"error": {"code": 400, "message": text, "n_prompt_tokens": 9000, "n_ctx": 4096}})

    shape = (ChatCompletionsProtocol(), 400, rejection, _CHAT)
    host = Host(shape, lambda n, m, w: "the request exceeds the available context size", window=4096)
    model = model_at(shape, host, "fields")

    with pytest.raises(ContextExceededError):
        await model.complete(request(36_000))

    assert model.info.context_window == 4096


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (400, "Unsupported parameter: 'top_k' is not supported with gpt-4o-2024-08-06."),
        (400, "max_tokens must be an integer"),
        (400, "Invalid value for temperature: must be at most 2, for model v20240307"),
        (400, "messages: at most 512 images are supported"),
        (
            429,
            "Rate limit reached on tokens per minute (TPM): Limit 30000, Used 29000, Requested 18000. Try again in 34s.",
        ),
        (402, "Insufficient balance: 1000 tokens needed, limit 500"),
    ],
)
async def test_other_numbers_are_not_learned(status: int, text: str) -> None:
    protocol, _, rejection, accepted = HOSTS["OpenAI"]
    host = Host((protocol, status, rejection, accepted), lambda n, m, w: text, window=1)
    model = model_at((protocol, status, rejection, accepted), host, f"other{next(_hosts)}")

    with pytest.raises(ModelError):
        await model.complete(request())

    assert (model.info.context_window, model.info.max_output_tokens) == (None, None)
    assert set(host.limits) <= {SENT, 0}, "a request without some part is tried, but none with another limit"


@pytest.mark.parametrize(
    "text",
    [
        "invalid params, context window exceeds limit (2013)",
        "Total tokens of image and text exceed max message tokens. Request id: 0217",
        "prompt tokens too long",
        "Input length exceeds session length",
        "The conversation does not fit in the context of the model",
    ],
)
async def test_prompt_that_is_too_long_is_recognized_without_a_number(text: str) -> None:
    host = Host(HOSTS["OpenAI"], lambda n, m, w: text, window=8192)
    model = model_at(HOSTS["OpenAI"], host, f"mute{next(_hosts)}")

    with pytest.raises(ContextExceededError):
        await model.complete(request(36_000))

    assert host.limits == [SENT]
    assert model.info.context_window is None


@pytest.mark.parametrize(
    "text",
    [
        'Upstream returned HTTP 400. Input exceeds the context window: {"message": "max_tokens must be at least 1, got -736", "code": 400}',
        "Error code: 413 - the prompt exceeds the context window (status 400)",
        "code=500, the response exceeds max_tokens, status_code: 422",
    ],
)
def test_status_is_not_a_limit(text: str) -> None:
    limits = parse_limits(text, SENT, 9000)

    assert (limits.context_window, limits.max_output_tokens, limits.prompt_tokens) == (None, None, None)


def test_rate_limit_is_not_a_window() -> None:
    limits = parse_limits(
        "Rate limit reached: Limit 30000, Used 29000, Requested 18000 (HTTP 429, groq, api.groq.com)", SENT
    )

    assert limits.context_window is None


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens must be greater than thinking.budget_tokens 2048",
        "thinking budget 8000 exceeds limit 1024 tokens",
        "The image input is too long: 3000 tokens > 2576 maximum per image",
        "metadata value exceeds limit of 512 characters",
        "The total number of properties 6000 exceeds limit 5000",
        "audio length 3000 seconds exceeds limit 1500",
        "tool result too large: 30000 tokens > 25000 maximum for tool results",
        "message 3 has length 10000 which exceeds the limit 5000 for a single message",
    ],
)
def test_limit_of_something_else_is_not_a_limit_of_the_model(text: str) -> None:
    assert parse_limits(text, 4096, 900) == ReportedLimits()
