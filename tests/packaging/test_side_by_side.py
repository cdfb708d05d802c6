"""The programs that compare Mainspring with pydantic-ai: those of Mainspring run, and every planted mistake fits both."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.side_by_side.__main__ import HERE, PROGRAMS, SUPPORT_MISTAKES, plant_mistake, run_program


@pytest.fixture
def server() -> Iterator[str]:
    with subprocess.Popen([sys.executable, str(HERE / "server.py")], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


def test_programs_print_what_the_comparison_expects(server: str) -> None:
    for name, questions in PROGRAMS.items():
        for question, expected in questions:
            assert (
                run_program(sys.executable, server, str(HERE / "mainspring_" / f"{name}.py"), question)[1] == expected
            )


@pytest.mark.parametrize("mistake", SUPPORT_MISTAKES)
@pytest.mark.parametrize("framework", ["mainspring", "pydantic_ai"])
def test_every_mistake_changes_both_programs(framework: str, mistake: str) -> None:
    source = Path(HERE / f"{framework}_" / "support.py").read_text()
    assert plant_mistake(source, mistake, framework) != source
