"""Background processes end with the program, even if the program is killed."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from mainspring.env import LocalEnv
from mainspring.env.process_tree import OrphanReaper
from mainspring.tools import ToolContext
from mainspring.tools.builtin import shell
from tests.helpers.processes import alive, ended
from tests.requires import on_linux

pytestmark = on_linux

PROGRAM = """
import asyncio, sys
from mainspring.env import LocalEnv
from mainspring.tools import ToolContext
from mainspring.tools.builtin import shell
async def main():
    env = LocalEnv(".")
    await shell(ToolContext(env=env), command=sys.argv[1], background=len(sys.argv) > 2)
    print("ready", flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


@pytest.mark.covers("BYD-21")
@pytest.mark.parametrize(
    "arguments",
    [
        ("echo $$ > pid; trap '' TERM HUP; setsid sleep 60 & echo $! >> pid; wait", "background"),
        ("sleep 60 & echo $! > pid",),
    ],
    ids=["background", "left behind"],
)
def test_processes_end_when_the_program_is_killed(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    command = [sys.executable, "-c", PROGRAM, *arguments]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == b"ready\n"
            pids = [int(pid) for pid in (tmp_path / "pid").read_text(encoding="utf-8").split()]
            assert pids
            assert all(alive(pid) for pid in pids)
        finally:
            program.kill()
    assert all(ended(pid) for pid in pids)


FOREGROUND = """
import asyncio, pathlib, sys
from mainspring.env import LocalEnv
async def main():
    env = LocalEnv(".")
    running = asyncio.ensure_future(env.run(sys.argv[1]))
    while env._watcher._process is None or not pathlib.Path("pid").exists():
        await asyncio.sleep(0.02)
    print("ready", flush=True)
    await running
asyncio.run(main())
"""


@pytest.mark.covers("BYD-21")
def test_foreground_command_ends_when_the_program_is_killed(tmp_path: Path) -> None:
    script = "trap '' TERM HUP; echo $$ > p; mv p pid; sleep 60"
    with subprocess.Popen([sys.executable, "-c", FOREGROUND, script], cwd=tmp_path, stdout=subprocess.PIPE) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == b"ready\n"
            pid = int((tmp_path / "pid").read_text(encoding="utf-8"))
            assert alive(pid)
        finally:
            program.kill()
    assert ended(pid)


async def test_orphan_reaper_starts_with_the_first_background_job_and_ends_on_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reaper_pids: list[int] = []
    start_reaper = OrphanReaper.start

    def record_start(self: OrphanReaper) -> None:
        start_reaper(self)
        assert self._process is not None
        reaper_pids.append(self._process.pid)

    monkeypatch.setattr(OrphanReaper, "start", record_start)
    env = LocalEnv(tmp_path)
    ctx = ToolContext(env=env)
    await shell(ctx, command="true")
    assert reaper_pids == []
    for _ in range(2):
        await shell(ctx, command="sleep 60", background=True)
    assert len(set(reaper_pids)) == 1
    assert alive(reaper_pids[0])
    await env.aclose()
    assert not await asyncio.to_thread(alive, reaper_pids[0])
