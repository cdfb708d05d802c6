"""`ask_user` and `present_plan`, with and without a user."""

from typing import Any

import pytest

from mainspring.env import MemoryEnv
from mainspring.tools import ToolContext, ToolErrorCode
from mainspring.tools.builtin import ask_user, present_plan
from mainspring.tools.interaction import INTERACTION_KEY, Option, PlanReview, ProposedPlan, Reply, UserQuestion


class FakeUser:
    """Returns a fixed answer and records the questions."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[Any] = []

    async def ask(self, question: UserQuestion) -> Reply | None:
        self.asked.append(question)
        return self.answer

    async def review_plan(self, plan: ProposedPlan) -> PlanReview | None:
        self.asked.append(plan)
        return self.answer


def make_context(answer: Any) -> tuple[ToolContext, FakeUser]:
    user = FakeUser(answer)
    return ToolContext(env=MemoryEnv(), extra={INTERACTION_KEY: user}), user


@pytest.mark.covers("TOL-22")
@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply(("sqlite",)), "The user chose: sqlite."),
        (Reply((), "none of them"), "The user says: none of them"),
        (Reply(("a", "b"), "but fast"), "The user chose: a, b.\nThe user says: but fast"),
        (Reply(), "The user says: (nothing)"),
        (None, "The user did not answer. Do not ask again; continue with what you know, or end with the question."),
    ],
)
async def test_question_reaches_the_user_and_the_answer_the_model(reply: Reply | None, expected: str) -> None:
    ctx, user = make_context(reply)
    options = [{"label": "sqlite", "description": "a file"}, {"label": "postgres"}]
    result = await ask_user(ctx, question=" Which one? ", options=options, multiple=True)
    assert result.text == expected
    assert not result.is_error
    assert user.asked == [UserQuestion("Which one?", (Option("sqlite", "a file"), Option("postgres")), True)]


@pytest.mark.covers("TOL-22")
@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        ("approve", "approved the plan"),
        ("revise", "wants the plan changed"),
        ("reject", "rejected the plan. Do not carry it out"),
    ],
)
async def test_plan_review_result_is_returned(decision: Any, expected: str) -> None:
    ctx, user = make_context(PlanReview(decision, "mind the tests"))
    result = await present_plan(ctx, plan="1. do it", title="T")
    assert expected in result.text
    assert result.text.endswith("\nThe user says: mind the tests")
    assert result.metadata["approved"] == (decision == "approve")
    assert user.asked == [ProposedPlan("1. do it", "T")]
    silent, _ = make_context(None)
    assert (await present_plan(silent, plan="x")).metadata["decision"] == "reject"


@pytest.mark.covers("TOL-22")
async def test_missing_user_is_an_error() -> None:
    ctx = ToolContext(env=MemoryEnv())
    for result in (await ask_user(ctx, question="?"), await present_plan(ctx, plan="x")):
        assert result.code == ToolErrorCode.CONFIG_ERROR
        assert "No user can answer" in result.text


async def test_empty_question_or_plan_is_not_shown() -> None:
    ctx, user = make_context(Reply())
    assert (await ask_user(ctx, question=" ")).is_error
    assert (await present_plan(ctx, plan="")).is_error
    assert user.asked == []
