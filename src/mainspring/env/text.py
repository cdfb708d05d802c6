"""Text in files: which encoding it has, and how to change it without touching the rest.

UTF-8 and a byte order mark decide first; only what is neither is guessed. A document can be written back exactly as it was
read: decoding and encoding again gives the same bytes, else it is no document.
"""

from __future__ import annotations

import codecs

from msgspec import Struct

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SAMPLE = 1 << 16


class Document(Struct, frozen=True):
    """A file's text.

    Attributes:
        text: Without the byte order mark; line endings as they are.
        encoding: Name of the codec.
        mark: The byte order mark, or nothing.
    """

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""

    def encode(self, text: str) -> bytes:
        """Other text in this document's form.

        Raises:
            UnicodeEncodeError: If the encoding lacks a character of it.
        """
        return self.mark + text.encode(self.encoding)

    @property
    def form(self) -> str:
        """The encoding in words; empty for plain UTF-8."""
        if self.encoding == "utf-8":
            return "UTF-8 with byte order mark" if self.mark else ""
        return self.encoding + (" with byte order mark" if self.mark else "")


def mark_of(data: bytes) -> tuple[bytes, str]:
    """The byte order mark at the start and the encoding that it means; two empty values if there is none."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return mark, encoding
    return b"", ""


def looks_binary(data: bytes) -> bool:
    """Whether bytes are no text: a NUL without a byte order mark, or mostly control characters."""
    if mark_of(data)[0]:
        return False
    sample = data[:_SAMPLE]
    if b"\0" in sample:
        return True
    controls = sum(sample.count(c) for c in _CONTROLS)
    return controls * 10 > len(sample)


_CONTROLS = [bytes([c]) for c in (*range(0x01, 0x09), *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x7F)]


def read_document(data: bytes) -> Document | None:
    """The text in these bytes; ``None`` if they are binary or no encoding gives the same bytes back. May take a while."""
    mark, encoding = mark_of(data)
    if mark:
        return _exact(data[len(mark) :], encoding, mark)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None if looks_binary(data) else _guess(data)
    return None if looks_binary(data) else Document(text)


def _exact(data: bytes, encoding: str, mark: bytes = b"") -> Document | None:
    try:
        text = data.decode(encoding)
        return Document(text, encoding, mark) if text.encode(encoding) == data else None
    except (UnicodeError, LookupError):
        return None


def _guess(data: bytes) -> Document | None:
    from charset_normalizer import from_bytes  # 50 ms, and only for files that are not UTF-8

    sample = data if len(data) <= 4 * _SAMPLE else data[: data.rfind(b"\n", 0, 4 * _SAMPLE) + 1]
    best = from_bytes(sample).best()
    names = [best.encoding] if best else []
    for encoding in [*names, "cp1252", "latin-1"]:
        found = _exact(data, encoding.replace("_", "-"))
        if found and not encoding.startswith(("utf_7", "utf-7", "iso2022", "hz")):
            return found
    return None
