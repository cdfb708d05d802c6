"""How much to think, in the words of the model: a number of tokens, or an effort."""

from __future__ import annotations

from typing import Any, NamedTuple

from mainspring.messages import Message, RedactedThinkingBlock, ThinkingBlock
from mainspring.models.dialect_messages import MessagesDialect
from mainspring.models.port import ModelRequest, ThinkingLevel
from mainspring.models.profile import Profile

BUDGETS: dict[ThinkingLevel, int] = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 32768}
"""Tokens of thinking for each level, for models that take a number; and the room that others get for it."""

LEAST_BUDGET = 1024
"""Fewest tokens of thinking that may be asked for."""

_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_EFFORT_OF: dict[ThinkingLevel, str] = {
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
}


class Thinking(NamedTuple):
    """What to ask for.

    Attributes:
        field: The field ``thinking``; ``None`` leaves it out.
        effort: ``output_config.effort``; ``None`` leaves it out.
        room: Tokens that the reply cap must grow by, for the thinking to fit in.
    """

    field: dict[str, Any] | None = None
    effort: str | None = None
    room: int = 0

    @property
    def is_on(self) -> bool:
        """Whether the model was asked to think."""
        return self.field is not None and self.field["type"] in ("enabled", "adaptive")


def thinking(request: ModelRequest, profile: Profile) -> Thinking:
    """What a request asks of the model, as far as the model can be asked for it."""
    dialect = profile.messages
    budget = request.thinking_budget
    level = request.thinking if budget is None else _level(budget)
    if level == "off":
        return _off(dialect)
    if level is None:
        return Thinking(_adaptive(dialect)) if dialect.drop_unbound else Thinking()
    if dialect.thinking == "none":
        return Thinking()
    if dialect.thinking == "budget" or (dialect.thinking == "both" and budget is not None):
        if _is_forced(request, dialect) or _goes_on_unthought(request, profile):
            return Thinking()
        tokens = max(LEAST_BUDGET, BUDGETS[level] if budget is None else budget)
        return Thinking(_with_display({"type": "enabled", "budget_tokens": tokens}, dialect), None, tokens)
    return Thinking(_adaptive(dialect), nearest_effort(level, dialect.efforts), budget or BUDGETS[level])


def nearest_effort(level: ThinkingLevel, accepted: tuple[str, ...]) -> str | None:
    """The effort nearest to a level, the higher of two."""
    wanted = _EFFORTS.index(_EFFORT_OF[level])
    known = [_EFFORTS.index(effort) for effort in accepted if effort in _EFFORTS]
    return _EFFORTS[min(known, key=lambda at: (abs(at - wanted), -at))] if known else None


def listed_efforts(text: str) -> tuple[str, ...]:
    """The efforts that a text names, from little to much."""
    return tuple(effort for effort in _EFFORTS if effort in text)


def is_own(message: Message, profile: Profile) -> bool:
    """Whether a message was made by the model that is asked now."""
    return message.provider == profile.provider and message.model == profile.model


def _level(budget: int) -> ThinkingLevel:
    for level, tokens in BUDGETS.items():
        if 0 < budget <= tokens:
            return level
    return "xhigh" if budget > 0 else "off"


def _off(dialect: MessagesDialect) -> Thinking:
    if dialect.thinking_off == "never":
        return Thinking(
            _adaptive(dialect) if dialect.drop_unbound else None, nearest_effort("minimal", dialect.efforts)
        )
    return Thinking(None if dialect.thinking_off == "omit" else {"type": dialect.thinking_off})


def _adaptive(dialect: MessagesDialect) -> dict[str, Any]:
    field = _with_display({"type": "adaptive"}, dialect)
    if dialect.drop_unbound:
        field["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
    return field


def _with_display(field: dict[str, Any], dialect: MessagesDialect) -> dict[str, Any]:
    return {**field, "display": dialect.display} if dialect.display else field


def _is_forced(request: ModelRequest, dialect: MessagesDialect) -> bool:
    """Whether a call is forced, which models with a budget do not take together with thinking."""
    return bool(request.tools) and dialect.forced_tools and request.tool_choice not in ("auto", "none")


def _goes_on_unthought(request: ModelRequest, profile: Profile) -> bool:
    """Whether the model is in the middle of calls that it made without thinking: it cannot start to think there."""
    for message in reversed(request.messages):
        if message.role != "assistant":
            continue
        if not message.tool_uses:
            return False
        known = is_own(message, profile) and profile.messages.reasoning
        return not known or not any(
            isinstance(block, RedactedThinkingBlock)
            or (isinstance(block, ThinkingBlock) and (block.signature or profile.messages.unsigned))
            for block in message.content
        )
    return False
