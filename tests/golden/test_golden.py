"""Compare what scripted runs report in each format with golden files.

`stable/` contains the formats of other parties: other programs depend on them, so a change is a regression. `changing/` contains
our own formats, which may change on purpose with a new version. Each file contains the JSON lines of one run in one format.

To rewrite the files after an intended change: `UPDATE_GOLDEN=changing pytest tests/golden`, or `UPDATE_GOLDEN=stable`.
"""

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mainspring import __version__
from tests.golden.front_ends import FrontEnd, record_acp, record_rpc, record_stream_json
from tests.golden.library import record_library
from tests.golden.normalize import to_lines
from tests.golden.runs import DURABLE_RUNS, RUNS
from tests.golden.service import record_service

STABLE = {"acp", "ag-ui", "callbacks", "extensions", "hooks", "telemetry", "ui-messages"}
CHANGING = {"event-log", "rpc", "sse", "stream-json"}
FOLDER = Path(__file__).parent


def compare(run: str, recorded: Mapping[str, list[Any]], names: Mapping[str, str]) -> None:
    """Compare recorded values with their golden files, or rewrite the files."""
    differences: list[str] = []
    for form, values in recorded.items():
        folder = "stable" if form in STABLE else "changing"
        file = FOLDER / folder / f"{run}.{form}.jsonl"
        lines = to_lines(values, {**names, __version__: "<version>"})
        if os.environ.get("UPDATE_GOLDEN") == folder:
            file.parent.mkdir(exist_ok=True)
            file.write_text(lines, "utf-8")
        before = file.read_text("utf-8") if file.exists() else ""
        differences += difflib.unified_diff(
            before.splitlines(), lines.splitlines(), f"{folder}/{file.name}", "this run", lineterm="", n=1
        )
    if differences:
        pytest.fail("\n".join(differences), pytrace=False)


@pytest.mark.parametrize("run", RUNS)
async def test_library(run: str, tmp_path: Path) -> None:
    compare(run, await record_library(RUNS[run], tmp_path), {str(tmp_path): "<folder>"})


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("record", [record_stream_json, record_rpc, record_acp])
async def test_front_end(record: FrontEnd, run: str, tmp_path: Path, home: Path) -> None:
    form = record.__name__.removeprefix("record_").replace("_", "-")
    values = await record(RUNS[run], tmp_path, home)
    compare(run, {form: values}, {str(tmp_path): "<folder>", str(home): "<home>"})


@pytest.mark.parametrize("run", DURABLE_RUNS)
async def test_service(run: str) -> None:
    compare(run, await record_service(DURABLE_RUNS[run]), {})
