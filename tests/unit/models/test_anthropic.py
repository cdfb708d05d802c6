"""The provider anthropic: settings, model capabilities, errors, and repeated requests after a rejection."""

import json
from typing import Any

import pytest

from mainspring.errors import (
    AuthenticationError,
    ContextExceededError,
    ErrorCode,
    ModelError,
    ProviderConfigError,
    RateLimitedError,
)
from mainspring.messages import (
    Message,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
)
from mainspring.models import (
    HttpModel,
    ProviderConfig,
    create_anthropic_adapter,
    create_model,
    create_model_provider,
    get_provider_factory,
)
from mainspring.models.port import ModelRequest
from mainspring.models.profile import AnthropicCapabilities, ModelProfile
from mainspring.models.provider_table import PROVIDERS
from mainspring.models.providers.anthropic import CONTEXT_BETA, anthropic_capabilities
from mainspring.models.transport.recording import MemoryResponse, MemoryTransport
from mainspring.models.wire.anthropic import AnthropicProtocol
from tests.unit.models.messages_wire import begin, body, call, end, profile, sse, start, text
from tests.unit.models.server import chunked, serve

HI = [Message.user("Hi")]
GOOD = sse(begin(input_tokens=3), *text(0, "Hel", "lo"), *end(usage={"output_tokens": 2}))
MANAGED = {"edits": [{"type": "clear_tool_uses_20250919"}]}


def make_model(**settings: Any) -> HttpModel:
    return create_http_model({"api_key": "k", **settings})


def create_http_model(config: Any) -> HttpModel:
    model = create_anthropic_adapter(config)
    assert isinstance(model, HttpModel)
    return model


def make_offline_model(
    *answers: MemoryResponse, using: ModelProfile | None = None
) -> tuple[HttpModel, MemoryTransport]:
    transport = MemoryTransport(*answers)
    used_profile = using or make_model().profile
    return HttpModel(used_profile, AnthropicProtocol(), lambda: "sk-ant-key-123456", transport=transport), transport


def make_error_response(text: str, status: int = 400, kind: str = "invalid_request_error") -> MemoryResponse:
    return MemoryResponse(json.dumps({"type": "error", "error": {"type": kind, "message": text}}).encode(), status)


# --- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("PRV-07", "PRV-32", "PKG-17", "PRV-35")
async def test_default_settings() -> None:
    model = make_model()

    assert (
        (model.provider, model.model)
        == ("anthropic", PROVIDERS["anthropic"].model)
        == ("anthropic", "claude-sonnet-5-5")
    )
    assert AnthropicProtocol().url(model.profile) == "https://api.anthropic.com/v1/messages"
    assert model.profile.headers == {"anthropic-version": "2023-06-01"}
    assert model.profile.key_header == "x-api-key"
    assert await model._get_credential() == "k"


@pytest.mark.covers("PRV-32", "PRV-07", "PRV-03")
@pytest.mark.parametrize(
    "config",
    [
        ProviderConfig(provider="anthropic", api_key="k", model="claude-opus-4-8"),
        {"provider": "anthropic", "apiKey": "k", "model": "claude-opus-4-8"},
        {"provider": "anthropic", "api_key": "k", "model": "claude-opus-4-8"},
    ],
)
async def test_configuration_can_be_typed_or_a_dict(config: Any) -> None:
    factory = get_provider_factory("anthropic")
    assert factory is not None
    models = [
        await create_model_provider(config),
        await factory(config),
        create_http_model(config),
        create_model("anthropic:claude-opus-4-8", api_key="k"),
    ]

    for model in models:
        assert isinstance(model, HttpModel)
        assert (model.provider, model.model) == ("anthropic", "claude-opus-4-8")
        assert await model._get_credential() == "k"


@pytest.mark.covers("PRV-32", "PRV-05", "PRV-04", "PRV-36")
@pytest.mark.parametrize("config", [{}, {"api_key": ""}, {"api_key": " ", "base_url": "", "model": ""}])
async def test_environment_replaces_missing_or_empty_settings(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ProviderConfigError, match="ANTHROPIC_API_KEY") as caught:
        create_anthropic_adapter(config)
    assert caught.value.code is ErrorCode.PROVIDER_NOT_CONFIGURED

    monkeypatch.setenv("ANTHROPIC_API_KEY", "from-env")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "")
    model = create_http_model(config)

    assert (await model._get_credential(), model.model) == ("from-env", PROVIDERS["anthropic"].model)
    assert model.profile.base_url == "https://api.anthropic.com"


