"""A user's type checker reports nothing about a good program (`typed_user.py`) and every mistake of a bad one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BAD = """# pyright: strict
from mainspring import Agent, Permissions, tool

agent = Agent("openai:gpt-5-mini", sytem="y")
Agent("openai:gpt-5-mini", eagre=True)
Permissions(denny=["x"])
agent.run_sync("go", behaviour=None)
agent.stream("go", raise_errors=False)
agent.run_sync("go").output_as(int).upper()

@tool
async def forecast(city: str, days: int = 1) -> str:
    return city * days

async def main() -> None:
    await forecast(5)
    await forecast("Oslo", day=2)
    await forecast()
    (await forecast("Oslo")).value.append("x")
"""


@pytest.mark.soak
def test_type_checker_finds_misspelled_arguments(repository: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text(BAD)
    good = repository / "tests" / "packaging" / "typed_user.py"
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, str(bad), str(good)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    found = json.loads(done.stdout)["generalDiagnostics"]
    assert {(Path(d["file"]).name, d["range"]["start"]["line"] + 1) for d in found} == {
        ("bad.py", line) for line in (*range(4, 10), *range(16, 20))
    }, done.stdout
