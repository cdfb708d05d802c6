"""Tools that freeze the command into one file find the modules that it loads by name (known problem B-03)."""

import importlib.metadata
import importlib.util
import os
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from mainspring.app.pyinstaller import data_files, hook_dirs, list_modules
from tests.e2e.servers.chat import ChatServer, call
from tests.requires import requires


def test_every_module_and_file_is_bundled(repository: Path) -> None:
    source = repository / "src"
    files = {p for p in (source / "mainspring").rglob("*") if p.is_file() and p.suffix != ".pyc"}
    code = {source.joinpath(*name.split(".")) for name in list_modules()}
    bundled = {p / "__init__.py" if p.is_dir() else p.with_suffix(".py") for p in code}
    data = {Path(path): Path(folder) for path, folder in data_files()}

    assert bundled | data.keys() == files
    assert bundled & data.keys() == set()
    assert all(source / folder == path.parent for path, folder in data.items())
    assert {"mainspring.app.cli.default", "mainspring.models.providers.ollama"} <= set(list_modules())


def test_pyinstaller_hook_is_found_by_its_entry_point(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [(name, value)] = project["entry-points"]["pyinstaller40"].items()
    [folder] = importlib.metadata.EntryPoint(name, value, "pyinstaller40").load()()

    hook = runpy.run_path(str(Path(folder) / "hook-mainspring.py"))

    assert [folder] == hook_dirs()
    assert (hook["hiddenimports"], hook["datas"]) == (list_modules(), data_files())


@pytest.mark.soak
@requires(importlib.util.find_spec("PyInstaller") is not None, "PyInstaller")
def test_frozen_command_works(tmp_path: Path, home: Path) -> None:
    start = tmp_path / "start.py"
    start.write_text("import sys\nfrom mainspring.app.cli.main import main\nsys.exit(main())\n", encoding="utf-8")
    build = [sys.executable, "-m", "PyInstaller", "--log-level", "ERROR", "--onedir", "--name", "ms", "start.py"]
    subprocess.run(build, cwd=tmp_path, check=True)

    with ChatServer(call("shell", command="echo a"), "answered") as server:
        environment = {
            **os.environ,
            "OPENAI_BASE_URL": server.base_url,
            "OPENAI_API_KEY": "sk-test-0123456789abcdefghij",
        }
        command = [str(tmp_path / "dist" / "ms" / "ms"), "-p", "x", "--allow", "shell"]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8", check=False
        )

    assert (done.returncode, done.stdout) == (0, "answered\n"), done.stderr
