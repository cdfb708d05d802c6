"""Decisions: scopes, modes, sensitive paths, tools without declared access, hosts, rewritten calls."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring.env import LocalEnv
from mainspring.env.memory import MemoryEnv
from mainspring.errors import ConfigError
from mainspring.permissions import Permissions
from mainspring.permissions.command_checker import check_host
from mainspring.permissions.path_checker import PermissionMode
from mainspring.permissions.paths import ProjectPaths
from mainspring.permissions.rule_matcher import RuleMatcher
from mainspring.permissions.rules import RuleSet
from mainspring.tools import Access, Tool, ToolContext
from mainspring.tools.builtin import shell as shell_tool
from tests.unit.permissions.harness import TOOLS, decide_call, project, shell


async def do_nothing(arguments: dict[str, Any], ctx: ToolContext) -> str:
    return ""


def make_tool(name: str, *access: Access, **fields: Any) -> Tool:
    declared = (lambda _: access) if access else None
    return Tool(
        name=name, description="", input_schema={"type": "object"}, execute=do_nothing, access=declared, **fields
    )


FETCH = Tool(
    name="fetch",
    description="",
    input_schema={},
    execute=do_nothing,
    access=lambda a: [Access("network", a["url"])],
)


@pytest.mark.covers("SEC-01")
@pytest.mark.parametrize(
    ("tool", "arguments", "outcome"),
    [
        ("read_file", {"path": "notes.txt"}, "allow"),
        ("grep", {"pattern": "x"}, "allow"),
        ("glob", {"pattern": "**/*.py"}, "allow"),
        ("list_files", {"path": "src"}, "allow"),
        ("read_file", {"path": "/etc/hosts"}, "ask"),
        ("grep", {"pattern": "x", "path": ".."}, "ask"),
        ("write_file", {"path": "notes.txt", "content": ""}, "ask"),
        ("edit", {"path": "notes.txt", "old_string": "a", "new_string": "b"}, "ask"),
        ("multi_edit", {"path": "notes.txt", "edits": []}, "ask"),
        ("shell", {"command": "ls"}, "allow"),
        ("shell", {"command": "make"}, "ask"),
    ],
)
async def test_default_decisions(tool: str, arguments: dict[str, Any], outcome: str) -> None:
    assert (await decide_call(tool, arguments)).outcome == outcome


async def test_modes() -> None:
    write = {"path": "notes.txt", "content": ""}

    assert (await decide_call("read_file", {"path": "notes.txt"}, mode="ask")).outcome == "ask"
    assert (await decide_call("write_file", write, mode="allow")).outcome == "allow"
    assert (await shell("make && whoami > out", mode="allow")).outcome == "allow"
    assert (await shell("make && whoami > out", mode="allow", deny=["shell(whoami)"])).outcome == "deny"
    assert (await shell("cat .env", mode="allow")).outcome == "ask"
    assert (await decide_call("read_file", {"path": ".env"}, mode="allow")).outcome == "ask"
    with pytest.raises(ConfigError, match="'defaults' or 'ask' or 'allow'"):
        await decide_call("shell", {}, mode="yolo")


@pytest.mark.covers("SEC-03")
@pytest.mark.parametrize(
    "path",
    [
        ".env", ".env.local", ".ENV", "src/.env", "~/.ssh/id_ed25519", "~/.ssh", "~/.gnupg/pubring.kbx", "config/credentials.json",
        "aws-credentials", "my-secret.txt", "secrets/x", "MySecrets.yaml", "server.pem", "tls.key", "store.jks", "x.kdbx", "~/.netrc",
        "~/.aws/config", "~/.kube/config", "/etc/shadow", "/proc/self/environ", "~/.config/gh/hosts.yml", "~/.docker/config.json",
    ],
)  # fmt: skip
async def test_sensitive_paths_always_ask(path: str) -> None:
    for rules in ([], ["read_file"], ["read_file(**)", "read_file(/**)", "read_file(~/**)"], ["scope:fs-read"]):
        decision = await decide_call("read_file", {"path": path}, allow=rules)
        assert decision.outcome == "ask", rules
        assert decision.needs_answer[0].lasting


@pytest.mark.covers("SEC-03")
async def test_rule_that_names_the_exact_sensitive_path_allows_it() -> None:
    assert (await decide_call("read_file", {"path": ".env"}, allow=["read_file(.env)"])).outcome == "allow"
    assert (await decide_call("read_file", {"path": "src/../.env"}, allow=["scope:fs-read(.env)"])).outcome == "allow"
    assert (await decide_call("read_file", {"path": ".env"}, allow=["read_file(.en*)"])).outcome == "ask"
    assert (
        await decide_call("read_file", {"path": ".env"}, allow=["read_file(.env)"], ask=["read_file(.env)"])
    ).outcome == "ask"
    assert (await shell("cat .env", "shell(cat *)", "scope:fs-read(.env)")).outcome == "allow"


@pytest.mark.parametrize("path", ["src/environment.py", "src/key.py", "src/app.py", "docs/a.md", "tokens.md"])
async def test_ordinary_names_are_not_sensitive(path: str) -> None:
    assert (await decide_call("read_file", {"path": path})).outcome == "allow"


async def test_sensitive_name_of_the_project_folder_is_ignored() -> None:
    from mainspring.env.memory import MemoryEnv
    from tests.unit.permissions.harness import TOOLS

    env = MemoryEnv({"a.txt": ""}, cwd="/home/user/secret-plans")

    decision = await Permissions().decide("read_file", {"path": "a.txt"}, env=env, definition=TOOLS["read_file"])

    assert decision.outcome == "allow"


@pytest.mark.parametrize(
    "path", [".git/hooks/pre-commit", ".git/config", ".agent/settings.json", ".husky/pre-push", "src/.envrc"]
)
async def test_writing_files_that_run_later_asks(path: str) -> None:
    assert (await decide_call("write_file", {"path": path, "content": ""}, allow=["write_file"])).outcome == "ask"
    assert (await shell(f"echo x > {path}", "shell(echo *)", "scope:fs-write")).outcome == "ask"


async def test_sensitive_and_guarded_paths_can_be_added() -> None:
    options: dict[str, Any] = {
        "sensitive": ["*.dump", "/project/docs/**"],
        "guarded": ["Makefile"],
        "allow": ["write_file"],
    }

    assert (await decide_call("read_file", {"path": "src/x.dump"}, **options)).outcome == "ask"
    assert (await decide_call("read_file", {"path": "docs/a.md"}, **options)).outcome == "ask"
    assert (await decide_call("write_file", {"path": "Makefile", "content": ""}, **options)).outcome == "ask"
    assert (await decide_call("read_file", {"path": "Makefile"}, **options)).outcome == "allow"


@pytest.mark.covers("SEC-17")
@pytest.mark.parametrize(
    "line",
    [
        "rm notes.txt",
        "rm -r build",
        "rmdir build",
        "unlink notes.txt",
        "mv notes.txt x",
        "git rm notes.txt",
        "find build -delete",
        "sudo rm notes.txt",
        "ls | xargs rm",
    ],
)
async def test_removing_files_asks_for_fs_delete(line: str) -> None:
    for decision in (await shell(line), await shell(line, "shell"), await shell(line, "scope:shell-run")):
        assert decision.outcome == "ask"
        assert "fs-delete" in {v.scope for v in decision.needs_answer}
    assert (await shell(line, "shell", deny=["scope:fs-delete"])).outcome == "deny"


@pytest.mark.covers("SEC-17")
async def test_removing_files_can_be_allowed() -> None:
    assert (await shell("rm notes.txt", "shell", "scope:fs-delete(*.txt)")).outcome == "allow"
    assert (await shell("rm notes.txt", "shell(rm *)")).outcome == "allow"
    assert (await shell("rm /tmp/x", "shell(rm *)")).outcome == "ask"
    assert (await shell("rm /tmp/x", "shell(rm /tmp/x)")).outcome == "allow"
    assert (await shell("rm src/app.py", "shell(rm *)", deny=["write_file(src/**)"])).outcome == "deny"


@pytest.mark.covers("SEC-17")
async def test_deletions_in_a_patch_ask_for_fs_delete() -> None:
    patch = make_tool("apply_patch", Access("fs-write", "notes.txt"), Access("fs-delete", "build/out.o"))

    assert (await decide_call("apply_patch", {"patch": ""}, definition=patch, allow=["apply_patch"])).outcome == "ask"
    allow = ["apply_patch", "scope:fs-delete(build/**)"]
    assert (await decide_call("apply_patch", {"patch": ""}, definition=patch, allow=allow)).outcome == "allow"


async def test_tool_without_declared_access_is_judged_by_name_and_arguments() -> None:
    tool = make_tool("github__create_issue", source="mcp:github")
    one, two = {"title": "a"}, {"title": "a", "body": "b"}

    async def outcome(arguments: dict[str, Any], **rules: Any) -> str:
        return (await decide_call(tool.name, arguments, definition=tool, **rules)).outcome

    assert await outcome(one) == "ask"
    assert await outcome(one, mode="allow") == "allow"
    assert await outcome(one, allow=["github__create_issue"]) == "allow"
    assert await outcome(one, allow=["github__*"]) == "allow"
    assert await outcome(one, allow=["github__*"], deny=["*create*"]) == "deny"
    assert await outcome(one, allow=["github__*"], ask=["github__create_issue"]) == "ask"
    assert await outcome(one, allow=["github__create_issue(a)"]) == "allow"
    assert await outcome({"title": "b"}, allow=["github__create_issue(a)"]) == "ask"
    assert await outcome(two, allow=["github__create_issue(a)"]) == "ask"
    assert await outcome(two, allow=['github__create_issue({"body":"*","title":"a"})']) == "allow"
    assert await outcome(two, allow=["github__*"], deny=["github__create_issue(*B*)"]) == "deny"


@pytest.mark.parametrize(
    "arguments", [{"p": ".env"}, {"p": "private/x"}, {"p": "src/../private/x"}, {"a": {"b": ["~/.ssh/id"]}}]
)
async def test_paths_in_arguments_of_an_undeclared_tool_are_checked(arguments: dict[str, Any]) -> None:
    tool = make_tool("upload")

    decision = await decide_call("upload", arguments, definition=tool, allow=["upload"], deny=["read_file(private/**)"])

    assert decision.outcome == ("deny" if "private" in str(arguments) else "ask")


def nest(value: Any, levels: int) -> Any:
    return value if not levels else {"a": nest(value, levels - 1)}


@pytest.mark.parametrize(
    ("arguments", "outcome"),
    [
        ({"path": "private/key\n"}, "deny"),
        ({"path": " private/key "}, "deny"),
        ({"path": "\tprivate/key"}, "deny"),
        ({"path": "'private/key'"}, "deny"),
        ({"path": "@private/key"}, "deny"),
        ({"path": "private\\key"}, "deny"),
        ({"path": "private/key\0.txt"}, "deny"),
        ({"path": "private%2Fkey"}, "deny"),
        ({"uri": "file:///project/private/key"}, "deny"),
        ({"uri": "FILE://localhost/project/pri%76ate/key"}, "deny"),
        ({"uri": "file:/project/private/key"}, "deny"),
        ({"path": "./" * 600 + "private/key"}, "deny"),
        ({"path": "x" * 1001 + "/../private/key"}, "deny"),
        ({"private/key": 1}, "deny"),
        (nest("private/key", 12), "deny"),
        ({"json": '{"path": "private/key"}'}, "deny"),
        ({"command": "cat private/key"}, "deny"),
        ({"script": "import os\nopen('private/key')"}, "deny"),
        ({"path": "private"}, "ask"),
        ({"path": "key", "cwd": "private"}, "ask"),
        ({"path": "KEEP.ENV\n"}, "allow"),
        ({"path": ".env\n"}, "ask"),
        ({"uri": "file:///home/me/.ssh/id_rsa"}, "ask"),
        ({"paths": [f"a/{n}" for n in range(300)]}, "ask"),
        ({"uri": "https://example.com/private/key"}, "allow"),
        ({"body": "see private/key for more"}, "allow"),
        ({"path": "docs/a.md", "n": 1, "more": None}, "allow"),
    ],
)
@pytest.mark.covers("SEC-02")
async def test_paths_in_arguments_are_recognized_in_every_form(arguments: dict[str, Any], outcome: str) -> None:
    rules = {"allow": ["upload"], "deny": ["read_file(private/**)"]}

    assert (await decide_call("upload", arguments, definition=make_tool("upload"), **rules)).outcome == outcome


async def test_tool_whose_access_function_fails_asks() -> None:
    tool = Tool(name="odd", description="", input_schema={}, execute=do_nothing, access=lambda a: a["missing"])

    assert (await decide_call("odd", {}, definition=tool)).outcome == "ask"


@pytest.mark.parametrize(
    ("rules", "argument", "outcome"),
    [
        ({"deny": ["odd(*private*)"]}, "private", "deny"),
        ({"ask": ["odd(*private*)"]}, "private", "ask"),
        ({"deny": ["odd(*private*)"], "allow": ["odd"]}, "private", "deny"),
        ({"deny": ["odd(*private*)"]}, "public", "allow"),
        ({"deny": ["read_file(private/**)"]}, "private/a", "deny"),
        ({}, ".env", "ask"),
        ({}, "src/app.py", "allow"),
    ],
)
async def test_rules_apply_to_a_tool_that_declares_no_access(
    rules: dict[str, list[str]], argument: str, outcome: str
) -> None:
    tool = Tool(name="odd", description="", input_schema={}, execute=do_nothing, access=lambda a: (), source="mcp:x")

    decision = await decide_call("odd", {"q": argument}, definition=tool, **rules)

    assert decision.outcome == outcome


async def test_tool_that_declares_no_access_is_allowed() -> None:
    tool = Tool(name="todo", description="", input_schema={}, execute=do_nothing, access=lambda a: ())

    assert (await decide_call("todo", {}, definition=tool)).outcome == "allow"
    assert (await decide_call("todo", {}, definition=tool, deny=["todo"])).outcome == "deny"
    assert (await decide_call("todo", {}, definition=tool, ask=["todo"])).outcome == "ask"
    assert (await decide_call("todo", {}, definition=tool, mode="ask")).outcome == "ask"


@pytest.mark.parametrize(
    ("rule", "url", "outcome"),
    [
        ("example.com", "https://example.com/x", "allow"),
        ("example.com", "http://EXAMPLE.com:80/", "allow"),
        ("example.com", "https://example.com./", "allow"),
        ("example.com", "https://a.example.com", "ask"),
        ("example.com", "https://example.com.evil.test", "ask"),
        ("example.com", "https://example.com@evil.test/", "ask"),
        ("example.com", "https://evil.test/?example.com", "ask"),
        ("example.com", "https://evil.test\\@example.com/", "ask"),
        ("*.example.com", "https://a.b.example.com", "allow"),
        ("*.example.com", "https://example.com", "ask"),
        ("*.example.com", "https://notexample.com", "ask"),
        ("example.com:8443", "https://example.com:8443/", "allow"),
        ("example.com:8443", "https://example.com/", "ask"),
        ("example.com", "https://example.com:8443/", "allow"),
        ("[::1]", "http://[::1]:8080/", "allow"),
        ("xn--bcher-kva.example", "https://bücher.example/", "allow"),
        ("*", "https://anything.test", "allow"),
        ("example.com", "not a url", "ask"),
        ("example.com", "", "ask"),
    ],
)
async def test_host_patterns(rule: str, url: str, outcome: str) -> None:
    for text in (f"fetch({rule})", f"scope:network({rule})"):
        decision = await decide_call("fetch", {"url": url}, definition=FETCH, allow=[text])
        assert decision.outcome == outcome


@pytest.mark.parametrize(
    ("mode", "other_reason"), [("defaults", "no rule allows it"), ("allow", "the permission mode allows it")]
)
async def test_host_of_a_session_grant_is_reported_as_granted(mode: PermissionMode, other_reason: str) -> None:
    rules = RuleMatcher(RuleSet(), "fetch", await ProjectPaths.find(project(), root=None, home=None))

    granted = check_host(rules, mode, "example.com", {("network", "example.com")})
    other = check_host(rules, mode, "other.test", {("network", "example.com")})

    assert (granted.outcome, granted.reason) == ("allow", "it is allowed for this session")
    assert other.reason == other_reason


async def test_denied_host_applies_to_shell_commands() -> None:
    deny = ["scope:network(*.evil.test)"]

    assert (
        await decide_call("fetch", {"url": "http://a.evil.test"}, definition=FETCH, allow=["fetch"], deny=deny)
    ).outcome == "deny"
    assert (await shell("wget https://a.evil.test/x", "shell", deny=deny)).outcome == "deny"
    assert (await shell("wget -q a.evil.test/x", "shell", deny=deny)).outcome == "deny"
    assert (await shell("ssh me@a.evil.test ls", "shell", deny=deny)).outcome == "deny"


async def test_original_and_rewritten_arguments_are_both_judged() -> None:
    deny = ["read_file(private/**)"]

    rewritten = await decide_call("read_file", {"path": "notes.txt"}, original={"path": "private/x"}, deny=deny)
    same = await decide_call("read_file", {"path": "notes.txt"}, original={"path": "./notes.txt"}, deny=deny)
    silent = await decide_call("read_file", {"path": "notes.txt"}, original={"file": 1}, deny=deny)
    command = await shell("git status", "shell(git status)", original={"command": "rm -rf /"}, deny=["shell(rm *)"])

    assert (rewritten.outcome, same.outcome, silent.outcome, command.outcome) == ("deny", "allow", "allow", "deny")


async def test_original_arguments_that_declare_nothing_are_not_judged() -> None:
    def access(arguments: Mapping[str, Any]) -> tuple[Access, ...]:
        return (Access("fs-read", arguments["path"]),)

    async def decide(name: str) -> str:
        reader = msgspec.structs.replace(make_tool("reader"), access=access)
        original = {name: "/etc/passwd"}
        decision = await decide_call("reader", {"path": "notes.txt"}, definition=reader, original=original)
        return decision.outcome

    assert await decide("file") == "allow"
    assert await decide("path") == "ask"


async def test_working_folder_of_a_command_is_considered() -> None:
    assert (
        await decide_call("shell", {"command": "rm app.py", "cwd": "src"}, allow=["shell(rm *)"])
    ).outcome == "allow"
    assert (await decide_call("shell", {"command": "rm app.py", "cwd": "/tmp"}, allow=["shell(rm *)"])).outcome == "ask"
    assert (await decide_call("shell", {"command": "rm app.py", "cwd": "a\0"}, allow=["shell(rm *)"])).outcome == "ask"


async def test_decision_names_the_deciding_rule() -> None:
    decision = await shell("git status; rm x", "shell(git *)", deny=["shell(rm *)"])

    assert decision.outcome == "deny"
    assert decision.rule is not None
    assert decision.rule.text == "shell(rm *)"
    assert [(v.resource, v.outcome) for v in decision.verdicts][:2] == [("git status", "allow"), ("rm x", "deny")]


@pytest.mark.parametrize(
    "line",
    [
        "ls \u202e",
        "ls \u200b",
        "ls\u00a0-l",
        "ls \x07",
        "ls \r\n",
        "ls \ud800",
        "ls \ue000",
        "ls " + "a" * 30_000,
        "ls;" * 400,
        "$(" * 300 + "ls" + ")" * 300,
    ],
)
async def test_command_with_invisible_characters_or_too_long_asks(line: str) -> None:
    decision = await shell(line, "shell", "shell(*)", "scope:shell-run")

    assert decision.outcome == "ask"
    assert "\u202e" not in decision.needs_answer[0].resource


@pytest.mark.parametrize(
    ("line", "allow", "deny", "outcome"),
    [
        ("$x y", ["shell"], [], "ask"),
        ("$USER y", ["shell"], [], "ask"),
        ("git $USER", ["shell"], ["shell(git push)"], "ask"),
        ("git $USER", ["shell"], ["shell(rm *)"], "allow"),
        ("git log $USER", ["shell"], ["shell(git push)"], "allow"),
        ("python -c 'x'", ["shell"], [], "allow"),
        ("cat $USER", ["shell(cat *)"], ["read_file(private/**)"], "allow"),
        ("cat $USER/private/key", ["shell(cat *)"], ["read_file(private/**)"], "ask"),
        ("cat priv*/key", ["shell(cat *)"], ["read_file(private/**)"], "ask"),
        ("cat */key", ["shell(cat *)"], ["read_file(private/**)"], "ask"),
        ("cat *.md", ["shell(cat *)"], ["read_file(private/**)"], "allow"),
        ("cat *", ["shell(cat *)"], [], "ask"),  # a link that leads to .env
        ("cat *.txt", ["shell(cat *)"], [], "allow"),
        ("cat config/*", ["shell(cat *)"], [], "ask"),
        ("cat */credential[s].json", ["shell(cat *)"], [], "ask"),
        ("rm *", ["shell(rm *)"], [], "ask"),  # links that lead out
        ("rm src/*.py", ["shell(rm *)"], [], "allow"),
        ("rm src/*.py", ["shell(rm *)"], ["write_file(src/app.py)"], "deny"),
        ("cat .[e]nv", ["shell(cat *)"], [], "ask"),
        ("cat .??v", ["shell(cat *)"], [], "ask"),
        ("git push --force", ["shell"], ["shell(git push ** --force)"], "deny"),
        ("git push a b --force", ["shell"], ["shell(git push ** --force)"], "deny"),
        ("git push a b", ["shell"], ["shell(git push ** --force)"], "allow"),
        ("git push a $USER", ["shell"], ["shell(git push ** --force)"], "ask"),
        ("make x", ["shell"], ["shell(* x)"], "deny"),
        ("ls", ["scope:shell-run"], [], "allow"),
        ("ls", ["*"], [], "allow"),
        ("ls", ["shell"], ["scope:shell-run"], "deny"),
        ("ls", ["shell"], ["shell"], "deny"),
        ("echo a > x", ["shell"], [], "allow"),
        ("echo a > /tmp/x", ["shell"], [], "ask"),
        ("", ["shell"], [], "allow"),
    ],
)
async def test_rules_for_commands_with_unknown_parts(
    line: str, allow: list[str], deny: list[str], outcome: str
) -> None:
    assert (await shell(line, *allow, deny=deny)).outcome == outcome


@pytest.mark.parametrize(
    "line",
    [
        'git grep -O"rm x" a',
        "git grep -Orm a",
        "git clone -u rm x y",
        "git send-email --sendmail-cmd=rm x",
        "git merge -s x y",
        "git archive -o /etc/x HEAD",
        "git format-patch -o /etc HEAD",
        "git format-patch --output-directory=/etc HEAD",
        "git bundle create ../x HEAD",
        "git worktree add ../x",
        "git init /tmp/x",
        "git clone x /tmp/y",
        "git clone x .git/hooks",
        "git checkout-index --prefix=.git/hooks/ -a",
    ],
)
async def test_wide_git_rule_excludes_external_programs_and_outside_files(line: str) -> None:
    assert (await shell(line, "shell(git *)")).outcome == "ask"


@pytest.mark.parametrize(
    "line",
    [
        "git push -u origin main",
        "git grep -n foo && git merge main && git add -u",
        "git worktree add docs/x && git archive HEAD && git clone x docs/y && git init && git format-patch -1",
    ],
)
async def test_wide_git_rule_covers_the_project(line: str) -> None:
    assert (await shell(line, "shell(git *)")).outcome == "allow"


async def test_command_after_an_escaped_newline_is_analyzed() -> None:
    for line in (
        "git status </dev/null\n\\\nwhoami",
        "git status >/dev/null\n\\\n\\\n whoami",
        "git status 2>/dev/null\n \\\n whoami x",
        "git status </dev/null\n\\\n 2>/dev/null whoami",
    ):
        assert (await shell(line, "shell(git status *)")).outcome == "ask"
    assert (await shell("git status </dev/null \\\n -s", "shell(git status *)")).outcome == "allow"


@pytest.mark.parametrize("before", ["", "command ", "builtin ", "time ", "time -p command "])
async def test_builtins_that_evaluate_names_ask_behind_a_wrapper(before: str) -> None:
    for line in (
        "printf -v 'a[$(whoami)]' x",
        "test -v 'a[$(whoami)]'",
        "unset 'a[$(whoami)]'",
        "read 'a[$(whoami)]' </dev/null",
    ):
        rules = [f"shell({name} *)" for name in ("printf", "test", "unset", "read", "command", "builtin", "time")]
        assert (await shell(before + line, *rules)).outcome == "ask", before + line


@pytest.mark.parametrize(
    "line",
    [
        "x='-v a[$(whoami)]'; [ $x ]",
        "x=$(cat f); [ $x ]",
        "[ $(echo '-v a[$(whoami)]') ]",
        "x='-v a[$(whoami)]'; test $x",
        "x=-v; test $x 'a[$(whoami)]'",
        'x=-v; y=\'a[$(whoami)]\'; test "$x" "$y"',
        "test -v$x 'a[$(whoami)]'",
        "printf -v'a[$(whoami)]' y",
        "x=-v; printf $x 'a[$(whoami)]' y",
    ],
)
async def test_unknown_option_may_evaluate_the_next_word(line: str) -> None:
    assert (await shell(line, "shell(test *)", "shell(printf *)", "shell(echo *)", "shell(cat *)")).outcome == "ask"


@pytest.mark.parametrize(
    "line",
    [
        "x=5; [ $x -gt 3 ]",
        '[ -n "$USER" ]',
        "x=foo; [ $x = foo ]",
        '[ "$(cat f)" = a ]',
        "printf '%s' \"$USER\"",
        'x=$(cat f); test "$x" = a',
        "[ $? -eq 0 ]",
        "[ ! -d src ]",
        "[ a == b ]",
    ],
)
async def test_plain_test_expressions_are_allowed(line: str) -> None:
    assert (await shell(line, "shell(test *)", "shell(printf *)", "shell(cat *)")).outcome == "allow"


@pytest.mark.covers("SEC-15")
@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("./deploy.sh", "allow"),
        ("make all && ./deploy.sh", "allow"),
        ("timeout 5 ./deploy.sh", "allow"),
        ("cd src && make all", "allow"),
        ("cd src && ./deploy.sh", "ask"),
        ("(cd src; ./deploy.sh)", "ask"),
        ("pushd src; ./deploy.sh", "ask"),
        ("cd src\n./deploy.sh", "ask"),
        ("sh -c 'cd src; ./deploy.sh'", "ask"),
        ("cd src && sh -c 'make all; ./deploy.sh'", "ask"),
        ("cd src && timeout 5 ./deploy.sh", "ask"),
        ("cd src && bash tool.sh", "ask"),
    ],
)
async def test_relative_program_is_allowed_only_in_the_project_folder(line: str, outcome: str) -> None:
    rules = ["shell(make *)", "shell(./deploy.sh)", "shell(bash tool.sh)"]
    assert (await shell(line, *rules)).outcome == outcome


async def test_relative_program_asks_if_an_argument_changes_the_folder() -> None:
    runs = make_tool("run", Access("shell-run", "./deploy.sh"))
    for folder, outcome in ((".", "allow"), ("src", "ask"), ("/tmp", "ask"), ("escape", "ask")):
        arguments = {"command": "./deploy.sh", "cwd": folder}
        decision = await decide_call("run", arguments, allow=["scope:shell-run(./deploy.sh)"], definition=runs)
        assert decision.outcome == outcome


@pytest.mark.parametrize(
    ("tool", "arguments", "outcome"),
    [
        ("write_file", {"path": "src/new.py", "content": ""}, "allow"),
        ("edit", {"path": "src/app.py", "old_string": "a", "new_string": "b"}, "allow"),
        ("write_file", {"path": "inner/new.py", "content": ""}, "allow"),
        ("write_file", {"path": "escape/x", "content": ""}, "ask"),
        ("write_file", {"path": "hidden", "content": ""}, "ask"),
        ("write_file", {"path": ".git/config", "content": ""}, "ask"),
        ("write_file", {"path": "../x", "content": ""}, "ask"),
        ("shell", {"command": "touch x"}, "ask"),
    ],
)
async def test_accept_edits_covers_only_edit_tools_in_the_project(
    tool: str, arguments: dict[str, Any], outcome: str
) -> None:
    permissions = Permissions()
    permissions.accept_edits = True
    for held in (permissions, permissions.for_child()):
        decision = await held.decide(tool, arguments, env=project(), definition=TOOLS[tool])
        assert decision.outcome == outcome
    permissions.accept_edits = False
    assert (await permissions.decide(tool, arguments, env=project(), definition=TOOLS[tool])).outcome == "ask"


@pytest.mark.parametrize(
    ("path", "outcome"),
    [
        ("plain.txt", "allow"),
        ("new/deep/file.txt", "allow"),
        ("second-name", "ask"),
        ("bare.git/config", "ask"),
        ("bare.git/hooks/post-receive", "ask"),
        ("bare.git/new/folder/x", "ask"),
        ("BARE.git", "allow"),
    ],
)
async def test_accept_edits_allows_only_files_without_side_effects(tmp_path: Path, path: str, outcome: str) -> None:
    folder = tmp_path / "project"
    (folder / "bare.git" / "objects").mkdir(parents=True)
    (folder / "bare.git" / "refs").mkdir()
    (folder / "bare.git" / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "plain.txt").write_text("a")
    (tmp_path / "outside").write_text("a")
    (folder / "second-name").hardlink_to(tmp_path / "outside")
    permissions = Permissions()
    permissions.accept_edits = True
    arguments = {"path": path, "content": ""}
    decision = await permissions.decide("write_file", arguments, env=LocalEnv(folder), definition=TOOLS["write_file"])
    assert decision.outcome == outcome


@pytest.mark.parametrize("source", ["user", "extension", "mcp:x"])
async def test_tool_with_only_the_name_of_an_edit_tool_asks(source: str) -> None:
    permissions = Permissions()
    permissions.accept_edits = True
    other = msgspec.structs.replace(TOOLS["write_file"], source=source)
    decision = await permissions.decide("write_file", {"path": "a", "content": ""}, env=project(), definition=other)
    assert decision.outcome == "ask"


@pytest.mark.covers("SEC-01")
@pytest.mark.parametrize("line", ["cat *.txt; cd inner && cat *.txt", "ls *.txt && cd inner && head -5 *.txt"])
async def test_wildcards_are_resolved_in_the_current_folder(line: str) -> None:
    env = MemoryEnv({"a.txt": "", "inner/my_secret.txt": ""})

    assert (await Permissions().decide("shell", {"command": line}, env=env, definition=shell_tool)).outcome == "ask"
