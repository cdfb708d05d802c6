"""Lines over file descriptors, and stdout reserved for the protocol."""

import asyncio
import os
import subprocess
import sys

import pytest

from mainspring.app.servers.stdio import open_wire

pytestmark = pytest.mark.covers("BYD-23")


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


async def test_aborted_line_is_written_whole() -> None:
    given, into = os.pipe()
    out, end = os.pipe()
    async with open_wire(given, end) as wire:
        sending = asyncio.create_task(wire.send(b"x" * (1 << 20)))
        await asyncio.wait({sending}, timeout=0)
        sending.cancel()
        await asyncio.wait({sending})
        assert sending.cancelled()
        following = asyncio.create_task(wire.send(b"next"))
        data = b""
        while not data.endswith(b"next\n"):
            data += await asyncio.to_thread(os.read, out, 1 << 16)
        await following
    assert data == b"x" * (1 << 20) + b"\nnext\n"
    for number in (given, into, out, end):
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
    done = subprocess.run([sys.executable, "-c", code], input=b"said", capture_output=True, timeout=120, check=True)
    assert done.stdout == b"protocol\nsaidafter\n"
    assert done.stderr == b"stray\nfrom a program\n"
