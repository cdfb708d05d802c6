"""What a request has to pass before anything is done: its host, its origin, its token, its tenant's rate."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from urllib.parse import urlsplit

from msgspec import Struct
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mainspring.app.servers.http.limits import Rate
from mainspring.app.servers.http.metrics import Metrics
from mainspring.app.servers.http.responses import busy, problem
from mainspring.app.servers.http.tokens import Tokens

OPEN = ("/", "/health", "/ready", "/openapi.json", "/page/")
"""What needs no token: nothing in it is anybody's."""

_ALLOWED = "authorization, content-type, last-event-id"


class Doors(Struct, frozen=True, kw_only=True):
    """From where the service may be reached.

    Attributes:
        hosts: Names of the service, beside ``localhost`` and addresses in digits, which no foreign page can stand for.
        origins: Pages of other hosts that may use it, as ``https://example.org``.
    """

    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()

    def is_own_host(self, host: str) -> bool:
        """Whether a ``Host`` header names this service: a foreign name may be one that was pointed here."""
        name = _name_of(host)
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


def _name_of(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "") if host and not set(host) & set("/?#@\\ ") else ""
    except ValueError:
        return ""


class Guard:
    """Lets a request through, with its tenant in ``scope["tenant"]``, or answers it.

    ``scope["holds"]`` says whether its token still is the tenant's, for what goes on for long.

    Args:
        app: What is behind it.
        tokens: Who may use it.
        doors: From where.
        rate: How often.
        metrics: Where refusals are counted.
    """

    def __init__(self, app: ASGIApp, tokens: Tokens, doors: Doors, rate: Rate, metrics: Metrics) -> None:
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
            send = _with_origin(send, origin)
        refused = self._refusal(scope, headers, origin)
        await (refused or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers, origin: str | None) -> Response | None:
        host = headers.get("host", "")
        if not self._doors.is_own_host(host):
            self._metrics.add("refused_origins")
            return problem(
                403, "foreign_host", "this service is not called that; name it with --allow-host to let it be"
            )
        if origin is not None:
            if self._doors.is_foreign(origin, host):
                self._metrics.add("refused_origins")
                return problem(
                    403, "foreign_origin", "pages of this origin may not use this service; see --allow-origin"
                )
            if scope["method"] == "OPTIONS" and origin in self._doors.origins:
                methods = {"access-control-allow-methods": "GET, POST", "access-control-allow-headers": _ALLOWED}
                return Response(status_code=204, headers={**methods, "access-control-max-age": "600"})
        path: str = scope["path"]
        if path in OPEN or path.startswith(OPEN[-1]):
            return None
        kind, _, token = headers.get("authorization", "").partition(" ")
        tenant = self._tokens.tenant(token.strip()) if kind.lower() == "bearer" else None
        if tenant is None:
            self._metrics.add("refused_tokens")
            text = "a token is needed: Authorization: Bearer TOKEN" if not token else "this token is not known here"
            return problem(401, "unauthorized", text, {"www-authenticate": "Bearer"})
        seconds = self._rate.take(tenant)
        if seconds:
            self._metrics.add("limited")
            return busy(429, "too_many_requests", f"too many requests; the next one may come in {seconds} s", seconds)
        scope["tenant"] = tenant
        scope["holds"] = lambda: self._tokens.tenant(token.strip()) == tenant
        return None


def _with_origin(send: Send, origin: str) -> Send:
    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["access-control-allow-origin"] = origin
            headers["access-control-expose-headers"] = "location, retry-after"
            headers.add_vary_header("Origin")
        await send(message)

    return wrapped
