"""The person behind the front end, as tools and extensions see them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mainspring.app.chat.commands import Answer
from mainspring.app.chat.events import Notice, QuestionAsked
from mainspring.app.chat.questions import Questions
from mainspring.app.chat.types import Option
from mainspring.extensions.ui import NoticeLevel
from mainspring.tools.interaction import Plan, Question, Reply, Review

_YES_NO = (Option("yes", "Yes"), Option("no", "No"))
_REVIEW = (
    Option("approve", "Approve", "carry it out"),
    Option("revise", "Revise", "say what to change"),
    Option("reject", "Reject", "do not carry it out"),
)


class Person:
    """Asks the person. An `Interaction` for tools and a `UserInterface` for extensions.

    Args:
        questions: Where it asks.
        notice: Tells them something.
    """

    def __init__(self, questions: Questions, notice: Callable[[Notice], None]) -> None:
        self._questions = questions
        self._notice = notice

    @property
    def attended(self) -> bool:
        """Whether somebody can answer."""
        return self._questions.attended

    async def ask(self, question: Question) -> Reply | None:
        """The user's answer; ``None`` if they gave none."""
        options = tuple([Option(o.label, o.label, o.description) for o in question.options])
        asked = QuestionAsked(self._id(), "ask", question.text, options=options, multiple=question.multiple)
        answer = await self._questions.answer(asked)
        return None if answer.declined else Reply(answer.chosen, answer.text)

    async def review(self, plan: Plan) -> Review | None:
        """What the user thinks of a plan; ``None`` if they do not say."""
        asked = QuestionAsked(self._id(), "plan", plan.text, title=plan.title, options=_REVIEW)
        answer = await self._questions.answer(asked)
        if answer.declined:
            return None
        match answer.chosen:
            case ("approve",):
                return Review("approve", answer.text)
            case ("reject",):
                return Review("reject", answer.text)
            case _:
                return Review("revise", answer.text)

    async def confirm(self, title: str, message: str = "") -> bool:
        """Whether they say yes; False without an answer."""
        answer = await self._questions.answer(QuestionAsked(self._id(), "confirm", message, title, _YES_NO))
        return answer.chosen == ("yes",)

    async def select(self, title: str, options: Sequence[str]) -> str | None:
        """What they choose; ``None`` without an answer."""
        offered = tuple([Option(text, text) for text in options])
        answer = await self._questions.answer(QuestionAsked(self._id(), "select", "", title, offered))
        return answer.chosen[0] if answer.chosen else None

    async def input(self, title: str, placeholder: str = "") -> str | None:
        """What they write; ``None`` without an answer."""
        answer: Answer = await self._questions.answer(QuestionAsked(self._id(), "input", placeholder, title))
        return None if answer.declined else answer.text

    def notify(self, message: str, level: NoticeLevel = "info") -> None:
        """Tell them something. Returns at once."""
        self._notice(Notice(message, level))

    def _id(self) -> str:
        return self._questions.new_id()
