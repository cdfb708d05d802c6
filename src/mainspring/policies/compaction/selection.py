"""Which of the old messages are worth keeping word for word, beside a summary. A rule of thumb, without any model.

Where a history is cut in two: what is summed up, and what stays.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mainspring.lazy import lazy_re
from mainspring.messages import AgentMessage, Message
from mainspring.messages.token_estimate import CHARS_PER_TOKEN, estimate_tokens

_WRITE_TOOLS = {"write_file", "edit", "multi_edit", "apply_patch", "remember", "present_plan"}
_KEYWORDS = lazy_re(
    r"\b(must|never|always|important|decid\w*|because|instead|constraint|require\w*|prefer\w*|do not|don't|bug|fix\w*|root cause)\b",
    re.IGNORECASE,
)


def importance_score(message: AgentMessage) -> float:
    """How much is lost with a message: 0 is nothing, above 1 is much.

    What the user said counts most, then decisions and changes, then what failed; long results of tools that worked count least.
    """
    if not isinstance(message, Message):
        return 0.0
    points = min(len(_KEYWORDS.findall(message.text)), 4) * 0.2
    if message.role == "user" and not message.tool_results:
        points += 1.0
    points += 0.6 * any(call.name in _WRITE_TOOLS for call in message.tool_uses)
    points += 0.4 * any(result.is_error for result in message.tool_results)
    return points


def select_important(
    messages: Sequence[AgentMessage], budget: int, chars_per_token: float = CHARS_PER_TOKEN
) -> set[int]:
    """The indices of the messages to keep: the most important ones that fit, a call always with its results.

    Args:
        messages: The old part of a history.
        budget: Most tokens that they may have together.
        chars_per_token: How many characters make a token.
    """
    units = _group_call_pairs(messages)
    scored = [(max(importance_score(messages[i]) for i in unit), -unit[0], unit) for unit in units]
    chosen: set[int] = set()
    for points, _, unit in sorted(scored, key=lambda s: s[:2], reverse=True):
        size = estimate_tokens([messages[i] for i in unit], chars_per_token)
        if points > 0 and size <= budget:
            chosen.update(unit)
            budget -= size
    return chosen


def _group_call_pairs(messages: Sequence[AgentMessage]) -> list[list[int]]:
    """Messages that only make sense together."""
    units: list[list[int]] = []
    for i, message in enumerate(messages):
        results = isinstance(message, Message) and bool(message.tool_results)
        if results and units:
            units[-1].append(i)
        else:
            units.append([i])
    return units


def find_cut_index(messages: Sequence[AgentMessage], keep: int, chars_per_token: float = CHARS_PER_TOKEN) -> int:
    """The index of the first message that stays; 0 if there is nothing to cut.

    At least ``keep`` tokens stay, unless the newest turn alone has more. A cut falls before a message of the user if one is near,
    else before an answer of the model, and never between a call and its result.

    Args:
        messages: The history.
        keep: About how many tokens of its end stay.
        chars_per_token: How many characters make a token.
    """
    kept = 0
    wanted = len(messages)
    while wanted > 0 and kept < keep:
        wanted -= 1
        kept += estimate_tokens(messages[wanted : wanted + 1], chars_per_token)
    if wanted == 0:
        return 0
    places = [i for i in range(1, len(messages)) if is_valid_cut(messages, i)]
    if not places:
        return 0
    prompts = [i for i in places if _is_prompt(messages[i])]
    before = [i for i in prompts if i <= wanted]
    # Not so far back that much more stays than was asked for: then the turn is split.
    if before and estimate_tokens(messages[before[-1] : wanted], chars_per_token) <= keep // 2:
        return before[-1]
    near = [i for i in places if i <= wanted]
    return near[-1] if near else places[0]


def is_valid_cut(messages: Sequence[AgentMessage], index: int) -> bool:
    """Whether a cut before this message parts no call from its result."""
    message = messages[index]
    if not isinstance(message, Message) or message.tool_results:
        return False
    before = messages[index - 1]
    return not (isinstance(before, Message) and before.role == "assistant" and before.tool_uses)


def splits_turn(messages: Sequence[AgentMessage], cut: int) -> bool:
    """Whether the cut falls inside a turn: what the user asked for is summed up, part of its answer stays."""
    return cut < len(messages) and not _is_prompt(messages[cut])


def _is_prompt(message: AgentMessage) -> bool:
    return isinstance(message, Message) and message.role == "user" and not message.tool_results
