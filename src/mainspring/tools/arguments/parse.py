"""Parse the arguments of a tool call into a value that fits the tool's schema, or into an error.

Well-formed arguments need one strict parse and one check. Only arguments that fail are repaired, coerced, and reported.

Repairs run from certain to doubtful: first the wider grammar, then heuristics. A text that ends before its object is
closed is always `truncated`: the recovered part may be displayed but must never be executed, since the rest could change
its meaning.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import Struct

from mainspring.lazy import lazy_re
from mainspring.lenient_json import MAX_DEPTH, ParseResult, parse_relaxed
from mainspring.tools.arguments.coerce import Coercion, coerce
from mainspring.tools.problems import format_issues, format_value, is_dict, is_list
from mainspring.tools.schema_dialect import exceeds_depth
from mainspring.tools.validation import get_validator

_FENCED = lazy_re(r"```[\w-]*\s*(?=[{\[])")
_IGNORED_EDGE_CHARS = "\ufeff\u200b\u2060\x00"
_KEY_FOLLOWS = lazy_re(r"\s*,\s*(?:[\"'“]|[^\W\d]\w*\s*:)")
_SEPARATORS = lazy_re(r"[\s,;]*(?=[{\[])")
_MAX_UNWRAPPED = 3
_MAX_ROOTS = 50
_MAX_REPAIRED = 100_000
_MAX_OPEN = 500


class RecoveredObject(NamedTuple):
    """Result of recovering an object.

    Attributes:
        value: The object; for display only if there is a problem or the text is truncated.
        truncated: Whether the text ends before the object does.
        problem: Reason why no object can be executed; empty if one can.
    """

    value: dict[str, Any]
    truncated: bool = False
    problem: str = ""


_TRUNCATED = "the text ends before the JSON object is closed"


def recover_object(text: str, level: int = 0) -> RecoveredObject:
    """Read the single object in the text."""
    text = join_surrogates(text).strip().strip(_IGNORED_EDGE_CHARS).strip()
    if not text or text == "null":
        return RecoveredObject({})
    start = find_json_start(text)
    if start < 0:
        return RecoveredObject({}, problem="they contain no JSON object")
    return _read_top_level_values(text, start, level)


def _read_top_level_values(text: str, start: int, level: int) -> RecoveredObject:
    """Read consecutive values; handle text that is not a value, and several values."""
    roots: list[Any] = []
    at = start
    while at >= 0 and len(roots) < _MAX_ROOTS:
        reading = parse_relaxed(text, at)
        if reading.state == "cut":
            return _truncated(roots, reading, text[start:])
        if reading.state == "broken":
            if roots:
                break  # prose with a bracket in it
            return _recover_by_heuristics(text, start, reading)
        if reading.problem:
            return RecoveredObject(_as_object(reading.value), problem=reading.problem)
        if _KEY_FOLLOWS.match(text, reading.end):
            return _recover_by_heuristics(text, start, reading)
        roots.append(reading.value)
        at = _next_root(text, reading.end)
    return _select_object(roots, level)


def find_json_start(text: str) -> int:
    """Return the index of the first JSON value in the text, after prose and code fences; -1 if not found."""
    if text[:1] in {"{", "[", '"'} or (text[:1] == "'" and re.match(r"'\s*[{\[]", text)):
        return 0
    first = text.find("{")
    fenced = _FENCED.search(text)
    if fenced and (first < 0 or fenced.end() <= first):
        return fenced.end()
    return first  # a later fence is inside one of the JSON strings


def _next_root(text: str, end: int) -> int:
    """Return the index of the next value; -1 if only prose follows."""
    glued = _SEPARATORS.match(text, end)
    if glued:
        return glued.end()
    at = text.find("{", end)
    return at if at >= 0 and parse_relaxed(text, at).state == "whole" else -1


def _as_object(value: Any) -> dict[str, Any]:
    return value if is_dict(value) else {}


def _truncated(roots: list[Any], reading: ParseResult, text: str) -> RecoveredObject:
    """Handle a text that ended too early.

    If it seems complete, a quote is missing: return the intended value for display.
    """
    value = reading.value or next((root for root in roots if root), None)
    if isinstance(value, str):
        value = parse_relaxed(value).value
    if not roots and text.endswith(("}", "]", "```")):
        value = repair_json(text) or value
    return RecoveredObject(_as_object(value), truncated=True, problem=_TRUNCATED)


def _select_object(roots: list[Any], level: int) -> RecoveredObject:
    """Select the single object from consecutive values.

    Some servers start a call with `{}` and send the real arguments after it, and some send the same object twice: both are
    one call. Two different objects are two joined calls; their union would be neither call.
    """
    found: list[RecoveredObject] = []
    for root in roots:
        value = root
        if is_list(value) and len(value) == 1 and is_dict(value[0]):
            value = value[0]
        if isinstance(value, str):
            if level >= _MAX_UNWRAPPED:
                return RecoveredObject({}, problem="they are a string, not a JSON object")
            inner = recover_object(value, level + 1)
            if inner.problem:
                return inner
            value = inner.value
        if is_dict(value):
            found.append(RecoveredObject(value))
        elif value:
            return RecoveredObject({}, problem=f"they are {_kind(value)}, not a JSON object")
    filled = [each for each in found if each.value]
    if not found:
        return RecoveredObject({}, problem=f"they are {_kind(roots[0])}, not a JSON object")
    if any(each.value != filled[0].value for each in filled):
        return RecoveredObject(
            filled[0].value, problem=f"they contain {len(filled)} different JSON objects; make one call for each"
        )
    return filled[0] if filled else found[0]


def _kind(value: Any) -> str:
    match value:
        case list():
            return "an array"
        case str():
            return "a string"
        case bool() | None:
            return "a literal"
        case _:
            return "a number"


def _recover_by_heuristics(text: str, start: int, reading: ParseResult) -> RecoveredObject:
    """Recover text that no grammar accepts: missing quotes, commas, or brackets."""
    if reading.problem:
        return RecoveredObject(_as_object(reading.value), problem=reading.problem)
    trouble = format_value(text[reading.end :])
    text = text[start:]
    value = repair_json(text)
    if looks_truncated(text):
        return RecoveredObject(value or _as_object(reading.value), truncated=True, problem=_TRUNCATED)
    if value is None:
        return RecoveredObject(
            {}, problem=f"they are not JSON and could not be repaired; the trouble begins at {trouble}"
        )
    return RecoveredObject(value)


def repair_json(text: str) -> dict[str, Any] | None:
    """Return the object that the text was probably meant to be."""
    import json_repair

    if len(text) > _MAX_REPAIRED or text.count("(") - text.count(")") > _MAX_OPEN:
        return None  # it would take seconds
    try:
        value: Any = json_repair.loads(text, skip_json_loads=True)
    except (ValueError, RecursionError, IndexError, TypeError):
        return None
    if is_list(value):
        objects = [each for each in value if is_dict(each) and each]
        value = objects[0] if len(objects) == 1 else None
    return value if is_dict(value) and _is_finite(value) else None


def _is_finite(value: Any) -> bool:
    if isinstance(value, float):
        return value - value == 0
    if is_dict(value):
        return all(map(_is_finite, value.values()))
    return not is_list(value) or all(map(_is_finite, value))


def looks_truncated(text: str) -> bool:
    """Return True if a text that is not JSON seems to end before its object is closed.

    The function reads the text twice, since stray quotes make the ends of strings ambiguous: first, a quote ends a string
    only before a separator; second, every quote does. The text is cut if neither reading closes the object.
    """
    return _is_left_open(text, strict_quotes=True) and _is_left_open(text, strict_quotes=False)


_SEPARATOR_FOLLOWS = lazy_re(r"\s*(?:[,:}\]]|\Z)")
_COMMENT = lazy_re(r"(?://|#)[^\n]*\n|/\*.*?\*/", re.DOTALL)
_BEFORE_COMMENT = " \t\n\r{[,"
_CLOSING = {"}": "{", "]": "["}
_STRING_CLOSERS = {'"': '"', "'": "'", "“": "”"}


def _is_left_open(text: str, *, strict_quotes: bool) -> bool:
    stack: list[str] = []
    depth = {"{": 0, "[": 0}
    before = ""
    at = 0
    while at < len(text):
        comment = (
            _COMMENT.match(text, at) if text[at] in "/#" and (at == 0 or text[at - 1] in _BEFORE_COMMENT) else None
        )
        if comment:
            at = comment.end()
            continue
        char = text[at]
        at += 1
        if char in _STRING_CLOSERS and (before in {"", "{", "[", ",", ":", "("} or (char == '"' and not strict_quotes)):
            at = _string_end(text, at, _STRING_CLOSERS[char], strict_quotes)
            if at < 0:
                return True
        elif char in "{[":
            stack.append(char)
            depth[char] += 1
        elif char in _CLOSING and depth[_CLOSING[char]]:
            _close(stack, depth, _CLOSING[char])
            if not stack:
                if not _KEY_FOLLOWS.match(text, at):
                    return False
                stack.append("{")  # the object was closed too early and continues
                depth["{"] += 1
        if not char.isspace():
            before = char
    return True


def _close(stack: list[str], depth: dict[str, int], opening: str) -> None:
    """Close the innermost bracket of a kind, and all unclosed brackets inside it."""
    while True:
        closed = stack.pop()
        depth[closed] -= 1
        if closed == opening:
            return


def _string_end(text: str, at: int, closer: str, strict_quotes: bool) -> int:
    while at < len(text):
        char = text[at]
        at += 2 if char == "\\" else 1
        if char == closer and (not strict_quotes or _SEPARATOR_FOLLOWS.match(text, at)):
            return at
    return -1


def join_surrogates(text: str) -> str:
    """Join adjacent surrogate pairs, and replace lone surrogates with U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


