"""Exchanges with a host as they are written down: without keys, one JSON object each."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from mainspring.lazy import lazy_re
from mainspring.models.json_values import as_dict, as_list
from mainspring.redaction import Redactor, is_secret_name, redact_stream

APIS = (
    ("chat_completions", lazy_re(r"/chat/completions/?$")),
    ("responses", lazy_re(r"/responses/?$")),
    ("messages", lazy_re(r"/messages/?$|:(stream)?rawpredict$", re.IGNORECASE)),
    ("stream_generate_content", lazy_re(r":streamGenerateContent$")),
    ("generate_content", lazy_re(r":generateContent$")),
)
"""How the paths of each protocol end."""

_RECORDED_HEADERS = lazy_re(
    r"content-type$|retry-after|.*ratelimit|.*request-id$|anthropic-(version|beta)$|x-should-retry$|date$"
)
"""The headers that are written down; any other may hold something that nobody else should see."""


def api_for_path(path: str) -> str:
    """The protocol that a path belongs to; empty if it is none of ours."""
    path = path.partition("?")[0]
    return next((name for name, pattern in APIS if pattern.search(path)), "")


def header_secrets(headers: Mapping[str, str]) -> tuple[str, ...]:
    """The keys in the headers of a request."""
    values = [value for name, value in headers.items() if is_secret_name(name)]
    return tuple([part for value in values for part in value.split() if len(part) >= 8])


def request_record(method: str, url: str, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """A request as it is written down: ``method``, ``host``, ``path``, ``headers``, ``body``."""
    parts = urlsplit(url)
    redactor = Redactor.of(values=header_secrets(headers))
    query = [(k, "removed" if is_secret_name(k) else v) for k, v in parse_qsl(parts.query)]
    path = redactor.text(f"{parts.path}?{urlencode(query)}" if query else parts.path)
    text = body.decode("utf-8", "replace")
    try:
        value: Any = json.loads(text) if text else None
    except ValueError:
        value = text
    return {
        "method": method,
        "host": parts.netloc.rpartition("@")[2],
        "path": path,
        "headers": _kept(headers),
        "body": redactor.value(value),
    }


def response_record(
    status: int, headers: Mapping[str, str], body: Sequence[bytes], secrets: tuple[str, ...], *, cut: bool
) -> dict[str, Any]:
    """An answer as it is written down: ``status``, ``headers``, ``body_text``, and ``cut`` where it broke off."""
    text = redact_stream(Redactor.of(values=secrets), b"".join(body).decode("utf-8", "replace"))
    part: dict[str, Any] = {"status": status, "headers": _kept(headers), "body_text": text}
    return {**part, "cut": True} if cut else part


def is_same_request(recorded: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    """Whether two requests ask the same, wherever the host is."""
    return all(recorded.get(name) == asked.get(name) for name in ("method", "path", "body"))


def first_difference(recorded: object, asked: object, path: str = "body") -> str:
    """The first place where two values of JSON differ; empty if they do not."""
    one, other = as_dict(recorded), as_dict(asked)
    if one is not None and other is not None:
        pairs = [(f"{path}.{key}", one.get(key), other.get(key)) for key in [*one, *(k for k in other if k not in one)]]
    elif len(ones := as_list(recorded)) == len(others := as_list(asked)) > 0:
        pairs = [(f"{path}[{at}]", a, b) for at, (a, b) in enumerate(zip(ones, others, strict=True))]
    else:
        return "" if recorded == asked else f"{path} is {str(asked)[:80]!r}, recorded was {str(recorded)[:80]!r}"
    return next((found for where, a, b in pairs if (found := first_difference(a, b, where))), "")


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items() if _RECORDED_HEADERS.match(name.lower())}
