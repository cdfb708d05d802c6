"""Malicious session files: an imported session is a record, and nothing acts on it."""

import json
import os
from pathlib import Path

import pytest

from mainspring import Agent
from mainspring.app.commands.sessions import format_tree
from mainspring.app.export import render_html, render_markdown
from mainspring.env import LocalEnv
from mainspring.errors import SessionError
from mainspring.messages import Message
from mainspring.sessions import JsonlStore, Session, import_session, read_transcript
from mainspring.sessions.rewind import plan_rewind, plan_undo
from mainspring.testing.scripted_model import Reply, ScriptedModel

pytestmark = pytest.mark.covers("BYD-13")


async def session_lines(root: Path, *texts: str) -> list[dict[str, object]]:
    """Return the lines of a session with these prompts and responses."""
    session = Session.create(root, home=root / "first")
    for text in texts:
        await Agent(ScriptedModel(Reply(text)), session=session).run(text)
    session.close()
    return [json.loads(line) for line in Path(session.location).read_text("utf-8").splitlines()]


def import_lines(root: Path, lines: list[dict[str, object]]) -> tuple[str, tuple[str, ...]]:
    file = root / "crafted.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return import_session(file, root, home=root / "home")


async def test_imported_session_cannot_change_files(tmp_path: Path) -> None:
    """A rewind would delete the files that a crafted session claims to have changed, if the claim were trusted."""
    victim = tmp_path / "victim.txt"
    victim.write_bytes(b"")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    lines = await session_lines(tmp_path, "hello")
    last = lines[-1]

    def custom(id: str, kind: str, data: object) -> dict[str, object]:
        return {**last, "type": "custom", "id": id, "parent": last["id"], "customType": kind, "data": data}

    before = custom("x1", "file_before", {"path": str(victim), "state": {}})
    after = custom("x2", "file_after", {"path": str(victim), "state": {"sha256": empty}})
    rewind = custom("x0", "rewind", {"target": None, "left": "", "files": True, "conversation": True})

    id, _ = import_lines(tmp_path, [*lines, rewind, before, after])

    with Session.open(id, home=tmp_path / "home") as session:
        plan = await plan_rewind(session, LocalEnv(str(tmp_path)), None)
        assert (plan.restores, plan.conflicts) == ((), ())
        with pytest.raises(SessionError, match="Nothing to undo"):
            await plan_undo(session, LocalEnv(str(tmp_path)))
        content = Path(session.location).read_text("utf-8")
    assert all(f'"imported_{kind}"' in content for kind in ("file_before", "file_after", "rewind"))


@pytest.mark.parametrize("id", ["../../evil", "/etc/evil", "", "a" * 500, "a\0b"])
async def test_imported_id_cannot_escape_the_folder(id: str, tmp_path: Path) -> None:
    lines = await session_lines(tmp_path, "hello")

    with pytest.raises(SessionError):
        import_lines(tmp_path, [{**lines[0], "id": id}, *lines[1:]])

    assert not any(tmp_path.rglob("*evil*"))


async def test_entries_with_cyclic_parents_are_read(tmp_path: Path) -> None:
    lines = await session_lines(tmp_path, "hello")
    self_parent = {**lines[-1], "parent": lines[-1]["id"]}
    ring = [{**lines[-1], "id": "r1", "parent": "r2"}, {**lines[-1], "id": "r2", "parent": "r1"}]

    id, _ = import_lines(tmp_path, [*lines, self_parent, *ring])

    store = JsonlStore(tmp_path / "home")
    transcript = read_transcript(store, id)
    assert transcript.problems
    assert list(format_tree(transcript))
    with Session.open(id, home=tmp_path / "home") as session:
        assert [m.text for m in session.messages if isinstance(m, Message)] == ["hello", "hello"]


async def test_import_rejects_anything_but_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path, tmp_path / "nowhere"):
        with pytest.raises(SessionError):
            import_session(path, tmp_path, home=tmp_path / "home")


OPEN = "Look:\n````python\nx = '```'\n"


async def test_unclosed_code_block_is_closed_in_markdown(tmp_path: Path) -> None:
    lines = await session_lines(tmp_path, OPEN, "~~~\nand this", "plain")
    id, _ = import_lines(tmp_path, lines)

    page = render_markdown(read_transcript(JsonlStore(tmp_path / "home"), id))

    assert page.count("````python\nx = '```'\n````\n") == 2
    assert page.count("~~~\nand this\n~~~\n") == 2


async def test_html_export_escapes_hostile_text(tmp_path: Path) -> None:
    hostile = "</script><script>alert(1)</script><img src=x onerror=alert(1)>`<b>`**<i>**\n```\n<svg onload=x>\n```"
    id, _ = import_lines(tmp_path, await session_lines(tmp_path, hostile))

    page = render_html(read_transcript(JsonlStore(tmp_path / "home"), id))

    assert page.count("<script>") == 1
    assert "<img" not in page
    assert "<svg" not in page
    assert "<b>" not in page
    assert "<i>" not in page
