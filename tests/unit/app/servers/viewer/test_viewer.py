"""The viewer with browsers, exporters, and attackers."""

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from mainspring.app.servers.http.server import ServerOptions, local_url, open_socket
from mainspring.app.servers.viewer.model import RunDetail, Summary, ViewSpan
from mainspring.app.servers.viewer.otlp import ReceivedSpan
from mainspring.app.servers.viewer.server import Viewer
from mainspring.app.servers.viewer.span_store import SpanStore, Trace
from tests.unit.app.servers.viewer.test_otlp import SPAN, request

pytestmark = pytest.mark.usefixtures("no_blocking")

TOKEN = "token-of-the-viewer"


class StoredRuns:
    """Runs from another source."""

    def runs(self) -> list[Summary]:
        return [
            Summary(id="session-r1", run="r1", source="session", title="Fix the test", place="/src", start=5.0),
            Summary(id="session-r2", run="r2", source="session", title="Older", start=1.0),
        ]

    def run(self, id: str) -> RunDetail | None:
        found = next((r for r in self.runs() if r.id == id), None)
        spans = [ViewSpan(id="x", name="look", kind="tool", call="c1", input={"key": "a"}, output="value")]
        return RunDetail(summary=found, spans=spans, messages=[{"kind": "user", "text": "Fix it"}]) if found else None


