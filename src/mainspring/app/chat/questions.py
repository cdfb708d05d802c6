"""Questions that wait for an answer.

The person behind the front end, as tools and extensions see them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from mainspring.app.chat.commands import Answer, Approve
from mainspring.app.chat.events import ApprovalAsked, ApprovalSettled, ChatEvent, Notice, QuestionAsked, QuestionSettled
from mainspring.app.chat.types import Option
from mainspring.extensions.ui import NoticeLevel
from mainspring.tools.interaction import PlanReview, ProposedPlan, Reply, UserQuestion

AnswerT = TypeVar("AnswerT", Approve, Answer)


class PendingQuestions:
    """Asks, and hands each answer to whoever waits for it. Every question that is asked is settled, whatever happens.

    Args:
        tell: Is told of questions, and of what became of them.
        attended: Whether somebody can answer.
    """

    def __init__(self, tell: Callable[[ChatEvent], None], *, attended: bool = True) -> None:
        self._tell = tell
        self.attended = attended
        self._open: dict[str, tuple[ApprovalAsked | QuestionAsked, asyncio.Future[Approve | Answer]]] = {}
        self._count = 0

    def new_id(self) -> str:
        """A name for the next question."""
        self._count += 1
        return f"q{self._count}"

    async def approval(self, asked: ApprovalAsked) -> Approve:
        """Ask about a call."""
        return await self._ask(asked, Approve)

    async def answer(self, asked: QuestionAsked) -> Answer:
        """Ask anything else. With nobody there the answer is that there is none."""
        return await self._ask(asked, Answer) if self.attended else Answer(asked.id, declined=True)

    async def _ask(self, asked: ApprovalAsked | QuestionAsked, kind: type[AnswerT]) -> AnswerT:
        future: asyncio.Future[Approve | Answer] = asyncio.get_running_loop().create_future()
        self._open[asked.id] = (asked, future)
        self._tell(asked)
        given: Approve | Answer | None = None
        try:
            given = await future
            return cast("AnswerT", given)
        finally:
            del self._open[asked.id]
            self._tell(_resolved_event(asked, given))

    def settle(self, given: Approve | Answer) -> str:
        """Hand in an answer; why it does not fit, or nothing."""
        entry = self._open.get(given.id)
        if entry is None:
            return f"no question {given.id!r} waits for an answer; it may have been settled meanwhile"
        asked, future = entry
        problem = _answer_problem(asked, given)
        if not problem and not future.done():
            future.set_result(given)
        return problem

    @property
    def waiting(self) -> tuple[ApprovalAsked | QuestionAsked, ...]:
        """What waits, oldest first."""
        return tuple([asked for asked, future in self._open.values() if not future.done()])

    def cancel_all(self) -> None:
        """Nobody will answer any more."""
        for _, future in list(self._open.values()):
            future.cancel()


def _resolved_event(asked: ApprovalAsked | QuestionAsked, given: Approve | Answer | None) -> ChatEvent:
    if isinstance(asked, ApprovalAsked):
        return ApprovalSettled(asked.id, given.decision if isinstance(given, Approve) else "aborted")
    if not isinstance(given, Answer):
        return QuestionSettled(asked.id, "aborted")
    return QuestionSettled(asked.id, "declined" if given.declined else "answered")


def _answer_problem(asked: ApprovalAsked | QuestionAsked, given: Approve | Answer) -> str:
    """Why an answer is none to this question."""
    match asked, given:
        case ApprovalAsked(), Approve():
            return _approval_problem(asked, given)
        case QuestionAsked(), Answer():
            known = {option.value for option in asked.options}
            wrong = [value for value in given.chosen if value not in known]
            if wrong:
                return f"there is no option {wrong[0]!r}; there are {', '.join(sorted(known)) or 'none'}"
            if len(given.chosen) > 1 and not asked.multiple:
                return "only one option can be chosen"
            if asked.kind == "plan" and not given.declined and not given.chosen and not given.text.strip():
                return "a plan is approved, revised or rejected"
            return ""
        case _:
            return (
                f"{given.id!r} is {'a call to approve' if isinstance(asked, ApprovalAsked) else 'a question to answer'}"
            )


def _approval_problem(asked: ApprovalAsked, given: Approve) -> str:
    if given.decision == "edit" and given.input is None:
        return "to edit a call, give its new arguments in `input`"
    if given.decision in ("always", "never") and not given.rule.strip() and not asked.suggestions:
        return "no rule can be saved for this call; answer for this time, or give a rule"
    if given.hunks is not None:
        if not asked.choose_hunks:
            return "this call has no hunks to choose from"
        known = {hunk.number for diff in asked.diffs for hunk in diff.hunks}
        wrong = sorted(set(given.hunks) - known)
        if wrong:
            return f"there is no hunk {wrong[0]}; there are {min(known)} to {max(known)}"
    return ""


_YES_NO = (Option("yes", "Yes"), Option("no", "No"))
_PLAN_REVIEW_OPTIONS = (
    Option("approve", "Approve", "carry it out"),
    Option("revise", "Revise", "say what to change"),
    Option("reject", "Reject", "do not carry it out"),
)


class UserPrompter:
    """Asks the person. An `Interaction` for tools and a `UserInterface` for extensions.

    Args:
        questions: Where it asks.
        notice: Tells them something.
    """

    def __init__(self, questions: PendingQuestions, notice: Callable[[Notice], None]) -> None:
        self._questions = questions
        self._notice = notice

    @property
    def attended(self) -> bool:
        """Whether somebody can answer."""
        return self._questions.attended

    async def ask(self, question: UserQuestion) -> Reply | None:
        """The user's answer; ``None`` if they gave none."""
        options = tuple([Option(o.label, o.label, o.description) for o in question.options])
        asked = QuestionAsked(self._id(), "ask", question.text, options=options, multiple=question.multiple)
        answer = await self._questions.answer(asked)
        return None if answer.declined else Reply(answer.chosen, answer.text)

    async def review(self, plan: ProposedPlan) -> PlanReview | None:
        """What the user thinks of a plan; ``None`` if they do not say."""
        asked = QuestionAsked(self._id(), "plan", plan.text, title=plan.title, options=_PLAN_REVIEW_OPTIONS)
        answer = await self._questions.answer(asked)
        if answer.declined:
            return None
        match answer.chosen:
            case ("approve",):
                return PlanReview("approve", answer.text)
            case ("reject",):
                return PlanReview("reject", answer.text)
            case _:
                return PlanReview("revise", answer.text)

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
