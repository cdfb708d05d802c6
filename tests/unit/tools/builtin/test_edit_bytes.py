"""For any encoding and line endings, bytes outside an edit never change."""

import asyncio
import codecs

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

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
