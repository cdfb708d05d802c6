"""Replace values that differ in each run (times, IDs, paths, ports) or with each text of the program (estimated tokens)."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from mainspring.errors import describe_failure

_TIMES = re.compile(
    r"time_to_|(time|timestamp|date|created|updated|ended|expires|seconds|duration)s?(_?at|_ns|_ms)?$", re.I
)
_DATES = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?")
_IDS = re.compile(
    r"\b\d{8}-\d{6}-[0-9a-f]{8}\b"  # sessions
    r"|\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"
    r"|(?<![0-9a-zA-Z])[0-9a-f]{8,32}(?![0-9a-zA-Z])"  # runs, turns, spans, and messages
)
_SESSION_FOLDERS = re.compile(r"(/sessions/)[^/]+/")
_ESTIMATES = ("input_tokens", "total_tokens", "tokens")
_MAX_SCRIPTED_TOKENS = 1000  # A larger number is an estimate, which depends on paths.
_PORTS = re.compile(r"(127\.0\.0\.1|localhost):\d+")


def to_lines(values: Iterable[Any], names: Mapping[str, str]) -> str:
    """Return values as JSON lines that are equal in each run.

    Args:
        values: The values; see `to_data` for objects.
        names: Replacements for texts that differ, for example paths.
    """
    numbers: dict[str, int] = {}

    def replace_text(text: str) -> str:
        for name, replacement in names.items():
            text = text.replace(name, replacement)
        text = _SESSION_FOLDERS.sub(r"\1<project>/", text)
        text = _PORTS.sub(r"\1:<port>", _DATES.sub("<time>", text))
        return _IDS.sub(lambda id: f"<id {numbers.setdefault(id[0], len(numbers) + 1)}>", text)

    def replace_all(value: Any, key: str = "", *, is_estimate: bool = False) -> Any:
        match value:
            case dict():
                is_estimate = is_estimate or bool(value.get("estimated_calls"))  # of a stopped call
                return {replace_text(str(k)): replace_all(v, str(k), is_estimate=is_estimate) for k, v in value.items()}
            case list() | tuple():
                return [replace_all(item, key) for item in value]
            case str():
                return replace_text(value)
            case int() | float() if not isinstance(value, bool) and _TIMES.search(key):
                return "<time>"
            case int() if key == "context_used" or (
                key in _ESTIMATES and (is_estimate or value > _MAX_SCRIPTED_TOKENS)
            ):
                return "<tokens>"
            case _:
                return value

    return "".join(f"{json.dumps(replace_all(value), ensure_ascii=False)}\n" for value in values)


def to_data(value: Any) -> Any:
    """Convert a value to JSON data; errors become their type and text, and other unknown objects their type."""

    def encode_unknown(value: Any) -> Any:
        if isinstance(value, Mapping):
            return dict(value)
        return (
            f"{type(value).__name__}: {describe_failure(value)}"
            if isinstance(value, BaseException)
            else f"<{type(value).__name__}>"
        )

    return msgspec.to_builtins(value, enc_hook=encode_unknown, str_keys=True)
