"""The arguments of a tool call: from what a model or server sent to a value that fits the tool's schema, or to an error.

The way of well-made arguments is short: one strict parse and one check. Only what fails there is repaired, coerced and
reported on.
"""

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import Struct

from mainspring.lazy import lazy_re
from mainspring.tools.arguments.coerce import Coercion, coerce
from mainspring.tools.arguments.json_parser import MAX_DEPTH, parse_value
from mainspring.tools.arguments.recover import find_json_start, join_surrogates, recover_object
from mainspring.tools.problems import format_issues, is_dict, is_list
from mainspring.tools.validation import get_validator

_TRUNCATED_MESSAGE = (
    "the arguments were cut off before the end, so the call was not executed. Make the call again with complete "
    "arguments; if they are long, split the work into several smaller calls"
)
_HALF_CHARACTER = lazy_re(r"\\u[dD][89a-fA-F]")
_EMPTY_OBJECTS = lazy_re(rb"\A\s*(?:\{\s*\}\s*)+(?=\{)")
_decode = msgspec.json.decode


class ParsedArguments(Struct, frozen=True):
    """What became of the arguments of one call.

    Attributes:
        value: The arguments. If there is an `error` they are for display only.
        coercions: What was replaced to fit the schema.
        repaired: Whether the text was not strict JSON. Such a call may run only if the stream ended properly.
        truncated: Whether the text ends before its object is closed. Such a call must never run.
        error: Why the call cannot run, for the model to read; `None` if it can.
    """

    value: dict[str, Any]
    coercions: tuple[Coercion, ...] = ()
    repaired: bool = False
    truncated: bool = False
    error: str | None = None


def parse_arguments(
    schema: Mapping[str, Any] | bool | None, raw: str | bytes | bytearray | Mapping[str, Any] | None
) -> ParsedArguments:
    """Parse, repair, coerce and validate the arguments of a tool call. Never raises.

    Args:
        schema: The tool's JSON Schema; `None` or an empty one accepts every object.
        raw: The arguments as they came: text, bytes, or an object that is parsed already. Empty, blank, `null` and
            missing arguments mean `{}`.
    """
    value, repaired, truncated, problem = _read(raw)
    if problem:
        text = _TRUNCATED_MESSAGE if truncated else f"the arguments cannot be used: {problem}"
        return ParsedArguments(value, repaired=repaired, truncated=truncated, error=text)
    if not schema and schema is not False:
        return ParsedArguments(value, repaired=repaired)
    check = get_validator(schema)
    problems = check.problems(value)
    if not problems:
        return ParsedArguments(value, repaired=repaired)
    value, coercions = coerce(schema, value)
    if coercions:
        problems = check.problems(value)
    error = format_issues([str(each) for each in problems]) if problems else None
    return ParsedArguments(value, tuple(coercions), repaired, error=error)


def partial_arguments(raw: str | bytes | bytearray | Mapping[str, Any] | None) -> dict[str, Any]:
    """As much of the arguments as a text that still streams shows; for display, never for execution. Never raises."""
    if raw is None or isinstance(raw, Mapping):
        return dict(raw or {})
    data = raw.encode("utf-8", "surrogatepass") if isinstance(raw, str) else bytes(raw)
    value = _partial(data)
    if not value:  # some servers start with an empty object and send the real one after it
        data = _EMPTY_OBJECTS.sub(b"", data)
        value = _partial(data)
    if is_dict(value):
        return value
    text = data.decode("utf-8", "replace").lstrip()
    start = find_json_start(text)
    value = parse_value(text, start).value if start >= 0 else None
    if isinstance(value, str):
        value = parse_value(value).value
    return cast("dict[str, Any]", _replace_surrogates(value)) if is_dict(value) else {}


def _partial(data: bytes) -> Any:
    """The value of a text that may be cut, if it is strict JSON up to there."""
    try:
        from jiter import from_json
    except ImportError:
        return None
    try:
        return from_json(data, allow_inf_nan=False, partial_mode="trailing-strings")
    except ValueError:
        return None


def _read(raw: Any) -> tuple[dict[str, Any], bool, bool, str]:
    """The object, whether it was repaired, whether it is truncated, and why it cannot be used."""
    if not isinstance(raw, (str, bytes, bytearray)):
        if raw is None or is_dict(raw):
            return raw or {}, False, False, ""
        if isinstance(raw, Mapping):
            return dict(cast("Mapping[str, Any]", raw)), False, False, ""
        return {}, False, False, f"they are of type {type(cast('object', raw)).__name__}"
    try:
        value = _decode(raw)
    except (ValueError, RecursionError):
        value = ...
    if type(value) is dict:
        entries = cast("dict[str, Any]", value)
        problem = _find_strict_error(raw, entries)
        return entries, False, False, problem
    if value is None:
        return {}, False, False, ""
    text = _text(raw)
    outcome = recover_object(text)
    value = outcome.value
    if _HALF_CHARACTER.search(text):
        value = cast("dict[str, Any]", _replace_surrogates(value))
    return value, bool(text.strip()), outcome.truncated, outcome.problem


def _find_strict_error(raw: str | bytes | bytearray, value: dict[str, Any]) -> str:
    """What strict JSON may hold and still be no good: a key twice with different values, or endless nesting."""
    if isinstance(raw, str):
        colons, opened = raw.count(":"), raw.count("[") + raw.count("{")
    else:
        colons, opened = raw.count(b":"), raw.count(b"[") + raw.count(b"{")
    if opened > MAX_DEPTH and _exceeds_depth(value, MAX_DEPTH):
        return f"nested deeper than {MAX_DEPTH} levels"
    if colons == len(value):
        return ""  # one for each key at the top, so there is no other key anywhere
    return _find_duplicate_key(_text(raw))


def _exceeds_depth(value: Any, limit: int) -> bool:
    level: list[Any] = [value]
    for _ in range(limit):
        level = [
            inner
            for each in level
            for inner in (each.values() if is_dict(each) else each)
            if is_dict(inner) or is_list(inner)
        ]
        if not level:
            return False
    return True


def _find_duplicate_key(text: str) -> str:
    import json

    repeated: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            repeated.extend(key for key, value in pairs if value != made[key])
        return made

    json.loads(text, object_pairs_hook=collect)
    return f"the key {repeated[0][:80]!r} is there twice, with different values" if repeated else ""


def _text(raw: str | bytes | bytearray) -> str:
    return raw if isinstance(raw, str) else bytes(raw).decode("utf-8", "replace")


def _replace_surrogates(value: Any) -> Any:
    """The value without halves of characters, which no request could carry."""
    if isinstance(value, str):
        return join_surrogates(value)
    if is_dict(value):
        return {join_surrogates(k): _replace_surrogates(v) for k, v in value.items()}
    if is_list(value):
        return [_replace_surrogates(each) for each in value]
    return value
