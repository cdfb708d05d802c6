"""`edit` and `multi_edit`: changes, preserved content, and result texts."""

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import assume, given, strategies as st

from mainspring.env import MemoryEnv
from mainspring.tools import ToolContext, ToolResult
from mainspring.tools.builtin import edit, multi_edit

CODE = "def f(x):\n    return x\n\ndef g(x):\n    return x\n"


async def edit_text(before: str | bytes, old: str, new: str, *, replace_all: bool = False) -> tuple[ToolResult, str]:
    env = MemoryEnv({"file": before})
    result = await edit(ToolContext(env=env), path="file", old_string=old, new_string=new, replace_all=replace_all)
    return result, env.files["file"].decode("utf-8", "surrogateescape")


@pytest.mark.covers("TOL-10")
async def test_duplicate_match_requires_replace_all() -> None:
    result, after = await edit_text(CODE, "return x", "return y")
    assert result.is_error
    assert after == CODE
    assert "at 2 places, starting at lines 2, 5" in result.text
    result, after = await edit_text(CODE, "return x", "return y", replace_all=True)
    assert after == CODE.replace("return x", "return y")
    assert result.text == "Edited file: 2 replacements at lines 2, 5 (+2 -2 lines)."


@pytest.mark.covers("TOL-10")
async def test_duplicate_match_with_crlf_requires_replace_all() -> None:
    twice = "x\r\ny\r\nx\r\ny\r\n"
    result, after = await edit_text(twice, "x\r\n", "z\r\n")
    assert result.is_error
    assert after == twice
    assert "at 2 places, starting at lines 1, 3" in result.text
    assert (await edit_text(twice, "x\r\n", "z\r\n", replace_all=True))[1] == "z\r\ny\r\nz\r\ny\r\n"


async def test_overlapping_matches_are_counted() -> None:
    assert (await edit_text("aaa", "aa", "b"))[0].is_error
    assert (await edit_text("aaa", "aa", "b", replace_all=True))[1] == "ba"


async def test_result_reports_the_changed_lines() -> None:
    result, _ = await edit_text(CODE, "def f(x):\n    return x\n", "def f(x):\n    return 2 * x\n")
    assert result.text == "Edited file: 1 replacement at lines 1-2 (+1 -1 lines)."
    assert result.metadata["diff"].startswith("--- a/file\n+++ b/file\n@@ -1,5 +1,5 @@\n def f(x):\n-    return x\n")
    assert result.metadata["lines"] == [[1, 2]]


@pytest.mark.covers("TOL-11")
@pytest.mark.parametrize(
    ("old", "expected"),
    [
        ("    return  x\n\ndef g(x):\n", ["2\t    return x", "the number of spaces within a line (first at line 2)"]),
        ("DEF f(x):", ["1\tdef f(x):", "upper and lower case (first at line 1)"]),
        (
            "def g(x):\n    return 2 * x\n",
            ["4\tdef g(x):\n5\t    return x", "line 5 is `return x`, not `return 2 * x`"],
        ),
        ("def g(x):\n  return  x", ["4\tdef g(x):", "- the number of spaces within a line (first at line 5)"]),
    ],
)
async def test_missing_text_shows_close_matches(old: str, expected: list[str]) -> None:
    result, after = await edit_text(CODE, old, "new")
    assert result.is_error
    assert after == CODE
    for part in expected:
        assert part in result.text


async def test_missing_text_without_close_matches_is_reported() -> None:
    result, _ = await edit_text(CODE, "completely different words here", "")
    assert "Nothing in the file is close to it." in result.text


@pytest.mark.covers("TOL-12")
@pytest.mark.parametrize(
    "old",
    [
        "4\tdef g(x):\n5\t    return x\n",
        "    4\tdef g(x):\n    5\t    return x",
        "4→def g(x):\n5→    return x",
        "4: def g(x):\n5:     return x\n",
        "4|def g(x):\n5|    return x",
        "1\t\n2\tdef g(x):",
    ],
)
async def test_pasted_line_numbers_are_removed(old: str) -> None:
    result, after = await edit_text(CODE, old, "X")
    assert not result.is_error, result.text
    assert after.count("X") == 1
    assert "without the line numbers in old_string" in result.text


async def test_line_numbers_in_new_text_are_removed() -> None:
    assert (await edit_text(CODE, "4\tdef g(x):\n", "4\tdef h(x):\n"))[1] == CODE.replace("g", "h")


@pytest.mark.parametrize("old", ["7\tapple", "7\tapple\n", "1\tpear\n2\tapple\n", "1\tb\n3\tc"])
async def test_numeric_data_does_not_match_as_line_numbers(old: str) -> None:
    table = "5\tapple\n6\tpear\nb\nc\n"
    result, after = await edit_text(table, old, "X")
    assert result.is_error
    assert after == table


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        # A look-alike character outside the edited text is preserved.
        ("It’s “here” – now\n", 'It\'s "here" - now', 'It\'s "there" - now', "It’s “there” – now\n"),
        ("a\u00a0=\u00a01\n", "a = 1", "a = 2", "a\u00a0=\u00a02\n"),
        ("cafe\u0301 au lait\n", "caf\u00e9 au lait", "caf\u00e9 noir", "cafe\u0301 noir\n"),
        ("ｆｕｌｌ width\n", "full width", "full size", "ｆｕｌｌ size\n"),
        ("x\u200b = 1\nkeep  \n", "x = 1\nkeep\n", "x = 2\nkeep\n", "x\u200b = 2\nkeep  \n"),
        # Trailing spaces are preserved on unchanged lines.
        ("one  \ntwo\t\nthree\n", "one\ntwo\nthree\n", "one\n2\nthree\n", "one  \n2\nthree\n"),
        ("  one  \nx\n", "one\nx", "1\nx", "  1\nx\n"),
        # The indentation of the file wins over that of the new text.
        ("\tif a:\n\t\tb()\n", "if a:\n    b()\n", "if a:\n    c()\n    b()\n", "\tif a:\n\t\tc()\n\t\tb()\n"),
        ("    a\n    b\n", "        a\n        b\n", "        a\n          c\n        b\n", "    a\n      c\n    b\n"),
        ("  a:\n    b\n", "a:\n  b\n", "  a:\n    c\n", "  a:\n    c\n"),
        ("    a()\n    b()\n", "a()\nb()", "if x:\n    a()\nb()", "    if x:\n        a()\n    b()\n"),
        ("\n    a\n", "\n  a\n", "", ""),
        # The end of the file.
        ("a\nlast", "last\n", "last\nmore\n", "a\nlast\nmore"),
    ],
)
async def test_near_match_preserves_unchanged_parts(before: str, old: str, new: str, after: str) -> None:
    result, edited = await edit_text(before, old, new)
    assert not result.is_error, result.text
    assert edited == after
    assert "matched" in result.text.lower()  # The result names the ignored difference.


@pytest.mark.parametrize(
    ("before", "old"),
    [
        ("  a()\n\n    a()\n", "      a()\n"),  # Two places, if indentation is ignored.
        ("‘x’\n'y'\n“x”\n", "´x´\nz"),
        ("a b\n", "a  b"),
    ],
)
async def test_near_match_must_be_unique(before: str, old: str) -> None:
    result, after = await edit_text(before, old, "new")
    assert result.is_error
    assert after == before


async def test_several_near_matches_are_listed() -> None:
    result, _ = await edit_text("a  \nb\n\na \nb\n", "a\nb\n", "c\n", replace_all=True)
    assert result.is_error
    assert "at 2 places (ignoring spaces at line ends), starting at lines 1, 4" in result.text


async def test_ambiguous_indentation_is_rejected() -> None:
    before = "  a\n      b\n    c\n"
    result, after = await edit_text(before, "a\nb\nc\n", "a\nx\nc\n")
    assert result.is_error
    assert after == before
    assert "found at line 1, but with another indentation" in result.text


@pytest.mark.parametrize(
    ("before", "old", "new"),
    [
        ("a\nb\n", "", "x"),
        ("a\nb\n", "\n", "x"),
        ("a b c\n", " ", "x"),
        ("a\nb\n", "\t", "x"),
        ("a\nb\n", " \n ", "x"),
        ("abc\n", "b", "b"),
    ],
)
async def test_ambiguous_whitespace_or_identical_text_is_rejected(before: str, old: str, new: str) -> None:
    for replace_all in (False, True):
        result, after = await edit_text(before, old, new, replace_all=replace_all)
        assert result.is_error
        assert after == before


