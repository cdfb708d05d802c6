"""Large pastes as one sign each in the input, which stands for its text wherever that is used."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal

from msgspec import Struct

_FIRST = 0x100000
_SIGNS = re.compile("[\U00100000-\U0010ffff]")
_PERCENT = re.compile(rb"%([0-9a-fA-F]{2})")
_MANY_LINES = 8
_MANY_CHARACTERS = 1_000
_MAX_IMAGE_BYTES = 10 << 20
_IMAGES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp"}


class PasteContent(Struct, frozen=True):
    """What a sign stands for."""

    kind: Literal["text", "image"]
    label: str
    text: str = ""
    data: bytes = b""
    media_type: str = ""
    name: str = ""


class ExpandedInput(Struct, frozen=True):
    """An input as it is sent: its text, and the images that stood in it."""

    text: str
    images: tuple[PasteContent, ...] = ()


class PasteStore:
    """Keeps what was pasted while the screen is open. A sign is one character, so it is moved over and deleted as one."""

    def __init__(self) -> None:
        self._known: list[PasteContent] = []

    def text(self, text: str) -> str:
        """What to put into the input for a pasted text: a sign if it is large, else itself."""
        text = normalize_paste(text)
        lines = text.count("\n") + 1
        if lines < _MANY_LINES and len(text) < _MANY_CHARACTERS:
            return text
        size = f"{lines} lines" if lines > 1 else f"{len(text)} characters"
        return self._add(PasteContent("text", f"[pasted {size}]", text))

    def image(self, data: bytes, media_type: str, name: str = "") -> str:
        """The sign for an image."""
        label = f"[image {name}]" if name else f"[image {len(data) // 1024 + 1} KiB]"
        return self._add(PasteContent("image", label, data=data, media_type=media_type, name=name))

    def _add(self, pasted: PasteContent) -> str:
        self._known.append(pasted)
        return chr(_FIRST + len(self._known) - 1)

    def label(self, sign: str) -> str | None:
        """What to show for a character, if it is a sign."""
        known = self._of(sign)
        return known.label if known else None

    def _of(self, sign: str) -> PasteContent | None:
        at = ord(sign) - _FIRST
        return self._known[at] if 0 <= at < len(self._known) else None

    def shown(self, text: str) -> str:
        """The input as people see it."""
        return _SIGNS.sub(lambda match: self.label(match[0]) or "", text)

    def expand(self, text: str) -> ExpandedInput:
        """The input as it is sent. What no longer stands for anything is left out."""
        images: list[PasteContent] = []

        def content(match: re.Match[str]) -> str:
            known = self._of(match[0])
            if known is None:
                return ""
            if known.kind == "image":
                images.append(known)
                return known.label
            return known.text

        return ExpandedInput(_SIGNS.sub(content, text), tuple(images))


def normalize_paste(text: str) -> str:
    """A pasted text with plain line ends and without characters that are signs here."""
    return _SIGNS.sub("", text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", ""))


def find_image_path(text: str) -> Path | None:
    """The image file that a pasted text names, as terminals paste a file that is dropped on them."""
    line = text.strip().strip("'\"")
    if not line or "\n" in line or len(line) > 4096:
        return None
    if line.startswith("file://"):
        line = os.fsdecode(
            _PERCENT.sub(lambda m: bytes([int(m[1], 16)]), os.fsencode(line[7:].removeprefix("localhost")))
        )
    path = Path(re.sub(r"\\(.)", r"\1", line)).expanduser()
    return path if path.suffix.lower() in _IMAGES and path.is_absolute() else None


def read_image(path: Path) -> tuple[bytes, str]:
    """An image and its media type.

    Raises:
        OSError: If it cannot be read, or is larger than 10 MiB.
    """
    if path.stat().st_size > _MAX_IMAGE_BYTES:
        raise OSError(f"{path.name} is larger than 10 MiB")
    return path.read_bytes(), _IMAGES[path.suffix.lower()]
