"""`kill -9` at random moments of runs with tools, on files and on SQLite: see `tests.e2e.soak`."""

import sys
from pathlib import Path

import pytest

from tests.e2e.soak import soak

FEW = {"jsonl": 13, "sqlite": 12}
MANY = 500


@pytest.mark.covers("SES-14", "SES-15", "SES-16", "SES-08")
@pytest.mark.parametrize("kind", FEW)
def test_killed_process_loses_no_acknowledged_data(kind: str, tmp_path: Path) -> None:
    total = soak(kind, tmp_path, FEW[kind])
    assert total["kills"] == FEW[kind]
    assert total["answers"] > 0


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", FEW)
def test_sessions_survive_500_kills(kind: str, tmp_path: Path) -> None:
    total = soak(kind, tmp_path, MANY)
    sys.stdout.write(f"{kind}: {dict(total)}\n")
    assert total["kills"] == MANY
    assert total["interrupted"] > 0
    assert total["result"] > MANY
