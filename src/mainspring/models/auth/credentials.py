"""Where keys come from: the configuration, then the environment. An empty text counts as missing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from mainspring.errors import ProviderConfigError
from mainspring.models.transport.environment import is_loopback

Given = str | Mapping[str, str]
"""What opens a door: a key, which goes into the header that the profile names, or the headers themselves."""

KEY_VARIABLES: dict[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "azure": ("AZURE_OPENAI_API_KEY",),
    "cerebras": ("CEREBRAS_API_KEY",),
    "compatible": ("OPENAI_COMPATIBLE_API_KEY",),
    "foundry": ("AZURE_FOUNDRY_API_KEY",),
    "gemini": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "github": ("GITHUB_TOKEN",),
    "ollama": ("OLLAMA_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
}
"""Environment variables that may hold the key of a provider, in the order in which they are looked at."""


def setting(value: str | None, *variables: str, environment: Mapping[str, str] | None = None) -> str | None:
    """A setting from the configuration or, in this order, from environment variables.

    Returns:
        The first that is not blank, without blanks around it; ``None`` if there is none.
    """
    environment = os.environ if environment is None else environment
    for candidate in (value, *[environment.get(name) for name in variables]):
        if candidate and candidate.strip():
            return candidate.strip()
    return None


def check_address(provider: str, base_url: str) -> None:
    """Whether requests can go there.

    Raises:
        ProviderConfigError: If the base URL is no HTTP address.
    """
    if not base_url.startswith(("http://", "https://")):
        raise ProviderConfigError(
            f"The base URL of {provider} must begin with http:// or https://, not {base_url!r}", provider=provider
        )


def require_key(
    provider: str,
    value: str | None,
    *,
    base_url: str,
    home: str,
    variables: tuple[str, ...] | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """The key for a provider at a base URL.

    A key of the configuration goes to the base URL of the configuration. One of the environment belongs to the provider's
    own host (``home``) and is not sent to another one, except on this machine.

    Args:
        provider: Name of the provider.
        value: The key of the configuration, if there is one.
        base_url: Where the key will be sent.
        home: The provider's own base URL.
        variables: Environment variables that may hold the key; by default those of `KEY_VARIABLES`.
        environment: The environment; the process's by default.

    Raises:
        ProviderConfigError: If there is none (the text names the variable and the setting), or the base URL is no address.
    """
    check_address(provider, base_url)
    variables = KEY_VARIABLES.get(provider, ()) if variables is None else variables
    host = urlsplit(base_url).hostname or ""
    key = setting(value)
    if key is not None:
        return key
    known = setting(None, *variables, environment=environment)
    if known is not None and (is_loopback(host) or host == urlsplit(home).hostname):
        return known
    if is_loopback(host):
        return "not-needed"
    names = " or ".join(variables)
    if known is not None:
        raise ProviderConfigError(
            f"No key for {provider} at {host}: {names} belongs to {urlsplit(home).hostname} and is not sent elsewhere. "
            f"Give the key for {host} as the setting providers.{provider}.apiKey (in code: api_key=...)",
            reason="missing_key",
            provider=provider,
        )
    raise ProviderConfigError(
        f"No key for {provider}: set the environment variable {names}, or the setting providers.{provider}.apiKey "
        "(in code: api_key=...)",
        reason="missing_key",
        provider=provider,
    )
