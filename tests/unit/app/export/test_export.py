import html
import re
from contextlib import suppress
from pathlib import Path

import pytest

from mainspring import Agent, CancelToken
from mainspring.app.cli.main import main
from mainspring.app.export import render_html, render_markdown
from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.saved_sessions import export_jsonl, export_transcript, import_file
from mainspring.errors import AgentAbortedError, SessionError
from mainspring.loop.hooks import Hooks, TurnBefore
from mainspring.messages import encode_message
from mainspring.sessions import Session, entry_schema, find_session
from mainspring.testing.scripted_model import ScriptedModel
from tests.unit.app.export.conftest import KEY, PIXEL

Exported = tuple[Path, Path, str]


def environ(home: Path) -> dict[str, str]:
    return {"MAINSPRING_HOME": str(home), "DEPLOY_TOKEN": "hunter2-hunter2"}


@pytest.mark.covers("BYD-13")
def test_page_is_complete_and_loads_nothing(exported: Exported) -> None:
    folder, home, id = exported

    page = render_html(export_transcript(id, WorkspaceOptions(cwd=str(folder)), environ(home)))

    for text in (
        "Change app.py",
        "First read, then change.",
        "+x = &#x27;two&#x27;",
        "the provider is on fire",
        "Another way.",
    ):
        assert text in page
    assert page.count("<script>") == 1
    assert "alert(1)" in html.unescape(page)
    assert "<script>alert" not in page
    assert "default-src &#x27;none&#x27;" in page
    assert not re.search(r"""(?:src|href|action)\s*=\s*["']?(?!data:)[a-z]""", page.split("<style>")[0])
    assert f"data:image/png;base64,{PIXEL}" in page
    assert "<b>test</b>" not in page


@pytest.mark.covers("BYD-13")
def test_branches_and_costs_are_shown(exported: Exported) -> None:
    folder, home, id = exported

    transcript = export_transcript(id, WorkspaceOptions(cwd=str(folder)), environ(home))
    page, text = render_html(transcript), render_markdown(transcript)

    assert page.count('class="item assistant left"') == 4
    assert "Another way." in text.split("## Abandoned branches")[0]
    assert "the provider is on fire" in text.split("## Abandoned branches")[1]
    for part in ("Change app.py", "First read, then change.", '"path": "app.py"', "+x = 'two'"):
        assert part in text
    assert "(current)" in page
    assert "$0.0300" in page
    assert "price unknown" in page


@pytest.mark.covers("BYD-13", "BYD-19")
def test_no_export_format_contains_a_secret(tmp_path: Path) -> None:
    with Session.create(tmp_path, home=tmp_path / "home") as session:
        session.add_custom("note", {"text": f"password: correct-horse-1 and hunter2-hunter2 and {KEY}"})
        session.label(f"about {KEY}")
        session.save()
    place, given = WorkspaceOptions(cwd=str(tmp_path)), environ(tmp_path / "home")

    transcript = export_transcript(session.id, place, given)
    forms = [
        render_html(transcript),
        render_markdown(transcript),
        b"\n".join(export_jsonl(session.id, place, given)).decode(),
    ]

    for form in forms:
        assert KEY not in form
        assert "hunter2" not in form
        assert "correct-horse" not in form


