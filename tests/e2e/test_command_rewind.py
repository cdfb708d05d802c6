"""Rewind by the command: another process undoes the changes of a run."""

import json

import pytest

from tests.e2e.command import Command, command
from tests.e2e.servers.chat import Reply

__all__ = ["command"]


@pytest.mark.covers("BYD-02")
def test_rewind_restores_files_and_can_be_undone(command: Command) -> None:
    (command.folder / "a.txt").write_text("one\n", encoding="utf-8")
    change = Reply(
        "",
        calls=[
            ("read_file", {"path": "a.txt"}),
            ("write_file", {"path": "a.txt", "content": "two\n"}),
            ("write_file", {"path": "b.txt", "content": "x"}),
        ],
    )
    command.server.script += ["Hello.", change, "Changed.", "Again."]
    assert command.run("-p", "hello").code == 0
    assert command.run("--continue", "-p", "change it", "--allow", "write_file").code == 0

    listed = command.run("rewind", "--list")
    preview = command.run("rewind", "--dry-run")
    assert [line.split("before: ")[1] for line in listed.out.splitlines()] == ["change it", "hello"]
    assert "restored" in preview.out
    assert "deleted" in preview.out
    assert (command.folder / "a.txt").read_text(encoding="utf-8") == "two\n"

    back = command.run("rewind")
    assert (back.code, "--undo" in back.err) == (0, True)
    assert (command.folder / "a.txt").read_text(encoding="utf-8") == "one\n"
    assert not (command.folder / "b.txt").exists()
    assert command.run("--continue", "-p", "go on").code == 0
    assert "change it" not in json.dumps(command.server.requests[-1]["messages"])
    assert "hello" in json.dumps(command.server.requests[-1]["messages"])

    (command.folder / "a.txt").write_text("mine\n", encoding="utf-8")
    rejected = command.run("rewind", "--undo")
    assert rejected.code == 2
    assert "another program changed it" in rejected.err
    assert "use --force" in rejected.err
    assert (command.folder / "a.txt").read_text(encoding="utf-8") == "mine\n"
    assert command.run("rewind", "--undo", "--force", "--files-only").code == 0
    assert (command.folder / "a.txt").read_text(encoding="utf-8") == "two\n"
    assert (command.folder / "b.txt").read_text(encoding="utf-8") == "x"


def test_undo_reports_the_messages_that_return(command: Command) -> None:
    command.server.script += ["Hello.", "Again."]
    command.run("-p", "hello")
    command.run("--continue", "-p", "go on")

    back, preview, undone = (
        command.run("rewind"),
        command.run("rewind", "--undo", "--dry-run"),
        command.run("rewind", "--undo"),
    )

    assert "2 messages were removed from the conversation." in back.err
    assert "2 messages would be restored to the conversation." in preview.err
    assert "2 messages were restored to the conversation." in undone.err
    assert "removed" not in undone.err


def test_file_of_a_rewound_read_is_read_again_before_an_edit(command: Command) -> None:
    (command.folder / "a.txt").write_text("one\n", encoding="utf-8")
    change = {"path": "a.txt", "old_string": "one", "new_string": "two"}
    command.server.script += [
        *("Hello.", Reply(calls=[("read_file", {"path": "a.txt"}), ("edit", change)]), "Changed."),
        *(Reply(calls=[("edit", change)]), Reply(calls=[("read_file", {"path": "a.txt"}), ("edit", change)]), "Done."),
    ]
    command.run("-p", "hello")
    command.run("--continue", "-p", "change it", "--accept-edits")
    command.run("rewind")
    assert (command.folder / "a.txt").read_text(encoding="utf-8") == "one\n"

    command.run("--continue", "-p", "again", "--accept-edits")

    first, second = (request["messages"][-1]["content"] for request in command.server.requests[-2:])
    assert "read" in first.lower()
    assert "Edited" in second
    assert (command.folder / "a.txt").read_text(encoding="utf-8") == "two\n"
