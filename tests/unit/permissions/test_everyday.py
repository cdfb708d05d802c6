"""Everyday read-only commands are allowed without approval."""

from pathlib import Path

import pytest

from mainspring.env.memory import MemoryEnv
from mainspring.permissions import Permissions
from mainspring.tools.builtin import shell
from tests.rows import each_row

FILES = {
    "README.md": "# main\n",
    "CHANGELOG.md": "one\n",
    "package.json": '{"version": "1"}\n',
    "src/app.py": "def main(): ...\n",
    "src/util.py": "import os\n",
    "docs/guide.md": "guide\n",
    "docs/table.csv": "a,1\n",
}
LINES = (Path(__file__).parent / "data" / "everyday.txt").read_text().replace("\\\n", "\\\0").splitlines()
FALSE_QUESTIONS = frozenset(
    (
        "cd src && wc -l *.py && cd .. && ls",  # each command is judged in all folders, and ".." of the project is outside
        "git submodule status",  # a shell script of git, which starts further programs in each submodule
    )
)
"""Read-only lines that ask anyway: at most two, each with its reason."""


@each_row("line", [line.replace("\0", "\n") for line in LINES if line not in FALSE_QUESTIONS])
@pytest.mark.covers("SEC-01")
async def test_everyday_command_is_allowed(line: str) -> None:
    decision = await Permissions().decide("shell", {"command": line}, env=MemoryEnv(FILES), definition=shell)

    assert decision.outcome == "allow", decision.reason


def test_everyday_table_is_large_enough() -> None:
    assert len(LINES) >= 250
    assert len(FALSE_QUESTIONS) <= 2
