"""Repair a conversation for a request: the stored history never changes, and the request is always valid.

Two parts. `iter_complete_turns` checks neighbors: each call gets exactly one result directly after it, results without a call
are dropped. `prepare_message` checks one message: content that the receiver does not support is dropped or becomes text.

Rules of `iter_complete_turns`:

* The results of an assistant message follow it directly, in the order of its calls, regardless of the order in the history.
* A call without a result gets an error result, under the tool's real name.
* A result without its call, or a second result for the same call, is dropped.
* Of an assistant message that failed or was aborted, only its text is sent, with a note that it was interrupted, unless one of
  its tools was really executed (has a result that is not an error): side effects are not hidden from the model.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any
from zlib import crc32

from msgspec.structs import replace

from mainspring.lazy import lazy_re
from mainspring.messages import (
    ContentBlock,
    ImageBlock,
    Message,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
    image_placeholder,
)
from mainspring.models.codec.tool_schema import simplify_tool_schema
from mainspring.models.json_values import as_dict
from mainspring.models.message_builder import exceeds_max_depth

MISSING_RESULT_TEXT = "Tool execution was interrupted; its outcome is unknown"
"""Text of the error result of a call whose result is missing."""

_INTERRUPTED_NOTE = (
    "[Your response above was interrupted {cause} before it was complete; the user saw it up to there.{calls}]"
)

EMPTY_RESULT_TEXT = "(no output)"
"""Text of an empty result: hosts require some text."""

_ILLEGAL = lazy_re(r"[^a-zA-Z0-9_-]")
_MAX_ID_CHARS = 40
_MAX_NAME_CHARS = 128

EMPTY_PROMPT_TEXT = "Begin."
"""User prompt of a conversation without any content that can be sent: hosts reject empty conversations."""


def iter_complete_turns(messages: Sequence[Message], start: int = 0) -> Iterator[tuple[list[Message], int]]:
    """Iterate over a conversation in units that no later message can change.

    Args:
        messages: The conversation.
        start: Index of the first message; must be the end of an earlier unit.

    Yields:
        The repaired messages of a unit (messages without repairs are the same objects), and the index after it. The last
        unit may still be open (results can follow): then the index is that of its first message.
    """
    at, end = start, len(messages)
    while at < end:
        message = messages[at]
        if message.role == "assistant" and message.tool_uses:
            unit, behind, closed = _turn(messages, at)
            yield unit, behind if closed else at
            at = behind
            continue
        at += 1
        if message.role == "assistant" and message.stop_reason in ("error", "aborted"):
            yield _interrupted(message), at
        elif message.role == "user" and message.tool_results:
            yield _without_results(message), at
        else:
            yield [message], at


def rename_repeated_calls(unit: list[Message], used: set[str]) -> list[Message]:
    """Return a unit whose calls have IDs that no earlier unit has.

    Some models number the calls of each response from 0, and hosts reject a conversation with the same ID twice.

    Args:
        unit: Messages of one unit of `iter_complete_turns`.
        used: IDs of all earlier units.
    """
    names: dict[str, str] = {}
    for call in unit[0].tool_uses if unit and unit[0].role == "assistant" else ():
        if call.id in used:
            number = next(n for n in count(2) if f"{call.id}_{n}" not in used)
            names[call.id] = f"{call.id}_{number}"
    return [_with_call_ids(message, names) for message in unit] if names else unit


def _with_call_ids(message: Message, names: dict[str, str]) -> Message:
    content: list[ContentBlock] = []
    for block in message.content:
        if isinstance(block, ToolUseBlock) and block.id in names:
            block = replace(block, id=names[block.id])
        elif isinstance(block, ToolResultBlock) and block.tool_use_id in names:
            block = replace(block, tool_use_id=names[block.tool_use_id])
        content.append(block)
    return replace(message, content=tuple(content))


def _turn(messages: Sequence[Message], at: int) -> tuple[list[Message], int, bool]:
    """Return an assistant message with calls and its results: the unit, the index after it, whether it is closed."""
    message = messages[at]
    calls = message.tool_uses
    results: dict[str, ToolResultBlock] = {}
    requested = {call.id for call in calls}
    answers: list[Message] = []
    behind = at + 1
    while behind < len(messages) and len(results) < len(requested) and messages[behind].role != "assistant":
        answers.append(messages[behind])
        for result in messages[behind].tool_results:
            if result.tool_use_id in requested:
                results.setdefault(result.tool_use_id, result)
        behind += 1
    closed = len(results) == len(requested) or behind < len(messages)
    if message.stop_reason in ("error", "aborted") and all(r.is_error for r in results.values()):
        others = [rest for answer in answers for rest in _without_results(answer)]
        return [*_interrupted(message), *others], behind, closed
    if len(answers) == 1 and _is_regular(calls, answers[0]):
        return [message, answers[0]], behind, True
    blocks: list[ContentBlock] = [_result_or_placeholder(c, results.get(c.id)) for c in _distinct_calls(calls)]
    others = [rest for answer in answers for rest in _without_results(answer)]
    if len(calls) != len(requested):
        distinct = {id(call) for call in _distinct_calls(calls)}
        content = [b for b in message.content if type(b) is not ToolUseBlock or id(b) in distinct]
        message = replace(message, content=tuple(content))
    return [message, Message("user", tuple(blocks), timestamp=message.timestamp), *others], behind, closed


def _interrupted(message: Message) -> list[Message]:
    """Return the text of an interrupted response and a note about it; nothing if it has no text, or a filter stopped it."""
    texts = [TextBlock(block.text) for block in message.content if isinstance(block, TextBlock) and block.text.strip()]
    if not texts or "content filter" in (message.error or ""):  # A host would reject the same text again.
        return []
    note = _INTERRUPTED_NOTE.format(
        cause=f"({message.error or 'aborted'})" if message.stop_reason == "aborted" else "by an error",
        calls=" The tool calls in it were not run." if message.tool_uses else "",
    )
    partial = Message("assistant", tuple(texts), provider=message.provider, model=message.model)
    return [partial, Message.user(note)]


def _is_regular(calls: tuple[ToolUseBlock, ...], answer: Message) -> bool:
    """Return True if the next message contains exactly the results, in order and before anything else."""
    content = answer.content
    if len(content) < len(calls):
        return False
    for call, block in zip(calls, content, strict=False):
        if type(block) is not ToolResultBlock or block.tool_use_id != call.id or not block.name:
            return False
    return len(content) == len(calls) or not any(type(b) is ToolResultBlock for b in content[len(calls) :])


def _distinct_calls(calls: tuple[ToolUseBlock, ...]) -> list[ToolUseBlock]:
    first: dict[str, ToolUseBlock] = {}
    for call in calls:
        first.setdefault(call.id, call)
    return list(first.values())


def _result_or_placeholder(call: ToolUseBlock, result: ToolResultBlock | None) -> ToolResultBlock:
    """Return the result of a call with its tool name, which some hosts require; an error result if it is missing."""
    if result is None:
        return ToolResultBlock(call.id, call.name, MISSING_RESULT_TEXT, is_error=True)
    return result if result.name else replace(result, name=call.name)


def _without_results(message: Message) -> list[Message]:
    if not message.tool_results:
        return [message]
    content = tuple([b for b in message.content if type(b) is not ToolResultBlock])
    return [replace(message, content=content)] if content else []


def prepare_message(
    message: Message,
    provider: str,
    model: str,
    *,
    vision: bool,
    unreadable: frozenset[int] = frozenset(),
    max_id_length: int = _MAX_ID_CHARS,
    keep_generated_images: bool = False,
) -> Message | None:
    """Return one message in a form that its receiver accepts.

    Reasoning and signatures of another provider or model are dropped, and so is empty text. An image becomes a line of text if
    ``vision`` is false or its `image_hash` is in ``unreadable``. Call IDs and invented tool names are converted to a form that
    every host accepts, IDs with at most ``max_id_length`` characters. An image that the model created becomes a line of text
    unless ``keep_generated_images`` is set; a blank result gets a text.

    Returns:
        The message (the same object if nothing changed), or ``None`` if it has no content left.
    """
    receiver = _Target(
        vision, unreadable, max_id_length, is_generated=message.role == "assistant" and not keep_generated_images
    )
    own = message.role != "assistant" or (message.provider == provider and message.model == model)
    content: list[ContentBlock] = []
    changed = False
    for block in message.content:
        prepared = _prepare_block(block, own, receiver)
        changed = changed or prepared is not block
        if prepared is not None:
            content.append(prepared)
    if not any(type(b) is not ThinkingBlock and type(b) is not RedactedThinkingBlock for b in content):
        return None
    return replace(message, content=tuple(content)) if changed else message


class _Target:
    """Content that a receiver supports."""

    __slots__ = ("is_generated", "max_id_length", "unreadable", "vision")

    def __init__(self, vision: bool, unreadable: frozenset[int], max_id_length: int, *, is_generated: bool) -> None:
        self.max_id_length = max_id_length
        self.is_generated = is_generated
        self.vision = vision
        self.unreadable = unreadable

    def replace_if_unsupported(self, block: ImageBlock) -> ImageBlock | TextBlock:
        """Return the image, or the text that replaces it."""
        if self.is_generated:
            return TextBlock(f"\n[{block.media_type} image that was made here]")  # The text of a message is joined.
        if not block.data:
            return TextBlock(f"[{block.media_type} image left out: it is empty]")
        if not self.vision:
            return TextBlock(image_placeholder(block))
        if self.unreadable and image_hash(block) in self.unreadable:
            return TextBlock(f"[{block.media_type} image left out: the provider could not read it]")
        return block


def image_hash(block: ImageBlock) -> int:
    """Return a hash that identifies an image."""
    return crc32(block.data.encode("ascii", "replace"))


def _prepare_block(block: ContentBlock, own: bool, receiver: _Target) -> ContentBlock | None:
    match block:
        case TextBlock():
            if not block.text or block.text.isspace():
                return None
            return block if own or block.signature is None else TextBlock(block.text)
        case ThinkingBlock() | RedactedThinkingBlock():
            return block if own else None
        case ImageBlock():
            return receiver.replace_if_unsupported(block)
        case ToolUseBlock():
            id, name = sanitize_call_id(block.id, receiver.max_id_length), sanitize_tool_name(block.name)
            if id == block.id and name == block.name and (own or block.signature is None):
                return block
            return replace(block, id=id, name=name, signature=block.signature if own else None)
        case ToolResultBlock():
            return _prepare_result(block, receiver)


def _prepare_result(block: ToolResultBlock, receiver: _Target) -> ToolResultBlock:
    id, name = sanitize_call_id(block.tool_use_id, receiver.max_id_length), sanitize_tool_name(block.name)
    content = block.content
    if isinstance(content, str):
        content = EMPTY_RESULT_TEXT if not content or content.isspace() else content
    else:
        shown = [b for b in content if isinstance(b, ImageBlock) or b.text.strip()]
        seen = tuple([receiver.replace_if_unsupported(b) if isinstance(b, ImageBlock) else b for b in shown])
        same = len(seen) == len(content) and all(a is b for a, b in zip(seen, content, strict=True))
        content = content if same else seen or EMPTY_RESULT_TEXT
    if id == block.tool_use_id and name == block.name and content is block.content:
        return block
    return replace(block, tool_use_id=id, name=name, content=content)


def sanitize_tool_name(name: str) -> str:
    """Return a tool name that every host accepts in a call: models invent names and may receive them in the history."""
    if len(name) <= _MAX_NAME_CHARS and name and not _ILLEGAL.search(name):
        return name
    return _ILLEGAL.sub("_", name)[:_MAX_NAME_CHARS] or "unnamed"


def sanitize_call_id(id: str, max_length: int = _MAX_ID_CHARS) -> str:
    """Return a stable, unique ID of letters, digits, ``_``, and ``-``, at most ``max_length`` characters long."""
    if len(id) <= max_length and not _ILLEGAL.search(id) and id and id[-1] not in "_-":
        return id
    mark = f"{crc32(id.encode('utf-8', 'replace')):08x}"
    return f"{_ILLEGAL.sub('_', id)[: max_length - 9].strip('_-') or 'call'}_{mark}"


def nine_char_id(id: str) -> str:
    """Return a stable ID of nine letters and digits."""
    if len(id) == 9 and id.isascii() and id.isalnum():
        return id
    data = id.encode("utf-8", "replace")
    return f"{crc32(data):08x}{crc32(data[::-1]) % 16:x}"


def split_text_and_images(
    block: ToolResultBlock, note: str = "[the image follows in the next user message]"
) -> tuple[str, list[TextBlock | ImageBlock]]:
    """Split a tool result for hosts that accept only text in results.

    Args:
        block: Tool result.
        note: Line for the text with the position of its images.

    Returns:
        Text of the result, and the content for another message if it has images: a line with its name, then the images.
    """
    if isinstance(block.content, str):
        return block.content or EMPTY_RESULT_TEXT, []
    lines = [part.text for part in block.content if isinstance(part, TextBlock)]
    images = [part for part in block.content if isinstance(part, ImageBlock)]
    shown: list[TextBlock | ImageBlock] = []
    if images:
        lines.append(note)
        shown = [TextBlock(f"Image from the result of {block.name or block.tool_use_id}:"), *images]
    return "\n".join(lines) or EMPTY_RESULT_TEXT, shown


def new_call_id(response_id: str, number: int) -> str:
    """Return an ID for a call that has none; deterministic for the same response.

    Args:
        response_id: Host's ID of the response.
        number: Number of the call in the response.
    """
    tail = "".join([c for c in response_id if c.isascii() and c.isalnum()])[-12:]
    return f"call_{tail or secrets.token_hex(6)}_{number}"


def arguments_object(call: ToolUseBlock) -> dict[str, Any]:
    """Return the arguments of a call as an object, even if the model's text was not: hosts require an object."""
    if call.raw_input is None:
        return call.input
    try:
        value = as_dict(json.loads(call.raw_input, strict=False))
    except (ValueError, RecursionError):
        value = None
    return {"unreadable_arguments": call.raw_input} if value is None or exceeds_max_depth(value) else value


def portable_schema(tool: ToolDefinition) -> dict[str, Any]:
    """Return the schema of a tool's arguments in a form that every host accepts."""
    return simplify_tool_schema(tool.input_schema)
