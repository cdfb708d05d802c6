"""Killed programs are awaited with their pipes."""

import asyncio

from mainspring.programs import wait_for_end
from tests.requires import on_posix


@on_posix
async def test_output_of_a_killed_program_is_read_to_its_end() -> None:
    process = await asyncio.create_subprocess_exec("yes", stdout=asyncio.subprocess.PIPE)
    assert process.stdout
    await process.stdout.readexactly(1)
    process.kill()

    await wait_for_end(process)

    assert process.returncode == -9
    assert process.stdout.at_eof(), "an open pipe is a warning when the event loop ends"