_TRUNCATED_MESSAGE = (
    "the arguments were cut off before the end, so the call was not executed. Make the call again with complete "
    "arguments; if they are long, split the work into several smaller calls"
)
_HALF_CHARACTER = lazy_re(r"\\u[dD][89a-fA-F]")
_decode = msgspec.json.decode


class ParsedArguments(Struct, frozen=True):
    """Result of parsing the arguments of a call.

    Attributes:
        value: Arguments. If `error` is set, they are for display only.
        coercions: Values that were replaced to fit the schema.
        repaired: Whether the text was not strict JSON. Such a call may run only if the stream ended properly.
        truncated: Whether the text ends before its object is closed. Such a call must never run.
        error: Reason why the call cannot run, for the model; `None` if it can run.
    """

    value: dict[str, Any]
    coercions: tuple[Coercion, ...] = ()
    repaired: bool = False
    truncated: bool = False
    error: str | None = None


def parse_arguments(
    schema: Mapping[str, Any] | bool | None,
    raw: str | bytes | bytearray | Mapping[str, Any] | None,
    check: Callable[[dict[str, Any]], str | None] | None = None,
) -> ParsedArguments:
    """Parse, repair, coerce, and validate the arguments of a tool call. Never raises.

    Args:
        schema: JSON Schema of the tool; `None` or an empty schema accepts every object.
        raw: Arguments as received: text, bytes, or a parsed object. Empty, blank, `null`, and missing arguments mean `{}`.
        check: Function that returns all problems of the arguments, with those that no schema can express; see `Tool.check`.
    """
    value, repaired, truncated, problem = _read_object(raw)
    if problem:
        text = _TRUNCATED_MESSAGE if truncated else f"the arguments cannot be used: {problem}"
        return ParsedArguments(value, repaired=repaired, truncated=truncated, error=text)
    if not schema and schema is not False:
        return ParsedArguments(value, repaired=repaired)
    validator = get_validator(schema)
    problems = validator.problems(value)
    if not problems and check is None:
        return ParsedArguments(value, repaired=repaired)
    value, coercions = coerce(schema, value)
    if coercions:
        problems = validator.problems(value)
    error = format_issues([str(each) for each in problems]) if problems else None
    if check is not None:
        error = check(value) or error
    return ParsedArguments(value, tuple(coercions), repaired, error=error)


