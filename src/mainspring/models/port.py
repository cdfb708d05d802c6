"""The model port: the only interface between the agent loop and a model.

Used by the loop and `LLMClient`; implemented by wire protocols over a `Transport` and by `ScriptedModel`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast, runtime_checkable

from msgspec import Struct, field

from mainspring.errors import ConfigError, InvalidResponseError, ProviderConfigError
from mainspring.events import Done, StreamEvent
from mainspring.messages import ContentBlock, Message, StopReason, TextBlock, ToolDefinition, Usage

if TYPE_CHECKING:
    from mainspring.models.transport.port import Transport

ThinkingLevel = Literal["off", "minimal", "low", "medium", "high", "xhigh"]
"""How much a model should reason before it responds."""


ToolChoice = Literal["auto", "required", "none"] | str
"""Whether the model may, must, or must not call a tool; any other text is the name of the tool it must call."""


class EncodingCache:
    """Encoded parts of earlier requests of a conversation, so that a provider encodes only new messages.

    Each conversation has its own cache, and each provider uses its own key. A lost cache only costs time.
    """

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: dict[str, Any] = {}


class Sampling(Struct, frozen=True):
    """Options of a request that only some protocols and hosts support; ``None`` leaves each to the provider.

    Attributes:
        top_p: Probability mass of the tokens to choose from, 0 to 1.
        top_k: Number of tokens to choose from.
        seed: Seed of the random choice.
        presence_penalty: Penalty of tokens that occurred, -2 to 2.
        frequency_penalty: Penalty of tokens by how often they occurred, -2 to 2.
        parallel_tool_calls: Whether a response may contain several tool calls.
    """

    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    parallel_tool_calls: bool | None = None


class ModelRequest(Struct, eq=False):
    """One request to a model.

    Attributes:
        messages: The conversation, oldest message first. Repaired during encoding, never changed.
        system: System prompt.
        tools: Tools that the model may call, in a stable order.
        tool_choice: Whether the model may, must, or must not call a tool, or the name of a tool.
        max_output_tokens: Maximum number of output tokens, clamped to the limit of the model; ``None`` leaves it to the
            provider.
        temperature: 0 to 2; ``None`` leaves it to the provider.
        thinking: How much to reason; ``None`` leaves it to the provider.
        thinking_budget: Exact number of reasoning tokens, if the provider supports it; overrides ``thinking``.
        schema: JSON Schema that the response must match, if the model supports it.
        stop: Stop sequences.
        timeout: Time limit of the whole request in seconds; ``None`` means the limits of the transport only.
        session_id: Identifies the conversation to the provider's prompt cache, if supported.
        cache: Whether to control the provider's prompt cache with breakpoints and cache keys. No effect without a cache.
        extra: Additional fields of the request body, passed through unchanged.
        sampling: Further options; see `Sampling`.
        notify: Function that receives a note if the model does not support an option, which is then not sent.
        scratch: See `EncodingCache`.
        warn: Function that receives a note about what the host cannot do, for example if it refused images and they were left
            out; without one, the note is logged.
        is_continuation: Whether the last two messages are the beginning of a response, and a note that asks for the rest. A host
            that continues a response without being asked gets it without the note.
    """

    messages: Sequence[Message]
    system: str = ""
    tools: Sequence[ToolDefinition] = ()
    tool_choice: ToolChoice = "auto"
    max_output_tokens: int | None = None
    temperature: float | None = None
    thinking: ThinkingLevel | None = None
    thinking_budget: int | None = None
    schema: dict[str, Any] | None = None
    stop: Sequence[str] = ()
    timeout: float | None = None
    session_id: str | None = None
    cache: bool = True
    extra: dict[str, Any] = field(default_factory=dict[str, Any])
    scratch: EncodingCache | None = None
    sampling: Sampling | None = None
    notify: Callable[[str], object] | None = None
    warn: Callable[[str], object] | None = None
    is_continuation: bool = False


REQUEST_OPTIONS = (
    *("temperature", "thinking", "timeout", "stop", "tool_choice", "extra_body"),
    *Sampling.__struct_fields__,
)
"""Options of a request that users set, and may expect among the settings of a provider."""


def with_api_key(model: ModelProvider, get_api_key: Callable[..., Any]) -> ModelProvider:
    """Return a model that gets the key of each request from a function; see `HttpModel.with_api_key`.

    Raises:
        ConfigError: The model sends no key that can be replaced.
    """
    replace_key: Callable[[Callable[..., Any]], ModelProvider] | None = getattr(model, "with_api_key", None)
    if replace_key is None:
        raise ConfigError(
            f"Cannot use get_api_key with {model!r:.80}, which contains other models or needs no key. Pass api_key=... where you create the model."
        )
    return replace_key(get_api_key)


def with_transport(model: ModelProvider, transport: Transport) -> ModelProvider:
    """Return a model that sends its requests over a transport; see `HttpModel.with_transport`.

    Raises:
        ProviderConfigError: The model is not an `HttpModel`.
    """
    replace_transport: Callable[[Transport], ModelProvider] | None = getattr(model, "with_transport", None)
    if replace_transport is None:
        raise ProviderConfigError(
            f"Cannot use transport with {model!r:.80}, which is not an HttpModel. Pass the transport to the models that it contains.",
            reason="no_transport",
        )
    return replace_transport(transport)


class ModelResponse(Struct, frozen=True, eq=False):
    """A complete response."""

    message: Message

    @property
    def content(self) -> tuple[ContentBlock, ...]:
        """Blocks of the response; never empty."""
        return self.message.content or (TextBlock(""),)

    @property
    def text(self) -> str:
        """Text of the response."""
        return self.message.text

    @property
    def usage(self) -> Usage:
        """Token counts; zero if the provider reported none."""
        return self.message.usage or Usage()

    @property
    def stop_reason(self) -> StopReason:
        """Reason why the model stopped."""
        return self.message.stop_reason or "end_turn"


TokenPrices = tuple[float, float, float, float]
"""US dollars per million tokens: input, output, cache read, cache write."""


ZERO_PRICES: TokenPrices = (0.0, 0.0, 0.0, 0.0)
"""Prices of a model that is known to be free."""


class PriceTier(Struct, frozen=True):
    """Prices of all tokens of a call with a longer prompt.

    Attributes:
        above: Number of prompt tokens, cached ones included, above which these prices apply.
        prices: Prices above that limit.
        cache_write_1h: Price of one-hour cache writes above that limit; see `ModelInfo`.
    """

    above: int
    prices: TokenPrices
    cache_write_1h: float | None = None


class ModelInfo(Struct, frozen=True):
    """Known facts about a model.

    Attributes:
        id: Model ID of the provider.
        provider: Name of the provider.
        context_window: Maximum number of prompt and output tokens together; ``None`` if unknown.
        max_output_tokens: Maximum number of output tokens; ``None`` if unknown.
        vision: Whether the model supports images.
        tools: Whether the model can call tools; ``union`` means through a schema union of call and answer (small local
            models).
        reasoning: Whether the model reasons.
        prices: Token prices; ``None`` if unknown, which differs from `ZERO_PRICES`.
        cache_write_1h: US dollars per million tokens written to a one-hour cache; ``None`` is twice the input price, which
            is the price of Anthropic.
        tiers: Prices for longer prompts, the shortest first.
        label: Display name.
        notice: Notice to show to the user when this model responds, if any.
        max_tools: Maximum number of tools that the model handles well; ``None`` is any number.
    """

    id: str
    provider: str
    context_window: int | None = None
    max_output_tokens: int | None = None
    vision: bool = True
    tools: Literal["native", "union", "none"] = "native"
    reasoning: bool = False
    prices: TokenPrices | None = None
    cache_write_1h: float | None = None
    tiers: tuple[PriceTier, ...] = ()
    label: str = ""
    notice: str = ""
    max_tools: int | None = None

    @property
    def deployment(self) -> str:
        """Name of the deployment, for providers that have deployments; equal to the ID."""
        return self.id


@runtime_checkable
class ModelProvider(Protocol):
    """A model that accepts requests. Safe to share between concurrent conversations."""

    @property
    def provider(self) -> str:
        """Name of the provider, for example ``openai``."""
        ...

    @property
    def model(self) -> str:
        """Model ID (deployment name for providers that have deployments)."""
        ...

    @property
    def info(self) -> ModelInfo:
        """Known facts about the model."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        """Send a request and stream the response.

        Returns:
            An async generator: ``StreamStart``, content events, ``Done``. Closing it early closes the connection.

        Raises:
            ModelError: During iteration; ``partial`` is the content received before.
        """
        ...

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Send a request and return the complete response.

        Raises:
            ModelError: See `stream`.
        """
        ...

    async def aclose(self) -> None:
        """Release connections and processes. The model can be used again afterward."""
        ...


