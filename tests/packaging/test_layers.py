"""The import contracts of pyproject.toml are kept, and each catches a violation."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def lint_imports(root: Path) -> tuple[int, dict[str, bool], str]:
    """Run import-linter; return the exit code, whether each contract is kept, and the output."""
    code = "import sys; sys.path.insert(0, 'src'); from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run(
        [sys.executable, "-c", code, "--no-cache"], cwd=root, capture_output=True, text=True, check=False
    )
    output = done.stdout + done.stderr
    contracts = {
        name.strip(): state == "KEPT" for name, state in re.findall(r"^(.+?) (KEPT|BROKEN)", output, re.MULTILINE)
    }
    return done.returncode, contracts, output


@pytest.mark.covers("PKG-01", "PKG-02", "PKG-03", "PKG-04", "PKG-05")
def test_import_contracts_are_kept(repository: Path) -> None:
    code, contracts, output = lint_imports(repository)

    assert code == 0, output
    assert len(contracts) == 12
    assert all(contracts.values())


FAULTS = {
    "errors.py": "import mainspring.events.planted",
    "messages/planted.py": "import pydantic",
    "tools/planted.py": "import mainspring.models.planted",
    "tools/builtin/glob.py": "import mainspring.tools.builtin.grep",
    "tools/builtin/planted_b.py": "import mainspring.models.planted",
    "models/planted.py": "def late():\n    import openai",
    "models/wire/planted_a.py": "import mainspring.models.wire.planted_b",
    "models/wire/planted_b.py": "",
    "policies/planted_a.py": "import mainspring.policies.planted_b",
    "policies/planted_b.py": "import rich",
    "sessions/planted.py": "import mainspring.models.planted",
    "app/cli/planted.py": "import mainspring.loop.planted",
    "app/servers/http/planted.py": "import mainspring.loop.planted",
    "app/chat/planted.py": "import mainspring.models.planted",
    "app/run/planted.py": "import mainspring.app.tui",
    "agent/planted.py": "import mainspring.app.run",
    "events/planted.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import mainspring.events.planted_back",
    "events/planted_back.py": "import mainspring.events.planted",
    "loop/planted.py": "def late():\n    import mainspring.loop.planted_back",
    "loop/planted_back.py": "import mainspring.loop.planted",
    "utils/__init__.py": "",
}


@pytest.mark.covers("PKG-03", "PKG-04", "PKG-05")
def test_each_contract_catches_a_planted_violation(repository: Path, tmp_path: Path) -> None:
    shutil.copy(repository / "pyproject.toml", tmp_path)
    source = tmp_path / "src" / "mainspring"
    shutil.copytree(repository / "src" / "mainspring", source, ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in FAULTS.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        with path.open("a", encoding="utf-8") as file:
            file.write(f"\n{text}\n")

    code, contracts, output = lint_imports(tmp_path)

    assert code == 1, output
    assert [name for name, state in contracts.items() if state] == []
    assert "mainspring.utils" in output  # a folder that no layer lists


def test_every_folder_is_a_package(repository: Path) -> None:
    """A folder without __init__.py is invisible to the contracts. The bundled skills are data that includes Python files."""
    source = repository / "src" / "mainspring"
    folders = {p.parent for p in source.rglob("*.py") if not p.is_relative_to(source / "skills" / "bundled")}

    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []
