"""Properties of decisions for every line and every set of rules."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from hypothesis import assume, given, settings, strategies as st

from mainspring.permissions import Effect, PermissionDecision, RuleSet, parse_rule
from mainspring.permissions.command_patterns import compile_command_pattern, matches_exactly
from mainspring.permissions.path_patterns import compile_path_pattern, matches
from mainspring.permissions.suggestions import quote
from mainspring.shell_analysis import analyze
from mainspring.shell_analysis.syntax import Word
from tests.unit.permissions.harness import decide_call, shell

T = TypeVar("T")

ORDER = {"allow": 0, "ask": 1, "deny": 2}
ALLOWED = ("git status", "npm test", "ls -la", "echo 'a b'", "cat README.md", "python tool.py", "timeout 5 npm test")
RULES = tuple(f"shell({line})" for line in ALLOWED)
NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True)
OTHERS = st.one_of(
    NAMES.filter(lambda n: n not in WORDS_OF_THE_SHELL),
    st.sampled_from(
        ["whoami", "rm -rf x", "git push", "npm tests", "$x", "python -c y", "sudo npm test", "./npm test", "x=1 y"]
    ),
)
WORDS_OF_THE_SHELL = {
    "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "in", "select", "function", "time",
    "coproc", "true", "false", "break", "continue", "return", "shift", "set", "cd", "exec", "command", "builtin", "trap", "export",
    "declare", "typeset", "local", "readonly", "unset", "eval", "ls", "cat",
}  # fmt: skip
JOINS = st.sampled_from(
    [
        "{a}; {b}", "{b}; {a}", "{a} && {b}", "{b} && {a}", "{a} || {b}", "{b} || {a}", "{a} | {b}", "{b} | {a}", "{a} |& {b}",
        "{a} & {b}", "{b} & {a}", "{a}\n{b}", "{b}\n{a}", "({a}; {b})", "{{ {a}; {b}; }}", "{a} $({b})", '{a} "$({b})"', "{a} `{b}`",
        "{a} <({b})", "{a} > >({b})", "{a} ${{x:-$({b})}}", "if {b}; then {a}; fi", "if {a}; then {b}; fi", "while {b}; do {a}; done",
        "for i in $({b}); do {a}; done", "for i in 1; do {b}; done; {a}", "case $({b}) in *) {a};; esac", "! {b}; {a}", "x=$({b}) {a}",
        "x=$({b}); {a}", "{a} <<EOF\n$({b})\nEOF", "{a} <<EOF | {b}\nx\nEOF", "{a} <<< $({b})", "bash -c '{a}; {b}'", "eval '{a}; {b}'",
        "{a}; time {b}", "{a}; env {b}", "{a} && nohup {b}", "{a} | xargs {b}", "{a}; f() {{ {b}; }}", "find . -exec {b} \\; ; {a}",
        "trap '{b}' EXIT; {a}", "{a}\\\n&& {b}", "{a} # x\n{b}", "timeout 5 {b}; {a}", "[[ $({b}) == x ]] && {a}",
    ]
)  # fmt: skip


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


PIECES = st.sampled_from(
    [
        "touch q", "npm test", "rm build/out.o", "mkdir -p a/b", "cat .env", "cp README.md src/new.md", "curl https://example.com/x",
        "echo hi > out.txt", "tee /tmp/far < notes.txt", "git status", "mv notes.txt other/notes.txt", "python -c 'print(1)'", "chmod +x src/app.py",
    ]
)  # fmt: skip


@pytest.mark.covers("SEC-01", "SEC-04")
@settings(max_examples=60)
@given(st.lists(PIECES, min_size=1, max_size=4, unique=True), st.sampled_from([" && ", "; ", " | "]))
def test_advised_rules_are_sufficient_and_minimal(pieces: list[str], join: str) -> None:
    line = join.join(pieces)

    async def check_advice() -> None:
        for rules in (await shell(line, advise=True)).advice:
            assert (await shell(line, *rules)).outcome == "allow", rules
            for removed in rules:
                fewer = [rule for rule in rules if rule != removed]
                assert (await shell(line, *fewer)).outcome == "ask", (rules, removed)

    run(check_advice())


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("touch q", (("shell(touch q)",),)),
        ("cp notes.txt q", (("shell(cp notes.txt q)",), ("shell(cp *)",))),
        ("echo x > q", (("scope:fs-write(q)", "shell(echo x)"), ("scope:fs-write(**)", "shell(echo x)"))),
        ("echo x > .git/config", (("scope:fs-write(.git/config)", "shell(echo x)"),)),
        ("$tool x", (("shell($tool x)",),)),
        ("x=(a); ls", (("shell(x=(a); ls)",),)),
        ("x=(a)\nls", ()),
    ],
)
def test_advice_is_minimal(line: str, advice: tuple[tuple[str, ...], ...]) -> None:
    assert run(shell(line, advise=True)).advice == advice


@pytest.mark.covers("SEC-01")
@settings(max_examples=150)
@given(st.sampled_from(ALLOWED), OTHERS, JOINS)
def test_allowed_command_joined_with_another_asks(allowed: str, other: str, join: str) -> None:
    line = join.format(a=allowed, b=other)

    async def both() -> tuple[PermissionDecision, PermissionDecision]:
        return await shell(allowed, *RULES), await shell(line, *RULES)

    alone, together = run(both())

    assert alone.outcome == "allow"
    assert together.outcome == "ask", line


LINES = st.one_of(
    st.sampled_from(
        [
            "git status && rm x",
            "cat .env",
            "echo a > out/x",
            "ls $x",
            "sudo rm -rf a",
            "bash -c 'git push'",
            "rm src/*.py",
        ]
    ),
    st.builds(lambda a, b, j: j.format(a=a, b=b), st.sampled_from(ALLOWED), OTHERS, JOINS),
)
SOME_RULES = st.lists(
    st.sampled_from(
        [
            "shell", "shell(git *)", "shell(rm *)", "shell(git ** x)", "shell(cat .env)", "scope:shell-run", "scope:fs-write", "scope:fs-delete",
            "scope:fs-write(out/**)", "read_file(src/**)", "write_file(**)", "read_file", "scope:fs-read(.env)", "*", "scope:network(*)",
            "shell(bash *)", "shell(echo a)", "edit(**/x)",
        ]
    ),
    max_size=5,
    unique=True,
)  # fmt: skip


@pytest.mark.covers("SEC-02")
@settings(max_examples=150)
@given(LINES, SOME_RULES, SOME_RULES, SOME_RULES, st.sampled_from(["deny", "ask"]), SOME_RULES)
def test_added_ask_or_deny_rule_never_allows_more(
    line: str, allow: list[str], ask: list[str], deny: list[str], effect: Effect, more: list[str]
) -> None:
    rules = RuleSet.build(allow=allow, ask=ask, deny=deny)
    tightened = rules + RuleSet(tuple(parse_rule(text, effect) for text in more))

    async def both() -> tuple[PermissionDecision, PermissionDecision]:
        return await shell(line, rules=rules), await shell(line, rules=tightened)

    before, after = run(both())

    assert ORDER[after.outcome] >= ORDER[before.outcome]


@settings(max_examples=100)
@given(st.sampled_from(["notes.txt", "src/app.py", ".env", "../x", "passwd"]), SOME_RULES, SOME_RULES, SOME_RULES)
def test_added_deny_rule_never_allows_more_for_paths(
    path: str, allow: list[str], deny: list[str], more: list[str]
) -> None:
    arguments = {"path": path, "content": ""}

    async def both() -> tuple[PermissionDecision, PermissionDecision]:
        return (
            await decide_call("write_file", arguments, allow=allow, deny=deny),
            await decide_call("write_file", arguments, allow=allow, deny=[*deny, *more]),
        )

    before, after = run(both())

    assert ORDER[after.outcome] >= ORDER[before.outcome]


PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                " ", "\n", "\t", ";", "&", "|", "(", ")", "{", "}", "$(", "`", '"', "'", "\\", "<", ">", "<<EOF\n", "\nEOF\n", "${", "}",
                "$((", "))", "[[", "]]", "if ", "fi", "do ", "done", "case ", "esac", "$x", "#", "!", "*", "?", "[", "]", "~", "=", "git",
                "status", "npm test", "\x00", "\x1b", "\u202e", "\ud800", "é", "\u00a0", "-", "/", "..", "eval ", "sudo ", "xargs ", "find . -exec ",
            ]
        ),
        st.text(max_size=4),
    ),
    max_size=20,
).map("".join)  # fmt: skip


@settings(max_examples=300)
@given(PIECES)
def test_garbage_is_never_allowed(line: str) -> None:
    decision = run(shell(line, "shell(git status)", "shell(npm test)"))

    commands = [[word.text for word in unit.words] for unit in analyze(line).units if not unit.is_unrestricted]
    if decision.outcome == "allow":
        assert all(command in (["git", "status"], ["npm", "test"]) for command in commands)


@settings(max_examples=150)
@given(st.text(max_size=300) | st.binary(max_size=60).map(lambda b: b.decode("utf-8", "surrogateescape")))
def test_arbitrary_text_does_not_crash(text: str) -> None:
    run(shell(text, "shell"))
    run(decide_call("read_file", {"path": text}, deny=["read_file(private/**)"]))
    compile_command_pattern(text)
    compile_path_pattern(text)


@settings(max_examples=150)
@given(
    st.lists(
        st.text(st.characters(exclude_categories=("C", "Z"), include_characters=" "), max_size=8),
        min_size=1,
        max_size=5,
    )
)
def test_quoted_words_match_only_themselves(texts: list[str]) -> None:
    assume(texts[0])
    words = [Word(text, text) for text in texts]
    pattern = compile_command_pattern(quote(texts))

    assert not pattern.problem
    assert pattern.exact
    assert matches_exactly(pattern, words)
    assert not matches_exactly(pattern, [*words, Word("x", "x")])
    assert not matches_exactly(pattern, [Word(texts[0] + "x", ""), *words[1:]])


PARTS = st.lists(st.sampled_from(["a", "b", "ab", "src", "x.py", ".env"]), min_size=1, max_size=5)


@settings(max_examples=100)
@given(PARTS, PARTS)
def test_path_pattern_matches_whole_components(pattern: list[str], path: list[str]) -> None:
    compiled = compile_path_pattern("/".join(pattern))

    assert matches(compiled.parts, tuple(path)) == (pattern == path)
    assert matches(compiled.parts, tuple(path), include_descendants=True) == (path[: len(pattern)] == pattern)
    assert matches(compile_path_pattern("/".join(pattern) + "/**").parts, tuple(path)) == (
        path[: len(pattern)] == pattern
    )
    assert matches(compile_path_pattern("**/" + "/".join(pattern)).parts, tuple(path)) == (
        path[-len(pattern) :] == pattern
    )
