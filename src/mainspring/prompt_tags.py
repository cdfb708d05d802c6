"""Names and schemas that others wrote, put between marks that they cannot close and in characters that all can be seen.

Text that is attached to a prompt: piped in, or a file that it mentions. How it is marked, and how to tell it apart.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from mainspring.lazy import lazy_re

# What turns, hides or joins text: soft hyphen, line and paragraph separators, bidi and zero-width marks, fillers, variation
# selectors, tags; and surrogates that stand alone, which no encoding takes.
_INVISIBLE = (
    "\\x7f-\\x9f\\xad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f"
    "\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb\\U000e0000-\\U000e0fff\\ud800-\\udfff"
)
_IN_TEXT = lazy_re(f"[&<>\"'\\x00-\\x1f{_INVISIBLE}]")
_IN_JSON = lazy_re(f"[<{_INVISIBLE}]")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"}


def escape_text(text: str) -> str:
    """Text for between marks: markup as entities; control, bidi and invisible characters as numbers. Always one line."""
    return _IN_TEXT.sub(lambda found: _ENTITIES.get(found[0]) or f"&#x{ord(found[0]):x};", text)


def escape_json(value: Any) -> str:
    """JSON on one line, in which ``<`` and what cannot be seen are escapes: it closes no mark, and reads back the same.

    Raises:
        ValueError: If it is no JSON, or nested too deep to be written.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, RecursionError) as error:
        raise ValueError(f"cannot be written as JSON: {error}") from None
    return _IN_JSON.sub(lambda found: _escape(ord(found[0])), text)


def tag_list(mark: str, names: Iterable[str]) -> str:
    """Names between marks, one a line, in alphabetical order."""
    return "\n".join((f"<{mark}>", *(escape_text(name) for name in sorted(names)), f"</{mark}>"))


def _escape(code: int) -> str:
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


_TAGGED_BLOCK = re.compile(
    r'^<((?:stdin|file|folder)(?:-\d+)?)(?: path="[^\n]*")?>\n.*?^</\1>', re.MULTILINE | re.DOTALL
)


def wrap_in_tag(tag: str, text: str, **attributes: str) -> str:
    """Text between marks that it does not hold itself.

    Args:
        tag: ``stdin``, ``file`` or ``folder``.
        text: What is attached.
        **attributes: Said in the opening mark; ``path`` of a file or folder.
    """
    number, name = 1, tag
    while f"</{name}>" in text:
        number += 1
        name = f"{tag}-{number}"
    told = "".join(f' {key}="{value}"' for key, value in attributes.items())
    return f"<{name}{told}>\n{text.removesuffix(chr(10))}\n</{name}>"


def strip_attachments(text: str) -> str:
    """A prompt without what was attached to it: what the person wrote."""
    return _TAGGED_BLOCK.sub("", text)


def has_attachments(text: str) -> bool:
    """Whether a prompt brings text with it."""
    return _TAGGED_BLOCK.search(text) is not None
