"""Followers: many, slow, cut off; and what is left of them."""

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
from mainspring.durable.feed import FeedItem, Text
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from tests.unit.app.servers.http.harness import ANN, Gate, Stage, on_stage, scripted


async def figure(stage: Stage, name: str) -> float:
    text = (await stage.ben.get("metrics"))[1]
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    assert found, text
    return float(found[1])


async def until(stage: Stage, name: str, value: float) -> None:
    """Wait until a figure is so."""
    while await figure(stage, name) != value:
        pass


async def test_many_followers_get_everything_and_leave_nothing_behind():
    gate = Gate("the same for all")
    async with on_stage({"bot": scripted(gate)}) as stage:
        run = await stage.ann.start()

        async def follow() -> list[str]:
            return [f"{e.id} {e.name}" async for e in stage.ann.follow(run)]

        following = [asyncio.ensure_future(follow()) for _ in range(100)]
        await until(stage, "mainspring_followers", 100)
        gate.open.set()
        told = await asyncio.gather(*following)
        assert told[0][-1].endswith(" end")
        assert all(each == told[0] for each in told)
        await until(stage, "mainspring_followers", 0)


async def test_cut_connections_release_everything():
    gate = Gate()
    async with on_stage({"bot": scripted(gate)}) as stage:
        run = await stage.ann.start()
        await gate.asked.wait()
        before = len(asyncio.all_tasks())
        streams = [stage.ann.follow(run) for _ in range(30)]
        for stream in streams:
            await anext(stream)
        assert len(asyncio.all_tasks()) > before + 30
        for stream in streams:
            await stream.aclose()
        await until(stage, "mainspring_followers", 0)
        del streams
        gc.collect()
        while len(asyncio.all_tasks()) > before + 5:
            await figure(stage, "mainspring_followers")
        gate.open.set()


def loud(steps: DurableSteps) -> Agent:
    """An agent whose run tells some 20 MB."""

    @tool(idempotent=True)
    async def shout() -> str:
        """Say much."""
        return "x" * 500_000

    calls = [Reply(calls=[ScriptedCall("shout") for _ in range(10)]) for _ in range(2)]
    return Agent(ScriptedModel(*calls, "over"), tools=[shout], steps=steps, extra={})


async def test_a_reader_that_does_not_read_is_cut_off_and_comes_back():
    patience = StreamTimeouts(reader=0.3)
    async with on_stage({"bot": loud}, patience=patience) as stage:
        run = await stage.ann.start()
        await stage.ann.ended(run)
        place = urlsplit(stage.url)
        with socket.socket() as lazy:
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            lazy.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(lazy, (place.hostname, place.port))
            head = f"GET /v1/runs/{run}/events HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {ANN}\r\n\r\n"
            await loop.sock_sendall(lazy, head.encode())
            await until(stage, "mainspring_followers_cut_total", 1)
            await until(stage, "mainspring_followers", 0)
            # And what it did not read is not kept for it by the system either: the connection is reset, not closed.
            end = select.poll()
            end.register(lazy, 0)
            assert await asyncio.to_thread(end.poll, 5_000)
            sent = await figure(stage, "mainspring_events_sent_total")
        stage.state.timeouts = StreamTimeouts()
        whole = [event async for event in stage.ann.follow(run)]
        assert sent < len(whole)
        rest = [event.id async for event in stage.ann.follow(run, last_event_id=whole[5].id)]
        assert rest == [event.id for event in whole[6:]]


async def test_a_silent_run_gives_signs_of_life():
    gate = Gate()
    async with on_stage({"bot": scripted(gate)}, patience=StreamTimeouts(beat=0.05)) as stage:
        run = await stage.ann.start()
        headers = {"authorization": f"Bearer {ANN}"}
        async with stage.session.get(f"{stage.url}v1/runs/{run}/events", headers=headers) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            assert answer.headers["cache-control"] == "no-store"
            assert await answer.content.readline() == b"retry: 2000\n"
            while await answer.content.readline() != b": still there\n":
                pass
        gate.open.set()


@pytest.mark.parametrize("asks", [False, True])
async def test_the_service_ends_gently(asks: bool):
    gate = Gate("finished")
    script = [Reply(calls=[ScriptedCall("note", {"text": "x"})])] if asks else [gate]
    async with on_stage({"bot": scripted(*script)}, drain=10) as stage:
        run = await stage.ann.start()
        if asks:
            await stage.ann.until(run, "paused")
        else:
            await gate.asked.wait()
        headers = {"authorization": f"Bearer {ANN}"}
        async with stage.session.get(f"{stage.url}v1/runs/{run}/events", headers=headers) as answer:
            ending = asyncio.ensure_future(stage.service.drain(10, keeps=False))
            status, rejected = await stage.ann.post("v1/runs", {"prompt": "more"})
            assert (status, rejected["code"]) == (503, "closing")
            assert await stage.nobody.get("ready") == (503, {"status": "closing"})
            assert (await stage.nobody.get("health"))[0] == 200
            gate.open.set()
            assert await ending == (1 if asks else 0)  # what waits for an answer would wait for ever
            stage.state.shutdown_started.set()
            text = (await answer.content.read()).decode()
        assert ("event: end" in text) == (not asks)
        assert ("the service is shutting down" in text) == asks
        assert text.rstrip().endswith("retry: 2000") == asks


def test_a_large_event_is_sent_in_pieces():
    for size in (0, 1, 65_536, 65_537, 1_000_000):
        event = WireEvent("7", "message", b"x" * size)
        pieces = list(encode_sse(event))
        assert b"".join(pieces) == b"id: 7\nevent: message\ndata: " + event.data + b"\n\n"
        assert max(map(len, pieces)) < 66_000
        assert (len(pieces) == 1) == (size <= 65_536)


async def test_followers_at_the_same_place_share_what_they_are_sent():
    async def told() -> AsyncGenerator[FeedItem]:
        for n in range(1, 4):
            yield FeedItem(n, Text("x" * 100_000))

    wire = EventEncoder()
    seen = [[event async for event in wire.encode_run(run, told())] for run in ("a", "a", "b")]
    assert [(one is two, one is other) for one, two, other in zip(*seen, strict=True)] == [(True, False)] * 3
    left = weakref.ref(seen[0][0])
    del seen
    gc.collect()
    assert left() is None, "large ones are kept for nobody"
