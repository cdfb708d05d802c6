"""Read calls and reasoning that a server without a parser leaves in the text of a response.

Recognized are the reasoning tags ``<think>``, a lone ``</think>``, the channels of the harmony format, and calls in
``<tool_call>``, ``<function=...>``, and ``<invoke ...>``. Text streams as before; only text that may be markup is delayed. Calls
are read if the text ends with them, all of the markup can be parsed, and the tools exist.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, cast

from mainspring.events import StreamEvent
from mainspring.lazy import lazy_re
from mainspring.messages import TextBlock, ThinkingBlock, ToolDefinition
from mainspring.models.codec.text import CALL_ENDS, TextAndThinking
from mainspring.models.json_values import as_dict, as_dicts, as_list
from mainspring.models.message_builder import MessageBuilder

ParsedCall = tuple[str, dict[str, Any]]
"""The name of a tool, and the arguments."""

_THINK = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<seed:think>": "</seed:think>",
    "<mm:think>": "</mm:think>",
    "<|channel>thought": "<channel|>",
    "[THINK]": "[/THINK]",
    "◁think▷": "◁/think▷",
}
_THINK_END = tuple([end for end in _THINK.values() if end.startswith("<")])
_SAME_END = ("</think>", "</thinking>")
"""Some models end one of these tags with the other."""
_CALLS = (
    *("<tool_call>", "<tool_calls>", "<function=", "<function_calls>", "<invoke ", "<minimax:tool_call>"),
    *("<function_calls>", "<invoke "),
)
_HARMONY = ("<|channel|>", "<|start|>assistant", "<|end|><|start|>assistant")
_OPENERS = (*_THINK, *_THINK_END, *_CALLS, *_HARMONY)
_HARMONY_ENDS = ("<|end|>", "<|return|>", "<|call|>", "<|start|>", "<|channel|>")
_HARMONY_MESSAGE = "<|message|>"
_MAX_HEADER = 300
_MAX_VIABLE_CHECK = 200
_MAX_CLOSER = 30
_MAX_ARGUMENTS = 2000  # characters that contain the name of a parameter

_TAG_START = lazy_re(r"[<\[◁]")
_WRAPPER = lazy_re(r"\s*</?(?:[\w-]+:)?(tool_calls?|function_calls)>|\s+")
_FUNCTION = lazy_re(r"<function=[\"']?([\w.:/-]+)[\"']?\s*>")
_INVOKE = lazy_re(r"<(?:\w+:)?invoke name=[\"']([\w.:/-]+)[\"'][^>]*>")
_PARAMETER = lazy_re(
    r"\s*<(?:\w+:)?parameter(?:=[\"']?|\s+name=[\"'])([^>\"']+)[\"']?[^>]*>(.*?)</(?:\w+:)?parameter>"
    r"(?=\s*(?:<(?:\w+:)?parameter[=\s]|</function>|</(?:\w+:)?invoke>))",
    re.DOTALL,
)
_FUNCTION_END = lazy_re(r"\s*(?:</function>|</(?:\w+:)?invoke>)")
_NAMED_CALL = lazy_re(r"([\w.:-]+)\s*(?=<arg_key>|</tool_call>)")
_NAMED_ARGUMENT = lazy_re(
    r"\s*<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>(?=\s*(?:<arg_key>|</tool_call>))", re.DOTALL
)
_CLOSER = lazy_re(r"</(?:(?:[\w-]+:)?(?:tool_calls?|function_calls|invoke)|function)>")
_VIABLE_START = lazy_re(r"[{\[]|[\w.:-]+\s*(?:<|$)")
_NATIVE = lazy_re(
    r"^[ \t]*(?:<[|｜][^<>\n]{0,40}(?:tool|function|action|python|dsml)[^<>\n]{0,40}>|<seed:tool_call>|\[TOOL_CALLS\])",
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
_PROSE = lazy_re(r"[^\W\d_]{2,} [^\W\d_]{2,} ")
_FENCE = lazy_re(r"```")
_FENCED = lazy_re(r"```\w*\n(.*?)\n?```", re.DOTALL)
_JSON_CALL = lazy_re(
    r"[\s\[]*(?:\{\s*\"tool_calls\"\s*:\s*\[\s*)?\{[^{}]{0,200}\"(?:name|tool|tool_name|function)\"\s*:\s*\"(?:functions\.)?([\w.-]+)\""
    r"\s*,[^{}]{0,200}\"(?:arguments|parameters|args|input)\"\s*:\s*\"?\{\s*(?:\\?\"([^\"\\]*)|\})"
)
_PYTHON_CALL = lazy_re(r"(?:\[|```tool_code\n(?:print\()?)([\w.-]+)\((?:\w+=|\))")
_ARGUMENTS_START = lazy_re(r"\w\(|\{|=\S")
_OTHER_ARGUMENTS = lazy_re(r"\s*\(\s*[\"')]|[^\w{]{0,10}(?:\w+\W{1,5})?\{\s*\}")
"""Arguments without a name, or none."""
_RECIPIENT = lazy_re(r"\bto=(?:functions\.)?([\w.:-]+)")
_CHANNEL = lazy_re(r"<\|channel\|>\s*(\w+)")


class MarkupText(TextAndThinking):
    """Text and reasoning of a response, read from text with markup.

    Args:
        draft: Builder of the response.
        text: Index of a text block that is open; -1 if none is.

    Attributes:
        is_unparsed: Whether the text contains markup of calls that could not be read as calls.
    """

    __slots__ = (
        "_calls",
        "_has_reasoning",
        "_header",
        "_markup",
        "_mode",
        "_pending",
        "_tail",
        "_think_end",
        "_written",
        "is_unparsed",
    )

    def __init__(self, draft: MessageBuilder, text: int = -1) -> None:
        super().__init__(draft)
        content = draft.message().content
        self.text = text
        self.is_unparsed = False
        self._mode = "text"  # "text", "think", "calls", "header", or "message"
        self._pending = ""  # text that may become markup
        self._written = [block.text for block in content[text:] if isinstance(block, TextBlock)] if text >= 0 else []
        self._think_end: tuple[str, ...] = _SAME_END
        self._markup: list[str] = []  # markup of calls, since its first tag
        self._tail: str | None = None  # text after the last closing tag of a call
        self._header = ""
        self._calls: list[tuple[str, str, str]] = []  # harmony calls: name, arguments, markup
        self._has_reasoning = any(isinstance(block, ThinkingBlock) for block in content)

    def add_text(self, text: str, out: list[StreamEvent]) -> None:
        """Add text as received."""
        if self._mode == "text" and not self._pending and self._written and "<" not in text:
            self._write(text, out)
        elif self._mode == "calls":
            self._add_markup(text, out)
        else:
            self._pending += text
            self._scan(out)

    def add_thinking(self, thought: str, out: list[StreamEvent]) -> None:
        """Add reasoning that the server separated from the text."""
        self._flush(out)
        self._has_reasoning = True
        super().add_thinking(thought, out)

    def close(self, out: list[StreamEvent], signature: str | None = None) -> None:
        """Add the delayed text, and close the open block."""
        self._flush(out)
        self._written.clear()
        super().close(out, signature)

    def finish(self, tools: Sequence[ToolDefinition], out: list[StreamEvent], *, is_complete: bool) -> list[ParsedCall]:
        """Handle the end of the response: return its calls, or add their markup as text.

        Args:
            tools: The tools of the request.
            out: Events.
            is_complete: Whether the response was neither truncated nor has calls that the server parsed.
        """
        self._scan(out, is_end=True)
        if self._mode == "message":
            self._scan_message(out, True)
        by_name = {tool.name: tool for tool in tools}
        calls: list[ParsedCall] | None = None
        markup = "".join([*[markup for _, _, markup in self._calls], *self._markup])
        if markup and is_complete and tools:
            if self._calls:
                calls = [] if self._markup else _parse_harmony_calls(self._calls, by_name)
            else:
                calls = parse_calls(markup, by_name)
            written = "".join(self._written)
            self.is_unparsed = not calls and (not written or written.endswith("\n"))
        if calls:
            self._calls.clear()
            self._markup.clear()
            self._mode = "text"
        self.close(out)
        return calls or []

    def _write(self, text: str, out: list[StreamEvent]) -> None:
        if text:
            self._written.append(text)
            super().add_text(text, out)

    def _flush(self, out: list[StreamEvent]) -> None:
        """Add everything that was delayed as text, unchanged."""
        if self._mode == "think":
            if self._pending.strip():
                super().add_thinking(self._pending, out)
        else:
            header = self._header if self._mode == "message" and _RECIPIENT.search(self._header) else ""
            text = "".join([*[markup for _, _, markup in self._calls], header, *self._markup, self._pending])
            if text and (self._written or not text.isspace()):
                self._write(text, out)
        self._pending = self._header = ""
        self._calls.clear()
        self._markup.clear()
        self._tail = None
        self._mode = "text"

    def _scan(self, out: list[StreamEvent], *, is_end: bool = False) -> None:
        """Process the pending text until more is needed."""
        steps = {
            "text": self._scan_text,
            "think": self._scan_thinking,
            "header": self._scan_header,
            "message": self._scan_message,
        }
        while self._pending and self._mode != "calls":
            if not steps[self._mode](out, is_end):
                return

    def _scan_text(self, out: list[StreamEvent], is_end: bool) -> bool:
        text, tag = self._split(_OPENERS, is_end)
        if self._has_reasoning and not self._written:
            text = text.lstrip()
        if text and (self._written or not text.isspace()):
            self._write(text, out)
        elif text and not tag:  # Whitespace before reasoning is not a part of the response.
            self._pending = text + self._pending
            return False
        if not tag:
            return False
        rest = self._pending[len(tag) :]
        written = "".join(self._written)
        is_quoted = written.endswith(("`", '"', "'")) or written.count("```") % 2 == 1
        if tag in _THINK_END and not is_quoted and written.strip() and not rest and not is_end:
            return False  # The next character decides whether the tag is quoted.
        if is_quoted or not self._open(tag, written, rest, out):
            self._write(tag, out)
            self._pending = rest
        return True

    def _open(self, tag: str, written: str, rest: str, out: list[StreamEvent]) -> bool:
        """Handle a tag in the text; return False if it is text."""
        is_first = not written.strip()
        if tag in _CALLS:
            self._mode, self._pending = "calls", ""
            self._add_markup(tag + rest, out)
        elif tag in _THINK_END:
            if not is_first and (self._has_reasoning or rest[:1] in ("`", '"', "'")):
                return False
            self._pending, self._has_reasoning = rest, True
            self._convert_to_thinking(written, out)
        elif tag in _THINK:
            if not is_first:
                return False
            self._mode, self._pending = "think", rest
            self._think_end = _SAME_END if _THINK[tag] in _SAME_END else (_THINK[tag],)
            self._has_reasoning = True
        else:
            if tag.startswith("<|end|>"):
                if self._has_reasoning:
                    return False
                self._has_reasoning = True
                self._convert_to_thinking(written, out)
                tag = tag.removeprefix("<|end|>")
            elif not is_first:
                return False
            self._mode, self._pending = "header", tag + rest
        return True

    def _convert_to_thinking(self, written: str, out: list[StreamEvent]) -> None:
        """Replace the text so far by reasoning: the server began the reasoning in the prompt."""
        if written.strip():
            self._written.clear()
            if self.text >= 0:
                out.append(self._draft.close_text(self.text, text=""))
                self.text = -1
            super().add_thinking(written.strip(), out)
            super().close(out)

    def _scan_thinking(self, out: list[StreamEvent], is_end: bool) -> bool:
        text, tag = self._split(self._think_end, is_end)
        if self._thinking < 0:
            text = text.lstrip()
        ready = text if is_end and not tag else text.rstrip()
        if ready:
            super().add_thinking(ready, out)
        if tag:
            super().close(out)
            self._mode, self._pending = "text", self._pending[len(tag) :]
            return True
        self._pending = text[len(ready) :] + self._pending
        return False

    def _scan_header(self, out: list[StreamEvent], is_end: bool) -> bool:
        """Read the header of a harmony message."""
        self._pending = self._pending.lstrip()
        at = self._pending.find(_HARMONY_MESSAGE)
        if at < 0:
            if is_end or len(self._pending) > _MAX_HEADER:
                self._flush(out)
            return False
        end = at + len(_HARMONY_MESSAGE)
        self._header, self._pending = self._pending[:end], self._pending[end:]
        self._mode = "message"
        self._markup.clear()
        return True

    def _scan_message(self, out: list[StreamEvent], is_end: bool) -> bool:
        """Read the content of a harmony message: a call, reasoning, or text."""
        text, tag = self._split(_HARMONY_ENDS, is_end)
        recipient = _RECIPIENT.search(self._header)
        channel = _CHANNEL.search(self._header)
        if recipient is not None:
            self._markup.append(text)
        elif channel is not None and channel[1] == "analysis":
            if text:
                self._has_reasoning = True
                super().add_thinking(text, out)
        else:
            self._write(text, out)
        if not tag and not is_end:
            return False
        if recipient is not None:
            arguments = "".join(self._markup)
            self._markup.clear()
            self._calls.append((recipient[1], arguments, f"{self._header}{arguments}{tag}"))
        elif self._thinking >= 0:
            super().close(out)
        self._header, self._mode = "", "header"
        if tag in ("<|end|>", "<|return|>", "<|call|>"):
            self._pending = self._pending[len(tag) :]
        return bool(tag)

    def _add_markup(self, text: str, out: list[StreamEvent]) -> None:
        """Collect the markup of calls; what turns out to be prose becomes text."""
        self._markup.append(text)
        if len(self._markup) <= _MAX_VIABLE_CHECK and not _is_viable(
            start := "".join(self._markup[:_MAX_VIABLE_CHECK])
        ):
            self._release(start, out)
            return
        before = "".join(self._markup[-_MAX_CLOSER - 1 : -1])[-_MAX_CLOSER:]
        tails = [] if self._tail is None else [self._tail + text]
        self._tail = None
        ends = [closer.end() for closer in _CLOSER.finditer(before + text)]
        tails += [(before + text)[end:] for end in ends if end > len(before)]
        for tail in tails:
            next_text = tail.lstrip()
            if not next_text:
                self._tail = tail
            elif not next_text.startswith("<"):
                markup = "".join(self._markup)
                if parse_calls(markup[: len(markup) - len(tail)], None):
                    self._release(markup, out)  # Calls that prose follows are an example.
                    return

    def _release(self, markup: str, out: list[StreamEvent]) -> None:
        """Continue with the markup as text; tags after its first one may still be markup."""
        self._markup.clear()
        self._tail = None
        self._mode = "text"
        first = next(tag for tag in _CALLS if markup.startswith(tag))
        self._write(first, out)
        self._pending = markup[len(first) :]
        self._scan(out)

    def _split(self, tags: Sequence[str], is_end: bool) -> tuple[str, str]:
        """Return the text before the first tag, and the tag; the pending text then starts with the tag or with a part of one."""
        pending = self._pending
        for start in _TAG_START.finditer(pending):
            at = start.start()
            rest = pending[at:]
            tag = max((tag for tag in tags if rest.startswith(tag)), key=len, default="")
            longer = not is_end and any(len(other) > len(rest) and other.startswith(rest) for other in tags)
            if tag and not longer:
                self._pending = rest
                return pending[:at], tag
            if longer:
                self._pending = rest
                return pending[:at], ""
        self._pending = ""
        return pending, ""


def has_unread_calls(text: str, tools: Sequence[ToolDefinition]) -> bool:
    """Return True if a text contains calls in the format of a model, outside of code blocks.

    These are special tokens at the start of a line, or a text that ends with the markup of a call of a tool, or that is nothing but
    such a call in JSON or Python.

    Args:
        text: The text.
        tools: The tools of the request.
    """
    text = text.strip()
    fences = [found.start() for found in _FENCE.finditer(text)]
    native = _NATIVE.search(text)
    if native is not None and not _is_between(fences, native.start()):
        if _ARGUMENTS_START.search(text, native.end(), native.end() + _MAX_HEADER):
            return True
    if not text.endswith(CALL_ENDS):
        return False
    by_name = {tool.name: tool for tool in tools if tool.name in text}
    if not by_name:
        return False
    fenced = _FENCED.fullmatch(text)
    whole = fenced[1] if fenced is not None else text
    call = _JSON_CALL.match(whole)
    if call is not None and call[1] in by_name:  # A definition of a tool has other keys in the same place.
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


def _is_viable(markup: str) -> bool:
    """Return True if the start of markup can become a call."""
    rest = markup
    for tag in _CALLS:
        if tag.endswith(">") and rest.startswith(tag):
            rest = rest[len(tag) :].lstrip()
            break
    if not rest or rest.startswith("<"):
        inner = (*_CALLS, "</")
        return not rest or any(rest.startswith(tag) or tag.startswith(rest) for tag in inner)
    return _VIABLE_START.match(rest) is not None


def parse_calls(markup: str, tools: Mapping[str, ToolDefinition] | None) -> list[ParsedCall] | None:
    """Return the calls of a text that contains only markup of calls; ``None`` for any other text.

    Args:
        markup: The text.
        tools: The tools by name, which must exist; ``None`` accepts any name.
    """
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
            return None
        more, at = found
        calls += more
    names = {name for name, _ in calls}
    return calls if calls and (tools is None or names <= tools.keys()) else None


def _parse_call(
    text: str, at: int, wrapper: str, tools: Mapping[str, ToolDefinition] | None
) -> tuple[list[ParsedCall], int] | None:
    """Return the calls at a position, and the position after them."""
    opening = _FUNCTION.match(text, at) or _INVOKE.match(text, at)
    if opening is not None:
        return _parse_function(text, opening, tools)
    if not wrapper.startswith("<tool_call"):
        return None
    if text[at] in "{[":
        return _parse_json(text, at, tools)
    named = _NAMED_CALL.match(text, at)
    if named is None:
        return None
    values: dict[str, str] = {}
    at = named.end()
    while (argument := _NAMED_ARGUMENT.match(text, at)) is not None:
        values[argument[1].strip()] = argument[2]
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
        found = _decode_json(text, len(text) - len(text[at:].lstrip()))
        if found is None or not isinstance(found[0], dict):
            return None
        arguments, at = cast("dict[str, Any]", found[0]), found[1]
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
        name = fields.get("name")
        arguments = fields.get("arguments", fields.get("parameters", {}))
        if isinstance(arguments, str):
            decoded = _decode_json(arguments, 0)
            arguments = decoded[0] if decoded is not None else None
        if not isinstance(name, str) or not isinstance(arguments, dict):
            return None
        calls.append((_known_name(name, tools), cast("dict[str, Any]", arguments)))
    return calls, found[1]


def _parse_harmony_calls(
    calls: Sequence[tuple[str, str, str]], tools: Mapping[str, ToolDefinition]
) -> list[ParsedCall] | None:
    parsed: list[ParsedCall] = []
    for name, text, _ in calls:
        found = _decode_json(text.strip() or "{}", 0)
        if found is None or not isinstance(found[0], dict) or found[1] < len(text.strip()) or name not in tools:
            return None
        parsed.append((name, cast("dict[str, Any]", found[0])))
    return parsed


def _decode_json(text: str, at: int) -> tuple[Any, int] | None:
    try:
        return json.JSONDecoder(strict=False).raw_decode(text, at)
    except (ValueError, RecursionError):
        return None


def _known_name(name: str, tools: Mapping[str, ToolDefinition] | None) -> str:
    short = name.removeprefix("functions.")
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
