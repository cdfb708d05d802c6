"""Interface that a front end implements so that tools can interact with the user."""

from __future__ import annotations

from typing import Literal, Protocol

from msgspec import Struct

from mainspring.tools.tool import ToolContext, ToolErrorCode, ToolResult

INTERACTION_KEY = "interaction"
"""Key in `ToolContext.extra` of a `UserInteraction`; without it, no user is available."""


class Option(Struct, frozen=True):
    """An option of a question."""

    label: str
    description: str = ""


class UserQuestion(Struct, frozen=True):
    """A question to the user.

    Attributes:
        text: Text of the question.
        options: Options to choose from; the user may always write a custom answer.
        multiple: Whether the user may choose several options.
    """

    text: str
    options: tuple[Option, ...] = ()
    multiple: bool = False


class Reply(Struct, frozen=True):
    """Answer of the user: labels of options, custom text, or both."""

    chosen: tuple[str, ...] = ()
    text: str = ""


class ProposedPlan(Struct, frozen=True):
    """Plan of the agent, in Markdown."""

    text: str
    title: str = ""


class PlanReview(Struct, frozen=True):
    """Decision of the user on a plan; ``feedback`` is the user's text."""

    decision: Literal["approve", "revise", "reject"]
    feedback: str = ""


class UserInteraction(Protocol):
    """Interface to the user. Calls are sequential."""

    async def ask(self, question: UserQuestion) -> Reply | None:
        """Return the user's answer; ``None`` if the user did not answer."""
        ...

    async def review_plan(self, plan: ProposedPlan) -> PlanReview | None:
        """Return the user's decision on a plan; ``None`` if the user did not decide."""
        ...


def get_interaction(ctx: ToolContext) -> UserInteraction | None:
    """Return the interface to the user, if available."""
    return ctx.extra.get(INTERACTION_KEY)


def no_user_result(advice: str) -> ToolResult:
    """Return the result of a call that requires a user if no user is available."""
    text = f"No user can answer: this run is unattended. {advice}"
    return ToolResult(output=text, title="no user to ask", is_error=True, code=ToolErrorCode.CONFIG_ERROR)
