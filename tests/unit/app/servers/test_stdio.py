"""Lines from any chunks: complete, split, or too long; and stdout reserved for the protocol."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.app.servers.stdio import LineTransport, open_wire
from mainspring.line_reader import LineTooLongError

pytestmark = pytest.mark.covers("BYD-23")

MAX_BYTES = 12


async def read_lines(pieces: Sequence[bytes]) -> list[bytes | None]:
    chunks = iter([*pieces, b""])

    async def read_chunk() -> bytes:
        return next(chunks, b"")

    async def discard(data: bytes) -> None:
        pass

    wire = LineTransport(read_chunk, discard, MAX_BYTES)
    found: list[bytes | None] = []
    while True:
        try:
            line = await wire.line()
        except LineTooLongError:
            found.append(None)
            continue
        if line is None:
            return found
        found.append(line)


@settings(max_examples=100, deadline=None)
@given(
    whole=st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b"x")), max_size=6), size=st.integers(1, 40)
)
async def test_lines_do_not_depend_on_chunk_sizes(whole: list[bytes], size: int) -> None:
    data = b"".join(line + b"\n" for line in whole)
    pieces = [data[i : i + size] for i in range(0, len(data), size)]
    requested = [None if len(line) > MAX_BYTES else line for line in whole if line.strip() or len(line) > MAX_BYTES]
    assert await read_lines(pieces) == requested


async def test_slow_reader_blocks_the_writer() -> None:
    given, into = os.pipe()
    out, end = os.pipe()
    async with open_wire(given, end) as wire:
        sending = asyncio.create_task(wire.send(b"x" * (1 << 20)))
        await asyncio.sleep(0)
        got = await asyncio.to_thread(os.read, out, 1000)
        assert got
        assert not sending.done()
        os.close(out)
        with pytest.raises(BrokenPipeError):
            await sending
        with pytest.raises(BrokenPipeError):
            await wire.send(b"more")
    for number in (given, into, end):
        os.close(number)


def test_prints_go_to_stderr_and_stdin_is_empty() -> None:
    code = """
import os, subprocess, sys
from mainspring.app.servers.stdio import take_over_stdio as claimed_stdio
with claimed_stdio() as (given, out):
    print("stray", flush=True)
    subprocess.run(["echo", "from a program"])
    assert sys.stdin.read() == ""
    os.write(out, b"protocol\\n" + os.read(given, 100))
print("after")
"""
    done = subprocess.run([sys.executable, "-c", code], input=b"said", capture_output=True, timeout=30, check=True)
    assert done.stdout == b"protocol\nsaidafter\n"
    assert done.stderr == b"stray\nfrom a program\n"
