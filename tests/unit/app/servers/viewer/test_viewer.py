"""The viewer as a browser, an exporter and a stranger meet it."""

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


class Stored:
    """Runs that are known from elsewhere."""

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
    made = Viewer(Stored(), token="the-token")
    await made.start()
    yield made
    await made.aclose()


async def ask(viewer: Viewer, text: str, body: bytes = b"", **headers: str) -> tuple[int, dict[str, str], bytes]:
    """One exchange over a real connection."""
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


async def runs(viewer: Viewer) -> list[Any]:
    return json.loads((await ask(viewer, "GET /the-token/api/runs"))[2])["runs"]


@pytest.mark.covers("CLI-17")
async def test_the_page_and_what_it_loads(viewer: Viewer) -> None:
    for path, kind in (("", "text/html"), ("page.js", "text/javascript"), ("page.css", "text/css")):
        status, headers, body = await ask(viewer, f"GET /the-token/{path}")
        assert status == 200
        assert headers["content-type"].startswith(kind)
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["cache-control"] == "no-store"
        assert len(body) == int(headers["content-length"]) > 500
    status, headers, body = await ask(viewer, "HEAD /the-token/")
    assert (status, body) == (200, b"")


async def test_runs_that_are_stored_and_runs_that_come_in_are_one_list(viewer: Viewer) -> None:
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

    assert [r["id"] for r in await runs(viewer)] == ["session-r1", "session-r2"]
    status, _, body = await ask(viewer, "POST /v1/traces", request(call, span), Content_Type="application/json")
    assert (status, body) == (200, b"{}")

    listed = await runs(viewer)
    assert [r["id"] for r in listed] == [f"otlp-{SPAN['traceId'].lower()}", "session-r2"]
    assert (listed[0]["title"], listed[0]["place"], listed[0]["status"]) == ("Fix the test", "/src", "error")
    detail = json.loads((await ask(viewer, f"GET /the-token/api/runs/{listed[0]['id']}"))[2])
    by_id = {s["id"]: s for s in detail["spans"]}
    assert by_id["1" * 16]["output"] == "value"
    assert detail["messages"] == [{"kind": "user", "text": "Fix it"}]
    assert json.loads((await ask(viewer, "GET /the-token/api/runs/session-r2"))[2])["summary"]["title"] == "Older"


async def test_a_trace_whose_root_is_still_on_its_way_is_running(viewer: Viewer) -> None:
    await ask(viewer, "POST /v1/traces", request(SPAN), Content_Type="application/json")

    (first, *_) = await runs(viewer)
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
async def test_who_may_do_what(viewer: Viewer, line: str, headers: dict[str, str], status: int) -> None:
    assert (await ask(viewer, line, b"", **headers))[0] == status
    assert not viewer.stopped.is_set()


async def test_bodies_may_be_packed_or_in_chunks(viewer: Viewer) -> None:
    data = request(SPAN)
    bomb = gzip.compress(b"0" * (33 * 1024 * 1024))
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in (data[:100], data[100:])) + b"0\r\n\r\n"
    json_type = {"Content_Type": "application/json"}

    assert (await ask(viewer, "POST /v1/traces", gzip.compress(data), Content_Encoding="gzip", **json_type))[0] == 200
    assert (await ask(viewer, "POST /v1/traces", zlib.compress(data), Content_Encoding="deflate", **json_type))[
        0
    ] == 200
    assert (await ask(viewer, "POST /v1/traces", bomb, Content_Encoding="gzip", **json_type))[0] == 413
    assert (await ask(viewer, "POST /v1/traces", chunks, Transfer_Encoding="chunked", **json_type))[0] == 200
    assert len(viewer.store.runs()) == 1


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"[" * 100_000, "application/json", 400),
        (b"\xff\xff\xff", "application/x-protobuf", 400),
        (b'{"resourceSpans":[{"scopeSpans":[{"spans":[{}]}]}]}', "application/json", 400),
    ],
)
async def test_what_is_broken_is_refused_and_no_failure_of_the_viewer(
    viewer: Viewer, caplog: pytest.LogCaptureFixture, body: bytes, kind: str, status: int
) -> None:
    assert (await ask(viewer, "POST /v1/traces", body, Content_Type=kind))[0] == status
    assert caplog.records == []


@pytest.mark.parametrize("chunks", [b"5" * 20_000 + b"\r\n", b"0\r\n" + b"x" * 20_000 + b"\r\n", b"-5\r\n", b"x\r\n"])
async def test_broken_chunks_are_refused(viewer: Viewer, caplog: pytest.LogCaptureFixture, chunks: bytes) -> None:
    status, _, _ = await ask(
        viewer, "POST /v1/traces", chunks, Transfer_Encoding="chunked", Content_Type="application/json"
    )
    assert status in {400, 413}
    assert caplog.records == []


@pytest.mark.covers("CLI-17")
async def test_whoever_has_the_address_may_stop_it(viewer: Viewer) -> None:
    assert (await ask(viewer, "POST /the-token/api/stop"))[0] == 200
    assert viewer.stopped.is_set()


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300))
async def test_whatever_is_sent_it_goes_on(viewer: Viewer, data: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(viewer.endpoint.rpartition(":")[2]))
    writer.write(data + b"\r\n\r\n")
    writer.write_eof()
    await asyncio.wait_for(reader.read(), 5)
    writer.close()

    assert (await ask(viewer, "GET /the-token/api/health"))[0] == 200


def received(trace: str, id: str, parent: str = "") -> ReceivedSpan:
    return ReceivedSpan(trace, "shop", ViewSpan(id=id, parent=parent, name=id, start=1.0, end=2.0))


def test_what_is_kept_has_limits() -> None:
    store = SpanStore(traces=3)
    for n in range(5):
        store.add([received(f"t{n}", "a")])
    store.add([received("t2", "b", "a")])

    assert [r.id for r in store.runs()] == ["otlp-t3", "otlp-t4", "otlp-t2"]
    assert store.run("otlp-t0") is None
    trace = Trace("t")
    for n in range(5010):
        trace.add(received("t", f"s{n}", "root"))
    trace.add(received("t", "s1", "root"))
    assert (len(trace.spans), trace.dropped) == (5000, 10)


def test_of_a_huge_run_the_end_is_known_although_it_comes_last() -> None:
    trace = Trace("t")
    for n in range(6000):
        trace.add(received("t", f"s{n}", "root"))
    assert trace.summary().status == "running"

    trace.add(received("t", "root"))

    made = trace.summary()
    assert (made.status, made.end, made.dropped) == ("completed", 2.0, 1000)
