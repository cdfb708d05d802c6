"""The viewer with browsers, exporters, and attackers."""

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mainspring.app.servers.viewer import RunDetail, Summary, Viewer, ViewSpan
from mainspring.app.servers.viewer.otlp import ReceivedSpan
from mainspring.app.servers.viewer.server import SpanStore, Trace
from tests.unit.app.servers.viewer.test_otlp import SPAN, request

pytestmark = pytest.mark.usefixtures("no_blocking")


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


@pytest.fixture
async def viewer() -> AsyncIterator[Viewer]:
    created = Viewer(StoredRuns(), token="the-token")
    await created.start()
    yield created
    await created.aclose()


async def send_request(
    viewer: Viewer, text: str, body: bytes = b"", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """Send one request over a real connection."""
    port = viewer.endpoint.rpartition(":")[2]
    reader, writer = await asyncio.open_connection("127.0.0.1", int(port))
    given = {"Host": f"127.0.0.1:{port}", "Connection": "close", **{k.replace("_", "-"): v for k, v in headers.items()}}
    if body and "Transfer-Encoding" not in given:
        given.setdefault("Content-Length", str(len(body)))
    lines = [f"{text} HTTP/1.1", *[f"{k}: {v}" for k, v in given.items() if v]]
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    answer = await asyncio.wait_for(reader.read(), 5)
    writer.close()
    head, _, rest = answer.partition(b"\r\n\r\n")
    first, *more = head.decode().split("\r\n")
    return int(first.split()[1]), {k.lower(): v for k, _, v in (line.partition(": ") for line in more)}, rest


async def list_runs(viewer: Viewer) -> list[Any]:
    return json.loads((await send_request(viewer, "GET /the-token/api/runs"))[2])["runs"]


@pytest.mark.covers("CLI-17")
async def test_page_and_its_assets_are_served(viewer: Viewer) -> None:
    for path, kind in (("", "text/html"), ("page.js", "text/javascript"), ("page.css", "text/css")):
        status, headers, body = await send_request(viewer, f"GET /the-token/{path}")
        assert status == 200
        assert headers["content-type"].startswith(kind)
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["cache-control"] == "no-store"
        assert len(body) == int(headers["content-length"]) > 500
    status, headers, body = await send_request(viewer, "HEAD /the-token/")
    assert (status, body) == (200, b"")


async def test_stored_and_received_runs_are_one_list(viewer: Viewer) -> None:
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

    assert [r["id"] for r in await list_runs(viewer)] == ["session-r1", "session-r2"]
    status, _, body = await send_request(
        viewer, "POST /v1/traces", request(call, span), Content_Type="application/json"
    )
    assert (status, body) == (200, b"{}")

    listed = await list_runs(viewer)
    assert [r["id"] for r in listed] == [f"otlp-{SPAN['traceId'].lower()}", "session-r2"]
    assert (listed[0]["title"], listed[0]["place"], listed[0]["status"]) == ("Fix the test", "/src", "error")
    detail = json.loads((await send_request(viewer, f"GET /the-token/api/runs/{listed[0]['id']}"))[2])
    by_id = {s["id"]: s for s in detail["spans"]}
    assert by_id["1" * 16]["output"] == "value"
    assert detail["messages"] == [{"kind": "user", "text": "Fix it"}]
    assert (
        json.loads((await send_request(viewer, "GET /the-token/api/runs/session-r2"))[2])["summary"]["title"] == "Older"
    )


async def test_trace_without_a_root_is_running(viewer: Viewer) -> None:
    await send_request(viewer, "POST /v1/traces", request(SPAN), Content_Type="application/json")

    (first, *_) = await list_runs(viewer)
    assert first.get("status", "running") == "running"
    assert "end" not in first
    assert first["inputTokens"] == 120


@pytest.mark.parametrize(
    ("line", "headers", "status"),
    [
        ("GET /the-token/", {"Host": "evil.example"}, 403),
        ("GET /the-token/", {"Host": ""}, 403),
        ("GET /", {}, 404),
        ("GET /the-token", {}, 404),
        ("GET /the-tokem/", {}, 404),
        ("GET /the-tokem/api/runs", {}, 404),
        ("GET /the-token/../server.py", {}, 404),
        ("GET /the-token/api/runs/nope", {}, 404),
        ("GET /the-token/api/stop", {}, 404),
        ("PUT /the-token/", {}, 405),
        ("GET /v1/traces", {}, 405),
        ("POST /v1/traces", {"Origin": "https://evil.example", "Content-Type": "application/json"}, 403),
        ("POST /v1/traces", {"Sec-Fetch-Site": "cross-site", "Content-Type": "application/json"}, 403),
        ("POST /v1/traces", {"Content-Type": "text/plain"}, 415),
        ("POST /v1/traces", {"Content-Type": "application/json"}, 400),
        ("POST /v1/traces", {"Content-Length": "99999999999"}, 413),
        ("POST /v1/traces", {"Content-Length": "-1"}, 400),
        ("POST /v1/traces", {"Content-Encoding": "br", "Content-Type": "application/json"}, 415),
        ("POST /v1/traces", {"Content-Encoding": "gzip", "Content-Length": "0"}, 415),
        ("POST /v1/metrics", {"Content-Type": "application/json"}, 200),
        ("POST /the-token/api/stop", {"Origin": "https://evil.example"}, 405),
        ("nonsense", {}, 400),
        ("GET nowhere", {}, 400),
        ("OPTIONS *", {}, 400),
        ("GET //[x", {}, 400),
        ("POST /v1/traces", {"Content-Length": "9" * 5000}, 413),
        ("GET /" + "x" * 20_000, {}, 413),
    ],
)
async def test_access_control(viewer: Viewer, line: str, headers: dict[str, str], status: int) -> None:
    assert (await send_request(viewer, line, b"", **headers))[0] == status
    assert not viewer.stopped.is_set()


async def test_bodies_can_be_compressed_or_chunked(viewer: Viewer) -> None:
    data = request(SPAN)
    bomb = gzip.compress(b"0" * (33 * 1024 * 1024))
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in (data[:100], data[100:])) + b"0\r\n\r\n"
    json_type = {"Content_Type": "application/json"}

    assert (await send_request(viewer, "POST /v1/traces", gzip.compress(data), Content_Encoding="gzip", **json_type))[
        0
    ] == 200
    assert (
        await send_request(viewer, "POST /v1/traces", zlib.compress(data), Content_Encoding="deflate", **json_type)
    )[0] == 200
    assert (await send_request(viewer, "POST /v1/traces", bomb, Content_Encoding="gzip", **json_type))[0] == 413
    assert (await send_request(viewer, "POST /v1/traces", chunks, Transfer_Encoding="chunked", **json_type))[0] == 200
    assert len(viewer.store.runs()) == 1


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"[" * 100_000, "application/json", 400),
        (b"\xff\xff\xff", "application/x-protobuf", 400),
        (b'{"resourceSpans":[{"scopeSpans":[{"spans":[{}]}]}]}', "application/json", 400),
    ],
)
async def test_invalid_body_is_rejected_without_an_error_log(
    viewer: Viewer, caplog: pytest.LogCaptureFixture, body: bytes, kind: str, status: int
) -> None:
    assert (await send_request(viewer, "POST /v1/traces", body, Content_Type=kind))[0] == status
    assert caplog.records == []


@pytest.mark.parametrize("chunks", [b"5" * 20_000 + b"\r\n", b"0\r\n" + b"x" * 20_000 + b"\r\n", b"-5\r\n", b"x\r\n"])
async def test_broken_chunks_are_rejected(viewer: Viewer, caplog: pytest.LogCaptureFixture, chunks: bytes) -> None:
    status, _, _ = await send_request(
        viewer, "POST /v1/traces", chunks, Transfer_Encoding="chunked", Content_Type="application/json"
    )
    assert status in {400, 413}
    assert caplog.records == []


@pytest.mark.covers("CLI-17")
async def test_stop_request_with_the_token_stops_the_viewer(viewer: Viewer) -> None:
    assert (await send_request(viewer, "POST /the-token/api/stop"))[0] == 200
    assert viewer.stopped.is_set()


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300))
async def test_viewer_survives_any_bytes(viewer: Viewer, data: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(viewer.endpoint.rpartition(":")[2]))
    writer.write(data + b"\r\n\r\n")
    writer.write_eof()
    await asyncio.wait_for(reader.read(), 5)
    writer.close()

    assert (await send_request(viewer, "GET /the-token/api/health"))[0] == 200


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
