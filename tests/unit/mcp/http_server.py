"""A server that speaks the older streamable HTTP protocol, in plain asyncio, with expiring sessions, HTTP errors, and a login."""

import asyncio
import hashlib
import json
from base64 import urlsafe_b64encode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOOL = {
    "name": "echo",
    "description": "Gives back.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
}


class HttpServer:
    """An MCP server over HTTP.

    Attributes:
        refuse: An HTTP status for every response; ``refusal`` is its content.
        login: True if the server requires a login.
        lifetime: Lifetime of an access token in seconds.
        sessions: IDs of the known sessions.
        forgotten: HTTP status for an unknown session.
        scopes: Scopes that the server names.
        slashes: What follows the issuer in the metadata of the endpoint, and in those of the issuer.
        closed: True if the server registers no clients.
        requests: Received requests as method, path, and headers.
        versions: Supported versions; others are refused, see ``refuses_version_in``. Empty if all versions are supported.
        token_status, token_fields: HTTP status of a successful token response, and fields that replace those in it.
        called: The response to calls; by default, that of the tool.
        refuses_resource: True if a refresh with the parameter ``resource`` is refused.
        notified: The response to notifications.
        refuses_version_in: ``header``, ``status`` (of the handshake), or ``error`` (a response of the protocol).
    """

    def __init__(self, *, refuse: int = 0, login: bool = False, lifetime: int = 3600) -> None:
        self.refuse = refuse
        self.refusal: Any = None
        self.login = login
        self.lifetime = lifetime
        self.port = 0
        self.sessions: set[str] = set()
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.tokens: set[str] = set()
        self.refreshes = 0
        self.registrations = 0
        self.challenges: dict[str, str] = {}
        self.forgotten = 404
        self.wrong_state = self.wrong_issuer = self.closed = False
        self.scopes: list[str] = []
        self.slashes: tuple[str, str] = ("", "")
        self.versions: tuple[str, ...] = ()
        self.refuses_version_in = ""
        self.token_status = 200
        self.refuses_resource = False
        self.refused_resources = 0
        self.token_fields: dict[str, Any] = {}
        self.called: tuple[int, dict[str, str], Any] | None = None
        self.notified: tuple[int, dict[str, str], Any] = (202, {}, None)

    @property
    def base(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """The URL of the MCP endpoint."""
        return f"{self.base}/mcp"

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["HttpServer"]:
        """Serve inside the `async with` block."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode().split("\r\n")
                method, path, _ = first.split(" ", 2)
                headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines if line)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                self.requests.append((method, path, headers))
                status, extra, data = self._answer(method, path, headers, body)
                payload = json.dumps(data).encode() if data is not None else b""
                extra = {"Content-Type": "application/json", "Content-Length": str(len(payload)), **extra}
                header_lines = "".join([f"{k}: {v}\r\n" for k, v in extra.items()])
                writer.write(f"HTTP/1.1 {status} X\r\n{header_lines}\r\n".encode() + payload)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], Any]:
        target = urlsplit(path)
        if target.path != "/mcp":
            return self._authorize(method, target.path, body)
        if self.refuse:
            return self.refuse, {}, self.refusal
        if self.login and headers.get("authorization", "").removeprefix("Bearer ") not in self.tokens:
            where = f"{self.base}/.well-known/oauth-protected-resource/mcp"
            return 401, {"WWW-Authenticate": f'Bearer resource_metadata="{where}"'}, None
        if method != "POST":
            return 405, {}, None
        return self._rpc(headers, json.loads(body))

    def _rpc(self, headers: dict[str, str], message: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
        key, method, params = message.get("id"), message.get("method"), message.get("params") or {}

        def result(data: Any, **extra: str) -> tuple[int, dict[str, str], Any]:
            return (
                200,
                {k.replace("_", "-"): v for k, v in extra.items()},
                {"jsonrpc": "2.0", "id": key, "result": data},
            )

        if method == "server/discover":
            return 400, {}, None
        header = self.refuses_version_in == "header"
        version = headers.get("mcp-protocol-version", "") if header else params.get("protocolVersion", "")
        if self.versions and version and version not in self.versions:
            error = {"code": -32602, "message": "Unsupported protocol version"}
            if self.refuses_version_in == "error":
                return 200, {}, {"jsonrpc": "2.0", "id": key, "error": error}
            return 400, {}, error["message"] if header else None
        if method == "initialize":
            session = f"session-{len(self.requests)}"
            self.sessions.add(session)
            facts = {"capabilities": {"tools": {}}, "serverInfo": {"name": "http", "version": "1"}}
            return result({"protocolVersion": params["protocolVersion"], **facts}, Mcp_Session_Id=session)
        if headers.get("mcp-session-id") not in self.sessions:
            return self.forgotten, {}, {"error": {"code": -32000, "message": "Bad Request: No valid session ID"}}
        if key is None:
            return self.notified
        if method == "tools/list":
            return result({"tools": [TOOL]})
        return self.called or result(
            {
                "content": [
                    {"type": "text", "text": f"{params['arguments'].get('text')} {headers.get('x-own', '')}".strip()}
                ]
            }
        )

    # --- the login ----------------------------------------------------------------------------------------------------

    def _authorize(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, str], Any]:
        if path == "/.well-known/oauth-protected-resource/mcp":
            return 200, {}, {
                "resource": self.url,
                "authorization_servers": [self.base + self.slashes[0]],
                "scopes_supported": self.scopes or None,
            }  # fmt: skip
        if path == "/.well-known/oauth-authorization-server":
            return 200, {}, {
                "issuer": self.base + self.slashes[1],
                "authorization_endpoint": f"{self.base}/authorize",
                "token_endpoint": f"{self.base}/token",
                "registration_endpoint": f"{self.base}/register",
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": True,
            }  # fmt: skip
        if path == "/register" and not self.closed:
            self.registrations += 1
            return 201, {}, {**json.loads(body), "client_id": f"client-{self.registrations}"}
        if path == "/token":
            return self._token({k: v[0] for k, v in parse_qs(body.decode()).items()})
        return 404, {}, None

    def visit(self, address: str) -> str:
        """Return the callback URL after the user agrees to the login."""
        request = {k: v[0] for k, v in parse_qs(urlsplit(address).query).items()}
        self.challenges["the-code"] = request["code_challenge"]
        state = "forged" if self.wrong_state else request["state"]
        issuer = "https://evil.test" if self.wrong_issuer else self.base + self.slashes[1]
        return f"{request['redirect_uri']}?code=the-code&state={state}&iss={issuer}"

    def _token(self, form: dict[str, str]) -> tuple[int, dict[str, str], Any]:
        if form["grant_type"] == "refresh_token":
            self.refused_resources += "resource" in form and self.refuses_resource
            if "resource" in form and self.refuses_resource:
                return 400, {}, {"error": "invalid_request"}
            if form["refresh_token"] != f"refresh-{self.refreshes}":
                return 400, {}, {"error": "invalid_grant"}
            self.refreshes += 1
        else:
            digest = urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).decode().rstrip("=")
            if self.challenges.get(form["code"]) != digest:
                return 400, {}, {"error": "invalid_grant"}
        token = f"access-{len(self.tokens)}"
        self.tokens.add(token)
        facts = {"token_type": "Bearer", "expires_in": self.lifetime, "refresh_token": f"refresh-{self.refreshes}"}
        return self.token_status, {}, {"access_token": token, **facts} | self.token_fields