async def test_unique_whitespace_is_replaced() -> None:
    assert (await edit_text("a\tb\n", "\t", "  "))[1] == "a  b\n"
    assert (await edit_text("", "", "new\n"))[1] == "new\n"


async def test_already_applied_edit_succeeds() -> None:
    once = CODE.replace("def f(x):", "def first(x: int) -> int:")
    result, after = await edit_text(once, "def f(x):", "def first(x: int) -> int:")
    assert not result.is_error
    assert result.text == "No change needed in file: already applied at line 1."
    assert after == once
    assert not result.metadata["changed"]
    near, _ = await edit_text("it’s\n", "it's", "it’s")
    assert "already applied" in near.text


async def test_new_text_already_in_the_file_is_only_a_hint() -> None:
    result, _ = await edit_text("a = 1\nb = 2\n", "zzz", "b = 2")
    assert result.is_error
    assert "new_string is in the file already, at line 2" in result.text


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-8-sig", "shift_jis", "gb18030", "cp1251"])
async def test_other_encodings_are_preserved(encoding: str) -> None:
    texts = {
        "shift_jis": "日本語のテキストです。こんにちは",
        "gb18030": "版权所有，保留一切权利",
        "cp1251": "Привет, мир! Это тест.",
    }
    letters = texts.get(encoding, "größer, für alle Füße")
    before = f"# {letters}\r\nx = 1\r\n".encode(encoding)
    env = MemoryEnv({"x": before})
    result = await edit(ToolContext(env=env), path="x", old_string="x = 1\n", new_string="x = 2\ny = 3\n")
    assert not result.is_error
    assert env.files["x"] == f"# {letters}\r\nx = 2\r\ny = 3\r\n".encode(encoding)


async def test_character_missing_in_the_encoding_is_rejected() -> None:
    env = MemoryEnv({"x": "größer\n".encode("cp1252")})
    result = await edit(ToolContext(env=env), path="x", old_string="größer", new_string="→")
    assert result.is_error
    assert "has no '→'" in result.text


async def test_invalid_utf8_bytes_are_preserved() -> None:
    env = MemoryEnv({"x": "é ü\n".encode() + b"\xff\xfe bad\n"})
    await edit(ToolContext(env=env), path="x", old_string="bad", new_string="good")
    assert env.files["x"] == "é ü\n".encode() + b"\xff\xfe good\n"


@pytest.mark.parametrize("data", [b"\0\1\2", b"a\0b", bytes(range(128, 256)) * 4])
async def test_binary_file_is_rejected(data: bytes) -> None:
    result, _ = await edit_text(data, "a", "b")
    assert result.is_error
    assert "binary" in result.text


async def test_lone_surrogate_is_rejected() -> None:
    assert "surrogate" in (await edit_text("a\n", "a", "\ud83d"))[0].text


async def test_huge_file_is_rejected(ctx: ToolContext, project: Path) -> None:
    (project / "x").write_bytes(b"")
    os.truncate(project / "x", 17 << 20)
    result = await edit(ctx, path="x", old_string="a", new_string="b")
    assert result.text.startswith(f"Cannot edit x: it has {17 << 20} bytes, and the limit is {16 << 20}.")


async def test_missing_file_is_an_error(ctx: ToolContext) -> None:
    assert "does not exist" in (await edit(ctx, path="x", old_string="a", new_string="b")).text


async def test_mode_and_link_are_preserved(ctx: ToolContext, project: Path) -> None:
    (project / "real").write_text("a\n")
    (project / "real").chmod(0o750)
    (project / "link").symlink_to("real")
    await edit(ctx, path="link", old_string="a", new_string="b")
    assert (project / "link").is_symlink()
    assert (project / "real").read_text() == "b\n"
    assert (project / "real").stat().st_mode & 0o777 == 0o750


async def test_concurrent_edits_of_a_file_are_all_applied(ctx: ToolContext, project: Path) -> None:
    (project / "x").write_text("".join(f"<{i}>\n" for i in range(20)))
    (project / "link").symlink_to("x")
    calls = [
        edit(ctx, path="x" if i % 2 else "./link", old_string=f"<{i}>", new_string=f"<{i} done>") for i in range(20)
    ]
    assert not any(r.is_error for r in await asyncio.gather(*calls))
    assert (project / "x").read_text() == "".join(f"<{i} done>\n" for i in range(20))


