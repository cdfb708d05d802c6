"""Read calls and reasoning that a server without a parser leaves in the text of a response.

Recognized are the reasoning tags ``<think>``, a lone ``</think>``, the channels of the harmony format, and calls that a tag of
`CALL_TAGS` begins. Text streams as before; only text that may be markup is delayed. Calls
are read if the text ends with them, all of the markup can be parsed, and the tools exist.
"""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.events import StreamEvent
from mainspring.lazy import lazy_re
from mainspring.messages import TextBlock, ThinkingBlock, ToolDefinition
from mainspring.models.codec.response_reader import MAX_CONTENT_SIZE
from mainspring.models.codec.text import SPECIAL_TOKENS, TextAndThinking
from mainspring.models.codec.text_calls import (
    CALL_CLOSER,
    CALL_TAGS,
    ParsedCall,
    has_invalid_call,
    is_viable,
    parse_calls,
    parse_harmony_calls,
)
from mainspring.models.message_builder import MessageBuilder

_THINK = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<seed:think>": "</seed:think>",
    "<mm:think>": "</mm:think>",
    "<|channel>thought": "<channel|>",
    "[THINK]": "[/THINK]",
    "◁think▷": "◁/think▷",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<|open|>think<|sep|>": "<|close|>think<|sep|>",
}
_THINK_END = tuple([end for end in _THINK.values() if end.startswith("<")])
_SAME_END = ("</think>", "</thinking>")
"""Some models end one of these tags with the other."""
_HARMONY = ("<|channel|>", "<|start|>assistant", "<|end|><|start|>assistant")
_MARKS = (
    *(
        "<|open|>response<|sep|>",
        "<|close|>response<|sep|>",
        "<|end_of_msg|>",
        "<|START_RESPONSE|>",
        "<|END_RESPONSE|>",
    ),
    *("<|START_TEXT|>", "<|END_TEXT|>"),
)
"""Marks around text, of Kimi K3 and Command A: they are removed."""
_OPENERS = (*_THINK, *_THINK_END, *CALL_TAGS, *_HARMONY, *_MARKS)
_HARMONY_ENDS = ("<|end|>", "<|return|>", "<|call|>", "<|start|>", "<|channel|>")
_HARMONY_MESSAGE = "<|message|>"
_MAX_HEADER = 300
_MAX_VIABLE_CHECK = 1000  # characters
_MAX_CLOSER = 30
_TAG_START = lazy_re(r"[<\[◁]")
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
        "_held",
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
        self._held = 0  # characters of the calls
        self._header = ""
        self._calls: list[tuple[str, str, str]] = []  # harmony calls: name, arguments, markup
        self._has_reasoning = any(isinstance(block, ThinkingBlock) for block in content)

    def add_text(self, text: str, out: list[StreamEvent]) -> None:
        """Add text as received."""
        if self._mode == "text" and not self._pending and self._written and "<" not in text and "[" not in text:
            self._write(text, out)
        elif self._mode == "calls":
            self._add_markup(text, out)
        else:
            self._pending += text
            self._scan(out)
        self._held = self._held + len(text) if self._markup or self._calls else 0
        if self._held > MAX_CONTENT_SIZE:
            self._flush(out)  # Too long for any response.

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
                calls = [] if self._markup else parse_harmony_calls(self._calls, by_name)
            else:
                calls = parse_calls(markup, by_name)
            written = "".join(self._written)
            is_list = not self._calls and markup.startswith(SPECIAL_TOKENS)  # A list of special tokens is not a call.
            is_line = not is_list and (not written or written.endswith("\n"))
            self.is_unparsed = not calls and (is_line or has_invalid_call(markup))
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
        if tag in CALL_TAGS:
            self._mode, self._pending = "calls", ""
            self._add_markup(tag + rest, out)
        elif tag in _MARKS:
            self._pending = rest
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
        if self._held < _MAX_VIABLE_CHECK:
            start = "".join(self._markup)
            if not is_viable(start[:_MAX_VIABLE_CHECK]):
                first = next(tag for tag in CALL_TAGS if start.startswith(tag))
                self._release(first, start[len(first) :], out)
                return
        before = "".join(self._markup[-_MAX_CLOSER - 1 : -1])[-_MAX_CLOSER:]
        tails = [] if self._tail is None else [self._tail + text]
        self._tail = None
        ends = [closer.end() for closer in CALL_CLOSER.finditer(before + text)]
        tails += [(before + text)[end:] for end in ends if end > len(before)]
        for tail in tails:
            next_text = tail.lstrip()
            if not next_text:
                self._tail = tail
            elif not next_text.startswith("<"):
                markup = "".join(self._markup)
                example = markup[: len(markup) - len(tail)]
                if parse_calls(example, None):  # Calls that prose follows.
                    self._release(example, tail, out)
                    return

    def _release(self, text: str, rest: str, out: list[StreamEvent]) -> None:
        """Continue with collected markup that is text; the rest may contain markup."""
        self._markup.clear()
        self._tail = None
        self._mode = "text"
        self._write(text, out)
        self._pending = rest
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
