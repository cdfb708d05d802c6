"""What an Ollama server accepts over its own protocol and how it likes to be asked."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class OllamaDialect(Struct, frozen=True):
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
