"""A local server is asked for the limits of a model, before the first request."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from mainspring.errors import NetworkError
from mainspring.messages import Message
from mainspring.models import create_model, token_limits
from mainspring.models.http_model import HttpModel
from mainspring.models.port import ModelRequest
from mainspring.models.providers.http import is_local_address
from tests.unit.models.server import Answer, Received, plain, serve
from tests.unit.models.wire import chunk, sse

REQUEST = ModelRequest([Message.user("Hi")], max_output_tokens=16_384)
RESPONSE = sse(chunk({"content": "fine"}), chunk({}, "stop"))

SERVERS: Mapping[str, Mapping[str, Any]] = {
    "vLLM": {"/v1/models": {"data": [{"id": "m", "max_model_len": 8192}]}},
    "SGLang": {"/v1/models": {"data": [{"id": "other", "max_model_len": 1}, {"id": "m", "max_model_len": 8192}]}},
    "a server with one model": {"/v1/models": {"data": [{"id": "/models/m.gguf", "context_length": 8192}]}},
    "a gateway": {"/v1/models": {"data": [{"id": "m", "context_window": 8192, "max_completion_tokens": 2048}]}},
    "OpenRouter": {
        "/v1/models": {"data": [{"id": "m", "context_length": 8192, "top_provider": {"max_completion_tokens": 2048}}]}
    },
    "llama.cpp": {
        "/v1/models": {"data": [{"id": "m", "meta": {"n_ctx_train": 131_072}}]},
        "/props": {"default_generation_settings": {"n_ctx": 8192}},
    },
    "LM Studio": {
        "/v1/models": {"data": [{"id": "m"}, {"id": "n"}]},
        "/api/v0/models": {"data": [{"id": "m", "max_context_length": 131_072, "loaded_context_length": 8192}]},
    },
    "Ollama, loaded": {
        "/v1/models": {"data": [{"id": "m"}]},
        "/api/ps": {"models": [{"name": "m", "context_length": 8192}]},
        "/api/show": {"parameters": "num_ctx 131072", "model_info": {"llama.context_length": 131_072}},
    },
    "Ollama, configured": {"/api/ps": {"models": []}, "/api/show": {"parameters": 'stop "<|x|>"\nnum_ctx    8192'}},
    "Ollama, without a tag": {
        "/v1/models": {"data": [{"id": "m:latest"}, {"id": "n:latest"}]},
        "/api/ps": {
            "models": [{"name": "n:latest", "context_length": 1}, {"name": "m:latest", "context_length": 8192}]
        },
    },
    "vLLM, LoRA adapter": {
        "/v1/models": {"data": [{"id": "b", "max_model_len": 8192}, {"id": "m", "parent": "b", "max_model_len": None}]}
    },
    "LM Studio, new": {
        "/v1/models": {"data": [{"id": "m"}, {"id": "n"}]},
        "/api/v1/models": {
            "models": [
                {"key": "m", "max_context_length": 131_072, "loaded_instances": [{"config": {"context_length": 8192}}]}
            ]
        },
    },
    "TabbyAPI": {
        "/v1/models": {"data": [{"id": "m"}, {"id": "n"}]},
        "/v1/model": {"id": "m", "parameters": {"max_seq_len": 8192}},
    },
    "KoboldCpp": {
        "/v1/models": {"data": [{"id": "koboldcpp/m"}]},
        "/api/extra/true_max_context_length": {"value": 8192},
    },
    "LiteLLM": {
        "/v1/models": {"data": [{"id": "m"}]},
        "/model/info": {"data": [{"model_name": "m", "model_info": {"max_input_tokens": 8192}}]},
    },
    "a list without an object": {"/v1/models": [{"id": "m", "max_model_len": 8192}]},
    "a gateway with nested limits": {
        "/v1/models": {
            "data": [
                {"id": "m", "capabilities": {"limits": {"max_context_window_tokens": 8192, "max_output_tokens": 2048}}}
            ]
        },
        "completion": {},
    },
    "TGI": {"/info": {"max_total_tokens": 8192, "max_input_tokens": 8000}},
}


def answer_from(paths: Mapping[str, Any]) -> Any:
    def answer(request: Received) -> Answer:
        if request.target.endswith("/chat/completions"):
            return plain(RESPONSE, content_type="text/event-stream")
        value = paths.get(request.target)
        return plain(b"{}", "404 Not Found") if value is None else plain(json.dumps(value).encode())

    return answer


def sent_limits(requests: list[Received]) -> list[int]:
    return [json.loads(r.body)["max_tokens"] for r in requests if r.target.endswith("/chat/completions")]


@pytest.mark.parametrize("name", SERVERS)
async def test_limits_of_a_server_apply_to_the_first_request(name: str) -> None:
    async with serve(answer_from(SERVERS[name])) as server:
        model = create_model("compatible:m", base_url=f"{server.url}/v1", api_key="x")

        assert (await model.complete(REQUEST)).text == "fine"

        assert model.info.context_window == 8192
        assert sent_limits(server.requests)[0] < 8192
        if "completion" in json.dumps(SERVERS[name]):
            assert sent_limits(server.requests) == [2048]
        count = len(server.requests)
        await create_model("compatible:m", base_url=f"{server.url}/v1", api_key="x").complete(REQUEST)
        assert len(server.requests) == count + 1


async def test_server_without_limits_is_asked_twice_at_most() -> None:
    async with serve(answer_from({"/v1/models": {"data": [{"id": "m"}]}})) as server:
        model = create_model("compatible:m", base_url=f"{server.url}/v1", api_key="x")

        for _ in range(4):
            assert (await model.complete(REQUEST)).text == "fine"

        assert model.info.context_window is None
        assert sent_limits(server.requests) == [16_384] * 4
        assert [r.target for r in server.requests].count("/v1/models") == 2
        assert {r.target for r in server.requests if r.method == "POST"} == {"/v1/chat/completions"}


async def test_models_of_a_process_share_the_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(token_limits, "monotonic", lambda: now)
    async with serve(answer_from({"/v1/models": {"data": [{"id": "m"}]}})) as server:

        async def count_questions() -> int:
            before = len(server.requests)
            models = [create_model("compatible:m", base_url=f"{server.url}/v1", api_key="x") for _ in range(3)]
            await asyncio.gather(*[model.complete(REQUEST) for model in models])
            return [r.target for r in server.requests[before:]].count("/v1/models")

        assert [await count_questions(), await count_questions()] == [2, 0]
        now = 301.0
        assert [await count_questions(), await count_questions()] == [2, 0]


@pytest.mark.parametrize("failure", [["reset"], plain(b"{}", "503 Service Unavailable")])
async def test_server_that_does_not_work_yet_is_asked_again(failure: Answer) -> None:
    is_ready = False

    def answer(request: Received) -> Answer:
        return answer_from(SERVERS["llama.cpp"])(request) if is_ready else failure

    async with serve(answer) as server:
        model = create_model("compatible:m", base_url=f"{server.url}/v1", api_key="x")
        for _ in range(3):
            with pytest.raises(NetworkError):
                await model.complete(REQUEST)
        assert {r.target for r in server.requests} == {"/v1/models", "/v1/chat/completions"}
        is_ready = True

        await model.complete(REQUEST)

        assert model.info.context_window == 8192


@pytest.mark.parametrize(
    "listed",
    [
        [],
        "no",
        {"data": "no"},
        {"data": [{"id": "m", "max_model_len": "no"}]},
        {"data": [{"id": "m", "max_model_len": -1}]},
        {"data": [{"id": "m", "vision": {"n_ctx": 577}, "rate_limits": {"max_input_tokens": 6000}}]},
        {"data": [{"id": "m", "variants": [{"id": "n", "context_length": 2048}], "info": {"n_ctx": 77}}]},
    ],
)
async def test_odd_list_of_models_changes_nothing(listed: Any) -> None:
    async with serve(answer_from({"/v1/models": listed})) as server:
        model = create_model("compatible:m", base_url=f"{server.url}/v1", api_key="x")

        assert (await model.complete(REQUEST)).text == "fine"
        assert model.info.context_window is None


@pytest.mark.parametrize(
    "fields",
    [
        {"default_parameters": {"max_tokens": 512}},
        {"settings": {"temperature": 0.7, "max_tokens": 512}},
        {"temperature": 0.7, "max_tokens": 512},
        {"prompt_cache": {"max_tokens": 1024}},
    ],
)
async def test_default_of_a_server_is_not_an_output_limit(fields: Any) -> None:
    async with serve(answer_from({"/v1/models": {"data": [{"id": "m", "max_model_len": 32_768, **fields}]}})) as server:
        await create_model("compatible:m", base_url=f"{server.url}/v1", api_key="x").complete(REQUEST)

        assert sent_limits(server.requests) == [16_384]


async def test_unreachable_server_is_asked_once() -> None:
    async with serve(["reset"]) as server:
        model = create_model("compatible:m", base_url=f"{server.url}/v1", api_key="x")

        with pytest.raises(NetworkError):
            await model.complete(REQUEST)

        assert [r.target for r in server.requests if r.method == "GET"] == ["/v1/models"]


async def test_configured_window_is_not_asked_for() -> None:
    async with serve(answer_from(SERVERS["vLLM"])) as server:
        model = create_model("compatible:m", base_url=f"{server.url}/v1", api_key="x", context_window=4096)

        await model.complete(REQUEST)

        assert len(server.requests) == 1
        assert model.info.context_window == 4096


@pytest.mark.parametrize(
    ("settings", "requested", "window", "sent"),
    [
        ({"context_window": 131_072, "max_output_tokens": 8192}, None, 131_072, 8192),
        ({"models": {"m": {"contextWindow": 131_072, "maxOutputTokens": 4096}}}, 16_384, 131_072, 4096),
        ({"max_output_tokens": 4096}, None, 8192, 4096),
        ({}, 16_384, 8192, 2048),
    ],
)
async def test_settings_win_over_the_description_of_a_server(
    settings: dict[str, Any], requested: int | None, window: int, sent: int
) -> None:
    async with serve(answer_from(SERVERS["a gateway"])) as server:
        at_host: dict[str, Any] = {"base_url": f"{server.url}/v1", "api_key": "x"}
        await create_model("compatible:m", **at_host).complete(REQUEST)  # learns the limits, of this process
        before = len(server.requests)
        model = create_model("compatible:m", **at_host, **settings)

        request = ModelRequest([Message.user("Hi")], max_output_tokens=requested)
        assert (await model.complete(request)).text == "fine"

        assert sent_limits(server.requests[before:]) == [sent]
        assert model.info.context_window == window


@pytest.mark.parametrize("refused", ["window", "output"])
async def test_refusal_wins_over_settings_after_one_retry(refused: str) -> None:
    text = {
        "window": "This model's maximum context length is 8192 tokens. However, you requested 16484 tokens (100 in the messages, "
        "16384 in the completion). Please reduce the length of the messages or completion.",
        "output": "max_tokens is too large: 16384. This model supports at most 4096 completion tokens.",
    }[refused]

    def answer(request: Received) -> Answer:
        if json.loads(request.body)["max_tokens"] > 8100:
            error = json.dumps({"error": {"message": text, "type": "invalid_request_error"}})
            return plain(error.encode(), "400 Bad Request", content_type="application/json")
        return plain(RESPONSE, content_type="text/event-stream")

    settings: dict[str, Any] = {"context_window": 131_072, "models": {"m": {"maxOutputTokens": 32_000}}}
    async with serve(answer) as server:
        for requests in (2, 3):  # another model of the same host knows the limit
            model = create_model("compatible:m", base_url=f"{server.url}/v1", api_key="x", **settings)
            assert (await model.complete(REQUEST)).text == "fine"
            assert len(server.requests) == requests
            limits = (model.info.context_window, model.info.max_output_tokens)
            assert limits == ((8192, 32_000) if refused == "window" else (131_072, 4096))


@pytest.mark.parametrize(
    ("url", "is_local"),
    [
        ("http://localhost:11434/v1", True),
        ("http://127.0.0.1:8000/v1", True),
        ("http://[::1]:8000/v1", True),
        ("http://192.168.1.5/v1", True),
        ("http://172.20.0.2:8000", True),
        ("http://gpu-box:8000/v1", True),
        ("http://model-runner.docker.internal/v1", True),
        ("https://api.groq.com/openai/v1", False),
        ("https://10.example.com/v1", False),
        ("http://172.32.0.1/v1", False),
        ("http://8.8.8.8/v1", False),
    ],
)
def test_only_local_servers_are_asked(url: str, is_local: bool) -> None:
    assert is_local_address(url) is is_local
    model = create_model("compatible:m", base_url=url, api_key="x")
    assert isinstance(model, HttpModel)
    assert model.profile.asks_limits is is_local
