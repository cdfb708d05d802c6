"""For any encoding and line endings, bytes outside an edit never change."""

import asyncio
import codecs

import pytest
from hypothesis import assume, given, strategies as st

from mainspring.env import MemoryEnv
from mainspring.tools import Tool, ToolContext
from mainspring.tools.builtin import apply_patch, edit, multi_edit

ENCODINGS = {
    "utf-8": b"",
    "utf-8-sig": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
    "latin-1": b"",
    "cp1252": b"",
    "utf-32-le": codecs.BOM_UTF32_LE,
}
LINE = st.text(st.sampled_from("ab \té\"'{}\\"), max_size=8)
ROWS = st.lists(st.tuples(LINE, st.sampled_from(["\n", "\r\n", "\n", "\r\n", "\r"])), max_size=8)


def encode_text(text: str, encoding: str) -> bytes:
    return text.encode("utf-8" if encoding == "utf-8-sig" else encoding)


CALLS = [
    (edit, lambda old, new: {"path": "f", "old_string": old, "new_string": new}),
    (multi_edit, lambda old, new: {"path": "f", "edits": [{"old_string": old, "new_string": new}]}),
    (
        apply_patch,
        lambda old, new: {
            "patch": "\n".join(["*** Begin Patch", "*** Update File: f", "@@", f"-{old}", f"+{new}", "*** End Patch"])
        },
    ),
]


@pytest.mark.parametrize(("tool", "arguments"), CALLS, ids=lambda value: getattr(value, "name", ""))
@given(head=ROWS, tail=ROWS, closed=st.booleans(), encoding=st.sampled_from(sorted(ENCODINGS)))
def test_bytes_outside_an_edit_are_preserved(
    tool: Tool, arguments: object, head: list[tuple[str, str]], tail: list[tuple[str, str]], closed: bool, encoding: str
) -> None:
    before, after = "".join([a + b for a, b in head]), "".join([a + b for a, b in tail])
    assume(not before.endswith("\r"))
    middle_end = "\r\n" if closed or tail else ""
    mark = ENCODINGS[encoding]
    start = mark + encode_text(before, encoding)
    end = encode_text(middle_end + after, encoding)
    data = start + encode_text("MARK", encoding) + end
    env = MemoryEnv({"f": data})
    result = asyncio.run(tool(ToolContext(env=env), **arguments("MARK", "NEW")))  # pyright: ignore[reportCallIssue]
    found = env.files["f"]
    if result.is_error:  # An ambiguous encoding is rejected instead of guessed.
        assert found == data
        assert encoding in ("latin-1", "cp1252"), result.text
        return
    assert found.startswith(start)
    assert found.endswith(end)
    inside = found[len(start) : len(found) - len(end)]
    assert inside in (encode_text("NEW", encoding), encode_text("NEW\n", encoding), encode_text("NEW\r\n", encoding))
    if middle_end or tool is not apply_patch:
        assert inside == encode_text("NEW", encoding)


ENDINGS = st.sampled_from(["\n", "\r\n", "\r"])


@pytest.mark.parametrize("tool", [edit, apply_patch], ids=lambda tool: tool.name)
@given(
    endings=st.one_of(ENDINGS.map(lambda end: [end] * 9), st.lists(ENDINGS, min_size=9, max_size=9)),
    first=st.integers(0, 6),
    old_ending=ENDINGS,
)
def test_lines_with_any_endings_are_edited_together_and_keep_their_endings(
    tool: Tool, endings: list[str], first: int, old_ending: str
) -> None:
    lines = [f"line {i}" for i in range(9)]
    assume(not any(a == "\r" and b == "\n" for a, b in zip(endings, endings[1:], strict=False)))
    old, new = lines[first : first + 3], [lines[first], "changed", lines[first + 2]]
    if tool is edit:
        arguments = {"path": "f", "old_string": old_ending.join(old), "new_string": old_ending.join(new)}
    else:
        body = [f" {old[0]}", f"-{old[1]}", "+changed", f" {old[2]}"]
        arguments = {"patch": "\n".join(["*** Begin Patch", "*** Update File: f", "@@", *body, "*** End Patch"])}
    env = MemoryEnv({"f": "".join(map("".join, zip(lines, endings, strict=True))).encode()})

    result = asyncio.run(tool(ToolContext(env=env), **arguments))

    if "\r" not in "".join(endings).replace("\r\n", "") and tool is edit and old_ending == "\r":
        assert result.is_error
        return
    assert not result.is_error, result.text
    lines[first + 1] = "changed"
    assert env.files["f"] == "".join(map("".join, zip(lines, endings, strict=True))).encode()


@pytest.mark.parametrize("tool", [edit, apply_patch], ids=lambda tool: tool.name)
def test_added_line_gets_the_ending_of_its_neighbor(tool: Tool) -> None:
    env = MemoryEnv({"f": b"a\rb\rc\r"})
    if tool is edit:
        arguments = {"path": "f", "old_string": "a\nb", "new_string": "a\nnew\nb"}
    else:
        arguments = {"patch": "*** Begin Patch\n*** Update File: f\n@@\n a\n+new\n b\n*** End Patch"}

    result = asyncio.run(tool(ToolContext(env=env), **arguments))

    assert (env.files["f"], result.metadata.get("added", 1)) == (b"a\rnew\rb\rc\r", 1)