@pytest.mark.covers("PRV-07")
@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("https://gateway.example", "https://gateway.example/v1/messages"),
        ("https://gateway.example/v1/", "https://gateway.example/v1/messages"),
        ("https://gateway.example/v1/messages", "https://gateway.example/v1/messages"),
        ("https://x.services.ai.azure.com/anthropic", "https://x.services.ai.azure.com/anthropic/v1/messages"),
        ("http://localhost:9/v1?team=a", "http://localhost:9/v1/messages?team=a"),
    ],
)
def test_base_url_is_completed_to_the_messages_endpoint(
    base_url: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert AnthropicProtocol().url(make_model(base_url=base_url).profile) == url
    monkeypatch.setenv("ANTHROPIC_BASE_URL", base_url)
    assert AnthropicProtocol().url(make_model().profile) == url


@pytest.mark.covers("PRV-32")
def test_environment_key_is_not_sent_to_other_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "from-env")

    with pytest.raises(ProviderConfigError, match="is not sent to other hosts"):
        create_anthropic_adapter({"base_url": "https://elsewhere.example"})
    with pytest.raises(ProviderConfigError, match="must start with http"):
        make_model(base_url="elsewhere.example")


@pytest.mark.covers("PRV-35")
def test_api_version_is_pinned_and_can_be_changed() -> None:
    assert make_model(anthropic_version="2026-10-21").profile.headers == {"anthropic-version": "2026-10-21"}
    assert make_model(headers={"Anthropic-Version": "2"}).profile.headers == {"Anthropic-Version": "2"}


@pytest.mark.covers("PRV-30")
def test_beta_headers_and_context_management() -> None:
    plain = make_model()
    assert plain.profile.messages.context_management is None
    assert "context_management" not in body(HI, plain.profile)

    for setting in ({"context_management": True}, {"contextManagement": True}, {"context_management": MANAGED}):
        model = make_model(**setting)
        assert body(HI, model.profile)["context_management"] == MANAGED
        assert model.profile.headers["anthropic-beta"] == CONTEXT_BETA == "context-management-2025-06-27"

    model = make_model(
        extra_betas=["a-2025-01-01", CONTEXT_BETA],
        context_management=True,
        headers={"Anthropic-Beta": "b, a-2025-01-01"},
    )
    assert model.profile.headers["Anthropic-Beta"] == f"b,a-2025-01-01,{CONTEXT_BETA}"
    assert make_model(extra_betas=["x"]).profile.headers["anthropic-beta"] == "x"
    assert "anthropic-beta" not in make_model(context_management=False).profile.headers


@pytest.mark.covers("PRV-30", "CAC-01")
def test_settings_can_change_capabilities_and_are_validated() -> None:
    assert make_model(cache_ttl="1h").profile.messages.cache_ttl == "1h"
    assert make_model(dialect={"cache_ttl": "1h", "tool_images": False}).profile.messages.tool_images is False
    for invalid in ({"cache_ttl": "2h"}, {"extra_betas": "x"}, {"context_management": 3}, {"dialect": {"colour": 1}}):
        with pytest.raises(ProviderConfigError):
            make_model(**invalid)


# --- models ------------------------------------------------------------------------------------------------------------


@pytest.mark.covers("MOD-36")
@pytest.mark.parametrize(
    ("model", "thinking", "off", "temperature", "prefill", "forced"),
    [
        ("claude-3-opus-20240229", "none", "omit", True, True, True),
        ("claude-3-5-haiku-latest", "none", "omit", True, True, True),
        ("claude-3-7-sonnet@20250219", "budget", "omit", True, True, True),
        ("claude-sonnet-4-20250514", "budget", "omit", True, True, True),
        ("claude-haiku-4-5-20251001", "budget", "omit", True, True, True),
        ("us.anthropic.claude-opus-4-6-v1:0", "both", "omit", True, False, True),
        ("claude-opus-4-8", "adaptive", "omit", False, False, True),
        ("claude-sonnet-5", "adaptive", "disabled", False, False, True),
        ("claude-fable-5", "adaptive", "never", False, False, True),
        ("claude-sonnet-5-5", "adaptive", "between_tools", False, False, False),
        ("claude-opus-5-5", "adaptive", "never", False, False, False),
        ("anthropic/claude-haiku-5.5", "adaptive", "disabled", False, False, True),
        ("some-other-model", "budget", "omit", True, True, True),
    ],
)
def test_capabilities_are_known_by_the_model_name(
    model: str, thinking: str, off: str, temperature: bool, prefill: bool, forced: bool
) -> None:
    dialect = anthropic_capabilities(model)

    assert (dialect.thinking, dialect.thinking_off, dialect.temperature) == (thinking, off, temperature)
    assert (dialect.prefill, dialect.forced_tools) == (prefill, forced)
    assert make_model(model=model).profile.messages == dialect


