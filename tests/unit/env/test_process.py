"""Running real programs without leaving processes behind."""

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from mainspring.cancellation import CancelToken
from mainspring.env import LocalEnv, OutputLimits
from mainspring.env.local import is_shell
from tests.helpers.processes import ended
from tests.requires import on_linux


@pytest.fixture
def local_env(tmp_path: Path) -> LocalEnv:
    return LocalEnv(tmp_path)


@pytest.fixture
async def env(local_env: LocalEnv) -> AsyncIterator[LocalEnv]:
    yield local_env
    await local_env.aclose()


def is_running(pid: int) -> bool:
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return bool(listed.stdout.strip()) and not listed.stdout.strip().startswith("Z")


async def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for a condition that another process makes true."""

    def wait() -> None:
        while not condition():
            threading.Event().wait(0.01)

    await asyncio.to_thread(wait)


def read_text(path: Path | str) -> str:
    return Path(path).read_text() if Path(path).exists() else ""


def size(path: str) -> int:
    return Path(path).stat().st_size


async def pids_in(file: Path, count: int) -> list[int]:
    await wait_until(lambda: len(read_text(file).split()) >= count)
    return [int(pid) for pid in read_text(file).split()]


@pytest.mark.parametrize(
    ("script", "code", "name"), [("exit 3", 3, None), ("kill -9 $$", 137, "SIGKILL"), ("true", 0, None)]
)
async def test_exit_code_and_signal_are_reported(env: LocalEnv, script: str, code: int, name: str | None) -> None:
    result = await env.run(script)
    assert (result.exit_code, result.signal) == (code, name)
    assert not result.timed_out


async def test_arguments_are_passed_unchanged(env: LocalEnv) -> None:
    result = await env.run([sys.executable, "-c", "import sys; print(sys.argv[1:])", "a b", "$HOME", "*"])
    assert result.stdout.text == "['a b', '$HOME', '*']\n"


async def test_stdout_and_stderr_are_separate(env: LocalEnv) -> None:
    result = await env.run("echo out; echo err >&2")
    assert (result.stdout.text, result.stderr.text) == ("out\n", "err\n")


async def test_command_has_no_input_and_no_terminal(env: LocalEnv) -> None:
    script = "cat; readlink /proc/self/fd/0 || true; (: </dev/tty) 2>/dev/null || echo no terminal; read x || echo end"
    result = await env.run(script, timeout=120)
    assert "no terminal\nend\n" in result.stdout.text
    if sys.platform == "linux":
        assert result.stdout.text.startswith(
            "/dev/null\n"
        )  # The input is not a pipe, because some programs would read a pipe instead of files.


async def test_input_is_passed_completely(env: LocalEnv) -> None:
    data = os.urandom(300_000)
    result = await env.run("sha256sum", stdin=data)
    assert result.stdout.text.split()[0] == hashlib.sha256(data).hexdigest()
    assert (await env.run(["wc", "-c"], stdin=b"12345")).stdout.text.split() == ["5"]
    assert (await env.run("true", stdin=data)).exit_code == 0  # The program may leave its input unread.


async def test_long_script_does_not_exceed_the_argument_limit(env: LocalEnv) -> None:
    result = await env.run("echo " + "x" * 3_000_000 + " | wc -c")
    assert result.stdout.text.split() == ["3000001"]


async def test_wildcards_of_a_script_do_not_depend_on_settings_of_the_user(
    env: LocalEnv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a/b/c.py", ".env", "A.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.setenv("BASHOPTS", "dotglob:globstar:nocaseglob")
    monkeypatch.setenv("GLOBIGNORE", "x")

    result = await env.run("printf '%s ' *env **/*.py a*; bash -c \"printf '%s ' *env **/*.py a*\"")

    assert result.stdout.text == "*env **/*.py a " * 2
    assert result.stderr.text == ""


async def test_script_is_not_visible_in_the_process_list(env: LocalEnv) -> None:
    result = await env.run("pkill -f a_pattern_that_is_only_here; echo alive")
    assert (result.exit_code, result.stdout.text) == (0, "alive\n")


def test_is_shell_rejects_a_stub_program(tmp_path: Path) -> None:
    """Windows has such a ``bash`` if no Linux distribution is installed."""
    stub = tmp_path / "bash"
    stub.write_text("#!/bin/sh\necho 'Windows Subsystem for Linux has no installed distributions.'\n", encoding="utf-8")
    stub.chmod(0o755)
    assert not is_shell(str(stub))
    assert not is_shell(str(tmp_path / "none"))
    assert not is_shell("/bin/false")
    assert is_shell("/bin/sh")


@pytest.mark.parametrize("shell", ["sh", "bash"])
async def test_short_and_long_scripts_behave_the_same(tmp_path: Path, shell: str) -> None:
    env = LocalEnv(tmp_path, shell=shell)
    script = "# comment\ncat <<'X'\nhere 'doc' $HOME\nX\nif true; then echo \"$0\"; fi\nexit 4"
    for padding in ("", "\n: " + "y" * 150_000):
        result = await env.run(script.replace("\nexit", padding + "\nexit"))
        assert (result.exit_code, result.stdout.text.split("\n")[0]) == (4, "here 'doc' $HOME")
    await env.aclose()


async def test_failed_start_raises_a_helpful_error(env: LocalEnv, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await env.run(["/no/such/program"])
    with pytest.raises(FileNotFoundError, match="gone"):
        await env.run("true", cwd=str(tmp_path / "gone"))
    with pytest.raises(OSError, match="NUL"):
        await env.run("echo \0")


async def test_each_command_starts_in_the_project_folder(env: LocalEnv, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    await env.run("cd sub; X=1")
    assert (await env.run('pwd; echo "[$X]"')).stdout.text == f"{tmp_path}\n[]\n"
    assert (await env.run("pwd", cwd="sub")).stdout.text == f"{tmp_path}/sub\n"


async def test_timeout_ends_all_child_processes(env: LocalEnv, tmp_path: Path) -> None:
    script = "sleep 600 & echo $! >> pids; (sleep 600; true) & echo $! >> pids; echo partial; sleep 600"
    result = await env.run(script, timeout=3)
    assert (result.timed_out, result.signal, result.stdout.text) == (True, "SIGTERM", "partial\n")
    assert result.survivors == ()
    assert not [pid for pid in await pids_in(tmp_path / "pids", 2) if is_running(pid)]


async def test_process_that_ignores_sigterm_is_killed(env: LocalEnv) -> None:
    result = await env.run("trap '' TERM; echo ready; while true; do sleep 0.1; done", timeout=3)
    assert (result.timed_out, result.signal, result.exit_code) == (True, "SIGKILL", 137)


async def test_each_process_gets_one_sigterm(env: LocalEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    kill_process, outside_the_group = os.kill, list[tuple[int, int]]()

    def kill(pid: int, number: int) -> None:
        if number == signal.SIGTERM:
            outside_the_group.append((pid, os.getsid(pid)))
        kill_process(pid, number)

    monkeypatch.setattr(os, "kill", kill)
    result = await env.run("sleep 60 & setsid sleep 60 & wait", timeout=3)
    assert (result.timed_out, result.signal) == (True, "SIGTERM")
    assert [pid == session for pid, session in outside_the_group] == [True], (
        "one process is outside the group, which gets one signal"
    )


@on_linux
async def test_child_in_another_session_is_ended(env: LocalEnv, tmp_path: Path) -> None:
    script = (
        "setsid sh -c 'echo $$ >> pids; exec sleep 60' & (setsid sh -c 'echo $$ >> pids; exec sleep 60' &); sleep 60"
    )
    result = await env.run(script, timeout=3)
    assert result.timed_out
    assert not [pid for pid in await pids_in(tmp_path / "pids", 2) if is_running(pid)]


async def test_background_job_does_not_block_the_call(env: LocalEnv) -> None:
    result = await env.run("sleep 600 & echo $!")
    assert result.exit_code == 0
    assert result.survivors == (int(result.stdout.text),)
    assert is_running(result.survivors[0])
    await env.aclose()
    assert not is_running(result.survivors[0])


@on_linux
async def test_daemon_is_listed_as_a_survivor(env: LocalEnv) -> None:
    result = await env.run("(setsid sleep 60 >/dev/null 2>&1 &); true")
    assert len(result.survivors) == 1


async def test_output_of_a_survivor_goes_to_the_spool_file(env: LocalEnv, tmp_path: Path) -> None:
    seen: list[bytes] = []
    result = await env.run(
        "echo one; (while [ ! -e go ]; do sleep 0.02; done; echo two; touch done; sleep 60) &",
        on_output=lambda _, data: seen.append(data),
        limits=OutputLimits(spool=True),
    )
    spool = result.spool or ""
    (tmp_path / "go").touch()
    await wait_until(lambda: "two" in read_text(spool))
    assert read_text(spool) == "one\ntwo\n"
    assert b"".join(seen) == b"one\n"


async def test_cancel_token_ends_the_command(env: LocalEnv, tmp_path: Path) -> None:
    token = CancelToken()

    async def cancel() -> None:
        await pids_in(tmp_path / "pid", 1)
        token.cancel()

    task = asyncio.ensure_future(cancel())
    result = await env.run("echo begun; echo $$ > pid; sleep 60", signal=token)
    await task
    assert (result.cancelled, result.timed_out, result.stdout.text) == (True, False, "begun\n")


async def test_cancelling_the_task_ends_the_command(env: LocalEnv, tmp_path: Path) -> None:
    task = asyncio.ensure_future(env.run("sleep 60 & echo $! > pid; sleep 60"))
    [pid] = await pids_in(tmp_path / "pid", 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_running(pid)


async def test_cancelling_twice_ends_the_command(env: LocalEnv, tmp_path: Path) -> None:
    task = asyncio.ensure_future(env.run("trap '' TERM; echo $$ > pid; while true; do sleep 0.05; done"))
    [pid] = await pids_in(tmp_path / "pid", 1)
    task.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await wait_until(lambda: not is_running(pid))


async def test_failing_output_callback_ends_the_command(env: LocalEnv) -> None:
    def fail(stream: str, data: bytes) -> None:
        raise ValueError("observer")

    with pytest.raises(ValueError, match="observer"):
        await env.run("echo x; sleep 60", on_output=fail)


async def test_kill_all_ends_running_commands(env: LocalEnv, tmp_path: Path) -> None:
    task = asyncio.ensure_future(env.run("trap '' TERM; echo $$ > pid; while true; do sleep 0.05; done"))
    await pids_in(tmp_path / "pid", 1)
    env.kill_all()
    assert (await task).signal == signal.SIGKILL.name


async def test_head_and_tail_of_the_output_are_kept_and_the_rest_is_counted(env: LocalEnv) -> None:
    result = await env.run("seq 1 20000", limits=OutputLimits(head=10, tail=10, spool=True))
    assert (result.stdout.head, result.stdout.tail) == (b"1\n2\n3\n4\n5\n", b"999\n20000\n")
    assert result.stdout.total == 108_894
    assert result.stdout.omitted == 108_874
    assert result.spool is not None
    assert size(result.spool) == 108_894
    assert os.stat(result.spool).st_mode & 0o077 == 0
    assert os.stat(os.path.dirname(result.spool)).st_mode & 0o077 == 0
    await env.aclose()
    assert read_text(result.spool) == ""


async def test_small_output_creates_no_spool_file(env: LocalEnv) -> None:
    assert (await env.run("seq 10", limits=OutputLimits(spool=True))).spool is None
    assert (await env.run("seq 1 20000", limits=OutputLimits(head=1, tail=1))).spool is None


async def test_endless_output_stops_the_command(env: LocalEnv) -> None:
    result = await env.run("yes", timeout=120, limits=OutputLimits(head=10, tail=10, cap=1 << 20, spool=True))
    assert result.overflowed
    assert not result.timed_out
    assert result.spool is not None
    assert size(result.spool) < 2 << 20


async def test_commands_run_concurrently(env: LocalEnv) -> None:
    results = await asyncio.gather(*[env.run(f"echo {i}; seq {i} | tail -n 1 >&2") for i in range(1, 21)])
    assert [(r.stdout.text, r.stderr.text) for r in results] == [(f"{i}\n", f"{i}\n") for i in range(1, 21)]


async def test_variables_override_each_other_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"MAINSPRING_X": "1", "OPENAI_API_KEY": "k", "PAGER": "less", "PLAIN": "p", "HIDE": "h"}.items():
        monkeypatch.setenv(name, value)
    env = LocalEnv(tmp_path, variables={"TERM": "mine"}, hidden_variables=["HIDE"])
    script = 'echo "$MAINSPRING_X,$OPENAI_API_KEY,$PAGER,$PLAIN,$TERM,$HIDE"'
    result = await env.run(script, env={"PAGER": "cat", "TERM": "dumb"})
    assert result.stdout.text == ",,cat,p,mine,\n"
    await env.aclose()


def test_background_jobs_end_with_the_program_without_aclose(tmp_path: Path) -> None:
    script = (
        "import asyncio\n"
        "from mainspring.env import LocalEnv\n"
        f"env = LocalEnv({str(tmp_path)!r})\n"
        "result = asyncio.run(env.run('sleep 60 >/dev/null 2>&1 & echo $!'))\n"
        "print(result.stdout.text)\n"
    )
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert not is_running(int(process.stdout))


@pytest.mark.parametrize("start", [LocalEnv.connect, LocalEnv.run])
async def test_cancelled_start_leaves_no_program(tmp_path: Path, start: Callable[..., Awaitable[object]]) -> None:
    env = LocalEnv(str(tmp_path))
    starting = asyncio.ensure_future(start(env, ["sh", "-c", "echo $$ > pid; exec sleep 60"]))
    for _ in range(100_000):
        if env._starting:
            break
        await asyncio.sleep(0)
    assert env._starting
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting

    await env.aclose()

    pid = tmp_path / "pid"
    assert not env._starting
    assert not env._running
    written = await asyncio.to_thread(lambda: pid.read_text() if pid.exists() else "")
    assert not written or await asyncio.to_thread(ended, int(written))
