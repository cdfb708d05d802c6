"""What a host of Gemini accepts and how it likes to be asked."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

ThinkingForm = Literal["level", "budget", "none"]
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

    thinking: ThinkingForm = "none"
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
