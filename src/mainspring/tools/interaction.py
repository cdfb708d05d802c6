"""What a front end provides, so that tools can talk to the user."""

from __future__ import annotations

from typing import Literal, Protocol

from msgspec import Struct

from mainspring.tools.tool import ToolContext, ToolErrorCode, ToolResult

INTERACTION_KEY = "interaction"
"""Key in `ToolContext.extra` of an `Interaction`; without one there is nobody to talk to."""


class Option(Struct, frozen=True):
    """An answer to choose."""

    label: str
    description: str = ""


class UserQuestion(Struct, frozen=True):
    """What the user is asked.

    Attributes:
        text: The question.
        options: Answers to choose from; the user may always write another one.
        multiple: Whether several may be chosen.
    """

    text: str
    options: tuple[Option, ...] = ()
    multiple: bool = False


class Reply(Struct, frozen=True):
    """What the user answered: labels of options, words of their own, or both."""

    chosen: tuple[str, ...] = ()
    text: str = ""


class ProposedPlan(Struct, frozen=True):
    """What the agent is going to do, in Markdown."""

    text: str
    title: str = ""


class PlanReview(Struct, frozen=True):
    """What the user thinks of a plan; ``feedback`` is in their own words."""

    decision: Literal["approve", "revise", "reject"]
    feedback: str = ""


class UserInteraction(Protocol):
    """Somebody to talk to. Calls come one after the other."""

    async def ask(self, question: UserQuestion) -> Reply | None:
        """The user's answer; ``None`` if they gave none."""
        ...

    async def review_plan(self, plan: ProposedPlan) -> PlanReview | None:
        """What the user thinks of a plan; ``None`` if they do not say."""
        ...


def get_interaction(ctx: ToolContext) -> UserInteraction | None:
    """Somebody to talk to, if there is."""
    return ctx.extra.get(INTERACTION_KEY)


def no_user_result(advice: str) -> ToolResult:
    """The result where there is nobody to talk to."""
    text = f"Nobody can answer: this run has no one at a terminal. {advice}"
    return ToolResult(output=text, title="nobody to ask", is_error=True, code=ToolErrorCode.CONFIG_ERROR)
