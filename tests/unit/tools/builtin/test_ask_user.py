"""`ask_user` and `present_plan`: with somebody to answer, and with nobody."""

from typing import Any

import pytest

from mainspring.env import MemoryEnv
from mainspring.tools import ToolContext, ToolErrorCode
from mainspring.tools.builtin import ask_user, present_plan
from mainspring.tools.interaction import INTERACTION_KEY, Option, PlanReview, ProposedPlan, Reply, UserQuestion


class Person:
    """Gives prepared answers and keeps the questions."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[Any] = []

    async def ask(self, question: UserQuestion) -> Reply | None:
        self.asked.append(question)
        return self.answer

    async def review_plan(self, plan: ProposedPlan) -> PlanReview | None:
        self.asked.append(plan)
        return self.answer


def with_person(answer: Any) -> tuple[ToolContext, Person]:
    person = Person(answer)
    return ToolContext(env=MemoryEnv(), extra={INTERACTION_KEY: person}), person


@pytest.mark.covers("TOL-22")
@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (Reply(("sqlite",)), "The user chose: sqlite."),
        (Reply((), "none of them"), "The user says: none of them"),
        (Reply(("a", "b"), "but fast"), "The user chose: a, b.\nThe user says: but fast"),
        (Reply(), "The user says: (nothing)"),
        (None, "The user gave no answer. Do not ask again; go on by what you know, or end with the question."),
    ],
)
async def test_a_question_reaches_the_user_and_the_answer_the_model(reply: Reply | None, told: str) -> None:
    ctx, person = with_person(reply)
    options = [{"label": "sqlite", "description": "a file"}, {"label": "postgres"}]
    result = await ask_user(ctx, question=" Which one? ", options=options, multiple=True)
    assert result.text == told
    assert not result.is_error
    assert person.asked == [UserQuestion("Which one?", (Option("sqlite", "a file"), Option("postgres")), True)]


@pytest.mark.covers("TOL-22")
@pytest.mark.parametrize(
    ("decision", "told"),
    [
        ("approve", "approved the plan"),
        ("revise", "wants the plan changed"),
        ("reject", "rejected the plan. Do not carry it out"),
    ],
)
async def test_a_plan_is_approved_changed_or_rejected(decision: Any, told: str) -> None:
    ctx, person = with_person(PlanReview(decision, "mind the tests"))
    result = await present_plan(ctx, plan="1. do it", title="T")
    assert told in result.text
    assert result.text.endswith("\nThe user says: mind the tests")
    assert result.metadata["approved"] == (decision == "approve")
    assert person.asked == [ProposedPlan("1. do it", "T")]
    silent, _ = with_person(None)
    assert (await present_plan(silent, plan="x")).metadata["decision"] == "reject"


@pytest.mark.covers("TOL-22")
async def test_with_nobody_to_ask_it_says_so_at_once() -> None:
    ctx = ToolContext(env=MemoryEnv())
    for result in (await ask_user(ctx, question="?"), await present_plan(ctx, plan="x")):
        assert result.code == ToolErrorCode.CONFIG_ERROR
        assert "No user can answer" in result.text


async def test_nothing_is_not_asked() -> None:
    ctx, person = with_person(Reply())
    assert (await ask_user(ctx, question=" ")).is_error
    assert (await present_plan(ctx, plan="")).is_error
    assert person.asked == []
