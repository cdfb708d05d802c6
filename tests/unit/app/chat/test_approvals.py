"""Approvals: once, for the session, always, for some of the edits, and with other arguments."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mainspring.app.chat.command_results import Picker, Table
from mainspring.app.chat.commands import Approve, Prompt, SetMode, Slash
from mainspring.app.chat.events import CommandEnd, StatusChange
from mainspring.app.chat.types import ApprovalDecision
from mainspring.app.run.options import PermissionFlags
from mainspring.events import AgentEnd, ApprovalRequest, EditOutcome, Notice, ToolExecutionEnd
from mainspring.testing.scripted_model import Reply, ScriptedCall
from mainspring.tools.support.editing.review import parse_edit_outcomes
from tests.unit.app.chat import event_builders as make
from tests.unit.app.chat.harness import chatting


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    return tmp_path


def write_call(path: str = "b.txt", content: str = "new\n") -> ScriptedCall:
    return ScriptedCall("write_file", {"path": path, "content": content})


def shell_call(command: str) -> ScriptedCall:
    return ScriptedCall("shell", {"command": command})


def read_grants(home: Path) -> list[tuple[str, str]]:
    """Return the rules that are saved for the only project."""
    [project] = json.loads((home / ".agent" / "grants.json").read_text(encoding="utf-8"))["projects"]
    return [(grant["effect"], grant["rule"]) for grant in project["grants"]]


def edits_call(*pairs: tuple[str, str]) -> ScriptedCall:
    return ScriptedCall(
        "multi_edit", {"path": "a.txt", "edits": [{"old_string": a, "new_string": b} for a, b in pairs]}
    )


READ = ScriptedCall("read_file", {"path": "a.txt"})
"""The agent must read a file before it can edit it."""


# --- scopes --------------------------------------------------------------------------------------------------------------


@pytest.mark.covers("BYD-18")
async def test_once_allows_one_call(folder: Path, home: Path) -> None:
    async with chatting(folder, home, write_call(), write_call(content="2"), "done") as chat:
        await chat.run("go", Approve("", "once"))

    assert len(chat.of(ApprovalRequest)) == 2


@pytest.mark.covers("BYD-18")
async def test_session_allows_matching_calls_until_the_session_ends(folder: Path, home: Path) -> None:
    async with chatting(folder, home, write_call(), write_call(content="2"), "done") as chat:
        await chat.run("go", Approve("", "session"))

    assert len(chat.of(ApprovalRequest)) == 1
    assert not (home / ".agent" / "settings.json").exists()


@pytest.mark.covers("BYD-18")
async def test_always_saves_the_suggested_rule(folder: Path, home: Path) -> None:
    settings, grants = home / ".agent" / "settings.json", home / ".agent" / "grants.json"
    async with chatting(folder, home, write_call(), write_call(content="2"), "done") as chat:
        await chat.run("go", Approve("", "always"))
        [request] = chat.of(ApprovalRequest)
    (folder / "b.txt").unlink()
    async with chatting(folder, home, write_call(content="3"), "done") as again:
        await again.run("go")

    assert request.suggestions == ("write_file(b.txt)",)
    assert request.wider == ("write_file(**)",)
    [project] = json.loads(grants.read_text(encoding="utf-8"))["projects"]
    assert project["folder"] == str(folder.resolve())
    assert [(g["effect"], g["rule"]) for g in project["grants"]] == [("allow", "write_file(b.txt)")]
    assert grants.stat().st_mode & 0o777 == 0o600
    assert not settings.exists()
    assert again.of(ApprovalRequest) == []
    assert (folder / "b.txt").read_text(encoding="utf-8") == "3"


@pytest.mark.covers("BYD-18")
async def test_everywhere_saves_the_rule_in_the_user_settings(folder: Path, home: Path) -> None:
    settings = home / ".agent" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text('{\n  // mine\n  "permissions": {"allow": ["shell(ls)"]}\n}\n', encoding="utf-8")
    async with chatting(folder, home, shell_call("touch q"), "done") as chat:
        await chat.run("go", Approve("", "everywhere"))
    other = folder / "other"
    other.mkdir()
    async with chatting(other, home, shell_call("touch q"), "done") as again:
        await again.run("go")

    text = settings.read_text(encoding="utf-8")
    assert "// mine" in text
    assert '"shell(ls)"' in text
    assert '"shell(touch q)"' in text
    assert settings.stat().st_mode & 0o777 == 0o600
    assert not (home / ".agent" / "grants.json").exists()
    assert again.of(ApprovalRequest) == []


@pytest.mark.parametrize(
    "rule", ["shell(./deploy.sh)", "shell(bash deploy.sh)", "shell(scripts/run *)", "edit(src/app.py)"]
)
async def test_rule_for_a_project_program_cannot_be_saved_globally(folder: Path, home: Path, rule: str) -> None:
    async with chatting(folder, home, write_call(), "done") as chat:
        await chat.run("go", Approve("", "everywhere", rule=rule))
        rejected = await chat.slash(f"/permissions allow --global {rule}")
        listed = await chat.slash("/permissions")

    assert "is another file in each project" in rejected.error
    assert any("was not saved" in n.text and n.level == "error" for n in chat.of(Notice))
    assert isinstance(listed.shown, Table)
    assert listed.shown.rows == ()
    assert not (home / ".agent" / "settings.json").exists()


async def test_once_allows_one_call_even_if_call_ids_repeat(folder: Path, home: Path) -> None:
    def touch_call() -> ScriptedCall:
        return ScriptedCall("shell", {"command": "touch q"}, id="call_1")

    async with chatting(folder, home, touch_call(), touch_call(), "done") as chat:
        await chat.run("go", Approve("", "once"))

    assert len(chat.of(ApprovalRequest)) == 2


@pytest.mark.covers("BYD-18")
async def test_wider_rule_can_be_saved(folder: Path, home: Path) -> None:
    async with chatting(folder, home, write_call(), write_call("c.txt"), "done") as chat:
        await chat.run("go", Approve("", "always", rule="write_file(**)"))

    assert len(chat.of(ApprovalRequest)) == 1
    assert read_grants(home) == [("allow", "write_file(**)")]


@pytest.mark.covers("BYD-18")
async def test_never_denies_and_saves_a_deny_rule(folder: Path, home: Path) -> None:
    async with chatting(folder, home, write_call(), write_call(), "done") as chat:
        end = await chat.run("go", Approve("", "never", "these are not yours"))

    assert len(chat.of(ApprovalRequest)) == 1
    assert len(end.denied) == 2
    assert not (folder / "b.txt").exists()
    assert read_grants(home) == [("deny", "write_file(b.txt)")]


@pytest.mark.parametrize(("decision", "name"), [("always", "grants.json"), ("everywhere", "settings.json")])
async def test_rule_that_cannot_be_saved_allows_one_call_only(
    folder: Path, home: Path, decision: Any, name: str
) -> None:
    (home / ".agent").mkdir()
    async with chatting(folder, home, write_call(), write_call(content="2"), "done") as chat:
        await chat.send(Prompt("go"))
        request = await chat.until(ApprovalRequest)
        (home / ".agent" / name).write_text("{ broken", encoding="utf-8")
        await chat.send(Approve(request.id, decision))
        again = await chat.until(ApprovalRequest)
        await chat.send(Approve(again.id, "deny"))
        await chat.until(AgentEnd)

    assert (folder / "b.txt").read_text(encoding="utf-8") == "new\n"
    assert any("was not saved" in n.text and n.level == "error" for n in chat.of(Notice))
    assert (home / ".agent" / name).read_text(encoding="utf-8") == "{ broken"


async def test_invalid_rule_is_not_saved(folder: Path, home: Path) -> None:
    async with chatting(folder, home, write_call(), "done") as chat:
        await chat.send(Prompt("go"))
        request = await chat.until(ApprovalRequest)
        await chat.send(Approve(request.id, "always", rule="write_file(("))
        await chat.until(AgentEnd)

    assert not (home / ".agent" / "grants.json").exists()


@pytest.mark.covers("BYD-18")
async def test_approval_names_the_ask_rule(folder: Path, home: Path) -> None:
    settings = home / ".agent" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"permissions": {"ask": ["write_file(b.txt)"]}}', encoding="utf-8")
    async with chatting(folder, home, write_call(), "done") as chat:
        await chat.run("go", Approve("", "once"))

    [request] = chat.of(ApprovalRequest)
    assert request.rule.startswith("ask write_file(b.txt)")
    assert "settings.json" in request.rule
    assert request.suggestions == ()  # a saved rule cannot override an ask rule


async def test_approvals_are_requested_one_at_a_time(folder: Path, home: Path) -> None:
    calls = [ScriptedCall("write_file", {"path": f"{i}.txt", "content": "x"}, id=f"w{i}") for i in range(3)]
    async with chatting(folder, home, Reply(calls=calls), "done") as chat:
        await chat.run("go", Approve("", "once"))

    kinds = [kind for kind in chat.kinds() if kind.startswith("Approval")]
    assert kinds == ["ApprovalRequest", "ApprovalResult"] * 3


# --- diffs ------------------------------------------------------------------------------------------------------------------


@pytest.mark.covers("CLI-12")
async def test_approval_shows_the_exact_diff(folder: Path, home: Path) -> None:
    (folder / "crlf.txt").write_bytes(b"one\r\ntwo\r\n")
    seen = ScriptedCall("read_file", {"path": "crlf.txt"})
    call = ScriptedCall("write_file", {"path": "crlf.txt", "content": "one\ntwo\n"})
    async with chatting(folder, home, seen, call, "done") as chat:
        await chat.run("go", Approve("", "deny"))

    [request] = chat.of(ApprovalRequest)
    [diff] = make.shown(request).diffs
    assert (diff.path, diff.change) == ("crlf.txt", "edit")
    assert "CRLF" in diff.note
    assert (folder / "crlf.txt").read_bytes() == b"one\r\ntwo\r\n"


async def test_diff_of_a_new_file_is_shown(folder: Path, home: Path) -> None:
    async with chatting(folder, home, write_call(), "done") as chat:
        await chat.run("go", Approve("", "once"))

    [diff] = make.shown(chat.of(ApprovalRequest)[0]).diffs
    assert (diff.change, diff.added, diff.removed) == ("create", 1, 0)
    assert diff.hunks[0].lines == ("+new",)
    done = chat.of(ToolExecutionEnd)[-1]
    assert make.shown(done).diffs[0].change == "create"


async def test_file_changed_after_approval_is_not_overwritten(folder: Path, home: Path) -> None:
    edit = ScriptedCall("edit", {"path": "a.txt", "old_string": "two", "new_string": "2"})
    async with chatting(folder, home, READ, edit, "done") as chat:
        await chat.send(Prompt("go"))
        request = await chat.until(ApprovalRequest)
        (folder / "a.txt").write_text("two, but another two\n", encoding="utf-8")
        await chat.send(Approve(request.id, "once"))
        await chat.until(AgentEnd)

    done = chat.of(ToolExecutionEnd)[-1]
    assert done.result.is_error
    assert "changed since" in done.result.text
    assert (folder / "a.txt").read_text(encoding="utf-8") == "two, but another two\n"


async def test_edit_needs_approval_only_after_the_file_was_read(folder: Path, home: Path) -> None:
    edit = ScriptedCall("edit", {"path": "a.txt", "old_string": "two", "new_string": "2"})
    async with chatting(folder, home, edit, READ, edit, edit, "done") as chat:
        await chat.run("go", Approve("", "once"))

    request = len(chat.of(ApprovalRequest))
    assert "was not read" in chat.of(ToolExecutionEnd)[0].result.text
    assert (folder / "a.txt").read_text(encoding="utf-8") == "one\n2\nthree\n"
    assert request == 1  # the second edit after the read fails, since its text is gone


async def test_edit_of_an_unread_file_fails_without_approval(folder: Path, home: Path) -> None:
    edit = ScriptedCall("edit", {"path": "a.txt", "old_string": "two", "new_string": "2"})
    async with chatting(folder, home, edit, "done") as chat:
        await chat.run("go", Approve("", "once"))

    assert chat.of(ApprovalRequest) == []
    done = chat.of(ToolExecutionEnd)[-1]
    assert done.result.text.startswith("Not run: a.txt was not read in this conversation")
    assert (folder / "a.txt").read_text(encoding="utf-8") == "one\ntwo\nthree\n"


async def test_edit_after_a_read_in_the_same_response_needs_approval(folder: Path, home: Path) -> None:
    edit = ScriptedCall("edit", {"path": "a.txt", "old_string": "two", "new_string": "2"}, id="e")
    read = ScriptedCall("read_file", {"path": "./a.txt"}, id="r")
    async with chatting(folder, home, Reply(calls=[read, edit]), "done") as chat:
        await chat.run("go", Approve("", "once"))

    assert len(chat.of(ApprovalRequest)) == 1
    assert (folder / "a.txt").read_text(encoding="utf-8") == "one\n2\nthree\n"


async def test_two_edits_of_one_file_can_be_approved_together(folder: Path, home: Path) -> None:
    first = ScriptedCall("edit", {"path": "a.txt", "old_string": "one", "new_string": "1"}, id="e1")
    second = ScriptedCall("edit", {"path": "a.txt", "old_string": "three", "new_string": "3"}, id="e2")
    async with chatting(folder, home, READ, Reply(calls=[first, second]), "done") as chat:
        await chat.run("go", Approve("", "once"))

    assert (folder / "a.txt").read_text(encoding="utf-8") == "1\ntwo\n3\n"


async def test_edit_that_would_fail_is_not_asked_about(folder: Path, home: Path) -> None:
    edit = ScriptedCall("edit", {"path": "a.txt", "old_string": "nine", "new_string": "9"})
    async with chatting(folder, home, READ, edit, "done") as chat:
        await chat.run("go", Approve("", "once"))

    assert chat.of(ApprovalRequest) == []
    end = chat.of(ToolExecutionEnd)[-1]
    assert end.status == "error"
    assert end.result.text.startswith("old_string is not in the file.")


# --- partial approval -------------------------------------------------------------------------------------------------------


@pytest.mark.covers("CLI-12", "TOL-14")
async def test_single_edits_can_be_denied(folder: Path, home: Path) -> None:
    async with chatting(folder, home, READ, edits_call(("one", "1"), ("two", "2"), ("three", "3")), "done") as chat:
        await chat.run("go", Approve("", "once", "leave the middle", hunks=(0, 2)))

    [request] = chat.of(ApprovalRequest)
    assert request.choose_hunks
    assert [hunk.number for hunk in make.shown(request).diffs[0].hunks] == [0, 1, 2]
    assert (folder / "a.txt").read_text(encoding="utf-8") == "1\ntwo\n3\n"
    done = chat.of(ToolExecutionEnd)[-1]
    assert done.result.text.splitlines()[0] == "Edited a.txt: 2/3 applied · 1 denied"
    assert make.shown(done).edits == (EditOutcome("a.txt", 2, 3, 1, 0, "leave the middle"),)
    outcomes = parse_edit_outcomes(done.result.text)
    assert outcomes is not None
    assert [hunk.fate for hunk in outcomes.hunks] == ["applied", "denied", "applied"]


@pytest.mark.covers("TOL-14")
async def test_approved_edits_are_applied_together_or_not_at_all(folder: Path, home: Path) -> None:
    async with chatting(folder, home, READ, edits_call(("one", "1"), ("1\ntwo", "1\n2")), "done") as chat:
        await chat.run("go", Approve("", "once", hunks=(1,)))

    assert (folder / "a.txt").read_text(encoding="utf-8") == "one\ntwo\nthree\n"
    done = chat.of(ToolExecutionEnd)[-1]
    assert make.shown(done).edits[0].failed == 1


async def test_unknown_hunk_is_rejected_and_the_approval_stays_open(folder: Path, home: Path) -> None:
    async with chatting(folder, home, READ, edits_call(("one", "1"), ("two", "2")), "done") as chat:
        await chat.send(Prompt("go"))
        request = await chat.until(ApprovalRequest)
        wrong = await chat.send(Approve(request.id, "once", hunks=(7,)))
        await chat.send(Approve(request.id, "once"))
        await chat.until(AgentEnd)

    assert "Unknown hunk: 7" in wrong.refused
    assert (folder / "a.txt").read_text(encoding="utf-8") == "1\n2\nthree\n"


@pytest.mark.covers("CLI-13")
async def test_replay_restores_edit_outcomes(folder: Path, home: Path) -> None:
    async with chatting(folder, home, READ, edits_call(("one", "1"), ("two", "2")), "done") as chat:
        await chat.run("go", Approve("", "once", "no", hunks=(0,)))
        live = chat.of(ToolExecutionEnd)[-1]
    async with chatting(folder, home, ask={"continued": True}) as again:
        replayed = await again.until(ToolExecutionEnd, lambda t: t.call.name == "multi_edit")

    assert make.shown(replayed).edits == make.shown(live).edits == (EditOutcome("a.txt", 1, 2, 1, 0, "no"),)
    assert make.shown(replayed).diffs == make.shown(live).diffs
    assert make.shown(replayed).name == make.shown(live).name


# --- edited arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.covers("CLI-12")
async def test_call_can_be_approved_with_edited_arguments(folder: Path, home: Path) -> None:
    async with chatting(folder, home, write_call(), "done") as chat:
        end = await chat.run("go", Approve("", "edit", input={"path": "b.txt", "content": "mine\n"}))

    assert end.status == "completed"
    assert (folder / "b.txt").read_text(encoding="utf-8") == "mine\n"
    assert chat.kinds().count("AgentEnd") == 1
    assert len(chat.of(ApprovalRequest)) == 1


async def test_approved_call_is_not_asked_about_again_after_another_is_edited(folder: Path, home: Path) -> None:
    calls = [
        ScriptedCall("write_file", {"path": "b.txt", "content": "x"}, id="w1"),
        ScriptedCall("write_file", {"path": "c.txt", "content": "x"}, id="w2"),
    ]
    async with chatting(folder, home, Reply(calls=calls), "done") as chat:
        await chat.send(Prompt("go"))
        first = await chat.until(ApprovalRequest)
        await chat.send(Approve(first.id, "once"))
        second = await chat.until(ApprovalRequest)
        await chat.send(Approve(second.id, "edit", input={"path": "c.txt", "content": "mine"}))
        await chat.until(AgentEnd)

    assert len(chat.of(ApprovalRequest)) == 2
    assert (folder / "b.txt").read_text(encoding="utf-8") == "x"
    assert (folder / "c.txt").read_text(encoding="utf-8") == "mine"


async def test_invalid_edited_arguments_are_an_error_for_the_model(folder: Path, home: Path) -> None:
    async with chatting(folder, home, write_call(), "done") as chat:
        end = await chat.run("go", Approve("", "edit", input={"nonsense": 1}))

    assert end.status == "completed"
    assert not (folder / "b.txt").exists()
    assert "Validation error" in chat.of(ToolExecutionEnd)[-1].result.text


# --- /permissions -----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("BYD-18")
async def test_permissions_command_adds_shows_and_explains_rules(folder: Path, home: Path) -> None:
    async with chatting(folder, home, write_call(), "done") as chat:
        added = await chat.slash("/permissions allow write_file(b.txt)")
        shown = await chat.slash("/permissions")
        reason = await chat.slash("/permissions explain shell rm -rf x")
        await chat.run("go")
        receipt = await chat.send(Slash("/permissions allow ((("))
        bad = await chat.until(CommandEnd, lambda done: done.id == receipt.id)

    assert f"Saved for this project in {home}/.agent/grants.json" in str(added.shown)
    assert "write_file(b.txt)" in str(shown.shown)
    assert "outcome" in str(reason.shown)
    assert bad.error
    assert chat.of(ApprovalRequest) == []


@pytest.mark.covers("BYD-18")
async def test_granted_rules_are_listed_with_their_scope_and_revoked(folder: Path, home: Path) -> None:
    script = [
        *(write_call(), write_call("c.txt"), shell_call("touch q"), "done"),
        *(write_call(content="2"), write_call("c.txt", "2"), shell_call("touch q"), "done"),
    ]
    async with chatting(folder, home, *script) as chat:
        empty = await chat.slash("/permissions")
        nothing = await chat.slash("/permissions revoke")
        await chat.send(Prompt("go"))
        for decision in ("always", "session", "everywhere"):
            request = await chat.until(ApprovalRequest)
            await chat.send(Approve(request.id, decision))
        await chat.until(AgentEnd)
        await chat.send(SetMode("accept_edits"))
        listed = await chat.slash("/permissions")
        picker = await chat.slash("/permissions revoke")
        revoked = [
            await chat.slash(f"/permissions revoke {requested}")
            for requested in ("write_file(b.txt)", "all edits in this project", "2", "1")
        ]
        unknown = await chat.slash("/permissions revoke 1")
        await chat.send(Prompt("again"))
        for _ in range(3):
            request = await chat.until(ApprovalRequest)
            await chat.send(Approve(request.id, "deny"))
        await chat.until(AgentEnd)

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
    assert "No saved rule has the number or text '1'" in unknown.error
    assert (folder / "b.txt").read_text(encoding="utf-8") == "new\n"


# --- accept edits mode -----------------------------------------------------------------------------------------------


@pytest.mark.covers("BYD-18")
async def test_accept_edits_allows_project_edits_and_nothing_else(folder: Path, home: Path) -> None:
    outside = folder.parent / "outside.txt"
    patch = "*** Begin Patch\n*** Add File: d.txt\n+new\n*** End Patch"
    delete = "*** Begin Patch\n*** Delete File: d.txt\n*** End Patch"
    free = [write_call("c.txt"), ScriptedCall("apply_patch", {"patch": patch}), READ, edits_call(("one", "1"))]
    asks = [
        *(
            shell_call("touch ran"),
            write_call(".git/hooks/pre-commit"),
            write_call(".agent/settings.json"),
            write_call(".env"),
        ),
        *(
            write_call(str(outside)),
            write_call("../outside.txt"),
            ScriptedCall("apply_patch", {"patch": delete}),
            shell_call("echo x > e.txt"),
        ),
    ]
    tools = {"tools": ("write_file", "apply_patch", "read_file", "multi_edit", "shell")}
    async with chatting(
        folder, home, write_call(), *free, *asks, "done", write_call("f.txt"), "done", ask=tools
    ) as chat:
        await chat.send(Prompt("go"))
        first = await chat.until(ApprovalRequest)
        await chat.send(Approve(first.id, "edits"))
        for _ in asks:
            request = await chat.until(ApprovalRequest)
            assert "edits" not in [choice.value for choice in request.choices]
            await chat.send(Approve(request.id, "deny"))
        await chat.until(AgentEnd)
        modes = [event.status.mode for event in chat.of(StatusChange)]
        await chat.slash("/clear")
        after = chat.chat.status.mode
        await chat.run("again", Approve("", "deny"))

    assert [choice.value for choice in first.choices] == [
        *("once", "session", "edits", "always", "edit", "deny", "never"),
    ]
    assert "accept_edits" in modes
    assert after == "default"
    assert (folder / "b.txt").exists()
    assert (folder / "c.txt").exists()
    assert (folder / "d.txt").exists()
    assert (folder / "a.txt").read_text(encoding="utf-8") == "1\ntwo\nthree\n"
    assert not (folder / "f.txt").exists()
    assert not outside.exists()
    assert not (home / ".agent" / "grants.json").exists()


async def test_ask_and_deny_rules_apply_in_accept_edits_mode(folder: Path, home: Path) -> None:
    settings = home / ".agent" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"permissions": {"ask": ["write_file(b.txt)"], "deny": ["write_file(c.txt)"]}}')
    (folder / ".agentignore").write_text("d.txt\n")
    script = [write_call(), write_call("c.txt"), write_call("d.txt"), write_call("e.txt"), "done"]
    async with chatting(folder, home, *script, ask={"accept_edits": True}) as chat:
        assert chat.chat.status.mode == "accept_edits"
        end = await chat.run("go", Approve("", "deny"))

    assert [request.resource for request in chat.of(ApprovalRequest)] == ["b.txt"]
    assert len(end.denied) == 3
    assert [name for name in "bcde" if (folder / f"{name}.txt").exists()] == ["e"]


async def test_modes_can_change_and_a_resumed_session_starts_in_the_default_mode(folder: Path, home: Path) -> None:
    async with chatting(folder, home, write_call(), "done", write_call(content="2"), "done") as chat:
        await chat.send(SetMode("accept_edits"))
        await chat.run("go")
        await chat.send(SetMode("plan"))
        end = await chat.run("again")
        assert len(end.denied) == 1
        await chat.send(SetMode("accept_edits"))
        await chat.until(StatusChange, lambda event: event.status.mode == "accept_edits")
    async with chatting(folder, home, write_call(content="3"), "done", ask={"continued": True}) as again:
        mode = again.chat.status.mode
        await again.run("go", Approve("", "deny"))

    assert mode == "default"
    assert len(again.of(ApprovalRequest)) == 1
    assert (folder / "b.txt").read_text(encoding="utf-8") == "new\n"


def added_lines(request: ApprovalRequest) -> list[str]:
    """Return the lines that the approval shows as added."""
    assert request.display is not None
    return [line[1:] for diff in request.display.diffs for hunk in diff.hunks for line in hunk.lines if line[0] == "+"]


async def approve_and_wait(
    chat: Any, prompt: str, decision: ApprovalDecision = "once"
) -> tuple[list[str], ToolExecutionEnd]:
    """Send a prompt, and decide about its only approval. Return the lines that it added, and the end of the call."""
    await chat.send(Prompt(prompt))
    request = await chat.until(ApprovalRequest)
    await chat.send(Approve(request.id, decision))
    end = await chat.until(ToolExecutionEnd)
    await chat.until(AgentEnd)
    return added_lines(request), end


@pytest.mark.covers("MEM-04", "TOL-18", "MEM-07")
@pytest.mark.parametrize("is_trusted", [False, True])
@pytest.mark.parametrize("where", ["user", "project"])
async def test_notes_are_remembered_after_an_approval_that_shows_them(
    folder: Path, home: Path, where: str, is_trusted: bool
) -> None:
    def call(note: str, **more: str) -> Reply:
        return Reply(calls=[ScriptedCall("remember", {"note": note, "where": where, **more})])

    script = (call("Likes tea", section="Preferences"), "ok", call("Uses Zig"), "ok", call("Hates tea"), "ok")
    async with chatting(folder, home, *script) as chat:
        if is_trusted:
            await chat.slash("/trust yes")
        first, stored = await approve_and_wait(chat, "remember that I like tea")
        second, _ = await approve_and_wait(chat, "remember that this uses Zig")
        third, denied = await approve_and_wait(chat, "remember that I hate tea", "deny")

    assert not stored.result.is_error, stored.result.text
    assert "- Likes tea" in first
    assert "- Uses Zig" in second
    assert "- Likes tea" not in second
    assert "- Hates tea" in third
    assert denied.result.is_error
    files = [path.read_text(encoding="utf-8") for path in (*folder.rglob("MEMORY.md"), *home.rglob("MEMORY.md"))]
    assert len(set(files)) == 1
    assert "- Likes tea\n" in files[0]
    assert "- Uses Zig\n" in files[0]
    assert "Hates" not in files[0]


@pytest.mark.covers("SKL-37")
async def test_approval_of_a_new_skill_shows_its_whole_file(folder: Path, home: Path) -> None:
    steps = [f"{n}. Step {n} of many, with enough words to make the file long." for n in range(1, 800)]

    def create(*lines: str, **more: Any) -> Reply:
        arguments = {"name": "changelog", "description": "Writes it.", "instructions": "\n".join(lines), **more}
        return Reply(calls=[ScriptedCall("skills_create", arguments)])

    use = Reply(calls=[ScriptedCall("skills_use", {"name": "create-skill"})])
    async with chatting(folder, home, use, create(*steps), "ok", use, create("1. New.", replace=True), "ok") as chat:
        shown, end = await approve_and_wait(chat, "create it")
        offered = [choice.value for request in chat.of(ApprovalRequest) for choice in request.choices]
        replaced, again = await approve_and_wait(chat, "shorter")

    assert not end.result.is_error, end.result.text
    assert offered == ["once", "edit", "deny"]  # a rule for this file would apply to no other skill
    assert shown == ["---", "name: changelog", 'description: "Writes it."', "---", "", *steps]
    assert not again.result.is_error, again.result.text
    assert replaced == ["1. New."]
    [file] = folder.rglob("SKILL.md")
    assert file.read_text(encoding="utf-8").endswith("---\n\n1. New.\n")


async def test_note_that_would_be_refused_is_shown_with_the_reason(folder: Path, home: Path) -> None:
    call = Reply(calls=[ScriptedCall("remember", {"note": "x" * 600})])
    async with chatting(folder, home, call, "ok") as chat:
        await chat.send(Prompt("remember"))
        request = await chat.until(ApprovalRequest)
        await chat.send(Approve(request.id, "once"))
        end = await chat.until(ToolExecutionEnd)

    assert "the edit would fail" in request.reason
    assert end.result.text.startswith("Not remembered")


@pytest.mark.parametrize("waits", [True, False])
async def test_wait_for_an_answer_is_not_counted_as_time_of_the_run(folder: Path, home: Path, waits: bool) -> None:
    calls = [ScriptedCall("shell", {"command": "touch made" if waits else "sleep 60"}), "done"]
    options = {"agent": {"maxSeconds": 4.0 if waits else 0.5}} | (
        {} if waits else {"rules": PermissionFlags(allow=("shell",))}
    )
    async with chatting(folder, home, *calls, ask=options) as chat:
        await chat.send(Prompt("go"))
        asked = await chat.until(ApprovalRequest) if waits else None
        ending = asyncio.ensure_future(chat.until(AgentEnd))
        if asked is not None:
            ended, _ = await asyncio.wait({ending}, timeout=4.5)
            assert not ended
            await chat.send(Approve(asked.id, "once"))
        end = await ending
        [called] = chat.of(ToolExecutionEnd)

    assert end.status == ("completed" if waits else "max_seconds")
    assert called.seconds < 4.5
