"""Model profiles: the address and the capabilities of one model at one host, per wire protocol."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from mainspring.models.port import ModelInfo
from mainspring.redaction import redacted_repr

ThinkingControl = Literal["level", "budget", "none"]
"""How the reasoning effort of a model is set: by level, by token budget, or not at all."""


class SamplingCapabilities(Struct, frozen=True, kw_only=True):
    """Options of `Sampling` that a host does not support.

    Attributes:
        unsupported: Names of these options; an option that the host rejects is added.
    """

    unsupported: tuple[str, ...] = ()


class GeminiDialect(SamplingCapabilities, frozen=True):
    """Capabilities of a Gemini host. A field that the host rejects with a 400 is omitted from later requests.

    Attributes:
        thinking: See `ThinkingControl`.
        levels: Accepted values of ``thinkingLevel``, in ascending order.
        least_budget: Minimum number of thinking tokens, unless thinking is off.
        most_budget: Maximum number of thinking tokens.
        can_rest: Whether a budget of 0 turns thinking off.
        echo: Whether thoughts and signatures are sent back to the model that created them.
        sign_calls: Whether a call without a signature (created by another model) gets the placeholder signature; Gemini 3
            rejects such calls otherwise.
        call_ids: Whether calls and results have IDs.
        tool_schema: Whether tools are described in JSON Schema (``parametersJsonSchema``) or in the older OpenAPI subset.
        result_images: Whether images of a tool result are part of the result, or follow it as parts of the same message.
        temperature: Whether a temperature may be sent.
        stop: Whether stop sequences may be sent.
        json_schema: Whether a JSON Schema for the response may be sent.
        schema_with_tools: Whether the schema may be sent together with tools.
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
"""How the reasoning effort of a model is set: not at all, by token budget, by effort, or by either."""


ThinkingOff = Literal["omit", "disabled", "between_tools", "never"]
"""How thinking is turned off: by omitting the field, by an explicit value, only at the start, or not at all."""


class AnthropicCapabilities(SamplingCapabilities, frozen=True):
    """Capabilities of an Anthropic Messages host. A field that the host rejects with a 400 is omitted from later requests.

    The defaults are safe for an unknown host and an unknown model.

    Attributes:
        thinking: See `ThinkingStyle`.
        thinking_off: See `ThinkingOff`.
        display: Form of returned thinking: ``summarized`` or ``omitted``; empty leaves it to the host.
        drop_unbound: Whether the host is asked to drop thinking that no longer matches its conversation instead of
            rejecting the request.
        efforts: Accepted values of ``output_config.effort``; empty if the field may not be sent.
        temperature: Whether a temperature may be sent.
        stop: Whether stop sequences may be sent.
        json_schema: Whether a JSON Schema for the response may be sent.
        forced_tools: Whether a tool call may be forced; otherwise the model is free to call a tool.
        prefill: Whether a conversation may end with an assistant message for the model to continue.
        reasoning: Whether thinking is sent back to the model that created it.
        unsigned: Whether thinking without a signature is sent back too; required by other hosts of this protocol.
        hosted: Whether calls and results of the host's server-side tools are sent back to the model that used them.
        tool_images: Whether images are part of tool results; otherwise they follow in the same message.
        cache: Whether cache breakpoints may be sent.
        cache_ttl: Lifetime of cached content.
        context_management: The ``context_management`` field, sent unchanged; ``None`` omits it.
        extra_betas: Additional names for the header ``anthropic-beta``.
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


class OllamaCapabilities(SamplingCapabilities, frozen=True):
    """Capabilities of an Ollama server. A field that the server rejects with a 400 is omitted from later requests.

    Attributes:
        think: Whether thinking is set by level (``levels``), by a switch, or is not supported.
        echo: Whether thoughts are sent back to the model that created them.
        json_schema: Whether a JSON Schema for the response may be sent.
        num_ctx: Context size in tokens with which the model is loaded; ``None`` leaves it to the server, whose default is
            small and silently truncates the prompt.
        keep_alive: How long the model stays loaded, for example ``5m`` or a number of seconds; -1 is forever. ``None``
            leaves it to the server.
        text_markup: See `ChatCapabilities`.
    """

    think: Literal["levels", "switch", "none"] = "switch"
    echo: bool = True
    json_schema: bool = True
    num_ctx: int | None = None
    keep_alive: str | int | None = None
    text_markup: bool = True


class ResponsesCapabilities(SamplingCapabilities, frozen=True):
    """Capabilities of an OpenAI Responses host. A field that the host rejects with a 400 is omitted from later requests.

    The defaults are safe for an unknown host.

    Attributes:
        store: Whether the host stores the response; ``None`` omits the field.
        system: Place of the system prompt: the field ``instructions``, or a first message.
        instructions: Value of ``instructions`` without a system prompt; empty omits it.
        system_role: Role of system messages.
        efforts: Supported thinking levels; empty if the model does not reason.
        summary: Reasoning summary to request together with a thinking level; empty requests none.
        encrypted: Whether encrypted reasoning is requested (``include``), so that it can be sent back.
        reasoning: Whether the model's own reasoning is sent back, if the host accepts it.
        item_ids: Whether the model's own items are sent back with their IDs.
        max_output_tokens: Whether an output limit may be sent.
        temperature: Whether a temperature may be sent.
        prompt_cache_key: Whether the session ID may be sent as the key of the prompt cache.
        parallel_calls: Value of ``parallel_tool_calls``; ``None`` leaves it to the host.
        strict_tools: Value of ``strict`` in tool schemas; ``None`` omits it. OpenAI treats a missing value as true and then
            makes every argument required, so the value must be sent there.
        json_schema: Whether a JSON Schema for the response may be sent.
        strict_schema: Whether that schema may be marked ``strict``.
        tool_images: Whether images are part of tool results; otherwise they follow in a user message.
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