class RunningViewer:
    """A viewer on a free port, and a client with its token."""

    def __init__(self, viewer: Viewer, url: str, session: aiohttp.ClientSession) -> None:
        self.viewer = viewer
        self._url = url
        self._session = session

    async def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Send a request. An empty header is not sent."""
        given = {"Authorization": f"Bearer {TOKEN}", **{k.replace("_", "-"): v for k, v in headers.items()}}
        given = {k: v for k, v in given.items() if v}
        async with self._session.request(method, self._url + path, data=body or None, headers=given) as answer:
            return answer.status, {k.lower(): v for k, v in answer.headers.items()}, await answer.read()

    async def get(self, path: str) -> Any:
        """Return the JSON of a response."""
        return json.loads((await self.ask("GET", path))[2])

    async def send_spans(self, body: bytes, kind: str = "application/json", **headers: str) -> tuple[int, bytes]:
        """Send spans like an exporter, without the token."""
        status, _, answer = await self.ask("POST", "v1/traces", body, Authorization="", Content_Type=kind, **headers)
        return status, answer


@pytest.fixture
async def running() -> AsyncIterator[RunningViewer]:
    viewer = Viewer(StoredRuns(), token=TOKEN)
    listening = open_socket(ServerOptions(port=0))
    async with (
        viewer.server.in_background(listening) as url,
        aiohttp.ClientSession(auto_decompress=False) as session,
    ):
        yield RunningViewer(viewer, url, session)


@pytest.mark.covers("CLI-17")
async def test_page_and_its_assets_are_served_without_a_token(running: RunningViewer) -> None:
    for path, kind in (("", "text/html"), ("page/page.js", "text/javascript"), ("page/page.css", "text/css")):
        status, headers, body = await running.ask("GET", path, Authorization="")
        assert status == 200
        assert headers["content-type"].startswith(kind)
        assert "default-src 'none'" in headers["content-security-policy"]
        assert len(body) == int(headers["content-length"]) > 500
    assert (await running.ask("HEAD", ""))[0] == 200


async def test_stored_and_received_runs_are_one_list(running: RunningViewer) -> None:
    span = {
        **SPAN,
        "parentSpanId": "",
        "attributes": [
            {"key": "gen_ai.operation.name", "value": {"stringValue": "invoke_agent"}},
            {"key": "mainspring.run.id", "value": {"stringValue": "r1"}},
        ],
    }
    call = {
        **SPAN,
        "spanId": "1" * 16,
        "parentSpanId": SPAN["spanId"],
        "attributes": [
            {"key": "gen_ai.operation.name", "value": {"stringValue": "execute_tool"}},
            {"key": "gen_ai.tool.call.id", "value": {"stringValue": "c1"}},
        ],
    }

    assert [r["id"] for r in (await running.get("api/runs"))["runs"]] == ["session-r1", "session-r2"]
    assert await running.send_spans(request(call, span)) == (200, b"{}")

    listed = (await running.get("api/runs"))["runs"]
    assert [r["id"] for r in listed] == [f"otlp-{SPAN['traceId'].lower()}", "session-r2"]
    assert (listed[0]["title"], listed[0]["place"], listed[0]["status"]) == ("Fix the test", "/src", "error")
    detail = await running.get(f"api/runs/{listed[0]['id']}")
    by_id = {s["id"]: s for s in detail["spans"]}
    assert by_id["1" * 16]["output"] == "value"
    assert detail["messages"] == [{"kind": "user", "text": "Fix it"}]
    assert (await running.get("api/runs/session-r2"))["summary"]["title"] == "Older"


async def test_trace_without_a_root_is_running(running: RunningViewer) -> None:
    await running.send_spans(request(SPAN))

    (first, *_) = (await running.get("api/runs"))["runs"]
    assert first.get("status", "running") == "running"
    assert "end" not in first
    assert first["inputTokens"] == 120


@pytest.mark.parametrize(
    ("line", "headers", "status"),
    [
        ("GET /", {"Host": "evil.example"}, 403),
        ("GET /api/runs", {"Host": "evil.example"}, 403),
        ("POST /v1/traces", {"Host": "evil.example"}, 403),
        ("GET /api/runs", {"Origin": "https://evil.example"}, 403),
        ("GET /api/runs", {"Authorization": ""}, 401),
        ("GET /api/runs", {"Authorization": "Bearer token-of-the-viewes"}, 401),
        ("GET /api/runs/session-r1", {"Authorization": ""}, 401),
        ("GET /api/health", {"Authorization": ""}, 401),
        ("POST /api/stop", {"Authorization": ""}, 401),
        ("POST /api/stop", {"Origin": "https://evil.example"}, 403),
        ("GET /api/stop", {}, 405),
        ("GET /api/runs/nope", {}, 404),
        ("GET /page/..%2fserver.py", {}, 404),
        ("GET /page/server.py", {}, 404),
        ("PUT /", {}, 405),
        ("GET /v1/traces", {}, 405),
        ("POST /v1/traces", {"Origin": "https://evil.example", "Content-Type": "application/json"}, 403),
        ("POST /v1/traces", {"Sec-Fetch-Site": "cross-site", "Content-Type": "application/json"}, 403),
        ("POST /v1/metrics", {"Sec-Fetch-Site": "cross-site", "Content-Type": "application/json"}, 403),
        ("POST /v1/traces", {"Content-Type": "text/plain"}, 415),
        ("POST /v1/traces", {"Content-Type": "application/json"}, 400),
        ("POST /v1/traces", {"Content-Encoding": "br", "Content-Type": "application/json"}, 415),
        ("POST /v1/metrics", {"Authorization": "", "Content-Type": "application/json"}, 200),
        ("POST /v1/logs", {"Authorization": "", "Content-Type": "application/json"}, 200),
    ],
)
async def test_access_control(running: RunningViewer, line: str, headers: dict[str, str], status: int) -> None:
    method, _, path = line.partition(" /")
    received, _, body = await running.ask(method, path, b"", **headers)
    assert received == status
    assert b"--allow" not in body  # the command has no such options
    assert (await running.ask("GET", "api/health"))[0] == 200


async def test_bodies_can_be_compressed_but_not_too_large(running: RunningViewer) -> None:
    data = request(SPAN)
    bomb = gzip.compress(b"0" * (33 * 1024 * 1024))

    assert (await running.send_spans(gzip.compress(data), Content_Encoding="gzip"))[0] == 200
    assert (await running.send_spans(zlib.compress(data), Content_Encoding="deflate"))[0] == 200
    assert (await running.send_spans(data, Content_Encoding="gzip"))[0] == 400
    assert (await running.send_spans(bomb, Content_Encoding="gzip"))[0] == 413
    assert len(running.viewer.store.runs()) == 1


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"[" * 100_000, "application/json", 400),
        (b"\xff\xff\xff", "application/x-protobuf", 400),
        (b'{"resourceSpans":[{"scopeSpans":[{"spans":[{}]}]}]}', "application/json", 400),
    ],
)
async def test_invalid_body_is_rejected_without_an_error_log(
    running: RunningViewer, caplog: pytest.LogCaptureFixture, body: bytes, kind: str, status: int
) -> None:
    assert (await running.send_spans(body, kind))[0] == status
    assert [r for r in caplog.records if r.name.startswith(("mainspring", "uvicorn"))] == []


@pytest.mark.covers("CLI-17")
async def test_stop_request_with_the_token_stops_the_viewer() -> None:
    viewer, listening = Viewer(token=TOKEN), open_socket(ServerOptions(port=0))
    serving = asyncio.create_task(viewer.server.serve_until_stopped(listening))
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}) as session:
        async with session.post(f"{local_url(listening)}api/stop") as answer:
            assert (answer.status, await answer.json()) == (200, {"stopping": True})
    await serving


def make_span(trace: str, id: str, parent: str = "") -> ReceivedSpan:
    return ReceivedSpan(trace, "shop", ViewSpan(id=id, parent=parent, name=id, start=1.0, end=2.0))


def test_span_store_has_limits() -> None:
    store = SpanStore(traces=3)
    for n in range(5):
        store.add([make_span(f"t{n}", "a")])
    store.add([make_span("t2", "b", "a")])

    assert [r.id for r in store.runs()] == ["otlp-t3", "otlp-t4", "otlp-t2"]
    assert store.run("otlp-t0") is None
    trace = Trace("t")
    for n in range(5010):
        trace.add(make_span("t", f"s{n}", "root"))
    trace.add(make_span("t", "s1", "root"))
    assert (len(trace.spans), trace.dropped) == (5000, 10)


def test_late_root_span_of_a_huge_run_is_kept() -> None:
    trace = Trace("t")
    for n in range(6000):
        trace.add(make_span("t", f"s{n}", "root"))
    assert trace.summary().status == "running"

    trace.add(make_span("t", "root"))

    created = trace.summary()
    assert (created.status, created.end, created.dropped) == ("completed", 2.0, 1000)
