"""What a LangChain chat model answers, in the shape of a Chat Completions chunk, so that one decoder reads both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from mainspring.events import StreamEvent
from mainspring.models.codec.text import extract_text
from mainspring.models.json_values import as_dict, as_dicts, as_list, as_number
from mainspring.models.langchain.messages import parse_image
from mainspring.models.message_builder import MessageBuilder
from mainspring.models.profile import ModelProfile
from mainspring.models.wire.openai_chat import ChatDecoder
from mainspring.models.wire.openai_chat.payloads import CallDelta, ChatChunk, ChatDelta, Choice, FunctionDelta

_REASONS = ("finish_reason", "stop_reason", "done_reason", "finishReason")
"""Where integrations put the reason to stop."""


class LangChainDecoder:
    """Turns the chunks of one answer into events; used once.

    Args:
        profile: The model that answers.
    """

    __slots__ = ("_decoder", "_tokens")

    def __init__(self, profile: ModelProfile) -> None:
        self._decoder = ChatDecoder(profile)
        self._tokens: Counter[str] = Counter()

    @property
    def draft(self) -> MessageBuilder:
        """What has arrived."""
        return self._decoder.draft

    def feed(self, chunk: Any, out: list[StreamEvent]) -> None:
        """Take a chunk, or a whole message from a model that does not stream."""
        pieces: list[Any] | None = getattr(chunk, "tool_call_chunks", None)
        delta = self._delta(chunk.content, chunk.additional_kwargs)
        if pieces is None:
            pieces = [*chunk.tool_calls, *chunk.invalid_tool_calls]
        delta.tool_calls = [_call_delta(piece) for piece in pieces] or None
        reason = next((chunk.response_metadata[r] for r in _REASONS if chunk.response_metadata.get(r)), None)
        choice = Choice(delta=delta, finish_reason=str(reason) if reason else None)
        if not hasattr(chunk, "tool_call_chunks"):
            choice.delta, choice.message = None, delta
        self._decoder.take(ChatChunk([choice], chunk.id, self._usage(chunk.usage_metadata)), out)
        for block in as_dicts(chunk.content):
            image = parse_image(block)
            if image is not None:
                self.draft.image(image)

    def finish(self, out: list[StreamEvent]) -> None:
        """There is nothing more; a stream of LangChain that was cut raises by itself."""
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

    def _usage(self, told: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """All counts so far: those of chunks add up. Parts of the prompt that were cached are in its sum."""
        if not told:
            return None
        for name in ("input_tokens", "output_tokens", "total_tokens"):
            self._tokens[name] += int(as_number(told.get(name)) or 0)
        for name in ("input_token_details", "output_token_details"):
            for kind, count in (as_dict(told.get(name)) or {}).items():
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
    """Reasoning in a block, in the forms of the integrations; what must go back is kept beside the text."""
    match block.get("type"):
        case "thinking" | "reasoning":
            said = block.get("thinking") or block.get("reasoning")
            text = extract_text(said) or "".join([extract_text(p.get("text")) for p in as_dicts(block.get("summary"))])
            signature = block.get("signature") or (as_dict(block.get("extras")) or {}).get("signature")
        case "reasoning_content":
            inner = as_dict(block.get("reasoning_content")) or {}
            text, signature = extract_text(inner.get("text")), inner.get("signature")
        case "redacted_thinking":
            return {"type": "redacted_thinking", "data": block.get("data")}
        case _:
            return None
    return {"type": "thinking", "index": block.get("index"), "text": text, "signature": signature}
