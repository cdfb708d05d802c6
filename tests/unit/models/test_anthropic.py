"""The provider anthropic: its settings, what its models take, its errors, what is left out after a refusal."""

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
from mainspring.models.providers.anthropic import ANTHROPIC_MODEL, CONTEXT_BETA, anthropic_capabilities
from mainspring.models.transport.recording import MemoryResponse, MemoryTransport
from mainspring.models.wire.anthropic import AnthropicProtocol
from tests.unit.models.messages_wire import begin, body, call, end, profile, sse, start, text
from tests.unit.models.server import chunked, serve

HI = [Message.user("Hi")]
GOOD = sse(begin(input_tokens=3), *text(0, "Hel", "lo"), *end(usage={"output_tokens": 2}))
MANAGED = {"edits": [{"type": "clear_tool_uses_20250919"}]}


def made(**settings: Any) -> HttpModel:
    return adapter({"api_key": "k", **settings})


def adapter(config: Any) -> HttpModel:
    model = create_anthropic_adapter(config)
    assert isinstance(model, HttpModel)
    return model


def offline(*answers: MemoryResponse, using: ModelProfile | None = None) -> tuple[HttpModel, MemoryTransport]:
    transport = MemoryTransport(*answers)
    known = using or made().profile
    return HttpModel(known, AnthropicProtocol(), lambda: "sk-ant-key-123456", transport=transport), transport


def refused(text: str, status: int = 400, kind: str = "invalid_request_error") -> MemoryResponse:
    return MemoryResponse(json.dumps({"type": "error", "error": {"type": kind, "message": text}}).encode(), status)


# --- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("PRV-07", "PRV-32", "PKG-17")
async def test_defaults() -> None:
    model = made()

    assert (model.provider, model.model) == ("anthropic", ANTHROPIC_MODEL) == ("anthropic", "claude-sonnet-4-20250514")
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
async def test_a_typed_configuration_or_a_dict(config: Any) -> None:
    models = [
        await create_model_provider(config),
        await get_provider_factory("anthropic")(config),
        adapter(config),
        create_model("anthropic:claude-opus-4-8", api_key="k"),
    ]

    for model in models:
        assert isinstance(model, HttpModel)
        assert (model.provider, model.model) == ("anthropic", "claude-opus-4-8")
        assert await model._get_credential() == "k"


@pytest.mark.covers("PRV-32", "PRV-05", "PRV-04", "PRV-36")
@pytest.mark.parametrize("config", [{}, {"api_key": ""}, {"api_key": " ", "base_url": "", "model": ""}])
async def test_the_environment_fills_what_is_missing_or_empty(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ProviderConfigError, match="ANTHROPIC_API_KEY") as caught:
        create_anthropic_adapter(config)
    assert caught.value.code is ErrorCode.PROVIDER_NOT_CONFIGURED

    monkeypatch.setenv("ANTHROPIC_API_KEY", "from-env")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "")
    model = adapter(config)

    assert (await model._get_credential(), model.model) == ("from-env", ANTHROPIC_MODEL)
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
def test_base_urls(base_url: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert AnthropicProtocol().url(made(base_url=base_url).profile) == url
    monkeypatch.setenv("ANTHROPIC_BASE_URL", base_url)
    assert AnthropicProtocol().url(made().profile) == url


@pytest.mark.covers("PRV-32")
def test_a_key_of_the_environment_stays_with_its_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "from-env")

    with pytest.raises(ProviderConfigError, match="is not sent to other hosts"):
        create_anthropic_adapter({"base_url": "https://elsewhere.example"})
    with pytest.raises(ProviderConfigError, match="must start with http"):
        made(base_url="elsewhere.example")


@pytest.mark.covers("PRV-35")
def test_the_version_is_pinned_and_can_be_changed() -> None:
    assert made(anthropic_version="2026-10-21").profile.headers == {"anthropic-version": "2026-10-21"}
    assert made(headers={"Anthropic-Version": "2"}).profile.headers == {"Anthropic-Version": "2"}


@pytest.mark.covers("PRV-30")
def test_betas_and_context_management() -> None:
    plain = made()
    assert plain.profile.messages.context_management is None
    assert "context_management" not in body(HI, plain.profile)

    for setting in ({"context_management": True}, {"contextManagement": True}, {"context_management": MANAGED}):
        model = made(**setting)
        assert body(HI, model.profile)["context_management"] == MANAGED
        assert model.profile.headers["anthropic-beta"] == CONTEXT_BETA == "context-management-2025-06-27"

    model = made(
        extra_betas=["a-2025-01-01", CONTEXT_BETA],
        context_management=True,
        headers={"Anthropic-Beta": "b, a-2025-01-01"},
    )
    assert model.profile.headers["Anthropic-Beta"] == f"b,a-2025-01-01,{CONTEXT_BETA}"
    assert made(extra_betas=["x"]).profile.headers["anthropic-beta"] == "x"
    assert "anthropic-beta" not in made(context_management=False).profile.headers


