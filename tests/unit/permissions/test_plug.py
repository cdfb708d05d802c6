"""Permissions in a run: denials, approval requests, grants, subagents, searches."""

import asyncio
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from mainspring.env import ExecutionEnv
from mainspring.env.local import LocalEnv
from mainspring.env.memory import MemoryEnv
from mainspring.errors import ConfigError, ConfigWarning
from mainspring.loop import CoreAgent, Plugin
from mainspring.loop.hooks import BeforeToolRun
from mainspring.messages import Message, ToolResultBlock, ToolUseBlock
from mainspring.permissions import PermissionRequest, Permissions, Reply as Answer, RuleSet
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import LazyTool, Tool, ToolErrorCode, tool
from tests.unit.permissions.harness import TOOLS, project


def write_call(path: str, id: str = "w") -> ScriptedCall:
    return ScriptedCall("write_file", {"path": path, "content": "new"}, id=id)


def make_agent(permissions: Permissions, *script: Any, env: ExecutionEnv | None = None) -> CoreAgent:
    return CoreAgent(ScriptedModel(*script), env=env or project(), tools=TOOLS.values(), plugs=[permissions])


async def run_calls(
    permissions: Permissions, *calls: ScriptedCall, env: ExecutionEnv | None = None
) -> list[ToolResultBlock]:
    """Run one turn with these calls and return their results."""
    created = make_agent(permissions, Reply(calls=list(calls)), "done", env=env)
    result = await created.run("go", raise_errors=False)
    return [b for m in result.messages if isinstance(m, Message) for b in m.tool_results]


