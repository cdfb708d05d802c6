"""What a command line that is logged in somewhere says: the tokens of ``az`` and ``gh``."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from mainspring.redaction import redact

_LONGEST = 500  # characters of what it complained about


class Said(Struct, frozen=True):
    """What a command said.

    Attributes:
        code: Its exit code.
        out: Its output.
        complaint: The end of its error output without secrets, or its exit code if it said nothing.
    """

    code: int
    out: bytes
    complaint: str


async def ask_command(*command: str, timeout: float) -> Said:
    """Run a command that cannot ask back, and wait for it.

    Args:
        command: Program and arguments.
        timeout: Seconds it may take; it is killed then.

    Raises:
        TimeoutError: If it did not end in time.
        OSError: If it cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(timeout):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    code = process.returncode or 0
    said = redact(err.decode("utf-8", "replace").strip())[-_LONGEST:]
    return Said(code, out, said or f"exit code {code}")
