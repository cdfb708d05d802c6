"""`apply_patch`: the format, changed files, and preserved content."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from mainspring.env import LocalEnv, MemoryEnv
from mainspring.tools import Access, ToolContext, ToolErrorCode
from mainspring.tools.builtin import apply_patch
from mainspring.tools.support.editing.patch import apply_chunks
from mainspring.tools.support.editing.patch_parser import PatchChunk, PatchError, parse_patch


def make_patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


async def apply_lines(
    files: dict[str, str | bytes], *lines: str, **options: bool
) -> tuple[dict[str, bytes], str, bool]:
    env = MemoryEnv(files)
    result = await apply_patch(ToolContext(env=env), patch=make_patch(*lines), **options)
    return env.files, result.text, result.is_error


async def test_several_files_are_changed() -> None:
    files, text, _ = await apply_lines(
        {"a.txt": "one\ntwo\nthree\n", "gone.txt": "x\n", "old.py": "def f():\n    return 1\n"},
        *("*** Add File: new/n.txt", "+hello", "+", "+you"),
        *("*** Update File: a.txt", "@@", " one", "-two", "+2"),
        *("*** Delete File: gone.txt",),
        *("*** Update File: old.py", "*** Move to: lib/new.py", "@@ def f():", "-    return 1", "+    return 2"),
    )
    assert files == {
        "a.txt": b"one\n2\nthree\n",
        "lib/new.py": b"def f():\n    return 2\n",
        "new/n.txt": b"hello\n\nyou\n",
    }
    assert text == (
        "Applied the patch: 4 files changed (+5 -3 lines).\nA new/n.txt\nM a.txt\nD gone.txt\nR old.py -> lib/new.py"
    )


@pytest.mark.parametrize(
    "lines",
    [
        ("*** Update File: missing.txt", "@@", "-a", "+b"),
        ("*** Delete File: missing.txt",),
        ("*** Delete File: folder",),
        ("*** Update File: a.txt", "@@", "-nowhere", "+b"),
        ("*** Update File: a.txt", "@@ nowhere", "-one", "+b"),
        ("*** Update File: a.bin", "@@", "-one", "+b"),
    ],
)
async def test_failing_section_changes_nothing(lines: tuple[str, ...]) -> None:
    before: dict[str, str | bytes] = {"a.txt": "one\n", "folder/x": "x", "a.bin": b"\0one\n", "b.txt": "b\n"}
    files, text, is_error = await apply_lines(before, "*** Add File: new.txt", "+x", "*** Delete File: b.txt", *lines)
    assert is_error
    assert text.startswith("Not applied, no file was changed. " + lines[0].split(": ")[1])
    assert files == MemoryEnv(before).files


async def test_partial_option_keeps_earlier_sections() -> None:
    files, text, is_error = await apply_lines(
        {"a.txt": "one\n"}, "*** Add File: n", "+x", "*** Delete File: missing", partial=True
    )
    assert is_error
    assert text.split("\n")[:2] == ["Applied the patch in part: 1 file changed (+1 -0 lines).", "A n"]
    assert files == {"a.txt": b"one\n", "n": b"x\n"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "first line"),
        ("*** Begin Patch", "last line"),
        (make_patch(), "no section"),
        (make_patch("*** Frob File: x"), "line 2"),
        (make_patch("*** Add File:"), "needs a path"),
        (make_patch("*** Add File: x", "no plus"), "begins with +"),
        (make_patch("*** Update File: x"), "changes nothing"),
        (make_patch("*** Update File: x", "*** Move to:", "@@", "-a"), "needs a path"),
        (make_patch("*** Update File: x", "@@", "*** Delete File: y"), "end of the section"),
        (make_patch("*** Update File: x", "@@", "-a", "garbage"), "begins with @@"),
    ],
)
async def test_invalid_patch_is_an_error(text: str, reason: str) -> None:
    with pytest.raises(PatchError, match=r"\w"):
        parse_patch(text)
    result = await apply_patch(ToolContext(env=MemoryEnv()), patch=text)
    assert result.code == ToolErrorCode.VALIDATION_ERROR
    assert reason in result.text
    assert apply_patch.access is not None
    assert apply_patch.access({"patch": text}) == []


async def test_error_names_the_file_once() -> None:
    ctx = ToolContext(env=MemoryEnv({"a.txt": "a\n"}))
    result = await apply_patch(ctx, patch=make_patch("*** Update File: none.txt", "@@", "-x", "+y"))
    assert result.text.startswith("Not applied, no file was changed. none.txt does not exist")
    result = await apply_patch(ctx, patch=make_patch("*** Update File: a.txt", "@@", "-x", "+y"))
    assert "changed. a.txt: " in result.text


@pytest.mark.covers("SEC-17")
def test_deletions_and_moves_are_declared_as_access() -> None:
    text = make_patch(
        *("*** Add File: a", "+x", "*** Delete File: d", "*** Update File: u", "@@", "-x", "+y"),
        *("*** Update File: m", "*** Move to: n"),
    )
    assert apply_patch.access is not None
    assert apply_patch.access({"patch": text}) == [
        Access("fs-write", "a"),
        Access("fs-delete", "d"),
        Access("fs-write", "u"),
        Access("fs-write", "m"),
        Access("fs-delete", "m"),
        Access("fs-write", "n"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "<<'EOF'\n" + make_patch("*** Add File: a", "+x") + "\nEOF",
        "```diff\n" + make_patch("*** Add File: a", "+x") + "\n```",
        "\n  " + make_patch("*** Add File: a", "+x").replace("\n", "\r\n") + "\r\n",
    ],
)
def test_wrapping_is_removed(text: str) -> None:
    assert [s.content for s in parse_patch(text)] == ["x\n"]


def test_unified_diff_headers_and_missing_blank_prefixes_are_accepted() -> None:
    [section] = parse_patch(
        make_patch("*** Update File: a", "@@ -1,3 +1,4 @@ def f():", " a", "", "-b", "+c", "", "@@", "-d")
    )
    assert section.chunks == (
        PatchChunk(("def f():",), ("a", "", "b"), ("a", "", "c"), line=3),
        PatchChunk((), ("d",), (), line=9),
    )


async def test_changes_are_located_by_context_headers_in_order() -> None:
    before = "class A:\n    def f(self):\n        return 1\n\nclass B:\n    def f(self):\n        return 1\n"
    files, _, _ = await apply_lines(
        {"x.py": before},
        *("*** Update File: x.py", "@@ class B:", "@@     def f(self):", "-        return 1", "+        return 2"),
    )
    assert files["x.py"].decode() == before[:-9] + "return 2\n"
    files, _, _ = await apply_lines({"x.py": before}, "*** Update File: x.py", "@@ class A:", "+    x = 1")
    assert files["x.py"].decode() == before.replace("class A:\n", "class A:\n    x = 1\n")


async def test_end_of_file_marker_is_respected() -> None:
    lines = ("*** Update File: a", "@@", "-x", "+y", "*** End of File")
    assert (await apply_lines({"a": "x\nb\nx\n"}, *lines))[0]["a"] == b"x\nb\ny\n"
    assert (await apply_lines({"a": "x\nb\n"}, *lines))[2]


async def test_near_match_is_applied_only_if_unique() -> None:
    files, text, _ = await apply_lines(
        {"a": "\tif x:\n\t\treturn 1\n"}, "*** Update File: a", "@@", " if x:", "-\treturn 1", "+\treturn 2"
    )
    assert files["a"] == b"\tif x:\n\t\treturn 2\n"
    assert "lines 1-2 matched ignoring indentation" in text
    _, text, is_error = await apply_lines({"a": "  x\ny\n    x\n"}, "*** Update File: a", "@@", "-x", "+z")
    assert is_error
    assert "matches at 2 places" in text


async def test_line_endings_byte_order_mark_and_encoding_are_preserved() -> None:
    crlf, latin = "\ufeffa\r\nb\r\nc\n".encode(), "é\nb\n".encode("latin-1")
    files, _, _ = await apply_lines(
        {"x": crlf, "y": latin, "z": b"a\r\nb"}, "*** Update File: x", "@@", "-b", "+B", "+C"
    )
    assert files["x"] == "\ufeffa\r\nB\r\nC\r\nc\n".encode()
    files, _, _ = await apply_lines({"y": latin}, "*** Update File: y", "@@", "-b", "+B")
    assert files["y"] == "é\nB\n".encode("latin-1")
    files, _, _ = await apply_lines({"z": b"a\r\nb"}, "*** Update File: z", "@@", "+c")
    assert files["z"] == b"a\r\nb\r\nc"


@pytest.mark.parametrize(
    ("before", "lines", "after"),
    [
        (b"a\nb", ("-a", "+A", " b"), b"A\nb"),
        (b"a\nb\nc", ("-a", "+A"), b"A\nb\nc"),
        (b"a\nb", (" a", "-b", "+B", "+C"), b"a\nB\nC"),
        (b"a\r\nb", (" a", "-b", "+B"), b"a\r\nB"),
        (b"a\nb", (" b", "+c"), b"a\nb\nc"),
        (b"a\nb", ("+c",), b"a\nb\nc"),
        (b"a\nb", (" a", "-b"), b"a"),
        (b"a\nb", (" b", "+"), b"a\nb\n"),
        (b"a\nb\n\n", ("-a", "+A"), b"A\nb\n\n"),
    ],
)
async def test_file_without_a_final_newline_gets_none(before: bytes, lines: tuple[str, ...], after: bytes) -> None:
    files, text, is_error = await apply_lines({"z": before}, "*** Update File: z", "@@", *lines)
    assert not is_error, text
    assert files["z"] == after


LINE = st.text("ab \t", max_size=3)


@given(st.lists(st.tuples(LINE, st.sampled_from(["\n", "\r\n"])), min_size=1, max_size=12), st.data())
def test_bytes_outside_the_change_are_preserved(rows: list[tuple[str, str]], data: st.DataObject) -> None:
    lines = [line for line, _ in rows]
    first = data.draw(st.integers(0, len(rows) - 1))
    last = data.draw(st.integers(first, len(rows) - 1))
    new = data.draw(st.lists(st.text("xy", min_size=1, max_size=2), max_size=3))
    chunk = PatchChunk((), tuple(lines[: last + 1]), (*lines[:first], *new))
    text, _ = apply_chunks("".join([line + ending for line, ending in rows]), [chunk])
    head = "".join([line + ending for line, ending in rows[:first]])
    tail = "".join([line + ending for line, ending in rows[last + 1 :]])
    assert text.startswith(head)
    assert text.endswith(tail)
    assert text[len(head) : len(text) - len(tail)].replace("\r\n", "\n") == "".join([line + "\n" for line in new])


async def test_modes_links_and_moves_on_disk(ctx: ToolContext, project: Path) -> None:
    (project / "run.sh").write_text("echo 1\n")
    (project / "run.sh").chmod(0o750)
    (project / "link").symlink_to("run.sh")
    moved = await apply_patch(
        ctx, patch=make_patch("*** Update File: run.sh", "*** Move to: bin/go", "@@", "-echo 1", "+echo 2")
    )
    assert not moved.is_error, moved.text
    assert (project / "bin" / "go").read_text() == "echo 2\n"
    assert stat.S_IMODE((project / "bin" / "go").stat().st_mode) == 0o750
    (project / "link").unlink()
    (project / "link").symlink_to("bin/go")
    rejected = await apply_patch(ctx, patch=make_patch("*** Delete File: link"))
    assert "is a symbolic link" in rejected.text
    assert sorted(os.listdir(project)) == ["bin", "link"]


class FullDiskEnv(LocalEnv):
    """Raises a disk-full error for one file."""

    async def write_bytes(self, path: str, data: bytes, *, parents: bool = True) -> None:
        if path.endswith("bad.txt"):
            raise OSError(28, "No space left on device", path)
        await super().write_bytes(path, data, parents=parents)


@pytest.fixture
def full_disk_env(tmp_path: Path) -> LocalEnv:
    return FullDiskEnv(tmp_path)


async def test_disk_error_rolls_back_all_changes(full_disk_env: LocalEnv, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    (tmp_path / "gone.txt").write_text("keep me\n")
    (tmp_path / "bad.txt").write_text("b\n")
    result = await apply_patch(
        ToolContext(env=full_disk_env),
        patch=make_patch(
            *("*** Update File: a.txt", "@@", "-a", "+A", "*** Delete File: gone.txt", "*** Add File: new.txt", "+n"),
            *("*** Update File: a.txt", "*** Move to: b.txt", "*** Update File: bad.txt", "@@", "-b", "+B"),
        ),
    )
    assert result.code == ToolErrorCode.IO_ERROR
    assert "the disk is full. The changes before it were taken back" in result.text
    assert {name: await full_disk_env.read_bytes(name) for name in os.listdir(tmp_path)} == {
        "a.txt": b"a\n",
        "gone.txt": b"keep me\n",
        "bad.txt": b"b\n",
    }
