"""The grammar of rules."""

import re

import pytest

from mainspring.errors import ConfigError
from mainspring.permissions import RuleSet, RuleSource, find_unused_rules, parse_rule
from mainspring.permissions.rules import Effect, RuleSourceKind, names_line
from tests.unit.permissions.harness import decide_call, shell


@pytest.mark.parametrize(
    ("text", "tool", "scope", "pattern"),
    [
        ("read_file", "read_file", None, None),
        (" read_file ", "read_file", None, None),
        ("read_file(src/**)", "read_file", None, "src/**"),
        ("edit(a (b).txt)", "edit", None, "a (b).txt"),
        ("github__*", "github__*", None, None),
        ("*", "*", None, None),
        ("shell(git status *)", "shell", None, "git status *"),
        ("shell(echo 'a && b')", "shell", None, "echo 'a && b'"),
        ("scope:fs-write", "", "fs-write", None),
        ("scope:fs-write(out/**)", "", "fs-write", "out/**"),
        ("scope:network(*.example.com)", "", "network", "*.example.com"),
        ("scope:shell-run(npm test)", "", "shell-run", "npm test"),
        ("read_file(/etc/hosts)", "read_file", None, "/etc/hosts"),
        ("read_file(~/notes/**)", "read_file", None, "~/notes/**"),
    ],
)
def test_parse_rule(text: str, tool: str, scope: str | None, pattern: str | None) -> None:
    rule = parse_rule(text, "allow", RuleSource("flag", "--allow"))

    assert (rule.tool, rule.scope, rule.pattern) == (tool, scope, pattern)
    assert rule.origin.kind == "flag"


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("", "tool(pattern)"),
        ("fs-write", "write 'scope:fs-write'"),
        ("fs-write(out)", "write 'scope:fs-write(out)'"),
        ("scope:fs-wriet", "write 'scope:fs-write'"),
        ("scope:everything", "the scopes are fs-read"),
        ("git status", "write 'shell(git status)'"),
        ("write_file[a.txt]", "'write_file(a.txt)'"),
        ("write_file(a.txt", "write 'write_file(a.txt)'"),
        ("write_file()", "write 'write_file' for every call"),
        ("shell(git:*)", "write 'shell(git *)'"),
        ("shell(echo 'open)", "close it"),
        ("shell(* --force)", "begin the pattern with one"),
        ("read_file(../x)", "write the path from the project's folder"),
        ("scope:network(https://example.com/x)", "scope:network(example.com)"),
        ("scope:network(a.example b.example)", "one rule for each host"),
        ("read\u202e_file", "U+202E"),
        ("shell(npm test)\nshell", "U+000A"),
        ("-x", "does not begin with a tool's name"),
    ],
)
def test_invalid_rule_explains_the_fix(text: str, instead: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_rule(text, "allow", RuleSource("project", ".agent/settings.json: permissions.allow[0]"))

    assert instead in str(caught.value)
    assert ".agent/settings.json: permissions.allow[0]" in str(caught.value)


@pytest.mark.parametrize("effect", ["ask", "deny"])
@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("shell(git status && rm x)", "one rule for each"),
        ("shell(a | b)", "one rule for each"),
        ("shell(echo $(x))", "one rule for each"),
        ("shell(npm test > out)", "scope:fs-write(PATH)"),
    ],
)
def test_ask_and_deny_rules_accept_one_simple_command(effect: Effect, text: str, instead: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(instead)):
        parse_rule(text, effect)


@pytest.mark.parametrize(
    ("pattern", "whole"),
    [
        ("git status && rm x", True),
        ("echo $((1 + 1))", True),
        ("x=(a b)", True),
        ("npm test > out", True),
        ("git status", False),
        ("git *", False),
        ("npm run test:*", False),
        ("echo '$(x)'", False),
        ("*", False),
    ],
)
def test_rule_with_several_commands_names_a_whole_line(pattern: str, whole: bool) -> None:
    parse_rule(f"shell({pattern})", "allow")

    assert names_line(pattern) == whole


