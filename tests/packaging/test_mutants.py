"""The mutants of the requirements can be applied, and a sample of them is killed."""

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.mutants import Mutant, MutantError, load_mutants, select
from tests.requirements_plugin import load_manifest
from tests.rows import each_row

REPOSITORY = Path(__file__).resolve().parents[2]
MUTANTS = load_mutants()
SOURCE = '''class Box:
    def open(self) -> int:
        """Open it."""
        print("open")
        return 1

    def close(self) -> int:
        return 2
'''


@each_row("requirement", MUTANTS)
def test_mutant_changes_the_source(requirement: str) -> None:
    mutant = MUTANTS[requirement]
    source = (REPOSITORY / mutant.file).read_text(encoding="utf-8")

    assert mutant.mutate(source) != source


def test_each_requirement_has_a_mutant() -> None:
    assert MUTANTS.keys() == load_manifest().ids


def test_text_is_replaced() -> None:
    assert "return 3" in Mutant("AAA-01", "box.py", old="return 2", new="return 3").mutate(SOURCE)


def test_body_is_replaced_and_the_docstring_kept() -> None:
    changed = Mutant("AAA-01", "box.py", function="Box.open", body="return 0").mutate(SOURCE)

    assert changed == SOURCE.replace('        print("open")\n        return 1\n', "        return 0\n")


@pytest.mark.parametrize(
    ("mutant", "message"),
    [
        (Mutant("AAA-01", "box.py", old="return", new="yield"), "occurs 2 times"),
        (Mutant("AAA-01", "box.py", old="missing", new=""), "occurs 0 times"),
        (Mutant("AAA-01", "box.py", old="return 1", new="return 1"), "changes nothing"),
        (Mutant("AAA-01", "box.py", function="Box.shut", body="pass"), "has no function Box.shut"),
        (Mutant("AAA-01", "box.py", function="Bag.open", body="pass"), "has no function Bag.open"),
    ],
)
def test_mutant_that_cannot_be_applied_says_why(mutant: Mutant, message: str) -> None:
    with pytest.raises(MutantError, match=message):
        mutant.mutate(SOURCE)


def test_requirements_and_sections_select_mutants() -> None:
    mutants = {key: Mutant(key, "box.py", "a", "b") for key in ("AAA-01", "AAA-02", "BBB-01")}

    assert [m.requirement for m in select(mutants, ["AAA-02", "BBB"], None, 0)] == ["AAA-02", "BBB-01"]
    assert len(select(mutants, [], 2, 7)) == 2
    assert select(mutants, [], 2, 7) == select(mutants, [], 2, 7)
    with pytest.raises(MutantError, match="no mutant for CCC"):
        select(mutants, ["CCC"], None, 0)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_sample_of_mutants_is_killed() -> None:
    command = [sys.executable, "-m", "scripts.mutants", "--sample", "20"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
