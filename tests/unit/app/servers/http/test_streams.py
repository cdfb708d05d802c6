"""Followers: many, slow, and disconnected ones, and the resources they release."""

import asyncio
import gc
import re
import select
import socket
import weakref
from collections.abc import AsyncGenerator
from urllib.parse import urlsplit

import pytest

from mainspring import Agent, tool
from mainspring.app.servers.http.sse import EventEncoder, StreamTimeouts, WireEvent, encode_sse
from mainspring.durable import DurableSteps
from mainspring.durable.feed import FeedItem
from mainspring.events import TextDelta
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from tests.unit.app.servers.http.harness import ANN, Gate, RunningServer, run_server, script_agent


async def read_metric(server: RunningServer, name: str) -> float:
    text = (await server.ben.get("metrics"))[1]
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    assert found, text
    return float(found[1])


async def wait_for_metric(server: RunningServer, name: str, value: float) -> None:
    """Wait until a metric has a value."""
    while await read_metric(server, name) != value:
        pass


async def test_many_followers_get_all_events_and_release_resources():
    gate = Gate("the same for all")
    async with run_server({"bot": script_agent(gate)}) as server:
        run = await server.ann.start()

        async def follow() -> list[str]:
            return [f"{e.id} {e.name}" async for e in server.ann.follow(run)]

        following = [asyncio.ensure_future(follow()) for _ in range(100)]
        await wait_for_metric(server, "mainspring_followers", 100)
        gate.open.set()
        received = await asyncio.gather(*following)
        assert received[0][-1].endswith(" agent_end")
        assert all(each == received[0] for each in received)
        await wait_for_metric(server, "mainspring_followers", 0)


async def test_closed_connections_release_everything():
    gate = Gate()
    async with run_server({"bot": script_agent(gate)}) as server:
        run = await server.ann.start()
        await gate.asked.wait()
        before = len(asyncio.all_tasks())
        streams = [server.ann.follow(run) for _ in range(30)]
        for stream in streams:
            await anext(stream)
        assert len(asyncio.all_tasks()) > before + 30
        for stream in streams:
            await stream.aclose()
        await wait_for_metric(server, "mainspring_followers", 0)
        del streams
        gc.collect()
        while len(asyncio.all_tasks()) > before + 5:
            await read_metric(server, "mainspring_followers")
        gate.open.set()


def make_verbose_agent(steps: DurableSteps) -> Agent:
    """Return an agent whose run publishes about 20 MB."""

    @tool(idempotent=True)
    async def shout() -> str:
        """Return a large output."""
        return "x" * 500_000

    calls = [Reply(calls=[ScriptedCall("shout") for _ in range(10)]) for _ in range(2)]
    return Agent(ScriptedModel(*calls, "over"), tools=[shout], steps=steps, extra={})


async def test_slow_reader_is_disconnected_and_can_resume():
    timeouts = StreamTimeouts(reader=0.3)
    async with run_server({"bot": make_verbose_agent}, timeouts=timeouts) as server:
        run = await server.ann.start()
        await server.ann.wait_for_result(run)
        place = urlsplit(server.url)
        with socket.socket() as slow_reader:
            slow_reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow_reader.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(slow_reader, (place.hostname, place.port))
            head = f"GET /v1/runs/{run}/events HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {ANN}\r\n\r\n"
            await loop.sock_sendall(slow_reader, head.encode())
            await wait_for_metric(server, "mainspring_followers_cut_total", 1)
            await wait_for_metric(server, "mainspring_followers", 0)
            # The operating system must not keep the unread data either: the connection is reset, not closed.
            end = select.poll()
            end.register(slow_reader, 0)
            assert await asyncio.to_thread(end.poll, 5_000)
            sent = await read_metric(server, "mainspring_events_sent_total")
        server.state.timeouts = StreamTimeouts()
        whole = [event async for event in server.ann.follow(run)]
        assert sent < len(whole)
        rest = [event.id async for event in server.ann.follow(run, last_event_id=whole[5].id)]
        assert rest == [event.id for event in whole[6:]]


async def test_silent_run_sends_heartbeats():
    gate = Gate()
    async with run_server({"bot": script_agent(gate)}, timeouts=StreamTimeouts(beat=0.05)) as server:
        run = await server.ann.start()
        headers = {"authorization": f"Bearer {ANN}"}
        async with server.session.get(f"{server.url}v1/runs/{run}/events", headers=headers) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            assert answer.headers["cache-control"] == "no-store"
            assert await answer.content.readline() == b"retry: 2000\n"
            while await answer.content.readline() != b": still there\n":
                pass
        gate.open.set()


@pytest.mark.parametrize("asks", [False, True])
async def test_shutdown_waits_for_running_runs(asks: bool):
    gate = Gate("finished")
    script = [Reply(calls=[ScriptedCall("note", {"text": "x"})])] if asks else [gate]
    async with run_server({"bot": script_agent(*script)}, drain=10) as server:
        run = await server.ann.start()
        if asks:
            await server.ann.wait_for_state(run, "paused")
        else:
            await gate.asked.wait()
        headers = {"authorization": f"Bearer {ANN}"}
        async with server.session.get(f"{server.url}v1/runs/{run}/events", headers=headers) as answer:
            ending = asyncio.ensure_future(server.service.drain(10, keeps=False))
            status, rejected = await server.ann.post("v1/runs", {"prompt": "more"})
            assert (status, rejected["code"]) == (503, "closing")
            assert await server.anonymous.get("ready") == (503, {"status": "closing"})
            assert (await server.anonymous.get("health"))[0] == 200
            gate.open.set()
            assert await ending == (1 if asks else 0)  # a run that waits for an approval would never end
            server.state.shutdown_started.set()
            text = (await answer.content.read()).decode()
        assert ("event: agent_end" in text) == (not asks)
        assert ("the service is shutting down" in text) == asks
        assert text.rstrip().endswith("retry: 2000") == asks


def test_large_event_is_sent_in_pieces():
    for size in (0, 1, 65_536, 65_537, 1_000_000):
        event = WireEvent("7", "message_end", b"x" * size)
        pieces = list(encode_sse(event))
        assert b"".join(pieces) == b"id: 7\nevent: message_end\ndata: " + event.data + b"\n\n"
        assert max(map(len, pieces)) < 66_000
        assert (len(pieces) == 1) == (size <= 65_536)


async def test_followers_at_the_same_position_share_encoded_events():
    async def make_feed() -> AsyncGenerator[FeedItem]:
        for n in range(1, 4):
            yield FeedItem(n, TextDelta(0, "x" * 100_000))

    wire = EventEncoder()
    seen = [[event async for event in wire.encode_run(run, make_feed())] for run in ("a", "a", "b")]
    assert [(one is two, one is other) for one, two, other in zip(*seen, strict=True)] == [(True, False)] * 3
    reference = weakref.ref(seen[0][0])
    del seen
    gc.collect()
    assert reference() is None, "large events are not cached"
