"""`present_plan`: present a plan to the user for approval."""

from __future__ import annotations

from typing import Any

from mainspring.tools.interaction import PlanReview, ProposedPlan, get_interaction, no_user_result
from mainspring.tools.tool import Tool, ToolContext, ToolErrorCode, ToolResult, no_access

_DECISION_TEXTS = {
    "approve": "The user approved the plan. Carry it out.",
    "revise": "The user wants the plan changed. Change it and present it again.",
    "reject": "The user rejected the plan. Do not carry it out; ask or stop.",
}


async def _execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
    plan = ProposedPlan(arguments["plan"].strip(), arguments.get("title", "").strip())
    if not plan.text:
        return ToolResult(output="The plan is empty.", is_error=True, code=ToolErrorCode.VALIDATION_ERROR)
    user = get_interaction(ctx)
    if user is None:
        return no_user_result(
            "The plan is not approved. End with the plan as your answer, so that it can be read and started later."
        )
    review = await user.review_plan(plan) or PlanReview("reject", "(no answer)")
    text = _DECISION_TEXTS[review.decision]
    if review.feedback.strip():
        text += f"\nThe user says: {review.feedback.strip()}"
    return ToolResult(
        output=text,
        title=f"plan: {review.decision}",
        metadata={
            "decision": review.decision,
            "approved": review.decision == "approve",
            "feedback": review.feedback,
            "plan": plan.text,
            "title": plan.title,
        },
    )


present_plan = Tool(
    name="present_plan",
    description=(
        "Show the user a plan for their approval before you change anything: what will be done, in which files, in what "
        "order, and how it will be checked."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "plan": {"type": "string", "description": "The plan, in Markdown."},
            "title": {"type": "string", "default": ""},
        },
        "required": ["plan"],
        "additionalProperties": False,
    },
    execute=_execute,
    label="Plan",
    source="builtin",
    concurrency_safe=False,
    access=no_access,
)
"""Show the user a plan."""
