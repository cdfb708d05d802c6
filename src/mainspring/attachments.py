"""Text that is attached to a prompt: piped in, or a file that it mentions. How it is marked, and how to tell it apart."""

from __future__ import annotations

import re

_BLOCK = re.compile(r'^<((?:stdin|file|folder)(?:-\d+)?)(?: path="[^\n]*")?>\n.*?^</\1>', re.MULTILINE | re.DOTALL)


def delimited(tag: str, text: str, **attributes: str) -> str:
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


def own_words(text: str) -> str:
    """A prompt without what was attached to it: what the person wrote."""
    return _BLOCK.sub("", text)


def has_attachments(text: str) -> bool:
    """Whether a prompt brings text with it."""
    return _BLOCK.search(text) is not None
