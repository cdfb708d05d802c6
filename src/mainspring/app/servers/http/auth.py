"""Who may use the service: tokens, each of a tenant.

What a request has to pass before anything is done: its host, its origin, its token, its tenant's rate.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mainspring.app.servers.http.metrics import Metrics
from mainspring.app.servers.http.responses import error_response, retry_later_response
from mainspring.app.servers.http.state import RateLimiter
from mainspring.errors import ConfigError

TOKEN_VARIABLE = "MAINSPRING_SERVE_TOKEN"
DEFAULT_TENANT = "default"
"""The tenant of a token that names none."""


_MIN_TOKEN_LENGTH = 16
_TENANT = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")


class Tokens:
    """Tells which tenant a token is of, in a time that says nothing about the others.

    Args:
        tenants: Tenants by token.

    Raises:
        ConfigError: If a token is short or a tenant's name cannot be one.
    """

    def __init__(self, tenants: Mapping[str, str]) -> None:
        self._digests = _validate(tenants)

    def replace(self, tenants: Mapping[str, str]) -> None:
        """Know these tokens from now on, and no others.

        Raises:
            ConfigError: If one of them cannot be one; then the ones before hold.
        """
        self._digests = _validate(tenants)

    def __repr__(self) -> str:
        return f"Tokens of {len(self._digests)}"

    def tenant(self, token: str) -> str | None:
        """Whose token it is; None for nobody's."""
        given, found = _digest(token), None
        for digest, tenant in self._digests:  # all of them, wherever it is
            if hmac.compare_digest(digest, given):
                found = tenant
        return found


def _validate(tenants: Mapping[str, str]) -> list[tuple[bytes, str]]:
    for token, tenant in tenants.items():
        if len(token) < _MIN_TOKEN_LENGTH:
            raise ConfigError(
                f"the token of the tenant {tenant!r} has {len(token)} characters, and needs {_MIN_TOKEN_LENGTH}: take a random one"
            )
        if not _TENANT.fullmatch(tenant):
            raise ConfigError(
                f"{tenant!r:.60} is no name of a tenant: small letters, digits and '-', 32 at most, no '-' first"
            )
    return [(_digest(token), tenant) for token, tenant in tenants.items()]


async def watch_token_file(
    file: Path, tokens: Tokens, report: Callable[[str], object], interval_seconds: float = 2.0
) -> None:
    """Know what the file says, whenever it changes: a token that was taken out of it is refused soon after. Never returns.

    Args:
        file: Where the tokens are.
        tokens: What knows them.
        report: Is told of changes, and of a file that cannot be used: then the tokens before hold.
        interval_seconds: Seconds between two looks.
    """
    known = await asyncio.to_thread(_file_signature, file)
    while True:
        await asyncio.sleep(interval_seconds)
        stamp = await asyncio.to_thread(_file_signature, file)
        if stamp == known:
            continue
        known = stamp
        try:
            tokens.replace(await asyncio.to_thread(read_tokens, file))
        except ConfigError as error:
            report(f"{error}; the tokens before still hold")
        else:
            report("the tokens were read again")


def _file_signature(file: Path) -> tuple[int, int, int]:
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
    return _parse_tokens(lines, f"--token-file {file}")


def _parse_tokens(lines: Iterable[str], place: str) -> dict[str, str]:
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
        found[token] = words[0] if len(words) == 2 else DEFAULT_TENANT
    if not found:
        raise ConfigError(f"{place}: there is no token in it")
    return found


def pop_token_from_env(environ: MutableMapping[str, str]) -> str:
    """The token of the environment, which programs that the agent starts do not get; empty for none."""
    return environ.pop(TOKEN_VARIABLE, "").strip()


PUBLIC_PATHS = ("/", "/health", "/ready", "/openapi.json", "/page/")
"""What needs no token: nothing in it is anybody's."""


_ALLOWED = "authorization, content-type, last-event-id"


class OriginPolicy(Struct, frozen=True, kw_only=True):
    """From where the service may be reached.

    Attributes:
        hosts: Names of the service, beside ``localhost`` and addresses in digits, which no foreign page can stand for.
        origins: Pages of other hosts that may use it, as ``https://example.org``.
    """

    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()

    def is_own_host(self, host: str) -> bool:
        """Whether a ``Host`` header names this service: a foreign name may be one that was pointed here."""
        name = _host_name(host)
        if not name:
            return False
        if name == "localhost" or name in {h.lower() for h in self.hosts}:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def is_foreign(self, origin: str, host: str) -> bool:
        """Whether a page of another origin asks, and may not."""
        if origin in self.origins:
            return False
        try:
            return not origin or urlsplit(origin).netloc.lower() != host.lower()
        except ValueError:
            return True


def _host_name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "") if host and not set(host) & set("/?#@\\ ") else ""
    except ValueError:
        return ""


class AuthMiddleware:
    """Lets a request through, with its tenant in ``scope["tenant"]``, or answers it.

    ``scope["holds"]`` says whether its token still is the tenant's, for what goes on for long.

    Args:
        app: What is behind it.
        tokens: Who may use it.
        doors: From where.
        rate: How often.
        metrics: Where refusals are counted.
    """

    def __init__(self, app: ASGIApp, tokens: Tokens, doors: OriginPolicy, rate: RateLimiter, metrics: Metrics) -> None:
        self._app = app
        self._tokens = tokens
        self._doors = doors
        self._rate = rate
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let it through or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        if origin is not None and origin in self._doors.origins:
            send = _add_cors_headers(send, origin)
        rejected = self._check_request(scope, headers, origin)
        await (rejected or self._app)(scope, receive, send)

    def _check_request(self, scope: Scope, headers: Headers, origin: str | None) -> Response | None:
        host = headers.get("host", "")
        if not self._doors.is_own_host(host):
            self._metrics.add("refused_origins")
            return error_response(
                403, "foreign_host", "this service is not called that; name it with --allow-host to let it be"
            )
        if origin is not None:
            if self._doors.is_foreign(origin, host):
                self._metrics.add("refused_origins")
                return error_response(
                    403, "foreign_origin", "pages of this origin may not use this service; see --allow-origin"
                )
            if scope["method"] == "OPTIONS" and origin in self._doors.origins:
                methods = {"access-control-allow-methods": "GET, POST", "access-control-allow-headers": _ALLOWED}
                return Response(status_code=204, headers={**methods, "access-control-max-age": "600"})
        path: str = scope["path"]
        if path in PUBLIC_PATHS or path.startswith(PUBLIC_PATHS[-1]):
            return None
        kind, _, token = headers.get("authorization", "").partition(" ")
        tenant = self._tokens.tenant(token.strip()) if kind.lower() == "bearer" else None
        if tenant is None:
            self._metrics.add("refused_tokens")
            text = "a token is needed: Authorization: Bearer TOKEN" if not token else "this token is not known here"
            return error_response(401, "unauthorized", text, {"www-authenticate": "Bearer"})
        seconds = self._rate.acquire(tenant)
        if seconds:
            self._metrics.add("limited")
            return retry_later_response(
                429, "too_many_requests", f"too many requests; the next one may come in {seconds} s", seconds
            )
        scope["tenant"] = tenant
        scope["holds"] = lambda: self._tokens.tenant(token.strip()) == tenant
        return None


def _add_cors_headers(send: Send, origin: str) -> Send:
    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["access-control-allow-origin"] = origin
            headers["access-control-expose-headers"] = "location, retry-after"
            headers.add_vary_header("Origin")
        await send(message)

    return wrapped
