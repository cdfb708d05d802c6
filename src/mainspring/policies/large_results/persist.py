"""Large results go to files; the model gets a preview and the path."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import secrets
from collections.abc import Collection
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mainspring.lazy import lazy_function, lazy_re
from mainspring.loop.hooks import ToolTransform
from mainspring.messages import ImageBlock, TextBlock
from mainspring.redaction import redact
from mainspring.tools import ToolOutput

if TYPE_CHECKING:
    from html import escape
else:
    escape = lazy_function("html", "escape")

logger = logging.getLogger("mainspring")

PREVIEW_BYTES = 2048
"""Bytes of the result that the model sees."""

_UNSAFE = lazy_re(r"[^A-Za-z0-9_-]")
_CLOSING = lazy_re(r"<(?=/persisted-output)", re.IGNORECASE)


class PersistLargeResults:
    """Writes the text of a large result to a file of its own and puts a preview in its place.

    What stands in the history is the preview, so the prompt's prefix stays as it is from turn to turn. A result whose file
    cannot be written stays whole. What is read back from the folder itself is never put there again.

    Args:
        folder: Where files go; made, for its owner only, when the first one is written.
        threshold: Bytes of text from which on, exclusive, a result is large.
        exclude: Tools whose results stay as they are.
    """

    def __init__(self, folder: str, threshold: int, exclude: Collection[str] = ()) -> None:
        self._folder = os.path.abspath(folder)
        self._threshold = threshold
        self._exclude = exclude

    async def transform(self, hook: ToolTransform) -> None:
        """The handler of `tool:transform`; belongs behind all others, so that what is kept is what they made."""
        output, source = hook.result.output, hook.result.metadata.get("path")
        text = _text(output)
        if hook.name in self._exclude or len(text) * 4 <= self._threshold:
            return
        data = text.encode("utf-8", "replace")
        if len(data) <= self._threshold or (isinstance(source, str) and source.startswith(self._folder + os.sep)):
            return
        try:
            path = await asyncio.to_thread(self._write, hook.name, redact(text).encode("utf-8", "replace"))
        except OSError as error:
            logger.warning("a large result of %s stays in the conversation: %s", hook.name, error)
            return
        stub = _preview_block(hook.name, data, path)
        images = () if isinstance(output, str) else tuple([b for b in output if isinstance(b, ImageBlock)])
        hook.result = replace(
            hook.result,
            output=(TextBlock(stub), *images) if images else stub,
            metadata={**hook.result.metadata, "persisted": path},
        )

    def _write(self, tool: str, data: bytes) -> str:
        """Write the file, whole or not at all; the same text always has the same name."""
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        name = f"{_UNSAFE.sub('_', tool)[:64]}_{hashlib.sha256(data).hexdigest()[:16]}.txt"
        path = os.path.join(self._folder, name)
        temporary = f"{path}.{secrets.token_hex(4)}.tmp"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
        return path


def _text(output: ToolOutput) -> str:
    return output if isinstance(output, str) else "\n".join([b.text for b in output if isinstance(b, TextBlock)])


def _preview_block(tool: str, data: bytes, path: str) -> str:
    """The envelope; nothing in the preview or in a name can end it early."""
    preview = _CLOSING.sub("&lt;", data[:PREVIEW_BYTES].decode("utf-8", "ignore"))
    told = "".join(
        f' {name}="{_attribute(value)}"' for name, value in (("tool", tool), ("bytes", len(data)), ("path", path))
    )
    note = f"[These are the first bytes of {len(data)}; the rest is in the file.]" if len(data) > PREVIEW_BYTES else ""
    return f"<persisted-output{told}>\n{preview}\n{note}\n</persisted-output>".replace("\n\n</", "\n</")


def _attribute(value: object) -> str:
    return escape(str(value)).replace("\n", "&#10;").replace("\r", "&#13;")
