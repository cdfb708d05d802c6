"""Answers about calls: for once, for the session, for good, for some of the edits, with other arguments."""

import json
from pathlib import Path
from typing import Any

import pytest

from mainspring.app.chat.command_results import Picker, Table
from mainspring.app.chat.commands import Approve, Prompt, SetMode, Slash
from mainspring.app.chat.events import ApprovalAsked, CommandDone, Notice, RunFinished, StatusChanged, ToolFinished
from mainspring.app.chat.types import EditOutcome
from mainspring.testing.scripted_model import Reply, ScriptedCall
from mainspring.tools.support.editing.review import parse_edit_outcomes
from tests.unit.app.chat.harness import chatting


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    return tmp_path


def write(path: str = "b.txt", content: str = "new\n") -> ScriptedCall:
    return ScriptedCall("write_file", {"path": path, "content": content})


def shell(command: str) -> ScriptedCall:
    return ScriptedCall("shell", {"command": command})


def grants_of(home: Path) -> list[tuple[str, str]]:
    """What is saved for the one project that there is."""
    [project] = json.loads((home / ".agent" / "grants.json").read_text(encoding="utf-8"))["projects"]
    return [(grant["effect"], grant["rule"]) for grant in project["grants"]]


def edits(*pairs: tuple[str, str]) -> ScriptedCall:
    return ScriptedCall(
        "multi_edit", {"path": "a.txt", "edits": [{"old_string": a, "new_string": b} for a, b in pairs]}
    )


READ = ScriptedCall("read_file", {"path": "a.txt"})
"""The profile that works changes no file that it has not read."""


# --- scopes --------------------------------------------------------------------------------------------------------------


@pytest.mark.covers("BYD-18")
async def test_once_is_for_this_call_only(folder: Path, home: Path) -> None:
    async with chatting(folder, home, write(), write(content="2"), "done") as chat:
        await chat.run("go", Approve("", "once"))

    assert len(chat.of(ApprovalAsked)) == 2


@pytest.mark.covers("BYD-18")
async def test_session_is_for_such_calls_from_now_on(folder: Path, home: Path) -> None:
    async with chatting(folder, home, write(), write(content="2"), "done") as chat:
        await chat.run("go", Approve("", "session"))

    assert len(chat.of(ApprovalAsked)) == 1
    assert not (home / ".agent" / "settings.json").exists()


@pytest.mark.covers("BYD-18")
async def test_always_saves_the_rule_that_was_shown(folder: Path, home: Path) -> None:
    settings, grants = home / ".agent" / "settings.json", home / ".agent" / "grants.json"
    async with chatting(folder, home, write(), write(content="2"), "done") as chat:
        await chat.run("go", Approve("", "always"))
        [asked] = chat.of(ApprovalAsked)
    (folder / "b.txt").unlink()
    async with chatting(folder, home, write(content="3"), "done") as again:
        await again.run("go")

    assert asked.suggestions == ("write_file(b.txt)",)
    assert asked.wider == ("write_file(**)",)
    [project] = json.loads(grants.read_text(encoding="utf-8"))["projects"]
    assert project["folder"] == str(folder.resolve())
    assert [(g["effect"], g["rule"]) for g in project["grants"]] == [("allow", "write_file(b.txt)")]
    assert grants.stat().st_mode & 0o777 == 0o600
    assert not settings.exists()
    assert again.of(ApprovalAsked) == []
    assert (folder / "b.txt").read_text(encoding="utf-8") == "3"


@pytest.mark.covers("BYD-18")
async def test_everywhere_saves_in_the_settings_for_every_project(folder: Path, home: Path) -> None:
    settings = home / ".agent" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text('{\n  // mine\n  "permissions": {"allow": ["shell(ls)"]}\n}\n', encoding="utf-8")
    async with chatting(folder, home, shell("touch q"), "done") as chat:
        await chat.run("go", Approve("", "everywhere"))
    other = folder / "other"
    other.mkdir()
    async with chatting(other, home, shell("touch q"), "done") as again:
        await again.run("go")

    text = settings.read_text(encoding="utf-8")
    assert "// mine" in text
    assert '"shell(ls)"' in text
    assert '"shell(touch q)"' in text
    assert settings.stat().st_mode & 0o777 == 0o600
    assert not (home / ".agent" / "grants.json").exists()
    assert again.of(ApprovalAsked) == []


