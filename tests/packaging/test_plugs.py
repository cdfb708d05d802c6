"""The tests of the loop pass without the packages above it."""

import ast
import io
import shutil
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

KEPT = {
    "errors.py",
    "redaction",
    "programs.py",
    "python.py",
    "text.py",
    "attachments.py",
    "messages",
    "events",
    "models",
    "env",
    "tools",
    "loop",
    "testing",
    "__init__.py",
    "lazy.py",
    "type_variables.py",
    "extras.py",
    "counting.py",
    "py.typed",
    "cancellation.py",
    "threads.py",
    "state_files.py",
    "globs.py",
    "lenient_json.py",
    "locks.py",
    "options.py",
    "prompt_tags.py",
}


@pytest.mark.covers("PKG-12")
def test_loop_works_without_higher_packages(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(repository / "pyproject.toml", tmp_path)
    (tmp_path / "tests").mkdir()
    for path in [*(repository / "tests").glob("*.py"), repository / "tests" / "requirements.toml"]:
        shutil.copy(path, tmp_path / "tests")  # shared by all tests
    shutil.copytree(repository / "tests" / "helpers", tmp_path / "tests" / "helpers")
    shutil.copytree(repository / "tests" / "unit" / "loop", tmp_path / "tests" / "unit" / "loop")
    for path in sorted((repository / "src" / "mainspring").iterdir()):
        target = tmp_path / "src" / "mainspring" / path.name
        if path.name in KEPT and path.is_dir():
            shutil.copytree(path, target, ignore=shutil.ignore_patterns("__pycache__"))
        elif path.name in KEPT:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "src"))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)

    where = [sys.executable, "-c", "import mainspring; print(mainspring.__file__)"]
    used = subprocess.run(where, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    tests = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-m",
        "not soak",
        f"--basetemp={tmp_path / 'temporary'}",
        "tests/unit/loop",
    ]
    done = subprocess.run(tests, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert used.startswith(str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.covers("PKG-12")
def test_loop_has_under_600_lines_of_code(repository: Path) -> None:
    lines: set[tuple[str, int]] = set()
    for name in ("loop.py", "model_calls.py"):
        source = (repository / "src" / "mainspring" / "loop" / name).read_text(encoding="utf-8")
        docstrings = {
            line
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }
        skipped = {
            tokenize.COMMENT,
            tokenize.NL,
            tokenize.NEWLINE,
            tokenize.INDENT,
            tokenize.DEDENT,
            tokenize.ENDMARKER,
        }
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type not in skipped and token.start[0] not in docstrings:
                lines.add((name, token.start[0]))

    assert 300 < len(lines) < 600
