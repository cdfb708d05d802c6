"""Pasted text and images: telling a paste from typing, and placeholders for large pastes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal

from msgspec import Struct
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

BURST = "\ue000"
"""The key that stands for them; its data are the text. Terminals that mark pastes never send so much at once otherwise."""


_MIN_BURST_KEYS = 32
_PLAIN = {Keys.ControlM: "\n", Keys.ControlJ: "\n", Keys.ControlI: "\t"}


class BurstInput(Input):
    """Keys of another input, bursts together.

    Args:
        keys: The other input.
    """

    def __init__(self, keys: Input) -> None:
        self._keys = keys

    def read_keys(self) -> list[KeyPress]:
        """What came."""
        return join_bursts(self._keys.read_keys())

    def flush_keys(self) -> list[KeyPress]:
        """What was held back until it is clear that nothing follows."""
        return self._keys.flush_keys()

    def fileno(self) -> int:
        """Descriptor for event loops."""
        return self._keys.fileno()

    def typeahead_hash(self) -> str:
        """Names the input for what is typed ahead."""
        return self._keys.typeahead_hash()

    def flush(self) -> None:
        """Flush it."""
        self._keys.flush()

    @property
    def closed(self) -> bool:
        """Whether nothing can come any more."""
        return self._keys.closed

    def raw_mode(self) -> AbstractContextManager[None]:
        """Have keys come one by one."""
        return self._keys.raw_mode()

    def cooked_mode(self) -> AbstractContextManager[None]:
        """Have lines come."""
        return self._keys.cooked_mode()

    def attach(self, input_ready_callback: Callable[[], None]) -> AbstractContextManager[None]:
        """Be told when keys have come."""
        return self._keys.attach(input_ready_callback)

    def detach(self) -> AbstractContextManager[None]:
        """Be not told any more."""
        return self._keys.detach()

    def close(self) -> None:
        """Close it."""
        self._keys.close()


def join_bursts(keys: list[KeyPress]) -> list[KeyPress]:
    """Keys with each long run of characters as one. An Enter at the end of all stays one: it may mean to send what is before it."""
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
    """The character of a plain key; nothing for any other."""
    if isinstance(key.key, Keys):
        return _PLAIN.get(key.key, "")
    return key.key if len(key.key) == 1 and key.data == key.key else ""


_MAX_PASTE_GAP_SECONDS = 0.02
_READ_SIZE = 1_000


class PasteDetector:
    """Is told of each key, and says of Enter whether it is part of a paste."""

    def __init__(self) -> None:
        self._last = -1.0
        self._keys = 0
        self._lines = 0

    def key(self, now: float) -> None:
        """A key came."""
        if now - self._last > _MAX_PASTE_GAP_SECONDS:
            self._keys = self._lines = 0
        self._last = now
        self._keys += 1

    def text(self, text: str) -> None:
        """A text came as one key, of which `key` was told."""
        self._keys += len(text) - 1
        self._lines += text.count("\n")

    def is_pasted(self, waiting: int, now: float) -> bool:
        """Whether an Enter that came just now stands in a pasted text.

        Args:
            waiting: How many keys have come behind it already.
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
