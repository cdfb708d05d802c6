"""Which files a conversation has named so far: only these may a small model read, so that it cannot make names up. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mainspring.attachments import own_words
from mainspring.lazy import lazy_re
from mainspring.messages import Message, ToolResultBlock, ToolUseBlock

_SHORTEST_NAME = 4
_FILE = lazy_re(r"(?<![\w/:.@~-])(?:[\w.-]+/)*[\w-]+(?:\.[\w-]+)*\.[^\W\d_]\w{0,4}(?![\w/@(])")
_HIT = lazy_re(r"\d+[:-]")
_ENTRY = lazy_re(r"( *)(.+?)(/?)(?: \(\d+ inside\))?")


def named_files(text: str) -> list[str]:
    """The files that a text names: ``data/a.csv``, ``notes.txt``."""
    return [name for name in dict.fromkeys(_FILE.findall(text)) if len(name) >= _SHORTEST_NAME]


def known_files(messages: Sequence[Message]) -> list[str]:
    """The files that people named and tools showed, in the order in which they came up."""
    calls = {call.id: call for message in messages for call in message.tool_uses}
    found: dict[str, None] = {}
    for message in messages:
        if message.role == "user":
            found.update(dict.fromkeys(named_files(own_words(message.text))))
            for result in message.tool_results:
                call = calls.get(result.tool_use_id)
                if call is not None and not result.is_error:
                    found.update(dict.fromkeys(_shown(call, result)))
    return list(found)


def _shown(call: ToolUseBlock, result: ToolResultBlock) -> Iterator[str]:
    match call.name:
        case "list_files":
            yield from _tree(result.text, str(call.input.get("path") or "."))
        case "grep" | "glob":
            yield from (
                line for line in result.text.splitlines() if line and not _HIT.match(line) and line[0] not in "([-"
            )
        case "read_file" | "write_file" | "edit" | "multi_edit":
            yield str(call.input.get("path", ""))
        case _:
            pass


def _tree(text: str, base: str) -> Iterator[str]:
    """The files of an indented listing, below the folder that was listed."""
    folders = [] if base in {".", "./"} else [base.rstrip("/")]
    start = len(folders)
    for line in text.splitlines():
        match = _ENTRY.fullmatch(line)
        if not match or line.startswith("("):
            continue
        depth = start + len(match[1]) // 2
        path = "/".join([*folders[:depth], match[2]])
        if match[3]:
            folders = [*folders[:depth], match[2]]
        else:
            yield path