@pytest.mark.parametrize(
    "rule", ["shell(./deploy.sh)", "shell(bash deploy.sh)", "shell(scripts/run *)", "edit(src/app.py)"]
)
async def test_a_program_of_the_project_is_allowed_in_this_project_only(folder: Path, home: Path, rule: str) -> None:
    async with chatting(folder, home, write(), "done") as chat:
        await chat.run("go", Approve("", "everywhere", rule=rule))
        refused = await chat.slash(f"/permissions allow --global {rule}")
        listed = await chat.slash("/permissions")

    assert "is another file in each project" in refused.error
    assert any("was not saved" in n.text and n.level == "error" for n in chat.of(Notice))
    assert isinstance(listed.shown, Table)
    assert listed.shown.rows == ()
    assert not (home / ".agent" / "settings.json").exists()


async def test_a_yes_is_for_one_call_even_if_a_later_call_has_the_same_id(folder: Path, home: Path) -> None:
    def touch() -> ScriptedCall:
        return ScriptedCall("shell", {"command": "touch q"}, id="call_1")

    async with chatting(folder, home, touch(), touch(), "done") as chat:
        await chat.run("go", Approve("", "once"))

    assert len(chat.of(ApprovalAsked)) == 2


@pytest.mark.covers("BYD-18")
async def test_a_wider_rule_may_be_saved(folder: Path, home: Path) -> None:
    async with chatting(folder, home, write(), write("c.txt"), "done") as chat:
        await chat.run("go", Approve("", "always", rule="write_file(**)"))

    assert len(chat.of(ApprovalAsked)) == 1
    assert grants_of(home) == [("allow", "write_file(**)")]


@pytest.mark.covers("BYD-18")
async def test_never_denies_and_saves(folder: Path, home: Path) -> None:
    async with chatting(folder, home, write(), write(), "done") as chat:
        end = await chat.run("go", Approve("", "never", "these are not yours"))

    assert len(chat.of(ApprovalAsked)) == 1
    assert end.denied == 2
    assert not (folder / "b.txt").exists()
    assert grants_of(home) == [("deny", "write_file(b.txt)")]


@pytest.mark.parametrize(("decision", "name"), [("always", "grants.json"), ("everywhere", "settings.json")])
async def test_a_rule_that_cannot_be_saved_allows_this_call_only(
    folder: Path, home: Path, decision: Any, name: str
) -> None:
    (home / ".agent").mkdir()
    async with chatting(folder, home, write(), write(content="2"), "done") as chat:
        await chat.send(Prompt("go"))
        asked = await chat.until(ApprovalAsked)
        (home / ".agent" / name).write_text("{ broken", encoding="utf-8")
        await chat.send(Approve(asked.id, decision))
        again = await chat.until(ApprovalAsked)
        await chat.send(Approve(again.id, "deny"))
        await chat.until(RunFinished)

    assert (folder / "b.txt").read_text(encoding="utf-8") == "new\n"
    assert any("was not saved" in n.text and n.level == "error" for n in chat.of(Notice))
    assert (home / ".agent" / name).read_text(encoding="utf-8") == "{ broken"


async def test_no_garbage_is_saved(folder: Path, home: Path) -> None:
    async with chatting(folder, home, write(), "done") as chat:
        await chat.send(Prompt("go"))
        asked = await chat.until(ApprovalAsked)
        await chat.send(Approve(asked.id, "always", rule="write_file(("))
        await chat.until(RunFinished)

    assert not (home / ".agent" / "grants.json").exists()


@pytest.mark.covers("BYD-18")
async def test_the_rule_that_asks_is_named(folder: Path, home: Path) -> None:
    settings = home / ".agent" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"permissions": {"ask": ["write_file(b.txt)"]}}', encoding="utf-8")
    async with chatting(folder, home, write(), "done") as chat:
        await chat.run("go", Approve("", "once"))

    [asked] = chat.of(ApprovalAsked)
    assert asked.rule.startswith("ask write_file(b.txt)")
    assert "settings.json" in asked.rule
    assert asked.suggestions == ()  # no rule can allow what another one asks about


