"""What the command loads before it does something: each step by itself, so that a heavy module shows where it comes in."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import mainspring
from tests.e2e.command import Command, command

__all__ = ["command"]

pytestmark = pytest.mark.timeout(120)

NEVER = {
    "rich", "prompt_toolkit", "opentelemetry", "mcp", "PIL", "pypdf", "keyring", "langchain_core",
    "pydantic", "pygments", "yaml", "xllamacpp", "azure", "websockets", "uvicorn",
    "httpx2", "httpcore2", "aiohttp", "anyio", "pathspec", "http", "email", "html", "idna", "zipfile", "tomllib",
}  # fmt: skip
"""What no run in print mode needs that does not ask for it."""

OWN_OF_A_RUN = 299
"""Modules of ours that a run in print mode loads, at most. Each costs about a fifth of a millisecond: this may only fall."""

OWN_KB_OF_A_RUN = 2200
"""Source of these modules in KB, at most: a merge of two modules lowers their number but may load more. This may only fall."""


def python(command: Command, code: str) -> "subprocess.CompletedProcess[str]":
    """A program of Python's where the command would run."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=command.folder,
        env={**command.environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def modules(command: Command, *arguments: str) -> set[str]:
    """The modules that the command has loaded when it ends."""
    code = (
        "import sys, atexit\n"
        "atexit.register(lambda: print('LOADED', *sorted(sys.modules), file=sys.stderr))\n"
        "from mainspring.app.cli.main import main\n"
        f"sys.argv = ['mainspring', *{list(arguments)!r}]\n"
        "try: main()\nexcept SystemExit: pass\n"
    )
    done = python(command, code)
    assert done.returncode == 0, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("LOADED"), done.stderr
    return set(last.split()[1:])


def own(loaded: set[str]) -> list[str]:
    return sorted(m for m in loaded if m.startswith("mainspring"))


def source_kb(names: list[str]) -> int:
    """The size of the source of modules."""
    root = Path(mainspring.__file__).parent.parent
    paths = [root.joinpath(*name.split(".")) for name in names]
    return sum((p / "__init__.py" if p.is_dir() else p.with_suffix(".py")).stat().st_size for p in paths) // 1024


def third_party(loaded: set[str]) -> set[str]:
    return {m.split(".")[0] for m in loaded} & {"msgspec", "httptools", "jsonschema", "asyncio", "ssl", *NEVER}


def test_version_and_help_load_next_to_nothing(command: Command) -> None:
    assert own(modules(command, "--version")) == [
        "mainspring", "mainspring.app", "mainspring.app.cli", "mainspring.app.cli.main", "mainspring.app.cli.startup_interrupt",
        "mainspring.lazy",
    ]  # fmt: skip
    helping = modules(command, "--help")
    assert not third_party(helping)
    assert len(own(helping)) <= 11


def test_a_run_loads_what_it_needs(command: Command) -> None:
    command.server.script.append("hi")

    loaded = modules(command, "-p", "x")

    assert {m.split(".")[0] for m in loaded} & NEVER == set()
    unused = ("env.sandbox.policy", "env.container", "permissions.command_checker", "telemetry", "app.workspace.custom_commands",
              "tools.diagnostics.client", "sessions.sqlite_store", "models.wire.anthropic.encode",
              "models.wire.gemini.encode", "models.wire.openai_responses", "models.embedded.engine",
              "callbacks.plug", "extensions.command_hooks.plug", "sessions.import_export", "sessions.transcript", "env.http_fetch",
              "tools.builtin.samples", "tools.support.editing.patch", "tools.support.editing.replacement", "sessions.rewind.restore",
              "shell_analysis.commands", "policies.structured.plug", "models.transport.httpx_transport",
              "policies.audit_log", "app.tui", "app.export", "durable",
              "shell_analysis.programs", "models.errors", "models.embedded.download", "models.providers.azure", "models.auth.oauth",
              "models.langchain.model", "mcp.tools", "app.providers.availability")  # fmt: skip
    assert [m for m in own(loaded) for part in unused if m.startswith(f"mainspring.{part}")] == []
    assert len(own(loaded)) <= OWN_OF_A_RUN
    assert source_kb(own(loaded)) <= OWN_KB_OF_A_RUN


@pytest.mark.parametrize("arguments", [("config", "show"), ("trust", "--list"), ("sessions",), ("completion", "bash")])
def test_small_commands_load_no_http(command: Command, arguments: tuple[str, ...]) -> None:
    assert not {m.split(".")[0] for m in modules(command, *arguments)} & {"httptools", *NEVER}


def signalled_at(command: Command, number: int, signal_number: int) -> tuple[int, str, bool]:
    """A run that gets a signal when it loads its ``number``-th module: exit code, stderr, and whether it came that far."""
    code = (
        "import os, sys\n"
        "class Now:\n"
        "    left = " + str(number) + "\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        self.left -= 1\n"
        f"        if not self.left: os.write(1, b'now'); os.kill(os.getpid(), {signal_number})\n"
        "from mainspring.app.cli.main import main\n"
        "sys.meta_path.insert(0, Now())\n"
        "sys.argv = ['mainspring', '-p', 'x']\n"
        "sys.exit(main())\n"
    )
    done = python(command, code)
    return done.returncode, done.stderr, done.stdout.startswith("now")


@pytest.mark.parametrize("number", [1, 2, 5, *range(20, 581, 40)])
def test_ctrl_c_while_the_command_is_loaded_ends_it_with_a_word(command: Command, number: int) -> None:
    command.server.script.append("hi")

    code, err, came = signalled_at(command, number, signal.SIGINT)

    if came:
        assert code == 130
        assert err.splitlines()[-1].startswith("Interrupted")
        assert "Traceback" not in err
    else:
        assert code == 0


@pytest.mark.parametrize("number", [1, 100, 200])
def test_a_request_to_end_while_the_command_is_loaded_ends_it_without_a_word(command: Command, number: int) -> None:
    code, err, came = signalled_at(command, number, signal.SIGTERM)

    assert (code, err, came) == (-signal.SIGTERM, "", True)


def test_next_to_nothing_is_loaded_before_ctrl_c_is_heard() -> None:
    code = "import sys; before = {*sys.modules}; import mainspring.app.cli.main; print(*{*sys.modules} - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)

    others = {m.partition(".")[0] for m in done.stdout.split()} - {"mainspring"}
    assert others <= {"__future__", "importlib", "warnings", "gc"}
