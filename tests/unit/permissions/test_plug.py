"""Permissions in a run: refusals, questions, grants, sub-agents, searches."""

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
from mainspring.messages import Message, ToolResultBlock
from mainspring.permissions import PermissionRequest, Permissions, RuleSet
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import LazyTool, Tool, ToolErrorCode, tool
from tests.unit.permissions.harness import TOOLS, project


def write(path: str, id: str = "w") -> ScriptedCall:
    return ScriptedCall("write_file", {"path": path, "content": "new"}, id=id)


def agent(permissions: Permissions, *script: Any, env: ExecutionEnv | None = None) -> CoreAgent:
    return CoreAgent(ScriptedModel(*script), env=env or project(), tools=TOOLS.values(), plugs=[permissions])


async def results(
    permissions: Permissions, *calls: ScriptedCall, env: ExecutionEnv | None = None
) -> list[ToolResultBlock]:
    """Run one turn with these calls; their results."""
    made = agent(permissions, Reply(calls=list(calls)), "done", env=env)
    result = await made.run("go", raise_errors=False)
    return [b for m in result.messages if isinstance(m, Message) for b in m.tool_results]


class Person:
    """Answers questions and remembers them."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[PermissionRequest] = []

    async def __call__(self, request: PermissionRequest) -> Any:
        self.asked.append(request)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def test_it_is_a_plug() -> None:
    assert isinstance(Permissions(), Plugin)


@pytest.mark.covers("SEC-04")
async def test_a_denied_call_is_an_error_result_and_nothing_happens() -> None:
    env = project()

    [block] = await results(Permissions(deny=["write_file(src/**)"]), write("src/app.py"), env=env)

    assert block.is_error
    assert block.details is not None
    assert block.details["code"] == ToolErrorCode.PERMISSION_DENIED
    assert "the rule 'write_file(src/**)' denies it" in block.text
    assert await env.read_bytes("src/app.py") == b"print()"


@pytest.mark.covers("SEC-01", "SEC-04")
async def test_with_nobody_to_ask_the_reason_says_how_to_allow() -> None:
    [block] = await results(Permissions(), write("notes.txt"))

    assert block.is_error
    assert "no user can be asked" in block.text
    assert "--allow 'write_file(notes.txt)'" in block.text
    assert "--allow 'write_file(**)'" in block.text
    assert '"permissions": {"allow": ["write_file(notes.txt)"]}' in block.text


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
async def test_the_rules_it_names_do_allow_the_call(line: str, rules: list[str]) -> None:
    call = ScriptedCall("shell", {"command": line}, id="s")
    person = Person(False)
    env = project(run=lambda command: "ran")

    [rejected] = await results(Permissions(on_permission_request=person), call, env=env)
    [unattended] = await results(Permissions(), call, env=env)
    [allowed] = await results(Permissions(allow=rules), call, env=env)

    assert rejected.is_error
    assert set(person.asked[0].suggestions) == set(rules)
    assert all(rule.replace("'", "'\\''") in unattended.text for rule in rules)
    assert not allowed.is_error


@pytest.mark.covers("SEC-05")
async def test_a_person_is_told_scope_resource_and_action() -> None:
    person = Person(True)

    [wrote, ran] = await results(
        Permissions(on_permission_request=person),
        write("src/new.py"),
        ScriptedCall("shell", {"command": "npm test && \x1b[31mx"}, id="s"),
        env=project(run=lambda command: "ran"),
    )

    assert not wrote.is_error
    assert not ran.is_error
    first, second = person.asked
    assert (first["scope"], first["resource"], first["action"]) == ("fs-write", "src/new.py", "write")
    assert (first.tool, first.input) == ("write_file", {"path": "src/new.py", "content": "new"})
    assert (second.scope, second.resource, second.action) == ("shell-run", "npm test && \\x1b[31mx", "run")
    with pytest.raises(KeyError):
        first["other"]


@pytest.mark.covers("SEC-05")
async def test_a_sync_callback_may_wait_and_does_not_block_the_loop() -> None:
    free = threading.Event()
    ticks = 0

    def ask(request: PermissionRequest) -> bool:
        return free.wait(5)

    async def tick() -> None:
        nonlocal ticks
        for _ in range(3):
            await asyncio.sleep(0)
            ticks += 1
        free.set()

    [block], _ = await asyncio.gather(results(Permissions(on_permission_request=ask), write("a")), tick())

    assert not block.is_error
    assert ticks == 3


@pytest.mark.parametrize("answer", [False, None, 0, "no", "yes", 1])
async def test_only_a_clear_yes_is_one(answer: Any) -> None:
    [block] = await results(Permissions(on_permission_request=Person(answer)), write("a"))

    assert block.is_error
    assert "the user denied it" in block.text


async def test_a_question_that_fails_is_no_consent_and_no_refusal_of_the_user() -> None:
    def broken(request: PermissionRequest) -> bool:
        raise RuntimeError("no screen")

    async def silent(request: PermissionRequest) -> bool:
        await asyncio.sleep(60)
        return True

    [failed] = await results(Permissions(on_permission_request=broken), write("a"))
    [late] = await results(Permissions(on_permission_request=silent, ask_timeout=0.01), write("a"))

    assert "the approval request failed (RuntimeError: no screen)" in failed.text
    assert "the approval timed out" in late.text


async def test_one_question_for_one_call() -> None:
    person = Person(True)
    call = ScriptedCall("shell", {"command": "a; b | c > x; cat .env"}, id="s")

    await results(Permissions(on_permission_request=person), call, env=project(run=lambda command: ""))

    assert len(person.asked) == 1
    assert person.asked[0].resource == "a; b | c > x; cat .env"
    assert {v.scope for v in person.asked[0].verdicts} == {"shell-run", "fs-write", "fs-read"}


@pytest.mark.covers("SEC-03")
async def test_a_sensitive_path_is_asked_about_once_a_session() -> None:
    person = Person(True)
    permissions = Permissions(on_permission_request=person)
    read = [
        ScriptedCall("read_file", {"path": p}, id=p) for p in (".env", "./.env", "hidden", "config/credentials.json")
    ]

    blocks = await results(permissions, *read)
    await results(permissions, read[0])
    await results(permissions.for_child(), read[0])

    assert not any(b.is_error for b in blocks)
    assert [r.resource for r in person.asked] == [".env", "config/credentials.json"]
    await results(Permissions(on_permission_request=person), read[0])
    assert len(person.asked) == 3


async def test_a_yes_is_for_one_call_and_session_is_for_all() -> None:
    once, always = Person(True), Person("session")
    calls = [write("a", "1"), write("a", "2"), write("b", "3")]

    await results(Permissions(on_permission_request=once), *calls)
    await results(Permissions(on_permission_request=always), *calls)

    assert len(once.asked) == 3
    assert [r.resource for r in always.asked] == ["a", "b"]


async def test_a_grant_does_not_beat_a_denial() -> None:
    permissions = Permissions(on_permission_request=Person("session"))
    await results(permissions, write("a"))
    permissions.engine = Permissions(deny=["write_file(a)"]).engine

    [block] = await results(permissions, write("a"))

    assert block.is_error


async def test_a_grant_of_a_line_that_is_not_understood_is_for_the_very_line() -> None:
    person = Person("session")
    permissions = Permissions(on_permission_request=person)

    for command in ("echo ${x@P}", "echo ${x@P}", "echo ${x@P} ", "echo ${y@P}"):
        call = ScriptedCall("shell", {"command": command}, id="s")
        await results(permissions, call, env=project(run=lambda command: ""))

    assert len(person.asked) == 3


async def test_a_grant_of_a_command_with_a_variable_is_for_the_very_line() -> None:
    person = Person("session")
    permissions = Permissions(on_permission_request=person)

    for value in ("a", "a", "b"):
        call = ScriptedCall("shell", {"command": f"for f in {value}; do rmdir $f; done"}, id="s")
        await results(permissions, call, env=project(run=lambda command: ""))

    assert len(person.asked) == 2


@pytest.mark.parametrize(("on_deny", "status", "calls"), [("continue", "completed", 2), ("stop", "denied", 1)])
async def test_a_denial_stops_the_run_where_that_is_wanted(on_deny: Any, status: str, calls: int) -> None:
    result = await agent(Permissions(on_deny=on_deny), Reply(calls=[write("a")]), "done").run("go", raise_errors=False)

    assert result.status == status
    assert result.turns == calls


async def test_a_run_can_wait_for_an_answer() -> None:
    result = await agent(Permissions(unattended="pause"), Reply(calls=[write("a")]), "done").run("go")

    assert result.status == "paused"


async def test_questions_are_asked_one_after_the_other() -> None:
    asking = limit = 0

    async def ask(request: PermissionRequest) -> bool:
        nonlocal asking, limit
        asking += 1
        limit = max(limit, asking)
        await asyncio.sleep(0.01)
        asking -= 1
        return True

    permissions = Permissions(on_permission_request=ask)
    await asyncio.gather(*(results(permissions.for_child(), write(name)) for name in "abc"))

    assert limit == 1


async def test_a_child_has_no_more_rights() -> None:
    child = Permissions(deny=["write_file"], mode="allow").for_child()

    [block] = await results(child, write("a"))

    assert block.is_error


async def test_the_tool_works_on_the_path_that_was_judged() -> None:
    env = project()

    [block] = await results(Permissions(), ScriptedCall("read_file", {"path": "inner/app.py"}, id="r"), env=env)

    assert not block.is_error
    assert "print()" in block.text


async def test_a_rewritten_call_is_judged_as_it_will_run() -> None:
    made = agent(Permissions(allow=["write_file(notes.txt)"]), Reply(calls=[write("notes.txt")]), "done")

    @made.on("tool:before")
    def rewrite(ctx: Any) -> None:
        ctx.input = {"path": "src/app.py", "content": "new"}

    result = await made.run("go")

    [block] = [b for m in result.messages if isinstance(m, Message) for b in m.tool_results]
    assert block.is_error


async def test_a_search_leaves_out_what_may_not_be_read() -> None:
    env = MemoryEnv({".env": "needle", "private/key": "needle", "src/a.py": "needle", "credentials.json": "needle"})
    permissions = Permissions(deny=["read_file(private/**)"])

    [block] = await results(permissions, ScriptedCall("grep", {"pattern": "needle"}, id="g"), env=env)

    assert not block.is_error
    assert "src/a.py" in block.text
    assert "private/key" not in block.text
    assert ".env" not in block.text
    assert "credentials.json" not in block.text


async def test_rules_of_all_who_share_an_environment_hold_in_a_search() -> None:
    env = MemoryEnv({"one.txt": "needle", "two.txt": "needle", "three.txt": "needle"})
    env.path_filter = lambda path: not path.endswith("three.txt")
    search = ScriptedCall("grep", {"pattern": "needle"}, id="g")

    await results(Permissions(deny=["read_file(one.txt)"]), search, env=env)
    [block] = await results(Permissions(deny=["read_file(two.txt)"]), search, env=env)
    [again] = await results(Permissions(deny=["read_file(two.txt)"]), search, env=env)

    assert not any(name in block.text + again.text for name in ("one.txt", "two.txt", "three.txt"))


def test_runs_one_after_the_other_may_have_their_own_loop() -> None:
    permissions = Permissions(on_permission_request=Person(True))

    async def both() -> None:
        await asyncio.gather(results(permissions, write("a")), results(permissions, write("b")))

    for _ in range(2):
        asyncio.run(both())


# --- what was given is right, or is told --------------------------------------------------------------------------------


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
def test_an_option_that_cannot_be_is_refused(options: dict[str, Any], kind: type[Exception], text: str) -> None:
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
async def test_a_grant_is_for_what_a_command_reads_and_where_it_runs_too(granted: str, other: str) -> None:
    person = Person("session", "session", "session", False)
    permissions = Permissions(on_permission_request=person)

    calls = [ScriptedCall("shell", {"command": line}, id=str(n)) for n, line in enumerate((granted, granted, other))]
    await results(permissions, *calls)

    assert [request.resource.replace("\\n", "\n") for request in person.asked] == [granted, other]


async def test_an_answer_that_next_does_not_find_is_a_no() -> None:
    answers = iter([True])
    permissions = Permissions(on_permission_request=lambda request: next(answers))

    first, second = await results(permissions, write("a.txt", "1"), write("b.txt", "2"))

    assert not first.is_error
    assert second.is_error


async def test_a_rule_that_fits_no_tool_is_told_once_when_a_run_begins() -> None:
    permissions = Permissions(deny=["shel(rm *)", "mcp__files__*", "deploy", "grep"], allow=["write_*"])
    made = agent(permissions, "one", "two")
    with pytest.warns(ConfigWarning) as told:
        await made.run("go")
    await made.run("again")
    about = ["the deny rule 'shel(rm *)' matches no tool and has no effect; did you mean 'shell'?",
             "the deny rule 'deploy' matches no tool and has no effect"]  # fmt: skip
    assert [str(w.message) for w in told] == [f"permissions: {text}" for text in about]
    assert list(permissions.problems) == about


async def test_a_rule_about_a_tool_that_joins_later_is_none_to_tell() -> None:
    def deploy() -> str:
        """Deploy."""
        return ""

    permissions = Permissions(deny=["late"])

    async def prepared() -> Tool:
        return tool(name="late")(deploy)

    lazy = LazyTool("late", prepared)
    await CoreAgent(ScriptedModel("done"), env=project(), tools=[lazy], plugs=[permissions]).run("go")
    assert permissions.problems == ()
    assert Permissions(rules=RuleSet.build(deny=["late"])).problems == ()  # the business of whoever read them


@pytest.mark.parametrize("line", ["cat d/plain", "ls; cat d/plain", "cat d/*"])
async def test_a_call_is_judged_again_after_another_one_of_its_turn_changed_files(tmp_path: Path, line: str) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "plain").write_text("hunter2")
    project = tmp_path / "project"
    project.mkdir()
    link = ScriptedCall("shell", {"command": "ln -s ../outside d"})
    calls = [link, ScriptedCall("shell", {"command": line}), ScriptedCall("shell", {"command": "ls"})]
    permissions = Permissions(allow=[f"shell({link.input['command']})"])

    made, read, listed = await results(permissions, *calls, env=LocalEnv(project))

    assert not made.is_error
    assert read.is_error
    assert "hunter2" not in read.text
    assert "another call changed files" in read.text
    assert not listed.is_error


async def test_what_the_user_agreed_to_runs_after_another_call_changed_files() -> None:
    person = Person(True)
    calls = [write("a.txt", "1"), write("b.txt", "2"), ScriptedCall("shell", {"command": "cat README.md"}, id="3")]

    found = await results(Permissions(on_permission_request=person), *calls)

    assert not any(each.is_error and "approved" in each.text for each in found)
    assert len(person.asked) == 2
