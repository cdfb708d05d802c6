"""What is stored of a response that ended early is bounded, whatever it contains."""

import pytest

from mainspring.errors import AgentProviderError, ModelError
from mainspring.loop.partial_response import (
    MAX_PARTIAL_CHARS,
    MAX_PARTIAL_IMAGE_CHARS,
    shorten_partial_content,
)
from mainspring.messages import (
    ContentBlock,
    ImageBlock,
    Message,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from mainspring.messages.codec import encode_message
from mainspring.testing import Reply
from tests.unit.loop.harness import Script, make_agent

MB = 1 << 20
LONG = "first" + "x" * 3 * MAX_PARTIAL_CHARS + "last"


@pytest.mark.parametrize(
    "block",
    [
        TextBlock(LONG, "signed"),
        ThinkingBlock(LONG, "signed"),
        ToolUseBlock("c", "look", {"key": LONG}, signature="signed"),
        ToolUseBlock("c", "look", raw_input='{"key": "' + LONG),
        RedactedThinkingBlock(LONG),
        ImageBlock("image/png", "x" * (MAX_PARTIAL_IMAGE_CHARS + 1)),
    ],
    ids=["text", "reasoning", "arguments", "raw arguments", "encrypted reasoning", "image"],
)
async def test_every_kind_of_block_of_a_failed_response_is_stored_in_part(block: ContentBlock) -> None:
    kept = TextBlock("The beginning")
    error = ModelError("The response is too long.", reason="too_large")
    error.partial = Message("assistant", (kept, block))
    model = Script(error, Reply("ok"))
    agent = make_agent(model)
    result = await agent.run("go", raise_errors=False)

    assert isinstance(result.error, AgentProviderError)
    assert result.error.cause is error
    assert error.partial.content == agent.messages[-1 if not error.partial.tool_uses else -2].content
    stored = next(m for m in agent.messages if m.role == "assistant")
    assert stored.content[0] == kept
    assert len(encode_message(stored)) < MAX_PARTIAL_CHARS + 1000
    assert "signed" not in repr(stored.content)  # it would be invalid
    assert (await agent.run("and now?")).text == "ok"


def test_short_blocks_stay_complete_and_all_blocks_together_are_bounded() -> None:
    short = [TextBlock("answer", "s"), ToolUseBlock("c", "look", {"key": 1}), ImageBlock("image/png", "x" * 5_000_000)]
    content = [*short, *[ThinkingBlock(LONG)] * 50]
    stored = shorten_partial_content(content)
    assert list(stored[:3]) == short
    lengths = [len(b.thinking) for b in stored if isinstance(b, ThinkingBlock)]
    assert len(lengths) == 50
    assert sum(lengths) < MAX_PARTIAL_CHARS + 50 * 50
    fits = [ThinkingBlock("x" * 100_000, "s"), TextBlock("x" * 100_000)]
    assert shorten_partial_content(fits) == tuple(fits)
    assert shorten_partial_content(()) == ()