LeftOutPart = Literal["tools", "tool_choice", "system", "joined_calls"]
"""A part of a request that a host refused: tools, a forced call, the role of the system prompt, or several calls in a message."""


ReasoningEcho = Literal["echo", "always", "none"]
"""Whether readable reasoning is sent back to the model that created it, in the field in which it was received. With ``always``,
messages without reasoning have a blank ``reasoning_content``, which some hosts require."""


class ChatCapabilities(SamplingCapabilities, frozen=True):
    """Capabilities of an OpenAI-compatible host. The defaults are safe for an unknown host.

    A field that the host rejects with a 400 is omitted from later requests.

    Attributes:
        max_tokens_field: Name of the field for the output limit; empty sends no limit.
        stream_usage: Whether token counts may be requested in a stream (``stream_options``).
        developer_role: Whether the system prompt has the role ``developer``.
        efforts: Supported thinking levels; empty if none.
        effort_field: Field of the level: ``reasoning_effort``, or an object ``reasoning``, which also takes a number of
            tokens.
        temperature: Whether a temperature may be sent.
        stop: Whether stop sequences may be sent.
        prompt_cache_key: Whether the session ID may be sent as the key of the prompt cache.
        strict_schema: Whether a JSON Schema for the response may be marked ``strict``.
        json_schema: Whether a JSON Schema for the response may be sent.
        reasoning: See `ReasoningEcho`.
        tool_images: Whether images in tool results are followed by a user message that contains them.
        name_results: Whether a tool result contains the name of the tool.
        short_ids: Whether call IDs must be nine letters and digits.
        cache_breakpoints: Whether the host forwards cache breakpoints (``cache_control``) to models that support them.
        empty_content: Whether a message with only tool calls is sent with an empty text; otherwise it has none.
        text_markup: Whether calls and reasoning are read from the text of responses, for servers without a parser.
    """

    max_tokens_field: Literal["max_tokens", "max_completion_tokens", ""] = "max_tokens"
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
    empty_content: bool = False
    text_markup: bool = False


class ModelProfile(Struct, frozen=True):
    """One model at one host.

    Attributes:
        info: Facts about the model, including its provider and ID.
        base_url: Base URL of requests, without the path of the protocol and without a trailing slash.
        dialect: Capabilities over Chat Completions.
        messages: Capabilities over Anthropic Messages.
        responses: Capabilities over OpenAI Responses.
        gemini: Capabilities over Gemini.
        ollama: Capabilities over Ollama's own protocol.
        headers: Additional request headers.
        key_header: Header that contains the key; ``authorization`` adds the prefix ``Bearer``.
        query: Query string of each request, without the question mark.
        max_output_tokens: Output limit if a request has none; ``None`` leaves it to the host.
        unreadable: Images that the host could not read (`image_key`); they are not sent again.
        left_out: Parts of requests that the host refused and that are independent of the protocol; they are not sent again.
        asks_limits: Whether the host is asked for the limits of the model before the first request.
        remaining_tokens: Output tokens that the host reported as available for the current request; ``None`` if unknown.
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
    left_out: frozenset[LeftOutPart] = frozenset()
    asks_limits: bool = False
    remaining_tokens: int | None = None

    def __repr__(self) -> str:
        return redacted_repr(self, "headers", "query")

    @property
    def provider(self) -> str:
        """Name of the provider."""
        return self.info.provider

    @property
    def model(self) -> str:
        """Model ID."""
        return self.info.id
