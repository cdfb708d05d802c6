"""The blocks of a message: a closed union of immutable values.

Blocks that cannot contain cycles are excluded from garbage collection (``gc=False``), so a long conversation does not slow it.

Also the definition of a tool for the model: data only, so that the model layer does not depend on tools.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class TextBlock(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True, tag="text"):
    """Text. ``signature`` is an opaque mark of the provider that must be returned unchanged."""

    text: str
    signature: str | None = None


class ThinkingBlock(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True, tag="thinking"):
    """The model's reasoning, with the signature that its provider requires to accept it back."""

    thinking: str
    signature: str | None = None


class RedactedThinkingBlock(
    Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True, tag="redacted_thinking"
):
    """Reasoning that the provider encrypted; stored and sent back byte for byte."""

    data: str


class ImageBlock(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True, tag="image"):
    """An image: ``data`` is base64, ``media_type`` is for example ``image/png``."""

    media_type: str
    data: str


class ToolUseBlock(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True, tag="tool_use"):
    """A tool call by the model.

    Attributes:
        id: The provider's ID of the call; its result has the same ID.
        name: Canonical name of the tool.
        input: The arguments. Empty if the text was not a strict JSON object.
        raw_input: The original text, only if it was not a strict JSON object; dispatch tries to repair it.
        signature: Opaque mark of the provider that must be returned unchanged.
    """

    id: str
    name: str
    input: dict[str, Any] = {}
    raw_input: str | None = None
    signature: str | None = None


class ToolResultBlock(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True, tag="tool_result"):
    """The result of a tool call. ``details`` is for applications and is never sent to the model."""

    tool_use_id: str
    name: str = ""
    content: str | tuple[TextBlock | ImageBlock, ...] = ""
    is_error: bool = False
    details: Any = None

    @property
    def text(self) -> str:
        """Return the content as text; an image becomes ``[image/png]``."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(b.text if isinstance(b, TextBlock) else f"[{b.media_type}]" for b in self.content)


ContentBlock = TextBlock | ThinkingBlock | RedactedThinkingBlock | ImageBlock | ToolUseBlock | ToolResultBlock
"""Any block of a message, discriminated by ``type``."""


class ToolDefinition(Struct, frozen=True, eq=False, dict=True):
    """Name, description and JSON Schema of the input, as offered to a model."""

    name: str
    description: str
    input_schema: dict[str, Any]
