"""Detect the encoding of text files and web pages, and change text without affecting the rest of a file.

For files, UTF-8 and byte order marks have priority; other encodings are guessed. Text is decoded only if encoding it again
returns the same bytes, so it can be written back exactly. For pages, the encoding comes from the server, else from the
page, else from its bytes.
"""

from __future__ import annotations

import codecs
import re
from unicodedata import category

from msgspec import Struct

from mainspring.lazy import lazy_re

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LEGACY_ENCODINGS = (
    *("cp1252", "cp932", "gb18030", "big5", "cp949", "euc_jp", "cp1251", "koi8_r"),
    *("cp1250", "cp1253", "cp1254", "cp1255", "cp1256"),
)
"""Encodings in order of preference if the text is ambiguous."""
_SAMPLE = 1 << 16
_SURROGATES = lazy_re("[\ud800-\udfff]")
_NOT_ASCII = lazy_re(rb"[\x80-\xff]")


class DecodedText(Struct, frozen=True):
    """Text of a file.

    Attributes:
        text: Text without the byte order mark, with its original line endings.
        encoding: Name of the codec.
        mark: Byte order mark, or empty.
        damage: Number of invalid bytes in text that is UTF-8 otherwise; they are surrogate escapes in `text`.
    """

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""
    damage: int = 0

    def encode(self, text: str) -> bytes:
        """Encode another text in this document's encoding.

        Raises:
            UnicodeEncodeError: The encoding cannot represent a character.
        """
        return self.mark + text.encode(self.encoding, "surrogateescape" if self.damage else "strict")

    @property
    def encoding_note(self) -> str:
        """Description of the encoding; empty for plain UTF-8."""
        if self.damage:
            return f"UTF-8 with {self.damage} invalid bytes"
        if self.encoding == "utf-8":
            return "UTF-8 with byte order mark" if self.mark else ""
        return self.encoding + (" with byte order mark" if self.mark else "")


def detect_bom(data: bytes) -> tuple[bytes, str]:
    """Return the byte order mark at the start and its encoding; two empty values if not found."""
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return mark, encoding
    return b"", ""


def is_utf8(data: bytes) -> bool:
    """Return True if bytes are valid UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def looks_binary(data: bytes) -> bool:
    """Return True if bytes are not text: a NUL without a byte order mark, or mostly control characters."""
    if detect_bom(data)[0]:
        return False
    sample = data[:_SAMPLE]
    if b"\0" in sample:
        return True
    controls = sum(sample.count(c) for c in _CONTROLS)
    return controls * 20 > len(sample)


_CONTROLS = [bytes([conventions]) for conventions in (*range(0x01, 0x09), *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x7F)]


def decode_text(data: bytes) -> DecodedText | None:
    """Decode bytes; ``None`` if they are binary or no encoding returns the same bytes.

    Can be slow.
    """
    mark, encoding = detect_bom(data)
    if mark:
        found = _decode_exactly(data[len(mark) :], encoding, mark)
        return found if found and (encoding == "utf-8" or is_plausible(found.text)) else None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None if looks_binary(data) else _decode_with_errors(data) or _guess(data)
    return None if looks_binary(data) else DecodedText(text)


def _decode_exactly(data: bytes, encoding: str, mark: bytes = b"") -> DecodedText | None:
    try:
        text = data.decode(encoding)
        return DecodedText(text, encoding, mark) if text.encode(encoding) == data else None
    except (UnicodeError, LookupError):
        return None


def _decode_with_errors(data: bytes) -> DecodedText | None:
    """Decode text that is UTF-8 except for a few bytes."""
    text = data.decode("utf-8", "surrogateescape")
    odd = [c for c in text if c > "\x7f"]
    damage = sum("\udc80" <= c <= "\udcff" for c in odd)
    return DecodedText(text, damage=damage) if damage * 2 < len(odd) else None


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which cannot be encoded."""
    return _SURROGATES.sub("\ufffd", text)


def _guess(data: bytes) -> DecodedText | None:
    """Return the most likely legacy encoding."""
    sample = _sample_with_other_characters(data)
    for encoding in _likely_encodings(sample):
        found = _decode_exactly(data, encoding)
        if found and is_plausible(sample.decode(encoding, "replace")):
            return found
    odd = len(data) - len(data.decode("ascii", "ignore"))
    return _decode_exactly(data, "latin-1") if odd * 10 < len(data) else None


def _sample_with_other_characters(data: bytes) -> bytes:
    """Return whole lines of a long text from its first byte on that is not ASCII; only these bytes show the encoding."""
    if len(data) <= 4 * _SAMPLE:
        return data
    other = _NOT_ASCII.search(data)
    first = other.start() if other else 0
    start = max(data.rfind(b"\n", 0, first) + 1, first - _SAMPLE)
    sample = data[start : start + 4 * _SAMPLE]
    end = sample.rfind(b"\n") + 1
    return sample[:end] if start + end > first else sample


def _likely_encodings(sample: bytes) -> list[str]:
    from charset_normalizer import from_bytes  # The import takes 50 ms: only for files that are not UTF-8.

    matches = from_bytes(sample, cp_isolation=list(_LEGACY_ENCODINGS), threshold=0.3)
    found = {m.encoding: m.chaos for m in matches if m.encoding in _LEGACY_ENCODINGS}
    if "cp1250" in found and sample.decode("cp1250") == sample.decode("cp1252", "replace"):
        found["cp1252"] = found["cp1250"]
    return sorted(found, key=lambda name: (found[name], _LEGACY_ENCODINGS.index(name)))


def is_plausible(text: str) -> bool:
    """Return True if text consists of common characters, with few exceptions."""
    sample = text[:_SAMPLE]
    strange = sum(c in "\ufffd\ufeff" or (c > "\x7e" and category(c) in ("Cc", "Cn", "Co", "Cs")) for c in sample)
    return strange * 20 <= len(sample)


_META = lazy_re(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_NAMED = lazy_re(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_XML = lazy_re(rb"<\?xml[^>]+encoding\s*=\s*[\"']([\w.:-]+)")


def decode_body(body: bytes, content_type: str) -> str:
    """Decode the text of a response body; undecodable bytes become U+FFFD."""
    mark, encoding = detect_bom(body)
    if mark:
        return body[len(mark) :].decode(encoding, "replace")
    for name in _declared_charsets(body, content_type):
        try:
            return body.decode(codecs.lookup(name).name, "replace")
        except (LookupError, UnicodeError, AttributeError):
            continue
    document = decode_text(body)
    if document is not None and not document.damage:
        return document.text
    return body.decode("utf-8", "replace")


def _declared_charsets(body: bytes, content_type: str) -> list[str]:
    head = body[:2048]
    header = _NAMED.search(content_type)
    inside = _META.search(head) or _XML.search(head)
    names = [header[1]] if header else []
    if inside:
        names.append(inside[1].decode("ascii"))
    return ["cp1252" if name.lower() in ("iso-8859-1", "latin1", "ascii", "us-ascii") else name for name in names]
