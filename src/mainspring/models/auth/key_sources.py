"""API keys outside the settings: from a command, a separate file, or the system's keyring."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from mainspring.errors import ConfigError, ProviderConfigError
from mainspring.extras import install_command
from mainspring.lazy import lazy_function
from mainspring.models.auth.credentials import CredentialValue

if TYPE_CHECKING:
    from mainspring.models.auth.cli_tokens import run_cli
else:
    run_cli = lazy_function("mainspring.models.auth.cli_tokens", "run_cli")


SERVICE = "mainspring"
"""Service name in the keyring; the entry name is the setting, by default the provider's name."""

_COMMAND_SECONDS = 60.0
_MAX_BYTES = 64 << 10


class _Keyring(Protocol):
    """The functions of the package `keyring` that are used."""

    def get_password(self, service_name: str, username: str, /) -> str | None: ...

    def set_password(self, service_name: str, username: str, password: str, /) -> None: ...


class _KeySettings(Protocol):
    """The settings of a provider that contain its key or its source, in order."""

    @property
    def api_key(self) -> str | None: ...

    @property
    def api_key_command(self) -> str | None: ...

    @property
    def api_key_file(self) -> str | None: ...

    @property
    def api_key_keyring(self) -> str | None: ...


class LazyApiKey:
    """A key that is fetched on first use, and again after a host rejected it.

    Args:
        provider: Name of the provider, for messages.
        fetch: Function that fetches the key.
        source: The setting that names the source of the key, for error messages.
    """

    def __init__(self, provider: str, fetch: Callable[[], Awaitable[str]], source: str) -> None:
        self.source = source
        self._provider = provider
        self._fetch = fetch
        self._key = ""
        self._refused = ""

    async def __call__(self) -> CredentialValue:
        """Return the key.

        Raises:
            ProviderConfigError: If the key is missing; the message contains the reason.
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
        """Discard the key, which a host rejected: it may have changed."""
        if given == self._key:
            self._refused = self._key


def resolve_api_key(provider: str, section: _KeySettings) -> str | LazyApiKey | None:
    """Return the API key of a provider's settings, or a function that fetches it; ``None`` if no key is configured."""
    if section.api_key:
        return section.api_key
    command, file, entry = section.api_key_command, section.api_key_file, section.api_key_keyring
    if command:
        return LazyApiKey(provider, lambda: read_key_from_command(command), "apiKeyCommand")
    if file:
        return LazyApiKey(provider, lambda: asyncio.to_thread(read_key_from_file, file), "apiKeyFile")
    if entry:
        return LazyApiKey(provider, lambda: asyncio.to_thread(read_key_from_keyring, entry), "apiKeyKeyring")
    return None


async def read_key_from_command(command: str) -> str:
    """Return the first line of a command's output.

    Raises:
        ConfigError: If the command fails, prints nothing, or takes too long.
    """
    try:
        output = await run_cli("sh", "-c", command, timeout=_COMMAND_SECONDS)
    except TimeoutError:
        raise ConfigError(f"apiKeyCommand did not finish within {_COMMAND_SECONDS:g}s.") from None
    except OSError as error:
        raise ConfigError(f"Cannot run apiKeyCommand: {error.strerror or error}.") from error
    key = output.out.decode("utf-8", "replace").strip().partition("\n")[0].strip()
    if output.code or not key:
        raise ConfigError(f"apiKeyCommand returned no key: {output.complaint}")
    return key


def read_key_from_file(name: str) -> str:
    """Read a key from a file that only its owner can read. Blocking.

    Raises:
        ConfigError: If the file does not exist, or other users can read it.
    """
    path = Path(os.path.expanduser(name))
    if not path.is_absolute():
        raise ConfigError(f"apiKeyFile is {name!r}. Use an absolute path, or a path that starts with ~/.")
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_BYTES:
            raise ConfigError(f"apiKeyFile {path} is not a file that contains a key.")
        if os.name == "posix" and found.st_mode & 0o077:
            raise ConfigError(f"Other users can read apiKeyFile {path}. Run `chmod 600 {path}`.")
        key = path.read_text(encoding="utf-8-sig").strip()
    except OSError as error:
        raise ConfigError(f"Cannot read apiKeyFile {path}: {error.strerror or error}.") from error
    except UnicodeDecodeError:
        raise ConfigError(f"apiKeyFile {path} is not a text file.") from None
    if not key or "\n" in key:
        raise ConfigError(f"apiKeyFile {path} must contain one line with the key.")
    return key


def read_key_from_keyring(entry: str) -> str:
    """Read a key from the system's keyring. Blocking; the system may ask the user to unlock it.

    Raises:
        ConfigError: If the key does not exist, or no keyring is available.
    """
    keyring, failed = _keyring()
    try:
        key = keyring.get_password(SERVICE, entry)
    except failed as error:
        raise ConfigError(f"Cannot read the keyring: {error}") from error
    if not key:
        raise ConfigError(
            f"The keyring contains no key for {entry!r}. Save one with `mainspring config init {entry} --keyring --key -`."
        )
    return key


def save_key_to_keyring(entry: str, key: str) -> None:
    """Save a key to the system's keyring. Blocking.

    Raises:
        ConfigError: If no keyring is available.
    """
    keyring, failed = _keyring()
    try:
        keyring.set_password(SERVICE, entry, key)
    except failed as error:
        raise ConfigError(f"Cannot write to the keyring: {error}") from error


def _keyring() -> tuple[_Keyring, type[Exception]]:
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        raise ConfigError(
            f"The keyring requires a package that is not installed. Install it: {install_command('keyring')}"
        ) from None
    return cast("_Keyring", keyring), KeyringError
