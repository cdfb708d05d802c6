"""Permissions, plan mode, and the audit log, as processes."""

import json
import stat
from typing import Any

import pytest

from tests.e2e.command import Command, command
from tests.e2e.servers.chat import Reply

__all__ = ["command"]


@pytest.mark.covers("BYD-18")
def test_permissions_explain_names_the_rule_and_its_source(command: Command) -> None:
    (command.home / ".agent").mkdir(exist_ok=True)
    (command.home / ".agent" / "settings.json").write_text(
        '{"permissions": {"deny": ["shell(rm *)"]}}', encoding="utf-8"
    )

    explained = command.run("permissions", "explain", "shell", "git status && rm -rf build", "--allow", "shell(git *)")
    data = command.run("permissions", "explain", "shell", '{"command": "git status && rm -rf build"}', "--json")
    fetched = command.run(
        "permissions", "explain", "fetch", "https://sub.example.com/", "--allow", "fetch(domain:example.com)"
    )
    listed = command.run("permissions", "list", "--ask", "shell(git push)")

    assert explained.code == data.code == fetched.code == listed.code == 0
    assert explained.out.startswith("deny: the rule 'shell(rm *)' denies it")
    assert "settings.json: permissions.deny[0]" in explained.out
    assert "the rule 'shell(git *)' allows it" in explained.out
    runs = [p for p in data.result["parts"] if p["scope"] == "shell-run"]
    assert [(p["resource"], p["outcome"]) for p in runs] == [("git status", "allow"), ("rm -rf build", "deny")]
    assert [p["rule"] and p["rule"]["rule"] for p in runs] == [None, "shell(rm *)"]
    assert data.result["rule"]["origin"].endswith("permissions.deny[0]")
    assert fetched.out.startswith("allow:")
    assert [line.split("  [")[0] for line in listed.out.splitlines()] == ["1. deny shell(rm *)", "ask shell(git push)"]


@pytest.mark.parametrize("arguments", [["permissions", "explain"], ["permissions", "explain", "shell", "{broken"]])
def test_permissions_explain_rejects_invalid_arguments(command: Command, arguments: list[str]) -> None:
    done = command.run(*arguments)

    assert (done.code == 2) == (len(arguments) == 2 or "not a JSON object" in done.err)


@pytest.mark.covers("SEC-15", "SEC-01")
def test_print_mode_runs_safe_commands_and_denies_others(command: Command) -> None:
    (command.folder / "a.txt").write_text("forty-two", encoding="utf-8")
    command.server.script += [
        Reply(calls=[("shell", {"command": "cat a.txt"}), ("shell", {"command": "touch b.txt"})]),
        "done",
    ]

    done = command.run("-p", "x")

    assert done.code == 0
    results = [m["content"] for m in command.server.requests[1]["messages"] if m["role"] == "tool"]
    assert "forty-two" in str(results[0])
    assert "no user can be asked" in str(results[1])
    assert not (command.folder / "b.txt").exists()


@pytest.mark.parametrize("mode", [(), ("--plan",)])
def test_tools_that_touch_nothing_run_in_print_mode(command: Command, mode: tuple[str, ...]) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("todo_write", {"todos": [{"content": "x", "status": "pending"}]}),
        ("jobs", {"action": "list"}),
        ("context_read", {"name": "none"}),
        ("skills_use", {"name": "none"}),
        ("read_file", {"path": "none.txt"}),
    ]
    command.server.script += [Reply(calls=calls), "done"]

    assert command.run("-p", "x", *mode).code == 0

    results = [m["content"] for m in command.server.requests[-1]["messages"] if m["role"] == "tool"]
    assert len(results) == len(calls)
    assert not [r for r in results if "ermission" in str(r) or "plan mode" in str(r) or "not valid" in str(r)]


def test_existing_file_is_written_only_if_the_model_has_read_it(command: Command) -> None:
    write = Reply(calls=[("write_file", {"path": "a.txt", "content": "new"})])
    edit = Reply(calls=[("edit", {"path": "a.txt", "old_string": "old", "new_string": "new"})])
    file = command.folder / "a.txt"

    def run(*arguments: str, reply: Reply) -> str:
        file.write_text("old\n", encoding="utf-8")
        command.server.script += [reply, "done"]
        assert command.run("--allow", "scope:fs-write(**)", *arguments).code == 0
        return file.read_text(encoding="utf-8")

    assert run("-p", "x", reply=write) == "old\n"
    assert "a.txt was not read in this conversation. Read it first" in str(command.server.requests[-1])
    assert run("-p", "x", reply=edit) == "old\n"
    assert run("-p", "fix @a.txt", reply=edit) == "new\n"
    assert run("-p", "x", "--no-read-before-edit", reply=write) == "new"
    (command.home / ".agent" / "settings.json").write_text('{"agent": {"requireReadBeforeEdit": false}}', "utf-8")
    assert run("-p", "x", reply=write) == "new"
    assert run("-p", "x", "--read-before-edit", reply=write) == "old\n"


@pytest.mark.covers("BYD-05")
def test_plan_is_saved_and_executed_later(command: Command) -> None:
    write = Reply(calls=[("write_file", {"path": "b.txt", "content": "x"})])
    command.server.script += [write, "# Write b\n\nWrite x to b.txt.", write, "planned still", write, "done"]

    planned = command.run("--plan", "-p", "write b", "--allow", "write_file")
    [plan] = (command.folder / ".agent" / "plans").iterdir()
    assert planned.code == 0
    assert not (command.folder / "b.txt").exists()
    assert plan.read_text(encoding="utf-8") == "# Write b\n\nWrite x to b.txt.\n"
    assert plan.name in planned.err

    continued = command.run("-c", "-p", "go on", "--allow", "write_file")
    assert "Plan mode is on" in continued.err
    assert not (command.folder / "b.txt").exists()

    executed = command.run("-c", "--execute", plan.name, "--allow", "write_file")
    assert executed.code == 0
    assert (command.folder / "b.txt").read_text(encoding="utf-8") == "x"
    assert "Write x to b.txt." in json.dumps(command.server.requests[-2]["messages"][-1])


