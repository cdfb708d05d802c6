"""Who may use the service: tokens, each of a tenant."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from pathlib import Path

from mainspring.errors import ConfigError

VARIABLE = "MAINSPRING_SERVE_TOKEN"
DEFAULT = "default"
"""The tenant of a token that names none."""

_SHORTEST = 16
_TENANT = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")


class Tokens:
    """Tells which tenant a token is of, in a time that says nothing about the others.

    Args:
        tenants: Tenants by token.

    Raises:
        ConfigError: If a token is short or a tenant's name cannot be one.
    """

    def __init__(self, tenants: Mapping[str, str]) -> None:
        self._digests = _checked(tenants)

    def renew(self, tenants: Mapping[str, str]) -> None:
        """Know these tokens from now on, and no others.

        Raises:
            ConfigError: If one of them cannot be one; then the ones before hold.
        """
        self._digests = _checked(tenants)

    def __repr__(self) -> str:
        return f"Tokens of {len(self._digests)}"

    def tenant(self, token: str) -> str | None:
        """Whose token it is; None for nobody's."""
        given, found = _digest(token), None
        for digest, tenant in self._digests:  # all of them, wherever it is
            if hmac.compare_digest(digest, given):
                found = tenant
        return found


def _checked(tenants: Mapping[str, str]) -> list[tuple[bytes, str]]:
    for token, tenant in tenants.items():
        if len(token) < _SHORTEST:
            raise ConfigError(
                f"the token of the tenant {tenant!r} has {len(token)} characters, and needs {_SHORTEST}: take a random one"
            )
        if not _TENANT.fullmatch(tenant):
            raise ConfigError(
                f"{tenant!r:.60} is no name of a tenant: small letters, digits and '-', 32 at most, no '-' first"
            )
    return [(_digest(token), tenant) for token, tenant in tenants.items()]


async def keep_up(file: Path, tokens: Tokens, say: Callable[[str], object], every: float = 2.0) -> None:
    """Know what the file says, whenever it changes: a token that was taken out of it is refused soon after. Never returns.

    Args:
        file: Where the tokens are.
        tokens: What knows them.
        say: Is told of changes, and of a file that cannot be used: then the tokens before hold.
        every: Seconds between two looks.
    """
    known = await asyncio.to_thread(_stamp, file)
    while True:
        await asyncio.sleep(every)
        stamp = await asyncio.to_thread(_stamp, file)
        if stamp == known:
            continue
        known = stamp
        try:
            tokens.renew(await asyncio.to_thread(read_tokens, file))
        except ConfigError as error:
            say(f"{error}; the tokens before still hold")
        else:
            say("the tokens were read again")


def _stamp(file: Path) -> tuple[int, int, int]:
    try:
        found = file.stat()
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_size, found.st_ino


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def new_token() -> str:
    """A random token."""
    return secrets.token_urlsafe(32)


def read_tokens(file: Path) -> dict[str, str]:
    """The tokens of a file: one a line, with the tenant's name before it; without one it is the tenant ``default``.

    Raises:
        ConfigError: If it cannot be read, or holds none, or the same twice.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigError(f"--token-file {file}: {reason}") from None
    return _parsed(lines, f"--token-file {file}")


def _parsed(lines: Iterable[str], place: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) > 2:
            raise ConfigError(f"{place}, line {number}: a line is a token, or a tenant's name and its token")
        token = words[-1]
        if token in found:
            raise ConfigError(f"{place}, line {number}: this token stands there twice")
        found[token] = words[0] if len(words) == 2 else DEFAULT
    if not found:
        raise ConfigError(f"{place}: there is no token in it")
    return found


def take_token(environ: MutableMapping[str, str]) -> str:
    """The token of the environment, which programs that the agent starts do not get; empty for none."""
    return environ.pop(VARIABLE, "").strip()
