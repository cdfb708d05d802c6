"""The search without ripgrep: the files that it reads, how much of them, and the files that it may skip."""

import os
from collections.abc import Sequence
from pathlib import Path
from traceback import walk_tb

import pytest
from hypothesis import example, given, strategies as st

from mainspring.cancellation import CancelToken
from mainspring.env import ConfinedEnv, EditorEnv, LocalEnv, RealPath, beneath
from mainspring.env.beneath import FolderCache
from mainspring.env.local_files import LocalFiles
from mainspring.env.protocol import read_files
from mainspring.tools import ToolContext
from mainspring.tools.builtin import grep
from mainspring.tools.support.search.engines import SearchQuery
from mainspring.tools.support.search.python_engine import (
    _Search,
    compile_regex,
    required_literals,
    search_with_python,
)
from mainspring.tools.support.text_files import decode_text
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

    def record(
        self: LocalFiles, path: str, offset: int = 0, limit: int | None = None, folders: FolderCache | None = None
    ) -> bytes:
        recorded.append((os.path.basename(path), limit))
        return read(self, path, offset, limit, folders)

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

    def abort_at_third(
        self: LocalFiles, path: str, offset: int = 0, limit: int | None = None, folders: FolderCache | None = None
    ) -> bytes:
        if path.endswith("f02"):
            ctx.signal.cancel()
        return read(self, path, offset, limit, folders)

    monkeypatch.setattr(LocalFiles, "read", abort_at_third)
    result = await grep(ctx, pattern="foo")
    assert [name for name, _ in reads if name[0] == "f"] == ["f00", "f01", "f02"]
    assert "INCOMPLETE: cancelled)" in result.text


