"""No server outlives us, not even where we are killed: a small shell waits on a pipe, and when we are gone it ends the process
groups of the servers that still run, with what those started.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from mainspring.programs import find_program

_SCRIPT = """
trap '' INT TERM HUP
groups=
while read -r line; do
  case $line in
    -*) kept=; for g in $groups; do [ "$g" = "${line#-}" ] || kept="$kept $g"; done; groups=$kept ;;
    *) groups="$groups $line" ;;
  esac
done
[ -n "$groups" ] || exit 0
for g in $groups; do kill -s TERM -- "-$g" 2>/dev/null; done
sleep 1
for g in $groups; do kill -s KILL -- "-$g" 2>/dev/null; done
"""


class Orphans:
    """Watches over process groups. The shell runs while there are any."""

    def __init__(self) -> None:
        self._shell: asyncio.subprocess.Process | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting: asyncio.Lock | None = None
        self._count = 0

    @asynccontextmanager
    async def watching(self, group: int) -> AsyncGenerator[None]:
        """Have a process group ended if we end while this is open. Where there is no shell, nothing is done."""
        await self._begin()
        self._tell(str(group))
        try:
            yield
        finally:
            self._tell(f"-{group}")
            await self._end()

    async def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is not loop or self._starting is None:
            self._loop, self._starting, self._shell, self._count = loop, asyncio.Lock(), None, 0
        self._count += 1
        async with self._starting:
            if self._shell is not None and self._shell.returncode is None:
                return
            shell = find_program("sh") if os.name == "posix" else None
            if shell is None:
                return
            quiet = asyncio.subprocess.DEVNULL
            with suppress(OSError):
                self._shell = await asyncio.create_subprocess_exec(
                    shell, "-c", _SCRIPT, stdin=asyncio.subprocess.PIPE, stdout=quiet, stderr=quiet,
                    start_new_session=True, env={"PATH": os.environ.get("PATH", os.defpath)}, cwd="/",
                )  # fmt: skip

    def _tell(self, line: str) -> None:
        pipe = self._shell.stdin if self._shell is not None else None
        if pipe is not None and not pipe.is_closing():
            with suppress(OSError, RuntimeError):
                pipe.write(f"{line}\n".encode())

    async def _end(self) -> None:
        """Let the shell go with the last group: at the end of its input it ends by itself."""
        self._count -= 1
        if self._count > 0 or self._shell is None:
            return
        shell, self._shell = self._shell, None
        if shell.stdin is not None:
            shell.stdin.close()
        try:
            await asyncio.wait_for(shell.wait(), 1.0)
        except TimeoutError:
            shell.kill()
