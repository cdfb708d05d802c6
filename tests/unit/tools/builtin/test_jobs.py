"""Commands in the background, and commands that misbehave."""

import asyncio
import os
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mainspring.env import LocalEnv, MemoryEnv
from mainspring.tools import ToolContext, ToolErrorCode
from mainspring.tools.builtin import jobs, shell
from tests.helpers.processes import alive, ended
from tests.requires import on_posix, requires

pytestmark = on_posix


async def started(ctx: ToolContext, command: str) -> str:
    result = await shell(ctx, command=command, background=True)
    assert not result.is_error, result.text
    return result.metadata["job"]


@pytest.fixture
def pids(project: Path) -> Path:
    return project / "pids"


@pytest.fixture
def pipe(project: Path) -> Path:
    """Whoever writes into it waits until somebody reads."""
    os.mkfifo(project / "pipe")
    return project / "pipe"


async def pid_in(path: Path) -> int:
    return int((await asyncio.to_thread(path.read_text)).split()[0])


@pytest.mark.covers("BYD-21")
async def test_a_background_command_is_listed_read_and_waited_for(ctx: ToolContext, project: Path) -> None:
    job = await started(
        ctx, "echo one; read -r line < go; echo $line; exit 3" if (os.mkfifo(project / "go") or 1) else ""
    )
    assert re.fullmatch(
        r"job1: running for [\d.]+s, 4 bytes of output: echo one; .*", (await jobs(ctx, action="list")).text
    )
    assert re.fullmatch(r"one\n\[job1: running for [\d.]+s\]", (await jobs(ctx, action="read", id=job)).text)
    assert (await jobs(ctx, action="read", id=job)).text.startswith("[job1: running")
    await asyncio.to_thread((project / "go").write_text, "two\n")
    waited = await jobs(ctx, action="wait", id=job)
    assert re.fullmatch(r"two\n\[job1: exit 3 after [\d.]+s\]", waited.text)
    assert waited.metadata["exit_code"] == 3
    assert not waited.is_error


@pytest.mark.covers("BYD-21")
async def test_killing_ends_everything_that_it_started(ctx: ToolContext, pipe: Path) -> None:
    job = await started(ctx, f"sleep 60 & echo $! > {pipe}; wait")
    child = await pid_in(pipe)
    result = await jobs(ctx, action="kill", id=job)
    assert "[job1: killed after" in result.text
    assert ended(child)


@pytest.mark.covers("BYD-21")
async def test_none_outlives_its_environment(ctx: ToolContext, pipe: Path) -> None:
    await started(ctx, f"setsid sleep 60 & echo $! > {pipe}; sleep 60")
    child = await pid_in(pipe)
    await ctx.env.aclose()
    assert ended(child)


@pytest.mark.covers("BYD-21")
async def test_the_agent_is_told_of_an_end_that_it_does_not_wait_for(local_env: LocalEnv, project: Path) -> None:
    news: asyncio.Queue[str] = asyncio.Queue()
    ctx = ToolContext(env=local_env, extra={"wake": news.put_nowait})
    os.mkfifo(project / "go")
    result = await shell(ctx, command="read -r x < go; echo $x; exit 4", background=True)
    assert "You are told when it ends" in result.text
    await asyncio.to_thread((project / "go").write_text, "done\n")
    text = await asyncio.wait_for(news.get(), 10)
    assert re.fullmatch(
        r"The background command job1 \(read -r x .*\) has ended: exit 4 after [\d.]+s. The end of its output:\ndone",
        text,
    )
    waiting = await started(ctx, "sleep 0.5")
    await jobs(ctx, action="wait", id=waiting)
    killed = await started(ctx, "sleep 60")
    await jobs(ctx, action="kill", id=killed)
    assert news.empty()
    await local_env.aclose()


async def test_a_command_that_ends_at_once_is_reported_at_once(ctx: ToolContext) -> None:
    result = await shell(ctx, command="echo no; exit 7", background=True)
    assert re.fullmatch(r"no\n\[job1: exit 7 after [\d.]+s\]", result.text)


async def test_waiting_has_a_limit_and_unknown_ids_are_told(ctx: ToolContext) -> None:
    missing = await jobs(ctx, action="read", id="job9")
    assert missing.code == ToolErrorCode.NOT_FOUND
    assert "None was started here" in missing.text
    job = await started(ctx, "sleep 60")
    assert "running for" in (await jobs(ctx, action="wait", id=job, seconds=0.05)).text
    assert "There are job1." in (await jobs(ctx, action="kill")).text
    assert "job1" in (await jobs(ctx, action="list")).text
    assert (await jobs(ToolContext(env=MemoryEnv()), action="list")).text == "No command runs in the background."


