"""Remote servers: both protocol versions, expired sessions, HTTP errors, and logins."""

import asyncio
import stat
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import msgspec
import pytest

from mainspring.errors import ConfigError
from mainspring.mcp import ElicitResult, McpError, McpServer, McpServerConfig, connect_mcp, login_mcp
from mainspring.mcp.login import logout_mcp
from mainspring.mcp.oauth import LoginFile, repair_token_response
from tests.unit.mcp.harness import wait_until
from tests.unit.mcp.http_server import HttpServer


def text_of(answer: Any) -> str:
    return answer.content[0]["text"]


@pytest.mark.covers("MCP-03", "BYD-10")
async def test_http_server_receives_the_configured_headers() -> None:
    async with HttpServer().running() as server:
        config = McpServerConfig(name="web", transport="http", url="${BASE}/mcp", headers={"X-Own": "${MINE:-yes}"})
        async with connect_mcp(config, environ={"BASE": server.base}) as web:
            assert web.tools[0].name == "mcp__web__echo"
            assert text_of(await web.call("echo", {"text": "hi"})) == "hi yes"
        assert server.requests[-1][0] == "DELETE"


@pytest.mark.parametrize("status", [404, 410, 400, 401])
async def test_expired_session_is_renewed_and_the_call_repeated(status: int) -> None:
    async with HttpServer().running() as server, connect_mcp(server.url) as web:
        server.forgotten = status
        assert text_of(await web.call("echo", {"text": "1"})) == "1"
        server.sessions.clear()
        assert text_of(await web.call("echo", {"text": "2"})) == "2"
        assert [p for _, p, h in server.requests if h.get("mcp-session-id")]
        assert len(server.sessions) == 1


@pytest.mark.parametrize(
    ("refusal", "text"),
    [
        (
            "Unsupported protocol version (supported versions: 2025-06-18)",
            r"HTTP 400 \(.*supported versions: 2025-06-18",
        ),
        ("<html>", r"HTTP 400\. Check"),
        ("x" * 20_000, r"HTTP 400\. Check"),
    ],
)
async def test_text_of_an_http_error_is_shown(refusal: str, text: str) -> None:
    server = HttpServer(refuse=400)
    server.refusal = refusal
    async with server.running():
        with pytest.raises(McpError, match=text):
            async with connect_mcp(server.url):
                pass


@pytest.mark.parametrize("refuses_in", ["header", "status", "error"])
async def test_server_that_refuses_newer_versions_gets_an_older_one(refuses_in: str) -> None:
    """Instead of offering its own version; the version that works is offered first when the connection is renewed."""
    server = HttpServer()
    server.versions, server.refuses_version_in = ("2025-03-26", "2024-11-05"), refuses_in
    async with server.running(), connect_mcp(server.url) as web:
        assert web.info.protocol == "2025-03-26"
        known = len(server.requests)
        server.sessions.clear()
        assert text_of(await web.call("echo", {"text": "1"})) == "1"
        assert [h.get("mcp-protocol-version") for m, _, h in server.requests[known:] if m == "POST"] == [
            *("2025-03-26", None),
            *["2025-03-26"] * 3,
        ]


async def test_server_that_refuses_notifications_is_used() -> None:
    server = HttpServer()
    server.notified = (400, {}, "Unknown method")
    async with server.running(), connect_mcp(server.url) as web:
        assert (web.info.protocol, text_of(await web.call("echo", {"text": "1"}))) == ("2025-11-25", "1")


async def test_error_of_the_latest_version_is_shown_if_no_version_works() -> None:
    server = HttpServer()
    server.versions, server.refuses_version_in = ("2020-01-01",), "error"
    async with server.running():
        with pytest.raises(McpError, match="Cannot connect to MCP server 'server': Unsupported protocol version$"):
            async with connect_mcp(server.url):
                pass
    assert len([1 for method, _, _ in server.requests if method == "POST"]) == 5


