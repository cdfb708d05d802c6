"""Images in messages for a model without vision."""

import pytest

from mainspring.messages import (
    CustomMessage,
    ImageBlock,
    Message,
    TextBlock,
    ToolResultBlock,
    sanitize_stored_tool_results,
)

PIXEL = ImageBlock("image/png", "iVBORw0KGgo=")
LEFT_OUT = "[image/png image left out: this model takes no images]"


@pytest.mark.covers("MSG-20")
def test_images_of_stored_results_become_text_for_a_model_without_vision() -> None:
    plain = Message.user([PIXEL, ToolResultBlock("c0", "look", "A cat.")])
    seen = Message.user(
        [
            ToolResultBlock("c1", "shot", (TextBlock("Here:"), PIXEL), details={"kept": True}),
            ToolResultBlock("c2", "shot", (PIXEL,), is_error=True),
            ToolResultBlock("c3", "say", (TextBlock("One"), TextBlock("Two"))),
            TextBlock("And?"),
        ],
        id="m1",
    )
    custom = CustomMessage("note")
    history = [plain, seen, custom]

    result, flat, other = sanitize_stored_tool_results(history)

    assert (result, other) == (plain, custom)
    assert isinstance(flat, Message)
    assert flat.id == "m1"
    assert flat.content == (
        ToolResultBlock("c1", "shot", f"Here:\n{LEFT_OUT}", details={"kept": True}),
        ToolResultBlock("c2", "shot", LEFT_OUT, is_error=True),
        ToolResultBlock("c3", "say", "One\nTwo"),
        TextBlock("And?"),
    )
    assert seen.content[1] == ToolResultBlock("c2", "shot", (PIXEL,), is_error=True)
    assert sanitize_stored_tool_results(history, vision=True) == history
