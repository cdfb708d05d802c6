"""Tags for untrusted text in prompts.

Names and schemas of others are enclosed in tags that they cannot close, with invisible characters escaped. Text attached to a
prompt, piped in or from a mentioned file, is enclosed in tags, too, and can be recognized by them. So are the instructions of a
slash command.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from mainspring.lazy import lazy_re
from mainspring.text import escape_as_json

# Characters that reorder, hide, or join text: soft hyphen, line and paragraph separators, bidi and zero-width marks, fillers,
# variation selectors, tags; and lone surrogates, which no encoding accepts.
_INVISIBLE = (
    "\\x7f-\\x9f\\xad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f"
    "\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb\\U000e0000-\\U000e0fff\\ud800-\\udfff"
)
_IN_TEXT = lazy_re(f"[&<>\"'\\x00-\\x1f{_INVISIBLE}]")
_IN_JSON = lazy_re(f"[<{_INVISIBLE}]")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"}


def escape_text(text: str) -> str:
    """Escape text for use inside tags: markup as entities; control, bidi, and invisible characters as numbers. Always one line."""
    return _IN_TEXT.sub(lambda found: _ENTITIES.get(found[0]) or f"&#x{ord(found[0]):x};", text)


def escape_json(value: Any) -> str:
    """Encode JSON on one line with ``<`` and invisible characters escaped: it cannot close a tag, and decodes to the same value.

    Raises:
        ValueError: If it is not JSON, or nested too deep.
    """
    try:
        import json

        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, RecursionError) as error:
        raise ValueError(f"cannot be written as JSON: {error}") from None
    return _IN_JSON.sub(lambda found: escape_as_json(found[0]), text)


def tag_list(mark: str, names: Iterable[str]) -> str:
    """Enclose names in tags, one per line, in alphabetical order."""
    return "\n".join((f"<{mark}>", *(escape_text(name) for name in sorted(names)), f"</{mark}>"))


INSTRUCTIONS_TAG = "command-instructions"
"""Tag of the instructions of a slash command; its attribute ``line`` is the command."""

_TAGGED_BLOCK = re.compile(
    rf'^<((?:stdin|file|folder|{INSTRUCTIONS_TAG})(?:-\d+)?)(?: (?:path|line)="([^\n]*)")?>\n(.*?)^</\1>',
    re.MULTILINE | re.DOTALL,
)


def wrap_in_tag(tag: str, text: str, **attributes: str) -> str:
    """Enclose text in tags that it does not contain.

    Args:
        tag: ``stdin``, ``file``, ``folder``, or `INSTRUCTIONS_TAG`.
        text: The attached text.
        **attributes: Attributes of the opening tag; ``path`` of a file or folder, ``line`` of a slash command.
    """
    number, name = 1, tag
    while f"</{name}>" in text:
        number += 1
        name = f"{tag}-{number}"
    rendered = "".join(f' {key}="{value}"' for key, value in attributes.items())
    return f"<{name}{rendered}>\n{text.removesuffix(chr(10))}\n</{name}>"


def find_attached_files(text: str) -> list[tuple[str, str]]:
    """Return path and text of each file that is attached to a prompt; the text lacks its last line break."""
    if "<file" not in text:
        return []
    found = _TAGGED_BLOCK.findall(text)
    return [(path, body.removesuffix("\n")) for tag, path, body in found if tag.startswith("file")]


def find_instructions(text: str) -> tuple[str, str]:
    """Return the slash command that wrote a prompt and its instructions; empty texts for a prompt of the user."""
    if f"<{INSTRUCTIONS_TAG}" not in text:
        return "", ""
    blocks = (found for found in _TAGGED_BLOCK.findall(text) if found[0].startswith(INSTRUCTIONS_TAG))
    _, line, body = next(blocks, ("", "", ""))
    return line, body.removesuffix("\n")


def strip_attachments(text: str) -> str:
    """Return a prompt without its attachments and the instructions of a slash command: the text that the user wrote."""
    return _TAGGED_BLOCK.sub("", text)


def has_attachments(text: str) -> bool:
    """Return True if a prompt has attachments."""
    return _TAGGED_BLOCK.search(text) is not None