async def test_restarted_server_is_used_again() -> None:
    server = HttpServer()
    async with server.running():
        connection = connect_mcp(server.url)
        web = await connection.__aenter__()
    try:
        async with server.running():
            server.sessions.clear()
            await wait_until(lambda: web.status in ("ready", "lost"))
            for _ in range(3):
                try:
                    assert text_of(await web.call("echo", {"text": "back"})) == "back"
                    break
                except McpError:
                    continue
            else:
                pytest.fail("the restarted server was not reached")
    finally:
        await connection.__aexit__(None, None, None)


@pytest.mark.parametrize(
    ("status", "text", "reason"),
    [
        (401, r"'server' requires a login \(HTTP 401\). Run: mainspring mcp login server", "login"),
        (500, r"returned HTTP 500. Check the url, headers, and transport.", "connect"),
        (404, r"returned HTTP 404", "connect"),
    ],
)
async def test_http_error_is_explained(status: int, text: str, reason: str) -> None:
    async with HttpServer(refuse=status).running() as server:
        with pytest.raises(McpError, match=text) as caught:
            async with connect_mcp(server.url):
                pass
        assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("called", "text"),
    [
        ((500, {}, {"error": "no disk"}), r'^MCP server \'server\': returned HTTP 500 \(\{"error": "no disk"\}\)$'),
        ((502, {}, None), r"^MCP server 'server': returned HTTP 502$"),
        ((200, {}, {"jsonrpc": "2.0", "id": 2}), "the response violates the protocol"),
    ],
)
async def test_error_of_a_call_names_the_status_and_the_connection_continues(called: Any, text: str) -> None:
    async with HttpServer().running() as server, connect_mcp(server.url) as web:
        server.called = called
        for _ in range(2):
            with pytest.raises(McpError, match=text):
                await web.call("echo", {"text": "1"})
        server.called = None
        assert text_of(await web.call("echo", {"text": "2"})) == "2"


async def test_unreachable_host_is_reported() -> None:
    with pytest.raises(McpError, match="cannot reach http://127.0.0.1:9/mcp") as caught:
        async with connect_mcp("http://127.0.0.1:9/mcp"):
            pass
    assert caught.value.reason == "connect"


# --- the server of the SDK, in both protocol versions ------------------------------------------------------------------


