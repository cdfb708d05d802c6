"""The model port: what the loop needs of a model, and all it knows of one.

Above: the loop's model step and `LLMClient`. Below: a wire protocol over a `Transport`, or `ScriptedModel`.

An answer as a whole, out of its events.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any, Literal, Protocol, cast, runtime_checkable

from msgspec import Struct, field

from mainspring.errors import InvalidResponseError
from mainspring.events import Done, StreamEvent
from mainspring.messages import Message, StopReason, ToolDefinition, Usage

ThinkingLevel = Literal["off", "minimal", "low", "medium", "high", "xhigh"]
"""How much a model should reason before it answers."""


ToolChoice = Literal["auto", "required", "none"] | str
"""Whether the model may, must, or must not call a tool; any other text is the name of the one it must call."""


class EncodingCache:
    """What a provider keeps from one request of a conversation to the next, so as to encode only what is new.

    One conversation carries one; providers keep their things under their own key. Losing it costs time, nothing else.
    """

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: dict[str, Any] = {}


class ModelRequest(Struct, eq=False):
    """One request to a model.

    Attributes:
        messages: The conversation, oldest first. Repaired while it is encoded, never changed.
        system: Instructions that stand before it.
        tools: What the model may call, in a stable order.
        tool_choice: Whether it may, must or must not call a tool, or which.
        max_output_tokens: Cap of the reply, clamped to the model's; ``None`` leaves it to the provider.
        temperature: 0 to 2; ``None`` leaves it to the provider.
        thinking: How much to reason; ``None`` leaves it to the provider.
        thinking_budget: Exact number of reasoning tokens, where the provider takes one; wins over ``thinking``.
        schema: JSON Schema that the answer must follow, where the model can.
        stop: Texts at which to stop.
        timeout: Seconds for the whole request; ``None`` means the transport's limits only.
        session_id: Names the conversation to the provider's prompt cache, where that is supported.
        cache: Whether the provider's prompt cache is steered: breakpoints, cache keys. Costs nothing where there is none.
        extra: Further fields of the provider's own body, passed through as they are.
        scratch: See `Scratch`.
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


class ModelResponse(Struct, frozen=True, eq=False):
    """A complete answer. ``message.content`` is never empty."""

    message: Message

    @property
    def text(self) -> str:
        """The answer's text."""
        return self.message.text

    @property
    def usage(self) -> Usage:
        """Token counts; zero where the provider told none."""
        return self.message.usage or Usage()

    @property
    def stop_reason(self) -> StopReason:
        """Why the model stopped."""
        return self.message.stop_reason or "end_turn"


TokenPrices = tuple[float, float, float, float]
"""US dollars per million tokens: input, output, cache read, cache write."""


ZERO_PRICES: TokenPrices = (0.0, 0.0, 0.0, 0.0)
"""The rates of a model that is known to cost nothing."""


class PriceTier(Struct, frozen=True):
    """Other rates for all tokens of a call whose prompt is longer.

    Attributes:
        above: Prompt tokens, cached ones included, that have to be exceeded.
        prices: The rates then.
        cache_write_1h: The rate of one-hour cache writes then; see `ModelInfo`.
    """

    above: int
    prices: TokenPrices
    cache_write_1h: float | None = None


class ModelInfo(Struct, frozen=True):
    """Facts about a model, as far as they are known.

    Attributes:
        id: The model's id at its provider.
        provider: Name of the provider.
        context_window: Tokens of prompt and answer together; ``None`` is unknown.
        max_output_tokens: Most tokens of one answer; ``None`` is unknown.
        vision: Whether it takes images.
        tools: Whether it can call tools; ``union`` means by a schema union of call and answer (small local models).
        reasoning: Whether it reasons.
        prices: What tokens cost; ``None`` is unknown, which is not the same as `FREE`.
        cache_write_1h: US dollars per million tokens written to a cache for an hour; ``None`` is twice the input's rate, which
            is what Anthropic asks.
        tiers: Rates for longer prompts, the shortest first.
        label: Name for people.
        notice: What people should be told when this model answers, if anything.
        max_tools: How many tools it can cope with; ``None`` is any number.
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
        """Name of the deployment, where the provider has those: the id is that."""
        return self.id


@runtime_checkable
class ModelProvider(Protocol):
    """A model that can be asked. Safe to share between conversations that run at the same time."""

    @property
    def provider(self) -> str:
        """Name of the provider, as in ``openai``."""
        ...

    @property
    def model(self) -> str:
        """Id of the model (of the deployment, where the provider has those)."""
        ...

    @property
    def info(self) -> ModelInfo:
        """What is known about the model."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        """Ask, and get the answer while it is made.

        Returns:
            An async generator: ``StreamStart``, content events, ``Done``. Closing it early closes the connection.

        Raises:
            ModelError: From the iteration; ``partial`` is what had arrived.
        """
        ...

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Ask, and get the whole answer.

        Raises:
            ModelError: As `stream`.
        """
        ...

    async def aclose(self) -> None:
        """Give back connections and processes. It may be used again afterwards."""
        ...


async def collect(events: AsyncIterator[StreamEvent], provider: str, model: str) -> ModelResponse:
    """Read a stream to its end; it is closed then.

    Args:
        events: The stream of a model.
        provider: Name of its provider, for the error.
        model: Its id.

    Raises:
        ModelError: As the stream does, or if it ends without an answer.
    """
    async with aclosing(cast("AsyncGenerator[StreamEvent, None]", events)) as stream:
        async for event in stream:
            if isinstance(event, Done):
                return ModelResponse(event.message)
    raise InvalidResponseError(f"{provider} gave no answer", reason="empty", provider=provider, model=model)
