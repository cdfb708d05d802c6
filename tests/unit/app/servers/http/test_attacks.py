"""What somebody may try who has no token, or one of another tenant: on every route, over the raw connection, with odd bodies."""

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
from tests.unit.app.servers.http.harness import ANN, BEN, Client, Gate, Stage, on_stage, scripted

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


async def test_every_operation_needs_a_token_unless_it_is_open():
    """And it is asked for before anything else is looked at, as the body or the run."""
    async with on_stage({"bot": scripted("a")}) as stage:
        run = await stage.ann.start()
        await stage.ann.ended(run)
        for operation in OPERATIONS:
            assert (operation.method == "POST") == (operation.name in BODIES), "a new operation has a body here too"
            path, body = operation.path.replace("{run_id}", run)[1:], BODIES.get(operation.name)
            for client in (stage.nobody, Client(stage.url, stage.session, "wrong-0123456789abcdef")):
                answers = [await client.ask(operation.method, path, given) for given in (body, body and ["odd"])]
                told = {(status, "" if status == 200 else answer["code"]) for status, answer in answers}
                assert told == {(200, "") if operation.open else (401, "unauthorized")}, path
        assert len((await stage.ann.get("v1/runs"))[1]["runs"]) == 1


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
async def test_no_way_of_writing_a_path_leads_past_the_token(path: str):
    async with on_stage({"bot": scripted("a")}) as stage, connected(stage) as (reader, writer):
        writer.write(f"GET /{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = await reader.read()
        assert answer.split()[1] in (b"401", b"404"), answer
        assert b"root:" not in answer
        assert b"runs" not in answer.partition(b"\r\n\r\n")[2]


@asynccontextmanager
async def connected(stage: Stage) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection of its own."""
    place = urlsplit(stage.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        yield reader, writer
    finally:
        writer.close()


HEAD = f"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ANN}\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize("sent", ["", "GET /hea", "GET /health HTTP/1.1\r\nHost: loc", HEAD])
async def test_a_request_whose_head_trickles_in_is_cut_off(sent: str):
    async with on_stage({"bot": scripted("a")}, patience=StreamTimeouts(request=0.2)) as stage:
        async with connected(stage) as (reader, writer):
            writer.write(sent.encode())
            try:
                assert await reader.read() == b""
            except ConnectionResetError:
                pass
        assert (await stage.nobody.get("health"))[0] == 200


async def test_one_that_trickles_on_gets_no_more_time_for_it():
    async with on_stage({"bot": scripted("a")}, patience=StreamTimeouts(request=0.3)) as stage:
        async with connected(stage) as (reader, writer):
            ended = asyncio.ensure_future(reader.read())
            while not ended.done():
                writer.write(b"X")
                await asyncio.wait([ended], timeout=0.02)
            assert ended.exception() is not None or ended.result() == b""


async def test_a_body_that_does_not_come_is_not_waited_for():
    async with on_stage({"bot": scripted("a")}, patience=StreamTimeouts(request=0.2)) as stage:
        async with connected(stage) as (reader, writer):
            writer.write(f"{HEAD}Content-Length: 100\r\n\r\n{{".encode())
            answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b'"code":"too_slow"' in answer
        assert (await stage.ann.get("v1/runs"))[1] == {"runs": []}


async def test_a_stream_and_a_connection_that_is_kept_are_no_slow_requests():
    gate, ask = Gate("over"), b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with on_stage({"bot": scripted(gate)}, patience=StreamTimeouts(request=0.1, beat=0.02)) as stage:
        run = await stage.ann.start()
        async with connected(stage) as kept, connected(stage) as (reader, writer):
            kept[1].write(ask)
            assert (await kept[0].readuntil(b"}")).startswith(b"HTTP/1.1 200")
            writer.write(f"GET /v1/runs/{run}/events HTTP/1.1\r\nHost: localhost\r\n".encode())
            writer.write(f"Authorization: Bearer {ANN}\r\nConnection: close\r\n\r\n".encode())
            for _ in range(10):  # longer than a request may take to arrive
                await reader.readuntil(b": still there")
            kept[1].write(ask)
            assert (await kept[0].readuntil(b"}")).startswith(b"HTTP/1.1 200")
            gate.open.set()
            assert b"event: end" in await reader.read()


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
async def test_heads_that_are_none_are_refused(head: bytes):
    async with on_stage({"bot": scripted("a")}, patience=StreamTimeouts(request=1.0)) as stage:
        async with connected(stage) as (reader, writer):
            try:
                writer.write(head)
                answer = await reader.read()
            except ConnectionResetError:
                answer = b""
            assert not answer or 400 <= int(answer.split()[1]) < 600, answer
        assert (await stage.nobody.get("health"))[0] == 200


@pytest.mark.parametrize(("open", "shut"), [("[", "]"), ('{"a":', "}")])
def test_how_deep_a_body_is_does_not_depend_on_what_its_texts_say(open: str, shut: str):
    inner = '"' + '[{\\"' * 500 + '"'
    for levels, deep in ((MAX_JSON_DEPTH, False), (MAX_JSON_DEPTH + 1, True)):
        body = open * levels + inner + shut * levels
        assert is_json_too_deep(body.encode()) == deep
    wide = f"[{','.join(['[]'] * 1000)}]"
    assert not is_json_too_deep(wide.encode())


@pytest.mark.parametrize("name", ["state", "forwardedProps"])
async def test_what_is_nested_without_end_begins_nothing(name: str):
    """Whatever is let in must come through all that handles it."""
    async with on_stage({"bot": scripted("a")}) as stage:
        thread = Thread(stage.ann)
        for levels, status in ((MAX_JSON_DEPTH - 2, 200), (MAX_JSON_DEPTH + 1, 400), (100_000, 400)):
            given = json.dumps(thread.input("hello", **{name: "@"})).replace('"@"', "[" * levels + "]" * levels)
            headers = {"authorization": f"Bearer {ANN}", "content-type": "application/json"}
            async with stage.session.post(f"{stage.url}v1/ag-ui", data=given, headers=headers) as answer:
                told = await answer.text()
                assert answer.status == status
                assert ("RUN_FINISHED" in told) == (status == 200), told


async def test_deep_arguments_of_an_approval_are_refused_and_the_call_still_waits():
    async with on_stage({"bot": scripted(ScriptedCall("note", {"text": "x"}), "over")}) as stage:
        run = await stage.ann.start()
        call = (await stage.ann.until(run, "paused"))["waiting"][0]["call_id"]
        deep: Any = "x"
        for _ in range(MAX_JSON_DEPTH):
            deep = {"a": deep}
        assert (await stage.ann.post(f"v1/runs/{run}/approve", {"call_id": call, "input": deep}))[0] == 400
        assert (await stage.ann.get(f"v1/runs/{run}"))[1]["state"] == "paused"
        assert (await stage.ann.post(f"v1/runs/{run}/approve", {"call_id": call, "input": {"text": "y"}}))[0] == 202
        assert (await stage.ann.ended(run))["status"] == "completed"


@pytest.mark.parametrize("id", ["-1", "1.", ".1", "1.1.1", "1e3", "x", "9" * 40, "1;2", "٣", "%00", "../1", " "])
async def test_ids_of_events_that_are_none(id: str):
    async with on_stage({"bot": scripted("a")}) as stage:
        run = await stage.ann.start()
        await stage.ann.ended(run)
        async with connected(stage) as (reader, writer):
            head = f"GET /v1/runs/{run}/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ANN}\r\n"
            writer.write(f"{head}Last-Event-ID: {id}\r\nConnection: close\r\n\r\n".encode())
            answer = await reader.read()
        assert answer.split()[1] == (b"422" if id.strip() else b"200"), answer


async def test_a_tenants_token_says_nothing_of_others_by_agui_threads_of_the_same_name():
    async with on_stage({"bot": scripted(ScriptedCall("note", {"text": "x"}), "over")}) as stage:
        ann, ben = Thread(stage.ann), Thread(stage.ben)
        await ann.ask("hello")
        await ben.ask("hello")
        assert ann.location != ben.location
        assert (await stage.ben.get(ann.location[1:]))[0] == 404
        status, rejected = await ben.refused({**ben.input(), "resume": []})
        assert (status, rejected["code"]) == (409, "interrupted")
        assert "ann." not in rejected["message"]


async def test_figures_have_few_labels_whatever_is_asked():
    async with on_stage({"bot": scripted("a")}) as stage:
        await stage.ann.start()
        before = (await stage.ann.get("metrics"))[1]
        for n in range(10):
            await stage.ann.get(f"v1/odd/{n}")
            await stage.ann.get(f"v1/runs/ann.{n}")
            await stage.ann.ask("BREW", f"v1/runs/{n}")
            await stage.nobody.get(f"x{n}")
        after = (await stage.ann.get("metrics"))[1]
    assert len(after.splitlines()) <= len(before.splitlines()) + 10
    assert "ann" not in after


async def test_a_token_that_is_taken_out_of_the_file_is_refused(tmp_path: Path):
    file, said = tmp_path / "tokens", asyncio.Queue[str]()
    file.write_text(f"ann {ANN}\nben {BEN}\n")
    tokens = TenantTokens({ANN: "ann", BEN: "ben"})
    keeping = asyncio.ensure_future(watch_token_file(file, tokens, said.put_nowait, interval_seconds=0.01))
    try:
        await asyncio.wait([keeping], timeout=0.03)
        file.write_text("ann short\n")
        assert "The previous tokens stay valid" in await said.get()
        assert tokens.tenant(BEN) == "ben"
        file.unlink()
        assert "No such file" in await said.get()
        file.write_text(f"ann {ANN}\n")
        assert "Reloaded" in await said.get()
        assert [tokens.tenant(ANN), tokens.tenant(BEN)] == ["ann", None]
    finally:
        keeping.cancel()


async def test_a_stream_ends_where_its_token_is_taken_away():
    gate = Gate("the secret")
    async with on_stage({"bot": scripted(gate)}) as stage:
        run = await stage.ann.start()
        ann, ben = stage.ann.follow(run), Thread(stage.ben)
        await anext(ann)
        async with ben.post(ben.input("hello")) as answer:
            stage.tokens.replace({BEN: "ben", "another-0123456789abcdef": "ann"})
            gate.open.set()
            assert [e.data async for e in ann if e.name == "message" and "secret" in str(e.data)] == []
            assert b"RUN_FINISHED" in await answer.content.read()
        assert (await stage.ann.get(f"v1/runs/{run}"))[0] == 401
        other = Client(stage.url, stage.session, "another-0123456789abcdef")
        assert (await other.ended(run))["text"] == "the secret"


async def test_a_body_over_the_limit_is_not_read_to_its_end():
    async with on_stage({"bot": scripted("a")}, limits=Limits(body=1_000, requests=1_000_000)) as stage:
        async with connected(stage) as (reader, writer):
            writer.write(f"{HEAD}Content-Length: 1000000000000\r\n\r\n".encode())
            assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
        async with connected(stage) as (reader, writer):
            writer.write(f"{HEAD}Transfer-Encoding: chunked\r\n\r\n".encode())
            writer.write(b"200\r\n" + b" " * 512 + b"\r\n" + b"200\r\n" + b" " * 512 + b"\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
