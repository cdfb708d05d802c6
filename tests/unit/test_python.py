"""Python processes that Mainspring starts import no modules of the project."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import mainspring
from mainspring.app.cli.startup_interrupt import drop_relative_entries
from mainspring.app.run_service.agents import load_agents
from mainspring.env import LocalEnv
from mainspring.errors import ConfigError
from mainspring.models.embedded.sources import pip_command
from mainspring.programs import find_program
from mainspring.python import python_module, python_script

SOURCE = Path(mainspring.__file__).parent
THIRD_PARTY = (
    "mainspring",
    "pip",
    "msgspec",
    "httpx2",
    "httpcore2",
    "textual",
    "rich",
    "xllamacpp",
    "dbos",
    "sqlalchemy",
    "yaml",
)


@pytest.fixture
def canaries(tmp_path: Path) -> Path:
    """A project with a module for every importable name; each module records that it ran."""
    folder = tmp_path / "project"
    folder.mkdir()
    code = f"import os\nopen({str(tmp_path / 'ran')!r}, 'a').write(__name__ + ' ')\n"
    for name in {*sys.stdlib_module_names, *THIRD_PARTY, "sitecustomize", "usercustomize"}:
        (folder / f"{name}.py").write_text(code, encoding="utf-8")
    return folder


def run(command: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "MAINSPRING_HOME": str(folder.parent / "home"), "MAINSPRING_OFFLINE": "1", **variables}
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=240, check=False)


def executed_modules(folder: Path) -> str:
    file = folder.parent / "ran"
    return file.read_text(encoding="utf-8") if file.exists() else ""


@pytest.mark.parametrize("path", ["", ".", ":", ".:/nowhere"])
def test_child_processes_import_nothing_from_the_project(canaries: Path, path: str) -> None:
    script = canaries.parent / "script.py"
    script.write_text("import json, asyncio, msgspec; print('ran')", encoding="utf-8")
    commands = [
        python_module("mainspring", "--version"),
        python_module("mainspring", "check"),
        python_script(str(script)),
        [*pip_command(), "--version"],
    ]
    for command in commands:
        done = run(command, canaries, PYTHONPATH=path, PYTHONSTARTUP=str(canaries / "os.py"))
        assert done.stdout, done.stderr
        assert executed_modules(canaries) == "", command


def test_without_isolation_a_canary_runs(canaries: Path) -> None:
    run([sys.executable, "-m", "mainspring", "--version"], canaries)
    assert executed_modules(canaries)


COMMANDS = [
    ["--version"],
    ["--help"],
    ["check"],
    ["models"],
    ["tools"],
    ["config", "show"],
    ["commands"],
    ["skills", "list"],
    ["extensions", "list"],
    ["mcp", "list"],
    ["hooks"],
    ["sessions", "list"],
    ["trust", "--show"],
    ["permissions", "explain", "ls"],
    ["runs", "list"],
    ["memory"],
    ["worktrees"],
    ["telemetry", "status"],
    ["-p", "hello", "--model", "openai:none"],
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_commands_import_nothing_from_the_project(canaries: Path, arguments: list[str]) -> None:
    command = Path(sys.executable).with_name("mainspring")
    run([str(command), *arguments], canaries, OPENAI_API_KEY="", PYTHONPATH="")
    assert executed_modules(canaries) == ""


def test_viewer_imports_nothing_from_the_project(canaries: Path) -> None:
    command = str(Path(sys.executable).with_name("mainspring"))
    started = run([command, "telemetry", "start", "--viewer"], canaries)
    run([command, "telemetry", "stop"], canaries)
    assert started.returncode == 0, started.stderr
    assert executed_modules(canaries) == ""


def test_relative_entries_are_dropped_from_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", "src", "/full", str(tmp_path / "named")]))
    expected = ["/full", str(tmp_path / "named"), "/usr/lib/python"]
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), str(tmp_path / "src"), ".", *expected])

    drop_relative_entries()

    assert sys.path == expected


def test_loading_agents_does_not_shadow_other_modules(canaries: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (canaries / "own_agents.py").write_text(
        "import json\nimport helper_of_mine\nagents = {'a': lambda s: s}", encoding="utf-8"
    )
    (canaries / "helper_of_mine.py").write_text("", encoding="utf-8")

    assert list(load_agents("own_agents:agents", str(canaries))) == ["a"]
    assert executed_modules(canaries) == ""
    assert sys.path[-1] == str(canaries)
    for name in ("own_agents", "helper_of_mine"):
        sys.modules.pop(name, None)
    with pytest.raises(ConfigError, match="No module"):
        load_agents("missing_agents:agents", str(canaries))


def test_only_allowed_modules_use_sys_executable() -> None:
    """Only these modules may use `sys.executable`."""
    allowed = {
        "python.py",
        "extras.py",  # text for users
        "app/commands/check.py",  # text for users, and the folder next to it
        "env/local.py",  # the folder next to it
        "env/sandbox/policy.py",  # the folder next to it
        "env/sandbox/landlock.py",  # isolated, and without packages
    }
    used = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if "executable" in (text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.executable"
    }
    assert used <= allowed


def test_python_commands_in_docs_are_isolated() -> None:
    repository = Path(__file__).parents[2]
    texts = [*(repository / "docs").rglob("*.md"), repository / "README.md", *SOURCE.rglob("*.py")]
    for path in texts:
        for line in path.read_text(encoding="utf-8").splitlines():
            if "-m mainspring" in line or "-m pip" in line or "-m venv" in line:
                assert "-I -m" in line, f"{path}: {line}"


@pytest.mark.parametrize("entry", ["bin", "./bin", "", ".", "{project}/bin", "{project}/.venv/bin/../../bin"])
async def test_automatically_started_programs_are_not_project_files(
    canaries: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    for folder in (canaries, canaries / "bin"):
        folder.mkdir(exist_ok=True)
        for name in ("rg", "bash", "sh", "git", "bwrap"):
            (folder / name).write_text(f"#!/bin/sh\necho {name} >> {canaries.parent}/ran\n", encoding="utf-8")
            (folder / name).chmod(0o755)
    (canaries / ".venv" / "bin").mkdir(parents=True)
    monkeypatch.chdir(canaries)
    monkeypatch.setenv("PATH", f"{entry.format(project=canaries)}:{os.environ['PATH']}")
    env = LocalEnv(canaries)

    for name in ("rg", "bash", "sh"):
        assert not str(await env.find_program(name)).startswith((str(canaries), "bin", "./"))
    assert (await env.run("true")).exit_code == 0
    assert not str(find_program("git", project=str(canaries))).startswith((str(canaries), "bin", "./"))
    await env.aclose()
    assert executed_modules(canaries) == ""
