"""A side question leaves the conversation unchanged."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from mainspring import Agent, RunOptions
from mainspring.env import MemoryEnv
from mainspring.errors import AgentError, RateLimitedError
from mainspring.events import Done, StreamEvent, TextDelta
from mainspring.loop.hooks import TurnAfter
from mainspring.messages import Message, Usage
from mainspring.models import ModelRequest
from mainspring.policies.budgets import Budget, Ledger
from mainspring.testing import Reply, ScriptedModel
from mainspring.tools.builtin import read_file
from tests.helpers.waiting_model import Gate, WaitingModel


async def test_side_question_sees_the_conversation_and_leaves_it_unchanged() -> None:
    model = ScriptedModel("Hello.", Reply("Just one."))
    agent = Agent(model, system="Be brief.", tools=[read_file])
    await agent.run("Hi")
    before = agent.messages
    answer = await agent.ask_aside("How many prompts?")
    assert answer.text == "Just one."
    assert agent.messages == before
    request = model.requests[-1]
    assert [message.text for message in request.messages[:-1]] == ["Hi", "Hello."]
    assert request.messages[-1].text.endswith("How many prompts?")
    assert (request.request.system, request.request.tool_choice) == ("Be brief.", "none")


USAGE = Usage(100, 10)


async def test_side_question_between_runs_is_retried_and_counted_once() -> None:
    model = ScriptedModel(
        Reply("one", usage=USAGE), RateLimitedError("slow down", retry_after=0.0), Reply("two", usage=USAGE)
    )
    agent = Agent(model, behavior=RunOptions(session_budget=Budget(max_total_tokens=220)))
    await agent.run("Hi")
    assert (await agent.ask_aside("Why?")).text == "two"
    assert (agent.ledger.tokens, agent.ledger.turns) == (220, 1)

    with pytest.raises(AgentError, match=r"reached its limit \(max_total_tokens\)"):
        await agent.ask_aside("And now?")
    assert (await agent.run("again")).status == "max_total_tokens"
    assert len(model.requests) == 3


class TwoWayModel(ScriptedModel):
    """Answers side questions only after the run has ended."""

    def __init__(self) -> None:
        super().__init__(Reply("one", usage=USAGE))
        self.asked, self.ended = asyncio.Event(), asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        if request.tool_choice == "none":
            self.asked.set()
            await self.ended.wait()
            yield TextDelta(0, "aside")
            yield Done("end_turn", Message.assistant("aside", usage=USAGE))
            return
        await self.asked.wait()
        async for event in super().stream(request):
            yield event


async def test_side_question_that_outlives_the_run_is_counted_once_and_not_for_the_run() -> None:
    model, customer = TwoWayModel(), Ledger(limit=Budget(max_total_tokens=220))
    agent = Agent(model, ledger=customer, behavior=RunOptions(max_total_tokens=111))
    events: list[str] = []
    agent.subscribe(lambda event: events.append(type(event).__name__))
    running = asyncio.ensure_future(agent.run("Hi"))
    aside = asyncio.ensure_future(agent.ask_aside("Why?"))
    result = await running
    model.ended.set()
    assert (await aside).text == "aside"

    assert (result.status, result.usage.total_tokens) == ("completed", 110)
    assert events[-1] == "AgentEnd"
    assert (agent.ledger.tokens, customer.tokens, customer.turns) == (220, 220, 1)
    with pytest.raises(AgentError, match="max_total_tokens"):  # of the customer
        await agent.ask_aside("And now?")


async def test_side_question_that_is_cancelled_is_counted_by_an_estimate() -> None:
    model = TwoWayModel()
    agent = Agent(model)
    aside = asyncio.ensure_future(agent.ask_aside("Why? " * 100))
    await model.asked.wait()
    aside.cancel()
    with pytest.raises(asyncio.CancelledError):
        await aside
    assert agent.ledger.tokens > 50


async def test_limit_of_turns_does_not_forbid_a_side_question() -> None:
    agent = Agent(ScriptedModel("one", "aside"), behavior=RunOptions(session_budget=Budget(max_turns=1)))
    await agent.run("Hi")
    assert (await agent.ask_aside("Why?")).text == "aside"


async def test_side_call_that_ends_after_its_run_counts_for_the_conversation_and_its_ledger() -> None:
    customer = Ledger(limit=Budget(max_turns=9))
    gate = Gate()
    calls: list[asyncio.Future[Message]] = []
    summarizer = WaitingModel(Reply("A summary.", usage=USAGE), gates={0: gate})
    agent = Agent(ScriptedModel(Reply("Hello.", usage=USAGE)), execution=MemoryEnv({}), ledger=customer)

    @agent.on(TurnAfter)
    async def start_summary(hook: TurnAfter) -> None:
        request = ModelRequest((Message.user("Summarize."),))
        calls.append(asyncio.ensure_future(agent.side_call("summary", request, model=summarizer)))
        await gate.reached_limit.wait()

    result = await agent.run("Hi")
    assert (result.usage.total_tokens, agent.ledger.tokens, customer.tokens) == (110, 110, 110)
    gate.open.set()
    await calls[0]
    assert (agent.ledger.tokens, customer.tokens, customer.turns) == (220, 220, 1)