async def test_batch_of_files_needs_little_memory(
    plain_env: EnvWithoutRipgrep, project: Path, reads: list[tuple[str, int | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "large").write_bytes(b"x\n" * 40_000 + b"foo\n")
    (project / "huge").write_bytes(b"foo\n" * (17 << 20))
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


async def test_errors_of_files_are_in_no_cycle(local_env: LocalEnv) -> None:
    error, _ = await read_files(local_env, ["missing", "missing"], limit=10)
    assert isinstance(error, FileNotFoundError)
    values = [value for frame, _ in walk_tb(error.__traceback__) for value in frame.f_locals.values()]
    assert values
    assert not any(value is error or (isinstance(value, list) and error in value) for value in values)


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

    def deny(
        self: LocalFiles, path: str, offset: int = 0, limit: int | None = None, folders: FolderCache | None = None
    ) -> bytes:
        if path.endswith("/b"):
            raise PermissionError(13, "Permission denied", path)
        return read(self, path, offset, limit, folders)

    monkeypatch.setattr(LocalFiles, "read", deny)
    result = await grep(ToolContext(env=plain_env), pattern="foo", output_mode="files")
    assert result.text.startswith("a\nc\n(2 matching lines in 2 files; ")
    assert "INCOMPLETE: b: permission denied" in result.text


@pytest.mark.parametrize(
    ("pattern", "ignore_case", "literals"),
    [
        ("needle", False, ["needle"]),
        ("needle", True, ["needle"]),
        (r"def \w+\(self", False, ["(self"]),
        (r"^\s*import os$", False, ["import os"]),
        ("foo|barbaz", False, ["foo", "barbaz"]),
        ("(TypeError|KeyError|TypeInfo): x", False, ["TypeError", "KeyError", "TypeInfo"]),
        ("foo|bar?|", False, []),
        ("foo|b*", False, []),
        ("(foo)?bar", False, ["bar"]),
        ("(foo)+ba", False, ["foo"]),
        ("(foo){0,3}ba", False, ["ba"]),
        ("(?i:foo)ba", False, ["ba"]),
        ("(?-i:FOO)BA", True, ["ba"]),
        ("fo+bar*baz", False, ["baz"]),
        ("fo{2}ba", False, ["ba"]),
        ("foo(?=barbaz)", False, ["foo"]),
        ("foo\nquux\r", False, ["quux\r"]),
        ("größe", False, ["größe"]),
        ("größe", True, ["gr"]),
        ("ValueError|Class", True, ["valueerror", "cla"]),
        ("KISS", True, []),
        ("(?i)stra", False, ["tra"]),
        (r"\d{3}-\d{4}", False, ["-"]),
        ("[abc]+", False, []),
        (r"\x{d800}x", False, ["x"]),
        (r"\x{dcff}x", False, ["\udcffx"]),
    ],
)
def test_texts_of_which_every_match_contains_one(pattern: str, ignore_case: bool, literals: list[str]) -> None:
    regex = compile_regex(pattern, literal=False, ignore_case=ignore_case, multiline=False)
    assert sorted(required_literals(regex)) == sorted(literals)


PATTERNS = st.lists(
    st.sampled_from(
        [*"akKsſßé.^$|", r"\b", r"\W", r"\n", r"\r", r"\s", r"\w+", "[ab]", "[^a]", "(?:ab)", "a?", "K*", "k+", "(?!a)"]
    ),
    min_size=1,
    max_size=6,
).map("".join)
CONTENTS = st.lists(
    st.sampled_from([*"aAkKsSſ\u212aéß\n\r\0\x1c", "\r\n", "ab"]).map(str.encode)
    | st.sampled_from([b"\xff", b"\xe2\x82", b"\xff\xfea\0k\0", b"\xef\xbb\xbf"]),
    max_size=12,
).map(b"".join)


@given(pattern=PATTERNS, data=CONTENTS, ignore_case=st.booleans(), multiline=st.booleans(), as_text=st.booleans())
@example(pattern="k", data="\u212a".encode(), ignore_case=True, multiline=False, as_text=False)
@example(pattern="ſ", data=b"S", ignore_case=True, multiline=False, as_text=False)
@example(pattern=r"ab\na", data=b"ab\r\na", ignore_case=False, multiline=True, as_text=False)
@example(pattern="ak", data=b"\xff\xfea\0k\0", ignore_case=False, multiline=False, as_text=False)
@example(pattern="a", data=b"a\ra", ignore_case=False, multiline=False, as_text=False)
def test_skipped_files_contain_no_match(
    pattern: str, data: bytes, ignore_case: bool, multiline: bool, as_text: bool
) -> None:
    regex = compile_regex(pattern, literal=False, ignore_case=ignore_case, multiline=multiline)
    query = SearchQuery(pattern, ignore_case=ignore_case, multiline=multiline, context=1)
    found, expected = [
        _Search(regex, query, as_text, literals).search_files(["a"], [data], True, CancelToken())
        for literals in (required_literals(regex), ())
    ]
    assert found == expected
    counted = _Search(regex, query, as_text, required_literals(regex)).search_files(["a"], [data], False, CancelToken())
    assert [count for _, _, count, _ in counted] == [count for _, _, count, _ in expected]
    if multiline:
        return
    document = decode_text(data)
    text = data.decode("utf-8", "surrogateescape") if document is None else document.text
    text = text if "\n" in text else text.replace("\r", "\n")  # line ends of CR alone
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    lines = lines if lines[-1] else lines[:-1]
    columns = [match.start() + 1 if (match := regex.search(line)) else 0 for line in lines]
    if not data.startswith((b"\xff\xfe", b"\xef\xbb\xbf")) and (as_text or b"\0" not in data):
        assert sum(count for _, _, count, _ in found) == sum(column > 0 for column in columns)
        assert [(line.number, line.column) for _, rows, _, _ in found for line in rows if line.column] == [
            (number, column) for number, column in enumerate(columns, 1) if column
        ]


@pytest.mark.parametrize("limit", [1, 3, 100])
async def test_lines_of_visible_files_are_shown(
    plain_env: EnvWithoutRipgrep, project: Path, limit: int, local_env: LocalEnv
) -> None:
    for number in range(600):
        (project / f"f{number:03}").write_text("foo\n" * (1 + number % 3))
    results: list[str] = []
    for env in (plain_env, local_env) if await local_env.find_program("rg") else (plain_env,):
        env.path_filter = lambda path: path.endswith(("98", "99"))
        results.append((await grep(ToolContext(env=env), pattern="foo", head_limit=limit, offset=2)).text)
    assert results[0].startswith("f098\n3:foo\n(" if limit == 1 else "f098\n3:foo\n\nf099\n1:foo\n\nf198\n1:foo\n")
    assert len(set(results)) == 1


async def test_lines_are_stored_only_up_to_the_limit(plain_env: EnvWithoutRipgrep, project: Path) -> None:
    for number in range(600):
        (project / f"f{number:03}").write_text("foo\n")
    files = [(RealPath(project / f"f{number:03}"), f"f{number:03}") for number in range(600)]
    ctx = ToolContext(env=plain_env)
    found = await search_with_python(ctx, files, SearchQuery("foo"), as_text=False, max_lines=250)
    assert (len(found.counts), len(found.lines)) == (600, 256)


async def test_folder_is_opened_once_for_its_files(
    plain_env: EnvWithoutRipgrep, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "src").mkdir()
    for number in range(200):
        (project / "src" / f"f{number}").write_text("foo\n")
    opened: list[str] = []
    open_path = beneath.open_beneath

    def record(path: str, flags: int, mode: int = 0o666) -> int:
        opened.append(path)
        return open_path(path, flags, mode)

    monkeypatch.setattr(beneath, "open_beneath", record)
    result = await grep(ToolContext(env=plain_env), pattern="foo", path="src", output_mode="count")
    assert result.metadata["files"] == 200
    assert opened.count(str(project / "src")) == 2, "once for its status, and once for its files"


async def test_binary_file_is_not_read_to_its_end(
    plain_env: EnvWithoutRipgrep, project: Path, reads: list[tuple[str, int | None]]
) -> None:
    (project / "image").write_bytes(b"foo\n\0" * 100_000)
    await grep(ToolContext(env=plain_env), pattern="foo")
    assert [limit for name, limit in reads if name == "image"] == [(1 << 16) + 1]


def test_abort_stops_the_search_between_files() -> None:
    signal = CancelToken()
    search = _Search(
        compile_regex("foo", literal=False, ignore_case=False, multiline=False), SearchQuery("foo"), False, ()
    )
    assert len(search.search_files(["a", "b"], [b"foo", b"foo"], True, signal)) == 2
    signal.cancel()
    assert search.search_files(["a", "b"], [b"foo", b"foo"], True, signal) == []