@pytest.mark.covers("PRV-30", "CAC-01")
def test_settings_may_be_changes_of_the_dialect_and_are_checked() -> None:
    assert made(cache_ttl="1h").profile.messages.cache_ttl == "1h"
    assert made(dialect={"cache_ttl": "1h", "tool_images": False}).profile.messages.tool_images is False
    for wrong in ({"cache_ttl": "2h"}, {"extra_betas": "x"}, {"context_management": 3}, {"dialect": {"colour": 1}}):
        with pytest.raises(ProviderConfigError):
            made(**wrong)


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
def test_what_a_model_takes_is_known_by_its_name(
    model: str, thinking: str, off: str, temperature: bool, prefill: bool, forced: bool
) -> None:
    dialect = anthropic_capabilities(model)

    assert (dialect.thinking, dialect.thinking_off, dialect.temperature) == (thinking, off, temperature)
    assert (dialect.prefill, dialect.forced_tools) == (prefill, forced)
    assert made(model=model).profile.messages == dialect


# --- over HTTP ---------------------------------------------------------------------------------------------------------


@pytest.mark.covers("STR-12", "TST-01", "PRV-07", "MOD-01")
async def test_it_answers_without_a_network() -> None:
    model, transport = offline(MemoryResponse(GOOD), MemoryResponse(GOOD))

    events = [event.type async for event in model.stream(ModelRequest(HI))]
    response = await model.complete(ModelRequest(HI, system="Be kind."))

    assert events == ["start", "text_start", "text_delta", "text_delta", "text_end", "done"]
    assert (response.text, response.stop_reason, response.usage.total_tokens) == ("Hello", "end_turn", 5)
    headers = transport.requests[0].headers
    assert (headers["x-api-key"], headers["anthropic-version"]) == ("sk-ant-key-123456", "2023-06-01")
    assert "authorization" not in headers


@pytest.mark.covers("STR-12")
async def test_it_streams_from_a_real_server() -> None:
    async with serve(chunked(GOOD[:50], GOOD[50:300], GOOD[300:])) as server:
        model = adapter({"base_url": server.url, "model": "claude-sonnet-4-5"})
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
    ("status", "kind", "text_of_it", "error", "retryable"),
    [
        (429, "rate_limit_error", "Too many requests", RateLimitedError, True),
        (529, "overloaded_error", "Overloaded", RateLimitedError, True),
        (401, "authentication_error", "invalid x-api-key", AuthenticationError, False),
        (400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum", ContextExceededError, False),
        (400, "invalid_request_error", "messages.0: Input does not match the expected shape.", ModelError, False),
    ],
)
async def test_errors(status: int, kind: str, text_of_it: str, error: type[ModelError], retryable: bool) -> None:
    model, transport = offline(refused(text_of_it, status, kind))

    with pytest.raises(error, match=text_of_it) as caught:
        await model.complete(ModelRequest(HI))

    assert (caught.value.status, caught.value.provider, caught.value.retryable) == (status, "anthropic", retryable)
    assert "sk-ant-key" not in str(caught.value)
    assert len(transport.requests) == 1


@pytest.mark.covers("PRV-32")
async def test_a_key_that_cannot_be_fetched_is_a_configuration_error() -> None:
    def broken() -> str:
        raise KeyError("vault")

    model = HttpModel(made().profile, AnthropicProtocol(), broken, transport=MemoryTransport(MemoryResponse(GOOD)))

    with pytest.raises(ProviderConfigError, match="Cannot get the API key"):
        await model.complete(ModelRequest(HI))
    with pytest.raises(ProviderConfigError, match="Invalid configuration of provider 'anthropic'"):
        create_anthropic_adapter({"connect_timeout": "soon"})


# --- refusals ----------------------------------------------------------------------------------------------------------

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


def adapted(using: ModelProfile, refusal: str, messages: list[Message] = HI, **fields: Any) -> tuple[Any, Any]:
    """The body before, and the first that differs after the refusal."""
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
def test_a_refused_field_is_left_out(refusal: str, field: str) -> None:
    before, after = adapted(OLD, refusal, **FULL)

    assert field in before
    assert {name for name in before if name != field} == set(after)


@pytest.mark.parametrize(
    ("refusal", "left"),
    [
        ("system.0.cache_control: Extra inputs are not permitted", None),
        ("cache_control.ephemeral.ttl: Extra inputs are not permitted", {"type": "ephemeral"}),
    ],
)
def test_a_host_that_takes_no_breakpoints_or_no_lifetimes(refusal: str, left: Any) -> None:
    _, after = adapted(OLD, f"system.0.{refusal}", **FULL)

    assert after["system"][0].get("cache_control") == left


@pytest.mark.covers("MOD-36")
def test_another_way_to_think_is_found() -> None:
    only_new = '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort".'
    before, after = adapted(OLD, only_new, thinking="high")
    assert before["thinking"]["type"] == "enabled"
    assert (after["thinking"], after["output_config"]) == ({"type": "adaptive"}, {"effort": "high"})

    before, after = adapted(NEW, "adaptive thinking is not supported on this model", thinking="high")
    assert after["thinking"]["type"] == "enabled"

    before, after = adapted(OLD, "thinking: extended thinking is not supported by this model", thinking="high")
    assert "thinking" not in after

    no_rest = '"thinking.type.disabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort".'
    before, after = adapted(NEW, no_rest, thinking="off")
    assert (before["thinking"], "thinking" in after, after["output_config"]) == (
        {"type": "disabled"},
        False,
        {"effort": "low"},
    )
    _, after = adapted(NEW, f'{no_rest} or "thinking.type.between_tools"', thinking="off")
    assert after["thinking"] == {"type": "between_tools"}


