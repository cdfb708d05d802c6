"""Handoffs: another agent continues the conversation within the run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring import (
    Agent,
    AgentDefinition,
    Approve,
    Compaction,
    ConfigError,
    Handoff,
    Permissions,
    RunContext,
    RunOptions,
    Session,
    ToolError,
    ToolGate,
    tool,
)
from mainspring.agent.handoffs import without_tool_calls
from mainspring.events import AgentHandoff
from mainspring.mcp import InMemoryConnector, InMemoryServer, McpPlug, McpServerConfig, ToolInfo
from mainspring.messages import Cost, Message, Usage
from mainspring.policies.plan_mode import PlanMode
from mainspring.testing import Call, MemoryEnv, Reply, ScriptedModel
from mainspring.tools import Access
from tests.unit.policies.compaction.test_summary import GOOD

TRANSFER = Call("transfer_to_billing", {})


class Refund(msgspec.Struct):
    order: int


class Answer(msgspec.Struct):
    text: str


@dataclass
class Shop:
    name: str = "Books"


@tool
async def pay_back(order: int) -> str:
    """Pay an order back."""
    return f"paid {order}"


def make_billing(*script: Any, **options: Any) -> Agent[Any, Any]:
    return Agent(
        ScriptedModel(*script, provider="billing"), name="billing", system="You refund.", tools=[pay_back], **options
    )


def make_front(*script: Any, to: Any, **options: Any) -> Agent[Any, Any]:
    options = {"execution": MemoryEnv({}), "system": "You sort.", **options}
    return Agent(ScriptedModel(*script), handoffs=[to], name="front", **options)


def requests(agent: Agent[Any, Any]) -> Any:
    assert isinstance(agent.model, ScriptedModel)
    return agent.model.requests


def texts(agent: Agent[Any, Any], turn: int) -> list[str]:
    return [m.text or ",".join(c.name for c in m.tool_calls) for m in requests(agent)[turn].messages]


async def test_the_other_agent_continues_with_its_own_prompt_tools_and_model() -> None:
    billing = make_billing(Call("pay_back", {"order": 7}), "Done.", "Still me.")
    front = make_front(TRANSFER, to=billing)
    events: list[AgentHandoff] = []
    front.subscribe(lambda event: events.append(event) if isinstance(event, AgentHandoff) else None)

    result = await front.run("Refund 7")
    assert (result.text, result.agent, result.turns) == ("Done.", "billing", 3)
    assert [r.text for r in result.tool_results] == [
        "The conversation was handed over to billing, who continues it.",
        "paid 7",
    ]
    assert [r.request.system for r in requests(billing)] == ["You refund."] * 2
    assert [t.name for t in requests(billing)[0].request.tools] == ["pay_back"]
    assert [t.name for t in requests(front)[0].request.tools] == ["transfer_to_billing"]
    assert billing.messages == ()

    # The conversation stays with the agent that answered; the agents themselves are unchanged.
    again = await front.run("Who are you?")
    assert (again.text, again.agent) == ("Still me.", "billing")
    assert front.context.system == "You sort."
    assert [t.name for t in front.tools] == ["transfer_to_billing"]
    assert [(e.previous, e.agent, e.model, e.resumed) for e in events] == [
        ("front", "billing", "billing:scripted-1", False),
        ("front", "billing", "billing:scripted-1", True),
    ]

    front.reset()
    requests(front).clear()
    front.model = ScriptedModel("Hello.")
    assert (await front.run("New conversation")).agent == "front"


async def test_output_and_validators_are_those_of_the_agent_that_answers() -> None:
    billing = make_billing(Call("__output__", {"order": 7}), Call("__output__", {"order": 8}), output_type=Refund)

    @billing.output_validator
    def check(ctx: RunContext[None], refund: Refund) -> Refund:
        assert ctx.agent == "billing"
        if refund.order == 7:
            raise ToolError("Not 7.")
        return refund

    front = make_front(TRANSFER, to=billing, output_type=Answer)

    @front.output_validator
    def reject(answer: Answer) -> Answer:
        raise AssertionError(answer)

    assert (await front.run("Refund")).output == Refund(8)
    names = [[t.name for t in r.request.tools] for r in requests(billing)]
    assert names == [["pay_back", "__output__"]] * 2

    # A text of an agent without an output type, and the schema of one run, which applies to all.
    front = make_front(TRANSFER, to=make_billing("Text."), output_type=Answer)
    assert (await front.run("Refund")).output == "Text."
    billing = make_billing(Call("__output__", {"text": "a"}), output_type=Refund)
    front = make_front(TRANSFER, to=billing, output_type=str)
    assert (await front.run("Refund", behavior=RunOptions(schema=Answer))).output == Answer("a")


async def test_partial_outputs_have_the_type_of_the_agent_that_answers() -> None:
    billing = make_billing(Call("__output__", {"order": 7}), output_type=Refund)
    front = make_front(TRANSFER, to=billing, output_type=Answer)
    async with front.stream("Refund") as run:
        outputs = [output async for output in run.outputs()]
    assert outputs
    assert all(isinstance(output, Refund) for output in outputs)


async def test_permissions_of_both_apply() -> None:
    def results(agent: Agent[Any, Any]) -> list[str]:
        return [r.text for m in agent.messages for r in m.tool_results][1:]

    # The other agent cannot widen the rules of the run.
    billing = make_billing(Call("pay_back", {"order": 7}), "ok", permissions=Permissions(allow=["pay_back"]))
    front = make_front(TRANSFER, to=billing, permissions=Permissions(allow=["transfer_to_*"], deny=["pay_back"]))
    await front.run("Refund")
    assert "Permission denied" in results(front)[0]

    # Its own rules, plugins, and gates restrict it, and only it.
    billing = make_billing(
        Call("pay_back", {"order": 7}), Call("transfer_to_front", {}), permissions=Permissions(deny=["pay_back"])
    )
    front = make_front(
        TRANSFER, Call("pay_back", {"order": 7}), "ok", to=Handoff(billing, can_return=True), tools=[pay_back]
    )
    await front.run("Refund")
    assert "Permission denied" in results(front)[0]
    assert results(front)[-1] == "paid 7"

    billing = make_billing(Call("pay_back", {"order": 7}), "ok")

    @billing.on(ToolGate)
    def block(call: ToolGate) -> None:
        call.block = f"not {call.name}"

    front = make_front(TRANSFER, to=billing)
    await front.run("Refund")
    assert results(front) == ["Blocked: not pay_back"]

    # A rule can deny the handoff itself.
    front = make_front(TRANSFER, "I stay.", to=make_billing(), permissions=Permissions(deny=["transfer_to_billing"]))
    assert (await front.run("Refund")).agent == "front"


async def test_a_call_of_the_other_agent_waits_for_its_approval() -> None:
    billing = make_billing(Call("pay_back", {"order": 7}), "Done.")
    front = make_front(
        TRANSFER, to=billing, permissions=Permissions(ask=["pay_back"], allow=["transfer_to_*"], unattended="pause")
    )
    paused = await front.run("Refund")
    assert (paused.status, paused.agent) == ("paused", "billing")
    front.answer(Approve())
    result = await front.run()
    assert (result.text, result.agent) == ("Done.", "billing")
    assert result.tool_results[0].text == "paid 7"


async def test_plan_mode_of_the_run_holds() -> None:
    @tool(access=lambda arguments: [Access("fs-write", arguments["path"])])
    async def save(path: str) -> str:
        """Save."""
        raise AssertionError(path)

    model = ScriptedModel(Call("save", {"path": "a.txt"}), "A plan.")
    billing = Agent(model, name="billing", tools=[save])
    front = make_front(TRANSFER, to=billing, plugs=[PlanMode()])
    result = await front.run("Refund")
    assert "plan mode: save would change" in result.tool_results[1].text
    assert [t.name for t in model.requests[0].request.tools] == ["save", "present_plan"]
    assert "Plan mode" in model.requests[0].request.system


async def test_limits_and_usage_of_the_run_hold() -> None:
    costs = Usage(output_tokens=10, cost=Cost(output=1.0))
    billing = make_billing(Reply("", calls=(Call("pay_back", {"order": 1}),), usage=costs), "never")
    front = make_front(Reply("", calls=(TRANSFER,), usage=costs), to=billing, behavior=RunOptions(max_cost=1.5))
    result = await front.run("Refund")
    assert (result.status, result.agent) == ("max_cost", "billing")
    assert result.cost is not None
    assert (result.cost.total, front.ledger.cost) == (2.0, 2.0)

    front = make_front(TRANSFER, to=make_billing(Call("pay_back", {"order": 1})), behavior=RunOptions(max_turns=2))
    assert (await front.run("Refund")).status == "max_turns"


async def test_options_of_requests_are_those_of_the_answering_agent() -> None:
    billing = make_billing(
        Call("transfer_to_front", {}), behavior=RunOptions(temperature=0.5), tool_aliases={"pay_back": "Refund"}
    )
    front = make_front(
        TRANSFER, "Back.", to=Handoff(billing, can_return=True), behavior=RunOptions(thinking="low", max_turns=9)
    )
    result = await front.run("Refund")
    assert (result.text, result.agent) == ("Back.", "front")
    used = [r.request for r in (requests(front)[0], requests(billing)[0], requests(front)[1])]
    assert [(r.temperature, r.thinking) for r in used] == [(None, "low"), (0.5, "low"), (None, "low")]
    assert [t.name for t in used[1].tools] == ["Refund", "transfer_to_front"]


async def test_a_session_that_is_opened_again_continues_with_the_same_agent(tmp_path: Path) -> None:
    def open_front(session: Session, *script: Any, **options: Any) -> Agent[Any, Any]:
        return make_front(TRANSFER, to=make_billing(*script), session=session, **options)

    with Session.create(str(tmp_path), home=tmp_path) as session:
        await open_front(session, "Done. " * 9000).run("Refund 7 " * 9000)
    with Session.open(session.id, home=tmp_path) as session:
        assert (await open_front(session, "Still me.").run("And?")).agent == "billing"

    # Also if a summary has replaced the handoff.
    with Session.open(session.id, home=tmp_path) as session:
        front = open_front(session, "Still me.")
        front.model = ScriptedModel(GOOD)
        assert await front.compact(options=Compaction(keep_recent=0)) is not None
    with Session.open(session.id, home=tmp_path) as session:
        front = open_front(session, "And still.")
        assert not any(m.tool_results for m in front.messages)
        assert (await front.run("And?")).agent == "billing"


async def test_subagents_of_the_run_work_for_the_other_agent() -> None:
    child = ScriptedModel("Looked.")
    billing = make_billing(Call("spawn", {"task": "Look", "agent": "scout"}), "Done.")
    front = make_front(TRANSFER, to=billing, subagents=[AgentDefinition(name="scout", model=child)])
    result = await front.run("Refund")
    assert [r.text for r in result.tool_results][1:] == ["Looked."]
    assert [t.name for t in child.requests[0].request.tools] == ["pay_back"]  # those of its parent, and no handoff
    assert child.requests[0].request.system == "You refund."
    assert result.stats.children[0].child == "scout"


async def test_input_filter_limits_what_the_other_agent_gets() -> None:
    @tool
    async def look() -> str:
        """Look."""
        return "secret"

    billing = make_billing("Done.", "More.")
    handoff = Handoff(billing, input_filter=without_tool_calls)
    front = make_front(Call("look", {}), TRANSFER, to=handoff, tools=[look])
    await front.run("Refund")
    assert texts(billing, 0)[:2] == ["Refund", "transfer_to_billing"]
    assert len(requests(billing)[0].messages) == 3
    assert any("secret" in r.text for m in front.messages for r in m.tool_results)
    await front.run("More?")
    assert [m.text for m in requests(billing)[1].messages if m.text][:3] == ["Refund", "Done.", "More?"]


async def test_failed_input_filter_shows_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def fail(messages: list[Any]) -> list[Any]:
        raise ValueError(messages)

    billing = make_billing("Done.")
    await make_front(TRANSFER, to=Handoff(billing, input_filter=fail)).run("my secret")
    assert not any("my secret" in m.text for m in requests(billing)[0].messages)
    assert requests(billing)[0].messages[0].role == "user"
    assert "input filter of the handoff to billing failed" in caplog.text


async def test_one_handoff_or_output_in_a_response() -> None:
    model, other = ScriptedModel([TRANSFER, Call("transfer_to_sales", {})]), ScriptedModel()
    billing = make_billing("Done.")
    sales = Agent(other, name="sales")
    front = Agent(model, handoffs=[billing, sales], execution=MemoryEnv({}))
    result = await front.run("Refund")
    assert (result.agent, other.requests) == ("billing", [])
    assert result.tool_results[1].is_error

    front = make_front([Call("__output__", {"text": "a"}), TRANSFER], to=make_billing(), output_type=Answer)
    result = await front.run("Refund")
    assert (result.output, result.agent) == (Answer("a"), "front")
    assert [r.is_error for r in result.tool_results] == [False, True]


async def test_nested_handoffs() -> None:
    bank = Agent(ScriptedModel("Wired."), name="bank")
    billing = make_billing(Call("transfer_to_bank", {}), handoffs=[bank])
    front = make_front(TRANSFER, to=billing)
    assert [(r.text, r.agent) for r in (await front.run("Refund"),)] == [("Wired.", "bank")]


async def test_dependencies_reach_the_other_agent() -> None:
    def prompt(ctx: RunContext[Shop]) -> str:
        return f"You refund for {ctx.deps.name}."

    model = ScriptedModel("Done.")
    billing = Agent(model, name="billing", deps_type=Shop, system=prompt)
    front = Agent(ScriptedModel(TRANSFER), deps_type=Shop, handoffs=[billing], execution=MemoryEnv({}))
    await front.run("Refund", deps=Shop())
    assert model.requests[0].request.system == "You refund for Books."


async def test_failed_handoff_is_an_error_result() -> None:
    def prompt(ctx: RunContext[None]) -> str:
        raise ToolError("The billing office is closed.")

    billing = Agent(ScriptedModel(), name="billing", system=prompt)
    front = make_front(TRANSFER, "I stay.", to=billing)
    result = await front.run("Refund")
    assert (result.text, result.agent) == ("I stay.", "front")
    assert "The billing office is closed." in result.tool_results[0].text


async def test_model_prompt_and_tools_of_a_run_replace_those_of_the_answering_agent() -> None:
    billing = make_billing("Done.")
    front = make_front(TRANSFER, to=billing)
    await front.run("Refund")
    model = ScriptedModel("Other.")
    result = await front.run("And?", model=model, system="Be brief.", tools=[])
    assert (result.text, result.agent) == ("Other.", "billing")
    assert (model.requests[0].request.system, list(model.requests[0].request.tools)) == ("Be brief.", [])


def test_unusable_handoffs_say_what_to_do() -> None:
    def fails(text: str, *to: Any, **options: Any) -> None:
        with pytest.raises(ConfigError, match=text):
            Agent(ScriptedModel(), handoffs=to, name="front", **options)

    fails("Two agents of handoffs are named 'agent'.*name=", Agent(ScriptedModel()), Agent(ScriptedModel()))
    fails("the name of this one, 'front'", Agent(ScriptedModel(), name="front"))
    fails("Pass agents, or Handoff", "billing")
    fails("Pass output_type to this agent, too: output_type=str", make_billing(output_type=Refund))
    fails(
        "options that belong to the whole run: execution, subagents",
        make_billing(execution=MemoryEnv({}), subagents=True),
    )
    fails("in its behavior that belong to the whole run: max_turns", make_billing(behavior=RunOptions(max_turns=3)))


async def test_history_can_be_continued_by_a_message_list() -> None:
    front = make_front(TRANSFER, to=make_billing("Done."))
    await front.run("Refund")
    other = make_front(to=make_billing("Still."), messages=front.messages)
    assert (await other.run("And?")).agent == "billing"
    fresh = make_front("Hello.", to=make_billing(), messages=[Message.user("Hi")])
    assert (await fresh.run()).agent == "front"


async def test_tools_are_locked_and_found_by_the_agent_that_continues() -> None:
    def servers(name: str) -> McpPlug:
        server = InMemoryServer([(ToolInfo(name="look"), lambda: f"{name} looked")])
        return McpPlug([McpServerConfig(name=name, command="x")], connector=InMemoryConnector({name: server}))

    back = Call("transfer_to_front", {})
    search = Call("tool_search", {"query": "look"})
    billing = make_billing(search, Call("mcp__bills__look"), back, mcp_servers=servers("bills"), tool_disclosure="lazy")
    front = make_front(
        *(search, TRANSFER, Call("mcp__mail__look"), "done"),
        to=Handoff(billing, can_return=True),
        mcp_servers=servers("mail"),
        tool_disclosure="lazy",
    )
    await front.warmup()

    result = await front.run("go")
    await front.shutdown()

    offered = [[t.name for t in r.request.tools] for r in requests(billing)]
    assert offered[0] == ["pay_back", "tool_search", "transfer_to_front"]
    assert offered[1] == [*offered[0], "mcp__bills__look"]
    assert all(
        "mcp__mail" not in r.request.system and "mcp__bills__look" in r.request.system for r in requests(billing)
    )
    texts = [r.text for m in result.messages for r in m.tool_results]
    assert "bills looked" in texts
    assert "mail looked" in texts