# --- over HTTP ---------------------------------------------------------------------------------------------------------


@pytest.mark.covers("STR-12", "TST-01", "PRV-07", "MOD-01")
async def test_model_streams_and_completes() -> None:
    model, transport = make_offline_model(MemoryResponse(GOOD), MemoryResponse(GOOD))

    events = [event.type async for event in model.stream(ModelRequest(HI))]
    response = await model.complete(ModelRequest(HI, system="Be kind."))

    assert events == ["start", "text_start", "text_delta", "text_delta", "text_end", "done"]
    assert (response.text, response.stop_reason, response.usage.total_tokens) == ("Hello", "end_turn", 5)
    headers = transport.requests[0].headers
    assert (headers["x-api-key"], headers["anthropic-version"]) == ("sk-ant-key-123456", "2023-06-01")
    assert "authorization" not in headers


@pytest.mark.covers("STR-12")
async def test_model_streams_from_a_real_server() -> None:
    async with serve(chunked(GOOD[:50], GOOD[50:300], GOOD[300:])) as server:
        model = create_http_model({"base_url": server.url, "model": "claude-sonnet-4-5"})
        try:
            response = await model.complete(ModelRequest(HI))
        finally:
            await model.aclose()

    assert response.text == "Hello"
    [request] = server.requests
    assert request.target == "/v1/messages"
    assert json.loads(request.body)["model"] == "claude-sonnet-4-5"


