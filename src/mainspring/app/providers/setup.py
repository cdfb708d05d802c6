"""Set up a provider: check the connection, then save the answers as settings."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mainspring.agent.agent import Agent
from mainspring.app.providers.availability import find_startup_problem, missing_requirement, probe
from mainspring.app.providers.select_model import EMBEDDED_PROVIDER, make
from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.load import load_rules
from mainspring.app.workspace.manage_settings import settings_file
from mainspring.app.workspace.model_problems import find_model_id_problem
from mainspring.app.workspace.model_providers import registry_of
from mainspring.app.workspace.settings import AppConfig, Settings, save_settings
from mainspring.app.workspace.settings.load import build_config
from mainspring.app.workspace.settings.provider_variables import apply_provider_variables
from mainspring.app.workspace.settings.validation import SettingKey, provider_setting_types
from mainspring.app.workspace.trust import TrustStore
from mainspring.errors import AgentProviderError, ConfigError, MainspringError
from mainspring.lazy import lazy_re
from mainspring.models.auth.key_sources import save_key_to_keyring
from mainspring.models.embedded.engine import engine_install_hint, is_engine_installed
from mainspring.models.provider_table import PROVIDERS
from mainspring.models.unknown_settings import explain_unknown_setting
from mainspring.run_options import RunOptions
from mainspring.text import suggest_name

_NAME = lazy_re(r"[A-Za-z0-9][\w.-]*")


class SetupQuestion(Struct, frozen=True, kw_only=True):
    """A question of the setup.

    Attributes:
        setting: The setting of the provider for the answer, in camelCase.
        text: Text of the question.
        default: Default answer.
        needed: Whether an answer is required.
        secret: Whether the input is hidden.
        choices: Valid answers; any if empty.
        only_for: The setting and the answer without which the question is not asked; None for always.
    """

    setting: str
    text: str
    default: str = ""
    needed: bool = False
    secret: bool = False
    choices: tuple[str, ...] = ()
    only_for: tuple[str, str] | None = None

    def is_asked(self, values: Mapping[str, str]) -> bool:
        """Return True unless an answer before it makes the question needless."""
        return self.only_for is None or values.get(self.only_for[0]) == self.only_for[1]


class ProviderSetup(Struct, frozen=True, kw_only=True):
    """Setup steps of a provider.

    Attributes:
        provider: Name of the provider.
        label: Display name.
        about: Where to get the required credentials.
        questions: The questions, in order.
        wants_key: Whether it needs a key: ``yes``, ``no``, or ``maybe``.
        login: Whether it uses ``mainspring login`` instead.
        named: Whether the user chooses the name of the entry.
    """

    provider: str
    label: str
    about: str = ""
    questions: tuple[SetupQuestion, ...] = ()
    wants_key: str = "yes"
    login: bool = False
    named: bool = False

    @property
    def variables(self) -> tuple[str, ...]:
        """Return the environment variables that can contain its key."""
        return PROVIDERS[self.provider].key_variables if self.provider in PROVIDERS else ()


def _model(default: str = "", text: str = "Model", *, needed: bool = False) -> SetupQuestion:
    return SetupQuestion(setting="model", text=text, default=default, needed=needed)


def _url(default: str = "", text: str = "Address") -> SetupQuestion:
    return SetupQuestion(setting="baseUrl", text=text, default=default, needed=True)


_QUESTIONS: dict[str, tuple[SetupQuestion, ...]] = {
    "azure": (
        SetupQuestion(setting="endpoint", text="Endpoint (https://NAME.openai.azure.com)", needed=True),
        SetupQuestion(setting="deployment", text="Deployment", needed=True),
        SetupQuestion(setting="apiVersion", text="API version (empty: the default)"),
    ),
    "foundry": (
        SetupQuestion(setting="mode", text="Mode", default="local", choices=("local", "cloud")),
        SetupQuestion(setting="projectEndpoint", text="Project endpoint", only_for=("mode", "cloud"), needed=True),
        _model(text="Model or deployment (empty: the default)"),
    ),
    "ollama": (_url(PROVIDERS["ollama"].base_url), _model(PROVIDERS["ollama"].model)),
    "local": (_url(PROVIDERS["local"].base_url), _model(PROVIDERS["local"].model)),
    "compatible": (_url(text="Base URL, up to /v1"), _model(needed=True)),
    "embedded": (
        SetupQuestion(
            setting="model",
            text="Model",
            default=PROVIDERS["embedded"].model,
            choices=("qwen-coder-0.5b", "qwen-coder-1.5b", "smollm2-135m"),
        ),
    ),
}
"""Questions of the providers that need more than a key and a model."""


PROVIDER_SETUPS: dict[str, ProviderSetup] = {
    name: ProviderSetup(
        provider=name,
        label=profile.label,
        about=profile.about,
        questions=_QUESTIONS.get(name) or (_model(profile.model),),
        wants_key=profile.key,
        login=profile.login,
        named=name == "compatible",
    )
    for name, profile in PROVIDERS.items()
    if profile.label
}
"""Setups by provider, in display order."""


_TRY_SECONDS = 60.0
_TRY_TOKENS = 256
_KEY_SOURCES = {"apiKey", "apiKeyCommand", "apiKeyFile", "apiKeyKeyring", "token"}


class SetupAnswers(Struct, frozen=True, kw_only=True):
    """Answers of a setup.

    Attributes:
        provider: Name of the provider in `PROVIDER_SETUPS`; any other name is an OpenAI-compatible server.
        values: Its settings, in camelCase.
        keyring: Whether the key is saved to the system's keyring instead of the file.
        default: Whether it becomes the default provider.
        project: Whether to save to the project's settings.
    """

    provider: str
    values: Mapping[str, str] = {}
    keyring: bool = False
    default: bool = True
    project: bool = False

    @property
    def wizard(self) -> ProviderSetup:
        """Return the setup of the provider."""
        return PROVIDER_SETUPS.get(self.provider) or replace(PROVIDER_SETUPS["compatible"], provider=self.provider)


class SetupResult(Struct, frozen=True):
    """A provider that was set up.

    Attributes:
        file: The settings file that was changed.
        spec: Value for ``--model``.
        tried: Response of the model to the test prompt; ``None`` if it was not tested.
        notes: Other changes.
    """

    file: Path
    spec: str
    tried: str | None = None
    notes: tuple[str, ...] = ()


class ProviderStatus(Struct, frozen=True, kw_only=True):
    """A provider, and whether it is set up.

    Attributes:
        name: Name of the provider.
        label: Display name.
        state: ``ready``, ``fetch`` (started on first use), ``down`` (nothing answers), or ``missing`` (a setting or a package).
        default: Whether it is the default provider.
        configured: Whether the settings contain it.
        model: The model that a run would use.
        lack: Missing requirement and how to fix it; empty if ready.
    """

    name: str
    label: str = ""
    state: str = "ready"
    default: bool = False
    configured: bool = False
    model: str = ""
    lack: str = ""


def list_providers(place: WorkspaceOptions) -> list[ProviderStatus]:
    """List all providers, and whether they can be used. Sends no requests, but checks that servers on this machine listen.

    Raises:
        ConfigError: If the settings are invalid.
    """
    _, settings = load_rules(place)
    config = settings.config
    registry = registry_of(config)
    views: list[ProviderStatus] = []
    for name in dict.fromkeys([*PROVIDER_SETUPS, *registry.names()]):
        model, lack, state = "", "", "ready"
        try:
            made = make(f"{name}:", config, registry)
            model, lack = made.model, missing_requirement(name, config)
            if not lack:
                state, lack = find_startup_problem(made)
        except MainspringError as error:
            lack = str(error)
        if name == EMBEDDED_PROVIDER and not is_engine_installed():
            lack = engine_install_hint()
        views.append(
            ProviderStatus(
                name=name,
                label=PROVIDER_SETUPS[name].label if name in PROVIDER_SETUPS else "",
                state="missing" if lack and state == "ready" else state,
                default=config.providers.default == name,
                configured=name in config.providers.sections,
                model=model,
                lack=lack,
            )
        )
    return views


_PROBE_SECONDS = 3.0
_ADDRESSES = ("baseUrl", "endpoint", "projectEndpoint")
_KEY_PREFIXES = {
    "sk-ant-": "anthropic",
    "sk-or-": "openrouter",
    "sk-": "openai",
    "gsk_": "groq",
    "csk-": "cerebras",
    "AIza": "gemini",
    "ghp_": "github",
    "github_pat_": "github",
}


async def find_answer_problem(provider: str, setting: str, value: str, *, offline: bool = False) -> str:
    """Return the likely mistake in an answer; empty if it has none.

    Args:
        provider: Name of the provider.
        setting: Name of the setting.
        value: The answer.
        offline: Whether addresses are not contacted.
    """
    if setting == "apiKey":
        return _find_key_problem(provider, value)
    if setting in _ADDRESSES:
        url = urlsplit(value)
        if url.scheme not in ("http", "https") or not url.hostname or any(c.isspace() for c in value):
            return f"{value!r} is not an address. Use one such as http://127.0.0.1:8000/v1."
        error = None if offline else (await probe(value.rstrip("/"), seconds=_PROBE_SECONDS)).error
        return f"Nothing answers at {value}: {error}" if error is not None else ""
    return find_model_id_problem(provider, value) if setting == "model" else ""


def find_name_problem(name: str) -> str:
    """Return what is wrong with the name of a provider; empty if nothing is."""
    if _NAME.fullmatch(name):
        return ""
    return f"{name!r} is not a name of a provider. Use letters, digits, and hyphens, for example, my-server."


def _find_key_problem(provider: str, key: str) -> str:
    if not key.isascii() or any(c.isspace() or c in "\"'<>" for c in key):
        return "The key contains blanks, quotes, or characters that are not ASCII."
    owner = next((name for prefix, name in _KEY_PREFIXES.items() if key.startswith(prefix)), "")
    own = [prefix for prefix, name in _KEY_PREFIXES.items() if name == provider]
    if own and owner and owner != provider:
        return f"The key has the format of {owner}, not of {provider}."
    return ""


async def set_up_provider(
    answers: SetupAnswers, place: WorkspaceOptions, *, test: bool = True, on_test: Callable[[], None] = lambda: None
) -> SetupResult:
    """Set up a provider: test it, and save the answers if it responds. Otherwise change nothing.

    Args:
        answers: The answers.
        place: Workspace options.
        test: Whether to send a request to the model.
        on_test: Called before the request.

    Raises:
        ConfigError: If an answer is missing or invalid.
        ModelError: If the provider rejected the request, or cannot be reached.
    """
    if problem := find_name_problem(answers.provider):
        raise ConfigError(problem)
    cwd, settings = _load_files(place)
    changes, notes = _changes(answers, settings)
    saved = {path: value for path, value in changes.items() if value is not None}
    preferred = apply_provider_variables(saved, {}, os.environ)
    notes += [f"{variable} is set, which takes precedence" for variable in preferred]
    file = settings_file(cwd, settings, project=answers.project)
    if answers.project and ({"apiKey", "token"} & answers.values.keys() or answers.values.get("headers")):
        raise ConfigError("A key is not allowed in a project's settings, which others can read. Omit --project.")
    candidate = _settings_after(settings, changes, answers.values.get("apiKey", ""), answers)
    model = make(f"{answers.provider}:", candidate, registry_of(candidate))
    tried = None
    if test:
        if lack := missing_requirement(answers.provider, candidate):
            raise ConfigError(lack)
        on_test()
        tried = await try_model(model)
    if answers.keyring and answers.values.get("apiKey"):
        await asyncio.to_thread(save_key_to_keyring, answers.provider, answers.values["apiKey"])
    await asyncio.to_thread(lambda: _save(file, changes, settings, project=answers.project))
    return SetupResult(file, f"{model.provider}:{model.model}", tried, tuple(notes))


def remove_provider(name: str, place: WorkspaceOptions, *, project: bool = False) -> Path:
    """Remove all settings of a provider, and return the changed file.

    Raises:
        ConfigError: If the settings do not contain it.
    """
    cwd, settings = _load_files(place)
    file = settings_file(cwd, settings, project=project)
    keys: list[SettingKey] = [
        k for k in settings.values if k[:2] == ("providers", name) and _is_set_in(k, settings, file)
    ]
    if not keys:
        known = ", ".join(settings.config.providers.sections) or "none"
        hint = suggest_name(name, settings.config.providers.sections, f"Configured providers: {known}.")
        raise ConfigError(f"{file} contains no provider {name!r}. {hint}")
    changes: dict[SettingKey, Any] = dict.fromkeys(keys)
    if settings.config.providers.default == name and _is_set_in(("providers", "default"), settings, file):
        changes[("providers", "default")] = None
    _save(file, changes, settings, project=project)
    return file


def _load_files(place: WorkspaceOptions) -> tuple[str, Settings]:
    """Load the settings as the files contain them: without the variables of providers, which replace values."""
    names = {name for profile in PROVIDERS.values() for each in profile.setting_variables for name in each.variables}
    return load_rules(place, {}, {name: value for name, value in os.environ.items() if name not in names})


def _save(file: Path, changes: Mapping[SettingKey, Any], settings: Settings, *, project: bool) -> None:
    with TrustStore(settings.home).accept_own_changes(file.parent if project else None):
        save_settings(file, changes, private=not project)


def _is_set_in(key: SettingKey, settings: Settings, file: Path) -> bool:
    return settings.origins.get(".".join(key)) == str(file)


def _explain_missing(name: str, setting: str) -> str:
    flag = {"baseUrl": "--url URL", "model": "--model MODEL"}.get(setting, f"--set {setting}=VALUE")
    if name in PROVIDER_SETUPS or setting != "baseUrl":
        return f"{name} requires the setting {setting}. Use {flag}."
    hint = suggest_name(name, PROVIDER_SETUPS, f"Available providers: {', '.join(PROVIDER_SETUPS)}.")
    return f"Unknown provider: {name!r}. {hint} To add an OpenAI-compatible server under this name, use {flag}."


def _changes(answers: SetupAnswers, settings: Settings) -> tuple[dict[SettingKey, Any], list[str]]:
    """Convert the answers to settings.

    Raises:
        ConfigError: If an answer is missing, or is not a setting of this provider.
    """
    name, wizard = answers.provider, answers.wizard
    values = {k: v.strip() for k, v in answers.values.items() if v.strip()}
    known = provider_setting_types(name)
    if unknown := [setting for setting in values if setting not in known]:
        raise ConfigError(explain_unknown_setting(name, unknown[0], known))
    for question in filter(lambda each: each.is_asked(values), wizard.questions):
        if question.needed and question.setting not in values and not question.default:
            raise ConfigError(_explain_missing(name, question.setting))
        if question.choices and values.get(question.setting, question.choices[0]) not in question.choices:
            raise ConfigError(f"Invalid value for {question.text.lower()}. Use one of {', '.join(question.choices)}.")
    changes: dict[SettingKey, Any] = {("providers", name, k): v for k, v in values.items()}
    notes: list[str] = []
    if answers.keyring and "apiKey" in values:
        del changes["providers", name, "apiKey"]
        changes["providers", name, "apiKeyKeyring"] = name
    given = _KEY_SOURCES & {k[2] for k in changes}
    if given:  # the new source of the key replaces the previous one
        for other in _KEY_SOURCES - given:
            if ("providers", name, other) in settings.values:
                changes["providers", name, other] = None
    if answers.default:
        changes["providers", "default"] = name
        if settings.config.model and settings.origins.get("model") not in {"environment", "flags"}:
            changes[("model",)] = None
            notes.append(f"removed model ({settings.config.model}), so that {name} is used")
        elif settings.config.model:
            notes.append(f"AGENT_MODEL is {settings.config.model}, which takes precedence")
    return changes, notes


def _settings_after(
    settings: Settings, changes: Mapping[SettingKey, Any], key: str, answers: SetupAnswers
) -> AppConfig:
    """Return the settings after the change, with the key itself, wherever it will be saved."""
    values = {k: v for k, v in {**settings.values, **changes}.items() if v is not None}
    if key:
        values["providers", answers.provider, "apiKey"] = key
    try:
        return build_config(values)
    except msgspec.ValidationError as error:
        raise ConfigError(str(error)) from None


async def try_model(model: Any) -> str:
    """Send a test prompt to a model. Return its response, or a notice if the response was cut off.

    Raises:
        ModelError: If the provider rejected the request, or cannot be reached.
    """
    limits = RunOptions(max_turns=1, max_seconds=_TRY_SECONDS, max_output_tokens=_TRY_TOKENS, retry=None, max_repairs=0)
    agent = Agent(model, name="check", system="Answer with one word.", behavior=limits)
    try:
        result = await agent.run("Say hello.")
    except AgentProviderError as error:
        reason = getattr(error.cause, "reason", "")
        if reason in {"output_limit", "empty"}:  # the model works, but used its few output tokens for reasoning
            return ""
        raise error.cause or error from None
    finally:
        await model.aclose()
    return result.text.strip()
