"""What a host of OpenAI Responses accepts and how it likes to be asked."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class ResponsesDialect(Struct, frozen=True):
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