async def test_questions_come_one_after_the_other(folder: Path, home: Path) -> None:
    calls = [ScriptedCall("write_file", {"path": f"{i}.txt", "content": "x"}, id=f"w{i}") for i in range(3)]
    async with chatting(folder, home, Reply(calls=calls), "done") as chat:
        await chat.run("go", Approve("", "once"))

    told = [kind for kind in chat.kinds() if kind.startswith("Approval")]
    assert told == ["ApprovalAsked", "ApprovalSettled"] * 3


# --- the change that is shown is the change that is made --------------------------------------------------------------------


@pytest.mark.covers("CLI-12")
async def test_the_exact_change_is_shown(folder: Path, home: Path) -> None:
    (folder / "crlf.txt").write_bytes(b"one\r\ntwo\r\n")
    seen = ScriptedCall("read_file", {"path": "crlf.txt"})
    call = ScriptedCall("write_file", {"path": "crlf.txt", "content": "one\ntwo\n"})
    async with chatting(folder, home, seen, call, "done") as chat:
        await chat.run("go", Approve("", "deny"))

    [asked] = chat.of(ApprovalAsked)
    [diff] = asked.diffs
    assert (diff.path, diff.change) == ("crlf.txt", "edit")
    assert "CRLF" in diff.note
    assert (folder / "crlf.txt").read_bytes() == b"one\r\ntwo\r\n"


async def test_a_new_file_and_a_patch_are_shown(folder: Path, home: Path) -> None:
    async with chatting(folder, home, write(), "done") as chat:
        await chat.run("go", Approve("", "once"))

    [diff] = chat.of(ApprovalAsked)[0].diffs
    assert (diff.change, diff.added, diff.removed) == ("create", 1, 0)
    assert diff.hunks[0].lines == ("+new",)
    done = chat.of(ToolFinished)[-1]
    assert done.diffs[0].change == "create"


async def test_what_changed_after_the_yes_is_not_written_over(folder: Path, home: Path) -> None:
    edit = ScriptedCall("edit", {"path": "a.txt", "old_string": "two", "new_string": "2"})
    async with chatting(folder, home, READ, edit, "done") as chat:
        await chat.send(Prompt("go"))
        asked = await chat.until(ApprovalAsked)
        (folder / "a.txt").write_text("two, but another two\n", encoding="utf-8")
        await chat.send(Approve(asked.id, "once"))
        await chat.until(RunFinished)

    done = chat.of(ToolFinished)[-1]
    assert done.is_error
    assert "changed since" in done.output
    assert (folder / "a.txt").read_text(encoding="utf-8") == "two, but another two\n"


async def test_a_call_that_was_not_made_after_all_is_not_asked_about_twice(folder: Path, home: Path) -> None:
    edit = ScriptedCall("edit", {"path": "a.txt", "old_string": "two", "new_string": "2"})
    async with chatting(folder, home, edit, READ, edit, edit, "done") as chat:
        await chat.run("go", Approve("", "once"))

    asked = len(chat.of(ApprovalAsked))
    assert "was not read" in chat.of(ToolFinished)[0].output
    assert (folder / "a.txt").read_text(encoding="utf-8") == "one\n2\nthree\n"
    assert asked == 2  # once for the edit, and once for the same edit again after it was made


async def test_nobody_is_asked_about_an_edit_of_a_file_that_was_not_read(folder: Path, home: Path) -> None:
    edit = ScriptedCall("edit", {"path": "a.txt", "old_string": "two", "new_string": "2"})
    async with chatting(folder, home, edit, "done") as chat:
        await chat.run("go", Approve("", "once"))

    assert chat.of(ApprovalAsked) == []
    done = chat.of(ToolFinished)[-1]
    assert done.output.startswith("Not run: a.txt was not read in this conversation")
    assert (folder / "a.txt").read_text(encoding="utf-8") == "one\ntwo\nthree\n"


async def test_an_edit_behind_the_read_of_the_same_answer_is_asked_about(folder: Path, home: Path) -> None:
    edit = ScriptedCall("edit", {"path": "a.txt", "old_string": "two", "new_string": "2"}, id="e")
    read = ScriptedCall("read_file", {"path": "./a.txt"}, id="r")
    async with chatting(folder, home, Reply(calls=[read, edit]), "done") as chat:
        await chat.run("go", Approve("", "once"))

    assert len(chat.of(ApprovalAsked)) == 1
    assert (folder / "a.txt").read_text(encoding="utf-8") == "one\n2\nthree\n"


