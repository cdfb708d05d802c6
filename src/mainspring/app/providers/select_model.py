"""Choose the model: the requested one, one with an API key, one on a local server, or the embedded one; never a guess."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mainspring.app.run.events import ModelIdentity
from mainspring.app.run.options import Surface
from mainspring.app.workspace.model_providers import registry_of
from mainspring.app.workspace.settings import AppConfig, ProviderSettings, Settings
from mainspring.app.workspace.settings.load import env_str
from mainspring.errors import ConfigError, ModelNotFoundError, ProviderConfigError
from mainspring.models import (
    ModelProvider,
    ProviderRegistry,
    create_model,
    detect_local_servers,
    embedded,  # loads its parts on use
)
from mainspring.models.auth.key_sources import resolve_api_key
from mainspring.models.config import ProviderConfig, to_provider_config
from mainspring.models.http_model import HttpModel
from mainspring.models.provider_table import PROVIDERS
from mainspring.models.providers.local_servers import LocalServer

DETECT_SECONDS = 0.5
EMBEDDED_PROVIDER = "embedded"

LOCAL_PROVIDER = "local"

_SELECTING_VARIABLES = {
    profile.name: (
        *(profile.key_variables if profile.selected_by_key else ()),
        *(profile.url_variables if profile.selected_by_address else ()),
    )
    for profile in sorted(PROVIDERS.values(), key=lambda profile: profile.name != "anthropic")
}
"""Environment variables that select a provider, in order of preference: Anthropic first, then the order of the table."""

_NOT_FOR_CHAT = ("embed", "rerank", "whisper", "tts", "clip", "bge-", "minilm")
"""Parts of the names of models that do not support chat."""


_ANOTHER_MODEL: dict[Surface, str] = {
    "command": "For real work, set up another model with `mainspring config init`.",
    "chat": "Switch to another model with /model, or set one up with `mainspring config init` in a shell.",
}

_SETTINGS_ONLY_KEYS = frozenset({"api_key_command", "api_key_file", "api_key_keyring", "system_prompt"})
"""Settings of a provider that are handled here and not passed to it."""

LocalServerFinder = Callable[[], Awaitable[Sequence[LocalServer]]]
"""Finds the model servers that run on this machine."""


class Choice(Struct, frozen=True):
    """A model, and why it was chosen."""

    model: ModelProvider
    why: str

    @property
    def name(self) -> ModelIdentity:
        """Return the display name."""
        info = self.model.info
        return ModelIdentity(
            provider=self.model.provider, id=self.model.model, label=info.label, why=self.why, notice=info.notice
        )


async def find_local_servers() -> list[LocalServer]:
    """Find the model servers that run on this machine."""
    return await detect_local_servers(timeout=DETECT_SECONDS)


async def select_model(
    settings: Settings,
    environ: Mapping[str, str],
    *,
    servers: LocalServerFinder = find_local_servers,
    has_engine: Callable[[], bool] | None = None,
) -> Choice:
    """Choose the model for a run. Downloads and starts nothing.

    Args:
        settings: The settings.
        environ: Environment variables.
        servers: Finds the servers on this machine; called only if nothing is configured.
        has_engine: Returns True if the embedded model can run (default: whether its engine is installed).

    Raises:
        ConfigError: If no model is available; the message contains commands that fix it.
        ProviderConfigError: If the requested model lacks a setting.
    """
    registry = registry_of(settings.config)
    set_up = await _explicit_choice(settings, registry, servers)
    if set_up is not None:
        return set_up
    named = _configured_choice(settings.config, registry, environ)
    if named is not None:
        return await _with_available_model(named, settings.config, registry)
    for server in await servers():
        if model := _first_chat_model(server):
            return Choice(_model_on_server(server, model, registry), f"{server.name} runs on this machine")
    if (has_engine or embedded.is_engine_installed)():
        reason = "no key is set, and no local server is running"
        return Choice(make(f"{EMBEDDED_PROVIDER}:", settings.config, registry), reason)
    raise ConfigError(no_model_message())


async def _explicit_choice(settings: Settings, registry: ProviderRegistry, servers: LocalServerFinder) -> Choice | None:
    """Return the model that flags, environment, or settings request."""
    config = settings.config
    if not config.model:
        if not config.providers.default:
            return None
        return Choice(make(None, config, registry), _default_reason(settings, registry.default))
    reason = f"set by {_describe_origin(settings, 'model')}"
    default = config.providers.default
    if default and config.model == f"{default}:" and settings.origins.get("providers.default") == "flags":
        reason = _default_reason(settings, default)  # `--provider` without `--model`
    try:
        return Choice(make(config.model, config, registry), reason)
    except ProviderConfigError as error:
        if error.reason != "unknown_provider" and registry.split(config.model)[1] != config.model:
            raise
        for server in await servers():  # without a provider name, a local server may have the model
            if config.model in server.models:
                return Choice(_model_on_server(server, config.model, registry), f"{reason}; {server.name} has it")
        raise


def _default_reason(settings: Settings, provider: str) -> str:
    """Return what chose the default provider, and what chose its model if that is another source."""
    reason = f"set by {_describe_origin(settings, 'providers.default')}"
    model = settings.origins.get(f"providers.{provider}.model")
    if model in (None, settings.origins.get("providers.default")):
        return reason
    return f"{reason}; its model by {model}"


def _configured_choice(config: AppConfig, registry: ProviderRegistry, environ: Mapping[str, str]) -> Choice | None:
    """Return the model of the first configured provider: by a section of the settings, or by a key or an address in the environment."""
    for name, section in config.providers.sections.items():
        if resolve_api_key(name, section) or section.base_url or section.model or section.extra:
            return Choice(make(f"{name}:", config, registry), f"set by providers.{name}")
    for name, variables in _SELECTING_VARIABLES.items():
        given = next((v for v in variables if env_str(environ, v)), None)
        if given and name in registry:
            return Choice(make(f"{name}:", config, registry), f"{given} is set")
    return None


async def _with_available_model(choice: Choice, config: AppConfig, registry: ProviderRegistry) -> Choice:
    """Choose a model that the local server has, if only its address is configured."""
    request = choice.model
    if (
        not isinstance(request, HttpModel)
        or request.provider != LOCAL_PROVIDER
        or config.providers.get(LOCAL_PROVIDER).model
    ):
        return choice
    there = LocalServer("it", request.profile.base_url)
    for server in await detect_local_servers([there], timeout=DETECT_SECONDS):
        model = _first_chat_model(server)
        if model and request.model not in server.models:
            await request.aclose()
            return Choice(
                make(f"{LOCAL_PROVIDER}:{model}", config, registry), f"{choice.why}; it is the server's first model"
            )
    return choice


def _first_chat_model(server: LocalServer) -> str | None:
    return next((m for m in server.models if not any(part in m.lower() for part in _NOT_FOR_CHAT)), None)


def _model_on_server(server: LocalServer, model: str, registry: ProviderRegistry) -> ModelProvider:
    return create_model(f"{LOCAL_PROVIDER}:{model}", registry=registry, base_url=server.base_url)


def make(spec: str | None, config: AppConfig, registry: ProviderRegistry) -> ModelProvider:
    """Create a model from ``provider:model``, with the settings of its provider.

    Raises:
        ProviderConfigError: If the provider seems misspelled, or a setting is missing; the message explains how ``spec`` was interpreted.
        ConfigError: If the provider has no such model.
    """
    name, model = registry.split(spec) if spec else (registry.default, None)
    section = config.providers.get(name)
    requested = replace(provider_config(name, config), model=model or section.model)
    try:
        return registry.build(requested)
    except ModelNotFoundError as error:
        raise ConfigError(str(error)) from error
    except ProviderConfigError as error:
        raise registry.with_hint(error, spec or "") from error


def provider_config(name: str, config: AppConfig) -> ProviderConfig:
    """Return the settings of a provider."""
    section = config.providers.get(name)
    given: dict[str, Any] = {
        f: getattr(section, f) for f in ProviderSettings.__struct_fields__ if f not in _SETTINGS_ONLY_KEYS
    }
    return to_provider_config({**given, "api_key": resolve_api_key(name, section), "provider": name})


def _describe_origin(settings: Settings, name: str) -> str:
    origin = settings.origins.get(name, "")
    flag, variable = ("--model", "AGENT_MODEL") if name == "model" else ("--provider", "MAINSPRING_PROVIDER")
    return {"flags": flag, "environment": variable}.get(origin, origin)


def no_model_message() -> str:
    """Return the error message for a missing model, with the fix."""
    return (
        "No model is available: nothing is configured, and no local server is running. Set up a provider with `mainspring config init`. "
        f"{embedded.engine_install_hint()}"
    )


def add_model_advice(notice: str, missing_tools: Sequence[str] = (), place: Surface = "command") -> str:
    """Return the notice of a model with what to do about it; empty if it has none.

    Args:
        notice: Notice about the model.
        missing_tools: Tools that it gets only if a rule allows them.
        place: Where the notice is shown.
    """
    parts = [notice, _ANOTHER_MODEL[place]] if notice else []
    if missing_tools:
        if place == "command":
            how = f"Allow others with {' '.join(f'--allow {name}' for name in missing_tools)}."
        else:
            how = f"Allow others with /permissions allow {' or '.join(missing_tools)}, then start a new session with /clear."
        parts.append(f"It gets only tools that read files. {how}")
    return " ".join(parts)
