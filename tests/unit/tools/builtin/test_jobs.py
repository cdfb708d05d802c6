"""Background commands, and misbehaving commands."""

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


async def start_job(ctx: ToolContext, command: str) -> str:
    result = await shell(ctx, command=command, background=True)
    assert not result.is_error, result.text
    return result.metadata["job"]


@pytest.fixture
def pids(project: Path) -> Path:
    return project / "pids"


@pytest.fixture
def pipe(project: Path) -> Path:
    """A named pipe: writers block until the test reads."""
    os.mkfifo(project / "pipe")
    return project / "pipe"


async def read_pid(path: Path) -> int:
    return int((await asyncio.to_thread(path.read_text)).split()[0])


@pytest.mark.covers("BYD-21")
async def test_background_job_can_be_listed_read_and_awaited(ctx: ToolContext, project: Path) -> None:
    job = await start_job(
        ctx, "echo one; read -r line < go; echo $line; exit 3" if (os.mkfifo(project / "go") or 1) else ""
    )
    listed = ""
    while "4 bytes" not in listed:
        listed = (await jobs(ctx, action="list")).text
    assert re.fullmatch(r"job1: running for [\d.]+s, 4 bytes of output: echo one; .*", listed)
    assert re.fullmatch(r"one\n\[job1: running for [\d.]+s\]", (await jobs(ctx, action="read", id=job)).text)
    assert (await jobs(ctx, action="read", id=job)).text.startswith("[job1: running")
    await asyncio.to_thread((project / "go").write_text, "two\n")
    waited = await jobs(ctx, action="wait", id=job)
    assert re.fullmatch(r"two\n\[job1: exit 3 after [\d.]+s\]", waited.text)
    assert waited.metadata["exit_code"] == 3
    assert not waited.is_error


@pytest.mark.covers("BYD-21")
async def test_kill_stops_all_child_processes(ctx: ToolContext, pipe: Path) -> None:
    job = await start_job(ctx, f"sleep 60 & echo $! > {pipe}; wait")
    child = await read_pid(pipe)
    result = await jobs(ctx, action="kill", id=job)
    assert "[job1: killed after" in result.text
    assert ended(child)


@pytest.mark.covers("BYD-21")
async def test_jobs_stop_with_their_environment(ctx: ToolContext, pipe: Path) -> None:
    await start_job(ctx, f"setsid sleep 60 & echo $! > {pipe}; sleep 60")
    child = await read_pid(pipe)
    await ctx.env.aclose()
    assert ended(child)


@pytest.mark.covers("BYD-21")
async def test_agent_is_notified_when_a_job_ends(local_env: LocalEnv, project: Path) -> None:
    notifications: asyncio.Queue[str] = asyncio.Queue()
    ctx = ToolContext(env=local_env, extra={"wake": notifications.put_nowait})
    os.mkfifo(project / "go")
    result = await shell(ctx, command="read -r x < go; echo $x; exit 4", background=True)
    assert "You get a message when it ends" in result.text
    await asyncio.to_thread((project / "go").write_text, "done\n")
    text = await notifications.get()
    assert re.fullmatch(
        r"The background command job1 \(read -r x .*\) has ended: exit 4 after [\d.]+s. The end of its output:\ndone",
        text,
    )
    waiting = await start_job(ctx, "sleep 0.5")
    await jobs(ctx, action="wait", id=waiting)
    killed = await start_job(ctx, "sleep 60")
    await jobs(ctx, action="kill", id=killed)
    assert notifications.empty()
    await local_env.aclose()


