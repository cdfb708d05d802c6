"""Providers with the Chat Completions protocol: github, openrouter, cerebras, and custom hosts."""

import stat
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from mainspring.errors import ErrorCode, ModelError, NetworkError, ProviderConfigError
from mainspring.messages import Message
from mainspring.models import (
    ChatCapabilities,
    HttpModel,
    ModelRequest,
    ProviderConfig,
    ProviderRegistry,
    create_model,
    create_model_provider,
    default_registry,
    get_provider_factory,
)
from mainspring.models.auth.cli_tokens import GitHubCliCredential
from mainspring.models.auth.credentials import KEY_VARIABLES
from mainspring.models.provider_table import PROVIDERS, ProviderProfile
from mainspring.models.providers.compatible import openai_compatible
from tests.requires import on_posix
from tests.unit.models.server import plain, serve
from tests.unit.models.wire import chunk, sse

ASK = ModelRequest([Message.user("Hi")])


def as_http_model(model: Any) -> HttpModel:
    assert isinstance(model, HttpModel)
    return model


async def get_key(model: Any) -> Any:
    return await as_http_model(model)._get_credential()


# --- common to all providers -------------------------------------------------------------------------------------------

HOSTED = [
    ("openrouter", "OPENROUTER_API_KEY", "https://openrouter.ai/api/v1", "openrouter/auto"),
    ("cerebras", "CEREBRAS_API_KEY", "https://api.cerebras.ai/v1", "gpt-oss-120b"),
    ("groq", "GROQ_API_KEY", "https://api.groq.com/openai/v1", "openai/gpt-oss-120b"),
    ("github", "GITHUB_TOKEN", "https://models.github.ai/inference", "openai/gpt-4.1-mini"),
    ("gemini", "GOOGLE_API_KEY", "https://generativelanguage.googleapis.com/v1beta", "gemini-3.7-flash"),
]
PLAIN = [profile for profile in PROVIDERS.values() if not profile.module and profile.key == "yes"]
HOSTED += [(p.name, p.key_variables[0], p.base_url, p.model) for p in PLAIN if p.name not in [row[0] for row in HOSTED]]


@pytest.fixture(autouse=True)
def empty_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set PATH to an empty folder."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.mark.covers("PRV-24", "PRV-25", "PRV-18", "PRV-32")
@pytest.mark.parametrize(("name", "variable", "url", "model"), HOSTED)
async def test_valid_configuration_creates_a_model_with_defaults(
    name: str, variable: str, url: str, model: str
) -> None:
    factory = get_provider_factory(name)
    assert factory is not None
    for config in ({"provider": name, "apiKey": "k"}, {"api_key": "k"}, ProviderConfig(provider=name, api_key="k")):
        created = as_http_model(await factory(config))
        assert (created.provider, created.model, created.profile.base_url) == (name, model, url)
        assert await get_key(created) == "k"
    other = as_http_model(
        create_model(f"{name}:org/some-model", api_key="k", base_url="https://gateway.example/v1", max_output_tokens=5)
    )
    assert (other.model, other.profile.max_output_tokens) == ("org/some-model", 5)
    assert other.profile.base_url == "https://gateway.example/v1"


