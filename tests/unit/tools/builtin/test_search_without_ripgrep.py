"""The search without ripgrep: the files that it reads, how much of them, and the files that it may skip."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mainspring.cancellation import CancelToken
from mainspring.env import ConfinedEnv, EditorEnv, LocalEnv, RealPath
from mainspring.env.local_files import LocalFiles
from mainspring.env.protocol import read_files
from mainspring.tools import ToolContext
from mainspring.tools.builtin import grep
from mainspring.tools.support.search.engines import SearchQuery, _Search, compile_regex, required_literal
from tests.requires import on_posix
from tests.unit.tools.builtin.test_search import EnvWithoutRipgrep

BATCH_BYTES = 17 << 20


@pytest.fixture
def plain_env(project: Path) -> EnvWithoutRipgrep:
    return EnvWithoutRipgrep(project)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int | None]]:
    """The files that were read in threads, with the limit of each."""
    recorded: list[tuple[str, int | None]] = []
    read = LocalFiles.read

    def record(self: LocalFiles, path: str, offset: int = 0, limit: int | None = None) -> bytes:
        recorded.append((os.path.basename(path), limit))
        return read(self, path, offset, limit)

    monkeypatch.setattr(LocalFiles, "read", record)
    return recorded


class Editor:
    """An editor with unsaved text by path."""

    def __init__(self, unsaved: dict[str, str]) -> None:
        self.unsaved = unsaved

    async def read(self, path: str) -> str | None:
        return self.unsaved.get(path)

    async def write(self, path: str, text: str) -> bool:
        return False


@pytest.mark.covers("BYD-23")
@pytest.mark.parametrize("size", [0, 70_000], ids=["small", "large"])
async def test_unsaved_text_of_an_editor_is_searched(plain_env: EnvWithoutRipgrep, project: Path, size: int) -> None:
    (project / "typed.py").write_text("x\n" * size)
    (project / "deleted.py").write_text("foo = 1\n" + "x\n" * size)
    (project / "grown.py").write_text("foo = 1\n")
    unsaved = {"typed.py": "foo = 2\n", "deleted.py": "bar\n", "grown.py": "x\n" * 70_000 + "foo = 3\n"}
    env = EditorEnv(plain_env, Editor({str(project / name): text for name, text in unsaved.items()}))
    result = await grep(ToolContext(env=env), pattern="foo")
    assert result.text.startswith("grown.py\n70001:foo = 3\n\ntyped.py\n1:foo = 2\n(")
    found = await read_files(env, ["typed.py", "missing", "grown.py"], limit=4)
    assert [f if isinstance(f, bytes) else type(f) for f in found] == [b"foo ", FileNotFoundError, b"x\nx\n"]
    (project / "same.py").write_bytes(b"a\r\nb")
    env = EditorEnv(plain_env, Editor({str(project / "same.py"): "a\nb"}))
    assert await read_files(env, ["same.py"], limit=2) == [b"a\r"], "the part is not compared with the whole text"


@pytest.mark.covers("OPT-07")
@on_posix
async def test_files_outside_of_a_confined_environment_are_not_read(
    plain_env: EnvWithoutRipgrep, project: Path, tmp_path: Path, reads: list[tuple[str, int | None]]
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "key").write_text("secret\n")
    (project / "a").write_text("secret a\n")
    (project / "link").symlink_to(tmp_path / "outside" / "key")
    (project / "folder").symlink_to(tmp_path / "outside")
    env = ConfinedEnv(plain_env)
    paths = ["../outside/key", "link", "a", str(tmp_path / "outside" / "key"), "folder/key", "a"]
    found = await read_files(env, [*paths, RealPath(f"{project}/folder/key")], limit=100)
    assert [f if isinstance(f, bytes) else "" for f in found] == ["", "", b"secret a\n", "", "", b"secret a\n", ""]
    assert all(isinstance(f, bytes | PermissionError) for f in found)
    assert [name for name, _ in reads if name == "key"] == ["key"], "only the path that has become a link is opened"
    assert "in 1 file;" in (await grep(ToolContext(env=env), pattern="secret")).text


@pytest.mark.covers("TOL-15")
async def test_abort_stops_the_thread_that_reads(
    plain_env: EnvWithoutRipgrep, project: Path, reads: list[tuple[str, int | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        (project / f"f{number:02}").write_text("foo\n")
    ctx = ToolContext(env=plain_env)
    read = LocalFiles.read

    def abort_at_third(self: LocalFiles, path: str, offset: int = 0, limit: int | None = None) -> bytes:
        if path.endswith("f02"):
            ctx.signal.cancel()
        return read(self, path, offset, limit)

    monkeypatch.setattr(LocalFiles, "read", abort_at_third)
    result = await grep(ctx, pattern="foo")
    assert [name for name, _ in reads if name[0] == "f"] == ["f00", "f01", "f02"]
    assert "INCOMPLETE: cancelled)" in result.text


async def test_batch_of_files_needs_little_memory(
    plain_env: EnvWithoutRipgrep, project: Path, reads: list[tuple[str, int | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "large").write_bytes(b"x\n" * 40_000 + b"foo\n")
    with open(project / "huge", "wb") as file:
        file.truncate(65 << 20)
    for number in range(300):
        (project / f"f{number}").write_text("foo\n")
    batches: list[int] = []
    read = plain_env.read_files

    async def record(paths: Sequence[str], *, limit: int, signal: CancelToken | None = None) -> list[bytes | OSError]:
        batches.append(len(paths) * limit if len(paths) > 1 else 0)
        assert limit <= (64 << 20) + 1
        return await read(paths, limit=limit, signal=signal)

    monkeypatch.setattr(plain_env, "read_files", record)
    result = await grep(ToolContext(env=plain_env), pattern="foo", output_mode="count", head_limit=0)
    assert "301 matching lines in 301 files" in result.text
    assert "huge: more than 67108864 bytes" in result.text
    assert max(batches) <= BATCH_BYTES
    assert {limit for name, limit in reads if name == "f7"} == {(1 << 16) + 1}


@on_posix
async def test_special_files_are_errors_and_do_not_block(local_env: LocalEnv, project: Path) -> None:
    os.mkfifo(project / "pipe")
    (project / "folder").mkdir()
    (project / "a").write_text("text")
    found = await read_files(local_env, ["pipe", "/dev/zero", "folder", "/proc/kmsg", "missing", "a"], limit=10)
    assert [str(f) if isinstance(f, OSError) else f for f in found] == [
        f"[Errno 22] it is not a regular file but a fifo: '{project}/pipe'",
        "[Errno 22] it is not a regular file but a device: '/dev/zero'",
        f"[Errno 21] Is a directory: '{project}/folder'",
        "[Errno 22] it is an interface to the kernel or a process, not a file: '/proc/kmsg'",
        f"[Errno 2] No such file or directory: '{project}/missing'",
        b"text",
    ]


async def test_unreadable_file_is_reported_and_the_others_are_searched(
    plain_env: EnvWithoutRipgrep, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        (project / name).write_text("foo\n")
    read = LocalFiles.read

    def deny(self: LocalFiles, path: str, offset: int = 0, limit: int | None = None) -> bytes:
        if path.endswith("/b"):
            raise PermissionError(13, "Permission denied", path)
        return read(self, path, offset, limit)

    monkeypatch.setattr(LocalFiles, "read", deny)
    result = await grep(ToolContext(env=plain_env), pattern="foo", output_mode="files")
    assert result.text.startswith("a\nc\n(2 matching lines in 2 files; ")
    assert "INCOMPLETE: b: permission denied" in result.text


@pytest.mark.parametrize(
    ("pattern", "ignore_case", "literal"),
    [
        ("needle", False, "needle"),
        ("needle", True, "needle"),
        (r"def \w+\(self", False, "(self"),
        (r"^\s*import os$", False, "import os"),
        ("foo|barbaz", False, ""),
        ("(foo)?bar", False, "bar"),
        ("fo+bar*baz", False, "baz"),
        ("fo{2}ba", False, "ba"),
        ("foo(?=barbaz)", False, "foo"),
        ("foo\nquux\r", False, "quux\r"),
        ("größe", False, "größe"),
        ("größe", True, ""),
        ("(?i)stra", False, "stra"),
        (r"\d{3}-\d{4}", False, "-"),
        ("[abc]+", False, ""),
        (r"\x{d800}x", False, ""),
        (r"\x{dcff}x", False, "\udcffx"),
    ],
)
def test_text_that_every_match_contains(pattern: str, ignore_case: bool, literal: str) -> None:
    regex = compile_regex(pattern, literal=False, ignore_case=ignore_case, multiline=False)
    assert required_literal(regex) == literal


PATTERNS = st.lists(
    st.sampled_from([*"akKsſßé.^$|", r"\n", r"\r", r"\s", r"\w+", "[ab]", "[^a]", "(?:ab)", "a?", "K*", "k+", "(?!a)"]),
    min_size=1,
    max_size=6,
).map("".join)
CONTENTS = st.lists(
    st.sampled_from([*"aAkKsSſ\u212aéß\n\r\0", "\r\n", "ab"]).map(str.encode)
    | st.sampled_from([b"\xff", b"\xe2\x82", b"\xff\xfea\0k\0", b"\xef\xbb\xbf"]),
    max_size=12,
).map(b"".join)


@given(pattern=PATTERNS, data=CONTENTS, ignore_case=st.booleans(), multiline=st.booleans(), as_text=st.booleans())
@example(pattern="k", data="\u212a".encode(), ignore_case=True, multiline=False, as_text=False)
@example(pattern="ſ", data=b"S", ignore_case=True, multiline=False, as_text=False)
@example(pattern=r"ab\na", data=b"ab\r\na", ignore_case=False, multiline=True, as_text=False)
@example(pattern="ak", data=b"\xff\xfea\0k\0", ignore_case=False, multiline=False, as_text=False)
def test_skipped_files_contain_no_match(
    pattern: str, data: bytes, ignore_case: bool, multiline: bool, as_text: bool
) -> None:
    regex = compile_regex(pattern, literal=False, ignore_case=ignore_case, multiline=multiline)
    query = SearchQuery(pattern, ignore_case=ignore_case, multiline=multiline, context=1)
    found, expected = [
        _Search(regex, query, as_text, literal).search_files(["a"], [data]) for literal in (required_literal(regex), "")
    ]
    assert found == expected
