"""What a front end provides, so that tools can talk to the user."""

from __future__ import annotations

from typing import Literal, Protocol

from msgspec import Struct

from mainspring.tools.tool import ToolContext, ToolErrorCode, ToolResult

INTERACTION = "interaction"
"""Key in `ToolContext.extra` of an `Interaction`; without one there is nobody to talk to."""


class Option(Struct, frozen=True):
    """An answer to choose."""

    label: str
    description: str = ""


class Question(Struct, frozen=True):
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


class Plan(Struct, frozen=True):
    """What the agent is going to do, in Markdown."""

    text: str
    title: str = ""


class Review(Struct, frozen=True):
    """What the user thinks of a plan; ``feedback`` is in their own words."""

    decision: Literal["approve", "revise", "reject"]
    feedback: str = ""


class Interaction(Protocol):
    """Somebody to talk to. Calls come one after the other."""

    async def ask(self, question: Question) -> Reply | None:
        """The user's answer; ``None`` if they gave none."""
        ...

    async def review(self, plan: Plan) -> Review | None:
        """What the user thinks of a plan; ``None`` if they do not say."""
        ...


def interaction_of(ctx: ToolContext) -> Interaction | None:
    """Somebody to talk to, if there is."""
    return ctx.extra.get(INTERACTION)


def nobody(advice: str) -> ToolResult:
    """The result where there is nobody to talk to."""
    text = f"Nobody can answer: this run has no one at a terminal. {advice}"
    return ToolResult(output=text, title="nobody to ask", is_error=True, code=ToolErrorCode.CONFIG_ERROR)
