"""The blocks a message is made of: a closed union of immutable values.

Those that can hold no cycle are left out of garbage collection (``gc=False``): a long conversation then costs it nothing.

What a model is told about a tool: data only, so that the model layer needs no tools.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class TextBlock(Struct, frozen=True, gc=False, omit_defaults=True, tag="text"):
    """Text. ``signature`` is an opaque mark of the provider that must go back unchanged."""

    text: str
    signature: str | None = None


class ThinkingBlock(Struct, frozen=True, gc=False, omit_defaults=True, tag="thinking"):
    """The model's reasoning, with the signature under which its provider accepts it back."""

    thinking: str
    signature: str | None = None


class RedactedThinkingBlock(Struct, frozen=True, gc=False, omit_defaults=True, tag="redacted_thinking"):
    """Reasoning the provider encrypted; kept byte for byte and sent back as it came."""

    data: str


class ImageBlock(Struct, frozen=True, gc=False, omit_defaults=True, tag="image"):
    """An image: ``data`` is base64, ``media_type`` as in ``image/png``."""

    media_type: str
    data: str


class ToolUseBlock(Struct, frozen=True, gc=False, omit_defaults=True, tag="tool_use"):
    """A tool call by the model.

    Attributes:
        id: The provider's id of the call; its result carries the same.
        name: Canonical name of the tool.
        input: The arguments. Empty where the text was no strict JSON object.
        raw_input: The text as received, only where it was no strict JSON object; dispatch tries to repair it.
        signature: Opaque mark of the provider that must go back unchanged.
    """

    id: str
    name: str
    input: dict[str, Any] = {}
    raw_input: str | None = None
    signature: str | None = None


class ToolResultBlock(Struct, frozen=True, omit_defaults=True, tag="tool_result"):
    """What a call gave. ``details`` is for applications and never reaches the model."""

    tool_use_id: str
    name: str = ""
    content: str | tuple[TextBlock | ImageBlock, ...] = ""
    is_error: bool = False
    details: Any = None

    @property
    def text(self) -> str:
        """The content as text; an image becomes ``[image/png]``."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(b.text if isinstance(b, TextBlock) else f"[{b.media_type}]" for b in self.content)


ContentBlock = TextBlock | ThinkingBlock | RedactedThinkingBlock | ImageBlock | ToolUseBlock | ToolResultBlock
"""Everything a message can hold, told apart by ``type``."""


class ToolDefinition(Struct, frozen=True, eq=False, dict=True):
    """Name, description and JSON Schema of the input, as offered to a model."""

    name: str
    description: str
    input_schema: dict[str, Any]
