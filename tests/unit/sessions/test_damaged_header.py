"""A session whose first line, the header, is damaged or missing keeps its history, and entries of other programs do not drop it."""

import asyncio
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from mainspring.errors import SessionError
from mainspring.sessions import (
    JsonlStore,
    Session,
    SqliteSessionStore,
    find_session,
    import_session,
    list_sessions,
    read_raw_lines,
    read_transcript,
    search_sessions,
)
from tests.unit.sessions.harness import QUICK, describe, make_agent, make_calls

DAMAGE: dict[str, Callable[[bytes, bytes], bytes]] = {
    "truncated": lambda first, rest: first[:25] + b"\n" + rest,
    "half": lambda first, rest: first[: len(first) // 2] + b"\n" + rest,
    "without its line end": lambda first, rest: first.rstrip() + rest,
    "torn and joined": lambda first, rest: first[:30] + rest,
    "garbage": lambda first, rest: b"\x00\xff\xfe garbage \x80" + b"\n" + rest,
    "zeros": lambda first, rest: b"\x00" * len(first) + b"\n" + rest,
    "empty": lambda first, rest: b"\n" + rest,
    "missing": lambda first, rest: rest,
    "another value": lambda first, rest: b"[]\n" + rest,
    "another object": lambda first, rest: b'{"type":"session"}\n' + rest,
    "after garbage": lambda first, rest: b"garbage\n" + first + rest,
    "byte order mark": lambda first, rest: b"\xef\xbb\xbf" + first + rest,
    "huge": lambda first, rest: b"\x00" * 300_000 + b"\n" + rest,
    "many": lambda first, rest: b"garbage\n" * 500 + rest,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def home(tmp_path: Path, folder: Path) -> Path:
    """Return a home with the session ``s1`` of two runs."""
    home = tmp_path / "home"
    with Session.create(folder, home=home, id="s1", options=QUICK) as session:
        agent = make_agent(session, "A bridge.", make_calls("c1"), "Of paper.")
        asyncio.run(agent.run("what is there?"))
        asyncio.run(agent.run("of what?"))
    return home


HISTORY = [
    "user: what is there?", "assistant: A bridge.", "user: of what?", "assistant: c1?", "user: c1=value of c1",
    "assistant: Of paper.",
]  # fmt: skip


def damage_file(home: Path, how: str) -> Path:
    [file] = (home / "sessions").glob("*/s1.jsonl")
    first, _, rest = file.read_bytes().partition(b"\n")
    file.write_bytes(DAMAGE[how](first + b"\n", rest))
    return file


@pytest.mark.parametrize("how", DAMAGE)
def test_damaged_first_line_loses_no_history(
    how: str, home: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = damage_file(home, how)
    damaged = file.read_bytes()
    monkeypatch.chdir(folder)

    [info] = list_sessions(folder, home=home)
    assert (info.id, info.problem, info.preview) == ("s1", "", "what is there?")
    assert list_sessions(home=home, everywhere=True) == [info]
    assert find_session("s1", home=home).place == info.place
    assert search_sessions("bridge", folder, home=home)[0].session == info

    transcript = read_transcript(JsonlStore(home), "s1")
    assert [i.text for i in transcript.items if i.kind == "user"] == ["what is there?", "of what?"]
    assert sum("first line" in p for p in transcript.problems) == 1
    lines = [json.loads(line) for line in read_raw_lines(JsonlStore(home), "s1")]
    assert (lines[0]["type"], lines[0]["id"]) == ("session", "s1")

    with Session.latest(folder, home=home, options=QUICK) as session:
        assert (session.id, session.cwd) == ("s1", str(folder.resolve()))
        assert describe(session.messages) == HISTORY
        assert sum("first line" in str(p) for p in session.problems) == 1
        asyncio.run(make_agent(session, "Yes.").run("really?"))
        assert [p for p in session.problems if p.kind == "unsaved"] == []
        fork = session.fork()
        assert describe(fork.messages)[:6] == HISTORY
        fork.close()
    assert file.read_bytes().startswith(damaged)
    assert len(list_sessions(folder, home=home)) == 1  # The fork was never saved.
    with Session.open("s1", home=home, write=False) as again:
        assert describe(again.messages) == [*HISTORY, "user: really?", "assistant: Yes."]

    id, problems = import_session(file, folder, home=tmp_path / "other")
    assert id == "s1"
    assert problems
    with Session.open(id, home=tmp_path / "other") as imported:
        assert describe(imported.messages) == [*HISTORY, "user: really?", "assistant: Yes."]


@pytest.mark.parametrize("how", DAMAGE)
def test_damaged_first_line_before_a_compaction_loses_no_history(how: str, home: Path) -> None:
    with Session.open("s1", home=home, options=QUICK) as session:
        agent = make_agent(session, "Yes.")
        agent.context.messages[:] = agent.context.messages[2:]
        asyncio.run(agent.run("really?"))
        history = describe(session.messages)
    damage_file(home, how)
    with Session.open("s1", home=home) as session:
        assert describe(session.messages) == history
        assert sum("first line" in str(p) for p in session.problems) == 1


@pytest.mark.parametrize("header", [b"\x00\xff", b"", b"{", b'{"type":"session"}'])
def test_damaged_first_line_in_a_database_loses_no_history(header: bytes, home: Path, folder: Path) -> None:
    store = SqliteSessionStore(home / "sessions.db")
    [file] = (home / "sessions").glob("*/s1.jsonl")
    import_session(file, folder, home=store)
    with sqlite3.connect(store.path) as connection:
        connection.execute("UPDATE lines SET data = ? WHERE position = 1", (header,))
    connection.close()
    [info] = list_sessions(folder, home=store)
    assert (info.id, info.problem) == ("s1", "")
    assert search_sessions("bridge", folder, home=store)[0].session == info
    assert [i.text for i in read_transcript(store, "s1").items if i.kind == "user"] == ["what is there?", "of what?"]
    with Session.latest(folder, home=store, options=QUICK) as session:
        assert describe(session.messages) == HISTORY
        assert [str(p) for p in session.problems if p.kind == "damaged"] == [
            f"the first line of {store.path}#s1 cannot be read; it was restored"
        ]
    with sqlite3.connect(store.path) as connection:
        connection.execute("DELETE FROM lines WHERE position = 1")
    connection.close()
    with Session.open("s1", home=store) as session:
        assert describe(session.messages) == HISTORY


@pytest.mark.parametrize("kept", [0, 1, 30, -1])
def test_message_that_is_joined_with_a_torn_header_is_kept(kept: int, home: Path) -> None:
    [file] = (home / "sessions").glob("*/s1.jsonl")
    header, run, prompt, *rest = file.read_bytes().splitlines(keepends=True)
    assert b'"run_start"' in run
    file.write_bytes(header.rstrip()[:kept] + prompt + b"".join(rest))
    with Session.open("s1", home=home, options=QUICK) as session:
        assert describe(session.messages) == HISTORY
        assert [e.id for e in session.entries()][0] == json.loads(prompt)["id"]


def test_folder_of_a_session_without_header_is_found(home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    damage_file(home, "missing")
    assert [i.cwd for i in list_sessions(home=home, everywhere=True)] == [""]  # Only its hash is known.
    with Session.create(folder, home=home, options=QUICK) as other:
        other.save()
    assert {i.cwd for i in list_sessions(home=home, everywhere=True)} == {str(folder.resolve())}
    Path(other.location).unlink()
    monkeypatch.chdir(folder)
    assert [i.cwd for i in list_sessions(home=home, everywhere=True)] == [str(folder.resolve())]


def test_file_of_another_program_is_never_written(home: Path, folder: Path) -> None:
    [file] = (home / "sessions").glob("*/s1.jsonl")
    file.write_bytes(b"hello\n[1, 2]\n{}\n")
    with pytest.raises(SessionError, match="Not a session"):
        Session.open("s1", home=home)
    assert file.read_bytes() == b"hello\n[1, 2]\n{}\n"


@pytest.mark.parametrize("kind", ["from_the_future", "note", ""])
@pytest.mark.parametrize("parent", ["null", '"nowhere"'])
@pytest.mark.parametrize("place", [1, 3, 6, None])
def test_entry_of_an_unknown_type_drops_no_history(kind: str, parent: str, place: int | None, home: Path) -> None:
    [file] = (home / "sessions").glob("*/s1.jsonl")
    lines = file.read_bytes().splitlines()
    entry = f'{{"type":"{kind}","id":"f1","parent":{parent},"timestamp":"2026-01-01T00:00:00Z","x":[1]}}'
    lines.insert(len(lines) if place is None else place, entry.encode())
    file.write_bytes(b"\n".join(lines) + b"\n")
    with Session.open("s1", home=home, options=QUICK) as session:
        assert describe(session.messages) == HISTORY
        assert sum(p.kind == "unknown" for p in session.problems) == 1
        asyncio.run(make_agent(session, "Yes.").run("really?"))
    with Session.open("s1", home=home) as session:
        assert describe(session.messages) == [*HISTORY, "user: really?", "assistant: Yes."]