def test_plan_and_execute_flags_exclude_each_other(command: Command) -> None:
    assert command.run("--plan", "--execute", "-p", "x").code == 2
    assert command.run("--execute").code == 2  # no plan exists


@pytest.mark.covers("SEC-07")
def test_audit_log_from_settings_records_decisions(command: Command) -> None:
    (command.home / ".agent").mkdir(exist_ok=True)
    (command.home / ".agent" / "settings.json").write_text('{"auditLog": "audit.jsonl"}', encoding="utf-8")
    command.server.script += [Reply(calls=[("list_files", {}), ("shell", {"command": "rm a"})]), "done"]

    assert command.run("-p", "x").code == 0

    log = command.home / ".agent" / "audit.jsonl"
    found = [json.loads(line)["event"] for line in log.read_text(encoding="utf-8").splitlines()]
    assert [(event["tool"], event["outcome"]) for event in found if event["type"] == "tool_decision"] == [
        ("list_files", "allow"),
        ("shell", "deny"),
    ]
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


@pytest.mark.covers("SEC-06")
def test_guardrails_block_calls_that_rules_allow(command: Command) -> None:
    command.server.script += [Reply(calls=[("shell", {"command": "echo 'DROP DATABASE x' > /dev/null"})]), "done"]

    done = command.run("-p", "x", "--allow", "shell", "--output", "json")

    assert done.code == 0
    assert "guardrail" in str(command.server.requests[1]["messages"][-1])


@pytest.mark.covers("BYD-18")
def test_rules_are_saved_per_project_or_globally_and_revoked(command: Command) -> None:
    other = command.folder.parent / "other"
    other.mkdir()
    canary = command.folder.parent / "canary"
    for folder in (command.folder, other):
        (folder / "deploy.sh").write_text(f"#!/bin/sh\necho ran >> {canary}\n")
        (folder / "deploy.sh").chmod(0o755)
    empty = command.run("permissions")
    saved = command.run("permissions", "allow", "shell(./deploy.sh)")
    rejected = command.run("permissions", "allow", "--global", "shell(./deploy.sh)")
    everywhere = command.run("permissions", "allow", "--global", "shell(npm test)")
    listed = command.run("permissions", "list", "--json")

    def count_deploys(*arguments: str) -> int:
        command.server.script += [Reply(calls=[("shell", {"command": "./deploy.sh"})]), "done"]
        assert command.run("-p", "deploy", *arguments).code == 0
        return len(canary.read_text().split()) if canary.exists() else 0

    assert "Allow something in this project with" in empty.err
    assert (saved.code, everywhere.code) == (0, 0)
    assert f"Saved for this project in {command.home}/.agent/grants.json" in saved.err
    assert rejected.code != 0
    assert "./deploy.sh is another file in each project" in rejected.err
    found = json.loads(listed.out)
    assert [(r["number"], r["rule"], r["applies"]) for r in found] == [
        (1, "shell(npm test)", "every project"),
        (2, "shell(./deploy.sh)", "this project"),
    ]
    assert count_deploys() == 1
    assert count_deploys("--cwd", str(other)) == 1
    assert count_deploys() == 2
    elsewhere = command.run("permissions", "--cwd", str(other))
    assert "deploy.sh" not in elsewhere.out
    assert "npm test" in elsewhere.out
    revoked = command.run("permissions", "revoke", "shell(./deploy.sh)")
    assert "Revoked in" in revoked.err
    assert count_deploys() == 2
    assert command.run("permissions", "revoke", "1").code == 0
    assert command.run("permissions").out == ""
    assert command.run("permissions", "revoke", "1").code != 0


def test_accept_edits_allows_only_edits_in_print_mode(command: Command) -> None:
    calls = [("write_file", {"path": "a.txt", "content": "x"}), ("shell", {"command": "touch b.txt"})]
    command.server.script += [Reply(calls=[*calls, ("write_file", {"path": ".env", "content": "x"})]), "done"]

    done = command.run("-p", "x", "--accept-edits")
    both = command.run("-p", "x", "--accept-edits", "--plan")

    assert done.code == 0
    assert (command.folder / "a.txt").exists()
    assert not (command.folder / "b.txt").exists()
    assert not (command.folder / ".env").exists()
    assert both.code == 2


def test_invalid_grants_file_is_an_error_and_is_not_changed(command: Command) -> None:
    file = command.home / ".agent" / "grants.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text("{ broken")

    done = command.run("-p", "x")
    listed = command.run("permissions")
    saved = command.run("permissions", "allow", "shell(make)")

    for each in (done, listed, saved):
        assert each.code != 0
        assert f"{file}: " in each.err
        assert "Fix the file, or delete it to revoke all grants." in each.err
    assert command.server.requests == []
    assert file.read_text() == "{ broken"


def test_rule_for_a_tool_of_a_plugin_is_not_reported_as_unused(command: Command) -> None:
    command.server.script.append("ok")

    done = command.run("-p", "x", "--deny", "spawn", "--allow", "context_read", "--deny", "nothing")

    assert done.code == 0
    assert [line for line in done.err.splitlines() if "matches no tool" in line] == [
        "Note: The deny rule 'nothing' (--deny) matches no tool and has no effect."
    ]