@pytest.mark.covers("BYD-13")
def test_internal_entries_are_hidden_and_a_stopped_run_is_explained(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    signal = CancelToken()
    hooks: Hooks = {TurnBefore: lambda _: signal.cancel("The chat was closed")}
    with Session.create(folder, home=tmp_path / "home") as session:
        session.add_custom("chat_queue", {"waiting": []})
        agent = Agent(ScriptedModel("never"), session=session)
        with suppress(AgentAbortedError):
            agent.run_sync("hello", signal=signal, hooks=hooks)

    page = render_markdown(export_transcript(session.id, WorkspaceOptions(cwd=str(folder)), environ(tmp_path / "home")))

    assert "chat_queue" not in page
    assert "### Stopped\n\nThe chat was closed" in page
    assert "AgentAbortedError" not in page


@pytest.mark.covers("BYD-13")
def test_exported_lines_can_be_imported(exported: Exported, tmp_path: Path) -> None:
    folder, home, id = exported
    file = tmp_path / "session.jsonl"
    lines = export_jsonl(id, WorkspaceOptions(cwd=str(folder)), environ(home))
    file.write_bytes(b"".join(line + b"\n" for line in lines))
    other_environ = {"MAINSPRING_HOME": str(tmp_path / "other")}

    first, problems = import_file(str(file), WorkspaceOptions(cwd=str(tmp_path)), other_environ)
    second, _ = import_file(str(file), WorkspaceOptions(cwd=str(tmp_path)), other_environ)

    assert problems == ()
    assert first == id != second
    with Session.open(id, home=home, write=False) as old, Session.open(first, home=tmp_path / "other") as new:
        assert [encode_message(m) for m in new.messages] == [encode_message(m) for m in old.messages]
        assert new.cwd == str(tmp_path)
    assert export_jsonl(first, WorkspaceOptions(cwd=str(tmp_path)), other_environ)[1:] == lines[1:]


@pytest.mark.parametrize("text", ["", "hello\n", '{"type":"message"}\n', '{"a":1}'])
def test_file_that_is_not_a_session_is_rejected(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(text, encoding="utf-8")

    with pytest.raises(SessionError, match="Not a session"):
        import_file("x.jsonl", WorkspaceOptions(cwd=str(tmp_path)), environ(tmp_path / "home"))

    assert not (tmp_path / "home").exists()


def test_damaged_lines_are_skipped_and_reported(exported: Exported, tmp_path: Path) -> None:
    folder, home, id = exported
    lines = export_jsonl(id, WorkspaceOptions(cwd=str(folder)), environ(home))
    (tmp_path / "x.jsonl").write_bytes(b"\n".join([*lines[:4], b"{broken", *lines[4:]]))

    _, problems = import_file("x.jsonl", WorkspaceOptions(cwd=str(tmp_path)), environ(tmp_path / "home"))

    assert problems == ("Line 5 cannot be read and was skipped.",)


@pytest.mark.covers("BYD-12")
def test_session_is_found_by_id_prefix_title_or_folder(exported: Exported) -> None:
    folder, home, id = exported

    for name in ("", id, id[:-4], "a <b>TEST</b> & more", str(folder)):
        assert find_session(name, folder, home=home).id == id
    with pytest.raises(SessionError, match="Unknown session: 'nothing'"):
        find_session("nothing", folder, home=home)


def test_export_command_writes_a_private_file_and_needs_force_to_replace(
    exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, home, id = exported
    monkeypatch.setenv("MAINSPRING_HOME", str(home))
    target = tmp_path / "out.md"
    call = ["export", id, "-o", str(target), "--cwd", str(folder)]

    assert main(call) == 0
    first = target.read_text(encoding="utf-8")
    assert target.stat().st_mode & 0o077 == 0
    assert main(call) == 1
    assert "--force" in capsys.readouterr().err
    assert main([*call, "--force"]) == 0
    assert target.read_text(encoding="utf-8") == first
    assert main(["export", id, "-o", "-", "--format", "jsonl", "--cwd", str(folder)]) == 0
    assert capsys.readouterr().out.count("\n") == len(
        export_jsonl(id, WorkspaceOptions(cwd=str(folder)), environ(home))
    )
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    assert main(["export", id]) == 0
    assert f"Saved to {home / 'exports' / id}.html" in capsys.readouterr().err
    assert sorted(folder.iterdir()) == before
    assert main(["export", id, "-o", "x.txt", "--cwd", str(folder)]) == 2


def test_every_entry_type_is_in_the_published_schema() -> None:
    assert "compaction" in str(entry_schema())