async def collect(events: AsyncIterator[StreamEvent], provider: str, model: str) -> ModelResponse:
    """Read a stream to its end, close it, and return the response.

    Args:
        events: Event stream of a model.
        provider: Name of the provider, for the error.
        model: Model ID, for the error.

    Raises:
        ModelError: An error of the stream, or a stream that ended without a response.
    """
    async with aclosing(cast("AsyncGenerator[StreamEvent, None]", events)) as stream:
        async for event in stream:
            if isinstance(event, Done):
                return ModelResponse(event.message)
    raise InvalidResponseError(
        f"The provider {provider} returned no response.", reason="empty", provider=provider, model=model
    )


class ModelBase(ABC):
    """Base class of models: name and ID from the facts, complete responses from the stream."""

    _info: ModelInfo

    @property
    def provider(self) -> str:
        """Name of the provider."""
        return self.info.provider

    @property
    def model(self) -> str:
        """Model ID."""
        return self.info.id

    @property
    def info(self) -> ModelInfo:
        """Known facts about the model."""
        return self._info

    @abstractmethod
    def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        """Send a request and stream the response."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Send a request and return the complete response.

        Raises:
            ModelError: See `stream`.
        """
        return await collect(self.stream(request), self.provider, self.model)


class ModelWrapper(ModelBase):
    """Base class of models that send their requests to another model."""

    def __init__(self, model: ModelProvider) -> None:
        self._model = model

    @property
    def provider(self) -> str:
        """Name of the provider."""
        return self._model.provider

    @property
    def model(self) -> str:
        """Model ID."""
        return self._model.model

    @property
    def info(self) -> ModelInfo:
        """Known facts about the model."""
        return self._model.info

    async def aclose(self) -> None:
        """Release the resources of the model."""
        await self._model.aclose()
