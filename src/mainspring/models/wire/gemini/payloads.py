"""Typed structs of the fields that are read from Gemini responses."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from mainspring.messages import Usage


class PartialArg(Struct, gc=False, rename="camel"):
    """A part of one argument, for hosts that stream arguments."""

    json_path: str = ""
    string_value: str | None = None
    number_value: float | None = None
    bool_value: bool | None = None
    null_value: Any = msgspec.UNSET


class FunctionCall(Struct, rename="camel"):
    """A call, complete or (with ``will_continue``) in parts."""

    name: str | None = None
    args: dict[str, Any] | None = None
    id: str | None = None
    partial_args: list[PartialArg] | None = None
    will_continue: bool | None = None


class Blob(Struct, gc=False, rename="camel"):
    """Bytes in base64."""

    mime_type: str = ""
    data: str = ""


class GeminiPart(Struct, rename="camel"):
    """A part of the response; parts of server-side tools have none of these fields."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: FunctionCall | None = None
    inline_data: Blob | None = None


class GeminiContent(Struct):
    """Content of a candidate."""

    parts: list[GeminiPart] | None = None


class Candidate(Struct, rename="camel"):
    """One candidate; only the first is used."""

    content: GeminiContent | None = None
    finish_reason: str | int | None = None
    finish_message: str | None = None
    index: int | None = None


def _count(value: int | None) -> int:
    return max(0, value or 0)


class UsageMetadata(Struct, gc=False, rename="camel"):
    """Token counts: cached tokens are part of the prompt; thoughts and results of server-side tools are separate."""

    prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    total_token_count: int | None = None

    def usage(self) -> Usage | None:
        """Return the counts in the common form; ``None`` if they are missing.

        If the total exceeds the sum of the parts, thoughts are missing in it; if it is smaller, the candidates already contain them.
        """
        prompt = _count(self.prompt_token_count) + _count(self.tool_use_prompt_token_count)
        answer, thoughts = _count(self.candidates_token_count), _count(self.thoughts_token_count)
        total = self.total_token_count or prompt + answer + thoughts
        if total <= 0:
            return None
        gap = total - prompt - answer - thoughts
        if gap > 0:
            thoughts += gap
        elif gap < 0:
            answer = max(0, answer - min(thoughts, -gap))
        read = min(_count(self.cached_content_token_count), prompt)
        return Usage(prompt - read, answer + thoughts, read, 0, thoughts)


class PromptFeedback(Struct, rename="camel"):
    """Reason why a prompt was rejected."""

    block_reason: str | int | None = None
    block_reason_message: str | None = None


class GeminiChunk(Struct, rename="camel"):
    """One event of a stream, or a complete response."""

    candidates: list[Candidate] | None = None
    usage_metadata: UsageMetadata | None = None
    prompt_feedback: PromptFeedback | None = None
    response_id: str | None = None
    error: Any = None


decode_gemini_chunk = msgspec.json.Decoder(GeminiChunk).decode
"""Decode an event quickly; see `StreamDecoder` for invalid JSON."""
