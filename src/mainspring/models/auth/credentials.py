"""API keys from the configuration and the environment, credential resolvers, and listeners for refreshed tokens.

An empty string is the same as a missing key. `HttpModel` calls a resolver before each request and reports credentials that a
host rejected.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from msgspec import Struct

from mainspring.errors import ModelError, ProviderConfigError
from mainspring.lazy import lazy_function, lazy_re
from mainspring.models.provider_table import PROVIDERS, ProviderProfile
from mainspring.models.transport.environment import is_loopback

if TYPE_CHECKING:
    from urllib.parse import urlsplit
else:
    urlsplit = lazy_function("urllib.parse", "urlsplit")

_JWT = lazy_re(r"eyJ[\w-]+\.[\w-]+\.[\w-]*$")

CredentialValue = str | Mapping[str, str]
"""A key for the header that the profile defines, or the complete headers."""


KEY_VARIABLES = {name: profile.key_variables for name, profile in PROVIDERS.items() if profile.key_variables}
"""Environment variables that may contain the key of a provider, in order."""


def get_setting(value: str | None, *variables: str, environment: Mapping[str, str] | None = None) -> str | None:
    """Return a setting from the configuration or, in this order, from environment variables.

    Returns:
        The first value that is not blank, stripped; ``None`` if all are missing.
    """
    environment = os.environ if environment is None else environment
    for candidate in (value, *[environment.get(name) for name in variables]):
        if candidate and candidate.strip():
            return candidate.strip()
    return None


def check_base_url(provider: str, base_url: str) -> None:
    """Check that a base URL is an HTTP address with a host.

    Raises:
        ProviderConfigError: The base URL is invalid; the message contains its environment variable, if it comes from one.
    """
    try:
        host = urlsplit(base_url).hostname
    except ValueError:  # An IPv6 address without a bracket.
        host = None
    if base_url.startswith(("http://", "https://")) and host:
        return
    variables = PROVIDERS[provider].url_variables if provider in PROVIDERS else ()
    found = next((name for name in variables if base_url.startswith(get_setting(None, name) or " ")), "")
    raise ProviderConfigError(
        f"The base URL of {provider}{found and f', {found},'} must start with http:// or https:// and contain a host: "
        f"{base_url.rpartition('@')[2]!r}",
        reason="bad_url",
        provider=provider,
    )


def is_environment_key_for(
    profile: ProviderProfile, base_url: str, environment: Mapping[str, str] | None = None
) -> bool:
    """Return True if a base URL is the provider's own, so that a key of the environment belongs to it."""
    host = urlsplit(base_url).hostname or ""
    home = get_setting(None, *profile.url_variables, environment=environment) or profile.base_url
    return host == urlsplit(home).hostname or host.endswith(profile.key_hosts)


def require_key(
    provider: str,
    value: str | None,
    *,
    base_url: str,
    home: str,
    variables: tuple[str, ...] | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Return the key for a provider at a base URL.

    A key of the configuration is sent to the base URL of the configuration. A key of the environment belongs to the provider's
    own host (``home``) and is not sent to another host, except on this machine.

    Args:
        provider: Name of the provider.
        value: Key of the configuration, if any.
        base_url: Base URL to which the key will be sent.
        home: Base URL of the provider itself.
        variables: Environment variables that may contain the key; by default those of `KEY_VARIABLES`.
        environment: Environment variables; those of the process by default.

    Raises:
        ProviderConfigError: The key is missing (the text contains the variable and the setting), or the base URL is invalid.
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
            f"No API key for {provider} at {host}: {names} belongs to {urlsplit(home).hostname} and is not sent to other hosts. "
            f"Set the key for {host} in the setting providers.{provider}.apiKey (in code: api_key=...).",
            reason="missing_key",
            provider=provider,
        )
    raise ProviderConfigError(
        f"No API key for {provider}. Set the environment variable {names}, or the setting providers.{provider}.apiKey "
        "(in code: api_key=...).",
        reason="missing_key",
        provider=provider,
    )


KeyCallback = Callable[[], CredentialValue | Awaitable[CredentialValue]]
"""A function of an application that returns a key, a token, or headers; may be async."""


ApiKeyProvider = (
    Callable[[str], "str | None | Awaitable[str | None]"] | Callable[[], "str | None | Awaitable[str | None]"]
)
"""A function that returns the API key of a provider by name (or without an argument); may be async. ``None`` if it has none."""


def bind_provider(source: ApiKeyProvider, provider: str) -> Callable[[], Any]:
    """Return a function without arguments that returns the key of one provider."""
    function: Callable[..., Any] = source
    try:
        inspect.signature(function).bind(provider)
    except TypeError:
        return function
    except ValueError:  # A builtin without a signature.
        pass
    return partial(function, provider)


def key_or_token(key: str) -> CredentialValue:
    """Return a key, or the header of a token of Entra ID if the text resembles one."""
    return {"authorization": f"Bearer {key}"} if _JWT.match(key) else key


