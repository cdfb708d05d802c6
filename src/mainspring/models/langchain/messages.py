"""Convert messages to and from LangChain."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from mainspring.errors import ProviderConfigError
from mainspring.events import StreamEvent
from mainspring.extras import install_command
from mainspring.messages import (
    ContentBlock,
    ImageBlock,
    Message,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from mainspring.models.codec.normalize import (
    arguments_object,
    iter_complete_turns,
    new_call_id,
    prepare_message,
    rename_repeated_calls,
    split_text_and_images,
)
from mainspring.models.codec.text import extract_text
from mainspring.models.json_values import as_dict, as_dicts, as_list, as_number
from mainspring.models.message_builder import MessageBuilder
from mainspring.models.profile import ModelProfile
from mainspring.models.wire.openai_chat import ChatDecoder
from mainspring.models.wire.openai_chat.encode import encode_content
from mainspring.models.wire.openai_chat.payloads import CallDelta, ChatChunk, ChatDelta, Choice, FunctionDelta


def langchain(module: str) -> Any:
    """Return a module of langchain-core.

    Raises:
        ProviderConfigError: LangChain is not installed.
    """
    try:
        return import_module(f"langchain_core.{module}")
    except ModuleNotFoundError as error:
        raise ProviderConfigError(
            f"LangChain is not installed. Run `{install_command('langchain')}`.",
            reason="missing_package",
            provider="langchain",
        ) from error


def to_langchain(messages: Sequence[Message], profile: ModelProfile, system: str = "") -> list[Any]:
    """Convert messages to LangChain, with the repairs that other hosts get too.

    Images of tool results follow in a user message, because not every integration accepts them in a result.

    Args:
        messages: The conversation.
        profile: Model that receives the messages.
        system: System prompt.
    """
    kinds = langchain("messages")
    found: list[Any] = [kinds.SystemMessage(system)] if system.strip() else []
    call_ids: set[str] = set()
    for complete, _ in iter_complete_turns(messages):
        unit = rename_repeated_calls(complete, call_ids)
        call_ids.update([call.id for message in unit for call in message.tool_uses])
        for message in unit:
            prepared = prepare_message(
                message, profile.provider, profile.model, vision=profile.info.vision, unreadable=profile.unreadable
            )
            if prepared is not None:
                found += _convert_message(prepared, kinds)
    return found


def _convert_message(message: Message, kinds: Any) -> list[Any]:
    if message.role == "system":
        return [kinds.SystemMessage(message.text)]
    if message.role == "assistant":
        calls = [
            {"id": c.id, "name": c.name, "args": arguments_object(c), "type": "tool_call"} for c in message.tool_uses
        ]
        return [kinds.AIMessage(_assistant_content(message), tool_calls=calls)]
    results: list[Any] = []
    shown: list[ContentBlock] = []
    for block in message.content:
        if isinstance(block, ToolResultBlock):
            text, behind = split_text_and_images(block)
            status = "error" if block.is_error else "success"
            name = block.name or None
            results.append(kinds.ToolMessage(text, tool_call_id=block.tool_use_id, name=name, status=status))
            shown += behind
        else:
            shown.append(block)
    return [*results, kinds.HumanMessage(encode_content(shown))] if shown else results


def _assistant_content(message: Message) -> str | list[dict[str, Any]]:
    """Return the content of a response: a text, or the original blocks if its reasoning must be sent back."""
    parts: list[dict[str, Any]] = []
    for block in message.content:
        if isinstance(block, ThinkingBlock) and block.signature:
            stored = _object(block.signature)
            if stored.get("signature"):
                parts.append({"type": "thinking", "thinking": block.thinking, "signature": stored["signature"]})
        elif isinstance(block, RedactedThinkingBlock):
            stored = _object(block.data)
            if stored:
                parts.append(stored)
    if not parts:
        return message.text
    return [*parts, {"type": "text", "text": message.text}] if message.text else parts


def _object(text: str) -> dict[str, Any]:
    try:
        return as_dict(json.loads(text)) or {}
    except ValueError:
        return {}


def from_langchain(messages: Sequence[Any]) -> list[Message]:
    """Convert LangChain messages; results of one response become one message.

    Raises:
        TypeError: Unsupported message type.
    """
    found: list[Message] = []
    for given in messages:
        kind = given.type.removesuffix("MessageChunk").lower()
        if kind == "system":
            found.append(Message.system(extract_text(given.content)))
        elif kind == "human":
            found.append(Message.user(parse_content_blocks(given.content)))
        elif kind == "ai":
            calls = [
                ToolUseBlock(call["id"] or new_call_id(str(given.id or ""), i), call["name"], call["args"])
                for i, call in enumerate(given.tool_calls)
            ]
            found.append(Message.assistant([*parse_content_blocks(given.content), *calls]))
        elif kind == "tool":
            result = ToolResultBlock(
                given.tool_call_id, given.name or "", _result_output(given.content), is_error=given.status == "error"
            )
            last = found[-1] if found else None
            together = last is not None and last.role == "user" and bool(last.tool_results)
            if together and last is not None:
                found[-1] = Message.user([*last.content, result])
            else:
                found.append(Message.user([result]))
        else:
            raise TypeError(f"Unsupported LangChain message type: {given.type!r}.")
    return found


def _result_output(content: object) -> str | tuple[TextBlock | ImageBlock, ...]:
    return content if isinstance(content, str) else parse_content_blocks(content)


def parse_content_blocks(content: object) -> tuple[TextBlock | ImageBlock, ...]:
    """Parse text and images from content, in any of LangChain's forms."""
    if isinstance(content, str):
        return (TextBlock(content),) if content else ()
    found: list[TextBlock | ImageBlock] = []
    for part in as_list(content):
        text = extract_text(part)
        image = parse_image(as_dict(part) or {})
        if image is not None:
            found.append(image)
        elif text:
            found.append(TextBlock(text))
    return tuple(found)


