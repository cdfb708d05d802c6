"""What each provider has to be told before it can be used: the questions of `mainspring config init`."""

from __future__ import annotations

from msgspec import Struct

from mainspring.models.auth.credentials import KEY_VARIABLES


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
