"""What a host of Anthropic Messages accepts and how it likes to be asked."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

ThinkingStyle = Literal["none", "budget", "both", "adaptive"]
"""How a model is asked to think: not at all, by a number of tokens, by an effort, or by either."""

ThinkingOff = Literal["omit", "disabled", "between_tools", "never"]
"""How thinking is turned off: by not asking for it, by saying so, only up front, or not at all."""


class MessagesDialect(Struct, frozen=True):
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
