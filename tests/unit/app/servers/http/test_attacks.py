"""Attacks without a token or with another tenant's token: every route, raw connections, and unusual bodies."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from mainspring.app.servers.http.auth import TenantTokens, watch_token_file
from mainspring.app.servers.http.routes import OPERATIONS
from mainspring.app.servers.http.server import MAX_JSON_DEPTH, is_json_too_deep
from mainspring.app.servers.http.sse import StreamTimeouts
from mainspring.app.servers.http.state import Limits
from mainspring.testing import ScriptedCall
from tests.unit.app.servers.ag_ui.client import Thread
from tests.unit.app.servers.http.harness import ANN, BEN, Client, Gate, RunningServer, run_server, script_agent

BODIES: dict[str, Any] = {
    "startRun": {"prompt": "x"},
    "steerRun": {"text": "x"},
    "followUpRun": {"text": "x"},
    "approveCall": {"call_id": "x"},
    "denyCall": {"call_id": "x"},
    "abortRun": {},
    "forkRun": {"prompt": "x"},
    "runAgent": {"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "user", "content": "x"}]},
}


async def test_token_is_checked_before_the_body_and_the_run():
    """Open operations need no token."""
    async with run_server({"bot": script_agent("a")}) as server:
        run = await server.ann.start()
        await server.ann.wait_for_result(run)
        for operation in OPERATIONS:
            assert (operation.method == "POST") == (operation.name in BODIES), (
                "add a body for the new operation to BODIES"
            )
            path, body = operation.path.replace("{run_id}", run)[1:], BODIES.get(operation.name)
            for client in (server.anonymous, Client(server.url, server.session, "wrong-0123456789abcdef")):
                answers = [await client.ask(operation.method, path, given) for given in (body, body and ["odd"])]
                received = {(status, "" if status == 200 else answer["code"]) for status, answer in answers}
                assert received == {(200, "") if operation.open else (401, "unauthorized")}, path
        assert len((await server.ann.get("v1/runs"))[1]["runs"]) == 1


@pytest.mark.parametrize(
    "path",
    [
        "page/..%2f..%2f..%2fetc%2fpasswd",
        "page/%2e%2e/v1/agents",
        "page/../v1/runs",
        "page//v1/runs",
        "page/page.js/../../v1/runs",
        "page/tokens",
        "page/%00",
        "//v1/runs",
        "v1/../v1/runs",
        "V1/runs",
        "v1/runs/",
        "health/../v1/runs",
    ],
)
async def test_encoded_paths_do_not_bypass_the_token(path: str):
    async with run_server({"bot": script_agent("a")}) as server, connect(server) as (reader, writer):
        writer.write(f"GET /{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = await reader.read()
        assert answer.split()[1] in (b"401", b"404"), answer
        assert b"root:" not in answer
        assert b"runs" not in answer.partition(b"\r\n\r\n")[2]


@asynccontextmanager
async def connect(server: RunningServer) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Open a raw connection."""
    place = urlsplit(server.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        yield reader, writer
    finally:
        writer.close()


HEAD = f"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ANN}\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize("sent", ["", "GET /hea", "GET /health HTTP/1.1\r\nHost: loc", HEAD])
async def test_slow_request_head_is_cut_off(sent: str):
    async with run_server({"bot": script_agent("a")}, timeouts=StreamTimeouts(request=1.0)) as server:
        async with connect(server) as (reader, writer):
            writer.write(sent.encode())
            try:
                assert await reader.read() == b""
            except ConnectionResetError:
                pass
        assert (await server.anonymous.get("health"))[0] == 200


async def test_slow_request_gets_no_extra_time():
    async with run_server({"bot": script_agent("a")}, timeouts=StreamTimeouts(request=1.0)) as server:
        async with connect(server) as (reader, writer):
            ended = asyncio.ensure_future(reader.read())
            while not ended.done():
                writer.write(b"X")
                await asyncio.wait([ended], timeout=0.02)
            assert ended.exception() is not None or ended.result() == b""


async def test_missing_body_times_out():
    async with run_server({"bot": script_agent("a")}, timeouts=StreamTimeouts(request=1.0)) as server:
        async with connect(server) as (reader, writer):
            writer.write(f"{HEAD}Content-Length: 100\r\n\r\n{{".encode())
            answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b'"code":"too_slow"' in answer
        assert (await server.ann.get("v1/runs"))[1] == {"runs": []}


async def test_streams_and_idle_connections_are_not_slow_requests():
    gate, ask = Gate("over"), b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with run_server({"bot": script_agent(gate)}, timeouts=StreamTimeouts(request=0.1, beat=0.02)) as server:
        run = await server.ann.start()
        async with connect(server) as idle, connect(server) as (reader, writer):
            idle[1].write(ask)
            assert (await idle[0].readuntil(b"}")).startswith(b"HTTP/1.1 200")
            writer.write(f"GET /v1/runs/{run}/events HTTP/1.1\r\nHost: localhost\r\n".encode())
            writer.write(f"Authorization: Bearer {ANN}\r\nConnection: close\r\n\r\n".encode())
            for _ in range(10):  # longer than the request timeout
                await reader.readuntil(b": still there")
            idle[1].write(ask)
            assert (await idle[0].readuntil(b"}")).startswith(b"HTTP/1.1 200")
            gate.open.set()
            assert b"event: agent_end" in await reader.read()


@pytest.mark.parametrize(
    "head",
    [
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"y" * 1000) for n in range(200)),
        b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
        b"GET /health HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked, identity\r\n\r\n",
    ],
)  # fmt: skip
async def test_malformed_request_heads_are_rejected(head: bytes):
    async with run_server({"bot": script_agent("a")}, timeouts=StreamTimeouts(request=1.0)) as server:
        async with connect(server) as (reader, writer):
            try:
                writer.write(head)
                answer = await reader.read()
            except ConnectionResetError:
                answer = b""
            assert not answer or 400 <= int(answer.split()[1]) < 600, answer
        assert (await server.anonymous.get("health"))[0] == 200


