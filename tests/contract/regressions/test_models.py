"""Known problems of other agents with models: wire format, streams, retries, and keys that no other test covers completely."""

import json
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from mainspring import Agent, AgentProviderError, RunOptions, tool
from mainspring.app.workspace.settings import ProviderSettings
from mainspring.env.memory import MemoryEnv
from mainspring.errors import ErrorCode, ModelError
from mainspring.messages import Message
from mainspring.models import Failure, HttpModel, LLMClient, ModelRequest, ProviderConfig, RetryConfig, create_model
from mainspring.models.errors import classify_error
from mainspring.models.provider_table import PROVIDERS
from tests.contract.wire_scenarios import (
    CHAT,
    GEMINI,
    MESSAGES,
    RESPONSES,
    SPEAKERS,
    Speaker,
    call_block,
    chat,
    chat_call,
    event,
    message_end,
    message_start,
    named,
)
from tests.unit.models.server import Answer, Server, chunked, plain, serve

KEY = "Zx81Kq0aPwLm55TtRr77"  # in no known format, so that only a comparison with the key can redact it
NO_WAIT = RetryConfig(max_retries=1, base_delay_seconds=0, max_delay_seconds=0, jitter=0)

HOSTS: dict[str, tuple[Speaker, dict[str, Any]]] = {
    "anthropic:claude-sonnet-4-5": (MESSAGES, {}),
    "azure:gpt-4o": (RESPONSES, {"api": "responses"}),
    "cerebras:m": (CHAT, {}),
    "compatible:m": (CHAT, {}),
    "gemini:gemini-2.5-pro": (GEMINI, {}),
    "github:m": (CHAT, {}),
    "local:m": (CHAT, {}),
    "openai:gpt-5": (RESPONSES, {"api": "responses"}),
    "openrouter:a/b": (CHAT, {}),
}
HOSTS |= {
    f"{p.name}:m": (CHAT, {})
    for p in PROVIDERS.values()
    if not p.module and p.key == "yes" and p.name not in "".join(HOSTS)
}


def model_at(server: Server, spec: str, **more: Any) -> HttpModel:
    _, settings = HOSTS[spec]
    known = {"context_window": 100_000}  # Otherwise a local server is asked for it first.
    model = create_model(spec, base_url=f"{server.url}/v1", api_key=KEY, **{**known, **settings, **more})
    assert isinstance(model, HttpModel)
    return model


def agent_at(server: Server, *tools: Any, spec: str = "compatible:m") -> Agent:
    return Agent(
        model_at(server, spec),
        execution=MemoryEnv(),
        tools=list(tools),
        behavior=RunOptions(retry=NO_WAIT, max_turns=3),
    )


# --- arguments --------------------------------------------------------------------------------------------------------


def raw_newline(speaker: Speaker) -> Sequence[bytes]:
    """Return a call whose arguments contain a raw newline and a tab in a string, like models write them."""
    text = '{"text": "a\nb\tc"}'
    if speaker is CHAT:
        return (chat_call(0, text, "c1", "write"), chat({}, "tool_calls"), event("[DONE]"))
    first, *_, end = call_block(0, "c1", "write", {})
    piece = named("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": text})
    return (message_start(3, 0), first, piece, end, *message_end("tool_use", 5, 0))


@pytest.mark.parametrize("speaker", [CHAT, MESSAGES], ids=lambda s: s.name)
async def test_raw_control_characters_in_arguments_are_accepted(speaker: Speaker) -> None:
    written: list[str] = []

    @tool
    async def write(text: str) -> str:
        """Write."""
        written.append(text)
        return "ok"

    async with serve(chunked(*raw_newline(speaker)), chunked(*speaker.plain)) as server:
        result = await agent_at(server, write, spec=speaker.spec).run("go")

    assert (result.text, written) == ("Hello", ["a\nb\tc"])


@pytest.mark.covers("RET-15")
@pytest.mark.parametrize("end", [(chat({}, "length"),), ("reset",)], ids=["output cap", "dead stream"])
async def test_truncated_arguments_are_never_run(end: tuple[Any, ...]) -> None:
    ran: list[str] = []

    @tool
    async def delete(path: str) -> str:
        """Delete."""
        ran.append(path)
        return "ok"

    cut = chunked(chat({"content": "I clean up."}), chat_call(0, '{"path": "/tmp"}', "c1", "delete"), *end, end=False)
    async with serve([*cut, "reset"], chunked(*CHAT.plain)) as server:
        agent = agent_at(server, delete)
        with suppress(AgentProviderError):
            await agent.run("go")

    assert ran == []


# --- what other hosts reject ------------------------------------------------------------------------------------------


@pytest.mark.covers("MOD-09", "PRV-20")
async def test_unknown_host_gets_only_standard_fields() -> None:
    async with serve(chunked(*CHAT.plain)) as server:
        model = model_at(server, "compatible:m")
        await model.complete(ModelRequest([Message.user("Hi")], system="Be kind."))
        [request] = server.requests

    body = json.loads(request.body)
    assert body["messages"] == [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]
    assert set(body) <= {"model", "stream", "stream_options", "messages", "max_tokens"}
    assert None not in body.values()


@pytest.mark.covers("MOD-10", "PRV-32")
@pytest.mark.parametrize("spec", HOSTS)
async def test_gateway_gets_custom_header_and_key(spec: str) -> None:
    speaker, _ = HOSTS[spec]
    async with serve(chunked(*speaker.plain)) as server:
        model = model_at(server, spec, headers={"x-gateway": "team-7"})
        answer = await model.complete(ModelRequest([Message.user("Hi")]))
        [request] = server.requests

    assert answer.text == "Hello"
    assert request.headers["x-gateway"] == "team-7"
    assert any(KEY in value for value in request.headers.values())
    assert KEY not in request.target
    assert KEY.encode() not in request.body


