"""What the body of an error says, in whatever form a host puts it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from mainspring.messages import strip_surrogates
from mainspring.models.error_patterns import ABOUT_MODEL
from mainspring.models.json_values import as_int, as_list, as_object, as_objects

_MAX_TEXT = 2000


class ErrorBody:
    """The parts of an error's body.

    Args:
        body: JSON (an object, or an array of one), the events of a stream, HTML or plain text.

    Attributes:
        fields: The JSON object; empty if there is none.
        message: The provider's own text.
        text: The same in lower case, for patterns.
        codes: Codes, types and reasons as lower case words, the most telling first.
        about_model: Whether it speaks of a model or a deployment.
        status: The HTTP status that stands in the body, if one does.
        request_id: The provider's id of the request, if it is told.
    """

    __slots__ = ("about_model", "codes", "fields", "message", "request_id", "status", "text")

    def __init__(self, body: bytes | str | Mapping[str, Any] | None) -> None:
        raw = body.decode("utf-8", "replace") if isinstance(body, bytes) else body if isinstance(body, str) else ""
        self.fields = as_object(strip_surrogates(body)) or _object_in(raw)
        error = as_object(self.fields.get("error")) or as_object((as_list(self.fields.get("errors")) or [None])[0])
        error = self.fields if error is None else error
        metadata = as_object(error.get("metadata")) or {}
        upstream = metadata.get("raw")
        self.message = _message(self.fields, error, raw)
        if isinstance(upstream, str) and upstream and upstream not in self.message:
            self.message = f"{self.message}: {upstream[:_MAX_TEXT]}"
        self.text = self.message.lower()
        self.codes = _codes(self.fields, error)
        self.about_model = error.get("param") == "model" or bool(ABOUT_MODEL.search(self.text))
        numbers = [
            as_int(scope.get(name))
            for scope in (error, self.fields)
            for name in ("code", "status", "status_code", "statusCode")
        ]
        self.status = next((n for n in numbers if n is not None and 400 <= n <= 599), None)
        id = self.fields.get("request_id") or error.get("request_id")
        self.request_id = id if isinstance(id, str) and id else None


def _object_in(text: str) -> dict[str, Any]:
    """The JSON object of a text, also out of an array or out of the events of a stream."""
    found = _parsed(text)
    if found is None:
        for line in re.split(r"\r\n|\n|\r", text):
            value = _parsed(line[5:]) if line.startswith("data:") else None
            if value is not None and (found is None or value.get("error")):
                found = value
    return found or {}


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        value = strip_surrogates(json.loads(text, strict=False))
    except (ValueError, RecursionError):
        return None
    return as_object(value) or next(iter(as_objects(value)), None)


def _message(fields: dict[str, Any], error: dict[str, Any], raw: str) -> str:
    candidates: list[Any] = [error.get("message"), fields.get("error"), fields.get("detail"), fields.get("message")]
    candidates += [error.get("detail"), error.get("error_description"), error.get("msg"), fields.get("errors")]
    for candidate in candidates:
        if isinstance(candidate, str) and candidate.strip():
            return candidate.strip()[:_MAX_TEXT]
        details = [str(d.get("msg") or d.get("message") or "") for d in as_objects(candidate)]
        if any(details):
            return "; ".join([d for d in details if d])[:_MAX_TEXT]
    if fields:
        return json.dumps(error if error else fields, ensure_ascii=False, default=str)[:_MAX_TEXT]
    title = re.search(r"<title[^>]*>(.*?)</title>", raw, re.DOTALL | re.IGNORECASE)
    if title:
        raw = title[1]
    elif re.search(r"<\s*(!doctype|html)", raw[:200], re.IGNORECASE):
        raw = re.sub(r"<[^>]*>", " ", raw)
    return " ".join(raw.split())[:_MAX_TEXT]


def _codes(fields: dict[str, Any], error: dict[str, Any]) -> list[str]:
    inner = as_object(error.get("innererror")) or as_object(error.get("inner_error")) or {}
    found: list[Any] = [detail.get("reason") for detail in as_objects(error.get("details"))]
    found += [inner.get("code"), error.get("code"), error.get("type"), error.get("status"), error.get("reason")]
    found += [
        fields.get("code"),
        fields.get("type"),
        fields.get("errorCode"),
        fields.get("__type"),
        fields.get("object"),
    ]
    words = [word.strip().rsplit("#", 1)[-1] for word in found if isinstance(word, str) and word.strip()]
    return [re.sub(r"[\s.-]+", "_", word).lower() for word in words]
