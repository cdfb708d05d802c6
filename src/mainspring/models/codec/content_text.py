"""Text out of model content, in whatever shape a library or a host gives it."""

from __future__ import annotations

from typing import Any, cast

from mainspring.messages import Message, TextBlock
from mainspring.models.json_values import as_object


def extract_text(content: object) -> str:
    """The text of content: a string, a message, one block, or a list of blocks.

    Blocks may be our own, texts, or objects of JSON with ``text`` (a type other than text, as ``thinking``, is no text).
    What is no text adds nothing.
    """
    if isinstance(content, str):
        return content
    if isinstance(content, Message | TextBlock):
        return content.text
    if isinstance(content, list | tuple):
        return "".join([extract_text(part) for part in cast("list[Any]", content)])
    block = as_object(content)
    if block is None:
        return ""
    if block.get("type", "text") in ("text", "output_text", "input_text"):
        text = block.get("text")
        return text if isinstance(text, str) else extract_text(block.get("content"))
    return ""
