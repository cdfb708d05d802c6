"""Questions that wait for the user, and the user as tools and extensions see them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Self, TypeVar, cast

from mainspring.app.chat.commands import Answer, Approve
from mainspring.app.chat.events import ChatEvent, QuestionRequest, QuestionResult
from mainspring.events import ApprovalRequest, ApprovalResult, Notice, Option
from mainspring.extensions.context import NoticeLevel
from mainspring.loop.steps import LiveSteps
from mainspring.tools.interaction import PlanReview, ProposedPlan, Reply, UserQuestion

AnswerT = TypeVar("AnswerT", Approve, Answer)


_MIN_TIMER_SECONDS = 0.1


class WorkTimeSteps(LiveSteps):
    """Steps of runs whose clock and timers stop while a question waits for the user.

    Args:
        read_waited_seconds: Returns the seconds during which a question has waited so far.
    """

    __slots__ = ("_read_waited_seconds",)

    def __init__(self, read_waited_seconds: Callable[[], float]) -> None:
        super().__init__()
        self._read_waited_seconds = read_waited_seconds

    def elapsed(self) -> float:
        """Return the seconds of a monotonic clock that stops during waits for the user."""
        return super().elapsed() - self._read_waited_seconds()

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Callable[[], object]:
        """Call ``callback`` after ``seconds`` of work; the returned function cancels the call."""
        due, loop = self.elapsed() + seconds, asyncio.get_running_loop()

        def check() -> None:
            nonlocal timer
            if (left := due - self.elapsed()) > 0:
                timer = loop.call_later(max(left, _MIN_TIMER_SECONDS), check)
            else:
                callback()

        timer = loop.call_later(seconds, check)
        return lambda: timer.cancel()

    def for_child(self) -> Self:
        """Return the steps of a subagent, whose time stops with that of its parent."""
        return self


class PendingQuestions:
    """Asks questions and passes each answer to its caller. Each question is settled by an event, also if it is cancelled.

    Args:
        publish: Publishes an event of the chat.
        attended: Whether a user can answer.
    """

    def __init__(self, publish: Callable[[ChatEvent], None], *, attended: bool = True) -> None:
        self._publish = publish
        self.is_attended = attended
        self._open: dict[str, tuple[ApprovalRequest | QuestionRequest, asyncio.Future[Approve | Answer]]] = {}
        self._count = 0
        self._waited_seconds = 0.0
        self._waiting_since = 0.0

    @property
    def waited_seconds(self) -> float:
        """Seconds during which a question has waited for the user."""
        return self._waited_seconds + (time.monotonic() - self._waiting_since if self._open else 0.0)

    def new_id(self) -> str:
        """Return an ID for the next question."""
        self._count += 1
        return f"q{self._count}"

    async def ask_approval(self, request: ApprovalRequest) -> Approve:
        """Ask the user to approve a call."""
        return await self._ask(request, Approve)

    async def ask_question(self, request: QuestionRequest) -> Answer:
        """Ask the user anything else. Without a user, the question is declined."""
        return await self._ask(request, Answer) if self.is_attended else Answer(request.id, declined=True)

    async def _ask(self, request: ApprovalRequest | QuestionRequest, kind: type[AnswerT]) -> AnswerT:
        future: asyncio.Future[Approve | Answer] = asyncio.get_running_loop().create_future()
        if not self._open:
            self._waiting_since = time.monotonic()
        self._open[request.id] = (request, future)
        self._publish(request)
        answer: Approve | Answer | None = None
        try:
            answer = await future
            return cast("AnswerT", answer)
        finally:
            waited = self.waited_seconds
            del self._open[request.id]
            if not self._open:
                self._waited_seconds = waited
            self._publish(_result_event(request, answer))

    def resolve(self, answer: Approve | Answer) -> str:
        """Accept the answer to a question. Return why it is rejected, or an empty string."""
        entry = self._open.get(answer.id)
        if entry is None:
            return f"No pending question {answer.id!r}. It may already have been answered."
        request, future = entry
        problem = _find_problem(request, answer)
        if not problem and not future.done():
            future.set_result(answer)
        return problem

    def cancel_all(self) -> None:
        """Cancel all questions, because no answer can arrive."""
        for _, future in list(self._open.values()):
            future.cancel()


def _result_event(request: ApprovalRequest | QuestionRequest, answer: Approve | Answer | None) -> ChatEvent:
    if isinstance(request, ApprovalRequest):
        if not isinstance(answer, Approve):
            return ApprovalResult(request.id, "aborted")
        return ApprovalResult(request.id, answer.decision, answer.reason)
    if not isinstance(answer, Answer):
        return QuestionResult(request.id, "aborted")
    return QuestionResult(request.id, "declined" if answer.declined else "answered")


def _find_problem(request: ApprovalRequest | QuestionRequest, answer: Approve | Answer) -> str:
    """Return why an answer does not fit a question, or an empty string."""
    match request, answer:
        case ApprovalRequest(), Approve():
            return _find_approval_problem(request, answer)
        case QuestionRequest(), Answer():
            known = {option.value for option in request.options}
            unknown = [value for value in answer.chosen if value not in known]
            if unknown:
                return f"Unknown option: {unknown[0]}. Use {', '.join(sorted(known)) or 'text'}."
            if len(answer.chosen) > 1 and not request.multiple:
                return "Choose only one option."
            if request.kind == "plan" and not answer.declined and not answer.chosen and not answer.text.strip():
                return "Approve, revise, or reject the plan."
            return ""
        case ApprovalRequest(), _:
            return f"{answer.id!r} is an approval. Send an approve command."
        case _:
            return f"{answer.id!r} is a question. Send an answer command."


def _find_approval_problem(request: ApprovalRequest, answer: Approve) -> str:
    if answer.decision == "edit" and answer.input is None:
        return "No arguments to call the tool with. Set `input`."
    if answer.decision in ("always", "never") and not answer.rule.strip() and not request.suggestions:
        return "No rule can be saved for this call. Allow it once, or provide a rule."
    if answer.hunks is not None:
        if not request.choose_hunks:
            return "This call has no hunks to choose from."
        known = {hunk.number for diff in (request.display.diffs if request.display else ()) for hunk in diff.hunks}
        unknown = sorted(set(answer.hunks) - known)
        if unknown:
            return f"Unknown hunk: {unknown[0]}. Use {min(known)} to {max(known)}."
    return ""


_YES_NO = (Option("yes", "Yes"), Option("no", "No"))
_PLAN_REVIEW_OPTIONS = (
    Option("approve", "Approve", "Execute the plan"),
    Option("revise", "Revise", "Tell the agent what to change"),
    Option("reject", "Reject", "Do not execute the plan"),
)


class UserPrompter:
    """Asks the user on behalf of tools and extensions. An `Interaction` and a `UserInterface`.

    Args:
        questions: Where questions wait for the user.
        publish: Publishes a notice.
    """

    def __init__(self, questions: PendingQuestions, publish: Callable[[Notice], None]) -> None:
        self._questions = questions
        self._publish = publish

    @property
    def is_attended(self) -> bool:
        """Whether a user can answer."""
        return self._questions.is_attended

    async def ask(self, question: UserQuestion) -> Reply | None:
        """Ask a question. Return None if the user declined to answer."""
        options = tuple([Option(o.label, o.label, o.description) for o in question.options])
        request = QuestionRequest(
            self._questions.new_id(), "ask", question.text, options=options, multiple=question.multiple
        )
        answer = await self._questions.ask_question(request)
        return None if answer.declined else Reply(answer.chosen, answer.text)

    async def review_plan(self, plan: ProposedPlan) -> PlanReview | None:
        """Ask the user to review a plan. Return None if they declined."""
        request = QuestionRequest(
            self._questions.new_id(), "plan", plan.text, title=plan.title, options=_PLAN_REVIEW_OPTIONS
        )
        answer = await self._questions.ask_question(request)
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
        """Ask for confirmation. Return False without an answer."""
        answer = await self._questions.ask_question(
            QuestionRequest(self._questions.new_id(), "confirm", message, title, _YES_NO)
        )
        return answer.chosen == ("yes",)

    async def select(self, title: str, options: Sequence[str]) -> str | None:
        """Ask the user to choose an option. Return None without an answer."""
        offered = tuple([Option(text, text) for text in options])
        answer = await self._questions.ask_question(
            QuestionRequest(self._questions.new_id(), "select", "", title, offered)
        )
        return answer.chosen[0] if answer.chosen else None

    async def input(self, title: str, placeholder: str = "") -> str | None:
        """Ask the user for a text. Return None without an answer."""
        answer: Answer = await self._questions.ask_question(
            QuestionRequest(self._questions.new_id(), "input", placeholder, title)
        )
        return None if answer.declined else answer.text

    def notify(self, message: str, level: NoticeLevel = "info") -> None:
        """Show a notice to the user."""
        self._publish(Notice(message, level))