def _read_object(raw: Any) -> tuple[dict[str, Any], bool, bool, str]:
    """Return the object, whether it was repaired, whether it is truncated, and the reason why it cannot be used."""
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
    """Return why strict JSON must not be used: a duplicate key with different values, or too deep nesting."""
    if isinstance(raw, str):
        colons, opened = raw.count(":"), raw.count("[") + raw.count("{")
    else:
        colons, opened = raw.count(b":"), raw.count(b"[") + raw.count(b"{")
    if opened > MAX_DEPTH and exceeds_depth(value, MAX_DEPTH):
        return f"nested deeper than {MAX_DEPTH} levels"
    if colons == len(value):
        return ""  # one colon for each top-level key, so no nested keys exist
    return _find_duplicate_key(_text(raw))


def _find_duplicate_key(text: str) -> str:
    import json

    repeated: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        collected = dict(pairs)
        if len(collected) < len(pairs):
            repeated.extend(key for key, value in pairs if value != collected[key])
        return collected

    json.loads(text, object_pairs_hook=collect)
    return f"the key {repeated[0][:80]!r} is there twice, with different values" if repeated else ""


def _text(raw: str | bytes | bytearray) -> str:
    return raw if isinstance(raw, str) else bytes(raw).decode("utf-8", "replace")


def _replace_surrogates(value: Any) -> Any:
    """Return the value without lone surrogates, which cannot be sent in a request."""
    if isinstance(value, str):
        return join_surrogates(value)
    if is_dict(value):
        return {join_surrogates(k): _replace_surrogates(v) for k, v in value.items()}
    if is_list(value):
        return [_replace_surrogates(each) for each in value]
    return value
