"""The modules that the command loads at startup, checked step by step, so that a heavy module is easy to find."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import mainspring
from tests.e2e.command import Command, command

__all__ = ["command"]


NEVER = {
    "rich", "prompt_toolkit", "opentelemetry", "mcp", "PIL", "pypdf", "keyring", "langchain_core",
    "pydantic", "pygments", "yaml", "xllamacpp", "azure", "websockets", "uvicorn",
    "httpx2", "httpcore2", "aiohttp", "anyio", "pathspec", "http", "email", "html", "idna", "zipfile", "tomllib",
}  # fmt: skip
"""Packages that no run in print mode loads unless an option needs them."""

MAX_MODULES_OF_A_RUN = 302
"""The maximum number of mainspring modules that a run in print mode loads. Each costs about 0.2ms; lower it, never raise it."""

MAX_SOURCE_KB_OF_A_RUN = 2380
"""Source of these modules in KB, at most: a merge of two modules lowers their number but may load more."""


def run_python(command: Command, code: str) -> "subprocess.CompletedProcess[str]":
    """Run Python code in the environment of the command."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=command.folder,
        env={**command.environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def loaded_modules(command: Command, *arguments: str) -> set[str]:
    """Return the modules that the command has loaded when it ends."""
    code = (
        "import sys, atexit\n"
        "atexit.register(lambda: print('LOADED', *sorted(sys.modules), file=sys.stderr))\n"
        "from mainspring.app.cli.main import main\n"
        f"sys.argv = ['mainspring', *{list(arguments)!r}]\n"
        "try: main()\nexcept SystemExit: pass\n"
    )
    done = run_python(command, code)
    assert done.returncode == 0, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("LOADED"), done.stderr
    return set(last.split()[1:])


def mainspring_modules(loaded: set[str]) -> list[str]:
    return sorted(m for m in loaded if m.startswith("mainspring"))


def source_kb(names: list[str]) -> int:
    """The size of the source of modules."""
    root = Path(mainspring.__file__).parent.parent
    paths = [root.joinpath(*name.split(".")) for name in names]
    return sum((p / "__init__.py" if p.is_dir() else p.with_suffix(".py")).stat().st_size for p in paths) // 1024


def third_party_packages(loaded: set[str]) -> set[str]:
    return {m.split(".")[0] for m in loaded} & {"msgspec", "httptools", "jsonschema_rs", "asyncio", "ssl", *NEVER}


def test_version_and_help_load_few_modules(command: Command) -> None:
    assert mainspring_modules(loaded_modules(command, "--version")) == [
        "mainspring", "mainspring.app", "mainspring.app.cli", "mainspring.app.cli.main", "mainspring.app.cli.startup_interrupt",
        "mainspring.lazy",
    ]  # fmt: skip
    helping = loaded_modules(command, "--help")
    assert not third_party_packages(helping)
    assert len(mainspring_modules(helping)) <= 12


def test_print_mode_run_loads_only_needed_modules(command: Command) -> None:
    command.server.script.append("hi")

    loaded = loaded_modules(command, "-p", "x")

    assert {m.split(".")[0] for m in loaded} & NEVER == set()
    unused = ("env.sandbox.policy", "env.container", "permissions.command_checker", "telemetry", "app.workspace.custom_commands",
              "tools.diagnostics.client", "sessions.sqlite_store", "models.wire.anthropic.encode",
              "models.wire.gemini.encode", "models.wire.openai_responses", "models.embedded.engine",
              "callbacks.plug", "extensions.command_hooks.plug", "sessions.import_export", "sessions.transcript", "env.http_fetch",
              "tools.builtin.samples", "tools.support.editing.patch", "tools.support.editing.replacement", "sessions.rewind.restore",
              "shell_analysis.commands", "policies.structured.plug", "models.transport.httpx_transport",
              "policies.audit_log", "app.tui", "app.export", "durable",
              "shell_analysis.programs", "models.errors", "models.embedded.download", "models.providers.azure", "models.auth.oauth",
              "models.langchain.model", "mcp.tools", "app.providers.availability",
              "env.editor", "env.memory", "env.confined", "permissions.suggestions", "ranking", "tools.support.search.python_engine",
              "app.workspace.settings.save")  # fmt: skip
    assert [m for m in mainspring_modules(loaded) for part in unused if m.startswith(f"mainspring.{part}")] == []
    assert len(mainspring_modules(loaded)) <= MAX_MODULES_OF_A_RUN
    assert source_kb(mainspring_modules(loaded)) <= MAX_SOURCE_KB_OF_A_RUN


@pytest.mark.parametrize("arguments", [("config", "show"), ("trust", "--list"), ("sessions",), ("completion", "bash")])
def test_small_commands_do_not_load_http(command: Command, arguments: tuple[str, ...]) -> None:
    assert not {m.split(".")[0] for m in loaded_modules(command, *arguments)} & {"httptools", *NEVER}


def run_with_signal(command: Command, number: int, signal_number: int) -> tuple[int, str, bool]:
    """Run the command with a signal at its ``number``-th import; return exit code, stderr, and whether the signal was sent."""
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
    done = run_python(command, code)
    return done.returncode, done.stderr, done.stdout.startswith("now")


@pytest.mark.parametrize("number", [1, 2, 5, *range(20, 581, 40)])
def test_ctrl_c_during_startup_prints_interrupted(command: Command, number: int) -> None:
    command.server.script.append("hi")

    code, err, was_signaled = run_with_signal(command, number, signal.SIGINT)

    if was_signaled:
        assert code == 130
        assert err.splitlines()[-1].startswith("Interrupted")
        assert "Traceback" not in err
    else:
        assert code == 0


@pytest.mark.parametrize("number", [1, 100, 200])
def test_sigterm_during_startup_exits_silently(command: Command, number: int) -> None:
    code, err, was_signaled = run_with_signal(command, number, signal.SIGTERM)

    assert (code, err, was_signaled) == (-signal.SIGTERM, "", True)


def test_few_modules_load_before_the_ctrl_c_handler() -> None:
    code = "import sys; before = {*sys.modules}; import mainspring.app.cli.main; print(*{*sys.modules} - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)

    others = {m.partition(".")[0] for m in done.stdout.split()} - {"mainspring"}
    assert others <= {"__future__", "importlib", "warnings", "gc"}
