"""`ask_user`: ask the user a question."""

from __future__ import annotations

from typing import Any

from mainspring.tools.interaction import Option, UserQuestion, get_interaction, no_user_result
from mainspring.tools.tool import Tool, ToolContext, ToolErrorCode, ToolResult, no_access

MAX_OPTIONS = 10


async def _execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
    text = arguments["question"].strip()
    if not text:
        return ToolResult(output="The question is empty.", is_error=True, code=ToolErrorCode.VALIDATION_ERROR)
    user = get_interaction(ctx)
    if user is None:
        return no_user_result(
            "Decide by what you know and state what you assumed, or end with the question if that would be wrong."
        )
    options = tuple([Option(o["label"], o.get("description", "")) for o in arguments.get("options", ())])
    reply = await user.ask(UserQuestion(text, options, bool(arguments.get("multiple", False))))
    if reply is None:
        return ToolResult(
            output="The user did not answer. Do not ask again; continue with what you know, or end with the question.",
            title="no answer",
            metadata={"answered": False},
        )
    lines = [f"The user chose: {', '.join(reply.chosen)}."] if reply.chosen else []
    if reply.text.strip() or not lines:
        lines.append(f"The user says: {reply.text.strip() or '(nothing)'}")
    facts = {"answered": True, "chosen": list(reply.chosen), "text": reply.text}
    return ToolResult(output="\n".join(lines), title=text[:120], metadata=facts)


ask_user = Tool(
    name="ask_user",
    description=(
        "Ask the user a question that you cannot answer yourself and whose answer changes what you do. Offer options where "
        "there are few; the user may always answer in other words."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "question": {"type": "string"},
            "options": {
                "type": "array",
                "maxItems": MAX_OPTIONS,
                "items": {
                    "type": "object",
                    "properties": {"label": {"type": "string"}, "description": {"type": "string"}},
                    "required": ["label"],
                    "additionalProperties": False,
                },
            },
            "multiple": {"type": "boolean", "default": False, "description": "Several options may be chosen."},
        },
        "required": ["question"],
        "additionalProperties": False,
    },
    execute=_execute,
    label="Question",
    source="builtin",
    concurrency_safe=False,
    access=no_access,
)
"""Ask the user a question."""
