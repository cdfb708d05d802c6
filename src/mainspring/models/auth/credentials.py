"""Where keys come from: the configuration, then the environment. An empty text counts as missing.

Credentials as objects: each says, for every request anew, which key or which headers open the door.

Above: `HttpModel`, which asks before each request, and says what a host refused. Below: keys, the
environment, tokens of Azure, OAuth.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable
from urllib.parse import urlsplit

from mainspring.errors import ModelError, ProviderConfigError
from mainspring.models.transport.environment import is_loopback

CredentialValue = str | Mapping[str, str]
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


def get_setting(value: str | None, *variables: str, environment: Mapping[str, str] | None = None) -> str | None:
    """A setting from the configuration or, in this order, from environment variables.

    Returns:
        The first that is not blank, without blanks around it; ``None`` if there is none.
    """
    environment = os.environ if environment is None else environment
    for candidate in (value, *[environment.get(name) for name in variables]):
        if candidate and candidate.strip():
            return candidate.strip()
    return None


def check_base_url(provider: str, base_url: str) -> None:
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
    check_base_url(provider, base_url)
    variables = KEY_VARIABLES.get(provider, ()) if variables is None else variables
    host = urlsplit(base_url).hostname or ""
    key = get_setting(value)
    if key is not None:
        return key
    known = get_setting(None, *variables, environment=environment)
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


KeyCallback = Callable[[], CredentialValue | Awaitable[CredentialValue]]
"""A function of an application that gives a key, a token or headers; it may be async."""


@runtime_checkable
class CredentialResolver(Protocol):
    """Gives the credential for a request. Safe to share; what expires is kept until it does."""

    async def __call__(self) -> CredentialValue:
        """The key or the headers.

        Raises:
            ModelError: If there is none: `ProviderConfigError` if nobody set one up, `AuthenticationError` if it is refused.
        """
        ...

    def invalidate(self, given: CredentialValue) -> None:
        """The host refused ``given``: if something newer can be had, give that from now on."""
        ...


class ApiKey:
    """A key that is known.

    Args:
        key: The key.
        header: Header that takes it; without one the host's profile says which.
    """

    def __init__(self, key: str, header: str = "") -> None:
        self._key: CredentialValue = {header: key} if header else key

    async def __call__(self) -> CredentialValue:
        """The key."""
        return self._key

    def invalidate(self, given: CredentialValue) -> None:
        """A key does not change."""


class EnvironmentKey:
    """A key of the environment, read at each request.

    Args:
        variables: Names of the variables, in the order in which they are looked at.
        header: See `ApiKey`.
        environment: The environment; the process's by default.
    """

    def __init__(self, *variables: str, header: str = "", environment: Mapping[str, str] | None = None) -> None:
        self._variables = variables
        self._header = header
        self._environment = environment

    async def __call__(self) -> CredentialValue:
        """The first variable that is set.

        Raises:
            ProviderConfigError: If none is.
        """
        key = get_setting(None, *self._variables, environment=self._environment)
        if key is None:
            names = " or ".join(self._variables)
            raise ProviderConfigError(f"No key: the environment variable {names} is not set", reason="missing_key")
        return {self._header: key} if self._header else key

    def invalidate(self, given: CredentialValue) -> None:
        """The environment is read anew at each request anyway."""


class CallableKey:
    """A function of the application's own that gives a key, a token or headers; it may be async.

    Args:
        source: Called before each request.
        to_credential: Makes headers of the key that the function gives; by default the profile says where it goes.
    """

    def __init__(self, source: KeyCallback, to_credential: Callable[[str], CredentialValue] | None = None) -> None:
        self._source = source
        self._shape = to_credential

    async def __call__(self) -> CredentialValue:
        """What the function gives."""
        given = self._source()
        if inspect.isawaitable(given):
            given = await given
        return self._shape(given.strip()) if isinstance(given, str) and self._shape else given

    def invalidate(self, given: CredentialValue) -> None:
        """The function is asked anew at each request anyway."""


class FirstCredential:
    """The first of several sources that has something; from then on only that one is asked.

    Args:
        sources: In the order in which they are tried.
    """

    def __init__(self, sources: Sequence[CredentialResolver]) -> None:
        self._sources = list(sources)
        self._on_choice: CredentialResolver | None = None

    async def __call__(self) -> CredentialValue:
        """What the first source gives.

        Raises:
            ProviderConfigError: If none has anything; the text says why for each.
        """
        if self._on_choice is not None:
            return await self._on_choice()
        reasons: list[str] = []
        for source in self._sources:
            try:
                given = await source()
            except ModelError as error:
                reasons.append(error.message)
                continue
            self._on_choice = source
            return given
        raise ProviderConfigError("; ".join(reasons) or "No source of a credential", reason="missing_key")

    def invalidate(self, given: CredentialValue) -> None:
        """Tell the source that gave it."""
        if self._on_choice is not None:
            self._on_choice.invalidate(given)
