"""Keys that do not stand in the settings: printed by a command, in a file of their own, in the system's keyring."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol, cast

from mainspring.app.workspace.settings import ProviderSettings
from mainspring.errors import ConfigError, ProviderConfigError
from mainspring.extras import install_command
from mainspring.models.auth.cli_tokens import run_cli
from mainspring.models.auth.credentials import CredentialValue

SERVICE = "mainspring"
"""Under which the keyring keeps keys; the entry is the name of the setting, by default the provider's."""

_COMMAND_SECONDS = 60.0
_LARGEST = 64 << 10


class _Keyring(Protocol):
    """What is used of the package `keyring`."""

    def get_password(self, service_name: str, username: str, /) -> str | None: ...

    def set_password(self, service_name: str, username: str, password: str, /) -> None: ...


class LazyApiKey:
    """A key that is fetched when it is needed first, and again when a host refused it.

    Args:
        provider: Whose key it is, for texts.
        fetch: Fetches it.
    """

    def __init__(self, provider: str, fetch: Callable[[], Awaitable[str]]) -> None:
        self._provider = provider
        self._fetch = fetch
        self._key = ""
        self._refused = ""

    async def __call__(self) -> CredentialValue:
        """The key.

        Raises:
            ProviderConfigError: If there is none; the text says why.
        """
        if not self._key or self._key == self._refused:
            try:
                self._key = (await self._fetch()).strip()
            except ConfigError as error:
                raise ProviderConfigError(
                    f"No key for {self._provider}: {error}", reason="missing_key", provider=self._provider
                ) from error
        return self._key

    def invalidate(self, given: CredentialValue) -> None:
        """The host refused it: it may have been changed since."""
        if given == self._key:
            self._refused = self._key


def resolve_api_key(provider: str, section: ProviderSettings) -> str | LazyApiKey | None:
    """The key that the settings give a provider: itself, or what fetches it; ``None`` where they give none."""
    if section.api_key:
        return section.api_key
    command, file, entry = section.api_key_command, section.api_key_file, section.api_key_keyring
    if command:
        return LazyApiKey(provider, lambda: read_key_from_command(command))
    if file:
        return LazyApiKey(provider, lambda: asyncio.to_thread(read_key_from_file, file))
    if entry:
        return LazyApiKey(provider, lambda: asyncio.to_thread(read_key_from_keyring, entry))
    return None


async def read_key_from_command(command: str) -> str:
    """The first line that a command prints.

    Raises:
        ConfigError: If it fails, prints nothing, or takes too long.
    """
    try:
        said = await run_cli("sh", "-c", command, timeout=_COMMAND_SECONDS)
    except TimeoutError:
        raise ConfigError(f"apiKeyCommand did not end within {_COMMAND_SECONDS:g} s") from None
    except OSError as error:
        raise ConfigError(f"apiKeyCommand cannot be started: {error.strerror or error}") from error
    key = said.out.decode("utf-8", "replace").strip().partition("\n")[0].strip()
    if said.code or not key:
        raise ConfigError(f"apiKeyCommand gave none: {said.complaint}")
    return key


def read_key_from_file(name: str) -> str:
    """The key in a file that only its owner may read. Blocking.

    Raises:
        ConfigError: If File not found., or others may read it.
    """
    path = Path(os.path.expanduser(name))
    if not path.is_absolute():
        raise ConfigError(f"apiKeyFile is {name!r}; write it from / or ~/ on")
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST:
            raise ConfigError(f"apiKeyFile {path} is no file that holds a key")
        if os.name == "posix" and found.st_mode & 0o077:
            raise ConfigError(f"apiKeyFile {path} can be read by others: chmod 600 {path}")
        key = path.read_text(encoding="utf-8-sig").strip()
    except OSError as error:
        raise ConfigError(f"apiKeyFile {path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError:
        raise ConfigError(f"apiKeyFile {path} is no text") from None
    if not key or "\n" in key:
        raise ConfigError(f"apiKeyFile {path} must hold the key on its only line")
    return key


def read_key_from_keyring(entry: str) -> str:
    """A key of the system's keyring. Blocking; the system may ask the user to unlock it.

    Raises:
        ConfigError: If there is none, or no keyring can be used.
    """
    keyring, failed = _keyring()
    try:
        key = keyring.get_password(SERVICE, entry)
    except failed as error:
        raise ConfigError(f"the keyring cannot be read: {error}") from error
    if not key:
        raise ConfigError(
            f"the keyring holds none for {entry!r}; keep one with: mainspring config init {entry} --keyring --key -"
        )
    return key


def save_key_to_keyring(entry: str, key: str) -> None:
    """Keep a key in the system's keyring. Blocking.

    Raises:
        ConfigError: If no keyring can be used.
    """
    keyring, failed = _keyring()
    try:
        keyring.set_password(SERVICE, entry, key)
    except failed as error:
        raise ConfigError(f"the keyring cannot be written: {error}") from error


def _keyring() -> tuple[_Keyring, type[Exception]]:
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        raise ConfigError(f"the keyring needs a package that is not installed: {install_command('keyring')}") from None
    return cast("_Keyring", keyring), KeyringError
