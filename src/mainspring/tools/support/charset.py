"""Which encoding a page is in: what the server says, else what the page says, else what its bytes look like."""

from __future__ import annotations

import codecs
import re

from mainspring.lazy import lazy_re
from mainspring.tools.support.text_files import mark_of, read_document

_META = lazy_re(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_NAMED = lazy_re(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_XML = lazy_re(rb"<\?xml[^>]+encoding\s*=\s*[\"']([\w.:-]+)")


def decoded(body: bytes, content_type: str) -> str:
    """The text of a body; bytes that are none become U+FFFD."""
    mark, encoding = mark_of(body)
    if mark:
        return body[len(mark) :].decode(encoding, "replace")
    for name in _named(body, content_type):
        try:
            return body.decode(codecs.lookup(name).name, "replace")
        except (LookupError, UnicodeError, AttributeError):
            continue
    document = read_document(body)
    if document is not None and not document.damage:
        return document.text
    return body.decode("utf-8", "replace")


def _named(body: bytes, content_type: str) -> list[str]:
    head = body[:2048]
    header = _NAMED.search(content_type)
    inside = _META.search(head) or _XML.search(head)
    names = [header[1]] if header else []
    if inside:
        names.append(inside[1].decode("ascii"))
    return ["cp1252" if name.lower() in ("iso-8859-1", "latin1", "ascii", "us-ascii") else name for name in names]
