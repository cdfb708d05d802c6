"""From any text that a model gave as arguments to one JSON object, or to the reason why there is none.

The order is from certain to doubtful: the relaxed grammar, then heuristics. Whatever is read, a text that ends before its
object is closed is `truncated`: what it holds may be shown and must never be executed, since the rest could change it.
"""

import re
from typing import Any, NamedTuple

from mainspring.lazy import lazy_re
from mainspring.tools.arguments.json_parser import ParseResult, parse_value
from mainspring.tools.problems import format_value, is_dict, is_list

_FENCED = lazy_re(r"```[\w-]*\s*(?=[{\[])")
_IGNORED_EDGE_CHARS = "\ufeff\u200b\u2060\x00"
_KEY_FOLLOWS = lazy_re(r"\s*,\s*(?:[\"'“]|[^\W\d]\w*\s*:)")
_SEPARATORS = lazy_re(r"[\s,;]*(?=[{\[])")
_MAX_UNWRAPPED = 3
_MAX_ROOTS = 50
_MAX_REPAIRED = 100_000
_MAX_OPEN = 500


class RecoveredObject(NamedTuple):
    """What a text came to.

    Attributes:
        value: The object; for display only if there is a problem or the text is truncated.
        truncated: The text ends before the object does.
        problem: Why there is no object to execute; empty if there is one.
    """

    value: dict[str, Any]
    truncated: bool = False
    problem: str = ""


_TRUNCATED = "the text ends before the JSON object is closed"


def recover_object(text: str, level: int = 0) -> RecoveredObject:
    """Read the one object that the text holds."""
    text = join_surrogates(text).strip().strip(_IGNORED_EDGE_CHARS).strip()
    if not text or text == "null":
        return RecoveredObject({})
    start = find_json_start(text)
    if start < 0:
        return RecoveredObject({}, problem="there is no JSON object in them")
    return _read_top_level_values(text, start, level)


def _read_top_level_values(text: str, start: int, level: int) -> RecoveredObject:
    """Read the values that stand one behind the other; what to do if they are no values, or if there are several."""
    roots: list[Any] = []
    at = start
    while at >= 0 and len(roots) < _MAX_ROOTS:
        reading = parse_value(text, at)
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
    """Where the first JSON value of the text begins: behind prose and code fences; -1 if there is none."""
    if text[:1] in {"{", "[", '"'} or (text[:1] == "'" and re.match(r"'\s*[{\[]", text)):
        return 0
    first = text.find("{")
    fenced = _FENCED.search(text)
    if fenced and (first < 0 or fenced.end() <= first):
        return fenced.end()
    return first  # a fence behind it stands in one of its strings


def _next_root(text: str, end: int) -> int:
    """Where another value begins behind the first; -1 if only prose follows."""
    glued = _SEPARATORS.match(text, end)
    if glued:
        return glued.end()
    at = text.find("{", end)
    return at if at >= 0 and parse_value(text, at).state == "whole" else -1


def _as_object(value: Any) -> dict[str, Any]:
    return value if is_dict(value) else {}


def _truncated(roots: list[Any], reading: ParseResult, text: str) -> RecoveredObject:
    """The text ended too early. Where it looks finished all the same, a quote is missing: show it as it was meant."""
    value = reading.value or next((root for root in roots if root), None)
    if isinstance(value, str):
        value = parse_value(value).value
    if not roots and text.endswith(("}", "]", "```")):
        value = repair_json(text) or value
    return RecoveredObject(_as_object(value), truncated=True, problem=_TRUNCATED)


def _select_object(roots: list[Any], level: int) -> RecoveredObject:
    """The one object among the values that stood one behind the other.

    Some servers start a call with `{}` and send the real arguments after it, and some send the same object twice: that is
    still one call. Two different objects are two calls glued together; running their union would be neither.
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
            filled[0].value, problem=f"they hold {len(filled)} different JSON objects; make one call for each"
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
    """A text that no grammar explains: missing quotes, commas or brackets."""
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
    """The object that the text was probably meant to be."""
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
    """Whether a text that is not JSON seems to end before its object is closed.

    It is read twice, since stray quotes make the ends of strings doubtful: once a quote ends a string only where a
    separator follows, once it always does. The text counts as cut if neither reading closes the object.
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
                stack.append("{")  # the object was closed too early and goes on
                depth["{"] += 1
        if not char.isspace():
            before = char
    return True


def _close(stack: list[str], depth: dict[str, int], opening: str) -> None:
    """Close the innermost bracket of that kind and whatever was left open inside it."""
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
    """Halves of a character that stand side by side are joined; a half that stands alone becomes U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
