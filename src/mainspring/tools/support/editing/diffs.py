"""Line diffs: compute them as unified diffs, and parse those into structs for front ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import unified_diff

from msgspec import Struct
from msgspec.structs import replace

from mainspring.events import FileDiff, Hunk
from mainspring.lazy import lazy_re
from mainspring.text import truncate_bytes
from mainspring.tools.support.text_files import replace_surrogates

_HEADER = lazy_re(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_START = lazy_re(r"( [-+])(\d+)")
"""The first line of a hunk in a header."""

MAX_DIFF_BYTES = 256 << 10
_MAX_LINES = 2_000
"""Maximum number of lines to compare with each other."""
_CONTEXT = 3


class Diff(Struct, frozen=True):
    """A unified diff, and the numbers of added and removed lines."""

    text: str
    added: int
    removed: int

    @property
    def metadata(self) -> dict[str, str | int]:
        """Return the metadata for the result of a tool."""
        return {"diff": self.text, "added": self.added, "removed": self.removed}


def compute_diff(before: str, after: str, path: str, *, max_bytes: int = MAX_DIFF_BYTES) -> Diff:
    """Return the unified diff.

    Slow for large texts: run it in a thread. A diff of more than ``max_bytes`` is cut, with a note.
    """
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    head, tail = count_common_lines(old, new)
    first = max(0, head - _CONTEXT)
    last_old, last_new = len(old) - max(0, tail - _CONTEXT), len(new) - max(0, tail - _CONTEXT)
    a, b = old[first:last_old], new[first:last_new]
    if max(len(a), len(b)) > _MAX_LINES:  # one hunk: comparing so many lines takes too long
        ranges = f"@@ -{first + bool(a)},{len(a)} +{first + bool(b)},{len(b)} @@\n"
        body = [" " + line for line in old[first:head]]
        body += ["-" + line for line in old[head : len(old) - tail]]
        body += ["+" + line for line in new[head : len(new) - tail]]
        body += [" " + line for line in old[len(old) - tail : last_old]]
        lines = [f"--- a/{path}\n", f"+++ b/{path}\n", ranges, *map(_complete, body)]
    else:
        lines = [_complete(line) for line in unified_diff(a, b, f"a/{path}", f"b/{path}")]
        if first:
            lines = [_START.sub(lambda m: m[1] + str(int(m[2]) + first), i) if i.startswith("@@") else i for i in lines]
    added, removed = (sum(line.startswith(sign) for line in lines[2:]) for sign in "+-")
    return Diff(_truncate(replace_surrogates("".join(lines)), max_bytes), added, removed)


def _complete(line: str) -> str:
    if line.endswith("\r"):
        return line[:-1] + "\n"
    return line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"


def count_common_lines(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Return how many lines both texts have in common at the start, and at the end after those."""
    shorter = min(len(old), len(new))
    head = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    return head, next((i for i in range(shorter - head) if old[-1 - i] != new[-1 - i]), shorter - head)


def _truncate(text: str, max_bytes: int) -> str:
    more = len(text.encode("utf-8", "replace")) - max_bytes
    note = f"(diff cut: {more} bytes more)\n" if more > 0 else ""
    return truncate_bytes(text, max_bytes, whole_lines=True) + note


def parse_diff(text: str, number: int = 0) -> tuple[FileDiff, ...]:
    """Parse a unified diff; ``number`` is the number of the first hunk."""
    diffs: list[FileDiff] = []
    lines = iter(text.removesuffix("\n").split("\n") if text else ())
    for line in lines:
        if line.startswith("--- "):
            target = next(lines, "")
            old, new = _name(line), _name(target)
            diffs.append(FileDiff(path=old if new == "/dev/null" else new))
        elif diffs:
            header = _HEADER.match(line)
            if header is None:
                if line.startswith("\\"):  # a missing newline at the end of the file is not shown
                    continue
                diffs[-1] = replace(diffs[-1], note="; ".join(filter(None, (diffs[-1].note, line.strip("()")))))
                continue
            body = tuple(_hunk_lines(lines, int(header[1] or 1), int(header[2] or 1)))
            diffs[-1] = replace(
                diffs[-1],
                hunks=(*diffs[-1].hunks, Hunk(number, line, body)),
                added=diffs[-1].added + sum(each.startswith("+") for each in body),
                removed=diffs[-1].removed + sum(each.startswith("-") for each in body),
            )
            number += 1
    return tuple(diffs)


def _hunk_lines(lines: Iterator[str], old: int, new: int) -> Iterator[str]:
    """Yield as many lines as the header of a hunk counts, since a removed line can look like the next header."""
    while old > 0 or new > 0:
        line = next(lines, None)
        if line is None:
            return
        if line.startswith("\\"):
            continue
        old -= line[:1] != "+"
        new -= line[:1] != "-"
        yield line.removesuffix("\r") or " "


def _name(line: str) -> str:
    name = line[4:]
    return name[2:] if name[:2] in ("a/", "b/") else name
