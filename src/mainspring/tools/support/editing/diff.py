"""A unified diff for people and logs: of the changed part only, and never long."""

from __future__ import annotations

from difflib import unified_diff

from msgspec import Struct

from mainspring.tools.support.text_files import replace_surrogates

MAX_DIFF_BYTES = 16_384
_MOST_LINES = 2_000
_CONTEXT = 3


class Diff(Struct, frozen=True):
    """A unified diff and how many lines it adds and takes away."""

    text: str
    added: int
    removed: int


def diff(before: str, after: str, path: str) -> Diff:
    """The difference. Slow for big texts: meant for a thread. A long one is cut, and says so."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    first = max(0, head - _CONTEXT)
    last_old, last_new = len(old) - max(0, tail - _CONTEXT), len(new) - max(0, tail - _CONTEXT)
    a, b = old[first:last_old], new[first:last_new]
    if max(len(a), len(b)) > _MOST_LINES:
        removed, added = len(old) - head - tail, len(new) - head - tail
        return Diff(
            f"--- a/{path}\n+++ b/{path}\n(lines {head + 1} to {len(old) - tail} replaced by {added} lines)\n",
            added,
            removed,
        )
    lines = [_complete(line) for line in unified_diff(a, b, f"a/{path}", f"b/{path}")]
    lines = [_shift_hunk_header(line, first) if line.startswith("@@") else line for line in lines]
    body = lines[2:]
    added = sum(line.startswith("+") for line in body)
    removed = sum(line.startswith("-") for line in body)
    return Diff(_truncate(replace_surrogates("".join(lines))), added, removed)


def _complete(line: str) -> str:
    return line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"


def _shift_hunk_header(header: str, by: int) -> str:
    """A hunk header with its line numbers moved down."""
    parts = header.split(" ")
    for i in (1, 2):
        sign, (start, *rest) = parts[i][0], parts[i][1:].split(",")
        parts[i] = sign + ",".join([str(int(start) + by), *rest])
    return " ".join(parts)


def _truncate(text: str) -> str:
    data = text.encode("utf-8", "replace")
    if len(data) <= MAX_DIFF_BYTES:
        return text
    kept = data[:MAX_DIFF_BYTES].decode("utf-8", "ignore")
    kept = kept[: kept.rfind("\n") + 1]
    return f"{kept}(diff cut: {len(data) - MAX_DIFF_BYTES} bytes more)\n"