async def test_two_edits_of_one_file_may_be_approved_before_either_is_made(folder: Path, home: Path) -> None:
    first = ScriptedCall("edit", {"path": "a.txt", "old_string": "one", "new_string": "1"}, id="e1")
    second = ScriptedCall("edit", {"path": "a.txt", "old_string": "three", "new_string": "3"}, id="e2")
    async with chatting(folder, home, READ, Reply(calls=[first, second]), "done") as chat:
        await chat.run("go", Approve("", "once"))

    assert (folder / "a.txt").read_text(encoding="utf-8") == "1\ntwo\n3\n"


async def test_an_edit_that_would_fail_says_so(folder: Path, home: Path) -> None:
    edit = ScriptedCall("edit", {"path": "a.txt", "old_string": "nine", "new_string": "9"})
    async with chatting(folder, home, READ, edit, "done") as chat:
        await chat.run("go", Approve("", "once"))

    assert "it would fail" in chat.of(ApprovalAsked)[0].reason


# --- some of the edits ------------------------------------------------------------------------------------------------------


@pytest.mark.covers("CLI-12", "TOL-14")
async def test_each_edit_is_a_hunk_that_can_be_left_out(folder: Path, home: Path) -> None:
    async with chatting(folder, home, READ, edits(("one", "1"), ("two", "2"), ("three", "3")), "done") as chat:
        await chat.run("go", Approve("", "once", "leave the middle", hunks=(0, 2)))

    [asked] = chat.of(ApprovalAsked)
    assert asked.choose_hunks
    assert [hunk.number for hunk in asked.diffs[0].hunks] == [0, 1, 2]
    assert (folder / "a.txt").read_text(encoding="utf-8") == "1\ntwo\n3\n"
    done = chat.of(ToolFinished)[-1]
    assert done.output.splitlines()[0] == "Edited a.txt: 2/3 applied · 1 denied"
    assert done.edits == (EditOutcome("a.txt", 2, 3, 1, 0, "leave the middle"),)
    outcomes = parse_edit_outcomes(done.output)
    assert outcomes is not None
    assert [hunk.fate for hunk in outcomes.hunks] == ["applied", "denied", "applied"]


@pytest.mark.covers("TOL-14")
async def test_what_is_left_is_made_as_a_whole_or_not_at_all(folder: Path, home: Path) -> None:
    async with chatting(folder, home, READ, edits(("one", "1"), ("1\ntwo", "1\n2")), "done") as chat:
        await chat.run("go", Approve("", "once", hunks=(1,)))

    assert (folder / "a.txt").read_text(encoding="utf-8") == "one\ntwo\nthree\n"
    done = chat.of(ToolFinished)[-1]
    assert done.edits[0].failed == 1


async def test_a_hunk_that_there_is_not_is_refused_and_the_question_stays(folder: Path, home: Path) -> None:
    async with chatting(folder, home, READ, edits(("one", "1"), ("two", "2")), "done") as chat:
        await chat.send(Prompt("go"))
        asked = await chat.until(ApprovalAsked)
        wrong = await chat.send(Approve(asked.id, "once", hunks=(7,)))
        await chat.send(Approve(asked.id, "once"))
        await chat.until(RunFinished)

    assert "Unknown hunk: 7" in wrong.refused
    assert (folder / "a.txt").read_text(encoding="utf-8") == "1\n2\nthree\n"


@pytest.mark.covers("CLI-13")
async def test_a_replay_reads_the_outcomes_again(folder: Path, home: Path) -> None:
    async with chatting(folder, home, READ, edits(("one", "1"), ("two", "2")), "done") as chat:
        await chat.run("go", Approve("", "once", "no", hunks=(0,)))
        live = chat.of(ToolFinished)[-1]
    async with chatting(folder, home, ask={"continued": True}) as again:
        told = await again.until(ToolFinished, lambda t: t.name == "multi_edit")

    assert told.edits == live.edits == (EditOutcome("a.txt", 1, 2, 1, 0, "no"),)
    assert told.diffs == live.diffs
    assert told.display == live.display


# --- other arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.covers("CLI-12")
async def test_a_call_may_be_made_with_other_arguments(folder: Path, home: Path) -> None:
    async with chatting(folder, home, write(), "done") as chat:
        end = await chat.run("go", Approve("", "edit", input={"path": "b.txt", "content": "mine\n"}))

    assert end.status == "completed"
    assert (folder / "b.txt").read_text(encoding="utf-8") == "mine\n"
    assert chat.kinds().count("RunFinished") == 1
    assert len(chat.of(ApprovalAsked)) == 1


