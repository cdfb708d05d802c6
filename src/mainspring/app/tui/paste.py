"""Pasted text and images: detection of pastes, and placeholders for large pastes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal

from msgspec import Struct
from prompt_toolkit.input import Input
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

from mainspring.app.tui.terminal_reports import ReportFilter

BURST = "\ue000"
"""The key for a burst of plain characters, which are its data. One key is much cheaper than many."""


_MIN_BURST_KEYS = 32
_PLAIN = {Keys.ControlM: "\n", Keys.ControlJ: "\n", Keys.ControlI: "\t"}


class BurstInput(Input):
    """An input that joins bursts of characters to one key, and removes reports of the terminal.

    Args:
        keys: The input that reads keys.
    """

    def __init__(self, keys: Input) -> None:
        self._keys = keys
        if isinstance(keys, Vt100Input):
            keys.vt100_parser = ReportFilter(keys.vt100_parser)

    def read_keys(self) -> list[KeyPress]:
        """Return the keys that arrived."""
        return join_bursts(self._keys.read_keys())

    def flush_keys(self) -> list[KeyPress]:
        """Return the keys that were delayed in case more followed."""
        return self._keys.flush_keys()

    def fileno(self) -> int:
        """Return the file descriptor."""
        return self._keys.fileno()

    def typeahead_hash(self) -> str:
        """Return the key for typeahead."""
        return self._keys.typeahead_hash()

    def flush(self) -> None:
        """Flush the input."""
        self._keys.flush()

    @property
    def closed(self) -> bool:
        """Whether the input is closed."""
        return self._keys.closed

    def raw_mode(self) -> AbstractContextManager[None]:
        """Enter raw mode."""
        return self._keys.raw_mode()

    def cooked_mode(self) -> AbstractContextManager[None]:
        """Enter cooked mode."""
        return self._keys.cooked_mode()

    def attach(self, input_ready_callback: Callable[[], None]) -> AbstractContextManager[None]:
        """Call a function when keys arrive."""
        return self._keys.attach(input_ready_callback)

    def detach(self) -> AbstractContextManager[None]:
        """Stop calling the function of `attach`."""
        return self._keys.detach()

    def close(self) -> None:
        """Close the input."""
        self._keys.close()


def join_bursts(keys: list[KeyPress]) -> list[KeyPress]:
    """Join each long run of characters to one key. A final Enter stays a key, since it may submit the text."""
    if len(keys) < _MIN_BURST_KEYS:
        return keys
    found: list[KeyPress] = []
    run: list[KeyPress] = []
    for key in keys:
        if _text_of(key):
            run.append(key)
        else:
            found += _join_run(run)
            found.append(key)
            run = []
    last = run.pop() if run and run[-1].key == Keys.ControlM else None
    return [*found, *_join_run(run), *([last] if last else [])]


def _join_run(run: list[KeyPress]) -> list[KeyPress]:
    return run if len(run) < _MIN_BURST_KEYS else [KeyPress(BURST, "".join(map(_text_of, run)))]


def _text_of(key: KeyPress) -> str:
    """Return the character of a plain key, or an empty string."""
    if isinstance(key.key, Keys):
        return _PLAIN.get(key.key, "")
    return key.key if len(key.key) == 1 and key.data == key.key else ""


_MAX_PASTE_GAP_SECONDS = 0.02
_READ_SIZE = 1_000


class PasteDetector:
    """Detects whether Enter is part of a paste: a paste arrives faster than anyone types."""

    def __init__(self) -> None:
        self._last = -1.0
        self._keys = 0
        self._lines = 0

    def key(self, now: float) -> None:
        """Note a key."""
        if now - self._last > _MAX_PASTE_GAP_SECONDS:
            self._keys = self._lines = 0
        self._last = now
        self._keys += 1

    def text(self, text: str, now: float) -> None:
        """Note the text of a burst, whose key was noted before, after its insertion: on a slow machine, that takes longer than the gap."""
        self._last = now
        self._keys += len(text) - 1
        self._lines += text.count("\n")

    def is_pasted(self, waiting: int, now: float) -> bool:
        """Return True if an Enter that arrived now is part of a paste.

        Args:
            waiting: Number of keys that already arrived after it.
            now: The time.
        """
        if now - self._last > _MAX_PASTE_GAP_SECONDS:
            self._lines = 0
        pasted = waiting > 0 or self._lines > 0 or self._keys >= _READ_SIZE
        self._lines += pasted
        return pasted


_FIRST = 0x100000
_SIGNS = re.compile("[\U00100000-\U0010ffff]")
_PERCENT = re.compile(rb"%([0-9a-fA-F]{2})")
_MANY_LINES = 8
_MANY_CHARACTERS = 1_000
_MAX_IMAGE_BYTES = 10 << 20
_IMAGES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp"}


class PasteContent(Struct, frozen=True):
    """The content of a placeholder."""

    kind: Literal["text", "image"]
    label: str
    text: str = ""
    data: bytes = b""
    media_type: str = ""
    name: str = ""


class ExpandedInput(Struct, frozen=True):
    """An input with its placeholders replaced: its text and its images."""

    text: str
    images: tuple[PasteContent, ...] = ()


class PasteStore:
    """Stores what was pasted. A placeholder is one character, so that the cursor skips it and a key deletes it."""

    def __init__(self) -> None:
        self._contents: list[PasteContent] = []

    def text(self, text: str) -> str:
        """Return what to insert for a pasted text: a placeholder if it is large, else the text."""
        text = normalize_paste(text)
        lines = text.count("\n") + 1
        if lines < _MANY_LINES and len(text) < _MANY_CHARACTERS:
            return text
        size = f"{lines} lines" if lines > 1 else f"{len(text)} characters"
        return self._add(PasteContent("text", f"[pasted {size}]", text))

    def add_image(self, data: bytes, media_type: str, name: str = "") -> str:
        """Return the placeholder of an image."""
        number = sum(content.kind == "image" for content in self._contents) + 1
        label = f"[Image {number}: {name}]" if name else f"[Image {number}]"
        return self._add(PasteContent("image", label, data=data, media_type=media_type, name=name))

    def _add(self, pasted: PasteContent) -> str:
        self._contents.append(pasted)
        return chr(_FIRST + len(self._contents) - 1)

    def label(self, sign: str) -> str | None:
        """Return the label of a character, or None if it is not a placeholder."""
        known = self._find(sign)
        return known.label if known else None

    def _find(self, sign: str) -> PasteContent | None:
        at = ord(sign) - _FIRST
        return self._contents[at] if 0 <= at < len(self._contents) else None

    def to_display(self, text: str) -> str:
        """Return the input with labels in place of placeholders."""
        return _SIGNS.sub(lambda match: self.label(match[0]) or "", text)

    def expand(self, text: str) -> ExpandedInput:
        """Replace the placeholders of an input with their contents. Unknown ones are removed."""
        images: list[PasteContent] = []

        def content(match: re.Match[str]) -> str:
            known = self._find(match[0])
            if known is None:
                return ""
            if known.kind == "image":
                images.append(known)
                return known.label
            return known.text

        return ExpandedInput(_SIGNS.sub(content, text), tuple(images))


def normalize_paste(text: str) -> str:
    """Normalize line ends, and remove characters that are placeholders here."""
    return _SIGNS.sub("", text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", ""))


def find_image_path(text: str) -> Path | None:
    """Return the image file that a pasted text names, for example a file that was dropped on the terminal."""
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
    """Read an image and its media type.

    Raises:
        OSError: If the file cannot be read or is larger than 10 MiB.
    """
    if path.stat().st_size > _MAX_IMAGE_BYTES:
        raise OSError(f"{path.name} is larger than 10 MiB, the limit for images.")
    return path.read_bytes(), _IMAGES[path.suffix.lower()]
