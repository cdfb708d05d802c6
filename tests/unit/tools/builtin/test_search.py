"""`glob`, `grep`, and `list_files`: the same results with and without ripgrep."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest

from mainspring.env import CapturedOutput, LocalEnv, MemoryEnv, ProcessResult
from mainspring.errors import PermissionDeniedError
from mainspring.tools import Tool, ToolContext, ToolErrorCode, ToolResult
from mainspring.tools.builtin import glob, grep, list_files
from tests.requires import on_posix, skip_missing

FILES: dict[str, str | bytes] = {
    ".gitignore": "build/\n*.log\n!keep.log\n/top.txt\n",
    "src/.gitignore": "gen_*\n",
    "src/a.py": "import os\nfoo = 1\n\ndef bar():\n    foo()\n",
    "src/gen_x.py": "foo\n",
    "src/sub/b.ts": "const foo = 2;\r\nFOO\r\nlast foo",
    "src/top.txt": "foo\n",
    "build/o.js": "foo\n",
    "build/in/o.log": "foo\n",
    "x.log": "foo\n",
    "keep.log": "foo\n",
    "top.txt": "foo\n",
    ".git/config": "foo\n",
    ".github/w.yml": "on: foo\n",
    "node/.ignore": "z*\n",
    "node/z1": "foo\n",
    "node/y1": "foo\n",
    "nested/.git/HEAD": "foo\n",
    "nested/a.log": "foo\n",
    "app/[id]/p.tsx": "foo bracket\n",
    "-dash": "foo dash --files\n",
    "bin": b"foo\0\n",
    "late": b"foo\n" + b"x\n" * 50_000 + b"\0",
    "u16": "\ufefffoo sixteen\n".encode("utf-16-le"),
    "bom": "\ufefffoo bom\n",
    "bad": b"foo \xff\xfe x\n",
    "long": "a" * 3000 + "foo" + "b" * 3000 + "\n",
    "sub.git/x": "foo\n",
    "col:1:x.txt": "foo\n",
    "brace.go": "func main() {\n\tvar x interface{} = foo\n}\n",
}


class EnvWithoutRipgrep(LocalEnv):
    """The local environment, as if ripgrep were not installed."""

    async def find_program(self, name: str) -> str | None:
        return None if name == "rg" else await super().find_program(name)


class EnvWithFakeRipgrep(LocalEnv):
    """The local environment with a fixed ripgrep result."""

    answer = ProcessResult(exit_code=0)

    async def find_program(self, name: str) -> str | None:
        return "/usr/bin/rg" if name == "rg" else await super().find_program(name)

    async def run(self, *args: Any, **kwargs: Any) -> ProcessResult:
        return self.answer


@pytest.fixture
def tree(local_env: LocalEnv, project: Path) -> Path:
    for name, content in FILES.items():
        file = project / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    Path(os.fsdecode(bytes(project) + b"/na\xffme")).write_bytes(b"foo raw\n")
    (project / "link.py").symlink_to("src/a.py")
    (project / "linked").symlink_to("src")
    return project


@pytest.fixture
def env_without_ripgrep(tree: Path) -> EnvWithoutRipgrep:
    return EnvWithoutRipgrep(tree)


@pytest.fixture
def env_with_fake_ripgrep(tree: Path) -> EnvWithFakeRipgrep:
    return EnvWithFakeRipgrep(tree)


@pytest.fixture
async def both_contexts(
    ctx: ToolContext, env_without_ripgrep: EnvWithoutRipgrep
) -> AsyncIterator[tuple[ToolContext, ToolContext]]:
    if await ctx.env.find_program("rg") is None:
        skip_missing("ripgrep")
    yield ctx, ToolContext(env=env_without_ripgrep)
    await env_without_ripgrep.aclose()


async def run_on_both(both_contexts: tuple[ToolContext, ToolContext], tool: Tool, **arguments: Any) -> ToolResult:
    first, second = [await tool(ctx, **arguments) for ctx in both_contexts]
    assert first.text == second.text
    assert (first.metadata, first.is_error) == (second.metadata, second.is_error)
    return first


GREPS: list[dict[str, Any]] = [
    {"pattern": "foo"},
    {"pattern": "foo", "output_mode": "files"},
    {"pattern": "foo", "output_mode": "count"},
    {"pattern": "foo", "include_ignored": True, "output_mode": "files"},
    {"pattern": "foo", "context": 1},
    {"pattern": "foo", "head_limit": 3, "offset": 2},
    {"pattern": "foo", "head_limit": 0},
    {"pattern": "foo", "offset": 1000},
    {"pattern": "FOO", "ignore_case": True, "path": "src"},
    {"pattern": "^FOO$"},
    {"pattern": "foo$", "glob": "*.{ts,py}"},
    {"pattern": "foo", "glob": "src/**/*.ts"},
    {"pattern": "foo", "glob": "[kl]*"},
    {"pattern": "foo", "path": "src/**/*.ts"},
    {"pattern": "foo", "path": "src/*"},
    {"pattern": "foo", "path": "linked"},
    {"pattern": "foo", "path": "link.py"},
    {"pattern": "foo", "path": "app/[id]"},
    {"pattern": "foo", "path": "build"},
    {"pattern": "foo", "path": "build/o.js"},
    {"pattern": "foo", "path": ".git"},
    {"pattern": "foo", "path": "bin"},
    {"pattern": "foo", "path": "u16"},
    {"pattern": "foo", "path": "-dash"},
    {"pattern": "-dash"},
    {"pattern": "--files"},
    {"pattern": "bar(", "literal": True},
    {"pattern": "$", "path": "node"},
    {"pattern": "def bar\\(\\):\\n    foo"},
    {"pattern": "def bar\\(\\):\n    foo", "context": 1},
    {"pattern": "def bar.*foo", "multiline": True},
    {"pattern": "def bar.*foo", "multiline": True, "output_mode": "count"},
    {"pattern": "foo(?=\\()"},
    {"pattern": "(?<!= )foo\\b", "output_mode": "files"},
    {"pattern": "(?P<x>f)oo", "path": "src"},
    {"pattern": "(?<x>f)oo", "path": "src"},
    {"pattern": "[[:upper:]]{3}"},
    {"pattern": "main() {"},
    {"pattern": "main\\(\\) {"},
    {"pattern": "interface{}"},
    {"pattern": "o{2}", "path": "src"},
    {"pattern": "\\x{66}oo\\b", "path": "src"},
    {"pattern": "zzz"},
    {"pattern": "foo", "path": "nope"},
    {"pattern": "foo", "path": "nope/*"},
    {"pattern": "foo", "glob": "{a"},
    {"pattern": "foo", "glob": "../*"},
]


@pytest.mark.covers("TOL-15")
@pytest.mark.parametrize("arguments", GREPS, ids=str)
async def test_grep_gives_the_same_result_without_ripgrep(
    both_contexts: tuple[ToolContext, ToolContext], arguments: dict[str, Any]
) -> None:
    await run_on_both(both_contexts, grep, **arguments)


ENCODED = {
    "latin1.txt": "première ligne\nle café de Zoë, à côté\nfin\n".encode("latin-1"),
    "legacy/page.html": "<p>Größe: fünf Äpfel für Jürgen</p>\r\ncaf\r\n".encode("cp1252"),
    "legacy/ru.txt": "Привет, мир. Это обычный русский текст\nо кафе и о погоде\n".encode("cp1251"),
    "legacy/ja.txt": "日本語のテキストです。これは普通の文章です。\nカフェに行きます。\n".encode("cp932"),
    "win.txt": "\ufeffle café\r\nWindows\r\n".encode("utf-16-le"),
    "big.txt": "\ufeffle café\nbig\n".encode("utf-16-be"),
    "utf8.txt": "le café\nutf8\n".encode(),
    "wide.txt": "\ufeffle café\nwide32\n".encode("utf-32-le"),
    "widest.txt": "\ufeffle café\nwide32\n".encode("utf-32-be"),
    "mostly.txt": "le café crème à côté".encode() + b"\xff\n",
    "mac.txt": b"eins\rzwei needle\rdrei",
    "picture.png": b"\x89PNG\r\n\x1a\n\0\0caf\xe9" + bytes(range(256)),
}


@pytest.fixture
def encoded(tree: Path) -> None:
    for name, data in ENCODED.items():
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_bytes(data)


@pytest.mark.usefixtures("encoded")
@pytest.mark.parametrize(
    "arguments",
    [
        {"pattern": "café"},
        {"pattern": "CAFÉ", "ignore_case": True},
        {"pattern": "café", "literal": True, "output_mode": "count"},
        {"pattern": "caf.", "output_mode": "files"},
        {"pattern": "^le caf"},
        {"pattern": "\\w+ü\\w*", "context": 1},
        {"pattern": "[^a-z ]fel"},
        {"pattern": "кафе"},
        {"pattern": "カフェ"},
        {"pattern": "Jürgen</p>\n^caf"},
        {"pattern": "é de Zoë.*fin", "multiline": True},
        {"pattern": "café", "path": "latin1.txt"},
        {"pattern": "caf", "path": "picture.png"},
        {"pattern": "fünf", "glob": "*.html"},
        {"pattern": "fünf", "path": "legacy"},
        {"pattern": "needle", "context": 1},
    ],
    ids=str,
)
async def test_grep_decodes_files_in_both(
    both_contexts: tuple[ToolContext, ToolContext], arguments: dict[str, Any]
) -> None:
    await run_on_both(both_contexts, grep, **arguments)


@pytest.mark.usefixtures("encoded")
async def test_lines_that_end_in_cr_are_found_as_read_file_numbers_them(
    both_contexts: tuple[ToolContext, ToolContext],
) -> None:
    result = await run_on_both(both_contexts, grep, pattern="needle", path="mac.txt", context=1)

    assert result.text == "1-eins\n2:zwei needle\n3-drei\n(1 matching line in 1 file)"


@pytest.mark.usefixtures("encoded")
@pytest.mark.parametrize(("name", "encoding"), [("wide.txt", "utf-32-le"), ("widest.txt", "utf-32-be")])
async def test_grep_reads_utf_32_as_read_file_does_if_the_file_is_named(
    both_contexts: tuple[ToolContext, ToolContext], name: str, encoding: str
) -> None:
    """ripgrep treats such files as binary, so a search in a folder leaves them out."""
    for pattern in ("wide32", "wide\\d+", "WIDE32"):
        named = await run_on_both(both_contexts, grep, pattern=pattern, path=name, ignore_case=True)
        assert named.text == f"2:wide32\n(1 matching line in 1 file; decoded {name} as {encoding})"
        assert (await run_on_both(both_contexts, grep, pattern=pattern, ignore_case=True)).text.startswith(
            "(no matches"
        )


@pytest.mark.usefixtures("encoded")
async def test_grep_reads_the_encodings_that_read_file_reads_and_reports_them(
    both_contexts: tuple[ToolContext, ToolContext],
) -> None:
    result = await run_on_both(both_contexts, grep, pattern="café")

    assert result.text == (
        "big.txt\n1:le café\n\nlatin1.txt\n2:le café de Zoë, à côté\n\nmostly.txt\n1:le café crème à côté\ufffd\n\n"
        "utf8.txt\n1:le café\n\nwin.txt\n1:le café\n"
        "(5 matching lines in 5 files; decoded big.txt as utf-16-be, latin1.txt as cp1252, win.txt as utf-16-le; "
        "not searched: ignored files, binary files and .git)"
    )


@pytest.mark.parametrize(
    "arguments", [{"pattern": "bar("}, {"pattern": "*a"}, {"pattern": "[a"}, {"pattern": "a)"}], ids=str
)
async def test_invalid_pattern_is_an_error_in_both(
    both_contexts: tuple[ToolContext, ToolContext], arguments: dict[str, Any]
) -> None:
    for ctx in both_contexts:
        result = await grep(ctx, **arguments)
        assert result.code is ToolErrorCode.VALIDATION_ERROR
        assert result.text.startswith("pattern is not a valid regular expression: ")
        assert "literal=true" in result.text
        assert "\n" not in result.text


@pytest.mark.covers("TOL-16")
@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.py", ["src/a.py"]),
        ("src/*.py", ["src/a.py"]),
        ("./*.py", []),
        ("src/**/*.{py,ts}", ["src/a.py", "src/sub/b.ts"]),
        ("**/b.ts", ["src/sub/b.ts"]),
        ("src/**", ["src/.gitignore", "src/a.py", "src/sub/b.ts", "src/top.txt"]),
        ("src/", ["src/.gitignore", "src/a.py", "src/sub/b.ts", "src/top.txt"]),
        ("top.txt", ["src/top.txt"]),
        ("[!a-z.]*", ["-dash"]),
        ("?in", ["bin"]),
        ("app/[id]/p.tsx", ["app/[id]/p.tsx"]),
        ("app/\\[id\\]/*", ["app/[id]/p.tsx"]),
        ("build/*", ["build/o.js"]),
        ("build/**", ["build/in/o.log", "build/o.js"]),
        ("na*", ["na\\xffme"]),
        ("-*", ["-dash"]),
        ("**/sub", ["src/sub/"]),
        (".*", [".gitignore", "node/.ignore", "src/.gitignore"]),
        ("{keep.log,long}", ["keep.log", "long"]),
        ("*.nope", []),
    ],
)
async def test_glob_patterns(both_contexts: tuple[ToolContext, ToolContext], pattern: str, expected: list[str]) -> None:
    result = await run_on_both(both_contexts, glob, pattern=pattern)
    assert not result.is_error
    lines = result.text.split("\n")
    assert [line for line in lines if not line.startswith(("(", "No files"))] == expected


@pytest.mark.covers("TOL-16")
@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("src/*.py", [1]),
        ("./*", [1]),
        ("{src,src/*}/*.ts", [3]),
        ("src/**/*.py", [None]),
        ("*.py", [None]),
        ("src/nope*", [1, None]),
    ],
)
async def test_glob_searches_only_as_deep_as_its_pattern(
    env_without_ripgrep: EnvWithoutRipgrep, monkeypatch: pytest.MonkeyPatch, pattern: str, expected: list[int | None]
) -> None:
    depths: list[int | None] = []
    walk = env_without_ripgrep.walk

    async def record_walk(path: str, **options: Any) -> Any:
        depths.append(options["depth"])
        return await walk(path, **options)

    monkeypatch.setattr(env_without_ripgrep, "walk", record_walk)
    await glob(ToolContext(env=env_without_ripgrep), pattern=pattern)
    assert depths == expected


@pytest.mark.covers("TOL-16")
async def test_glob_results_are_paged(both_contexts: tuple[ToolContext, ToolContext]) -> None:
    first = await run_on_both(both_contexts, glob, pattern="*", limit=2)
    assert first.text == "-dash\n.github/w.yml\n(files 1-2 of 21; continue with offset=2)"
    assert (await run_on_both(both_contexts, glob, pattern="*", limit=2, offset=20)).text == "u16\n(files 21-21 of 21)"
    assert "(21 files)" in (await run_on_both(both_contexts, glob, pattern="*", limit=0)).text


@pytest.mark.parametrize("pattern", ["{a,b", "x[", "*/../../etc/*"])
async def test_invalid_glob_is_an_error(both_contexts: tuple[ToolContext, ToolContext], pattern: str) -> None:
    assert (await run_on_both(both_contexts, glob, pattern=pattern)).code is ToolErrorCode.VALIDATION_ERROR


async def test_missing_folder_is_an_error(both_contexts: tuple[ToolContext, ToolContext]) -> None:
    result = await run_on_both(both_contexts, glob, pattern="nope/*.py")
    assert (result.code, result.text) == (ToolErrorCode.NOT_FOUND, "No files match nope/*.py: nope does not exist.")


async def test_ignore_file_above_the_project_is_not_applied(
    both_contexts: tuple[ToolContext, ToolContext], tree: Path
) -> None:
    (tree.parent / ".gitignore").write_text("*\n")  # For example, a home folder under version control.
    assert "src/a.py" in (await run_on_both(both_contexts, glob, pattern="*.py")).text
    assert "src/a.py" in (await run_on_both(both_contexts, grep, pattern="foo", output_mode="files")).text


@pytest.mark.covers("TOL-15")
async def test_grep_reports_omissions_and_how_to_continue(ctx: ToolContext, tree: Path) -> None:
    none = await grep(ctx, pattern="zzz")
    assert none.text == (
        "(no matches in .; not searched: ignored files, binary files and .git; include_ignored=true adds ignored files)"
    )
    assert (none.metadata["outcome"], none.is_error) == ("none", False)
    page = await grep(ctx, pattern="foo", head_limit=2)
    assert "lines 1-2 of 18 matching lines in 16 files; continue with offset=2" in page.text
    long = await grep(ctx, pattern="foo", path="long")
    assert long.text.startswith("1:…(2875 characters) aaa")
    assert "…(2628 more characters)" in long.text


@pytest.mark.covers("TOL-15")
async def test_grep_returns_250_lines_by_default(ctx: ToolContext, project: Path) -> None:
    (project / "many").write_text("x\n" * 300)
    assert (await grep(ctx, pattern="x")).metadata["shown"] == 250
    assert (await grep(ctx, pattern="x", head_limit=0)).metadata["shown"] == 300
    assert (await grep(ctx, pattern="x", offset=290)).metadata["shown"] == 10


async def test_context_lines_differ_from_matches(ctx: ToolContext, tree: Path) -> None:
    result = await grep(ctx, pattern="foo", path="src/a.py", context=1)
    assert result.text.startswith("1-import os\n2:foo = 1\n3-\n4-def bar():\n5:    foo()\n(2 matching lines")
    gap = await grep(ctx, pattern="import|foo\\(", path="src/a.py", context=1)
    assert gap.text.startswith("1:import os\n2-foo = 1\n--\n4-def bar():\n5:    foo()\n")


async def test_files_blocked_by_permission_rules_are_withheld(
    both_contexts: tuple[ToolContext, ToolContext], tree: Path
) -> None:
    for ctx in both_contexts:
        ctx.env.path_filter = lambda path: not path.endswith("/src/a.py")
    result = await run_on_both(both_contexts, grep, pattern="foo", path="src", output_mode="files")
    assert "a.py" not in result.text
    assert "1 file with matches withheld by the permission rules" in result.text
    assert result.metadata["withheld"] == 1
    assert "2:foo" in (await grep(both_contexts[0], pattern="foo", path="src/a.py")).text  # Allowed by name.


async def test_names_blocked_by_permission_rules_are_withheld(
    both_contexts: tuple[ToolContext, ToolContext], tree: Path
) -> None:
    for ctx in both_contexts:
        ctx.env.path_filter = lambda path: not path.endswith(("/src/a.py", "/src/sub", "x.log"))
    found = await run_on_both(both_contexts, glob, pattern="src/*.py")
    assert found.text == (
        "No files match src/*.py.\n(not searched: ignored files and .git; include_ignored=true adds ignored files)\n"
        "(1 name withheld by the permission rules)"
    )
    assert found.metadata["withheld"] == 1
    listed = await run_on_both(both_contexts, list_files, path="src")
    assert "a.py" not in listed.text
    assert "sub" not in listed.text
    assert "2 names withheld by the permission rules" in listed.text
    assert "x.log" not in (await list_files(both_contexts[0])).text


@on_posix
async def test_file_names_with_newlines_are_escaped(both_contexts: tuple[ToolContext, ToolContext], tree: Path) -> None:
    for name in ("two\nlines", "\n./a", "x: binary file matches\ny", "a\n--\nb"):
        (tree / "odd" / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / "odd" / name).write_bytes(b"foo\n")
    (tree / "odd" / "bin\nary").write_bytes(b"foo\n" + b"x\n" * 50_000 + b"\0")
    for mode in ("files", "count", "content"):
        await run_on_both(
            both_contexts, grep, pattern="foo", path="odd", output_mode=mode, context=1 if mode == "content" else 0
        )
    result = await run_on_both(both_contexts, grep, pattern="foo", path="odd", output_mode="files")
    assert result.text.startswith("odd/\\x0a./a\nodd/a\\x0a--\\x0ab\nodd/two\\x0alines\nodd/x: binary")


async def test_nul_in_a_pattern_is_searched(both_contexts: tuple[ToolContext, ToolContext], tree: Path) -> None:
    assert (await run_on_both(both_contexts, grep, pattern="o\0", path="bin")).metadata["matches"] == 1
    assert (await run_on_both(both_contexts, grep, pattern="o\0", path="bin", literal=True)).metadata["matches"] == 1
    assert (await run_on_both(both_contexts, grep, pattern=".o\0", path="bin", literal=True)).metadata["matches"] == 0
    rejected = await run_on_both(both_contexts, grep, pattern="\ud800")
    assert rejected.code == ToolErrorCode.VALIDATION_ERROR
    for arguments in ({"path": "a\0b"}, {"glob": "a\0b"}, {"glob": "\ud800"}, {"path": "\ud800"}):
        result = await grep(both_contexts[0], pattern="foo", **arguments)
        assert result.is_error or not result.metadata["matches"]


async def test_huge_file_is_skipped_without_ripgrep_and_reported(
    env_without_ripgrep: EnvWithoutRipgrep, tree: Path
) -> None:
    (tree / "huge").write_bytes(b"foo\n" * (17 << 20))
    with open(tree / "huge_binary", "wb") as file:
        file.truncate(65 << 20)
    result = await grep(ToolContext(env=env_without_ripgrep), pattern="foo", glob="huge*")
    assert result.metadata["outcome"] == "incomplete"
    assert result.metadata["problems"] == ["huge: more than 67108864 bytes, which only ripgrep searches"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"exit_code": 143, "timed_out": True}, "INCOMPLETE: stopped after 30s"),
        ({"exit_code": 137, "overflowed": True}, "INCOMPLETE: stopped because too much matches"),
        ({"exit_code": 143, "cancelled": True}, "INCOMPLETE: cancelled"),
        ({"exit_code": 139}, "INCOMPLETE: ripgrep ended with status 139"),
    ],
)
async def test_interrupted_search_is_reported_as_incomplete(
    env_with_fake_ripgrep: EnvWithFakeRipgrep, answer: dict[str, Any], message: str
) -> None:
    env_with_fake_ripgrep.answer = ProcessResult(**answer)
    result = await grep(ToolContext(env=env_with_fake_ripgrep), pattern="foo")
    assert message in result.text
    assert (result.is_error, result.metadata["outcome"]) == (True, "incomplete")
    listed = await glob(ToolContext(env=env_with_fake_ripgrep), pattern="*")
    assert (listed.is_error, listed.metadata["outcome"]) == (True, "incomplete")


async def test_unreadable_folder_is_reported(
    env_with_fake_ripgrep: EnvWithFakeRipgrep, env_without_ripgrep: EnvWithoutRipgrep, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = b"rg: ./sub: Permission denied (os error 13)\n"
    env_with_fake_ripgrep.answer = ProcessResult(exit_code=2, stderr=CapturedOutput(message, b"", len(message)))
    scandir = os.scandir

    def deny_folder(folder: int) -> Any:
        if os.readlink(f"/proc/self/fd/{folder}").endswith("/sub"):
            raise PermissionError(13, "Permission denied")
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", deny_folder)
    for search_env in (env_with_fake_ripgrep, env_without_ripgrep):
        result = await grep(ToolContext(env=search_env), pattern="foo", path="src")
        assert result.metadata["outcome"] == "incomplete"
        assert "INCOMPLETE: sub: permission denied" in result.text


async def test_search_can_be_cancelled(both_contexts: tuple[ToolContext, ToolContext]) -> None:
    for ctx in both_contexts:
        ctx.signal.cancel()
        assert (await grep(ctx, pattern="foo")).metadata["outcome"] == "incomplete"


async def test_search_without_ripgrep_does_not_block_the_loop(
    env_without_ripgrep: EnvWithoutRipgrep, tree: Path
) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.ensure_future(tick())
    await grep(ToolContext(env=env_without_ripgrep), pattern="foo")
    ticking.cancel()
    assert ticks > 20


async def test_search_tools_work_in_memory() -> None:
    files = {name: content for name, content in FILES.items() if name != "late"}
    ctx = ToolContext(env=MemoryEnv(files))
    assert "src/a.py\n2:foo = 1\n5:    foo()" in (await grep(ctx, pattern="foo", path="src")).text
    assert (await glob(ctx, pattern="*.py")).text == "src/a.py\n(1 file)"
    assert "b.ts" in (await list_files(ctx, path="src", depth=3)).text


async def test_folder_is_listed_as_a_tree(ctx: ToolContext, tree: Path) -> None:
    result = await list_files(ctx, path="src")
    assert result.text == (".gitignore\na.py\nsub/\n  b.ts\ntop.txt\n(4 files, 1 folder; ignored: gen_x.py)")
    top = await list_files(ctx, depth=1, limit=4)
    assert top.text.startswith("-dash\n.github/ (1 inside)\n.gitignore\napp/ (1 inside)\n(14 files, 6 folders; ")
    assert "16 more left out by limit; 9 entries further down, depth=2 shows them; ignored: .git/, build/" in top.text
    assert "link.py@" in (await list_files(ctx, depth=1)).text
    assert "(2 files, 1 folder)" in (await list_files(ctx, path="build")).text
    assert (await list_files(ctx, path="app/[id]")).text == "p.tsx\n(1 file)"


async def test_empty_glob_is_rejected(ctx: ToolContext, tree: Path) -> None:
    result = await glob(ctx, pattern=" ")
    assert result.code is ToolErrorCode.VALIDATION_ERROR
    assert "pattern is empty" in result.text


async def test_list_files_requires_a_folder(ctx: ToolContext, tree: Path) -> None:
    (tree / "empty").mkdir()
    assert (await list_files(ctx, path="empty")).text == "(empty folder)"
    assert "use read_file" in (await list_files(ctx, path="bin")).text
    assert "use glob" in (await list_files(ctx, path="src/*")).text
    missing = await list_files(ctx, path="nope")
    assert (missing.code, missing.text) == (ToolErrorCode.NOT_FOUND, "Cannot list nope: it does not exist.")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [(grep, {"pattern": "foo", "path": "src"}), (glob, {"pattern": "src/*"}), (list_files, {"path": "src"})],
)
async def test_folder_replaced_by_a_link_is_not_searched(
    local_env: LocalEnv, project: Path, tmp_path_factory: pytest.TempPathFactory, tool: Tool, arguments: dict[str, Any]
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "f").write_text("foo")
    (project / "src").symlink_to(outside)
    ctx = ToolContext(env=local_env, paths={"src": str(project / "src")})  # the path that was judged
    with pytest.raises(PermissionDeniedError, match="symbolic link to another place"):
        await tool(ctx, **arguments)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (glob, {"pattern": "Übersicht.md"}),
        (glob, {"pattern": "*sicht*"}),
        (glob, {"pattern": "Ü*", "path": "für 한글"}),
        (glob, {"pattern": "für 한글/*.md"}),
        (grep, {"pattern": "needle", "glob": "Ü*"}),
        (grep, {"pattern": "needle", "glob": "Übersicht.md"}),
        (grep, {"pattern": "needle", "path": "für 한글"}),
        (grep, {"pattern": "needle", "path": "für 한글/Übersicht.md"}),
        (grep, {"pattern": "needle", "path": "für 한글/*.md"}),
        (list_files, {"path": "für 한글"}),
    ],
)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
async def test_accents_of_names_match_however_they_are_composed(
    both_contexts: tuple[ToolContext, ToolContext], project: Path, tool: Tool, arguments: dict[str, str], form: Any
) -> None:
    other = "NFD" if form == "NFC" else "NFC"
    folder = project / normalize(form, "für 한글")
    folder.mkdir()
    (folder / normalize(form, "Übersicht.md")).write_text("needle\n")
    asked = {name: normalize(other, value) for name, value in arguments.items()}
    result = await run_on_both(both_contexts, tool, **asked)
    assert (result.is_error, result.metadata.get("outcome", "matches")) == (False, "matches"), result.text
    assert "sicht.md" in result.text or result.text.startswith("1:needle")