@pytest.mark.parametrize("value", ["h\u00e4user", "host \n", "a\r\nx-other: 1", "\u65e5\u672c"])
async def test_invalid_header_value_cannot_inject_a_header(value: str) -> None:
    async with serve(chunked(*CHAT.plain)) as server:
        with suppress(ModelError):
            model = model_at(server, "compatible:m", headers={"x-host": value})
            await model.complete(ModelRequest([Message.user("Hi")]))

    assert all("x-other" not in request.headers for request in server.requests)


def test_model_id_may_contain_slashes_and_colons() -> None:
    for spec, model in (("openrouter:a/b:free", "a/b:free"), ("compatible:ft:gpt-4o:org::1", "ft:gpt-4o:org::1")):
        assert create_model(spec, base_url="http://127.0.0.1:1/v1", api_key=KEY).model == model


async def test_output_limit_fits_the_remaining_context_window() -> None:
    async with serve(chunked(*MESSAGES.plain)) as server:
        model = model_at(server, "anthropic:claude-sonnet-4-5", context_window=20_000, max_output_tokens=16_000)
        await model.complete(ModelRequest([Message.user("word " * 12_000)]))
        body = json.loads(server.requests[0].body)

    assert 0 < body["max_tokens"] < 8_000


# --- error classification ---------------------------------------------------------------------------------------------


@pytest.mark.covers("RET-17")
@pytest.mark.parametrize(
    "text",
    [
        "Request too large for gpt-4o on tokens per min (TPM): Limit 10000, Requested 9000",
        "This request would exceed your rate limit of 40,000 input tokens per minute: the prompt is too long",
        "Too many tokens, please wait before trying again.",
    ],
)
@pytest.mark.parametrize("status", [429, 529])
def test_token_rate_limit_is_not_an_overflow(status: int, text: str) -> None:
    error = classify_error(status, {}, json.dumps({"error": {"message": text}}).encode(), provider="p")

    assert error.code is ErrorCode.RATE_LIMITED


# --- keys -------------------------------------------------------------------------------------------------------------


def echo_key(status: str) -> Answer:
    """Return an error that repeats the key in every possible way."""
    text = f"Incorrect key {KEY}, sent as 'Authorization: Bearer {KEY}' and ?key={KEY}"
    return plain(json.dumps({"error": {"message": text, "param": KEY, "code": KEY}}).encode(), status)


def error_text(error: BaseException | None) -> str:
    """Return all texts of an error and of its causes."""
    seen = ""
    while error is not None:
        seen += f"{error} {error!r} {vars(error)}\n"
        error = error.__cause__ or error.__context__
    return seen


@pytest.mark.covers("PRV-31")
@pytest.mark.parametrize("spec", HOSTS)
@pytest.mark.parametrize("status", ["401 Unauthorized", "404 Not Found", "400 Bad Request", "302 Found"])
async def test_errors_redact_a_key_that_the_host_echoes(
    spec: str, status: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    moved = plain(b"", status, location=f"https://elsewhere.example/?key={KEY}")
    async with serve(moved if status.startswith("302") else echo_key(status)) as server:
        model = model_at(server, spec)
        with pytest.raises(ModelError) as caught:
            await model.complete(ModelRequest([Message.user("Hi")]))
        failed = await LLMClient(model, retry_config=NO_WAIT).invoke("Hi")

    assert KEY not in error_text(caught.value)
    assert KEY not in repr(failed)
    assert KEY not in repr(model)
    assert KEY not in caplog.text


@pytest.mark.covers("PRV-31")
@pytest.mark.parametrize("speaker", SPEAKERS, ids=lambda s: s.name)
async def test_errors_redact_a_key_echoed_within_a_stream(speaker: Speaker) -> None:
    failing = speaker.overloaded.replace(b"verloaded.", b"verloaded").replace(
        b'verloaded"', f'verloaded {KEY}"'.encode()
    )
    assert KEY.encode() in failing
    async with serve(chunked(*speaker.scenario[: speaker.content_at + 1], failing)) as server:
        model = create_model(speaker.spec, base_url=f"{server.url}/v1", api_key=KEY, **speaker.settings)
        with pytest.raises(ModelError) as caught:
            await model.complete(ModelRequest([Message.user("Hi")]))

    assert KEY not in error_text(caught.value)


@pytest.mark.parametrize("kind", [ProviderConfig, ProviderSettings])
def test_settings_repr_hides_secrets(kind: type[Any]) -> None:
    settings = kind(
        api_key=KEY,
        base_url=f"https://me:{KEY}@host/v1?key={KEY}",
        headers={"x-token": KEY},
        extra={"client_secret": KEY},
        model="m",
    )

    assert KEY not in repr(settings)
    assert "model='m'" in repr(settings)
    assert "x-token" in repr(settings)
    assert "idle_timeout" not in repr(settings)


async def test_profile_repr_hides_headers() -> None:
    model = create_model("compatible:m", base_url="http://h/v1", api_key=KEY, headers={"x-token": KEY})

    assert isinstance(model, HttpModel)
    assert KEY not in repr(model.profile)


@pytest.mark.covers("MOD-17")
async def test_unknown_option_is_not_reported_as_a_wrong_key() -> None:
    """The error message lists all options, including ``api_key``."""
    result = await LLMClient("local:m").invoke("Hi", temprature=1)

    assert isinstance(result, Failure)
    assert (result.error, "'temprature'" in result.message) == (ErrorCode.UNKNOWN, True)
