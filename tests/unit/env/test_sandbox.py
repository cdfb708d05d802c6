"""The protection of each sandbox backend, compared with its own description."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mainspring.env import EditorEnv, ExecutionEnv, LocalEnv, OutputLimits
from mainspring.env.sandbox import Bubblewrap, Landlock, SandboxBackend, SandboxEnv, find_backend
from mainspring.env.sandbox.lockdown import landlock_version
from mainspring.errors import ConfigError
from mainspring.permissions import Permissions
from mainspring.tools.builtin import builtin_tools
from tests.helpers.sandboxes import LAYERS, layer
from tests.requires import requires
from tests.unit.env.test_process import is_running, read_text, wait_until

pytestmark = pytest.mark.covers("EXE-03", "BYD-17")

Make = Callable[..., SandboxEnv]

ALONE = "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1"
"""Run pytest without the installed plugins, which take seconds to load."""


@pytest.fixture(params=LAYERS)
def provider(request: pytest.FixtureRequest) -> SandboxBackend:
    """Return each backend that works on this machine."""
    return layer(request.param)


@pytest.fixture
def base_folder() -> Iterator[Path]:
    """Return a folder outside of /tmp, which a sandbox may replace."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder).resolve()


@pytest.fixture
def project(base_folder: Path) -> Path:
    folder = base_folder / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def home(base_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = base_folder / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture
async def make(provider: SandboxBackend, project: Path, home: Path) -> AsyncIterator[Make]:
    """Return a function that creates sandboxes for the project, with a key in the home folder."""
    environments: list[SandboxEnv] = []
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id_rsa").write_text("KEY")

    def create(**options: Any) -> SandboxEnv:
        environments.append(SandboxEnv(project, provider=provider, home=str(home), **options))
        return environments[-1]

    yield create
    for env in environments:
        await env.aclose()


async def output(env: ExecutionEnv, script: str) -> str:
    """Return the output of a script, including its errors."""
    result = await env.run(script + "\n", timeout=45)
    return result.stdout.text + result.stderr.text


async def succeeds(env: ExecutionEnv, script: str) -> bool:
    return (await env.run(script, timeout=45)).exit_code == 0


def git_init(folder: Path) -> None:
    subprocess.run(["git", "init", "-q", str(folder)], check=True)


def exists(path: str) -> bool:
    return os.path.exists(path)


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def python(code: str) -> str:
    return f"{sys.executable} -I -S - <<'END'\n{textwrap.dedent(code)}\nEND"


# --- files ------------------------------------------------------------------------------------------------------------


async def test_project_and_private_folder_are_writable(make: Make, project: Path) -> None:
    env = make()
    assert await output(env, "mkdir a && echo 1 > a/b && mv a/b c && cat c && rm -r a c && pwd") == f"1\n{project}\n"
    assert await output(env, "echo 2 > $TMPDIR/x && mktemp >/dev/null && touch $XDG_CACHE_HOME/y") == ""
    assert await output(env, "cat $TMPDIR/x") == "2\n", "the private folder is kept between commands"


@pytest.mark.parametrize(
    "script",
    [
        "echo x > {outside}/new",
        "echo x >> {outside}/file",
        "rm {outside}/file",
        "mv {outside}/file moved",
        "ln {outside}/file linked && echo x > linked",
        "ln -s {outside} link && echo x > link/new",
        "echo x > $PWD/../beside",
        "echo x > /proc/self/cwd/../beside",
        "echo x > /proc/self/root{outside}/new",
        "echo x > ~/new",
        "mkdir ~/.config",
        "echo x > /new",
        "echo x > /etc/new",
        "echo x > /usr/local/bin/new",
        "truncate -s 0 {outside}/file",
        "mount -t tmpfs none {outside}",
        "mknod $TMPDIR/disk b 8 0 && echo x > $TMPDIR/disk",
        "unshare -rm sh -c 'mount -o bind {outside} a && echo x > a/new'",
    ],
)
async def test_files_outside_the_project_cannot_be_written(
    make: Make, base_folder: Path, script: str, home: Path
) -> None:
    outside = base_folder / "outside"
    outside.mkdir()
    (outside / "file").write_text("as it was")
    env = make()
    assert env.state().writes
    assert not await succeeds(env, script.format(outside=outside))
    assert (outside / "file").read_text() == "as it was"
    assert names(outside) == ["file"]
    assert names(base_folder) == ["home", "outside", "project"]
    assert names(home) == [".ssh"]


@pytest.mark.parametrize(
    "script",
    [
        "cat ~/.ssh/id_rsa",
        "ls ~/.ssh/id_rsa && cat ~/.ssh/*",
        "ln -s ~/.ssh keys && cat keys/id_rsa",
        "ln ~/.ssh/id_rsa key && cat key",
        "mv ~/.ssh keys && cat keys/id_rsa",
        "cat /proc/self/root$HOME/.ssh/id_rsa",
        "cat /proc/$PPID/root$HOME/.ssh/id_rsa",
        "cat ~/notes",
        "cat {outside}",
        "cp -r ~/.ssh . && cat .ssh/id_rsa",
    ],
)
async def test_files_outside_the_project_and_the_system_cannot_be_read(
    make: Make, base_folder: Path, home: Path, script: str
) -> None:
    (home / "notes").write_text("KEY")
    (base_folder / "outside").write_text("KEY")
    env = make()
    assert env.state().reads
    assert "KEY" not in await output(env, script.format(outside=base_folder / "outside"))
    assert "KEY" in await output(LocalEnv(env.cwd), "cat ~/.ssh/id_rsa"), "the file exists"


@requires(os.geteuid() == 0, "root: others cannot read it anyway")
async def test_root_has_no_capabilities_in_the_sandbox(make: Make) -> None:
    env = make()
    assert not await succeeds(env, "cat /etc/shadow")
    assert not await succeeds(env, "cat /etc/sudoers /etc/gshadow")
    assert not await succeeds(env, "touch x && mount -o bind x /etc/hostname")
    assert not await succeeds(env, "hostname other"), "root has no capabilities"


async def test_hidden_files_of_the_project_are_hidden_from_programs_and_tools(make: Make, project: Path) -> None:
    (project / "src").mkdir()
    (project / "secrets").mkdir()
    (project / "secrets" / "a").write_text("KEY")
    (project / ".env").write_text("KEY")
    env = make(hidden=("secrets", ".env"))
    for script in ("cat .env", "cat secrets/a", "cat secrets/*", "mv secrets other; cat other/a", "ln .env x; cat x"):
        assert "KEY" not in await output(env, script), script
    assert await succeeds(env, "ls && echo 1 > src/new && cat src/new")
    for path in (".env", "secrets/a", "secrets"):
        with pytest.raises(PermissionError, match="hides it"):
            await env.stat(path)
    assert [e.path for e in (await env.walk(".")).entries] == ["src", "src/new"]
    is_read_only = "nothing new can be created directly in" in env.state().text
    assert await succeeds(env, "echo 1 > new") != is_read_only


async def test_hidden_paths_are_evaluated_before_each_command(make: Make, project: Path) -> None:
    (project / "a").write_text("KEY")
    hidden: list[str] = []
    env = make(hidden=lambda: hidden)
    assert "KEY" in await output(env, "cat a")
    hidden.append("a")
    assert "KEY" not in await output(env, "cat a")


async def test_guarded_files_cannot_be_written(make: Make, project: Path) -> None:
    git_init(project)
    env = make()
    for script in ("echo x > .git/hooks/pre-commit", "echo x >> .git/config", "rm -rf .git/hooks"):
        assert await succeeds(env, script) != env.state().guards, script
    for path in (
        ".git/hooks/pre-commit",
        ".git/config",
        ".git/commondir",
        ".agent/settings.json",
        ".claude/skills/x/SKILL.md",
    ):
        with pytest.raises(PermissionError, match="run later"):
            await env.write_bytes(path, b"x")


async def test_guarded_or_hidden_files_cannot_be_moved(make: Make, project: Path) -> None:
    git_init(project)
    (project / "deep" / "er").mkdir(parents=True)
    (project / "deep" / "er" / "keys").write_text("secret")
    env = make(hidden=["deep/er/keys"])
    for script in ("mv deep d2; cat d2/er/keys", "mv deep/er deep/e2; cat deep/e2/keys"):
        assert not await succeeds(env, script), script
    assert "secret" not in await output(env, "cat deep/er/keys d2/er/keys deep/e2/keys")
    if env.state().guards:
        assert not await succeeds(env, "mv .git other")
        assert not await succeeds(env, "cp -r .git other; mv other .git && echo x > .git/hooks/pre-commit")
        assert await succeeds(env, "echo x > new && git add new")


async def test_git_file_of_a_worktree_is_guarded(make: Make, project: Path, base_folder: Path) -> None:
    git_init(base_folder / "main")
    (project / ".git").write_text(f"gitdir: {base_folder}/main/.git")
    env = make()
    for script in ("rm .git", "echo gitdir: /tmp > .git", "mv .git x"):
        assert await succeeds(env, script) != env.state().guards, script
        (project / ".git").write_text(f"gitdir: {base_folder}/main/.git")


async def test_kernel_settings_cannot_be_changed(make: Make) -> None:
    """Root can write there without capabilities, so the test opens the file without writing to it."""
    env = make()
    for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/vm/swappiness", "/proc/sysrq-trigger"):
        assert not await succeeds(env, f": >> {path}"), path


async def test_vsock_to_the_host_is_blocked(make: Make) -> None:
    env, vsock = make(), 40
    assert not await succeeds(env, f"{sys.executable} -c 'import socket; socket.socket({vsock})'")
    assert await succeeds(env, f"{sys.executable} -c 'import socket; socket.socket(socket.AF_UNIX)'")


async def test_installation_of_the_running_program_is_read_only(
    make: Make, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / ".venv" / "bin").mkdir(parents=True)
    (project / ".venv" / "bin" / "tool").write_text("1")
    (project / "src").mkdir()
    monkeypatch.setattr(sys, "prefix", str(project / ".venv"))
    env = make()
    assert await output(env, "cat .venv/bin/tool") == "1"
    for script in ("echo x > .venv/bin/tool", "echo x > .venv/bin/new", "mv .venv other", "rm .venv/bin/tool"):
        assert not await succeeds(env, script), script
    assert await succeeds(env, "echo x > src/new")
    with pytest.raises(PermissionError, match="run later"):
        await env.write_bytes(".venv/bin/tool", b"x")


async def test_additional_folders_can_be_readable_or_writable(make: Make, base_folder: Path, home: Path) -> None:
    for name in ("read", "write"):
        (base_folder / name).mkdir()
        (base_folder / name / "x").write_text("1")
    env = make(readable=[str(base_folder / "read"), "~/.ssh"], writable=[str(base_folder / "write")])
    assert await output(env, f"cat {base_folder}/read/x {base_folder}/write/x") == "11"
    assert await succeeds(env, f"echo 2 > {base_folder}/write/x")
    assert not await succeeds(env, f"echo 2 > {base_folder}/read/x")
    assert not await succeeds(env, "cat ~/.ssh/id_rsa"), "secrets stay hidden despite the setting"


# --- network and other programs ---------------------------------------------------------------------------------------


async def test_tcp_is_blocked_without_network(make: Make) -> None:
    connected = asyncio.Event()

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        writer.close()

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        connect = python(f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)")
        env = make()
        assert env.state().tcp
        assert not await succeeds(env, connect)
        assert not await succeeds(env, f"exec 3<>/dev/tcp/127.0.0.1/{port}")
        assert not connected.is_set()
        open_env = make(network=True)
        assert not open_env.state().tcp
        assert await succeeds(open_env, connect)
        await connected.wait()


async def test_udp_is_blocked_without_network(make: Make) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as inbox:
        inbox.bind(("127.0.0.1", 0))
        inbox.setblocking(False)
        address = inbox.getsockname()
        send = python(f"import socket; socket.socket(2, 2).sendto(b'out', {address!r})")
        env = make()
        await output(env, send)
        if env.state().udp:
            with pytest.raises(BlockingIOError):
                inbox.recv(10)
        else:
            assert inbox.recv(10) == b"out"
        assert await succeeds(make(network=True), send)
        assert inbox.recv(10) == b"out"


@pytest.mark.parametrize("kind", ["file", "abstract"])
async def test_unix_sockets_of_the_machine_are_blocked(make: Make, base_folder: Path, kind: str) -> None:
    name = str(base_folder / "service") if kind == "file" else f"\0mainspring-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as service:
        service.bind(name)
        service.listen()
        env = make()
        state = env.state()
        reached = await succeeds(env, python(f"import socket; socket.socket(1, 1).connect({name!r})"))
        is_blocked = state.sockets if kind == "file" else (state.sockets or state.signals)
        assert reached != is_blocked


async def test_other_processes_cannot_be_signaled_or_read(make: Make) -> None:
    with running_program(["sleep", "60"], env={"SECRET": "KEY"}) as other:
        env = make()
        assert env.state().signals
        assert not await succeeds(env, f"kill {other.pid}")
        assert "KEY" not in await output(env, f"cat /proc/{other.pid}/environ")
        assert other.poll() is None


async def test_socket_variables_are_removed(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/agent")
    assert await output(make(), "echo [$SSH_AUTH_SOCK]") == "[]\n"


async def test_background_processes_end_with_the_environment(make: Make, project: Path) -> None:
    env = make()
    found = await env.run("setsid sh -c 'echo $$; exec sleep 60' & sleep 0.2")
    assert (found.survivors == ()) == env.state().processes
    await env.aclose()
    assert not any(is_running(pid) for pid in found.survivors)


async def test_processes_end_when_the_program_is_killed(make: Make, project: Path, provider: SandboxBackend) -> None:
    code = f"""
        import asyncio
        from mainspring.env.sandbox import *
        env = SandboxEnv({str(project)!r}, provider={type(provider).__name__}())
        asyncio.run(env.run("setsid sleep 61 & echo > up; exec sleep 60"))
    """
    with running_program([sys.executable, "-c", textwrap.dedent(code)]) as program:
        await wait_until(lambda: len(find_sleep_processes(project)) == 2)
        running_pids = find_sleep_processes(project)
        program.send_signal(signal.SIGKILL)
    await wait_until(lambda: not is_running(running_pids["sleep 60"]))
    if make().state().processes:
        await wait_until(lambda: not is_running(running_pids["sleep 61"]))
    else:
        os.kill(running_pids["sleep 61"], signal.SIGKILL)


@contextlib.contextmanager
def running_program(arguments: list[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    with subprocess.Popen(arguments, **options) as program:
        try:
            yield program
        finally:
            program.kill()


def find_sleep_processes(folder: Path) -> dict[str, int]:
    """Return the PIDs of the sleep processes in a folder by their command line."""
    listed = subprocess.run(["ps", "-eo", "pid=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 1) for line in listed.splitlines()]
    return {args: int(pid) for pid, args in rows if args.startswith("sleep 6") and _cwd(int(pid)) == folder}


def _cwd(pid: int) -> Path | None:
    try:
        return Path(os.readlink(f"/proc/{pid}/cwd"))
    except OSError:
        return None


async def test_timeout_sends_sigterm_before_sigkill(make: Make, project: Path) -> None:
    result = await make().run("trap 'echo bye > end; exit 3' TERM; sleep 300 & wait", timeout=4)
    assert result.timed_out
    assert read_text(project / "end") == "bye\n"


# --- file tools -------------------------------------------------------------------------------------------------------

READS = {"stat", "read_bytes", "list_dir", "walk"}
CHANGES = {"write_bytes", "remove", "rename"}


async def call_method(env: SandboxEnv, method: str, path: str) -> None:
    rest: dict[str, tuple[object, ...]] = {"write_bytes": (b"x",), "rename": ("inside",)}
    await getattr(env, method)(path, *rest.get(method, ()))


@pytest.mark.parametrize("method", sorted(READS | CHANGES))
async def test_file_tools_obey_the_sandbox(make: Make, method: str, project: Path, home: Path) -> None:
    (project / "link").symlink_to(home / ".ssh")
    (home / "x").write_text("x")
    env = make()
    for path in ("~/.ssh/id_rsa", "link/id_rsa", "~/x", f"{project}/../home/x", "/var/tmp"):
        with pytest.raises(PermissionError, match="the sandbox"):
            await call_method(env, method, path)
    if method in CHANGES:
        with pytest.raises(PermissionError, match="can change"):
            await call_method(env, method, "/etc/hostname")


async def test_missing_file_raises_file_not_found(make: Make) -> None:
    env = make()
    with pytest.raises(FileNotFoundError):
        await env.read_bytes("/.agentignore")
    with pytest.raises(PermissionError, match="can change"):
        await env.write_bytes("/.agentignore", b"")


async def test_ignore_files_above_the_project_apply(make: Make, base_folder: Path) -> None:
    (base_folder / ".agentignore").write_text("x")
    (base_folder / ".gitignore").write_text("*.log")
    (base_folder / "project" / "a.log").write_text("")
    env = make()
    assert await env.read_bytes("../.agentignore") == b"x"
    assert await env.is_ignored("a.log")
    assert not (await env.walk(".")).entries


def test_all_methods_with_a_path_are_covered() -> None:
    harmless = {"realpath", "is_ignored", "lock"}  # These methods do not reveal the content of a file.
    with_path = {
        name
        for name, method in vars(ExecutionEnv).items()
        if callable(method) and {"path", "source"} & set(getattr(method, "__annotations__", {}))
    }
    assert with_path - harmless == READS | CHANGES


async def test_rename_out_of_the_project_is_denied(make: Make) -> None:
    env = make()
    await env.write_bytes("a", b"")
    with pytest.raises(PermissionError, match="can change"):
        await env.rename("a", "/etc/a")


@requires(landlock_version() >= 3, "Landlock")
async def test_threads_of_the_sandbox_cannot_open_files_outside(make: Make, home: Path) -> None:
    env = make()
    await env.write_bytes("a", b"")
    key = home / ".ssh" / "id_rsa"
    for work in (key.read_text, lambda: key.write_text("x"), lambda: (home / "new").write_text("x")):
        with pytest.raises(PermissionError):
            await env._in_thread(work)
    assert key.read_text() == "KEY", "only the threads of the sandbox are restricted"


async def test_tools_and_programs_share_the_temporary_folder(make: Make, provider: SandboxBackend) -> None:
    env = make()
    file = "/tmp/x" if provider.has_private_tmp else (await output(env, "printf $TMPDIR/x"))
    await env.write_bytes(file, b"1")
    assert await output(env, f"cat {file}; echo 2 > {file}") == "1"
    assert await env.read_bytes(file) == b"2\n"
    assert not exists("/tmp/x")
    if not provider.has_private_tmp:
        with pytest.raises(PermissionError, match="the sandbox"):
            await env.write_bytes("/tmp/x", b"1")


class NoBuffers:
    """An editor without open files."""

    async def read(self, path: str) -> str | None:
        return None

    async def write(self, path: str, text: str) -> bool:
        return False


async def test_permission_rules_use_a_stable_name_for_the_temporary_folder(
    make: Make, provider: SandboxBackend
) -> None:
    tools = {t.name: t for t in builtin_tools()}
    permissions = Permissions(allow=["shell(touch *)", "scope:fs-write(/tmp/q1/**)", "write_file(/tmp/q1/**)"])
    calls = ("shell", {"command": "touch {}/q1/x"}), ("write_file", {"path": "{}/q1/x", "content": ""})
    for env in (make(), EditorEnv(make(), NoBuffers())):
        folder = "/tmp" if provider.has_private_tmp else (await output(env, "printf $TMPDIR"))

        for name, values in calls:
            tool_input = {key: value.format(folder) for key, value in values.items()}
            decision = await permissions.decide(name, tool_input, env=env, definition=tools[name])
            assert decision.outcome == "allow", decision
        request = await permissions.decide(
            "shell", {"command": f"touch {folder}/q2"}, env=env, definition=tools["shell"], advise=True
        )
        assert (request.outcome, request.advice) == ("ask", (("scope:fs-write(/tmp/q2)",),))


async def test_spool_file_is_readable_but_not_writable(make: Make) -> None:
    env = make()
    result = await env.run("seq 1000", limits=OutputLimits(head=10, tail=10, spool=True))
    assert result.spool is not None
    assert (await env.read_bytes(result.spool)).endswith(b"999\n1000\n")
    assert (await output(env, f"tail -1 {result.spool}")) == "1000\n"
    assert not await succeeds(env, f"echo x > {result.spool}")


async def test_fetch_is_denied_without_network(make: Make) -> None:
    with pytest.raises(PermissionError, match="no network"):
        await make().fetch("https://example.org", timeout=1, max_bytes=1)


async def test_missing_program_or_outside_folder_is_rejected(make: Make) -> None:
    env = make()
    with pytest.raises(FileNotFoundError):
        await env.run(["no-such-program"])
    with pytest.raises(PermissionError, match="outside"):
        await env.run("true", cwd="~/.ssh")


async def test_connect_talks_to_a_program(make: Make) -> None:
    connection = await make().connect(["cat"])
    await connection.write(b"hello")
    assert await connection.read() == b"hello"
    await connection.aclose()


async def test_private_folder_is_deleted_on_close(make: Make) -> None:
    env = make()
    private = await output(env, "printf $TMPDIR")
    assert exists(private)
    await env.aclose()
    assert not exists(os.path.dirname(private))


# --- ordinary commands ------------------------------------------------------------------------------------------------


async def test_c_project_can_be_built(make: Make, project: Path) -> None:
    (project / "Makefile").write_text("hello: hello.o\n\t$(CC) -o $@ $^\n")
    (project / "hello.c").write_text('#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n')
    assert (await output(make(), "make -s CC=gcc && ./hello")).endswith("hello\n")


async def test_python_tests_can_run(make: Make, project: Path) -> None:
    (project / "test_it.py").write_text(
        "import multiprocessing, tempfile\n"
        "def test_it(tmp_path):\n"
        "    (tmp_path / 'x').write_text('1')\n"
        "    with tempfile.NamedTemporaryFile() as f: f.write(b'1')\n"
        "    with multiprocessing.Pool(1) as pool: assert pool.map(abs, [-1]) == [1]\n"
    )
    assert "1 passed" in await output(make(), f"{ALONE} {sys.executable} -m pytest -q -p no:cacheprovider test_it.py")


async def test_virtual_environment_can_be_created(make: Make) -> None:
    script = f"{sys.executable} -m venv --without-pip v && v/bin/python -c 'import ssl, json; print(1)'"
    assert await output(make(), script) == "1\n"


async def test_git_can_commit(make: Make, project: Path) -> None:
    git_init(project)
    (project / "a").write_text("1")
    who = "-c user.name=me -c user.email=me@example.org"
    script = f"git status -s && git add a && git {who} commit -q -m one && git log --oneline | wc -l && git diff"
    assert await output(make(), script) == "?? a\n1\n"


async def test_project_can_be_a_subfolder_of_a_repository(make: Make, base_folder: Path, project: Path) -> None:
    git_init(base_folder)
    (project / "a").write_text("1")
    assert "a" in await output(make(), "git status -s -uall")


# --- backends ---------------------------------------------------------------------------------------------------------


async def test_unavailable_backends_are_reported(project: Path) -> None:
    with pytest.raises(ConfigError, match="Unknown sandbox: 'bubblewrp'"):
        find_backend("bubblewrp")
    with pytest.raises(ConfigError, match="nothing was started: Seatbelt is available on macOS only"):
        find_backend("seatbelt")
    reason = Bubblewrap("").unavailable_reason()
    assert reason is None or "apt install bubblewrap" in reason or "does not run here" in reason
    assert "does not run here" in (Bubblewrap("/bin/false").unavailable_reason() or "")


def test_project_inside_a_folder_of_secrets_is_rejected(home: Path, provider: SandboxBackend) -> None:
    (home / ".ssh" / "x").mkdir(parents=True)
    with pytest.raises(ConfigError, match="contains secrets"):
        SandboxEnv(home / ".ssh" / "x", provider=provider, home=str(home))
    with pytest.raises(ConfigError, match="Create it first"):
        SandboxEnv(home, provider=provider, home=str(home), writable=["none"])


def test_state_text_describes_the_protection(provider: SandboxBackend, project: Path) -> None:
    text = SandboxEnv(project, provider=provider).state().text
    assert text.startswith("sandbox: ")
    assert "writes outside the project" in text
    assert ("not protected: " in text) == isinstance(provider, Landlock)
    assert "the network is enabled" in SandboxEnv(project, provider=provider, network=True).state().text
