"""Read the calls in the text of a response, in the formats that models write, and find the calls that cannot be read."""

from __future__ import annotations

import ast
import json
import re
import warnings
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, cast

from mainspring.lazy import lazy_re
from mainspring.messages import ToolDefinition
from mainspring.models.codec.text import CALL_ENDS
from mainspring.models.json_values import as_dict, as_dicts, as_list

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


_MAX_SOURCE = 1 << 18  # characters; Python's parser needs a hundred times the memory
_MAX_ARGUMENTS = 2000  # characters that contain the name of a parameter
_MAX_NATIVE_ARGUMENTS_START = 300
_NATIVE = lazy_re(
    r"^[ \t]*[\w.:-]*(?:<[|｜][^<>\n]{0,40}(?:tool|function|action|python|dsml)[^<>\n]{0,40}>|<seed:tool_call>|\[TOOL_CALLS\]|<\|open\|>tools)",
    re.MULTILINE | re.IGNORECASE,
)
"""The start of calls in special tokens, as most models write them: reported where they cannot be read."""
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
        calls = _parse_python(text[at:end].strip())
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


def _parse_python(source: str) -> list[tuple[str, dict[str, Any]]] | None:
    """Return the names and the arguments of calls, one after the other or in a list; ``None`` for any other text.

    Args:
        source: The text, for example, ``[read_file(path="a.txt")]``. Nothing of it is executed.
    """
    if len(source) > _MAX_SOURCE:
        return None
    try:
        with warnings.catch_warnings():  # of unknown escapes in strings, which are common in regular expressions
            warnings.simplefilter("ignore")
            return [_read_call(node) for statement in ast.parse(source).body for node in _nodes(statement)] or None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _nodes(statement: ast.stmt) -> Iterator[ast.expr]:
    if not isinstance(statement, ast.Expr):
        raise ValueError("not an expression")
    yield from statement.value.elts if isinstance(statement.value, ast.List) else [statement.value]


def _read_call(node: ast.expr) -> tuple[str, dict[str, Any]]:
    if not isinstance(node, ast.Call) or node.args or not isinstance(node.func, ast.Name | ast.Attribute):
        raise ValueError("not a call with named arguments")
    return ast.unparse(node.func), {
        str(given.arg): ast.literal_eval(given.value) for given in node.keywords if given.arg
    }


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
