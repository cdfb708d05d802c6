"""Read the calls in the text of a response, in the formats that models write."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from mainspring.lazy import lazy_function, lazy_re
from mainspring.messages import ToolDefinition
from mainspring.models.json_values import as_dict, as_dicts, as_list

if TYPE_CHECKING:
    from mainspring.models.codec.python_calls import parse_python_calls
else:
    parse_python_calls = lazy_function("mainspring.models.codec.python_calls", "parse_python_calls")

ParsedCall = tuple[str, dict[str, Any]]
"""The name of a tool, and the arguments."""

CALL_TAGS = (
    "<tool_call>", "<tool_calls>", "<function=", "<function_call>", "<function_calls>", "<invoke ", "<minimax:tool_call>",
    "<seed:tool_call>", "<longcat_tool_call>", "<steptml:invoke ", "<TOOLCALL>", "<start_function_call>", "[TOOL_CALLS]",
    "<|tool_call", "<｜tool", "<|tool▁call", "<｜DSML｜", "<|DSML|", "<|python_", "<|START_ACTION|>", "<|action_start|>",
    "<|open|>tools<|sep|>", "<|open|>call ",
)  # fmt: skip
"""The start of the first tag of a call."""
_MAX_TAG = 100
_NAMESPACE = r"(?:[\w-]+:|[|｜]DSML[|｜])?"
_TOKEN = (
    r"(?:<[|｜](?!DSML|\")[\w▁:/|｜-]{1,40}>|<tool_call[|｜]>|<(?:start|end)_function_call>|</?TOOLCALL>"
    r"|\[/?(?:TOOL_CALLS|ARGS)\]|\[CALL_ID\][\w-]*|</s>)"
)
"""A special token, as models write them before, in, and after calls."""
_TAGS = rf"\s*(?:</?{_NAMESPACE}(?:longcat_)?(?:tool_calls?|function_calls?|tools)>|(?:function\s*)?{_TOKEN}|;|```(?:json)?)|\s+"
_WRAPPER = lazy_re(_TAGS)
_WRAPPERS = lazy_re(rf"(?:{_TAGS})*")
_FUNCTION = lazy_re(r"<function=[\"']?([\w.:/-]+)[\"']?\s*>")
_INVOKE = lazy_re(rf"<(?:{_NAMESPACE}invoke name|call tool)=[\"']([\w.:/-]+)[\"'][^>]*>")
_PARAMETER = lazy_re(
    rf"\s*<(?:{_NAMESPACE}parameter(?:=[\"']?|\s+name=[\"'])|argument key=\")([^>\"']+)[\"']?[^>]*>(.*?)"
    rf"</(?:{_NAMESPACE}parameter|argument)>"
    rf"(?=\s*(?:<(?:{_NAMESPACE}parameter[=\s]|argument key)|</function>|</(?:{_NAMESPACE}invoke|call)>))",
    re.DOTALL,
)
_FUNCTION_END = lazy_re(rf"\s*(?:</function>|</(?:{_NAMESPACE}invoke|call)>)")
_KIMI_TAG = lazy_re(r"<\|(open|close)\|>(tools|call|argument)\b([^<>]*)<\|sep\|>")
_NAMED_CALL = lazy_re(r"([\w.:-]+)\s*(?=<(?:longcat_)?arg_key>|</(?:longcat_)?tool_call>)")
_NAMED_ARGUMENT = lazy_re(
    r"\s*<(longcat_)?arg_key>(.*?)</\1?arg_key>\s*<\1?arg_value>(.*?)</\1?arg_value>"
    r"(?=\s*(?:<(?:longcat_)?arg_key>|</(?:longcat_)?tool_call>))",
    re.DOTALL,
)
_NAMED_JSON = lazy_re(rf"(?:call:)?([\w./-]+?)(?::\d+)?\s*(?:{_TOKEN}\s*)*(?:```(?:json)?\s*)?(?=\{{)")
_CALL_START = lazy_re(
    rf"<function=|<{_NAMESPACE}invoke name=|[\w./:-]*\s*(?:{_TOKEN}\s*)*(?:```(?:json)?\s*)?[{{\[]\s*(?:[\"{{\[\]}}]|\w+[:(])"
)
_NAME_PREFIX = lazy_re(r"^(?:functions|tools?|default_api)[.:]")
_GEMMA_PIECE = lazy_re(
    r"(<\|\"\|>|<escape>)(?P<text>.*?)\1|\"(?:[^\"\\]|\\.)*\"|(?P<name>[\w$.-]+)(?=\s*:)|[\w$.-]+|.", re.DOTALL
)
_PYTHON_END = lazy_re(rf"{_TOKEN}|</function_calls>|$")
_VIABLE_START = lazy_re(r"[{\[]|[\w.:/-]+\s*(?:[<{(\[`]|$)")
CALL_CLOSER = lazy_re(
    rf"</(?:{_NAMESPACE}(?:longcat_)?(?:tool_calls?|function_calls?|invoke)|function|TOOLCALL)>|<tool_call[|｜]>|<end_function_call>"
    r"|<[|｜](?:/|[\w▁]*(?:end|END))[\w▁]*[|｜]>|<\|close\|>(?:call|tools)<\|sep\|>"
)
"""The last tag of a call."""


def is_viable(markup: str) -> bool:
    """Return True if the start of markup can become a call."""
    wrappers = _WRAPPERS.match(markup)
    rest = markup[wrappers.end() :] if wrappers is not None else markup
    if not rest.startswith("<"):
        return not rest or _VIABLE_START.match(rest) is not None
    inner = (*CALL_TAGS, "</", "<|", "<｜")
    is_tag = len(rest) < _MAX_TAG or ">" in rest[:_MAX_TAG]
    return is_tag and any(rest.startswith(tag) or tag.startswith(rest) for tag in inner)


def parse_calls(markup: str, tools: Mapping[str, ToolDefinition] | None) -> list[ParsedCall] | None:
    """Return the calls of a text that contains only markup of calls; ``None`` for any other text.

    Args:
        markup: The text.
        tools: The tools by name, which must exist; ``None`` accepts any name.
    """
    markup = _KIMI_TAG.sub(_convert_kimi_tag, markup)
    calls, end = _parse(markup, tools)
    names = {name for name, _ in calls}
    return calls if calls and end == len(markup) and (tools is None or names <= tools.keys()) else None


def has_invalid_call(markup: str) -> bool:
    """Return True if markup, which could not be read, is a call of an unknown tool or with invalid arguments, and no example."""
    markup = _KIMI_TAG.sub(_convert_kimi_tag, markup)
    calls, end = _parse(markup, None)
    return bool(calls) if end == len(markup) else _CALL_START.match(markup, end) is not None


def _parse(markup: str, tools: Mapping[str, ToolDefinition] | None) -> tuple[list[ParsedCall], int]:
    """Return the calls at the start of a text, and the position of the first part that is not one."""
    calls: list[ParsedCall] = []
    at, wrapper = 0, ""
    while at < len(markup):
        space = _WRAPPER.match(markup, at)
        if space is not None:
            wrapper = space[0].strip() or wrapper
            at = space.end()
            continue
        found = _parse_call(markup, at, wrapper, tools)
        if found is None:
            break
        more, at = found
        calls += more
    return calls, at


def _convert_kimi_tag(tag: re.Match[str]) -> str:
    """Return a tag of Kimi K3, which is written in special tokens, as a tag in angle brackets."""
    return f"</{tag[2]}>" if tag[1] == "close" else f"<{tag[2]}{tag[3]}>"


def _parse_call(
    text: str, at: int, wrapper: str, tools: Mapping[str, ToolDefinition] | None
) -> tuple[list[ParsedCall], int] | None:
    """Return the calls at a position, and the position after them."""
    opening = _FUNCTION.match(text, at) or _INVOKE.match(text, at)
    if opening is not None:
        return _parse_function(text, opening, tools)
    if not wrapper or wrapper.startswith("</"):
        return None
    if text[at] in "{[" and (found := _parse_json(text, at, tools)) is not None:
        return found
    if (named := _NAMED_JSON.match(text, at)) is not None:
        arguments = _decode_object(text, named.end())
        if arguments is None and named[0].startswith("call:"):
            arguments = _decode_gemma(text, named.end())
        return None if arguments is None else ([(_known_name(named[1], tools), arguments[0])], arguments[1])
    if (named := _NAMED_CALL.match(text, at)) is None:
        end = cast("re.Match[str]", _PYTHON_END.search(text, at)).start()
        calls = parse_python_calls(text[at:end].strip())
        return None if calls is None else ([(_known_name(name, tools), given) for name, given in calls], end)
    values: dict[str, str] = {}
    at = named.end()
    while (argument := _NAMED_ARGUMENT.match(text, at)) is not None:
        values[argument[2].strip()] = argument[3]
        at = argument.end()
    name = _known_name(named[1], tools)
    return [(name, _convert(values, name, tools))], at


def _parse_function(
    text: str, opening: re.Match[str], tools: Mapping[str, ToolDefinition] | None
) -> tuple[list[ParsedCall], int] | None:
    name, at = _known_name(opening[1], tools), opening.end()
    arguments: dict[str, Any] = {}
    values: dict[str, str] = {}
    while (parameter := _PARAMETER.match(text, at)) is not None:
        values[parameter[1].strip()] = parameter[2]
        at = parameter.end()
    if not values and text[at:].lstrip()[:1] == "{":
        found = _decode_object(text, len(text) - len(text[at:].lstrip()))
        if found is None:
            return None
        arguments, at = found
    end = _FUNCTION_END.match(text, at)
    return None if end is None else ([(name, arguments or _convert(values, name, tools))], end.end())


def _parse_json(text: str, at: int, tools: Mapping[str, ToolDefinition] | None) -> tuple[list[ParsedCall], int] | None:
    found = _decode_json(text, at)
    if found is None:
        return None
    calls: list[ParsedCall] = []
    for call in as_list(found[0]) or [found[0]]:
        fields = as_dict(call) or {}
        fields = as_dict(fields.get("function")) or fields
        name = fields.get("name", fields.get("tool_name"))
        arguments = fields.get("arguments", fields.get("parameters", {}))
        if isinstance(arguments, str):
            decoded = _decode_json(arguments, 0)
            arguments = decoded[0] if decoded is not None else None
        if not isinstance(name, str) or not isinstance(arguments, dict):
            return None
        calls.append((_known_name(name, tools), cast("dict[str, Any]", arguments)))
    return calls, found[1]


def parse_harmony_calls(
    calls: Sequence[tuple[str, str, str]], tools: Mapping[str, ToolDefinition]
) -> list[ParsedCall] | None:
    """Return the calls of harmony messages; ``None`` if one cannot be read.

    Args:
        calls: The name, the arguments, and the markup of each call.
        tools: The tools by name, which must exist.
    """
    parsed: list[ParsedCall] = []
    for name, text, _ in calls:
        found = _decode_object(text.strip() or "{}", 0)
        if found is None or found[1] < len(text.strip()) or name not in tools:
            return None
        parsed.append((name, found[0]))
    return parsed


def _decode_json(text: str, at: int) -> tuple[Any, int] | None:
    try:
        return json.JSONDecoder(strict=False).raw_decode(text, at)
    except (ValueError, RecursionError):
        return None


def _decode_object(text: str, at: int) -> tuple[dict[str, Any], int] | None:
    """Return the JSON object at a position, and the position after it."""
    found = _decode_json(text, at)
    return None if found is None or not isinstance(found[0], dict) else (cast("dict[str, Any]", found[0]), found[1])


def _decode_gemma(text: str, at: int) -> tuple[dict[str, Any], int] | None:
    """Return the object at a position, with names without quotes and texts between special tokens, and the position after it."""
    pieces: list[str] = []
    depth = 0
    for piece in _GEMMA_PIECE.finditer(text, at):
        quoted = piece["text"] if piece["text"] is not None else piece["name"]
        pieces.append(piece[0] if quoted is None else json.dumps(quoted))
        depth += (piece[0] in ("{", "[")) - (piece[0] in ("}", "]"))
        if depth <= 0:
            found = _decode_object("".join(pieces), 0)
            return None if found is None else (found[0], piece.end())
    return None


def _known_name(name: str, tools: Mapping[str, ToolDefinition] | None) -> str:
    short = _NAME_PREFIX.sub("", name)
    return short if tools is not None and name not in tools and short in tools else name


def _convert(values: Mapping[str, str], name: str, tools: Mapping[str, ToolDefinition] | None) -> dict[str, Any]:
    """Return arguments that arrived as text with the types of the tool's schema."""
    tool = tools.get(name) if tools is not None else None
    properties = (as_dict(tool.input_schema.get("properties")) if tool is not None else None) or {}
    return {key: _convert_value(value, as_dict(properties.get(key)) or {}) for key, value in values.items()}


def _convert_value(value: str, schema: Mapping[str, Any]) -> Any:
    value = value.removeprefix("\n").removesuffix("\n")
    kinds = as_list(schema.get("type")) or [schema.get("type")]
    kinds += [inner.get("type") for inner in (*as_dicts(schema.get("anyOf")), *as_dicts(schema.get("oneOf")))]
    known = [kind for kind in kinds if isinstance(kind, str)]
    if not known or "string" in known:
        return value
    found = _decode_json(value.strip(), 0)
    return value if found is None or found[1] < len(value.strip()) else found[0]