@pytest.mark.parametrize(("open", "shut"), [("[", "]"), ('{"a":', "}")])
def test_json_depth_ignores_brackets_in_strings(open: str, shut: str):
    inner = '"' + '[{\\"' * 500 + '"'
    for levels, deep in ((MAX_JSON_DEPTH, False), (MAX_JSON_DEPTH + 1, True)):
        body = open * levels + inner + shut * levels
        assert is_json_too_deep(body.encode()) == deep
    wide = f"[{','.join(['[]'] * 1000)}]"
    assert not is_json_too_deep(wide.encode())


@pytest.mark.parametrize("name", ["state", "forwardedProps"])
async def test_deeply_nested_input_is_rejected(name: str):
    """Accepted input must be safe for all later processing."""
    async with run_server({"bot": script_agent("a")}) as server:
        thread = Thread(server.ann)
        for levels, status in ((MAX_JSON_DEPTH - 2, 200), (MAX_JSON_DEPTH + 1, 400), (100_000, 400)):
            given = json.dumps(thread.make_input("hello", **{name: "@"})).replace('"@"', "[" * levels + "]" * levels)
            headers = {"authorization": f"Bearer {ANN}", "content-type": "application/json"}
            async with server.session.post(f"{server.url}v1/ag-ui", data=given, headers=headers) as answer:
                received = await answer.text()
                assert answer.status == status
                assert ("RUN_FINISHED" in received) == (status == 200), received


async def test_deep_approval_arguments_are_rejected_and_the_call_stays_pending():
    async with run_server({"bot": script_agent(ScriptedCall("note", {"text": "x"}), "over")}) as server:
        run = await server.ann.start()
        call = (await server.ann.wait_for_state(run, "paused"))["waiting"][0]["call_id"]
        deep: Any = "x"
        for _ in range(MAX_JSON_DEPTH):
            deep = {"a": deep}
        assert (await server.ann.post(f"v1/runs/{run}/approve", {"call_id": call, "input": deep}))[0] == 400
        assert (await server.ann.get(f"v1/runs/{run}"))[1]["state"] == "paused"
        assert (await server.ann.post(f"v1/runs/{run}/approve", {"call_id": call, "input": {"text": "y"}}))[0] == 202
        assert (await server.ann.wait_for_result(run))["status"] == "completed"


