"""Decisions about long lines and long arguments: the work is linear, deny rules apply to every part, and nothing searches the disk."""

import cProfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given, strategies as st

from mainspring.env import LocalEnv, WalkResult
from mainspring.env.memory import MemoryEnv
from mainspring.permissions import PermissionDecision, Permissions
from mainspring.permissions.command_patterns import compile_command_pattern, may_match_command
from mainspring.shell_analysis import wildcards
from mainspring.shell_analysis.syntax import Word
from tests.rows import each_row
from tests.unit.permissions.harness import TOOLS, project

pytestmark = pytest.mark.covers("SEC-01")

T = TypeVar("T")

RULES: dict[str, Any] = {
    "allow": ["shell(git *)", "shell(npm test *)", "shell(cat src/*)", "write_file(src/**)"],
    "ask": ["shell(git push *)"],
    "deny": ["read_file(private/**)", "shell(rm -rf *)", "shell(curl ** --force)"],
}


def repeat(text: str) -> Callable[[int], str]:
    return lambda size: (text * (size // len(text) + 1))[: size // len(text) * len(text)]


def count(text: str) -> Callable[[int], str]:
    """Return a function that repeats a text with a number in it."""
    return lambda size: "".join(text.format(i) for i in range(size // len(text.format(1000))))


LINES: dict[str, tuple[str, Callable[[int], str], str]] = {
    "same words": ("ls ", repeat("a "), ""),
    "words": ("ls ", count("w{} "), ""),
    "words of an unknown program": ("foo ", count("w{} "), ""),
    "words of a program that runs others": ("docker run x ", count("w{} "), ""),
    "first word of a rule": ("docker run x ", repeat("curl "), ""),
    "paths": ("cat ", count("src/f{}.py "), ""),
    "paths to write": ("rm ", count("src/f{}.py "), ""),
    "options": ("git log ", count("--x{} "), ""),
    "options with paths": ("foo ", count("--x{}=a/b "), ""),
    "colons": ("foo a/", repeat("b:"), ""),
    "tabs": ("ls", repeat("\t"), "a"),
    "words after tabs": ("ls", repeat("\ta"), ""),
    "quotes": ("echo ", repeat("'a' "), ""),
    "one quoted word": ("python -c '", repeat("open(a/b.c) "), "'"),
    "open quote": ("echo '", repeat("a b "), ""),
    "pipes": ("a", repeat("|a"), ""),
    "semicolons": ("ls a", repeat("; ls a"), ""),
    "conditions": ("a", repeat(" && a"), ""),
    "lines": ("ls", count("\ncat f{}"), ""),
    "redirections": ("echo", repeat(" >a"), ""),
    "redirections to several files": ("echo", count(" >a{}"), ""),
    "here-document": ("cat > f <<'EOF'\n", repeat("a b/c d\n"), "EOF"),
    "here-documents": ("ls", count("\ncat <<'E{0}'\nx\nE{0}"), ""),
    "comments": ("ls", repeat("\n# a b"), ""),
    "assignments": ("ls", count("; v{}=a"), ""),
    "variables": ("a=1; echo ", repeat("$a "), ""),
    "substitutions": ("echo ", repeat("$(ls) "), ""),
    "backquotes": ("echo `x` ", count("src/f{} "), ""),
    "wildcards": ("ls ", repeat("* "), ""),
    "several wildcards": ("cat ", count("src/a{}* "), ""),
    "wildcards in an unparsed line": ("echo `x` ", count("src/a{}* "), ""),
    "words of a loop": ("for f in ", count("a{} "), "; do cat $f; done"),
    "commands of a loop": ("for f in a b; do cat $f", repeat("; cat $f"), "; done"),
    "commands of find": ("find . ", repeat("-exec ls {} \\; "), ""),
    "code of a shell": ("bash -c '", repeat("ls; "), "'"),
    "changed folders": ("ls", count("; cd d{}"), ""),
    "links": ("ls", count("; ln -s a{0} b{0}"), ""),
    "settings of git": ("git ", count("-c a.b{}=c "), "status"),
    "hosts": ("echo ", count("http://h{}.com/ "), ""),
    "deep paths": ("cat ", count("d{0}/" + "d{0}/" * 40 + " "), ""),
}
MAX_CALLS = 300_000
"""Maximum number of function calls for 1,400 characters."""


async def decide_line(line: str, *, env: Any = None, advise: bool = False, **rules: Any) -> PermissionDecision:
    call = {"command": line}
    return await Permissions(**(rules or RULES)).decide(
        "shell", call, env=env or project(), definition=TOOLS["shell"], advise=advise
    )


async def count_calls(line: str, *, advise: bool) -> int:
    profile = cProfile.Profile()
    with profile:
        await decide_line(line, advise=advise)
    return sum(entry.callcount for entry in profile.getstats())


@each_row("kind", LINES)
async def test_work_grows_linearly_with_a_line(kind: str) -> None:
    start, middle, end = LINES[kind]

    calls = [await count_calls(start + middle(size) + end, advise=False) for size in (700, 1_400)]

    assert calls[1] < MAX_CALLS
    assert calls[1] < 3 * calls[0] + 10_000


@each_row("kind", ["words", "paths to write", "semicolons", "links", "hosts", "redirections to several files"])
async def test_work_of_suggestions_grows_linearly(kind: str) -> None:
    start, middle, end = LINES[kind]

    calls = [await count_calls(start + middle(size) + end, advise=True) for size in (500, 1_000)]

    assert calls[1] < 3 * calls[0] + 10_000
    assert calls[1] < 2 * MAX_CALLS


@each_row(
    "line",
    [
        "cat " + count("w{} ")(10_000) + "private/x",
        "cat " + count("w{} ")(60_000) + "private/x",
        "echo `x` " + count("w{} ")(10_000) + "src/../private/x",
        "ls" + repeat("; ls")(50_000) + "; rm -rf x",
        "docker run " + count("w{} ")(50_000) + "rm -rf x",
        "echo" + count(" >a{}")(10_000) + "; rm -rf x",
    ],
)
async def test_deny_rule_applies_to_the_end_of_a_long_line(line: str) -> None:
    assert (await decide_line(line)).outcome == "deny"


async def test_line_with_too_many_commands_or_redirections_asks() -> None:
    for line in ("ls; " * 250 + "ls", "echo" + " >a" * 250):
        decision = await decide_line(line)
        assert decision.outcome == "ask"
        assert "it contains more than 200 commands and redirections" in decision.reason


async def test_long_suggestion_is_not_offered() -> None:
    decision = await decide_line(count("foo{}; ")(400) + "foo", advise=True)
    assert decision.outcome == "ask"
    assert decision.advice == ()


@given(
    st.sampled_from(["rm *", "** rm", "git ** --force", "a * b", "a ** b c", "/bin/rm x", "x=*", "?m -r*", "**"]),
    st.lists(
        st.builds(
            lambda text, splits: Word(text, text, splits),
            st.sampled_from(
                [
                    "rm",
                    "git",
                    "--force",
                    "a",
                    "b",
                    "c",
                    "/bin/rm",
                    "RM.exe",
                    "x=1",
                    "x=\0",
                    "\0",
                    "\1m",
                    "\4",
                    "r\0",
                    "-rf",
                ]
            ),
            st.booleans(),
        ),
        min_size=1,
        max_size=6,
    ),
)
def test_command_at_any_word_matches_like_the_rest_of_the_line(pattern: str, words: list[Word]) -> None:
    compiled = compile_command_pattern(pattern)
    answers = {may_match_command(compiled, words[start:]) for start in range(len(words))}

    expected = next(answer for answer in ("yes", "maybe", "no") if answer in answers)
    assert may_match_command(compiled, words, anywhere=True) == expected


@given(st.text("ab\0\1", max_size=6), st.text("ab", max_size=6))
def test_wildcards_match_known_text_like_unknown_text(pattern: str, text: str) -> None:
    # A piece that matches no text makes `may_match` compare character by character.
    assert wildcards.may_match(pattern, text) == wildcards.fullmatch(pattern, text)


class WalkCounter(MemoryEnv):
    """An environment that records the folders that are walked."""

    walked: list[str]

    async def walk(self, path: str, **options: Any) -> WalkResult:
        self.walked.append(f"{path} {options['limit']}")
        return await super().walk(path, **options)


@each_row(
    "line, rules, walked",
    [
        ("grep -r a /", {"deny": ["read_file(private/**)"]}, []),
        ("rg a ~ /etc", {"deny": ["read_file(private/**)"]}, []),
        ("grep -r a /", {"allow": ["shell(grep *)"], "deny": ["read_file(private/**)"]}, ["/ 5000"]),
        ("grep -r a /etc", {"allow": ["scope:fs-read(/etc/**)"], "deny": ["read_file(private/**)"]}, ["/etc 5000"]),
        ("grep -r a src", {"deny": ["read_file(private/**)"]}, ["/project/src 20000"]),
    ],
)
async def test_decision_does_not_search_the_disk(line: str, rules: dict[str, Any], walked: list[str]) -> None:
    env = WalkCounter({"src/a": "", "/etc/hosts": ""})
    env.walked = []

    await decide_line(line, env=env, **rules)

    assert env.walked == walked


class HopCounter(LocalEnv):
    """An environment that counts the threads that work on files."""

    hops = 0

    async def _in_thread(self, work: Callable[[], T]) -> T:
        self.hops += 1
        return await super()._in_thread(work)


@each_row(
    "line, hops",
    [
        ("git status", 4),
        ("ls -la src", 2),
        ("python -m pytest -q tests", 0),
        ("cat a | grep b | head", 5),
        ("cat " + " ".join(f"src/f{i}.py" for i in range(100)), 3),
        ("cat /etc/nothing" + "; cat a" * 50, 110),
    ],
)
async def test_files_of_a_decision_are_checked_in_few_threads(line: str, hops: int, tmp_path: Path) -> None:
    (tmp_path / ".git/objects").mkdir(parents=True, exist_ok=True)
    (tmp_path / ".git/refs").mkdir(exist_ok=True)
    (tmp_path / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / "src").mkdir(exist_ok=True)
    env = HopCounter(tmp_path)
    permissions = Permissions()
    await permissions.decide("shell", {"command": "true"}, env=env, definition=TOOLS["shell"])
    env.hops = 0

    await permissions.decide("shell", {"command": line}, env=env, definition=TOOLS["shell"])

    assert env.hops <= hops


async def test_check_in_a_thread_uses_the_methods_of_a_subclass(tmp_path: Path) -> None:
    class OtherEnv(LocalEnv):
        async def realpath(self, path: str) -> str:
            await wait()
            return "/elsewhere"

    async def wait() -> None:
        await LocalEnv.realpath(env, ".")  # another thread, as a remote environment would wait

    env = OtherEnv(tmp_path)
    assert await env.check_in_thread(lambda: env.realpath("a")) == "/elsewhere"


async def test_check_in_a_thread_waits_only_for_files(tmp_path: Path) -> None:
    env = LocalEnv(tmp_path)
    assert await env.check_in_thread(lambda: env.check_in_thread(lambda: env.realpath("."))) == str(tmp_path.resolve())
    with pytest.raises(FileNotFoundError):
        await env.check_in_thread(lambda: env.stat("missing"))
    with pytest.raises(RuntimeError, match="may wait only for methods that read files"):
        await env.check_in_thread(_suspend)


async def _suspend() -> None:
    class Once:
        def __await__(self) -> Any:
            yield

    await Once()
