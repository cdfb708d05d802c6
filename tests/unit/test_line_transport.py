"""Lines from any chunks, within a limit of memory; lines that are written whole, one after the other."""

import asyncio
import json
import re
import tracemalloc
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from mainspring.line_transport import LineReader, LineTooLongError, LineTransport
from tests.helpers.memory_lines import MemoryLines

pytestmark = pytest.mark.covers("BYD-23", "MCP-02")

MAX_BYTES = 12
TOO_LONG = f"A line of more than {MAX_BYTES} bytes was skipped. Send shorter lines."


async def read_all(wire: LineReader) -> list[bytes | str]:
    """Return the lines and errors until the end."""
    found: list[bytes | str] = []
    while True:
        try:
            line = await wire.line()
        except LineTooLongError as error:
            found.append(str(error))
            continue
        if line is None:
            return found
        found.append(line)


def open_reader(*chunks: bytes, limit: int = MAX_BYTES, split_long_lines: bool = False) -> LineReader:
    given = iter(chunks)

    async def read() -> bytes:
        return next(given, b"")

    return LineReader(read, limit, split_long_lines=split_long_lines)


def expected_lines(data: bytes) -> list[bytes | str]:
    *lines, last = data.split(b"\n")
    return [
        TOO_LONG if len(line) > MAX_BYTES else line.removesuffix(b"\r") for line in [*lines, *([last] if last else [])]
    ]


@settings(max_examples=300)
@given(
    data=st.lists(
        st.sampled_from([b"\n", b"\r\n", b"\r", b" ", b"ab", "äß€".encode(), b"0123456789"]) | st.binary()
    ).map(b"".join),
    cuts=st.lists(st.floats(0, 1), max_size=30),
)
async def test_lines_do_not_depend_on_the_chunks(data: bytes, cuts: list[float]) -> None:
    places = sorted({0, len(data), *(int(cut * len(data)) for cut in cuts)})
    chunks = [data[start:end] for start, end in pairwise(places)]
    assert await read_all(open_reader(*chunks)) == expected_lines(data)
    client = MemoryLines(MAX_BYTES)
    client.feed(*chunks, b"")
    assert await read_all(client.wire) == [line for line in expected_lines(data) if line.strip()]


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([b"a\r\nb\n\r\nc\r", b"\nd"], [b"a", b"b", b"", b"c", b"d"]),
        ([b"a\rb\n"], [b"a\rb"]),
        ([*("€\n".encode()[i : i + 1] for i in range(4))], ["€".encode()]),
        ([b"\xff\xe2\x82\n"], [b"\xff\xe2\x82"]),
        ([b"x" * 12, b"\n" + b"y" * 13, b"\nz\n"], [b"x" * 12, TOO_LONG, b"z"]),
        ([b"x" * 13, b"y" * 50, b"\n"], [TOO_LONG]),
        ([b"x" * 13], [TOO_LONG]),
        ([b"\n\n"], [b"", b""]),
        ([], []),
    ],
    ids=["crlf", "bare cr", "split utf-8", "not utf-8", "limit", "long in pieces", "long at the end", "blank", "empty"],
)
async def test_lines_of_chunks(chunks: list[bytes], lines: list[bytes | str]) -> None:
    reader = open_reader(*chunks)
    assert await read_all(reader) == lines
    assert await reader.line() is None


async def test_long_lines_are_returned_in_pieces_on_request() -> None:
    reader = open_reader(b"x" * 10, b"y" * 10, b"z\nnext\n" + b"w" * 20 + b"\n" + b"e" * 20, split_long_lines=True)
    assert await read_all(reader) == [b"x" * 10 + b"y" * 10, b"z", b"next", b"w" * 20, b"e" * 20]


async def test_line_over_the_limit_is_reported_before_it_ends() -> None:
    client = MemoryLines(1 << 20)
    client.feed(b"x" * (8 << 20))
    with pytest.raises(LineTooLongError, match="more than 1048576 bytes was skipped"):
        await client.wire.line()
    client.feed(b"y" * (8 << 20), b"rest\nnext\n")
    assert await client.wire.line() == b"next"


async def test_endless_line_takes_only_the_memory_of_the_limit() -> None:
    chunk, limit = b"x" * (1 << 16), 1 << 20
    reader = open_reader(*[chunk] * 500, b"\nnext\n", limit=limit)
    tracemalloc.start()
    try:
        with pytest.raises(LineTooLongError):
            await reader.line()
        assert await reader.line() == b"next"
        assert tracemalloc.get_traced_memory()[1] < 3 * limit
    finally:
        tracemalloc.stop()


async def test_cancelled_read_loses_nothing() -> None:
    client = MemoryLines(MAX_BYTES)

    async def cancel_read() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await client.wire.line()

    client.feed(b"be")
    await cancel_read()
    client.feed(b"gin\n", b"x" * 20)
    assert await client.wire.line() == b"begin"
    with pytest.raises(LineTooLongError):
        await client.wire.line()
    await cancel_read()
    client.feed(b"rest", b"\nnext\n")
    assert await client.wire.line() == b"next"


async def test_concurrent_lines_are_written_whole() -> None:
    written = bytearray()

    async def write(data: bytes) -> None:
        for byte in data:
            written.append(byte)
            await asyncio.sleep(0)

    wire = LineTransport(asyncio.Queue[bytes]().get, write, MAX_BYTES)
    lines = [b"%d" % i * 20 for i in range(10)]
    await asyncio.gather(*map(wire.send, lines))
    assert written.splitlines() == lines


async def test_line_is_one_write_that_waits_for_a_slow_reader() -> None:
    client = MemoryLines(capacity=1)
    await client.wire.send(b"one")
    waiting = asyncio.ensure_future(client.wire.send(b"x" * (1 << 20)))
    await asyncio.wait({waiting}, timeout=0)
    assert not waiting.done()
    assert await client.written() == b"one\n"
    assert await client.written() == b"x" * (1 << 20) + b"\n"
    await waiting


async def test_closed_connection_fails_the_waiting_and_later_lines() -> None:
    client = MemoryLines(capacity=1)
    await client.wire.send(b"one")
    waiting = asyncio.ensure_future(client.wire.send(b"two"))
    await asyncio.wait({waiting}, timeout=0)
    client.close()
    with pytest.raises(BrokenPipeError, match=r"^The client closed the connection: Connection lost\.$"):
        await waiting
    with pytest.raises(BrokenPipeError, match=r"^The client closed the connection\.$"):
        await client.wire.send(b"three")


async def test_closed_connection_names_the_peer() -> None:
    async def write(data: bytes) -> None:
        raise ValueError("write to closed file")

    wire = LineTransport(asyncio.Queue[bytes]().get, write, MAX_BYTES, peer="server")
    with pytest.raises(BrokenPipeError, match=r"^The server closed the connection: write to closed file\.$"):
        await wire.send(b"one")


@given(st.text(st.sampled_from('\ud83d\ude00\ud800\udfffa\\u"d83') | st.characters()))
async def test_half_a_surrogate_pair_does_not_make_a_line_invalid(text: str) -> None:
    chunks = iter([json.dumps({"id": 7, "text": text}).encode() + b"\n"])

    async def read() -> bytes:
        return next(chunks, b"")

    async def write(data: bytes) -> None:
        raise AssertionError(data)

    line = await LineTransport(read, write, 1 << 20).line()
    assert line is not None
    whole = json.loads(json.dumps(text))
    assert msgspec.json.decode(line) == {"id": 7, "text": re.sub("[\ud800-\udfff]", "\ufffd", whole)}
