"""`make check` repeats a few failed tests, alone: one that passes then does not fail the check, and is named."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

MAKEFILE = f"""
WORKERS ?= 2
test:
\t@{sys.executable} -m pytest -q -n $(WORKERS) --dist worksteal -p tests.requirements_plugin -m "not slow" $(PYTEST)
"""
STEADY = """
import pathlib, pytest

def ran(name):
    with pathlib.Path("ran").open("a") as file:
        file.write(name + "\\n")
    return pathlib.Path("ran").read_text().split().count(name)

@pytest.mark.covers("PKG-01")
def test_steady(): ran("steady")

@pytest.mark.slow
def test_slow(): assert not ran("slow")
"""
ONCE = """
@pytest.mark.covers("PKG-01", "PKG-02")
def test_once(): assert ran("once") == 2
"""
TWICE = "def test_twice(): assert not ran('twice')\n"
SKIPPED = """
def test_skipped():
    if ran("skipped") == 2:
        pytest.skip()
    assert False
"""
MANY = "@pytest.mark.parametrize('n', range(6))\ndef test_many(n): assert ran(str(n)) == 2\n"


def run_tests(folder: Path, suite: str, **files: str) -> tuple[int, str, list[str]]:
    """Run a suite as `make check` does. Return the exit code, the output, and the names of the tests that ran."""
    (folder / "Makefile").write_text(MAKEFILE)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n  covers\n  slow\n")
    for name, text in {"test_suite": suite, **files}.items():
        (folder / f"{name}.py").write_text(text)
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "MAKE"))}
    done = subprocess.run(
        [sys.executable, "-m", "scripts.run_tests", "test"],
        cwd=folder,
        env={**environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PYTEST": "-x"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, sorted((folder / "ran").read_text().split())


def test_test_that_passes_when_repeated_is_named_and_proves_its_requirements(tmp_path: Path) -> None:
    code, output, ran = run_tests(tmp_path, STEADY + ONCE)

    assert (code, ran) == (0, ["once", "once", "steady"]), output
    lines = output.splitlines()
    assert [line for line in lines if line.startswith("requirements")] == [
        "requirements covered: 0 of 636",
        "requirements covered: 2 of 636",
    ]
    assert lines[-1] == "failed once, passed when repeated: test_suite.py::test_once"


def test_test_that_fails_again_or_is_skipped_then_fails_the_check(tmp_path: Path) -> None:
    (tmp_path / "skipped").mkdir()
    code, output, _ = run_tests(tmp_path / "skipped", STEADY + SKIPPED)
    assert (code, output.splitlines()[-1]) == (1, "failed once, skipped when repeated: test_suite.py::test_skipped"), (
        output
    )

    (tmp_path / "twice").mkdir()
    code, output, ran = run_tests(tmp_path / "twice", STEADY + ONCE + TWICE)
    assert (code, ran) == (1, ["once", "once", "steady", "twice", "twice"]), output
    assert output.splitlines()[-2:] == [
        "failed once, passed when repeated: test_suite.py::test_once",
        "failed twice: test_suite.py::test_twice",
    ]


def test_many_failures_and_other_errors_fail_immediately(tmp_path: Path) -> None:
    (tmp_path / "many").mkdir()
    code, output, ran = run_tests(tmp_path / "many", STEADY + MANY)
    assert (code, ran) == (1, [*"012345", "steady"]), output

    (tmp_path / "broken").mkdir()
    code, output, ran = run_tests(tmp_path / "broken", STEADY + ONCE, test_broken="import no_such_module\n")
    assert (code, "No module named 'no_such_module'" in output) == (1, True), output
    assert ran == ["once", "steady"], "not repeated"
