"""What is asked of the user of a client, as forms of the protocol, and what their answers mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast, get_args

from mcp import types

from mainspring.app.chat.commands import Answer, Approve
from mainspring.app.chat.events import ApprovalAsked, QuestionAsked
from mainspring.app.chat.types import ApprovalDecision, Option
from mainspring.app.servers.markdown import format_diff

Asked = ApprovalAsked | QuestionAsked
_LONGEST = 6_000
_DECISION, _CHOICE, _WORDS = "decision", "choice", "words"


def elicitation_form(asked: Asked) -> types.ElicitRequestFormParams:
    """A question as a form."""
    if isinstance(asked, ApprovalAsked):
        return types.ElicitRequestFormParams(
            message=_describe_call(asked),
            requested_schema={"type": "object", "properties": {_DECISION: _decision(asked)}, "required": [_DECISION]},
        )
    title = asked.title or "Answer"
    properties: dict[str, Any] = {}
    if asked.options:
        names = [{"const": o.value, "title": _label(o.label or o.value, o.description)} for o in asked.options]
        properties[_CHOICE] = (
            {"type": "array", "title": title, "items": {"anyOf": names}}
            if asked.multiple
            else {"type": "string", "title": title, "oneOf": names}
        )
    if asked.kind in ("ask", "input", "plan"):
        properties[_WORDS] = {"type": "string", "title": "Other words" if asked.options else title}
    required = [] if len(properties) > 1 else list(properties)
    message = "\n\n".join(part for part in (asked.title, asked.text) if part) or title
    return types.ElicitRequestFormParams(
        message=message[:_LONGEST],
        requested_schema={"type": "object", "properties": properties, "required": required},
    )


def parse_answer(asked: Asked, answer: object) -> Approve | Answer:
    """What an answer to a form says; whatever is no answer is a no."""
    content: Mapping[str, Any] = {}
    if isinstance(answer, types.ElicitResult) and answer.action == "accept":
        content = answer.content or {}
    if isinstance(asked, ApprovalAsked):
        offered = {choice.value for choice in _offered_decisions(asked)}
        decided: list[ApprovalDecision] = [
            d for d in get_args(ApprovalDecision) if d in offered and d == content.get(_DECISION)
        ]
        return Approve(asked.id, decided[0] if decided else "deny")
    known = {option.value for option in asked.options}
    picked = content.get(_CHOICE)
    values: list[Any] = cast("list[Any]", picked) if isinstance(picked, list) else [picked]
    chosen = tuple([value for value in values if isinstance(value, str) and value in known])
    words = content.get(_WORDS)
    text = words if isinstance(words, str) else ""
    return Answer(asked.id, chosen, text) if chosen or text.strip() else Answer(asked.id, declined=True)


def decline(asked: Asked) -> Approve | Answer:
    """A question that nobody can be asked."""
    return parse_answer(asked, None)


def _offered_decisions(asked: ApprovalAsked) -> list[Option]:
    """Return the decisions to offer; a form cannot edit arguments."""
    return [choice for choice in asked.choices if choice.value != "edit"]


def _decision(asked: ApprovalAsked) -> dict[str, Any]:
    offered = _offered_decisions(asked)
    return {
        "type": "string",
        "title": "Decision",
        "enum": [choice.value for choice in offered],
        "enumNames": [choice.description for choice in offered],
    }


def _describe_call(asked: ApprovalAsked) -> str:
    parts = [f"The agent wants to {asked.action} {asked.resource} ({asked.display}).", asked.reason]
    parts += [format_diff(diff) for diff in asked.diffs]
    if len(asked.suggestions) > 1:
        parts.append(f"The rules: {', '.join(asked.suggestions)}")
    return "\n\n".join(part for part in parts if part)[:_LONGEST]


def _label(label: str, description: str) -> str:
    return f"{label}: {description}" if description else label