@asynccontextmanager
async def run_sdk_server() -> AsyncGenerator[str]:
    """Run a server made with the SDK in this process."""
    import uvicorn
    from mcp.server.mcpserver import Context, MCPServer

    mcp_server = MCPServer("official")

    @mcp_server.tool()
    async def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @mcp_server.tool()
    async def slow(ctx: Context) -> str:
        """Take a while."""
        await ctx.report_progress(1, 2, "half")
        return "done"

    @mcp_server.tool()
    async def grow(ctx: Context) -> str:
        """Add a tool."""
        mcp_server.add_tool(add, name="grown")
        await ctx.notify_tools_changed()
        return "grown"

    @mcp_server.resource("memo://{name}")
    def memo(name: str) -> str:
        """A memo."""
        return f"memo {name}"

    @mcp_server.prompt()
    def greet(name: str) -> str:
        """Greet."""
        return f"Hello {name}"

    config = uvicorn.Config(mcp_server.streamable_http_app(), port=0, log_level="error", lifespan="on", ws="none")
    server = uvicorn.Server(config)
    serving = asyncio.ensure_future(server.serve())
    await wait_until(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        await serving


async def call_with_progress(server: McpServer) -> tuple[str, list[Any]]:
    steps: list[Any] = []
    return text_of(await server.call("slow", {}, lambda *step: steps.append(step))), steps


@pytest.mark.covers("BYD-10", "MCP-03")
async def test_both_protocol_versions_are_supported() -> None:
    async with run_sdk_server() as url:
        for mode, protocol in (("auto", "2026-07-28"), ("legacy", "2025-11-25"), ("2026-07-28", "2026-07-28")):
            config = McpServerConfig(name="o", transport="http", url=url, mode=mode)
            async with connect_mcp(config, elicit=lambda request: ElicitResult("accept")) as server:
                assert server.info.protocol == protocol
                answer = await server.call("add", {"a": 1, "b": 2})
                assert text_of(answer) == "3"
                assert answer.structured == {"result": 3}
                assert await call_with_progress(server) == ("done", [(1, 2, "half")])
                if mode == "2026-07-28":
                    continue  # This version has no initialization, so the capabilities of the server are unknown.
                assert [r.uri for r in await server.list_resources()] == ["memo://{name}"]
                assert (await server.read_resource("memo://x"))[0]["resource"]["text"] == "memo x"
                assert (await server.get_prompt("greet", {"name": "Ann"}))[0].content[0]["text"] == "Hello Ann"


async def test_tool_list_change_is_noticed_with_the_new_protocol() -> None:
    async with run_sdk_server() as url, connect_mcp(url) as server:
        assert "mcp__server__grown" not in [t.name for t in server.tools]
        await server.call("grow", {})
        await wait_until(lambda: "mcp__server__grown" in [t.name for t in server.tools])


# --- logins ----------------------------------------------------------------------------------------------------------


async def get(url: str) -> str:
    target = urlsplit(url)
    reader, writer = await asyncio.open_connection(target.hostname, target.port)
    writer.write(f"GET {target.path}?{target.query} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    page = (await reader.read()).decode()
    writer.close()
    return page


class Browser:
    """A browser that follows the login URL and the callback."""

    def __init__(self, server: HttpServer) -> None:
        self.server = server
        self.visits: list[str] = []
        self.pages: list[str] = []

    async def show(self, url: str) -> None:
        self.visits.append(url)
        self.pages.append(await get(self.server.visit(url)))


@pytest.mark.covers("BYD-10")
async def test_login_is_stored_and_refreshed_once(tmp_path: Path) -> None:
    async with HttpServer(login=True).running() as server:
        config = McpServerConfig(name="web", transport="http", url=server.url, mode="legacy")
        with pytest.raises(McpError, match="requires a login"):
            async with connect_mcp(config, tokens=tmp_path / "logins"):
                pass
        assert server.registrations == 0
        browser = Browser(server)
        assert await login_mcp(config, tmp_path / "logins", show=browser.show, browser=False)
        assert "You are logged in" in browser.pages[0]
        file = LoginFile(tmp_path / "logins", config)
        assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700
        async with connect_mcp(config, tokens=tmp_path / "logins") as web:
            assert text_of(await web.call("echo", {"text": "in"})) == "in"
        assert server.registrations == 1

        # When the token is about to expire, one client refreshes it. The others wait and read the new token.
        file.update(expires=time.time() - 1)
        async with (
            connect_mcp(config, tokens=tmp_path / "logins") as one,
            connect_mcp(config, tokens=tmp_path / "logins") as two,
        ):
            await asyncio.gather(one.call("echo", {"text": "a"}), two.call("echo", {"text": "b"}))
        assert server.refreshes == 1

        # A token that the server revokes before it expires is refreshed too, once for all clients, and their requests are repeated.
        async with (
            connect_mcp(config, tokens=tmp_path / "logins") as one,
            connect_mcp(config, tokens=tmp_path / "logins") as two,
        ):
            server.tokens.clear()
            calls = (web.call("echo", {"text": "again"}) for web in (one, two, one, two))
            assert [text_of(answer) for answer in await asyncio.gather(*calls)] == ["again"] * 4
        assert server.refreshes == 2
        assert len(browser.visits) == 1

        stored = msgspec.json.decode(file.path.read_bytes())
        assert stored["client"]["client_id"] == "client-1"
        assert repr(file.read()) == f"<StoredLogin {server.url} expires={file.read().expires}>"
        assert await logout_mcp(config, tmp_path / "logins")
        assert not await logout_mcp(config, tmp_path / "logins")


@pytest.mark.parametrize(
    "fields",
    [
        {"expires_in": "3600"},
        {"expires_in": 3599.5},
        {"expires_in": 0},
        {"expires_in": "soon", "token_type": None},
        {"refresh_token": ""},
        {"refresh_token": None, "token_type": ""},
        {"scope": ["read", "write"]},
        {"scope": "read,write"},
        {"scope": []},
        {"access_token": None, "user": {"access_token": "access-0", "refresh_token": "refresh-0", "scope": "read"}},
    ],
    ids=str,
)
async def test_token_responses_that_deviate_from_the_standard_are_read(tmp_path: Path, fields: dict[str, Any]) -> None:
    """Of a login and of a refresh, which returns no new refresh token."""
    async with HttpServer(login=True).running() as server:
        server.token_status = 201
        server.token_fields = fields if "refresh_token" not in fields else {}
        config = McpServerConfig(name="web", transport="http", url=server.url, mode="legacy")
        assert await login_mcp(config, tmp_path, show=Browser(server).show, browser=False)
        file = LoginFile(tmp_path, config)
        server.token_fields = fields
        server.tokens.clear()
        async with connect_mcp(config, tokens=tmp_path) as web:
            assert text_of(await web.call("echo", {"text": "1"})) == "1"
        stored = file.read().tokens
        assert stored.get("refresh_token", "refresh-0").startswith("refresh-")
        assert stored["token_type"] == "Bearer"
        assert stored.get("scope") in (None, "read", "read write")


async def test_refresh_is_repeated_without_the_resource_if_the_server_does_not_know_it(tmp_path: Path) -> None:
    async with HttpServer(login=True).running() as server:
        config = McpServerConfig(name="web", transport="http", url=server.url)
        assert await login_mcp(config, tmp_path, show=Browser(server).show, browser=False)
        server.refuses_resource = True
        async with connect_mcp(config, tokens=tmp_path) as web:
            server.tokens.clear()
            assert text_of(await web.call("echo", {"text": "1"})) == "1"
    assert (server.refused_resources, server.refreshes) == (1, 1)


async def test_error_of_a_call_after_a_refresh_is_not_a_required_login(tmp_path: Path) -> None:
    """And a call that contains the words of a token request is none."""
    async with HttpServer(login=True).running() as server:
        config = McpServerConfig(name="web", transport="http", url=server.url)
        assert await login_mcp(config, tmp_path, show=Browser(server).show, browser=False)
        async with connect_mcp(config, tokens=tmp_path) as web:
            server.tokens.clear()
            assert text_of(await web.call("echo", {"text": "1"})) == "1"
            server.called = (500, {}, {"error": "no disk"})
            with pytest.raises(McpError, match="returned HTTP 500") as caught:
                await web.call("echo", {"text": "2"})
            assert caught.value.reason == "refused"
            server.called = (400, {}, {"error": "no disk"})
            known = len(server.requests)
            with pytest.raises(McpError, match="returned HTTP 400"):
                await web.call("echo", {"text": "&grant_type=refresh_token&resource=1"})
            assert [(method, path) for method, path, _ in server.requests[known:]] == [("POST", "/mcp")]


@pytest.mark.parametrize(
    "body",
    [
        {"errors": {"access_token": "is invalid"}},
        {"error": {"access_token": "is invalid"}},
        {"error": "denied", "access_token": "no"},
        "<html><a href='/?error=1&access_token=none&x'>Log in</a></html>",
    ],
    ids=str,
)
async def test_error_is_no_token(body: Any) -> None:
    content = body.encode() if isinstance(body, str) else msgspec.json.encode(body)
    repaired = await repair_token_response(httpx2.Response(200, content=content))
    assert repaired.content == content


async def test_token_response_can_be_a_form_and_an_error_in_it_is_named() -> None:
    form = await repair_token_response(httpx2.Response(200, text="access_token=a&expires_in=60&scope=read%2Cwrite"))
    assert form.json() == {
        **{"access_token": "a", "token_type": "Bearer", "expires_in": 60, "scope": "read write", "refresh_token": None}
    }
    refused = await repair_token_response(httpx2.Response(200, json={"ok": False, "error": "bad_code"}))
    assert (refused.status_code, refused.json()["error"]) == (400, "bad_code")
    failed = httpx2.Response(500, text="no")
    assert await repair_token_response(failed) is failed


@pytest.mark.covers("BYD-10")
@pytest.mark.parametrize(
    ("fault", "seconds", "error_text"),
    [("wrong_state", 2, "Login timed out"), ("wrong_issuer", 120, "Login to MCP server 'web' failed: .*mismatch")],
)
async def test_forged_login_response_is_rejected(tmp_path: Path, fault: str, seconds: float, error_text: str) -> None:
    async with HttpServer(login=True).running() as server:
        setattr(server, fault, True)
        config = McpServerConfig(name="web", transport="http", url=server.url, mode="legacy")
        with pytest.raises(McpError, match=error_text):
            await login_mcp(config, tmp_path, show=Browser(server).show, browser=False, seconds=seconds)
        assert LoginFile(tmp_path, config).read().tokens == {}
        assert not server.tokens


async def test_server_that_registers_no_clients_is_reported_with_the_setting(tmp_path: Path) -> None:
    async with HttpServer(login=True).running() as server:
        server.closed = True
        config = McpServerConfig(name="web", transport="http", url=server.url, mode="legacy")
        with pytest.raises(
            McpError, match=r"Login to MCP server 'web' failed: Registration failed: 404.*set its ID: clientId"
        ):
            await login_mcp(config, tmp_path, show=Browser(server).show, browser=False)


@pytest.mark.covers("BYD-10")
@pytest.mark.parametrize("slashes", [("", "/"), ("/", "")])
async def test_login_requests_the_configured_scope_at_an_issuer_with_or_without_a_slash(
    tmp_path: Path, slashes: tuple[str, str]
) -> None:
    async with HttpServer(login=True).running() as server:
        server.slashes, server.scopes = slashes, ["everything"]
        browser = Browser(server)
        config = McpServerConfig(
            name="web", transport="http", url=server.url, mode="legacy", scope="read offline_access"
        )

        assert await login_mcp(config, tmp_path, show=browser.show, browser=False)

        assert parse_qs(urlsplit(browser.visits[0]).query)["scope"] == ["read offline_access"]


async def test_callback_with_another_state_does_not_end_the_login(tmp_path: Path) -> None:
    """Any page and any program on this machine can reach the callback."""
    async with HttpServer(login=True).running() as server:
        config = McpServerConfig(name="web", transport="http", url=server.url, mode="legacy")
        browser = Browser(server)
        forged: list[str] = []

        async def show(url: str) -> None:
            target = parse_qs(urlsplit(url).query)["redirect_uri"][0]
            for query in (
                "error=access_denied&error_description=%1b[2J",
                "error=x&state=",
                "code=stolen",
                "code=stolen&state=other",
                "",
            ):
                forged.append(await get(f"{target}?{query}"))
            await browser.show(url)

        assert await login_mcp(config, tmp_path, show=show, browser=False)
        assert all("belongs to another login" in page for page in forged)
        assert "You are logged in" in browser.pages[0]


async def test_login_is_skipped_or_rejected_where_it_makes_no_sense(tmp_path: Path) -> None:
    async with HttpServer().running() as server:
        config = McpServerConfig(name="web", transport="http", url=server.url, mode="legacy")
        assert not await login_mcp(config, tmp_path, show=lambda url: None, browser=False)
    with pytest.raises(ConfigError, match="is a program, which has no login"):
        await login_mcp(McpServerConfig(name="p", command="x"), tmp_path, show=lambda url: None)
    given = McpServerConfig(name="h", transport="http", url="http://x", headers={"authorization": "x"})
    with pytest.raises(ConfigError, match="has an Authorization header"):
        await login_mcp(given, tmp_path, show=lambda url: None)


async def test_login_times_out(tmp_path: Path) -> None:
    async with HttpServer(login=True).running() as server:
        config = McpServerConfig(name="web", transport="http", url=server.url, mode="legacy")
        with pytest.raises(McpError, match="Login timed out after 0.1 seconds"):
            await login_mcp(config, tmp_path, show=lambda url: None, browser=False, seconds=0.1)
