"""`get_api_key`: the key of each request comes from the application."""

from pathlib import Path
from typing import Any, cast

import pytest

from mainspring import Agent, AgentProviderError, ConfigError
from mainspring.env import MemoryEnv
from mainspring.loop import LoopConfig, LoopContext, agent_loop
from mainspring.models import HttpModel, RetryConfig, create_model
from mainspring.models.auth.credentials import KEY_VARIABLES
from mainspring.run_options import RunOptions
from mainspring.testing import ScriptedModel
from tests.e2e.servers.chat import ChatServer, call, error

FAST = RunOptions(retry=RetryConfig(base_delay_seconds=0.001, jitter=0))


class Keys:
    """A function that returns a new key at each call, like a service whose tokens expire."""

    def __init__(self) -> None:
        self.providers: list[str] = []

    async def __call__(self, provider: str) -> str:
        self.providers.append(provider)
        return f"key-{len(self.providers)}"


def sent_keys(server: ChatServer) -> list[str]:
    return [{k.lower(): v for k, v in headers.items()}["authorization"] for headers in server.headers]


@pytest.mark.covers("MOD-35")
async def test_key_is_requested_for_each_model_call_and_each_retry(tmp_path: Path) -> None:
    keys = Keys()
    (tmp_path / "a.txt").write_text("text")
    with ChatServer() as server:
        server.script += [call("look"), error(500), "Done.", "Again."]
        model = create_model("compatible:m", base_url=server.base_url, api_key="own")

        def look() -> str:
            """Look."""
            return "seen"

        agent = Agent(model, tools=[look], execution=tmp_path, behavior=FAST, get_api_key=keys)
        await agent.run("Go")
        await agent.run("And again")

        assert sent_keys(server) == ["Bearer key-1", "Bearer key-2", "Bearer key-3", "Bearer key-4"]
        assert keys.providers == ["compatible"] * 4


async def test_key_of_the_model_is_used_if_the_function_returns_none() -> None:
    with ChatServer() as server:
        server.script += ["a", "b"]
        model = create_model("compatible:m", base_url=server.base_url, api_key="own")

        await Agent(model, execution=MemoryEnv({}), get_api_key=lambda: None).run("Go")
        await Agent(model, execution=MemoryEnv({}), get_api_key=lambda: "without argument").run("Go")

        assert sent_keys(server) == ["Bearer own", "Bearer without argument"]


@pytest.mark.covers("MOD-35")
async def test_key_of_a_loop_without_an_agent() -> None:
    keys = Keys()
    with ChatServer() as server:
        server.script += ["a", "b"]
        model = create_model("compatible:m", base_url=server.base_url, api_key="own")
        config = LoopConfig(model=model, env=MemoryEnv({}), get_api_key=keys)
        for _ in range(2):
            await agent_loop("Go", LoopContext(), config)

        assert sent_keys(server) == ["Bearer key-1", "Bearer key-2"]


async def test_rejected_key_is_replaced_once() -> None:
    keys = Keys()
    with ChatServer() as server:
        server.script += [error(401), "Done."]
        model = create_model("compatible:m", base_url=server.base_url, api_key="own")

        result = await Agent(model, execution=MemoryEnv({}), get_api_key=keys).run("Go")

        assert result.text == "Done."
        assert sent_keys(server) == ["Bearer key-1", "Bearer key-2"]


async def test_name_of_a_model_needs_no_other_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    for agent in (
        Agent("openai:gpt-5-mini", execution=MemoryEnv({}), get_api_key=Keys()),
        Agent("gpt-5-mini", provider="openai", execution=MemoryEnv({}), get_api_key=Keys()),
    ):
        assert isinstance(agent.model, HttpModel)
        assert await agent.model._get_credential() == "key-1"


async def test_token_of_entra_id_is_sent_as_a_token() -> None:
    model = create_model("azure", endpoint="https://r.openai.azure.com", deployment="d", api_key="own")
    agent: Any = Agent(model, execution=MemoryEnv({}), get_api_key=lambda: "eyJh.eyJz.c")

    assert await agent.model._get_credential() == {"authorization": "Bearer eyJh.eyJz.c"}


def test_model_without_a_key_is_rejected() -> None:
    with pytest.raises(ConfigError, match="get_api_key"):
        Agent(ScriptedModel("x"), execution=MemoryEnv({}), get_api_key=Keys())
    with pytest.raises(ConfigError, match="get_api_key of Agent must be a function"):
        Agent("openai:m", execution=MemoryEnv({}), get_api_key=cast("Any", "key"))


@pytest.mark.parametrize(
    "model", ["openai:gpt-5-mini", "anthropic:claude-sonnet-4-5", "gemini:gemini-2.5-flash", "groq:m"]
)
async def test_key_is_needed_by_the_first_request(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = KEY_VARIABLES[model.partition(":")[0]]
    for name in variables:
        monkeypatch.delenv(name, raising=False)
    agent = Agent(model, execution=MemoryEnv({}))
    assert (await agent.run("Hi", model=ScriptedModel("Hello."))).text == "Hello."
    with pytest.raises(AgentProviderError, match=f"No API key for .* Set the environment variable {variables[0]}"):
        await agent.run("Hi")
    monkeypatch.setenv(variables[0], "sk-late")
    with pytest.raises(
        AgentProviderError, match="was set after this agent was created. Set it before you create the agent"
    ):
        await agent.run("Hi")
