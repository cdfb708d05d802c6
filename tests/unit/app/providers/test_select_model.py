"""The selected model, and the error if none is available."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from mainspring.app.providers.select_model import Choice, select_model
from mainspring.app.run.options import LaunchOptions
from mainspring.app.workspace.settings import AppConfig, Providers, ProviderSettings, Settings
from mainspring.app.workspace.settings.load import build_config, parse_settings
from mainspring.errors import ConfigError, ErrorCode, ProviderConfigError
from mainspring.models.http_model import HttpModel
from mainspring.models.providers.local_servers import LocalServer
from tests.e2e.servers.chat import ChatServer

OLLAMA = LocalServer("Ollama", "http://localhost:11434/v1", ("nomic-embed-text:latest", "qwen3:8b"))
EMPTY = LocalServer("LM Studio", "http://localhost:1234/v1", ())


async def choose(
    config: AppConfig | None = None,
    environ: dict[str, str] | None = None,
    *,
    servers: Sequence[LocalServer] = (),
    engine: bool = False,
    origins: dict[str, str] | None = None,
) -> Choice:
    async def list_servers() -> Sequence[LocalServer]:
        return servers

    settings = Settings(config=config or AppConfig(), origins=origins or {})
    return await select_model(settings, environ or {}, servers=list_servers, has_engine=lambda: engine)


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    return {"OPENAI_API_KEY": "sk-1"}


@pytest.mark.covers("CFG-12")
async def test_configured_model_comes_before_keys_and_local_servers(key: dict[str, str]) -> None:
    config = AppConfig(model="local:asked")
    available: dict[str, Any] = {"servers": [OLLAMA], "engine": True}

    assert (await choose(config, key, **available)).name.spec == "local:asked"
    assert (await choose(None, key, **available)).name.spec == "openai:gpt-5-mini"
    assert (await choose(None, {}, **available)).name.spec == "local:qwen3:8b"


@pytest.mark.covers("PRV-38")
async def test_embedded_model_is_chosen_if_nothing_is_configured() -> None:
    choice = await choose(None, {}, servers=[], engine=True)

    assert choice.name.spec == "embedded:qwen-coder-0.5b"
    with pytest.raises(ConfigError):
        await choose(None, {}, servers=[], engine=False)


@pytest.mark.parametrize(
    ("origin", "why"),
    [("flags", "--model"), ("environment", "AGENT_MODEL"), ("/x/settings.json", "/x/settings.json")],
)
async def test_choice_explains_its_origin(origin: str, why: str) -> None:
    choice = await choose(AppConfig(model="local:m"), origins={"model": origin})

    assert choice.why == f"set by {why}"


@pytest.mark.parametrize(
    ("origins", "why"),
    [
        ({"providers.default": "flags"}, "set by --provider"),
        ({"providers.default": "environment"}, "set by MAINSPRING_PROVIDER"),
        ({"providers.default": "user.json", "providers.local.model": "user.json"}, "set by user.json"),
        (
            {"providers.default": "user.json", "providers.local.model": "project.json"},
            "set by user.json; its model by project.json",
        ),
    ],
)
async def test_choice_of_a_provider_explains_what_chose_it_and_its_model(origins: dict[str, str], why: str) -> None:
    sections = {"local": ProviderSettings(model="m", base_url="http://localhost:1/v1")}
    choice = await choose(AppConfig(providers=Providers(default="local", sections=sections)), origins=origins)

    assert (choice.name.spec, choice.why) == ("local:m", why)


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ({"provider": "local"}, "set by --provider; its model by user.json"),
        ({"provider": "local", "model": "other"}, "set by --model"),
        ({"model": "local:"}, "set by --model"),
    ],
)
async def test_provider_of_the_command_line_explains_the_choice(flags: dict[str, Any], why: str) -> None:
    overrides = LaunchOptions(prompt="x", **flags).setting_overrides()
    sections = {"local": ProviderSettings(model="m", base_url="http://localhost:1/v1")}
    default = overrides.get(("providers", "default"))
    config = AppConfig(model=overrides[("model",)], providers=Providers(default=default, sections=sections))
    origins = {"providers.local.model": "user.json", **{".".join(path): "flags" for path in overrides}}

    assert (await choose(config, origins=origins)).why == why


async def test_local_server_needs_a_chat_model() -> None:
    choice = await choose(servers=[EMPTY, OLLAMA])

    assert choice.name.spec == "local:qwen3:8b"
    assert choice.why == "Ollama runs on this machine"
    assert isinstance(choice.model, HttpModel)
    assert choice.model.profile.base_url == OLLAMA.base_url


@pytest.mark.covers("CFG-12")
async def test_configured_server_supplies_one_of_its_models(monkeypatch: pytest.MonkeyPatch) -> None:
    with ChatServer() as server:
        server.models = ["text-embed", "first", "second"]
        environ = {"MAINSPRING_LOCAL_BASE_URL": server.base_url}
        monkeypatch.setenv(*next(iter(environ.items())))

        choice = await choose(None, environ)
        assert choice.name.spec == "local:first"
        assert choice.why == "MAINSPRING_LOCAL_BASE_URL is set; it is the server's first model"
        assert isinstance(choice.model, HttpModel)
        assert choice.model.profile.base_url == server.base_url

        server.models = ["other", "llama3.3:latest"]
        assert (await choose(None, environ)).name.spec == "local:llama3.3:latest", "the default, if the server has it"
        assert (await choose(AppConfig(model="local:asked"), environ)).name.spec == "local:asked"
    assert (await choose(None, environ)).name.spec == "local:llama3.3:latest", "the server no longer answers"


async def test_model_without_provider_can_be_on_a_local_server() -> None:
    choice = await choose(AppConfig(model="qwen3:8b"), servers=[OLLAMA], origins={"model": "flags"})

    assert choice.name.spec == "local:qwen3:8b"
    assert choice.why == "set by --model; Ollama has it"
    with pytest.raises(ProviderConfigError):
        await choose(AppConfig(model="qwen3:70b"), servers=[OLLAMA])
    with pytest.raises(ProviderConfigError):
        await choose(AppConfig(model="openai:qwen3:8b"), servers=[OLLAMA])


async def test_error_without_a_model_lists_setup_commands() -> None:
    with pytest.raises(ConfigError) as caught:
        await choose(servers=[EMPTY])

    text = str(caught.value)
    assert "pip install" in text
    assert "export OPENAI_API_KEY" in text


@pytest.mark.covers("CFG-07", "CFG-16")
async def test_default_provider_uses_its_section() -> None:
    sections = {"mine": ProviderSettings(base_url="http://mine.example/v1", api_key="k", model="big:latest")}
    config = AppConfig(providers=Providers(default="mine", sections=sections))

    choice = await choose(config)
    assert choice.name.spec == "mine:big:latest"
    assert isinstance(choice.model, HttpModel)
    assert choice.model.profile.base_url == "http://mine.example/v1"

    other = await choose(AppConfig(providers=config.providers, model="small:1b"))
    assert other.name.spec == "mine:small:1b"

    sections["first"] = ProviderSettings(base_url="http://first.example/v1", api_key="k", model="m")
    both = dict(sorted(sections.items()))  # the default is used although another section comes first
    assert (await choose(AppConfig(providers=Providers(default="mine", sections=both)))).name.spec == "mine:big:latest"


@pytest.mark.covers("PRV-17", "PRV-18")
async def test_github_uses_the_endpoint_and_the_token_of_its_section() -> None:
    url = "https://models.acme.example/inference"
    config = parse_settings(json.dumps({"providers": {"github": {"endpoint": url, "token": "t-1"}}}), "s.json")

    choice = await choose(build_config(config.values))

    assert isinstance(choice.model, HttpModel)
    assert (choice.why, choice.model.profile.base_url) == ("set by providers.github", url)
    assert await choice.model._get_credential() == "t-1"


async def test_provider_section_with_a_key_is_enough(key: dict[str, str]) -> None:
    sections = {"openai": ProviderSettings(api_key="sk-2", model="gpt-5")}

    choice = await choose(AppConfig(providers=Providers(sections=sections)))

    assert (choice.name.spec, choice.why) == ("openai:gpt-5", "set by providers.openai")


async def test_unknown_default_provider_is_an_error() -> None:
    with pytest.raises(
        ProviderConfigError, match=r"Unknown provider: 'nope'.*Available providers: anthropic"
    ) as caught:
        await choose(AppConfig(providers=Providers(default="nope")))
    assert caught.value.code == ErrorCode.PROVIDER_NOT_SUPPORTED
    with pytest.raises(ProviderConfigError, match=r"Did you mean 'openai'\?"):
        await choose(AppConfig(providers=Providers(default="opeani")))


async def test_default_provider_needs_a_model() -> None:
    sections = {"mine": ProviderSettings(base_url="http://mine.example/v1")}

    with pytest.raises(ProviderConfigError, match="Use mine:MODEL"):
        await choose(AppConfig(providers=Providers(default="mine", sections=sections)))


async def test_unknown_provider_error_suggests_a_name() -> None:
    with pytest.raises(ProviderConfigError, match="Unknown provider: 'anthropics'") as caught:
        await choose(AppConfig(model="anthropics:claude"))

    assert "Did you mean anthropic:claude?" in str(caught.value)
    with pytest.raises(ProviderConfigError, match=r"Available: anthropic, azure.*write openai:quite-other:claude"):
        await choose(AppConfig(model="quite-other:claude"), {"OPENAI_API_KEY": "k"})


async def test_error_names_the_assumed_provider() -> None:
    with pytest.raises(
        ProviderConfigError, match="so openai was used. To choose another provider, write PROVIDER:claude-4"
    ):
        await choose(AppConfig(model="claude-4"))


async def test_misspelled_provider_is_an_error_although_the_default_provider_has_a_key(key: dict[str, str]) -> None:
    flags = {"model": "flags"}
    with pytest.raises(ProviderConfigError, match="Did you mean anthropic:claude") as caught:
        await choose(AppConfig(model="antropic:claude"), key, origins=flags)
    model = await choose(AppConfig(model="gemma:2b"), key, origins=flags)

    assert caught.value.code is ErrorCode.PROVIDER_NOT_SUPPORTED
    assert (model.model.model, model.why) == ("gemma:2b", "set by --model")
