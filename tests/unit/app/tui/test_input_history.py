import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mainspring.app.tui.input_field import MAX_ENTRIES, MAX_INPUT_BYTES, HistoryFile, open_history


@pytest.mark.covers("CLI-02")
def test_entries_are_stored_in_order_in_a_private_file(tmp_path: Path) -> None:
    file = open_history(tmp_path / "home", tmp_path / "project")
    for text in ("one", "two\nlines \u65e5", "two\nlines \u65e5"):
        assert file.add(text)
    assert open_history(tmp_path / "home", tmp_path / "project").read() == ["one", "two\nlines \u65e5"]
    (path,) = (tmp_path / "home" / "history").glob("*.jsonl")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert open_history(tmp_path / "home", tmp_path / "other").read() == []


def test_empty_and_huge_entries_are_not_stored(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / "h.jsonl")
    assert not file.add("  ")
    assert not file.add("x" * MAX_INPUT_BYTES)
    assert file.read() == []


def test_damaged_lines_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    path.write_bytes(b'"one"\n{"a": 1}\n\xff\xfe\n"tw')
    assert HistoryFile(path).read() == ["one"]


def test_concurrent_sessions_lose_no_entries(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"

    def write_entries(number: int) -> None:
        for i in range(100):
            HistoryFile(path).add(f"{number}-{i}")
            if i % 20 == 0:
                HistoryFile(path).trim()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write_entries, range(4)))
    assert sorted(HistoryFile(path).read()) == sorted(f"{n}-{i}" for n in range(4) for i in range(100))


def test_trim_drops_the_oldest_entries(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    path.write_text("".join(json.dumps(f"{i}") + "\n" for i in range(2 * MAX_ENTRIES + 1)))
    HistoryFile(path).trim()
    assert path.read_text().count("\n") == MAX_ENTRIES
    assert HistoryFile(path).read()[-1] == str(2 * MAX_ENTRIES)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_unwritable_history_is_not_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    file = HistoryFile(tmp_path / "file" / "h.jsonl")
    assert not file.add("x")
    file.trim()
    assert file.read() == []


def test_drafts_of_any_length_return_one_by_one(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / "folder" / "h.jsonl")
    long = "x" * (2 * MAX_INPUT_BYTES)
    assert file.pop_draft() == ""
    assert file.add_draft("one\ntwo")
    assert file.add_draft(long)
    assert not file.add_draft(" \n")
    assert (tmp_path / "folder" / "h.drafts").stat().st_mode & 0o777 == 0o600
    assert [file.pop_draft(), file.pop_draft(), file.pop_draft()] == [long, "one\ntwo", ""]
    assert file.read() == []