async def test_job_that_ends_immediately_returns_its_output(ctx: ToolContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.tools.support.background._EARLY_EXIT_SECONDS", 120)
    result = await shell(ctx, command="echo no; exit 7", background=True)
    assert re.fullmatch(r"no\n\[job1: exit 7 after [\d.]+s\]", result.text)


async def test_wait_has_a_limit_and_unknown_ids_are_errors(ctx: ToolContext) -> None:
    missing = await jobs(ctx, action="read", id="job9")
    assert missing.code == ToolErrorCode.NOT_FOUND
    assert "No background commands were started" in missing.text
    job = await start_job(ctx, "sleep 60")
    assert "running for" in (await jobs(ctx, action="wait", id=job, seconds=0.05)).text
    assert "Known IDs: job1." in (await jobs(ctx, action="kill")).text
    assert "job1" in (await jobs(ctx, action="list")).text
    assert (await jobs(ToolContext(env=MemoryEnv()), action="list")).text == "No background commands."


async def test_read_returns_the_end_of_long_output(ctx: ToolContext) -> None:
    job = await start_job(ctx, "seq 1 200000; sleep 60")
    while "1288895 bytes" not in (await jobs(ctx, action="list")).text:
        pass
    text = (await jobs(ctx, action="read", id=job, max_bytes=1000)).text
    assert re.match(r"…\(\d+ bytes truncated from head\)…\n", text)
    assert "\n200000\n[job1: running" in text


# --- commands that misbehave ----------------------------------------------------------------------------------------------


async def test_detached_daemon_is_reported_and_stopped(ctx: ToolContext, pids: Path) -> None:
    result = await shell(
        ctx, command=f"(setsid sh -c 'echo $$ > {pids}; exec sleep 60' &) ; while [ ! -s {pids} ]; do :; done"
    )
    pid = await read_pid(pids)
    assert result.metadata["survivors"] == [pid]
    assert f"still running in the background: pid {pid}" in result.text
    await ctx.env.aclose()
    assert ended(pid)


async def test_child_that_keeps_the_output_open_does_not_block_the_call(ctx: ToolContext) -> None:
    result = await shell(ctx, command="sleep 600 & echo started", timeout=120)
    assert result.text.startswith("started\n")
    [pid] = result.metadata["survivors"]
    assert alive(pid)
    await ctx.env.aclose()
    assert ended(pid)


@pytest.mark.parametrize(
    "command", ["read -r x; echo got:$x", "cat", "python3 -c 'input()'", "git -c x commit -e 2>&1"]
)
async def test_command_that_reads_input_gets_end_of_file(ctx: ToolContext, command: str) -> None:
    result = await shell(ctx, command=command, timeout=120)
    assert not result.metadata["timed_out"]
    assert result.metadata["survivors"] == []


async def test_excessive_output_stops_the_command(ctx: ToolContext) -> None:
    """The limit stops a command that would write a gigabyte; only the end of the output is in memory."""
    result = await shell(ctx, command="head -c 1000000000 /dev/zero | tr '\\0' 'x'", timeout=120)
    assert "wrote more output than is allowed" in result.text
    assert len(result.text) < 40_000
    assert result.metadata["survivors"] == []


async def test_invalid_bytes_become_replacement_characters(ctx: ToolContext) -> None:
    result = await shell(ctx, command=r"printf 'a\xff\xfeb\xc3'; printf '\x80' >&2")
    assert result.text.startswith("a\ufffd\ufffdb\ufffd\n[stderr]\n\ufffd\n")


@pytest.fixture
async def limited_context(project: Path) -> AsyncIterator[ToolContext]:
    env = await asyncio.to_thread(LocalEnv, project, max_processes=40)
    yield ToolContext(env=env)
    await env.aclose()


async def test_excessive_processes_are_stopped(limited_context: ToolContext, pids: Path) -> None:
    storm = f"for i in $(seq 300); do sleep 60 & echo $! >> {pids}; done; wait"
    result = await shell(limited_context, command=storm, timeout=120)
    assert "more processes than are allowed" in result.text
    assert result.metadata["survivors"] == []
    assert all(ended(int(pid)) for pid in (await asyncio.to_thread(pids.read_text)).split())
    assert (await shell(limited_context, command="echo fine; sleep 0.3")).text.startswith("fine\n")


@requires(shutil.which("setpriv") is not None and os.getuid() == 0, "setpriv, and root to lower itself")
async def test_fork_bomb_is_stopped(limited_context: ToolContext) -> None:
    """The bomb runs as an unprivileged user with a kernel limit, in case the process limit fails."""
    bomb = "setpriv --reuid=64999 --clear-groups --inh-caps=-all bash -c 'ulimit -u 300; :(){ :|:& };:; wait' 2>/dev/null; wait"
    result = await shell(limited_context, command=bomb, timeout=120)
    assert result.metadata["survivors"] == []
    left = await shell(limited_context, command="ps -u 64999 -o stat= | grep -v Z", metadata=False)
    assert left.text == ""


async def test_nul_or_surrogate_in_a_command_is_an_error(ctx: ToolContext) -> None:
    result = await shell(ctx, command="echo a\0b")
    assert "NUL" in result.text
    with pytest.raises(OSError, match="NUL"):
        await ctx.env.run(["echo", "a\0b"])
    with pytest.raises(OSError, match="surrogate"):
        await ctx.env.run(["echo", "\ud800"])
