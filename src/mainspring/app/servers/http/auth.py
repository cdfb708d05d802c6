"""Authentication: check the host, the origin, the token, and the tenant's rate limit of each request."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import math
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mainspring.app.servers.http.metrics import Metrics
from mainspring.app.servers.http.responses import error_response, retry_later_response
from mainspring.errors import ConfigError

TOKEN_VARIABLE = "MAINSPRING_SERVE_TOKEN"
DEFAULT_TENANT = "default"
"""Tenant of a token without a tenant name."""


_MIN_TOKEN_LENGTH = 16
_TENANT = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")


class TenantTokens:
    """Finds the tenant of a token, in a time that reveals nothing about other tokens.

    Args:
        tenants: Tenants by token.

    Raises:
        ConfigError: If a token is too short or a tenant name is invalid.
    """

    def __init__(self, tenants: Mapping[str, str]) -> None:
        self._digests = _validate(tenants)

    def replace(self, tenants: Mapping[str, str]) -> bool:
        """Replace all tokens. Return True if they differ from the previous ones.

        Raises:
            ConfigError: If a token or a tenant name is invalid; the previous tokens stay valid.
        """
        previous, self._digests = self._digests, _validate(tenants)
        return self._digests != previous

    def __repr__(self) -> str:
        return f"Tokens of {len(self._digests)}"

    def tenant(self, token: str) -> str | None:
        """Return the tenant of a token, or ``None`` if the token is unknown."""
        given, found = _digest(token), None
        for (
            digest,
            tenant,
        ) in self._digests:  # compare with every token, so that the time does not depend on the position of a match
            if hmac.compare_digest(digest, given):
                found = tenant
        return found


def _validate(tenants: Mapping[str, str]) -> list[tuple[bytes, str]]:
    for token, tenant in tenants.items():
        if len(token) < _MIN_TOKEN_LENGTH:
            raise ConfigError(
                f"The token of tenant {tenant!r} has {len(token)} characters, but needs at least {_MIN_TOKEN_LENGTH}. Use a random token."
            )
        if not _TENANT.fullmatch(tenant):
            raise ConfigError(
                f"Invalid tenant name: {tenant!r:.60}. Use up to 32 lowercase letters, digits, and hyphens, without a leading hyphen."
            )
    return [(_digest(token), tenant) for token, tenant in tenants.items()]


async def watch_token_file(
    file: Path, tokens: TenantTokens, report: Callable[[str], object], interval_seconds: float = 2.0
) -> None:
    """Reload the tokens whenever their file changes, so that a removed token is rejected soon after. Never returns.

    Args:
        file: The token file.
        tokens: TenantTokens to replace.
        report: Callback for changes, and for a file that cannot be used: the previous tokens stay valid then.
        interval_seconds: Seconds between two checks.
    """
    known = None  # the file may have changed since its tokens were read for the start
    while True:
        await asyncio.sleep(interval_seconds)
        stamp = await asyncio.to_thread(_file_signature, file)
        if stamp == known:
            continue
        known = stamp
        try:
            if tokens.replace(await asyncio.to_thread(read_tokens, file)):
                report("Reloaded the tokens.")
        except ConfigError as error:
            report(f"The previous tokens stay valid: {error}")


def _file_signature(file: Path) -> tuple[int, int, int]:
    try:
        found = file.stat()
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_size, found.st_ino


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def new_token() -> str:
    """Return a random token."""
    return secrets.token_urlsafe(32)


def read_tokens(file: Path) -> dict[str, str]:
    """Read a token file: one token for each line, after the tenant name; without a name, the tenant is ``default``.

    Raises:
        ConfigError: If the file cannot be read, contains no token, or contains a token twice.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "the file is not text"
        raise ConfigError(f"--token-file {file}: {reason}") from None
    return _parse_tokens(lines, f"--token-file {file}")


def _parse_tokens(lines: Iterable[str], place: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) > 2:
            raise ConfigError(f"{place}, line {number}: write a token, or a tenant name and its token.")
        token = words[-1]
        if token in found:
            raise ConfigError(f"{place}, line {number}: this token is a duplicate.")
        found[token] = words[0] if len(words) == 2 else DEFAULT_TENANT
    if not found:
        raise ConfigError(f"{place}: the file contains no token.")
    return found