def test_deny_rule_may_omit_the_program() -> None:
    assert parse_rule("shell(* --force)", "deny").pattern == "* --force"


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ({"allow": "read_file"}, "settings.json: permissions.allow must be a list"),
        ({"deny": [1]}, "settings.json: permissions.deny[0] must be a string"),
        ({"ask": ["read_file", "fs-write"]}, "settings.json: permissions.ask[1]"),
    ],
)
def test_invalid_settings_name_the_key(section: dict[str, object], expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RuleSet.from_settings(section, kind="user", place="settings.json")

    assert expected in str(caught.value)


@pytest.mark.covers("SEC-02", "SEC-15")
@pytest.mark.parametrize("deny_in", ["flag", "project", "user"])
@pytest.mark.parametrize("allow_in", ["flag", "project", "user"])
async def test_deny_overrides_allow_from_any_source(deny_in: RuleSourceKind, allow_in: RuleSourceKind) -> None:
    rules = RuleSet.build(allow=["write_file"], origin=RuleSource(allow_in))
    rules += RuleSet.build(ask=["scope:fs-write(docs/**)"], origin=RuleSource("project"))
    rules += RuleSet.build(deny=["write_file(src/**)"], origin=RuleSource(deny_in))

    denied = await decide_call("write_file", {"path": "src/app.py", "content": ""}, rules=rules)
    request = await decide_call("write_file", {"path": "docs/a.md", "content": ""}, rules=rules)
    allowed = await decide_call("write_file", {"path": "notes.txt", "content": ""}, rules=rules)

    assert (denied.outcome, request.outcome, allowed.outcome) == ("deny", "ask", "allow")
    assert denied.rule is not None
    assert denied.rule.origin.kind == deny_in
    assert allowed.rule is not None
    assert allowed.rule.origin.kind == allow_in


@pytest.mark.covers("SEC-02")
async def test_untrusted_project_can_only_restrict() -> None:
    section = {"allow": ["write_file", "shell"], "deny": ["read_file(docs/**)"]}
    rules = RuleSet.from_settings(section, kind="project", place="settings.json", trusted=False)

    assert (await decide_call("write_file", {"path": "a", "content": ""}, rules=rules)).outcome == "ask"
    assert (await shell("ls", rules=rules)).outcome == "ask"
    assert (await decide_call("read_file", {"path": "docs/a.md"}, rules=rules)).outcome == "deny"
    assert len(rules) == 3


@pytest.mark.parametrize(
    ("rule", "line", "outcome"),
    [
        ("git status", "git status", "allow"),
        ("git status", "git status -s", "ask"),
        ("git status *", "git status", "allow"),
        ("git status *", "git status -s", "allow"),
        ("git *", "git log", "allow"),
        ("git * -s", "git status -s", "allow"),
        ("git * -s", "git -s", "ask"),
        ("git ** -s", "git -s", "allow"),
        ("git ** -s", "git status a -s", "allow"),
        ("git ** -s", "git a b -s", "ask"),
        ("npm run test:*", "npm run test:unit", "allow"),
        ("npm run test:*", "npm run test", "ask"),
        ("npm run test:*", "npm run test:$x", "ask"),
        ("npm run te?t", "npm run test", "allow"),
        ("echo '*'", "echo '*'", "allow"),
        ("echo '*'", "echo x", "ask"),
        ("echo \\*", "echo '*'", "allow"),
        ("echo 'a b'", "echo a\\ b", "allow"),
        ("echo 'a b'", "echo a b", "ask"),
        ("ls ~/x", "ls ~/x", "allow"),
        ("ls ~/x", "ls $HOME/x", "allow"),
        ("CI=1 FOO=2 npm test", "CI=1 FOO=2 npm test", "allow"),
        ("CI=1 FOO=2 npm test", "CI=1 FOO=3 npm test", "ask"),
        ("GIT status", "git status", "ask"),
        ("/usr/bin/git status", "/usr/bin/git status", "allow"),
        ("/usr/bin/git status", "git status", "ask"),
    ],
)
async def test_command_pattern_matches_word_by_word(rule: str, line: str, outcome: str) -> None:
    assert (await shell(line, f"shell({rule})")).outcome == outcome


@pytest.mark.parametrize(
    ("pattern", "path", "outcome"),
    [
        ("src/**", "src/app.py", "deny"),
        ("src/**", "src/deep/er.py", "deny"),
        ("src/**", "other/src/x.py", "allow"),
        ("src/**", "source/app.py", "allow"),
        ("src/", "src/deep/er.py", "deny"),
        ("src", "src/deep/er.py", "deny"),
        ("src/*", "src/app.py", "deny"),
        ("**/src/**", "other/src/x.py", "deny"),
        ("*.py", "src/app.py", "allow"),
        ("**/*.py", "src/app.py", "deny"),
        ("**/*.py", "docs/a.md", "allow"),
        ("/project/docs/**", "docs/a.md", "deny"),
        ("./docs/a.md", "docs/a.md", "deny"),
        ("docs/a.md", "DOCS/A.md", "deny"),
        ("docs/?.md", "docs/a.md", "deny"),
    ],
)
async def test_path_pattern_is_anchored(pattern: str, path: str, outcome: str) -> None:
    decision = await decide_call("read_file", {"path": path}, deny=[f"read_file({pattern})"])

    assert decision.outcome == outcome


@pytest.mark.parametrize(
    ("pattern", "path", "outcome"),
    [
        ("src/**", "src/deep/er.py", "allow"),
        ("src/**", "other/src/x.py", "ask"),
        ("src", "src/app.py", "ask"),
        ("src/*", "src/app.py", "allow"),
        ("src/*", "src/deep/er.py", "ask"),
        ("src/app.py", "src/app.py", "allow"),
        ("src/app.py", "SRC/app.py", "ask"),
        ("src/app.py", "inner/app.py", "allow"),
        ("inner/app.py", "inner/app.py", "ask"),
        ("**", "notes.txt", "allow"),
        ("**", "../x", "ask"),
        ("**", "passwd", "ask"),
        ("/**", "../x", "allow"),
        ("~/**", "~/x", "allow"),
    ],
)
async def test_allow_path_pattern_is_exact(pattern: str, path: str, outcome: str) -> None:
    decision = await decide_call("write_file", {"path": path, "content": ""}, allow=[f"write_file({pattern})"])

    assert decision.outcome == outcome


def test_unused_rules_are_found() -> None:
    rules = RuleSet.build(deny=["bash(rm *)", "shell(rm *)", "mcp__*", "scope:fs-write"], allow=["*"])

    assert [rule.text for rule in find_unused_rules(rules, ["shell", "read_file"])] == ["bash(rm *)", "mcp__*"]


async def test_rule_names_a_whole_line() -> None:
    rule = "shell(make > /etc/x && make test)"

    assert (await shell("make > /etc/x && make test", rule)).outcome == "allow"
    assert (await shell("make > /etc/x; make test", rule)).outcome == "ask"
    assert (await shell("make test", rule)).outcome == "ask"


@pytest.mark.parametrize(
    ("rule", "line", "outcome"),
    [
        ("shell(fetch https://git.example/*)", "fetch https://git.example/a", "allow"),
        ("shell(fetch https://git.example/*)", "fetch https://git.example.org/a", "ask"),
        ("shell(fetch https://git.example/*)", "fetch other", "ask"),
        ("shell(frob --file=src/*)", "frob --file=src/app.py", "allow"),
        ("shell(frob --file=src/*)", "frob ./--file=src/app.py", "ask"),
    ],
)
async def test_wildcard_covers_only_words_of_its_form(rule: str, line: str, outcome: str) -> None:
    assert (await shell(line, rule)).outcome == outcome


async def test_invalid_deny_pattern_for_several_tools_denies_every_command() -> None:
    decision = await shell("ls", "shell(ls *)", deny=['s*("rm)'])

    assert decision.outcome == "deny"


async def test_deny_rule_applies_to_the_home_folder() -> None:
    decision = await decide_call(
        "read_file", {"path": "~/notes/a"}, allow=["read_file(/**)"], deny=["read_file(~/notes/**)"]
    )

    assert decision.outcome == "deny"


def test_rule_is_displayed_with_its_origin() -> None:
    assert str(parse_rule("read_file(docs/**)", "deny", RuleSource("project", "settings.json"))) == (
        "deny read_file(docs/**) (settings.json)"
    )


def test_name_of_an_mcp_server_means_all_of_its_tools() -> None:
    assert parse_rule("mcp__files", "deny").tool == "mcp__files__*"
    assert parse_rule("mcp__files__read", "deny").tool == "mcp__files__read"