@pytest.mark.covers("TOL-13")
async def test_multi_edit_applies_all_edits_or_none() -> None:
    env = MemoryEnv({"x": CODE})
    ctx = ToolContext(env=env)
    edits = [
        {"old_string": "def f", "new_string": "def first"},
        {"old_string": "def first(x)", "new_string": "def first(y)"},
        {"old_string": "x", "new_string": "z", "replace_all": True},
    ]
    failing = [edits[0], {"old_string": "nowhere", "new_string": ""}, edits[2]]
    result = await multi_edit(ctx, path="x", edits=failing)
    assert result.is_error
    assert result.text.startswith("Edit 2 of 3 failed and none was applied. old_string is not in the file.")
    assert result.metadata["failed_edit"] == 1
    assert env.files["x"] == CODE.encode()
    done = await multi_edit(ctx, path="x", edits=edits)
    assert done.text == "Edited x: 3 edits, 5 replacements (+4 -4 lines)."
    assert env.files["x"] == b"def first(y):\n    return z\n\ndef g(z):\n    return z\n"


async def test_multi_edit_reports_near_and_applied_matches() -> None:
    env = MemoryEnv({"x": "a = “1”\nlong_name = 2\n"})
    edits = [
        {"old_string": 'a = "1"', "new_string": 'a = "3"'},
        {"old_string": "longname = 2", "new_string": "long_name = 2"},
    ]
    result = await multi_edit(ToolContext(env=env), path="x", edits=edits)
    assert "Edit 1: matched line 1 ignoring differences between characters" in result.text
    assert "Edit 2: already applied at line 2" in result.text
    assert env.files["x"].decode() == "a = “3”\nlong_name = 2\n"
    assert (await multi_edit(ToolContext(env=env), path="x", edits=[])).is_error


LINES = st.lists(st.tuples(st.text("ab \té", max_size=4), st.sampled_from(["\n", "\r\n", "\r"])), max_size=12)
TEXT = LINES.map(lambda lines: "".join([text + ending for text, ending in lines]))


def with_line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


@given(TEXT, st.text("xyz\n", min_size=1, max_size=6), TEXT, st.text("ab\n", max_size=8))
async def test_bytes_outside_the_replaced_text_are_preserved(head: str, middle: str, tail: str, new: str) -> None:
    assume(middle.strip() and not head.endswith("\r"))
    raw = middle.replace("\n", "\r\n")
    before = head + raw + tail
    assume(with_line_feeds(before).count(middle) == 1 and middle != new)
    result, after = await edit_text(before, middle, new)
    assert not result.is_error, result.text
    assert after.startswith(head)
    assert after.endswith(tail)
    assert with_line_feeds(after[len(head) : len(after) - len(tail)]) == new


@given(TEXT, TEXT, st.sampled_from(["\n", "\r\n"]))
async def test_new_lines_use_the_surrounding_line_ending(head: str, tail: str, ending: str) -> None:
    before = head + "MARK" + ending + tail
    _, after = await edit_text(before, "MARK\n", "one\ntwo\n")
    assert after == head + f"one{ending}two{ending}" + tail


@given(TEXT, st.integers(0, 50), st.integers(1, 20), st.text("ab \t\n'\"", max_size=10))
async def test_edit_changes_one_place_or_nothing(before: str, start: int, size: int, new: str) -> None:
    """Either the file is unchanged, or a text found exactly once is replaced."""
    assume("\r\r\n" not in before)
    old = with_line_feeds(before)[start : start + size]
    result, after = await edit_text(before, old, new)
    if result.is_error or not result.metadata["changed"]:
        assert after == before
    elif not before:
        assert (old, after) == ("", new)  # an empty file accepts an empty old text
    else:
        view = with_line_feeds(before)
        assert view.count(old) == 1
        # A CR before and a new LF after a removed text would form one line ending.
        assume(len(with_line_feeds(after)) == len(view) - len(old) + len(new))
        assert with_line_feeds(after) == view.replace(old, new)