@pytest.mark.covers("MOD-36")
def test_a_refused_effort_becomes_one_of_those_that_are_listed() -> None:
    using = profile(AnthropicCapabilities(thinking="adaptive", efforts=("low", "medium", "high", "xhigh", "max")))
    refusal = "This model does not support effort level 'xhigh'. Supported levels: high, low, medium."

    before, after = adapted(using, refusal, thinking="xhigh")

    assert (before["output_config"], after["output_config"]) == ({"effort": "xhigh"}, {"effort": "high"})
    _, after = adapted(using, "output_config.effort: Extra inputs are not permitted", thinking="xhigh")
    assert "output_config" not in after


def test_a_cap_that_is_too_high_becomes_the_models_own() -> None:
    refusal = (
        "max_tokens: 20000 > 4096, which is the maximum allowed number of output tokens for claude-3-opus-20240229"
    )

    _, after = adapted(OLD, refusal, **FULL)

    assert after["max_tokens"] == 4096


@pytest.mark.parametrize(
    "refusal",
    [
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.",
    ],
)
def test_thinking_that_is_not_taken_back_is_left_out(refusal: str) -> None:
    said = Message("assistant", (ThinkingBlock("Hm.", "S"), TextBlock("Hi")), provider="host", model="m1")

    before, after = adapted(OLD, refusal, [*HI, said, *HI])

    assert [b["type"] for b in before["messages"][1]["content"]] == ["thinking", "text"]
    assert [b["type"] for b in after["messages"][1]["content"]] == ["text"]


def test_a_host_that_wants_unsigned_thinking_back_gets_it() -> None:
    refusal = "The `content[].thinking` in the thinking mode must be passed back to the API."
    called = Message("assistant", (ThinkingBlock("Hm."), ToolUseBlock("c1", "now")), provider="host", model="m1")

    before, after = adapted(OLD, refusal, [*HI, called], thinking="low")

    assert [b["type"] for b in before["messages"][1]["content"]] == ["tool_use"]
    assert after["messages"][1]["content"][0] == {"type": "thinking", "thinking": "Hm."}
    assert ("thinking" in before, after["thinking"]["type"]) == (False, "enabled")


def test_thinking_bound_to_another_conversation_is_left_to_the_host_to_drop() -> None:
    refusal = (
        "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. "
        'Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
    )

    _, after = adapted(NEW, refusal, thinking="high")

    assert after["thinking"]["block_binding"] == {"prefix_mismatch_behavior": "drop_block"}
    again = profile(AnthropicCapabilities(thinking="adaptive", drop_unbound=True))
    _, without = adapted(again, "thinking.adaptive.block_binding: Extra inputs are not permitted", thinking="high")
    assert without["thinking"] == {"type": "adaptive"}


def test_other_refusals_that_have_an_answer() -> None:
    story = [*HI, Message.assistant("Once upon")]
    _, after = adapted(OLD, "This model does not support assistant message prefill.", story)
    assert after["messages"][-1]["role"] == "user"

    _, after = adapted(
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
    _, after = adapted(OLD, "unexpected `tool_use_id` found in `web_search_tool_result` blocks: s1", [*HI, used, *HI])
    assert [b["type"] for b in after["messages"][1]["content"]] == ["text"]


@pytest.mark.parametrize("refusal", ["temperature: range: 0..1", "messages.0: Input does not match", "no"])
def test_a_wrong_value_is_nothing_to_leave_out(refusal: str) -> None:
    assert list(AnthropicProtocol().without_rejected(OLD, refusal)) == []


async def test_a_refused_request_is_sent_again_without_what_was_refused() -> None:
    model, transport = offline(
        refused('"thinking.type.enabled" is not supported for this model.'),
        MemoryResponse(GOOD),
        refused("`temperature` is deprecated for this model."),
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


async def test_a_whole_turn_with_a_tool() -> None:
    request = sse(
        begin(),
        start(0, "thinking", thinking="Hm.", signature="SIG"),
        {"type": "content_block_stop", "index": 0},
        *call(1, "c1", "look", "{}"),
        *end("tool_use"),
    )
    model, transport = offline(MemoryResponse(request), MemoryResponse(GOOD))

    first = (await model.complete(ModelRequest(HI, thinking="low"))).message
    history = [*HI, first, Message("user", (ToolResultBlock("c1", "look", "a wall"),))]
    second = await model.complete(ModelRequest(history, thinking="low"))

    assert second.text == "Hello"
    assert first.tool_uses == (ToolUseBlock("c1", "look", {}),)
    sent = json.loads(transport.requests[1].body)
    assert sent["thinking"]["type"] == "enabled"
    assert [b["type"] for b in sent["messages"][1]["content"]] == ["thinking", "tool_use"]
