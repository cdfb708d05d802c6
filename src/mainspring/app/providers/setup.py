"""Setting up a provider: what was answered becomes settings, once the connection was tried."""

from __future__ import annotations

import asyncio
import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mainspring.agent.agent import Agent
from mainspring.app.providers.api_keys import save_key_to_keyring
from mainspring.app.providers.availability import missing_requirement
from mainspring.app.providers.select_model import EMBEDDED_PROVIDER, make
from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.load import load_rules
from mainspring.app.workspace.manage_settings import settings_file
from mainspring.app.workspace.model_providers import registry_of
from mainspring.app.workspace.settings import AppConfig, Settings, save_settings
from mainspring.app.workspace.settings.load import build_config
from mainspring.app.workspace.settings.validation import SettingKey
from mainspring.app.workspace.trust import TrustStore
from mainspring.errors import AgentProviderError, ConfigError, MainspringError
from mainspring.loop import RunOptions
from mainspring.models.auth.credentials import KEY_VARIABLES
from mainspring.models.config import PROVIDER_SPECIFIC_SETTINGS
from mainspring.models.embedded.engine import engine_install_hint, is_engine_installed


class SetupQuestion(Struct, frozen=True, kw_only=True):
    """One thing to be told.

    Attributes:
        setting: The setting of the provider that takes the answer, in camelCase.
        text: What is asked.
        default: The answer if nothing is said.
        needed: Whether there must be one.
        secret: Whether it is not to be shown while it is typed.
        choices: The answers that there are; any if empty.
    """

    setting: str
    text: str
    default: str = ""
    needed: bool = False
    secret: bool = False
    choices: tuple[str, ...] = ()


