"""What is particular about one model at one host: where it lives, what it takes, how it likes to be spoken to."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from mainspring.models.dialect_gemini import GeminiDialect
from mainspring.models.dialect_messages import MessagesDialect
from mainspring.models.dialect_ollama import OllamaDialect
from mainspring.models.dialect_responses import ResponsesDialect
from mainspring.models.port import ModelInfo
from mainspring.redaction import masked_repr

ReasoningField = Literal["echo", "none"]
"""Whether readable reasoning goes back to the model that made it, in the field it came in."""


class Dialect(Struct, frozen=True):
    """What an OpenAI-style host accepts. The defaults are safe for a host of which nothing is known.

    A field that a host refuses in a 400 is left out from then on (`without`).

    Attributes:
        max_tokens_field: Name of the reply cap.
        stream_usage: Whether a stream may be asked for token counts (``stream_options``).
        developer_role: Whether system text goes as role ``developer``.
        efforts: Thinking levels that may be sent; empty if none.
        effort_field: Where the level goes: ``reasoning_effort``, or an object ``reasoning``, which takes a number of tokens too.
        temperature: Whether a temperature may be sent.
        stop: Whether stop texts may be sent.
        prompt_cache_key: Whether the session's name may be sent to steer the prompt cache.
        strict_schema: Whether a JSON Schema for the answer may be marked ``strict``.
        json_schema: Whether a JSON Schema for the answer may be sent at all.
        reasoning: See `ReasoningField`.
        tool_images: Whether images in tool results are followed by a user message that shows them.
        name_results: Whether a tool result carries the tool's name.
        short_ids: Whether ids of calls must be nine letters and digits.
        cache_breakpoints: Whether the host hands on cache breakpoints (``cache_control``) to models that want them.
    """

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    stream_usage: bool = True
    developer_role: bool = False
    efforts: tuple[str, ...] = ("minimal", "low", "medium", "high", "xhigh")
    effort_field: Literal["reasoning_effort", "reasoning"] = "reasoning_effort"
    temperature: bool = True
    stop: bool = True
    prompt_cache_key: bool = False
    strict_schema: bool = False
    json_schema: bool = True
    reasoning: ReasoningField = "echo"
    tool_images: bool = True
    name_results: bool = False
    short_ids: bool = False
    cache_breakpoints: bool = False


class Profile(Struct, frozen=True):
    """One model at one host.

    Attributes:
        info: Facts about the model; its ``provider`` and ``id`` name it.
        base_url: Where requests go, without the protocol's path and without a trailing slash.
        dialect: What the host accepts over Chat Completions.
        messages: What it accepts over Anthropic Messages.
        responses: What it accepts over OpenAI Responses.
        gemini: What it accepts over Gemini.
        ollama: What it accepts over Ollama's own protocol.
        headers: Further headers of each request.
        key_header: Header that carries the key; ``authorization`` puts ``Bearer`` before it.
        query: Query string of each request, without the question mark.
        max_output_tokens: Reply cap where a request names none; ``None`` leaves it to the host.
        unreadable: Images that the host could not read (`image_key`); they are not sent again.
    """

    info: ModelInfo
    base_url: str
    dialect: Dialect = Dialect()
    messages: MessagesDialect = MessagesDialect()
    responses: ResponsesDialect = ResponsesDialect()
    gemini: GeminiDialect = GeminiDialect()
    ollama: OllamaDialect = OllamaDialect()
    headers: dict[str, str] = {}
    key_header: str = "authorization"
    query: str = ""
    max_output_tokens: int | None = None
    unreadable: frozenset[int] = frozenset()

    def __repr__(self) -> str:
        return masked_repr(self, "headers", "query")

    @property
    def provider(self) -> str:
        """Name of the provider."""
        return self.info.provider

    @property
    def model(self) -> str:
        """Id of the model."""
        return self.info.id