async def test_what_was_answered_beside_an_edited_call_is_not_asked_again(folder: Path, home: Path) -> None:
    calls = [
        ScriptedCall("write_file", {"path": "b.txt", "content": "x"}, id="w1"),
        ScriptedCall("write_file", {"path": "c.txt", "content": "x"}, id="w2"),
    ]
    async with chatting(folder, home, Reply(calls=calls), "done") as chat:
        await chat.send(Prompt("go"))
        first = await chat.until(ApprovalAsked)
        await chat.send(Approve(first.id, "once"))
        second = await chat.until(ApprovalAsked)
        await chat.send(Approve(second.id, "edit", input={"path": "c.txt", "content": "mine"}))
        await chat.until(RunFinished)

    assert len(chat.of(ApprovalAsked)) == 2
    assert (folder / "b.txt").read_text(encoding="utf-8") == "x"
    assert (folder / "c.txt").read_text(encoding="utf-8") == "mine"


async def test_arguments_that_do_not_fit_are_an_error_for_the_model(folder: Path, home: Path) -> None:
    async with chatting(folder, home, write(), "done") as chat:
        end = await chat.run("go", Approve("", "edit", input={"nonsense": 1}))

    assert end.status == "completed"
    assert not (folder / "b.txt").exists()
    assert "Validation error" in chat.of(ToolFinished)[-1].output


# --- by command -------------------------------------------------------------------------------------------------------------


@pytest.mark.covers("BYD-18")
async def test_permissions_by_command(folder: Path, home: Path) -> None:
    async with chatting(folder, home, write(), "done") as chat:
        added = await chat.slash("/permissions allow write_file(b.txt)")
        shown = await chat.slash("/permissions")
        why = await chat.slash("/permissions explain shell rm -rf x")
        await chat.run("go")
        receipt = await chat.send(Slash("/permissions allow ((("))
        bad = await chat.until(CommandDone, lambda done: done.id == receipt.id)

    assert f"Saved for this project in {home}/.agent/grants.json" in str(added.shown)
    assert "write_file(b.txt)" in str(shown.shown)
    assert "outcome" in str(why.shown)
    assert bad.error
    assert chat.of(ApprovalAsked) == []


@pytest.mark.covers("BYD-18")
async def test_what_was_granted_is_listed_with_its_place_and_revoked(folder: Path, home: Path) -> None:
    script = [
        *(write(), write("c.txt"), shell("touch q"), "done"),
        *(write(content="2"), write("c.txt", "2"), shell("touch q"), "done"),
    ]
    async with chatting(folder, home, *script) as chat:
        empty = await chat.slash("/permissions")
        nothing = await chat.slash("/permissions revoke")
        await chat.send(Prompt("go"))
        for decision in ("always", "session", "everywhere"):
            asked = await chat.until(ApprovalAsked)
            await chat.send(Approve(asked.id, decision))
        await chat.until(RunFinished)
        await chat.send(SetMode("accept_edits"))
        listed = await chat.slash("/permissions")
        picker = await chat.slash("/permissions revoke")
        revoked = [
            await chat.slash(f"/permissions revoke {wanted}")
            for wanted in ("write_file(b.txt)", "all edits in this project", "2", "1")
        ]
        unknown = await chat.slash("/permissions revoke 1")
        await chat.send(Prompt("again"))
        for _ in range(3):
            asked = await chat.until(ApprovalAsked)
            await chat.send(Approve(asked.id, "deny"))
        await chat.until(RunFinished)

    assert isinstance(empty.shown, Table)
    assert "No rules yet." in empty.shown.empty
    assert isinstance(nothing.shown, Picker)
    assert nothing.shown.choices == ()
    session = ("this session", "memory, until the session ends")
    assert isinstance(listed.shown, Table)
    assert listed.shown.rows == (
        ("1", "allow", "shell(touch q)", "every project", f"{home}/.agent/settings.json"),
        ("2", "allow", "write_file(b.txt)", "this project", f"{home}/.agent/grants.json"),
        ("3", "allow", "all edits in this project", *session),
        ("4", "allow", "write c.txt", *session),
    )
    assert isinstance(picker.shown, Picker)
    assert [choice.line for choice in picker.shown.choices] == [f"/permissions revoke {i}" for i in range(1, 5)]
    assert [done.error for done in revoked] == [""] * 4
    assert "Nothing is granted as '1'" in unknown.error
    assert (folder / "b.txt").read_text(encoding="utf-8") == "new\n"


