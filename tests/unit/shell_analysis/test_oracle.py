"""For every supported line, real shells run the commands that the analysis lists."""

import os
import random
import shutil
import sys
from collections.abc import Iterator

import pytest

from mainspring.shell_analysis import AnalyzedLine, analyze
from tests.unit.shell_analysis.grammar import Generator, change
from tests.unit.shell_analysis.oracle import Oracle, installed_shells

pytestmark = pytest.mark.slow

SEED = 20_261_128
ODDS = (0.0, 0.0, 0.0, 0.3, 1.0)
BATCH = 500

COMPILED = shutil.which("cc") is not None  # the program that records calls is written in C for a fast start


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    """An oracle with the shells of this machine."""
    oracle = Oracle()
    yield oracle
    oracle.close()


def random_lines(source: random.Random, count: int) -> Iterator[str]:
    """Yield lines over the whole grammar, a third of them with random edits."""
    for _ in range(count):
        line = Generator(source, source.choice(ODDS)).line()
        yield change(source, line) if source.random() < 0.35 else line


def compare(oracle: Oracle, seed: int, count: int) -> list[str]:
    """Run the supported ones of random lines, print their number, and return the divergences."""
    source = random.Random(seed)
    problems: list[str] = []
    understood = 0
    for start in range(0, count, BATCH):
        analyzed = [(line, analyze(line)) for line in random_lines(source, min(BATCH, count - start))]
        lines = [(line, analysis) for line, analysis in analyzed if not analysis.problem]
        understood += len(lines)
        problems += oracle.check(lines)
    names = ", ".join(os.path.basename(shell[0]) for shell in installed_shells())
    sys.stdout.write(
        f"\nseed {seed}: {count} lines, {understood} understood and run in {names}, {len(problems)} divergences\n"
    )
    assert understood > count / 8
    return problems


@pytest.mark.parametrize("count", [2_000] if COMPILED else [])
def test_random_lines_match_the_analysis(oracle: Oracle, count: int) -> None:
    assert compare(oracle, SEED, count) == []


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("count", [500_000] if COMPILED else [])
def test_many_random_lines_match_the_analysis(oracle: Oracle, count: int) -> None:
    assert compare(oracle, random.SystemRandom().randrange(10**9), count) == []


@pytest.mark.parametrize(
    ("line", "analyzed_as", "divergence"),
    [
        ("c1 a", "c1 b", "ran ['c1', 'a']"),
        ("c1 $(c2)", "c1 a", "ran ['c2']"),
        ("c1 > f", "c1", "changed "),
        ("c1 < in.txt", "c1", "had "),
        ("cd src; c1", "c1", "ran in "),
        ("true > new", "true", "changed "),
    ]
    if COMPILED
    else [],
)
def test_oracle_detects_divergences(oracle: Oracle, line: str, analyzed_as: str, divergence: str) -> None:
    analysis: AnalyzedLine = analyze(analyzed_as)

    problems = oracle.check([(line, analysis)])

    assert len(problems) >= len(installed_shells())
    assert any(divergence in problem for problem in problems)
