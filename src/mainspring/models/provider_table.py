"""The built-in providers: one profile each.

A host of Chat Completions with a key is one entry here: registry, key and address variables, setup, automatic selection, and the
table in the documentation are derived from it. A provider with its own authentication or protocol also has a module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

Protocol = Literal["chat_completions", "responses", "messages", "gemini", "ollama"]
"""Name of a wire protocol; see `WireProtocol`."""


class SettingVariables(Struct, frozen=True):
    """Environment variables that contain a setting of a provider.

    Attributes:
        setting: The setting, in camelCase.
        variables: The variables, in order.
        replaces: Other settings with the same meaning, which a variable also replaces.
        fallback: Setting that a provider uses if ``setting`` is missing; a variable replaces it then.
    """

    setting: str
    variables: tuple[str, ...]
    replaces: tuple[str, ...] = ()
    fallback: str = ""


class ProviderProfile(Struct, frozen=True, kw_only=True):
    """Facts about a provider.

    Attributes:
        name: Name of the provider, for example ``name`` in ``name:model``.
        label: Display name; empty if the setup does not offer the provider.
        about: Where to get the required credentials, for the setup.
        docs: Page about the provider, in the folder of the documentation.
        protocols: Wire protocols, the default first; empty if a library calls the model.
        base_url: Base URL of its host; empty if it must be set.
        url_variables: Environment variables that may contain another base URL, in order.
        key_variables: Environment variables that may contain its key, in order.
        key_hosts: Ends of the names of its hosts, if they differ from that of ``base_url``: a key of the environment is sent there.
        other_variables: Environment variables of other settings.
        key: Whether it needs a key: ``yes``, ``no``, or ``maybe``.
        cloud_model: Default deployment in the cloud, of a provider that runs models on this machine too.
        model: Default model, of the library and of the setup; empty if one must be set.
        quirks: Differences of the host from the defaults of `ChatCapabilities`, by field.
        free_address: Whether ``base_url`` may be something else than a URL, for example, a host.
        settings: Settings that it supports in addition to those of every provider, in camelCase.
        unsupported: Settings of every provider that it does not support, in camelCase.
        module: Module with its ``build(config)``; empty for a host of Chat Completions without peculiarities.
        model_function: Function of ``module`` that returns the model ID of a configuration, if it is not the setting ``model``.
        prices_of: Provider whose models it sells at the same prices.
        local: Whether its models usually run on this machine, free of charge and as slowly as they need.
        login: Whether ``mainspring login`` replaces a key.
        login_command: Command of another program whose login is used without a key.
        selected_by_key: Whether a key in the environment is enough to select it automatically.
        selected_by_address: Whether an address in the environment is.
    """

    name: str
    label: str = ""
    about: str = ""
    docs: str = "providers/other-hosts.md"
    protocols: tuple[Protocol, ...] = ("chat_completions",)
    base_url: str = ""
    url_variables: tuple[str, ...] = ()
    key_variables: tuple[str, ...] = ()
    key_hosts: tuple[str, ...] = ()
    other_variables: tuple[SettingVariables, ...] = ()
    key: Literal["yes", "no", "maybe"] = "yes"
    model: str = ""
    cloud_model: str = ""
    quirks: Mapping[str, Any] = {}
    free_address: bool = False
    settings: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    module: str = ""
    model_function: str = ""
    prices_of: str = ""
    local: bool = False
    login: bool = False
    login_command: str = ""
    selected_by_key: bool = True
    selected_by_address: bool = False

    @property
    def setting_variables(self) -> tuple[SettingVariables, ...]:
        """All settings that environment variables contain: the key, the address, and others. The first of two with the same meaning wins."""
        addresses = tuple([name for name in _ADDRESS_SETTINGS if name in self.settings])
        setting = addresses[0] if addresses else "baseUrl"
        same = tuple([name for name in ("baseUrl", *addresses) if name != setting])
        address = SettingVariables(setting, self.url_variables, same)
        key = SettingVariables("apiKey", self.key_variables, _KEY_SETTINGS)
        return tuple([each for each in (key, address, *self.other_variables) if each.variables])


_ADDRESS_SETTINGS = ("endpoint", "projectEndpoint", "resourceName")
"""Settings that contain an address like ``baseUrl``; a provider prefers the first one."""


_KEY_SETTINGS = ("apiKeyCommand", "apiKeyFile", "apiKeyKeyring", "token")
"""Other sources of a key than ``apiKey``."""


URL_SETTINGS = frozenset({"baseUrl", "endpoint", "issuer", "projectEndpoint", "vaultUrl"})
"""Settings that contain a URL."""


OWN_SETTING_TYPES: dict[str, Any] = {
    "cacheTtl": Literal["5m", "1h"],
    "contextManagement": bool | dict[str, Any],
    "deploymentNameMap": str | dict[str, str],
    "extraBetas": tuple[str, ...],
    "keepAlive": str | int,
    "loginPort": int,
    "numCtx": int,
    "options": dict[str, Any],
    "temperature": float,
    "useVertexai": bool | str,
}
"""Types of settings that only some providers support, if they are not text."""


_AZURE_HOSTS = (".azure.com", ".azure.us", ".azure.cn")


PROVIDERS: dict[str, ProviderProfile] = {
    profile.name: profile
    for profile in (
        ProviderProfile(
            name="openai",
            label="OpenAI",
            about="API key: https://platform.openai.com/api-keys",
            docs="providers/openai.md",
            protocols=("chat_completions", "responses"),
            base_url="https://api.openai.com/v1",
            url_variables=("OPENAI_BASE_URL",),
            key_variables=("OPENAI_API_KEY",),
            model="gpt-5-mini",
            settings=("api",),
            module="mainspring.models.providers.openai",
            selected_by_address=True,
        ),
        ProviderProfile(
            name="anthropic",
            label="Anthropic (Claude)",
            about="API key: https://console.anthropic.com/settings/keys",
            docs="providers/anthropic.md",
            protocols=("messages",),
            base_url="https://api.anthropic.com",
            url_variables=("ANTHROPIC_BASE_URL",),
            key_variables=("ANTHROPIC_API_KEY",),
            model="claude-sonnet-5-5",
            settings=("anthropicVersion", "cacheTtl", "contextManagement", "extraBetas"),
            module="mainspring.models.providers.anthropic",
        ),
        ProviderProfile(
            name="gemini",
            label="Google Gemini",
            about="API key: https://aistudio.google.com/apikey",
            docs="providers/gemini.md",
            protocols=("gemini",),
            base_url="https://generativelanguage.googleapis.com",
            url_variables=("GOOGLE_GEMINI_BASE_URL",),
            key_variables=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
            model="gemini-3.7-flash",
            settings=("apiVersion", "useVertexai"),
            module="mainspring.models.providers.gemini",
            model_function="model_id",
        ),
        ProviderProfile(
            name="azure",
            label="Azure OpenAI",
            about="resource and deployment; without an API key, the login of `az login` is used",
            docs="providers/azure.md",
            protocols=("chat_completions", "responses"),
            url_variables=("AZURE_OPENAI_BASE_URL", "AZURE_OPENAI_ENDPOINT"),
            key_variables=("AZURE_OPENAI_API_KEY",),
            key_hosts=_AZURE_HOSTS,
            other_variables=(
                SettingVariables("resourceName", ("AZURE_OPENAI_RESOURCE_NAME",), ("baseUrl", "endpoint")),
                SettingVariables(
                    "deployment", ("AZURE_OPENAI_DEPLOYMENT", "AZURE_OPENAI_DEPLOYMENT_NAME"), fallback="model"
                ),
                SettingVariables("deploymentNameMap", ("AZURE_OPENAI_DEPLOYMENT_NAME_MAP",)),
                SettingVariables("apiVersion", ("AZURE_OPENAI_API_VERSION",)),
                SettingVariables("clientId", ("AZURE_CLIENT_ID",)),
            ),
            key="maybe",
            settings=(
                *("api", "apiVersion", "auth", "clientId", "deployment", "deploymentNameMap", "endpoint"),
                *("resourceName", "secretName", "vaultUrl"),
            ),
            login_command="az login",
            module="mainspring.models.providers.azure",
            model_function="select_deployment",
            prices_of="openai",
            selected_by_key=False,
        ),
        ProviderProfile(
            name="foundry",
            label="Azure AI Foundry",
            about="local: models on this machine (extra foundry); cloud: endpoint and API key of a project",
            docs="providers/azure.md#microsoft-foundry",
            protocols=("chat_completions", "responses"),
            url_variables=("AZURE_FOUNDRY_PROJECT_ENDPOINT",),
            key_variables=("AZURE_FOUNDRY_API_KEY",),
            key_hosts=_AZURE_HOSTS,
            key="maybe",
            model="phi-4",
            cloud_model="gpt-4o",
            settings=("api", "mode", "modelAlias", "modelDeployment", "projectEndpoint", "temperature"),
            login_command="az login",
            module="mainspring.models.providers.foundry",
            model_function="select_alias_or_deployment",
            selected_by_key=False,
        ),
        ProviderProfile(
            name="github",
            label="GitHub Models",
            about="token with the scope models:read; without one, the token of `gh auth login` is used",
            docs="providers/other-hosts.md#github-models",
            base_url="https://models.github.ai/inference",
            key_variables=("GITHUB_TOKEN",),
            key="maybe",
            model="openai/gpt-4.1-mini",
            settings=("endpoint", "org", "token"),
            login_command="gh auth login",
            module="mainspring.models.providers.github",
            selected_by_key=False,  # The token usually serves other purposes.
        ),
        ProviderProfile(
            name="openrouter",
            label="OpenRouter",
            about="API key: https://openrouter.ai/keys",
            base_url="https://openrouter.ai/api/v1",
            url_variables=("OPENROUTER_BASE_URL",),
            key_variables=("OPENROUTER_API_KEY",),
            model="openrouter/auto",
            quirks={
                "efforts": ("none", "minimal", "low", "medium", "high", "xhigh"),
                "effort_field": "reasoning",
                "cache_breakpoints": True,  # It removes them for vendors without caching, like thinking.
            },
        ),
        ProviderProfile(
            name="cerebras",
            label="Cerebras",
            about="API key: https://cloud.cerebras.ai",
            base_url="https://api.cerebras.ai/v1",
            url_variables=("CEREBRAS_BASE_URL",),
            key_variables=("CEREBRAS_API_KEY",),
            model="gpt-oss-120b",
            quirks={
                "max_tokens_field": "max_completion_tokens",
                "efforts": ("low", "medium", "high"),
                "cache_breakpoints": False,  # It caches prefixes automatically and rejects unknown fields.
                "tool_images": False,
                "unsupported": ("top_k",),
            },
        ),
        ProviderProfile(
            name="groq",
            label="Groq",
            about="API key: https://console.groq.com/keys",
            base_url="https://api.groq.com/openai/v1",
            url_variables=("GROQ_BASE_URL",),
            key_variables=("GROQ_API_KEY",),
            model="openai/gpt-oss-120b",
            quirks={
                "max_tokens_field": "max_completion_tokens",
                "efforts": ("low", "medium", "high"),
                "unsupported": ("top_k",),
            },
        ),
        ProviderProfile(
            name="codex",
            label="ChatGPT account (Codex)",
            about="no API key: `mainspring login codex` opens a browser",
            docs="providers/openai.md#codex",
            protocols=("responses",),
            base_url="https://chatgpt.com/backend-api/codex",
            other_variables=(SettingVariables("tokenFile", ("MAINSPRING_CODEX_TOKENS",)),),
            key="no",
            model="gpt-5.5",
            settings=("clientId", "issuer", "loginPort", "tokenFile"),
            unsupported=("apiKey", "maxOutputTokens"),
            module="mainspring.models.providers.codex",
            login=True,
        ),
        ProviderProfile(
            name="ollama",
            label="Ollama on this machine or another",
            about="no API key; download a model with `ollama pull NAME`",
            docs="local-models.md#servers-on-this-machine",
            protocols=("ollama",),
            base_url="http://localhost:11434",
            url_variables=("OLLAMA_HOST",),
            key_variables=("OLLAMA_API_KEY",),
            key="no",
            model="llama3.3:latest",
            free_address=True,
            settings=("keepAlive", "numCtx"),
            unsupported=("knownAs",),
            module="mainspring.models.providers.ollama",
            local=True,
            selected_by_key=False,
        ),
        ProviderProfile(
            name="local",
            label="Local server (LM Studio, llama.cpp, vLLM)",
            about="no API key; start the server first",
            docs="local-models.md#servers-on-this-machine",
            base_url="http://localhost:11434/v1",
            url_variables=("MAINSPRING_LOCAL_BASE_URL",),
            key="no",
            model="llama3.3:latest",
            unsupported=("knownAs",),
            quirks={"text_markup": True},
            local=True,
            selected_by_address=True,
        ),
        ProviderProfile(
            name="compatible",
            label="Any other OpenAI-compatible server",
            about="base URL up to /v1, and an API key if the server needs one",
            url_variables=("OPENAI_COMPATIBLE_BASE_URL",),
            key_variables=("OPENAI_COMPATIBLE_API_KEY",),
            key="maybe",
            quirks={"text_markup": True},
            selected_by_key=False,
        ),
        ProviderProfile(
            name="embedded",
            label="Embedded small model: no API key, no server",
            about="requires the extra local; weights are downloaded on first use",
            docs="local-models.md",
            key="no",
            model="qwen-coder-0.5b",
            unsupported=(
                *("apiKey", "baseUrl", "headers", "vision", "prices", "knownAs", "models", "dialect"),
                *("connectTimeout", "firstByteTimeout", "idleTimeout"),
            ),
            module="mainspring.models.embedded.provider",
            local=True,
        ),
        ProviderProfile(
            name="langchain",
            docs="providers/other-hosts.md#langchain",
            protocols=(),
            key="no",
            free_address=True,
            settings=("class", "options"),
            unsupported=(
                *("headers", "maxOutputTokens", "knownAs", "dialect"),
                *("connectTimeout", "firstByteTimeout", "idleTimeout"),
            ),
            module="mainspring.models.providers.langchain",
        ),
    )
}
"""Profiles by name, in the order of the setup."""
