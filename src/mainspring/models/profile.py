"""What a host of Gemini accepts and how it likes to be asked.

What a host of Anthropic Messages accepts and how it likes to be asked.

What an Ollama server accepts over its own protocol and how it likes to be asked.

What a host of OpenAI Responses accepts and how it likes to be asked.

What is particular about one model at one host: where it lives, what it takes, how it likes to be spoken to.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from mainspring.models.port import ModelInfo
from mainspring.redaction import redacted_repr

ThinkingControl = Literal["level", "budget", "none"]
"""How a model is told how much to think: by a word, by a number of tokens, or not at all."""


class GeminiDialect(Struct, frozen=True):
    """What a host of Gemini accepts; a field that a host refuses in a 400 is left out from then on.

    Attributes:
        thinking: See `ThinkingForm`.
        levels: Words that ``thinkingLevel`` may be, from little to much.
        least_budget: Fewest tokens of thinking, where it is not off.
        most_budget: Most tokens of thinking.
        can_rest: Whether thinking can be turned off with a budget of 0.
        echo: Whether thoughts and signatures go back to the model that made them.
        sign_calls: Whether a call without a signature (of another model) gets the mark that excuses it; Gemini 3 refuses
            such calls else.
        call_ids: Whether calls and results carry ids.
        tool_schema: Whether tools are described in JSON Schema (``parametersJsonSchema``) or in the older subset of OpenAPI.
        result_images: Whether images of a tool result stand inside it, or follow it as parts of the same message.
        temperature: Whether a temperature may be sent.
        stop: Whether stop texts may be sent.
        json_schema: Whether a JSON Schema for the answer may be sent.
        schema_with_tools: Whether it may be sent together with tools.
    """

    thinking: ThinkingControl = "none"
    levels: tuple[str, ...] = ("minimal", "low", "medium", "high")
    least_budget: int = 128
    most_budget: int = 24576
    can_rest: bool = True
    echo: bool = True
    sign_calls: bool = False
    call_ids: bool = True
    tool_schema: Literal["json", "openapi"] = "json"
    result_images: Literal["inside", "behind"] = "behind"
    temperature: bool = True
    stop: bool = True
    json_schema: bool = True
    schema_with_tools: bool = False


ThinkingStyle = Literal["none", "budget", "both", "adaptive"]
"""How a model is asked to think: not at all, by a number of tokens, by an effort, or by either."""


ThinkingOff = Literal["omit", "disabled", "between_tools", "never"]
"""How thinking is turned off: by not asking for it, by saying so, only up front, or not at all."""


class AnthropicCapabilities(Struct, frozen=True):
    """What a host of Anthropic Messages accepts; a field that a host refuses in a 400 is left out from then on.

    The defaults are safe for a host and a model of which nothing is known.

    Attributes:
        thinking: See `ThinkingStyle`.
        thinking_off: See `ThinkingOff`.
        display: How thinking comes back: ``summarized`` or ``omitted``; empty leaves it to the host.
        drop_unbound: Whether the host is asked to leave out thinking that does not fit its conversation any more instead of
            refusing the request.
        efforts: Values that ``output_config.effort`` may have; empty if it may not be sent.
        temperature: Whether a temperature may be sent.
        stop: Whether stop texts may be sent.
        json_schema: Whether a JSON Schema for the answer may be sent.
        forced_tools: Whether a tool call may be forced; else the model is left free to call one.
        prefill: Whether a conversation may end with words of the assistant, to be continued.
        reasoning: Whether thinking goes back to the model that made it.
        unsigned: Whether thinking that came without a signature goes back too; other hosts of this protocol want that.
        hosted: Whether what the host's own tools did goes back to the model that used them.
        tool_images: Whether images stand inside tool results; else they follow in the same message.
        cache: Whether cache breakpoints may be sent.
        cache_ttl: How long what they mark is kept.
        context_management: What the host does with a long conversation by itself, sent as it is; ``None`` is nothing.
        extra_betas: Names for the header ``anthropic-beta``.
    """

    thinking: ThinkingStyle = "budget"
    thinking_off: ThinkingOff = "omit"
    display: Literal["", "summarized", "omitted"] = ""
    drop_unbound: bool = False
    efforts: tuple[str, ...] = ()
    temperature: bool = True
    stop: bool = True
    json_schema: bool = True
    forced_tools: bool = True
    prefill: bool = True
    reasoning: bool = True
    unsigned: bool = False
    hosted: bool = True
    tool_images: bool = True
    cache: bool = True
    cache_ttl: Literal["5m", "1h"] = "5m"
    context_management: dict[str, Any] | None = None
    extra_betas: tuple[str, ...] = ()


class OllamaCapabilities(Struct, frozen=True):
    """What an Ollama server accepts; a field that it refuses in a 400 is left out from then on.

    Attributes:
        think: Whether thinking is a word (``levels``), a switch, or not to be had.
        echo: Whether thoughts go back to the model that made them.
        json_schema: Whether a JSON Schema for the answer may be sent.
        num_ctx: Tokens of prompt and answer that the model is loaded with; ``None`` leaves it to the server, whose default
            is small and silently cuts the prompt.
        keep_alive: How long the model stays loaded, as ``5m`` or in seconds; -1 is for ever. ``None`` leaves it to the server.
    """

    think: Literal["levels", "switch", "none"] = "switch"
    echo: bool = True
    json_schema: bool = True
    num_ctx: int | None = None
    keep_alive: str | int | None = None


class ResponsesCapabilities(Struct, frozen=True):
    """What a host of OpenAI Responses accepts; a field that a host refuses in a 400 is left out from then on.

    The defaults are safe for a host of which nothing is known.

    Attributes:
        store: Whether the host keeps the answer; ``None`` leaves the field out.
        system: Where the system text goes: the field ``instructions``, or a first message.
        instructions: What ``instructions`` says where there is no system text; empty leaves it out.
        system_role: Role of system messages.
        efforts: Thinking levels that may be sent; empty if the model does not reason.
        summary: Which summary of the reasoning to ask for when a thinking level is asked for; empty asks for none.
        encrypted: Whether encrypted reasoning is asked for (``include``), so that it can go back.
        reasoning: Whether the model's own reasoning goes back to it, as far as the host can take it back.
        item_ids: Whether the model's own items go back with their ids.
        max_output_tokens: Whether a reply cap may be sent.
        temperature: Whether a temperature may be sent.
        prompt_cache_key: Whether the session's name may be sent to steer the prompt cache.
        parallel_calls: Value of ``parallel_tool_calls``; ``None`` leaves it to the host.
        strict_tools: Whether tool schemas are marked ``strict``; ``None`` leaves the mark out. OpenAI takes a missing mark
            for true and then makes every argument required, so there it must be sent.
        json_schema: Whether a JSON Schema for the answer may be sent.
        strict_schema: Whether that schema may be marked ``strict``.
        tool_images: Whether images stand in tool results; else they follow in a user message.
    """

    store: bool | None = False
    system: Literal["instructions", "message"] = "instructions"
    instructions: str = ""
    system_role: Literal["developer", "system"] = "developer"
    efforts: tuple[str, ...] = ("minimal", "low", "medium", "high", "xhigh")
    summary: Literal["auto", "concise", "detailed", ""] = "auto"
    encrypted: bool = True
    reasoning: Literal["echo", "none"] = "echo"
    item_ids: bool = True
    max_output_tokens: bool = True
    temperature: bool = True
    prompt_cache_key: bool = False
    parallel_calls: bool | None = None
    strict_tools: bool | None = None
    json_schema: bool = True
    strict_schema: bool = False
    tool_images: bool = True


ReasoningEcho = Literal["echo", "none"]
"""Whether readable reasoning goes back to the model that made it, in the field it came in."""


class ChatCapabilities(Struct, frozen=True):
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
    reasoning: ReasoningEcho = "echo"
    tool_images: bool = True
    name_results: bool = False
    short_ids: bool = False
    cache_breakpoints: bool = False


class ModelProfile(Struct, frozen=True):
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
    dialect: ChatCapabilities = ChatCapabilities()
    messages: AnthropicCapabilities = AnthropicCapabilities()
    responses: ResponsesCapabilities = ResponsesCapabilities()
    gemini: GeminiDialect = GeminiDialect()
    ollama: OllamaCapabilities = OllamaCapabilities()
    headers: dict[str, str] = {}
    key_header: str = "authorization"
    query: str = ""
    max_output_tokens: int | None = None
    unreadable: frozenset[int] = frozenset()

    def __repr__(self) -> str:
        return redacted_repr(self, "headers", "query")

    @property
    def provider(self) -> str:
        """Name of the provider."""
        return self.info.provider

    @property
    def model(self) -> str:
        """Id of the model."""
        return self.info.id