@pytest.mark.covers("PRV-05", "PRV-32", "PRV-36")
@pytest.mark.parametrize(("name", "variable", "url", "model"), HOSTED)
async def test_key_comes_from_the_environment_by_default(
    name: str, variable: str, url: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert variable in KEY_VARIABLES[name]
    monkeypatch.setenv(variable, " from-environment\n")
    empties: list[dict[str, Any]] = [{}, {"api_key": ""}, {"api_key": "  ", "base_url": "", "model": ""}]
    for empty in empties:
        created = as_http_model(create_model(name, **empty))
        assert await get_key(created) == "from-environment"
        assert (created.model, created.profile.base_url) == (model, url)
    assert await get_key(create_model(name, api_key="own")) == "own"
    with pytest.raises(ProviderConfigError, match="is not sent to other hosts"):
        create_model(f"{name}:m", base_url="https://gateway.example/v1")


@pytest.mark.covers("PRV-32", "PRV-04", "PRV-34", "PRV-36")
@pytest.mark.parametrize(("name", "variable", "url", "model"), HOSTED)
async def test_missing_key_is_named(
    name: str, variable: str, url: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, " ")
    for config in ({}, {"api_key": ""}):
        with pytest.raises(ProviderConfigError, match=variable) as caught:
            await create_model_provider({"provider": name, **config})
        assert caught.value.code is ErrorCode.PROVIDER_NOT_CONFIGURED
        assert f"providers.{name}.apiKey" in caught.value.message


@pytest.mark.covers("PRV-32")
@pytest.mark.parametrize(("name", "variable", "url", "model"), HOSTED)
async def test_invalid_setting_and_failing_key_function_raise_config_errors(
    name: str, variable: str, url: str, model: str
) -> None:
    class Odd(BaseException):
        """An error that is not an `Exception`, so the provider must not catch it."""

    def fail() -> str:
        raise RuntimeError("vault is sealed")

    def fail_with_odd() -> str:
        raise Odd

    with pytest.raises(ProviderConfigError, match="must start with http"):
        create_model(name, api_key="k", base_url="not-a-url")
    with pytest.raises(ProviderConfigError, match="unknown: strem"):
        create_model(name, api_key="k", dialect={"strem": 1})
    with pytest.raises(ProviderConfigError, match="vault is sealed"):
        await create_model(name, api_key=fail).complete(ASK)
    with pytest.raises(Odd):
        await create_model(name, api_key=fail_with_odd).complete(ASK)


@pytest.mark.covers("PRV-31", "STR-12")
@pytest.mark.parametrize("name", [*[profile.name for profile in PLAIN], "github"])
async def test_response_and_error_codes_over_http(name: str) -> None:
    answer = plain(sse(chunk({"content": "Hi"}), chunk({}, "stop")), **{"content-type": "text/event-stream"})
    rejected = plain(b'{"error": {"message": "Bad credentials"}}', "401 Unauthorized")
    async with serve(answer, rejected) as server:
        model = create_model(f"{name}:m", base_url=server.url, api_key="secret-key")
        found = [e.type async for e in model.stream(ASK)]
        with pytest.raises(ModelError, match="Bad credentials") as caught:
            await model.complete(ASK)

    assert found == ["start", "text_start", "text_delta", "text_end", "done"]
    assert caught.value.code is ErrorCode.AUTHENTICATION_ERROR
    assert "secret-key" not in caught.value.message
    assert server.requests[0].target == "/chat/completions"
    assert server.requests[0].headers["authorization"] == "Bearer secret-key"
    with pytest.raises(NetworkError):
        await create_model(f"{name}:m", base_url="http://127.0.0.1:1/v1").complete(ASK)


OWN_SERVERS = [
    ("local", "MAINSPRING_LOCAL_BASE_URL", "http://localhost:11434/v1", "not-needed"),
    ("ollama", "OLLAMA_HOST", "http://localhost:11434", ""),
]


@pytest.mark.covers("PRV-19", "PRV-20", "PRV-32", "PRV-36")
@pytest.mark.parametrize(("name", "variable", "url", "key"), OWN_SERVERS)
async def test_local_servers_need_no_settings(
    name: str, variable: str, url: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for empty in ({}, {"base_url": "", "model": " ".strip(), "api_key": ""}):
        created = as_http_model(await create_model_provider({"provider": name, **empty}))
        assert (created.provider, created.model, created.profile.base_url) == (name, "llama3.3:latest", url)
        assert await get_key(created) == key
    monkeypatch.setenv(variable, "http://box:9000/v1" if name == "local" else "http://box:9000")
    assert as_http_model(create_model(name)).profile.base_url == (
        "http://box:9000/v1" if name == "local" else "http://box:9000"
    )
    assert as_http_model(create_model(name, base_url="http://other:1")).profile.base_url == "http://other:1"
    with pytest.raises(ProviderConfigError, match="must start with http"):
        create_model(name, base_url="ftp://box")


@pytest.mark.covers("PRV-26", "PRV-32", "PRV-04", "PRV-36")
async def test_compatible_provider_needs_url_model_and_key(monkeypatch: pytest.MonkeyPatch) -> None:
    complete_settings = {"base_url": "https://h.example/v1", "model": "m", "api_key": "k"}
    created = as_http_model(await create_model_provider({"provider": "compatible", **complete_settings}))
    assert (created.provider, created.model, created.profile.base_url) == ("compatible", "m", "https://h.example/v1")
    for missing, text in (
        ("base_url", "OPENAI_COMPATIBLE_BASE_URL"),
        ("model", "Missing model"),
        ("api_key", "API_KEY"),
    ):
        for value in ("", None):
            with pytest.raises(ProviderConfigError, match=text) as caught:
                await create_model_provider({"provider": "compatible", **complete_settings, missing: value})
            assert caught.value.code is ErrorCode.PROVIDER_NOT_CONFIGURED
    monkeypatch.setenv("OPENAI_COMPATIBLE_BASE_URL", "https://env.example/v1")
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", "from-environment")
    created = as_http_model(create_model("compatible:m"))
    assert (created.profile.base_url, await get_key(created)) == ("https://env.example/v1", "from-environment")


# --- specific to one provider ------------------------------------------------------------------------------------------


@pytest.mark.covers("CAC-06", "CAC-07", "PRV-24", "PRV-25")
def test_only_openrouter_passes_cache_breakpoints() -> None:
    def capabilities_of(spec: str, **settings: Any) -> ChatCapabilities:
        return as_http_model(create_model(spec, api_key="k", **settings)).profile.dialect

    assert capabilities_of("openrouter").cache_breakpoints
    assert not capabilities_of("openrouter", dialect={"cache_breakpoints": False}).cache_breakpoints
    for spec in ("cerebras", "github", "local", "compatible:m"):
        assert not capabilities_of(spec, base_url="http://h/v1").cache_breakpoints
    assert capabilities_of(
        "compatible:m", base_url="http://h/v1", dialect={"cache_breakpoints": True}
    ).cache_breakpoints
    assert capabilities_of("cerebras").max_tokens_field == "max_completion_tokens"
    assert not capabilities_of("cerebras").tool_images


def fake_gh(folder: Path, script: str) -> Path:
    """Put a ``gh`` on PATH that runs this code and logs its arguments."""
    program = folder / "gh"
    notes = folder / "calls"
    program.write_text(
        f"#!{sys.executable}\nimport os, sys, time\nopen({str(notes)!r}, 'a').write(' '.join(sys.argv[1:]) + '\\n')\n{script}\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return notes


@pytest.mark.covers("PRV-17")
@on_posix
async def test_github_token_comes_from_settings_environment_or_gh(
    empty_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = fake_gh(empty_path, "print('from-gh')")
    model = create_model("github")

    assert not notes.exists()  # The program is not called before the first request.
    assert await get_key(model) == {"authorization": "Bearer from-gh"}
    assert await get_key(model) == {"authorization": "Bearer from-gh"}
    assert notes.read_text() == "auth token --secure-storage\n"
    cast("Any", as_http_model(model))._credential.invalidate({"authorization": "Bearer from-gh"})
    await get_key(model)
    assert notes.read_text().count("\n") == 2
    monkeypatch.setenv("GITHUB_TOKEN", "from-environment")
    assert await get_key(create_model("github")) == "from-environment"
    assert await get_key(create_model("github", api_key="own")) == "own"
    assert await get_key(await create_model_provider({"provider": "github", "token": "own-token"})) == "own-token"
    assert await get_key(create_model("github", token=lambda: "from-function")) == "from-function"
    assert notes.read_text().count("\n") == 2


@pytest.mark.covers("PRV-17", "PRV-31")
@on_posix
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("sys.exit('no oauth token found')", "returned no token: no oauth token found"),
        ("print()", "returned no token: exit code 0"),
        ("time.sleep(60)", r"did not finish within 0\.3s"),
    ],
)
async def test_missing_github_token_error_names_three_sources(empty_path: Path, script: str, reason: str) -> None:
    ways = r"providers\.github\.apiKey.*GITHUB_TOKEN.*`gh auth token --secure-storage`"
    with pytest.raises(ProviderConfigError, match=f"is not installed.*{ways}") as caught:
        create_model("github")
    assert caught.value.code is ErrorCode.PROVIDER_NOT_CONFIGURED
    fake_gh(empty_path, script)
    with pytest.raises(ProviderConfigError, match=f"{reason}.*{ways}") as caught:
        await GitHubCliCredential(timeout=0.3 if "sleep" in script else 15)()
    assert caught.value.code is ErrorCode.PROVIDER_NOT_CONFIGURED


@on_posix
async def test_gh_inside_the_current_folder_is_reported_as_ignored(
    empty_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = fake_gh(empty_path, "print('from-gh')")
    reason = rf"was found but not run: {empty_path}/gh is inside the current folder {empty_path.parent},.*Run from another folder"
    monkeypatch.chdir(empty_path.parent)
    with pytest.raises(ProviderConfigError, match=f"{reason}.*GITHUB_TOKEN"):
        create_model("github")
    with pytest.raises(ProviderConfigError, match=f"{reason}.*GITHUB_TOKEN"):
        await GitHubCliCredential()()

    monkeypatch.chdir("/")
    model = create_model("github")

    assert not calls.exists()
    assert await get_key(model) == {"authorization": "Bearer from-gh"}


@pytest.mark.covers("PRV-18", "PRV-35")
@pytest.mark.parametrize(
    ("org", "url"),
    [
        ("", "https://models.github.ai/inference"),
        ("acme", "https://models.github.ai/orgs/acme/inference"),
        ("a/../b", "https://models.github.ai/orgs/a%2F..%2Fb/inference"),
    ],
)
async def test_github_organization_has_its_own_endpoint(org: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "t")
    model = as_http_model(await create_model_provider({"provider": "github", "org": org}))

    assert model.profile.base_url == url
    assert model.profile.headers["x-github-api-version"] == "2022-11-28"
    assert await get_key(model) == "t"


@pytest.mark.covers("PRV-17", "PRV-18")
async def test_github_sends_requests_and_the_token_to_the_configured_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "of-the-public-host")
    answer = plain(sse(chunk({"content": "Hi"}), chunk({}, "stop")), **{"content-type": "text/event-stream"})
    async with serve(answer) as server:
        endpoint = f"{server.url}/inference"
        settings = {"provider": "github", "endpoint": endpoint, "org": "acme", "token": "own"}
        model = await create_model_provider(settings)
        await model.complete(ASK)

    assert server.requests[0].target == "/orgs/acme/inference/chat/completions"
    assert server.requests[0].headers["authorization"] == "Bearer own"
    with pytest.raises(
        ProviderConfigError, match="GITHUB_TOKEN belongs to models.github.ai and is not sent to other hosts"
    ):
        create_model("github", endpoint="https://models.acme.example/inference")


@pytest.mark.covers("PRV-18")
def test_github_endpoint_may_contain_the_organization_already() -> None:
    url = "https://h.example/orgs/acme/inference"

    assert as_http_model(create_model("github", token="t", endpoint=url, org="acme")).profile.base_url == url
    for other in ("https://h.example/v1", "https://h.example/orgs/other/inference"):
        with pytest.raises(ProviderConfigError, match="Cannot use `org` of github with the endpoint"):
            create_model("github", token="t", endpoint=other, org="acme")
    with pytest.raises(ProviderConfigError, match="Invalid setting `token` of github"):
        create_model("github", token=5)
    assert "secret" not in repr(ProviderConfig(provider="github", extra={"token": "secret"}))


@pytest.mark.covers("PRV-26")
async def test_openai_compatible_creates_providers_for_other_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = ProviderRegistry("acme")
    registry.register(
        "acme",
        build=openai_compatible("acme", "https://api.acme.example/v1", key_variables=("ACME_KEY",), model="acme-1"),
    )
    registry.register(
        "open", build=openai_compatible("open", "http://box:8000/v1", accepts=ChatCapabilities(stop=False))
    )
    with pytest.raises(ProviderConfigError, match=r"ACME_KEY.*providers\.acme\.apiKey"):
        create_model("acme:acme-2", registry=registry)
    monkeypatch.setenv("ACME_KEY", "k")
    named, default = (as_http_model(create_model(spec, registry=registry)) for spec in ("acme:acme-2", "acme"))

    assert (named.provider, named.model, default.model) == ("acme", "acme-2", "acme-1")
    assert named.profile.base_url == "https://api.acme.example/v1"
    assert await get_key(named) == "k"
    with pytest.raises(ProviderConfigError, match="is not sent to other hosts"):
        create_model("acme", registry=registry, base_url="https://evil.example/v1")
    free = as_http_model(create_model("open:m", registry=registry))
    assert (await get_key(free), free.profile.dialect.stop) == ("not-needed", False)
    assert await get_key(create_model("open:m", registry=registry, api_key="own")) == "own"
    with pytest.raises(ProviderConfigError, match="Missing model of provider open"):
        create_model("open", registry=registry)
    assert "acme" not in default_registry()


@pytest.mark.parametrize("profile", PLAIN, ids=lambda profile: profile.name)
async def test_base_url_can_come_from_the_environment_together_with_the_key(
    monkeypatch: pytest.MonkeyPatch, profile: ProviderProfile
) -> None:
    name = profile.name
    monkeypatch.setenv(f"{name.upper()}_BASE_URL", "https://gateway.example/v1")
    monkeypatch.setenv(f"{name.upper()}_API_KEY", "k-1")

    model = create_model(f"{name}:m")

    assert as_http_model(model).profile.base_url == "https://gateway.example/v1"
    assert await get_key(model) == "k-1"
    with pytest.raises(ProviderConfigError, match="is not sent to other hosts"):
        create_model(f"{name}:m", base_url="https://other.example/v1")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("org/zzz:x", "Unknown provider: 'org/zzz'. Available: anthropic,"),
        (
            "gpt-9",
            "'gpt-9' has no provider prefix, so openai was used. To choose another provider, write PROVIDER:gpt-9.",
        ),
    ],
)
def test_error_explains_how_the_model_name_was_read(spec: str, message: str) -> None:
    with pytest.raises(ProviderConfigError) as caught:
        create_model(spec)

    assert str(caught.value).startswith(message)
    assert "OPENAI_API_KEY" in str(caught.value)