@pytest.mark.parametrize("id", ["-1", "1.", ".1", "1.1.1", "1e3", "x", "9" * 40, "1;2", "٣", "%00", "../1", " "])
async def test_invalid_event_ids_are_rejected(id: str):
    async with run_server({"bot": script_agent("a")}) as server:
        run = await server.ann.start()
        await server.ann.wait_for_result(run)
        async with connect(server) as (reader, writer):
            head = f"GET /v1/runs/{run}/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ANN}\r\n"
            writer.write(f"{head}Last-Event-ID: {id}\r\nConnection: close\r\n\r\n".encode())
            answer = await reader.read()
        assert answer.split()[1] == (b"422" if id.strip() else b"200"), answer


async def test_threads_with_the_same_name_are_separate_per_tenant():
    async with run_server({"bot": script_agent(ScriptedCall("note", {"text": "x"}), "over")}) as server:
        ann, ben = Thread(server.ann), Thread(server.ben)
        await ann.ask("hello")
        await ben.ask("hello")
        assert ann.location != ben.location
        assert (await server.ben.get(ann.location[1:]))[0] == 404
        status, rejected = await ben.post_rejected({**ben.make_input(), "resume": []})
        assert (status, rejected["code"]) == (409, "interrupted")
        assert "ann." not in rejected["message"]


async def test_metrics_have_a_bounded_number_of_labels():
    async with run_server({"bot": script_agent("a")}) as server:
        await server.ann.start()
        before = (await server.ann.get("metrics"))[1]
        for n in range(10):
            await server.ann.get(f"v1/odd/{n}")
            await server.ann.get(f"v1/runs/ann.{n}")
            await server.ann.ask("BREW", f"v1/runs/{n}")
            await server.anonymous.get(f"x{n}")
        after = (await server.ann.get("metrics"))[1]
    assert len(after.splitlines()) <= len(before.splitlines()) + 10
    assert "ann" not in after


async def test_removed_token_is_rejected_after_a_reload(tmp_path: Path):
    file, notices = tmp_path / "tokens", asyncio.Queue[str]()
    file.write_text(f"ann {ANN}\nben {BEN}\n")
    tokens = TenantTokens({ANN: "ann", BEN: "ben"})
    watching = asyncio.ensure_future(watch_token_file(file, tokens, notices.put_nowait, interval_seconds=0.01))
    try:
        file.write_text("ann short\n")  # before the first check
        assert "The previous tokens stay valid" in await notices.get()
        assert tokens.tenant(BEN) == "ben"
        file.unlink()
        assert "No such file" in await notices.get()
        file.write_text(f"ann {ANN}\n")
        assert "Reloaded" in await notices.get()
        assert [tokens.tenant(ANN), tokens.tenant(BEN)] == ["ann", None]
    finally:
        watching.cancel()


async def test_stream_ends_when_its_token_is_revoked():
    gate = Gate("the secret")
    async with run_server({"bot": script_agent(gate)}) as server:
        run = await server.ann.start()
        ann, ben = server.ann.follow(run), Thread(server.ben)
        await anext(ann)
        async with ben.post(ben.make_input("hello")) as answer:
            server.tokens.replace({BEN: "ben", "another-0123456789abcdef": "ann"})
            gate.open.set()
            assert [e.data async for e in ann if e.name == "message_end" and "secret" in str(e.data)] == []
            assert b"RUN_FINISHED" in await answer.content.read()
        assert (await server.ann.get(f"v1/runs/{run}"))[0] == 401
        other = Client(server.url, server.session, "another-0123456789abcdef")
        assert (await other.wait_for_result(run))["text"] == "the secret"


async def test_oversized_body_is_not_read_to_the_end():
    async with run_server({"bot": script_agent("a")}, limits=Limits(body=1_000, requests=1_000_000)) as server:
        async with connect(server) as (reader, writer):
            writer.write(f"{HEAD}Content-Length: 1000000000000\r\n\r\n".encode())
            assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
        async with connect(server) as (reader, writer):
            writer.write(f"{HEAD}Transfer-Encoding: chunked\r\n\r\n".encode())
            writer.write(b"200\r\n" + b" " * 512 + b"\r\n" + b"200\r\n" + b" " * 512 + b"\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