@runtime_checkable
class CredentialResolver(Protocol):
    """Source of the credential of a request. Safe to share; expiring credentials are cached until they expire."""

    async def __call__(self) -> CredentialValue:
        """Return the key or the headers.

        Raises:
            ModelError: The credential is missing: `ProviderConfigError` if it is not configured, `AuthenticationError` if it
                was rejected.
        """
        ...

    def invalidate(self, given: CredentialValue) -> None:
        """Report that the host rejected ``given``; return a newer credential from now on, if possible."""
        ...


class ApiKey:
    """A fixed key.

    Args:
        key: The key.
        header: Header for the key; by default the one of the host's profile.
    """

    def __init__(self, key: str, header: str = "") -> None:
        self._key: CredentialValue = {header: key} if header else key

    async def __call__(self) -> CredentialValue:
        """Return the key."""
        return self._key

    def invalidate(self, given: CredentialValue) -> None:
        """Do nothing: the key is fixed."""


class EnvironmentKey:
    """A key from the environment, read at each request.

    Args:
        variables: Names of the variables, in order.
        header: See `ApiKey`.
        environment: Environment variables; those of the process by default.
    """

    def __init__(self, *variables: str, header: str = "", environment: Mapping[str, str] | None = None) -> None:
        self._variables = variables
        self._header = header
        self._environment = environment

    async def __call__(self) -> CredentialValue:
        """Return the value of the first variable that is set.

        Raises:
            ProviderConfigError: All variables are unset.
        """
        key = get_setting(None, *self._variables, environment=self._environment)
        if key is None:
            names = " or ".join(self._variables)
            raise ProviderConfigError(f"No API key: the environment variable {names} is not set", reason="missing_key")
        return {self._header: key} if self._header else key

    def invalidate(self, given: CredentialValue) -> None:
        """Do nothing: the environment is read at each request."""


class CallableKey:
    """A key, a token, or headers from a function of the application; may be async.

    Args:
        source: Function called before each request.
        to_credential: Function that converts the key to headers; by default the profile defines the header.
    """

    def __init__(self, source: KeyCallback, to_credential: Callable[[str], CredentialValue] | None = None) -> None:
        self._source = source
        self._shape = to_credential

    async def __call__(self) -> CredentialValue:
        """Return the result of the function."""
        given = self._source()
        if inspect.isawaitable(given):
            given = await given
        return self._shape(given.strip()) if isinstance(given, str) and self._shape else given

    def invalidate(self, given: CredentialValue) -> None:
        """Do nothing: the function is called at each request."""


class FirstCredential:
    """The first of several sources that has a credential; later requests use only that source.

    Args:
        sources: Sources in the order in which they are tried.
    """

    def __init__(self, sources: Sequence[CredentialResolver]) -> None:
        self._sources = list(sources)
        self._chosen: CredentialResolver | None = None

    async def __call__(self) -> CredentialValue:
        """Return the credential of the first source that has one.

        Raises:
            ProviderConfigError: All sources failed; the text contains the reason of each.
        """
        if self._chosen is not None:
            return await self._chosen()
        reasons: list[str] = []
        for source in self._sources:
            try:
                given = await source()
            except ModelError as error:
                reasons.append(error.message)
                continue
            self._chosen = source
            return given
        raise ProviderConfigError("; ".join(reasons) or "No credential source is configured", reason="missing_key")

    def invalidate(self, given: CredentialValue) -> None:
        """Report the rejection to the source that is in use."""
        if self._chosen is not None:
            self._chosen.invalidate(given)


class TokenRefreshed(Struct, frozen=True):
    """Event for a refreshed token.

    Attributes:
        provider: Name of the provider.
        account: Account ID, if known.
        expires: Expiry of the new token, in seconds since 1970; ``None`` if unknown.
        reason: ``expired`` if the old token was about to expire, ``refused`` if the host rejected it.
    """

    provider: str
    account: str = ""
    expires: float | None = None
    reason: Literal["expired", "refused"] = "expired"


RefreshCallback = Callable[[TokenRefreshed], Awaitable[object] | object]
"""Callback for a refreshed token; may be async. Its exceptions are logged and do not fail the request."""


_listener: ContextVar[RefreshCallback | None] = ContextVar("mainspring_oauth_listener", default=None)


def on_token_refresh(callback: RefreshCallback) -> Callable[[], None]:
    """Call ``callback`` for each token that a request of this task, or of a task it starts, refreshes.

    Returns:
        A function that restores the previous callback.
    """
    before = _listener.get()
    _listener.set(callback)

    def stop() -> None:
        _listener.set(before)

    return stop


def current_listener() -> RefreshCallback | None:
    """Return the callback of this task."""
    return _listener.get()


@contextmanager
def token_refresh_listener(callback: RefreshCallback) -> Generator[None]:
    """Call `on_token_refresh` for the duration of a ``with`` block."""
    stop = on_token_refresh(callback)
    try:
        yield
    finally:
        stop()