async def test_long_output_is_read_from_its_end(ctx: ToolContext) -> None:
    job = await started(ctx, "seq 1 200000; sleep 60")
    text = (await jobs(ctx, action="read", id=job, max_bytes=1000)).text
    assert re.match(r"…\(\d+ bytes truncated from head\)…\n", text)
    assert "\n200000\n[job1: running" in text


# --- commands that misbehave ----------------------------------------------------------------------------------------------


async def test_a_daemon_that_left_its_session_is_told_and_ended(ctx: ToolContext, pids: Path) -> None:
    result = await shell(
        ctx, command=f"(setsid sh -c 'echo $$ > {pids}; exec sleep 60' &) ; while [ ! -s {pids} ]; do :; done"
    )
    pid = await pid_in(pids)
    assert result.metadata["survivors"] == [pid]
    assert f"still running in the background: pid {pid}" in result.text
    await ctx.env.aclose()
    assert ended(pid)


async def test_a_child_that_holds_the_output_does_not_hold_the_call(ctx: ToolContext) -> None:
    result = await shell(ctx, command="sleep 60 & echo started", timeout=10)
    assert result.text.startswith("started\n")
    assert result.metadata["milliseconds"] < 5_000
    [pid] = result.metadata["survivors"]
    assert alive(pid)
    await ctx.env.aclose()
    assert ended(pid)


@pytest.mark.parametrize(
    "command", ["read -r x; echo got:$x", "cat", "python3 -c 'input()'", "git -c x commit -e 2>&1"]
)
async def test_a_question_is_answered_with_the_end_of_input(ctx: ToolContext, command: str) -> None:
    result = await shell(ctx, command=command, timeout=15)
    assert not result.metadata["timed_out"]
    assert result.metadata["survivors"] == []


async def test_a_flood_is_stopped(ctx: ToolContext) -> None:
    """A gigabyte would be written; the cap ends it long before, and only the end is in memory."""
    result = await shell(ctx, command="head -c 1000000000 /dev/zero | tr '\\0' 'x'", timeout=18)
    assert "wrote more output than is allowed" in result.text
    assert len(result.text) < 40_000
    assert result.metadata["survivors"] == []


async def test_bytes_that_are_no_text_become_marks(ctx: ToolContext) -> None:
    result = await shell(ctx, command=r"printf 'a\xff\xfeb\xc3'; printf '\x80' >&2")
    assert result.text.startswith("a\ufffd\ufffdb\ufffd\n[stderr]\n\ufffd\n")


@pytest.fixture
async def limited(project: Path) -> AsyncIterator[ToolContext]:
    env = await asyncio.to_thread(LocalEnv, project, max_processes=40)
    yield ToolContext(env=env)
    await env.aclose()


async def test_a_storm_of_processes_is_ended(limited: ToolContext, pids: Path) -> None:
    storm = f"for i in $(seq 300); do sleep 60 & echo $! >> {pids}; done; wait"
    result = await shell(limited, command=storm, timeout=15)
    assert "more processes than are allowed" in result.text
    assert result.metadata["survivors"] == []
    assert all(ended(int(pid)) for pid in (await asyncio.to_thread(pids.read_text)).split())
    assert (await shell(limited, command="echo fine; sleep 0.3")).text.startswith("fine\n")


@requires(shutil.which("setpriv") is not None and os.getuid() == 0, "setpriv, and root to lower itself")
async def test_a_real_fork_bomb_ends(limited: ToolContext) -> None:
    """As an unprivileged user whom the kernel limits too, should our own watch fail."""
    bomb = "setpriv --reuid=64999 --clear-groups --inh-caps=-all bash -c 'ulimit -u 300; :(){ :|:& };:; wait' 2>/dev/null; wait"
    result = await shell(limited, command=bomb, timeout=15)
    assert result.metadata["survivors"] == []
    left = await shell(limited, command="ps -u 64999 -o stat= | grep -v Z", metadata=False)
    assert left.text == ""


async def test_what_no_argument_can_hold_is_told(ctx: ToolContext) -> None:
    result = await shell(ctx, command="echo a\0b")
    assert "NUL" in result.text
    with pytest.raises(OSError, match="NUL"):
        await ctx.env.run(["echo", "a\0b"])
    with pytest.raises(OSError, match="surrogate"):
        await ctx.env.run(["echo", "\ud800"])
