"""The fields of Gemini answers that are used, as typed structs."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from mainspring.messages import Usage, strip_surrogates
from mainspring.models.json_values import convert_loosely, parse_object_leniently


class PartialArg(Struct, gc=False, rename="camel"):
    """A piece of one argument, where a host streams arguments."""

    json_path: str = ""
    string_value: str | None = None
    number_value: float | None = None
    bool_value: bool | None = None
    null_value: Any = msgspec.UNSET


class FunctionCall(Struct, rename="camel"):
    """A call, whole or (with ``will_continue``) in pieces."""

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
    """A part of the answer; parts of tools that the host itself runs have none of these fields."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: FunctionCall | None = None
    inline_data: Blob | None = None


class GeminiContent(Struct):
    """What was said."""

    parts: list[GeminiPart] | None = None


class Candidate(Struct, rename="camel"):
    """One of the answers; only the first is used."""

    content: GeminiContent | None = None
    finish_reason: str | int | None = None
    finish_message: str | None = None
    index: int | None = None


def _count(told: int | None) -> int:
    return max(0, told or 0)


class UsageMetadata(Struct, gc=False, rename="camel"):
    """Token counts: cached tokens are part of the prompt, thoughts and results of the host's tools are counted apart."""

    prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    total_token_count: int | None = None

    def usage(self) -> Usage | None:
        """The counts in the one form; ``None`` if there are none yet.

        A total that holds more than its parts leaves out thoughts; one that holds less has them in the candidates already.
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
    """Why a prompt was refused."""

    block_reason: str | int | None = None
    block_reason_message: str | None = None


class GeminiChunk(Struct, rename="camel"):
    """One event of a stream, or a whole answer."""

    candidates: list[Candidate] | None = None
    usage_metadata: UsageMetadata | None = None
    prompt_feedback: PromptFeedback | None = None
    response_id: str | None = None
    error: Any = None


decode_gemini_chunk = msgspec.json.Decoder(GeminiChunk).decode
"""The fast way; `loose_chunk` takes over where the JSON is not clean."""


def parse_chunk_leniently(data: bytes) -> GeminiChunk:
    """A chunk with control characters, bad UTF-8 or half surrogates in it, or with fields of other types.

    Raises:
        ValueError: If it is no JSON object.
    """
    return convert_loosely(strip_surrogates(parse_object_leniently(data)), GeminiChunk)