class FakeUser:
    """Answers approval requests and records them."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[PermissionRequest] = []

    async def __call__(self, request: PermissionRequest) -> Any:
        self.requests.append(request)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def test_permissions_is_a_plugin() -> None:
    assert isinstance(Permissions(), Plugin)


@pytest.mark.covers("SEC-04")
async def test_denied_call_returns_an_error_and_does_not_run() -> None:
    env = project()

    [block] = await run_calls(Permissions(deny=["write_file(src/**)"]), write_call("src/app.py"), env=env)

    assert block.is_error
    assert block.details is not None
    assert block.details["code"] == ToolErrorCode.PERMISSION_DENIED
    assert "the rule 'write_file(src/**)' denies it" in block.text
    assert await env.read_bytes("src/app.py") == b"print()"


@pytest.mark.covers("SEC-01", "SEC-04")
async def test_unattended_denial_explains_how_to_allow() -> None:
    [block] = await run_calls(Permissions(), write_call("notes.txt"))

    assert block.is_error
    assert "no user can be asked" in block.text
    assert "--allow 'write_file(notes.txt)'" in block.text
    assert "--allow 'write_file(**)'" in block.text
    assert '"permissions": {"allow": ["write_file(notes.txt)"]}' in block.text


async def test_denial_explains_that_no_rule_can_allow_the_call() -> None:
    ruled = Permissions(ask=["shell(rmdir *)"])
    [by_rule] = await run_calls(ruled, ScriptedCall("shell", {"command": "rmdir x"}, id="s"))
    [by_form] = await run_calls(Permissions(), ScriptedCall("shell", {"command": "ln -s a b; cat b"}, id="s"))

    assert "No rule can allow it while 'shell(rmdir *)' (code) is in effect." in by_rule.text
    assert "No rule can allow it in this form; write it as plain, separate steps." in by_form.text


async def test_repeated_question_is_shown_once() -> None:
    call = ScriptedCall("shell", {"command": "rmdir x; (rmdir x)"}, id="s")

    [block] = await run_calls(Permissions(), call)

    assert block.text.count("run rmdir x") == 1


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("touch made", "touch made: no rule allows it"),
        ("touch a b && mkdir c", "touch a b, mkdir c: no rule allows it"),
        ("cat /etc/a /etc/b", "/etc/a, /etc/b: it is outside the project"),
    ],
)
async def test_approval_request_has_each_reason_once(line: str, reason: str) -> None:
    user = FakeUser(False)
    call = ScriptedCall("shell", {"command": line}, id="s")
    [denied] = await run_calls(Permissions(on_permission_request=user), call)
    assert user.requests[0].reason == reason
    assert denied.text.count(reason.rpartition(": ")[2]) == 1


@pytest.mark.covers("SEC-01")
@pytest.mark.parametrize(
    ("line", "rules"),
    [
        ("npm test", ["shell(npm test)"]),
        ("git push origin main", ["shell(git push origin main)"]),
        ("git add -- a && npm run x > out.txt", ["shell(git add -- a)", "shell(npm run x)", "scope:fs-write(out.txt)"]),
        ("rm build/out.o", ["shell(rm build/out.o)"]),
        ("say \"it's\" 'a b' '*' \\$x", ["shell(say it\\'s 'a b' '*' '$x')"]),
        ("python -c 'print(1)'", ["shell(python -c 'print(1)')"]),
        ("CI=1 X=2 make", ["shell(CI=1 X=2 make)"]),
    ],
)
async def test_suggested_rules_allow_the_call(line: str, rules: list[str]) -> None:
    call = ScriptedCall("shell", {"command": line}, id="s")
    user = FakeUser(False)
    env = project(run=lambda command: "ran")

    [rejected] = await run_calls(Permissions(on_permission_request=user), call, env=env)
    [unattended] = await run_calls(Permissions(), call, env=env)
    [allowed] = await run_calls(Permissions(allow=rules), call, env=env)

    assert rejected.is_error
    assert set(user.requests[0].suggestions) == set(rules)
    assert all(rule.replace("'", "'\\''") in unattended.text for rule in rules)
    assert not allowed.is_error


@pytest.mark.covers("SEC-05")
async def test_approval_request_has_scope_resource_and_action() -> None:
    user = FakeUser(True)

    [wrote, ran] = await run_calls(
        Permissions(on_permission_request=user),
        write_call("src/new.py"),
        ScriptedCall("shell", {"command": "npm test && \x1b[31mx"}, id="s"),
        env=project(run=lambda command: "ran"),
    )

    assert not wrote.is_error
    assert not ran.is_error
    first, second = user.requests
    assert (first["scope"], first["resource"], first["action"]) == ("fs-write", "src/new.py", "write")
    assert (first.tool, first.input) == ("write_file", {"path": "src/new.py", "content": "new"})
    assert (second.scope, second.resource, second.action) == ("shell-run", "npm test && \\x1b[31mx", "run")
    with pytest.raises(KeyError):
        first["other"]


@pytest.mark.covers("SEC-05")
async def test_sync_callback_does_not_block_the_event_loop() -> None:
    free = threading.Event()
    ticks = 0

    def ask(request: PermissionRequest) -> bool:
        return free.wait(120)

    async def tick() -> None:
        nonlocal ticks
        for _ in range(3):
            await asyncio.sleep(0)
            ticks += 1
        free.set()

    [block], _ = await asyncio.gather(run_calls(Permissions(on_permission_request=ask), write_call("a")), tick())

    assert not block.is_error
    assert ticks == 3


@pytest.mark.covers("SEC-15")
async def test_user_is_asked_only_if_no_rule_decides() -> None:
    user = FakeUser(True)
    permissions = Permissions(allow=["write_file(docs/**)"], deny=["write_file(src/**)"], on_permission_request=user)

    allowed, denied, asked = await run_calls(
        permissions, write_call("docs/a.md", "a"), write_call("src/app.py", "b"), write_call("notes.txt", "c")
    )

    assert not allowed.is_error
    assert "the rule 'write_file(src/**)' denies it" in denied.text
    assert not asked.is_error
    assert [request.resource for request in user.requests] == ["notes.txt"]


@pytest.mark.parametrize("answer", [False, None, 0, "no", "yes", 1])
async def test_only_true_counts_as_approval(answer: Any) -> None:
    [block] = await run_calls(Permissions(on_permission_request=FakeUser(answer)), write_call("a"))

    assert block.is_error
    assert "the user denied it" in block.text


async def test_failed_or_late_approval_is_neither_an_allow_nor_a_user_denial() -> None:
    def broken(request: PermissionRequest) -> bool:
        raise RuntimeError("no screen")

    async def silent(request: PermissionRequest) -> bool:
        await asyncio.sleep(60)
        return True

    [failed] = await run_calls(Permissions(on_permission_request=broken), write_call("a"))
    [late] = await run_calls(Permissions(on_permission_request=silent, ask_timeout=0.01), write_call("a"))

    assert "the approval request failed (RuntimeError: no screen)" in failed.text
    assert "the approval timed out" in late.text


async def test_one_approval_request_per_call() -> None:
    user = FakeUser(True)
    call = ScriptedCall("shell", {"command": "a; b | c > x; cat .env"}, id="s")

    await run_calls(Permissions(on_permission_request=user), call, env=project(run=lambda command: ""))

    assert len(user.requests) == 1
    assert user.requests[0].resource == "a; b | c > x; cat .env"
    assert {v.scope for v in user.requests[0].verdicts} == {"shell-run", "fs-write", "fs-read"}


@pytest.mark.covers("SEC-03")
async def test_sensitive_path_is_asked_about_once_per_session() -> None:
    user = FakeUser(True)
    permissions = Permissions(on_permission_request=user)
    read = [
        ScriptedCall("read_file", {"path": p}, id=p) for p in (".env", "./.env", "hidden", "config/credentials.json")
    ]

    blocks = await run_calls(permissions, *read)
    await run_calls(permissions, read[0])
    await run_calls(permissions.for_child(), read[0])

    assert not any(b.is_error for b in blocks)
    assert [r.resource for r in user.requests] == [".env", "config/credentials.json"]
    await run_calls(Permissions(on_permission_request=user), read[0])
    assert len(user.requests) == 3


async def test_true_allows_one_call_and_session_allows_all() -> None:
    once, always = FakeUser(True), FakeUser("session")
    calls = [write_call("a", "1"), write_call("a", "2"), write_call("b", "3")]

    await run_calls(Permissions(on_permission_request=once), *calls)
    await run_calls(Permissions(on_permission_request=always), *calls)

    assert len(once.requests) == 3
    assert [r.resource for r in always.requests] == ["a", "b"]


async def test_grant_does_not_override_a_deny_rule() -> None:
    permissions = Permissions(on_permission_request=FakeUser("session"))
    await run_calls(permissions, write_call("a"))
    permissions.engine = Permissions(deny=["write_file(a)"]).engine

    [block] = await run_calls(permissions, write_call("a"))

    assert block.is_error


async def test_grant_of_an_unanalyzable_line_covers_only_that_line() -> None:
    user = FakeUser("session")
    permissions = Permissions(on_permission_request=user)

    for command in ("echo ${x@P}", "echo ${x@P}", "echo ${x@P} ", "echo ${y@P}"):
        call = ScriptedCall("shell", {"command": command}, id="s")
        await run_calls(permissions, call, env=project(run=lambda command: ""))

    assert len(user.requests) == 3


async def test_session_grant_includes_a_wildcard_that_matches_too_many_files() -> None:
    env = MemoryEnv({f"d/f{n}": "" for n in range(510)}, run=lambda command: "")
    user = FakeUser("session", False)
    calls = [ScriptedCall("shell", {"command": "cat d/*"}, id=id) for id in ("1", "2")]

    blocks = await run_calls(Permissions(allow=["shell(cat *)"], on_permission_request=user), *calls, env=env)

    assert [block.is_error for block in blocks] == [False, False]
    assert len(user.requests) == 1


async def test_session_grants_are_listed_and_can_be_revoked() -> None:
    user = FakeUser("session")
    permissions = Permissions(on_permission_request=user)
    await run_calls(permissions, write_call("a"))

    [grant] = permissions.session_grants
    assert (grant.action, grant.resource) == ("write", "a")
    permissions.for_child().revoke(grant)
    await run_calls(permissions, write_call("a"))

    assert len(user.requests) == 2


async def test_session_grant_overrides_an_ask_rule() -> None:
    user = FakeUser("session")
    permissions = Permissions(ask=["read_file(notes.txt)"], on_permission_request=user)
    read = ScriptedCall("read_file", {"path": "notes.txt"}, id="r")

    await run_calls(permissions, read)
    [block] = await run_calls(permissions, read)

    assert not block.is_error
    assert len(user.requests) == 1


async def test_grant_of_a_line_with_a_variable_covers_only_that_line() -> None:
    user = FakeUser("session")
    permissions = Permissions(on_permission_request=user)

    for value in ("a", "a", "b"):
        call = ScriptedCall("shell", {"command": f"for f in {value}; do rmdir $f; done"}, id="s")
        await run_calls(permissions, call, env=project(run=lambda command: ""))

    assert len(user.requests) == 2


@pytest.mark.parametrize(("on_deny", "status", "calls"), [("continue", "completed", 2), ("stop", "denied", 1)])
async def test_denial_stops_the_run_if_configured(on_deny: Any, status: str, calls: int) -> None:
    result = await make_agent(Permissions(on_deny=on_deny), Reply(calls=[write_call("a")]), "done").run(
        "go", raise_errors=False
    )

    assert result.status == status
    assert result.turns == calls


async def test_unattended_run_can_pause_for_approval() -> None:
    result = await make_agent(Permissions(unattended="pause"), Reply(calls=[write_call("a")]), "done").run("go")

    assert result.status == "paused"


async def test_user_can_pause_the_run_at_a_call() -> None:
    paused = Permissions(on_permission_request=FakeUser(Answer(allow=False, pause=True)))

    result = await make_agent(paused, Reply(calls=[write_call("a")]), "done").run("go")

    assert result.status == "paused"


async def test_decisions_are_reported_with_the_answer_of_the_user() -> None:
    reported: list[tuple[str, str]] = []
    permissions = Permissions(
        on_permission_request=FakeUser(True, False),
        on_decision=lambda call_id, decision: reported.append((call_id, decision.outcome)),
    )

    await run_calls(permissions, write_call("a", "1"), write_call("b", "2"))

    assert reported == [("1", "allow"), ("2", "deny")]


async def test_approval_request_contains_the_error_of_a_preview() -> None:
    class UnreadableEnv(MemoryEnv):
        async def read_bytes(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
            if path.endswith("/a"):
                raise ValueError("the file is locked")
            return await super().read_bytes(path, offset=offset, limit=limit)

    user = FakeUser(False)

    await run_calls(Permissions(on_permission_request=user), write_call("a"), env=UnreadableEnv({"a": ""}))

    [request] = user.requests
    assert request.preview is not None
    assert request.preview.problem == "ValueError: the file is locked"


async def test_start_of_a_call_without_a_decision_is_not_blocked() -> None:
    hook = BeforeToolRun(ToolUseBlock("other", "read_file", {"path": ".env"}), "turn", {"path": ".env"}, True)

    await Permissions().judge_again(hook)

    assert not hook.block


async def test_approval_requests_are_sequential() -> None:
    asking = limit = 0

    async def ask(request: PermissionRequest) -> bool:
        nonlocal asking, limit
        asking += 1
        limit = max(limit, asking)
        await asyncio.sleep(0.01)
        asking -= 1
        return True

    permissions = Permissions(on_permission_request=ask)
    await asyncio.gather(*(run_calls(permissions.for_child(), write_call(name)) for name in "abc"))

    assert limit == 1


async def test_subagent_has_the_same_restrictions() -> None:
    child = Permissions(deny=["write_file"], mode="allow").for_child()

    [block] = await run_calls(child, write_call("a"))

    assert block.is_error


async def test_tool_works_on_the_judged_path() -> None:
    env = project()

    [block] = await run_calls(Permissions(), ScriptedCall("read_file", {"path": "inner/app.py"}, id="r"), env=env)

    assert not block.is_error
    assert "print()" in block.text


async def test_rewritten_call_is_judged_with_its_new_arguments() -> None:
    created = make_agent(Permissions(allow=["write_file(notes.txt)"]), Reply(calls=[write_call("notes.txt")]), "done")

    @created.on("tool:before")
    def rewrite(ctx: Any) -> None:
        ctx.input = {"path": "src/app.py", "content": "new"}

    result = await created.run("go")

    [block] = [b for m in result.messages if isinstance(m, Message) for b in m.tool_results]
    assert block.is_error


async def test_search_leaves_out_unreadable_files() -> None:
    env = MemoryEnv({".env": "needle", "private/key": "needle", "src/a.py": "needle", "credentials.json": "needle"})
    permissions = Permissions(deny=["read_file(private/**)"])

    [block] = await run_calls(permissions, ScriptedCall("grep", {"pattern": "needle"}, id="g"), env=env)

    assert not block.is_error
    assert "src/a.py" in block.text
    assert "private/key" not in block.text
    assert ".env" not in block.text
    assert "credentials.json" not in block.text


async def test_search_applies_the_rules_of_every_permissions_object_of_its_env() -> None:
    env = MemoryEnv({"one.txt": "needle", "two.txt": "needle", "three.txt": "needle"})
    env.path_filter = lambda path: not path.endswith("three.txt")
    search = ScriptedCall("grep", {"pattern": "needle"}, id="g")

    await run_calls(Permissions(deny=["read_file(one.txt)"]), search, env=env)
    [block] = await run_calls(Permissions(deny=["read_file(two.txt)"]), search, env=env)
    [again] = await run_calls(Permissions(deny=["read_file(two.txt)"]), search, env=env)

    assert not any(name in block.text + again.text for name in ("one.txt", "two.txt", "three.txt"))


def test_consecutive_runs_may_use_different_event_loops() -> None:
    permissions = Permissions(on_permission_request=FakeUser(True))

    async def run_both() -> None:
        await asyncio.gather(run_calls(permissions, write_call("a")), run_calls(permissions, write_call("b")))

    for _ in range(2):
        asyncio.run(run_both())


# --- validation of options and rules ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"denny": ["shell(rm *)"], "mode": "allow"}, TypeError, "'denny'. Did you mean 'deny'"),
        ({"ask_timout": 5}, TypeError, "Did you mean 'ask_timeout'"),
        ({"deny": "shell"}, ConfigError, "deny must be a list of rules, not 'shell'"),
        ({"allow": 5}, ConfigError, "allow must be a list of rules, not 5"),
        ({"guarded": "**/*.key"}, ConfigError, "guarded must be a list"),
        (
            {"unattended": "wait"},
            ConfigError,
            "Invalid value of the permissions option unattended: 'wait'. Use 'deny' or 'pause'",
        ),
        ({"on_permission_request": True}, ConfigError, "on_permission_request must be a function"),
        ({"on_decision": []}, ConfigError, "on_decision must be a function"),
    ],
)
def test_invalid_option_is_rejected(options: dict[str, Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        Permissions(**options)


@pytest.mark.parametrize(
    ("granted", "other"),
    [
        ("bash <<'EOF'\ntouch a\nEOF", "bash <<'EOF'\nrm src/app.py\nEOF"),
        ("ssh host <<'EOF'\nls\nEOF", "ssh host <<'EOF'\nrm x\nEOF"),
        ("patch -p1 < a.diff", "patch -p1 < b.diff"),
        ("cat a | tee x", "cat b | tee x"),
        ("echo a | (tee x)", "echo b | (tee x)"),
        ("./build", "cd src && ./build"),
    ],
)
async def test_grant_includes_input_and_folder_of_a_command(granted: str, other: str) -> None:
    user = FakeUser("session", "session", "session", False)
    permissions = Permissions(on_permission_request=user)

    calls = [ScriptedCall("shell", {"command": line}, id=str(n)) for n, line in enumerate((granted, granted, other))]
    await run_calls(permissions, *calls)

    assert [request.resource.replace("\\n", "\n") for request in user.requests] == [granted, other]


async def test_callback_that_raises_stop_iteration_denies() -> None:
    answers = iter([True])
    permissions = Permissions(on_permission_request=lambda request: next(answers))

    first, second = await run_calls(permissions, write_call("a.txt", "1"), write_call("b.txt", "2"))

    assert not first.is_error
    assert second.is_error


async def test_rule_without_a_matching_tool_warns_once() -> None:
    permissions = Permissions(deny=["shel(rm *)", "mcp__files__*", "deploy", "grep"], allow=["write_*"])
    created = make_agent(permissions, "one", "two")
    with pytest.warns(ConfigWarning) as warnings:
        await created.run("go")
    await created.run("again")
    about = ["The deny rule 'shel(rm *)' matches no tool and has no effect. Did you mean 'shell'?",
             "The deny rule 'deploy' matches no tool and has no effect."]  # fmt: skip
    assert [str(w.message) for w in warnings] == about
    assert list(permissions.problems) == about


async def test_rule_for_a_tool_that_is_added_later_does_not_warn() -> None:
    def deploy() -> str:
        """Deploy."""
        return ""

    permissions = Permissions(deny=["late"])

    async def prepare() -> Tool:
        return tool(name="late")(deploy)

    lazy = LazyTool("late", prepare)
    await CoreAgent(ScriptedModel("done"), env=project(), tools=[lazy], plugs=[permissions]).run("go")
    assert permissions.problems == ()
    assert (
        Permissions(rules=RuleSet.build(deny=["late"])).problems == ()
    )  # a shared rule set is checked where it is loaded


@pytest.mark.parametrize("line", ["cat d/plain", "ls; cat d/plain", "cat d/*"])
async def test_call_is_judged_again_after_another_call_changed_files(tmp_path: Path, line: str) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "plain").write_text("hunter2")
    project = tmp_path / "project"
    project.mkdir()
    link = ScriptedCall("shell", {"command": "ln -s ../outside d"})
    calls = [link, ScriptedCall("shell", {"command": line}), ScriptedCall("shell", {"command": "ls"})]
    permissions = Permissions(allow=[f"shell({link.input['command']})"])

    created, read, listed = await run_calls(permissions, *calls, env=LocalEnv(project))

    assert not created.is_error
    assert read.is_error
    assert "hunter2" not in read.text
    assert "another call changed files" in read.text
    assert not listed.is_error


async def test_approved_call_runs_after_another_call_changed_files() -> None:
    user = FakeUser(True)
    calls = [
        write_call("a.txt", "1"),
        write_call("b.txt", "2"),
        ScriptedCall("shell", {"command": "cat README.md"}, id="3"),
    ]

    found = await run_calls(Permissions(on_permission_request=user), *calls)

    assert not any(each.is_error and "approved" in each.text for each in found)
    assert len(user.requests) == 2