@pytest.mark.covers("PRV-31", "PRV-32", "RET-16")
@pytest.mark.parametrize(
    ("status", "kind", "error_text", "error", "retryable"),
    [
        (429, "rate_limit_error", "Too many requests", RateLimitedError, True),
        (529, "overloaded_error", "Overloaded", RateLimitedError, True),
        (401, "authentication_error", "invalid x-api-key", AuthenticationError, False),
        (400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum", ContextExceededError, False),
        (400, "invalid_request_error", "messages.0: Input does not match the expected shape.", ModelError, False),
    ],
)
async def test_http_errors_are_classified(
    status: int, kind: str, error_text: str, error: type[ModelError], retryable: bool
) -> None:
    model, transport = make_offline_model(make_error_response(error_text, status, kind))

    with pytest.raises(error, match=error_text) as caught:
        await model.complete(ModelRequest(HI))

    assert (caught.value.status, caught.value.provider, caught.value.retryable) == (status, "anthropic", retryable)
    assert "sk-ant-key" not in str(caught.value)
    assert len(transport.requests) == 1 or error is ModelError  # A part of the request may be the cause.


@pytest.mark.covers("PRV-32")
async def test_failing_key_function_is_a_configuration_error() -> None:
    def fail() -> str:
        raise KeyError("vault")

    model = HttpModel(make_model().profile, AnthropicProtocol(), fail, transport=MemoryTransport(MemoryResponse(GOOD)))

    with pytest.raises(ProviderConfigError, match="Cannot get the API key"):
        await model.complete(ModelRequest(HI))
    with pytest.raises(ProviderConfigError, match="Invalid configuration of provider 'anthropic'"):
        create_anthropic_adapter({"connect_timeout": "soon"})


# --- rejections --------------------------------------------------------------------------------------------------------

FULL: dict[str, Any] = {
    "max_output_tokens": 20_000,
    "temperature": 0.2,
    "stop": ["#"],
    "schema": {"type": "object"},
    "system": "S",
    "cache": True,
}
OLD = profile(AnthropicCapabilities(thinking="budget", context_management=MANAGED, cache_ttl="1h"))
NEW = profile(
    AnthropicCapabilities(thinking="adaptive", efforts=("low", "high"), display="summarized", thinking_off="disabled")
)


def change_after_rejection(
    using: ModelProfile, refusal: str, messages: list[Message] = HI, **fields: Any
) -> tuple[Any, Any]:
    """Return the body before the rejection and the first different body after it."""
    before = body(messages, using, **fields)
    for changed in AnthropicProtocol().without_rejected(using, refusal):
        after = body(messages, changed, **fields)
        if after != before:
            return before, after
    raise AssertionError("nothing was left out")


@pytest.mark.covers("PRV-35")
@pytest.mark.parametrize(
    ("refusal", "field"),
    [
        ("`temperature` is deprecated for this model.", "temperature"),
        ("temperature: Extra inputs are not permitted", "temperature"),
        ("context_management: Extra inputs are not permitted", "context_management"),
        ("Unexpected value(s) `context-management-2025-06-27` for the `anthropic-beta` header.", "context_management"),
        ("stop_sequences: unsupported field", "stop_sequences"),
        ("output_config: Extra inputs are not permitted", "output_config"),
        ("output_config.format: this model does not support structured outputs", "output_config"),
    ],
)
def test_rejected_field_is_left_out(refusal: str, field: str) -> None:
    before, after = change_after_rejection(OLD, refusal, **FULL)

    assert field in before
    assert {name for name in before if name != field} == set(after)


@pytest.mark.parametrize(
    ("refusal", "cache_control"),
    [
        ("system.0.cache_control: Extra inputs are not permitted", None),
        ("cache_control.ephemeral.ttl: Extra inputs are not permitted", {"type": "ephemeral"}),
    ],
)
def test_cache_breakpoints_or_lifetimes_are_left_out_if_rejected(refusal: str, cache_control: Any) -> None:
    _, after = change_after_rejection(OLD, f"system.0.{refusal}", **FULL)

    assert after["system"][0].get("cache_control") == cache_control


@pytest.mark.covers("MOD-36")
def test_alternative_thinking_mode_is_used_if_one_is_rejected() -> None:
    adaptive_only = '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort".'
    before, after = change_after_rejection(OLD, adaptive_only, thinking="high")
    assert before["thinking"]["type"] == "enabled"
    assert (after["thinking"], after["output_config"]) == ({"type": "adaptive"}, {"effort": "high"})

    before, after = change_after_rejection(NEW, "adaptive thinking is not supported on this model", thinking="high")
    assert after["thinking"]["type"] == "enabled"

    before, after = change_after_rejection(
        OLD, "thinking: extended thinking is not supported by this model", thinking="high"
    )
    assert "thinking" not in after

    disabled_rejected = '"thinking.type.disabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort".'
    before, after = change_after_rejection(NEW, disabled_rejected, thinking="off")
    assert (before["thinking"], "thinking" in after, after["output_config"]) == (
        {"type": "disabled"},
        False,
        {"effort": "low"},
    )
    _, after = change_after_rejection(NEW, f'{disabled_rejected} or "thinking.type.between_tools"', thinking="off")
    assert after["thinking"] == {"type": "between_tools"}


@pytest.mark.covers("MOD-36")
def test_rejected_effort_is_replaced_by_a_supported_one() -> None:
    using = profile(AnthropicCapabilities(thinking="adaptive", efforts=("low", "medium", "high", "xhigh", "max")))
    refusal = "This model does not support effort level 'xhigh'. Supported levels: high, low, medium."

    before, after = change_after_rejection(using, refusal, thinking="xhigh")

    assert (before["output_config"], after["output_config"]) == ({"effort": "xhigh"}, {"effort": "high"})
    _, after = change_after_rejection(using, "output_config.effort: Extra inputs are not permitted", thinking="xhigh")
    assert "output_config" not in after


def test_output_limit_is_lowered_to_the_maximum_of_the_model() -> None:
    refusal = (
        "max_tokens: 20000 > 4096, which is the maximum allowed number of output tokens for claude-3-opus-20240229"
    )

    _, after = change_after_rejection(OLD, refusal, **FULL)

    assert after["max_tokens"] == 4096


@pytest.mark.parametrize(
    "refusal",
    [
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.",
    ],
)
def test_rejected_thinking_blocks_are_left_out(refusal: str) -> None:
    assistant = Message("assistant", (ThinkingBlock("Hm.", "S"), TextBlock("Hi")), provider="host", model="m1")

    before, after = change_after_rejection(OLD, refusal, [*HI, assistant, *HI])

    assert [b["type"] for b in before["messages"][1]["content"]] == ["thinking", "text"]
    assert [b["type"] for b in after["messages"][1]["content"]] == ["text"]


def test_unsigned_thinking_is_returned_if_the_host_requires_it() -> None:
    refusal = "The `content[].thinking` in the thinking mode must be passed back to the API."
    called = Message("assistant", (ThinkingBlock("Hm."), ToolUseBlock("c1", "now")), provider="host", model="m1")

    before, after = change_after_rejection(OLD, refusal, [*HI, called], thinking="low")

    assert [b["type"] for b in before["messages"][1]["content"]] == ["tool_use"]
    assert after["messages"][1]["content"][0] == {"type": "thinking", "thinking": "Hm."}
    assert ("thinking" in before, after["thinking"]["type"]) == (False, "enabled")


def test_unbound_thinking_blocks_are_dropped_by_the_host() -> None:
    refusal = (
        "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. "
        'Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
    )

    _, after = change_after_rejection(NEW, refusal, thinking="high")

    assert after["thinking"]["block_binding"] == {"prefix_mismatch_behavior": "drop_block"}
    again = profile(AnthropicCapabilities(thinking="adaptive", drop_unbound=True))
    _, without = change_after_rejection(
        again, "thinking.adaptive.block_binding: Extra inputs are not permitted", thinking="high"
    )
    assert without["thinking"] == {"type": "adaptive"}


def test_other_rejections_are_handled() -> None:
    story = [*HI, Message.assistant("Once upon")]
    _, after = change_after_rejection(OLD, "This model does not support assistant message prefill.", story)
    assert after["messages"][-1]["role"] == "user"

    _, after = change_after_rejection(
        OLD,
        "tool_choice forces tool use is not supported",
        tools=[ToolDefinition("t", "", {"type": "object"})],
        tool_choice="t",
    )
    assert "tool_choice" not in after

    searched = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    used = Message(
        "assistant", (RedactedThinkingBlock(json.dumps(searched)), TextBlock("So.")), provider="host", model="m1"
    )
    _, after = change_after_rejection(
        OLD, "unexpected `tool_use_id` found in `web_search_tool_result` blocks: s1", [*HI, used, *HI]
    )
    assert [b["type"] for b in after["messages"][1]["content"]] == ["text"]


@pytest.mark.parametrize("refusal", ["temperature: range: 0..1", "messages.0: Input does not match", "no"])
def test_invalid_value_is_not_left_out(refusal: str) -> None:
    assert list(AnthropicProtocol().without_rejected(OLD, refusal)) == []


async def test_rejected_request_is_repeated_without_the_rejected_field() -> None:
    model, transport = make_offline_model(
        make_error_response('"thinking.type.enabled" is not supported for this model.'),
        MemoryResponse(GOOD),
        make_error_response("`temperature` is deprecated for this model."),
        MemoryResponse(GOOD),
        MemoryResponse(GOOD),
        using=OLD,
    )

    response = await model.complete(ModelRequest(HI, thinking="low"))
    await model.complete(ModelRequest(HI, temperature=0.5))
    await model.complete(ModelRequest(HI, temperature=0.5))

    assert response.text == "Hello"
    sent = [json.loads(request.body) for request in transport.requests]
    assert [s.get("thinking", {}).get("type") for s in sent[:2]] == ["enabled", "adaptive"]
    assert ["temperature" in s for s in sent[2:]] == [True, False, False]


async def test_turn_with_thinking_and_a_tool_call() -> None:
    request = sse(
        begin(),
        start(0, "thinking", thinking="Hm.", signature="SIG"),
        {"type": "content_block_stop", "index": 0},
        *call(1, "c1", "look", "{}"),
        *end("tool_use"),
    )
    model, transport = make_offline_model(MemoryResponse(request), MemoryResponse(GOOD))

    first = (await model.complete(ModelRequest(HI, thinking="low"))).message
    history = [*HI, first, Message("user", (ToolResultBlock("c1", "look", "a wall"),))]
    second = await model.complete(ModelRequest(history, thinking="low"))

    assert second.text == "Hello"
    assert first.tool_uses == (ToolUseBlock("c1", "look", {}),)
    sent = json.loads(transport.requests[1].body)
    assert sent["thinking"]["type"] == "adaptive"
    assert [b["type"] for b in sent["messages"][1]["content"]] == ["thinking", "tool_use"]