def pop_token_from_env(environ: MutableMapping[str, str]) -> str:
    """Remove the token from the environment, so that programs of the agent cannot read it, and return it or an empty string."""
    return environ.pop(TOKEN_VARIABLE, "").strip()


PUBLIC_PATHS = ("/", "/health", "/ready", "/openapi.json", "/page/")
"""Paths that need no token, because they contain no data of a tenant."""


_ALLOWED = "authorization, content-type, last-event-id"


class OriginPolicy(Struct, frozen=True, kw_only=True):
    """Hosts and origins from which the service can be used.

    Attributes:
        hosts: Names of the service, in addition to ``localhost`` and IP addresses, which a foreign page cannot imitate.
        origins: Origins of pages on other hosts that can use it, for example, ``https://example.org``.
        configurable: Whether options of the command add hosts and origins.
    """

    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()
    configurable: bool = True

    def is_own_host(self, host: str) -> bool:
        """Return True if a ``Host`` header names this service. A foreign name could have been pointed here (DNS rebinding)."""
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
        """Return True if a page of another origin sent the request and is not allowed to."""
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


class RateLimiter:
    """Allows a number of requests per minute, and the same number as a burst.

    Args:
        a_minute: Requests per minute.
        clock: Monotonic clock in seconds.
    """

    def __init__(self, a_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = float(a_minute)
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def acquire(self, tenant: str) -> int:
        """Return 0 if a request is allowed, or the seconds to wait."""
        now = self._clock()
        tokens, at = self._buckets.get(tenant, (self._limit, now))
        tokens = min(self._limit, tokens + (now - at) * self._limit / 60)
        if tokens < 1:
            self._buckets[tenant] = tokens, now
            return max(1, math.ceil((1 - tokens) * 60 / self._limit))
        self._buckets[tenant] = tokens - 1, now
        return 0


class AuthMiddleware:
    """Passes a request on with its tenant in ``scope["tenant"]``, or rejects it.

    ``scope["holds"]`` checks whether the token is still valid, for long requests.

    Args:
        app: The next ASGI application.
        tokens: TenantTokens of the tenants.
        doors: Allowed hosts and origins.
        rate: Rate limit of each tenant.
        metrics: Counters for rejected requests.
        public: Paths that need no token; a path that ends with a slash includes all paths below it.
    """

    def __init__(
        self,
        app: ASGIApp,
        tokens: TenantTokens,
        doors: OriginPolicy,
        rate: RateLimiter,
        metrics: Metrics,
        public: Sequence[str] = PUBLIC_PATHS,
    ) -> None:
        self._app = app
        self._tokens = tokens
        self._doors = doors
        self._rate = rate
        self._metrics = metrics
        self._public = frozenset(public)
        self._public_folders = tuple([path for path in public if path.endswith("/") and path != "/"])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or reject it."""
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
            hint = " Allow it with --allow-host." if self._doors.configurable else ""
            return error_response(403, "foreign_host", f"This host name is not allowed.{hint}")
        if origin is not None:
            if self._doors.is_foreign(origin, host):
                self._metrics.add("refused_origins")
                hint = " Allow them with --allow-origin." if self._doors.configurable else ""
                return error_response(403, "foreign_origin", f"Pages of this origin are not allowed.{hint}")
            if scope["method"] == "OPTIONS" and origin in self._doors.origins:
                methods = {"access-control-allow-methods": "GET, POST", "access-control-allow-headers": _ALLOWED}
                return Response(status_code=204, headers={**methods, "access-control-max-age": "600"})
        path: str = scope["path"]
        if path in self._public or path.startswith(self._public_folders):
            return None
        kind, _, token = headers.get("authorization", "").partition(" ")
        tenant = self._tokens.tenant(token.strip()) if kind.lower() == "bearer" else None
        if tenant is None:
            self._metrics.add("refused_tokens")
            text = (
                "A token is required. Send the header Authorization: Bearer TOKEN." if not token else "Unknown token."
            )
            return error_response(401, "unauthorized", text, {"www-authenticate": "Bearer"})
        seconds = self._rate.acquire(tenant)
        if seconds:
            self._metrics.add("limited")
            return retry_later_response(429, "too_many_requests", f"Too many requests. Retry in {seconds}s.", seconds)
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