# --- all edits in this project, this session -------------------------------------------------------------------------


@pytest.mark.covers("BYD-18")
async def test_all_edits_are_allowed_for_the_session_and_nothing_else_is(folder: Path, home: Path) -> None:
    outside = folder.parent / "outside.txt"
    patch = "*** Begin Patch\n*** Add File: d.txt\n+new\n*** End Patch"
    delete = "*** Begin Patch\n*** Delete File: d.txt\n*** End Patch"
    free = [write("c.txt"), ScriptedCall("apply_patch", {"patch": patch}), READ, edits(("one", "1"))]
    asks = [
        *(shell("touch ran"), write(".git/hooks/pre-commit"), write(".agent/settings.json"), write(".env")),
        *(
            write(str(outside)),
            write("../outside.txt"),
            ScriptedCall("apply_patch", {"patch": delete}),
            shell("echo x > e.txt"),
        ),
    ]
    tools = {"tools": ("write_file", "apply_patch", "read_file", "multi_edit", "shell")}
    async with chatting(folder, home, write(), *free, *asks, "done", write("f.txt"), "done", ask=tools) as chat:
        await chat.send(Prompt("go"))
        first = await chat.until(ApprovalAsked)
        await chat.send(Approve(first.id, "edits"))
        for _ in asks:
            asked = await chat.until(ApprovalAsked)
            assert "edits" not in [choice.value for choice in asked.choices]
            await chat.send(Approve(asked.id, "deny"))
        await chat.until(RunFinished)
        modes = [event.status.mode for event in chat.of(StatusChanged)]
        await chat.slash("/clear")
        after = chat.chat.status.mode
        await chat.run("again", Approve("", "deny"))

    assert [choice.value for choice in first.choices] == [
        *("once", "session", "edits", "always", "edit", "deny", "never"),
    ]
    assert "accept_edits" in modes
    assert after == "build"
    assert (folder / "b.txt").exists()
    assert (folder / "c.txt").exists()
    assert (folder / "d.txt").exists()
    assert (folder / "a.txt").read_text(encoding="utf-8") == "1\ntwo\nthree\n"
    assert not (folder / "f.txt").exists()
    assert not outside.exists()
    assert not (home / ".agent" / "grants.json").exists()


async def test_rules_that_ask_or_deny_apply_where_all_edits_are_accepted(folder: Path, home: Path) -> None:
    settings = home / ".agent" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"permissions": {"ask": ["write_file(b.txt)"], "deny": ["write_file(c.txt)"]}}')
    (folder / ".agentignore").write_text("d.txt\n")
    script = [write(), write("c.txt"), write("d.txt"), write("e.txt"), "done"]
    async with chatting(folder, home, *script, ask={"accept_edits": True}) as chat:
        assert chat.chat.status.mode == "accept_edits"
        end = await chat.run("go", Approve("", "deny"))

    assert [asked.resource for asked in chat.of(ApprovalAsked)] == ["b.txt"]
    assert end.denied == 3
    assert [name for name in "bcde" if (folder / f"{name}.txt").exists()] == ["e"]


async def test_modes_follow_each_other_and_a_resumed_session_begins_in_the_default_mode(
    folder: Path, home: Path
) -> None:
    async with chatting(folder, home, write(), "done", write(content="2"), "done") as chat:
        await chat.send(SetMode("accept_edits"))
        await chat.run("go")
        await chat.send(SetMode("plan"))
        end = await chat.run("again")
        assert end.denied == 1
        await chat.send(SetMode("accept_edits"))
        await chat.until(StatusChanged, lambda event: event.status.mode == "accept_edits")
    async with chatting(folder, home, write(content="3"), "done", ask={"continued": True}) as again:
        mode = again.chat.status.mode
        await again.run("go", Approve("", "deny"))

    assert mode == "build"
    assert len(again.of(ApprovalAsked)) == 1
    assert (folder / "b.txt").read_text(encoding="utf-8") == "new\n"
