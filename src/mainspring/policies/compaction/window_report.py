"""Describe what fills a model's window, for an error that compaction could not prevent; loaded only then."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Sequence

from mainspring.messages import AgentMessage, Message, ToolDefinition
from mainspring.messages.token_estimate import CHARS_PER_TOKEN, estimate_overhead, estimate_tokens
from mainspring.text import pluralize

_INSTRUCTIONS = re.compile(r"<(instructions(?:-\d+)?)(?: [^>]*?)?path=\"([^\"]*)\"[^>]*>.*?</\1>", re.DOTALL)
_ADVICE = {
    "messages": "Start a new session, or use a model with a larger window",
    "tool results": "Start a new session, read smaller parts of files, or use a model with a larger window",
    "tools": "Offer fewer tools or MCP servers, or use a model with a larger window",
    "system prompt": "Shorten the system prompt, or use a model with a larger window",
}


def describe_window(
    system: str,
    tools: Sequence[ToolDefinition],
    messages: Sequence[AgentMessage],
    *,
    window: int | None = None,
    chars_per_token: float = CHARS_PER_TOKEN,
) -> str:
    """Return what fills the window, in tokens, the largest part first, and what to do.

    Args:
        system: The system prompt.
        tools: The tools of a request.
        messages: The history.
        window: The window in tokens, if known.
        chars_per_token: Number of characters per token.
    """
    parts: Counter[str] = Counter()
    for file in _INSTRUCTIONS.finditer(system):
        parts[posixpath.basename(file[2]) or "instructions"] += estimate_overhead(file[0], (), chars_per_token)
    prompt = _INSTRUCTIONS.sub("", system)
    parts["system prompt"] = estimate_overhead(prompt, (), chars_per_token)
    parts["tools"] = estimate_overhead("", tools, chars_per_token)
    results = [m for m in messages if isinstance(m, Message) and m.tool_results]
    parts["tool results"] = estimate_tokens(results, chars_per_token)
    parts["messages"] = estimate_tokens(messages, chars_per_token) - parts["tool results"]
    labels = {"tools": pluralize(len(tools), "tool")}
    listed = [f"{labels.get(name, name)} about {tokens:,}" for name, tokens in parts.most_common() if tokens > 0]
    largest = parts.most_common(1)[0][0]
    of_window = f" of {window:,}" if window else ""
    advice = _ADVICE.get(largest, f"Shorten {largest}, or use a model with a larger window")
    return f"The window is filled with about {parts.total():,}{of_window} tokens: {', '.join(listed)}. {advice}."
