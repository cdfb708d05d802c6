"""Find the calls in the text of a response that were not read, for a note to the user."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import islice

from mainspring.lazy import lazy_re
from mainspring.messages import ToolDefinition
from mainspring.models.codec.text import CALL_ENDS
from mainspring.models.json_values import as_dict

_MAX_ARGUMENTS = 2000  # characters that contain the name of a parameter
_MAX_NATIVE_ARGUMENTS_START = 300
_NATIVE = lazy_re(
    r"^[ \t]*[\w.:-]*(?:<[|｜][^<>\n]{0,40}(?:tool|function|action|python|dsml)[^<>\n]{0,40}>|<seed:tool_call>|\[TOOL_CALLS\]|<\|open\|>tools)",
    re.MULTILINE | re.IGNORECASE,
)
"""The start of calls in special tokens, as most models write them: reported, not read."""
_OPENER = lazy_re(
    r"(?<![`\"'])(?:<[^\s<>`]{0,40}(?:tool|func|call|action|invoke|python)|\[[A-Z_]*TOOL[A-Z_]*\]|functools\[|^>>>(?=\w)|^Action:"
    r"|\bcall:(?=\w)|\bto=(?=functions\.))",
    re.MULTILINE | re.IGNORECASE,
)
"""What may start a call; the name of a tool follows."""
_NAME = lazy_re(r"[\w-]+(?:\.[\w-]+)*(?=[\"'({\[<:,|｜>=]|\s*\{|[ \t]*\n| \w+ ?\{)")
_MAX_BEFORE_NAME = 120
_MAX_JSON_LINES = 200
_PROSE = lazy_re(r"[^\W\d_]{2,} [^\W\d_]{2,} ")
_FENCE = lazy_re(r"```")
_FENCED = lazy_re(r"```\w*\n(.*?)\n?```", re.DOTALL)
_JSON_LINE = lazy_re(r"^(?=[{\[])", re.MULTILINE)
_JSON_CALL = lazy_re(
    r"[\s\[]*(?:\{\s*\"tool_calls\"\s*:\s*\[\s*)?\{[^{}]{0,200}\"(?:name|tool|tool_name|function)\"\s*:\s*\"(?:functions\.)?([\w.-]+)\""
    r"\s*,[^{}]{0,200}\"(?:arguments|parameters|args|input)\"\s*:\s*\"?\{\s*(?:\\?\"([^\"\\]*)|\})"
)
_PYTHON_CALL = lazy_re(r"(?:\[|```tool_code\n(?:print\()?)([\w.-]+)\((?:\w+=|\))")
_ARGUMENTS_START = lazy_re(r"\w\(|\{|=\S")
_OTHER_ARGUMENTS = lazy_re(r"\s*\(\s*[\"')]|[^\w{]{0,10}(?:\w+\W{1,5})?\{\s*\}")
"""Arguments without a name, or none."""


def has_unread_calls(text: str, tools: Sequence[ToolDefinition]) -> bool:
    """Return True if a text contains calls in the format of a model, outside of code blocks.

    These are special tokens at the start of a line, or a text that ends with the markup of a call of a tool or with JSON of one, or
    that is nothing but such a call in Python.

    Args:
        text: The text.
        tools: The tools of the request.
    """
    text = text.strip()
    fences = [found.start() for found in _FENCE.finditer(text)]
    native = _NATIVE.search(text)
    if native is not None and not _is_between(fences, native.start()):
        if _ARGUMENTS_START.search(text, native.end(), native.end() + _MAX_NATIVE_ARGUMENTS_START):
            return True
    if not text.endswith(CALL_ENDS):
        return False
    by_name = {tool.name: tool for tool in tools if tool.name in text}
    if not by_name:
        return False
    fenced = _FENCED.fullmatch(text)
    whole = fenced[1] if fenced is not None else text
    for line in islice(_JSON_LINE.finditer(whole), _MAX_JSON_LINES):
        call = _JSON_CALL.match(whole, line.start())
        if call is None or call[1] not in by_name:
            continue
        if line.start() and (_is_between(fences, line.start()) or not _is_json(whole, line.start())):
            continue
        # A definition of a tool has other keys in the same place.
        return call[2] is None or call[2] in (_parameters(by_name[call[1]]) or (call[2],))
    call = _PYTHON_CALL.match(text)
    if call is not None and call[1] in by_name:
        return _has_arguments(text, call.end(1), by_name[call[1]])
    if text.endswith(tuple(f"</{name}>" for name in by_name)):
        name = text[text.rindex("</") + 2 : -1]
        start = text.rfind(f"<{name}>")
        is_first = start == 0 or text[start - 1] == "\n" and not _is_between(fences, start)
        return is_first and _has_arguments(text, start + len(name) + 2, by_name[name])
    return any(
        not _is_between(fences, opener.start()) and _starts_call(text, opener.start(), by_name)
        for opener in _OPENER.finditer(text)
    )


def _is_json(text: str, start: int) -> bool:
    """Return True if a text from a position on is JSON."""
    try:
        return json.JSONDecoder(strict=False).raw_decode(text, start)[1] == len(text)
    except (ValueError, RecursionError):
        return False


def _is_between(fences: Sequence[int], at: int) -> bool:
    return bisect_left(fences, at) % 2 == 1


def _starts_call(text: str, at: int, tools: Mapping[str, ToolDefinition]) -> bool:
    """Return True if the name of a tool follows, then its arguments, and no prose comes before."""
    before = text[at : at + _MAX_BEFORE_NAME]
    for found in _NAME.finditer(before):
        tool = tools.get(found[0]) or tools.get(found[0].removeprefix("functions."))
        if tool is not None:
            before = before[: found.start()]
            is_call = "`" not in before and _PROSE.search(before) is None
            return is_call and _has_arguments(text, at + found.end(), tool)
    return False


def _has_arguments(text: str, at: int, tool: ToolDefinition) -> bool:
    """Return True if the text after the name of a tool may be its arguments."""
    names = _parameters(tool)
    if not names or _OTHER_ARGUMENTS.match(text, at) is not None:
        return True
    rest = text[at : at + _MAX_ARGUMENTS]
    return re.search(rf"\b(?:{'|'.join(map(re.escape, names))})[\"'\\]*\s*[:=<>]", rest) is not None


def _parameters(tool: ToolDefinition) -> Sequence[str]:
    return tuple(as_dict(tool.input_schema.get("properties")) or ())