def parse_image(block: dict[str, Any]) -> ImageBlock | None:
    """Parse the image of a block: a data URL, LangChain's own forms (old and new), or Anthropic's."""
    url = block.get("image_url") or block.get("url")
    url = (as_dict(url) or {}).get("url", url)
    if isinstance(url, str) and url.startswith("data:image/") and ";base64," in url:
        media_type, _, data = url.removeprefix("data:").partition(";base64,")
        return ImageBlock(media_type, data)
    source = as_dict(block.get("source")) or block
    data = source.get("base64") or source.get("data")
    media_type = source.get("mime_type") or source.get("media_type")
    if block.get("type") == "image" and isinstance(data, str) and isinstance(media_type, str):
        return ImageBlock(media_type, data)
    return None


_REASONS = ("finish_reason", "stop_reason", "done_reason", "finishReason")
"""Fields in which integrations put the stop reason."""


class LangChainDecoder:
    """Converts the chunks of one response to events; used once.

    Args:
        profile: Model that responds.
    """

    __slots__ = ("_decoder", "_tokens")

    def __init__(self, profile: ModelProfile) -> None:
        self._decoder = ChatDecoder(profile)
        self._tokens: Counter[str] = Counter()

    @property
    def draft(self) -> MessageBuilder:
        """Message received so far."""
        return self._decoder.draft

    def feed(self, chunk: Any, out: list[StreamEvent]) -> None:
        """Decode a chunk, or a whole message of a model that does not stream."""
        pieces: list[Any] | None = getattr(chunk, "tool_call_chunks", None)
        delta = self._delta(chunk.content, chunk.additional_kwargs)
        if pieces is None:
            pieces = [*chunk.tool_calls, *chunk.invalid_tool_calls]
        delta.tool_calls = [_call_delta(piece) for piece in pieces] or None
        reason = next((chunk.response_metadata[r] for r in _REASONS if chunk.response_metadata.get(r)), None)
        choice = Choice(delta=delta, finish_reason=str(reason) if reason else None)
        if not hasattr(chunk, "tool_call_chunks"):
            choice.delta, choice.message = None, delta
        self._decoder.feed_chunk(ChatChunk([choice], chunk.id, self._usage(chunk.usage_metadata)), out)
        for block in as_dicts(chunk.content):
            image = parse_image(block)
            if image is not None:
                self.draft.image(image)

    def finish(self, out: list[StreamEvent]) -> None:
        """Finish the response; an interrupted LangChain stream raises an exception itself."""
        self._decoder.complete = True
        self._decoder.finish(out)

    def _delta(self, content: object, more: Mapping[str, Any]) -> ChatDelta:
        delta = ChatDelta(reasoning_content=extract_text(more.get("reasoning_content")) or None)
        if isinstance(content, str):
            delta.content = content
            return delta
        blocks = as_list(content)
        delta.content = "".join(map(extract_text, blocks))
        delta.reasoning_details = [found for b in blocks if (found := _reasoning_detail(as_dict(b) or {}))] or None
        return delta

    def _usage(self, usage: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """Return the sum of all counts so far. Cached parts of the prompt are included in the total."""
        if not usage:
            return None
        for name in ("input_tokens", "output_tokens", "total_tokens"):
            self._tokens[name] += int(as_number(usage.get(name)) or 0)
        for name in ("input_token_details", "output_token_details"):
            for kind, count in (as_dict(usage.get(name)) or {}).items():
                self._tokens[kind] += int(as_number(count) or 0)
        count = self._tokens
        return {
            "prompt_tokens": count["input_tokens"],
            "completion_tokens": count["output_tokens"],
            "total_tokens": count["total_tokens"],
            "prompt_tokens_details": {
                "cached_tokens": count["cache_read"],
                "cache_write_tokens": count["cache_creation"],
            },
            "completion_tokens_details": {"reasoning_tokens": count["reasoning"]},
        }


def _call_delta(piece: Mapping[str, Any]) -> CallDelta:
    return CallDelta(piece.get("id"), piece.get("index"), FunctionDelta(piece.get("name"), piece.get("args")))


def _reasoning_detail(block: dict[str, Any]) -> dict[str, Any] | None:
    """Return the reasoning of a block, in the forms of the integrations; data to send back is stored with the text."""
    match block.get("type"):
        case "thinking" | "reasoning":
            thought = block.get("thinking") or block.get("reasoning")
            text = extract_text(thought) or "".join(
                [extract_text(p.get("text")) for p in as_dicts(block.get("summary"))]
            )
            signature = block.get("signature") or (as_dict(block.get("extras")) or {}).get("signature")
        case "reasoning_content":
            inner = as_dict(block.get("reasoning_content")) or {}
            text, signature = extract_text(inner.get("text")), inner.get("signature")
        case "redacted_thinking":
            return {"type": "redacted_thinking", "data": block.get("data")}
        case _:
            return None
    return {"type": "thinking", "index": block.get("index"), "text": text, "signature": signature}
