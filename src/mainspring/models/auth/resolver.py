"""Credentials as objects: each says, for every request anew, which key or which headers open the door.

Above: `HttpModel`, which asks before each request, and says what a host refused. Below: keys, the
environment, tokens of Azure, OAuth.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from mainspring.errors import ModelError, ProviderConfigError
from mainspring.models.auth.credentials import Given, setting

KeyFunction = Callable[[], Given | Awaitable[Given]]
"""A function of an application that gives a key, a token or headers; it may be async."""


@runtime_checkable
class CredentialResolver(Protocol):
    """Gives the credential for a request. Safe to share; what expires is kept until it does."""

    async def __call__(self) -> Given:
        """The key or the headers.

        Raises:
            ModelError: If there is none: `ProviderConfigError` if nobody set one up, `AuthenticationError` if it is refused.
        """
        ...

    def reject(self, given: Given) -> None:
        """The host refused ``given``: if something newer can be had, give that from now on."""
        ...


class ApiKey:
    """A key that is known.

    Args:
        key: The key.
        header: Header that takes it; without one the host's profile says which.
    """

    def __init__(self, key: str, header: str = "") -> None:
        self._given: Given = {header: key} if header else key

    async def __call__(self) -> Given:
        """The key."""
        return self._given

    def reject(self, given: Given) -> None:
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

    async def __call__(self) -> Given:
        """The first variable that is set.

        Raises:
            ProviderConfigError: If none is.
        """
        key = setting(None, *self._variables, environment=self._environment)
        if key is None:
            names = " or ".join(self._variables)
            raise ProviderConfigError(f"No key: the environment variable {names} is not set", reason="missing_key")
        return {self._header: key} if self._header else key

    def reject(self, given: Given) -> None:
        """The environment is read anew at each request anyway."""


class FunctionKey:
    """A function of the application's own that gives a key, a token or headers; it may be async.

    Args:
        source: Called before each request.
        shape: Makes headers of the key that the function gives; by default the profile says where it goes.
    """

    def __init__(self, source: KeyFunction, shape: Callable[[str], Given] | None = None) -> None:
        self._source = source
        self._shape = shape

    async def __call__(self) -> Given:
        """What the function gives."""
        given = self._source()
        if inspect.isawaitable(given):
            given = await given
        return self._shape(given.strip()) if isinstance(given, str) and self._shape else given

    def reject(self, given: Given) -> None:
        """The function is asked anew at each request anyway."""


class FirstOf:
    """The first of several sources that has something; from then on only that one is asked.

    Args:
        sources: In the order in which they are tried.
    """

    def __init__(self, sources: Sequence[CredentialResolver]) -> None:
        self._sources = list(sources)
        self._chosen: CredentialResolver | None = None

    async def __call__(self) -> Given:
        """What the first source gives.

        Raises:
            ProviderConfigError: If none has anything; the text says why for each.
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
        raise ProviderConfigError("; ".join(reasons) or "No source of a credential", reason="missing_key")

    def reject(self, given: Given) -> None:
        """Tell the source that gave it."""
        if self._chosen is not None:
            self._chosen.reject(given)