class ProviderSetup(Struct, frozen=True, kw_only=True):
    """How a provider is set up.

    Attributes:
        provider: Its name.
        label: What it is.
        about: Where to get what it wants.
        questions: What is asked, in order.
        wants_key: Whether it needs a key: ``yes``, ``no``, ``maybe``.
        login: Whether one logs in instead, by ``mainspring login``.
        named: Whether it is an own entry, under a name of its own.
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
        """The environment variables that may hold its key."""
        return KEY_VARIABLES.get(self.provider, ())


def _model(default: str = "", text: str = "Model", *, needed: bool = False) -> SetupQuestion:
    return SetupQuestion(setting="model", text=text, default=default, needed=needed)


def _url(default: str = "", text: str = "Address") -> SetupQuestion:
    return SetupQuestion(setting="baseUrl", text=text, default=default, needed=True)


PROVIDER_SETUPS: dict[str, ProviderSetup] = {
    wizard.provider: wizard
    for wizard in (
        ProviderSetup(
            provider="openai",
            label="OpenAI",
            about="a key: https://platform.openai.com/api-keys",
            questions=(_model("gpt-5-mini"),),
        ),
        ProviderSetup(
            provider="anthropic",
            label="Anthropic (Claude)",
            about="a key: https://console.anthropic.com/settings/keys",
            questions=(_model("claude-sonnet-4-5"),),
        ),
        ProviderSetup(
            provider="gemini",
            label="Google Gemini",
            about="a key: https://aistudio.google.com/apikey",
            questions=(_model("gemini-2.5-flash"),),
        ),
        ProviderSetup(
            provider="azure",
            label="Azure OpenAI",
            about="the resource and a deployment in it; without a key the login of `az login` is used",
            questions=(
                SetupQuestion(setting="endpoint", text="Endpoint (https://NAME.openai.azure.com)", needed=True),
                SetupQuestion(setting="deployment", text="Deployment", needed=True),
                SetupQuestion(setting="apiVersion", text="API version (empty: the usual one)"),
            ),
            wants_key="maybe",
        ),
        ProviderSetup(
            provider="foundry",
            label="Azure AI Foundry",
            about="local: models on this machine (extra foundry); cloud: a project's endpoint and a key",
            questions=(
                SetupQuestion(setting="mode", text="Mode", default="local", choices=("local", "cloud")),
                SetupQuestion(setting="projectEndpoint", text="Project endpoint (cloud only)"),
                _model(text="Model or deployment (empty: the usual one)"),
            ),
            wants_key="maybe",
        ),
        ProviderSetup(
            provider="github",
            label="GitHub Models",
            about="a token with the scope models:read; without one that of `gh auth login` is used",
            questions=(_model("openai/gpt-4.1-mini"),),
            wants_key="maybe",
        ),
        ProviderSetup(
            provider="openrouter",
            label="OpenRouter",
            about="a key: https://openrouter.ai/keys",
            questions=(_model("openrouter/auto"),),
        ),
        ProviderSetup(
            provider="cerebras",
            label="Cerebras",
            about="a key: https://cloud.cerebras.ai",
            questions=(_model("gpt-oss-120b"),),
        ),
        ProviderSetup(
            provider="codex",
            label="ChatGPT account (Codex)",
            about="no key: mainspring login codex opens a browser",
            questions=(_model("gpt-5.5"),),
            wants_key="no",
            login=True,
        ),
        ProviderSetup(
            provider="ollama",
            label="Ollama on this machine or another",
            about="no key; get a model with: ollama pull NAME",
            questions=(_url("http://localhost:11434"), _model("llama3.3:latest")),
            wants_key="no",
        ),
        ProviderSetup(
            provider="local",
            label="A server on this machine (LM Studio, llama.cpp, vLLM)",
            about="no key; start its server first",
            questions=(_url("http://localhost:1234/v1"), _model(needed=True)),
            wants_key="no",
        ),
        ProviderSetup(
            provider="compatible",
            label="Any other server that speaks the OpenAI protocol",
            about="its address up to /v1, and its key if it wants one",
            questions=(_url(text="Address, up to /v1"), _model(needed=True)),
            wants_key="maybe",
            named=True,
        ),
        ProviderSetup(
            provider="embedded",
            label="A small model inside this program: no key, no server",
            about="needs the extra local; weights are fetched on first use",
            questions=(
                SetupQuestion(
                    setting="model",
                    text="Model",
                    default="qwen-coder-0.5b",
                    choices=("qwen-coder-0.5b", "qwen-coder-1.5b", "smollm2-135m"),
                ),
            ),
            wants_key="no",
        ),
    )
}
"""By provider, in the order in which they are offered."""


_TRY_SECONDS = 60.0
_TRY_TOKENS = 256
_FIELDS = {"apiKey", "apiKeyCommand", "apiKeyFile", "apiKeyKeyring", "baseUrl", "model"}


class SetupAnswers(Struct, frozen=True, kw_only=True):
    """What was said of a provider.

    Attributes:
        provider: The provider, as `WIZARDS` has it; any other name is a server that speaks the OpenAI protocol.
        values: Its settings, in camelCase.
        keyring: Whether its key goes to the system's keyring in place of the file.
        default: Whether it becomes the default provider.
        project: Whether it goes to the project's file.
    """

    provider: str
    values: Mapping[str, str] = {}
    keyring: bool = False
    default: bool = True
    project: bool = False

    @property
    def wizard(self) -> ProviderSetup:
        """How it is set up."""
        return PROVIDER_SETUPS.get(self.provider) or replace(PROVIDER_SETUPS["compatible"], provider=self.provider)


class SetupResult(Struct, frozen=True):
    """A provider that is set up.

    Attributes:
        file: The file that was changed.
        spec: The model, as ``--model`` takes it.
        tried: What the model said when it was tried; ``None`` where it was not.
        notes: What else was done.
    """

    file: Path
    spec: str
    tried: str | None = None
    notes: tuple[str, ...] = ()


class ProviderStatus(Struct, frozen=True, kw_only=True):
    """A provider: whether it is set up, and how.

    Attributes:
        name: Its name.
        label: What it is.
        state: ``ready``, or what it lacks.
        default: Whether it is the default one.
        configured: Whether the settings say something of it.
        model: The model that would answer.
        lack: What to do before it can be used; empty if nothing.
    """

    name: str
    label: str = ""
    state: str = "ready"
    default: bool = False
    configured: bool = False
    model: str = ""
    lack: str = ""


def list_providers(place: WorkspaceOptions, environ: Mapping[str, str] = os.environ) -> list[ProviderStatus]:
    """All providers, and whether they can be used. Asks nobody.

    Raises:
        ConfigError: If the settings are broken.
    """
    _, settings = load_rules(place, {}, environ)
    config = settings.config
    registry = registry_of(config)
    views: list[ProviderStatus] = []
    for name in dict.fromkeys([*PROVIDER_SETUPS, *registry.names()]):
        model, lack = "", ""
        try:
            model = make(f"{name}:", config, registry).model
            lack = missing_requirement(name, config)
        except MainspringError as error:
            lack = str(error)
        if name == EMBEDDED_PROVIDER and not is_engine_installed():
            lack = engine_install_hint()
        views.append(
            ProviderStatus(
                name=name,
                label=PROVIDER_SETUPS[name].label if name in PROVIDER_SETUPS else "",
                state="missing" if lack else "ready",
                default=config.providers.default == name,
                configured=name in config.providers.sections,
                model=model,
                lack=lack,
            )
        )
    return views


async def set_up_provider(
    answers: SetupAnswers, place: WorkspaceOptions, *, test: bool = True, environ: Mapping[str, str] = os.environ
) -> SetupResult:
    """Set a provider up: try it, and if it answers save what was said. Otherwise nothing is changed.

    Raises:
        ConfigError: If something is missing or wrong.
        ModelError: If the provider refused, or cannot be reached.
    """
    cwd, settings = load_rules(place, {}, environ)
    changes, notes = _changes(answers, settings)
    file = settings_file(cwd, settings, project=answers.project)
    if answers.project and ("apiKey" in answers.values or answers.values.get("headers")):
        raise ConfigError("a key does not belong into a project's file, which others read; leave out --project for it")
    candidate = _settings_after(settings, changes, answers.values.get("apiKey", ""), answers)
    model = make(f"{answers.provider}:", candidate, registry_of(candidate))
    tried = None
    if test:
        if lack := missing_requirement(answers.provider, candidate):
            raise ConfigError(lack)
        tried = await try_model(model)
    if answers.keyring and answers.values.get("apiKey"):
        await asyncio.to_thread(save_key_to_keyring, answers.provider, answers.values["apiKey"])
    await asyncio.to_thread(lambda: _save(file, changes, settings, project=answers.project))
    return SetupResult(file, f"{model.provider}:{model.model}", tried, tuple(notes))


def remove_provider(
    name: str, place: WorkspaceOptions, *, project: bool = False, environ: Mapping[str, str] = os.environ
) -> Path:
    """Take away everything that the settings say of a provider; the file that was changed.

    Raises:
        ConfigError: If they say nothing of it.
    """
    cwd, settings = load_rules(place, {}, environ)
    file = settings_file(cwd, settings, project=project)
    keys: list[SettingKey] = [
        k for k in settings.values if k[:2] == ("providers", name) and _is_set_in(k, settings, file)
    ]
    if not keys:
        known = ", ".join(settings.config.providers.sections) or "none"
        near = difflib.get_close_matches(name, settings.config.providers.sections, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {known}"
        raise ConfigError(f"{file} says nothing of a provider {name!r}; {hint}")
    changes: dict[SettingKey, Any] = dict.fromkeys(keys)
    if settings.config.providers.default == name and _is_set_in(("providers", "default"), settings, file):
        changes[("providers", "default")] = None
    _save(file, changes, settings, project=project)
    return file


def _save(file: Path, changes: Mapping[SettingKey, Any], settings: Settings, *, project: bool) -> None:
    with TrustStore(settings.home).accept_own_changes(file.parent if project else None):
        save_settings(file, changes, private=not project)


def _is_set_in(key: SettingKey, settings: Settings, file: Path) -> bool:
    return settings.origins.get(".".join(key)) == str(file)


def _changes(answers: SetupAnswers, settings: Settings) -> tuple[dict[SettingKey, Any], list[str]]:
    """The settings that the answers make.

    Raises:
        ConfigError: If one is missing, or is none of this provider.
    """
    name, wizard = answers.provider, answers.wizard
    values = {k: v.strip() for k, v in answers.values.items() if v.strip()}
    if unknown := [k for k in values if k not in _FIELDS | PROVIDER_SPECIFIC_SETTINGS]:
        near = difflib.get_close_matches(unknown[0], [*_FIELDS, *PROVIDER_SPECIFIC_SETTINGS], 1)
        raise ConfigError(
            f"a provider has no setting {unknown[0]!r}" + (f"; did you mean {near[0]!r}?" if near else "")
        )
    for question in wizard.questions:
        if question.needed and question.setting not in values and not question.default:
            flag = {"baseUrl": "--url", "model": "--model"}.get(question.setting, f"--set {question.setting}=...")
            raise ConfigError(f"{name} needs {question.text.lower()}: {flag}")
        if question.choices and values.get(question.setting, question.choices[0]) not in question.choices:
            raise ConfigError(f"{question.text.lower()} must be one of {', '.join(question.choices)}")
    changes: dict[SettingKey, Any] = {("providers", name, k): v for k, v in values.items()}
    notes: list[str] = []
    if answers.keyring and "apiKey" in values:
        del changes["providers", name, "apiKey"]
        changes["providers", name, "apiKeyKeyring"] = name
    given = {"apiKey", "apiKeyCommand", "apiKeyFile", "apiKeyKeyring"} & {k[2] for k in changes}
    if given:  # another way to the key takes the place of the one before
        for other in {"apiKey", "apiKeyCommand", "apiKeyFile", "apiKeyKeyring"} - given:
            if ("providers", name, other) in settings.values:
                changes["providers", name, other] = None
    if answers.default:
        changes["providers", "default"] = name
        if settings.config.model and settings.origins.get("model") not in {"environment", "flags"}:
            changes[("model",)] = None
            notes.append(f"model ({settings.config.model}) was taken out, so that {name} answers")
        elif settings.config.model:
            notes.append(f"AGENT_MODEL is {settings.config.model}, which goes before this")
    return changes, notes


def _settings_after(
    settings: Settings, changes: Mapping[SettingKey, Any], key: str, answers: SetupAnswers
) -> AppConfig:
    """The settings as they will be; with the key at hand, wherever it will be kept."""
    values = {k: v for k, v in {**settings.values, **changes}.items() if v is not None}
    if key:
        values["providers", answers.provider, "apiKey"] = key
    try:
        return build_config(values)
    except msgspec.ValidationError as error:
        raise ConfigError(str(error)) from None


async def try_model(model: Any) -> str:
    """Ask a model for a word; what it said, or that it gave tokens.

    Raises:
        ModelError: If the provider refused, or cannot be reached.
    """
    limits = RunOptions(max_turns=1, max_seconds=_TRY_SECONDS, max_output_tokens=_TRY_TOKENS, retry=None, max_repairs=0)
    agent = Agent(model, name="check", system="Answer with one word.", behavior=limits)
    try:
        result = await agent.run("Say hello.")
    except AgentProviderError as error:
        reason = getattr(error.cause, "reason", "")
        if reason in {"output_limit", "empty"}:  # it answered, only not much
            return ""
        raise error.cause or error from None
    finally:
        await model.aclose()
    return result.text.strip()
