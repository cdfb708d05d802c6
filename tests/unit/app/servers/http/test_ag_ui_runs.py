"""Clients of AG-UI begin runs, answer what is asked, run their own tools, and leave."""

import base64
import json
from collections.abc import Sequence
from typing import Any

import pytest

from mainspring import Agent, Permissions, tool
from mainspring.app.run_service.service import Factory, ServiceOptions
from mainspring.durable import DurableSteps
from mainspring.errors import AuthenticationError
from mainspring.messages import ImageBlock, Message
from mainspring.subagents import AgentDefinition, Subagents
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import ToolContext
from tests.unit.app.servers.ag_ui.client import Thread, cancelled, resolved
from tests.unit.app.servers.http.harness import Gate, Stage, note, on_stage, scripted

PICK = {
    "name": "pick_colour",
    "description": "Let the user pick a colour.",
    "parameters": {"type": "object", "properties": {"of": {"type": "string"}}, "required": ["of"]},
}


@tool(idempotent=True)
async def look(what: str) -> str:
    """Look at something."""
    return f"saw {what}"


@tool
async def whoami(ctx: ToolContext) -> str:
    """What the client brought."""
    return json.dumps(ctx.extra["client"])


def talking(model: ScriptedModel, **options: Any) -> Factory:
    """An agent whose runs are all of one model."""

    def make(steps: DurableSteps) -> Agent:
        permissions = Permissions(allow=["look", "whoami"], ask=["note"], unattended="pause")
        return Agent(model, tools=[note, look, whoami], permissions=permissions, steps=steps, **options)

    return make


def texts(messages: Sequence[Any]) -> list[str]:
    return [m.text for m in messages if isinstance(m, Message) and m.text]


def results(model: ScriptedModel) -> dict[str, str]:
    """The results of calls that the model saw in its last request."""
    return {r.tool_use_id: str(r.content) for m in model.requests[-1].messages for r in m.tool_results}


async def test_several_turns_on_one_thread_with_a_tool():
    """The model sees the conversation as the client tells it, and the client gets what is new and nothing else."""
    model = ScriptedModel(Reply("let me see", calls=[ScriptedCall("look", {"what": "it"}, id="c")]), "a cat", "grey")
    async with on_stage({"bot": talking(model)}) as stage:
        thread = Thread(stage.ann)
        end = await thread.ask("what is it?")
        assert (end["outcome"], end["result"]["text"]) == ({"type": "success"}, "a cat")
        assert thread.events[0] == {
            "type": "RUN_STARTED", "threadId": "thread-1", "runId": "run-1", "protocolVersion": "1.0"
        }  # fmt: skip
        await thread.ask("which colour?")
    assert [m["role"] for m in thread.messages] == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert [m.get("content") for m in thread.messages[-3:]] == ["a cat", "which colour?", "grey"]
    seen = model.requests[-1].messages
    assert [m.role for m in seen] == ["user", "assistant", "user", "assistant", "user"]
    assert texts(seen) == ["what is it?", "let me see", "a cat", "which colour?"]
    assert results(model) == {"c": "saw it"}


async def test_ids_of_calls_that_come_again_are_other_calls_for_the_client():
    again = [ScriptedCall("look", {"what": "a"}, id="same"), ScriptedCall("look", {"what": "b"}, id="same"), "done"]
    model = ScriptedModel(*again, ScriptedCall("look", {"what": "c"}, id="same"), "over")
    async with on_stage({"bot": talking(model)}) as stage:
        thread = Thread(stage.ann)
        await thread.ask("look twice")
        await thread.ask("and once more")
    assert sorted(thread.rules.calls.values()) == ['{"what":"a"}', '{"what":"b"}', '{"what":"c"}']
    told = [m["content"] for m in thread.messages if m["role"] == "tool"]
    assert told == ["saw a", "saw b", "saw c"]


async def test_calls_are_asked_about_by_interrupts_and_go_on_in_the_next_run():
    calls = [
        ScriptedCall("note", {"text": "x"}, id="x"),
        ScriptedCall("note", {"text": "y"}, id="y"),
        ScriptedCall("note", {"text": "z"}, id="z"),
    ]
    model = ScriptedModel(Reply("I note", calls=calls), "all noted")
    async with on_stage({"bot": talking(model)}) as stage:
        thread = Thread(stage.ann)
        await thread.ask("note three")
        x, y, z = thread.interrupts
        assert (x["toolCallId"], x["reason"], x["metadata"]["input"]) == ("x", "tool_call", {"text": "x"})
        # A client that leaves one out is asked for that one again; nothing is done meanwhile.
        end = await thread.ask(resume=[resolved(x, input={"text": "X"}), resolved(y, approved=False, reason="no y")])
        assert end["outcome"] == {"type": "interrupt", "interrupts": [z]}
        assert len(thread.events) == 2
        assert len(model.requests) == 1
        # A run that answers nothing is refused while it waits, whatever it says.
        status, rejected = await thread.refused(thread.input("never mind"))
        assert (status, rejected["code"]) == (409, "interrupted")
        assert z["id"] in rejected["message"]
        thread.messages.pop()
        end = await thread.ask(resume=[cancelled(z)])
        assert end["outcome"] == {"type": "success"}
        assert thread.events[0]["runId"] == "run-4"
        # What was answered is not answered again.
        status, rejected = await thread.refused({**thread.input(), "resume": [resolved(z)]})
        assert (status, rejected["code"]) == (409, "nothing_to_answer")
    seen = results(model)
    assert seen["x"] == "noted X"
    assert "no y" in seen["y"]
    assert "unanswered" in seen["z"]
    assert sorted(m["toolCallId"] for m in thread.messages if m["role"] == "tool") == ["x", "y", "z"]


async def test_tools_of_the_client_end_the_run_and_are_answered_by_the_next():
    calls = [ScriptedCall("pick_colour", {"of": "hat"}, id="p"), ScriptedCall("look", {"what": "hat"}, id="l")]
    model = ScriptedModel(Reply(calls=calls), "a red hat", "never")
    async with on_stage({"bot": talking(model)}) as stage:
        thread = Thread(stage.ann)
        end = await thread.ask("a hat", tools=[PICK])
        assert end["outcome"] == {"type": "success", "pendingToolCallIds": ["p"]}
        assert [e["toolCallId"] for e in thread.events if e["type"] == "TOOL_CALL_RESULT"] == ["l"]
        assert len(model.requests) == 1, "the model is not asked before the client has answered"
        offered = {spec.name: spec.input_schema for spec in model.requests[0].request.tools}
        assert offered["pick_colour"] == PICK["parameters"]
        thread.answer("p", "red")
        end = await thread.ask(tools=[PICK])
    assert end["result"]["text"] == "a red hat"
    assert results(model) == {"p": "red", "l": "saw hat"}


async def test_a_tool_of_the_client_beside_a_call_that_must_be_asked_about():
    both = [ScriptedCall("pick_colour", {"of": "hat"}, id="p"), ScriptedCall("note", {"text": "n"}, id="n")]
    again = [ScriptedCall("pick_colour", {"of": "coat"}, id="p")]
    model = ScriptedModel(Reply(calls=both), Reply(calls=again), "done")
    async with on_stage({"bot": talking(model)}) as stage:
        thread = Thread(stage.ann)
        await thread.ask("go", tools=[PICK])
        [request] = thread.interrupts
        assert request["toolCallId"] == "n"
        thread.answer("p", "", error="nobody picked")
        end = await thread.ask(resume=[resolved(request)], tools=[PICK])
        assert end["outcome"] == {"type": "success", "pendingToolCallIds": ["p~2"]}, "an answer is to one call"
        assert results(model) == {"p": "nobody picked", "n": "noted n"}
        thread.answer("p~2", [{"type": "text", "text": "blue"}])
        assert (await thread.ask(tools=[PICK]))["result"]["text"] == "done"


async def test_a_tool_of_the_client_does_not_take_the_place_of_one_of_the_agent():
    model = ScriptedModel(ScriptedCall("look", {"what": "it"}), "seen")
    async with on_stage({"bot": talking(model)}) as stage:
        thread = Thread(stage.ann)
        end = await thread.ask("look", tools=[{"name": "look", "description": "mine"}])
    assert end["outcome"] == {"type": "success"}
    assert thread.messages[-2]["content"] == "saw it"


async def test_what_a_client_brings_reaches_the_model_and_tools():
    model = ScriptedModel(ScriptedCall("whoami"), "hello")
    facts = [{"description": "The page that is open", "value": "/prices"}]
    picture = base64.b64encode(b"pixels").decode()
    parts = [
        {"type": "text", "text": "see"},
        {"type": "image", "source": {"type": "data", "value": picture, "mimeType": "image/png"}},
        {"type": "image", "source": {"type": "url", "value": "http://169.254.169.254/secret"}},
        {"type": "audio", "source": {"type": "file", "value": "file-1"}},
    ]
    async with on_stage({"bot": talking(model)}) as stage:
        thread = Thread(stage.ann)
        thread.messages += [
            {"id": "s", "role": "system", "content": "Be brief."},
            {"id": "d", "role": "developer", "content": "Be kind."},
            {"id": "r", "role": "reasoning", "content": "hm"},
            {"id": "a", "role": "activity", "activityType": "plan", "content": {"done": 1}},
            {"id": "p", "role": "user", "content": parts},
        ]
        await thread.ask(context=facts, state={"n": 1}, forwardedProps={"deep": [None]}, somethingNew=True)
    seen = model.requests[0].messages
    assert [m.role for m in seen] == ["system", "system", "system", "user"]
    assert texts(seen)[:2] == ["Be brief.", "Be kind."]
    assert "The page that is open:\n/prices" in seen[2].text
    assert [type(b) for b in seen[3].content].count(ImageBlock) == 1
    warned = [e["value"]["message"] for e in thread.events if e.get("name") == "mainspring.warning"]
    assert [w.split()[4] for w in warned] == ["image", "audio"], warned
    brought = next(m["content"] for m in thread.messages if m["role"] == "tool")
    assert json.loads(brought) == {"state": {"n": 1}, "forwardedProps": {"deep": [None]}}


async def test_a_failure_is_told_and_the_thread_goes_on():
    model = ScriptedModel(AuthenticationError("the key was refused"), "better now")
    async with on_stage({"bot": talking(model)}) as stage:
        thread = Thread(stage.ann)
        end = await thread.ask("hello")
        assert end["type"] == "RUN_ERROR"
        assert "the key was refused" in end["message"]
        assert (await thread.ask("again"))["result"]["text"] == "better now"


async def test_a_run_that_cannot_be_done_at_all_is_told_too():
    def broken(_: DurableSteps) -> Agent:
        raise RuntimeError("no such thing")

    async with on_stage({"bot": broken}) as stage:
        end = await Thread(stage.ann).ask("hello")
    assert end["type"] == "RUN_ERROR"
    assert "no such thing" in end["message"]


async def until_state(stage: Stage, location: str, *states: str) -> str:
    """The run's state, once it is one of these."""
    while (state := (await stage.ann.get(location[1:]))[1]["state"]) not in states:
        pass
    return state


@pytest.mark.parametrize("on_disconnect", ["stop", "continue"])
async def test_a_client_that_leaves_stops_its_run_or_lets_it_go_on(on_disconnect: str):
    gate = Gate("the end")
    async with on_stage({"bot": scripted(gate)}) as stage:
        thread = Thread(stage.ann, f"?on_disconnect={on_disconnect}")
        async with thread.post(thread.input("hello")) as answer:
            location = answer.headers["location"]
            await gate.asked.wait()
        if on_disconnect == "continue":
            while "mainspring_followers 0" not in (await stage.ann.get("metrics"))[1]:
                pass
            gate.open.set()
        await until_state(stage, location, "done")
        result = (await stage.ann.get(f"{location[1:]}/result"))[1]
    assert result["status"] == ("aborted" if on_disconnect == "stop" else "completed")


async def test_a_client_that_was_cut_off_finds_its_run_where_it_was_said_to_be():
    model = ScriptedModel("hello you")
    async with on_stage({"bot": talking(model)}) as stage:
        thread = Thread(stage.ann)
        await thread.ask("hello")
        run = thread.location.rpartition("/")[2]
        told = [e.data async for e in stage.ann.follow(run, "?format=ag-ui")]
        status, rejected = await thread.refused({**thread.input(), "runId": "run-1", "messages": thread.messages[:1]})
        assert (status, rejected["code"]) == (409, "known_run")
        assert run in rejected["message"]
        assert (await stage.ben.get(thread.location[1:]))[0] == 404
    assert [e for e in told if e["type"] == "TEXT_MESSAGE_CONTENT"][-1]["delta"] == "hello you"


async def test_the_service_ends_while_a_client_waits_and_its_run_is_not_stopped_for_that():
    gate = Gate("the end")
    async with on_stage({"bot": scripted(gate)}) as stage:
        thread = Thread(stage.ann)
        async with thread.post(thread.input("hello")) as answer:
            await gate.asked.wait()
            stage.state.shutdown_started.set()
            assert b"the service is shutting down" in await answer.content.read()
        assert await until_state(stage, answer.headers["location"], "running", "done") == "running"
        gate.open.set()
        assert await until_state(stage, answer.headers["location"], "done")


async def test_a_run_has_begun_for_its_client_before_anybody_works_at_it():
    gate = Gate("never")
    async with on_stage({"bot": scripted(gate)}, options=ServiceOptions(concurrency=1)) as stage:
        await stage.ann.start()
        await gate.asked.wait()
        thread = Thread(stage.ann)
        async for event in thread.stream(thread.input("hello")):
            assert event["type"] == "RUN_STARTED"
            assert (await stage.ann.get(thread.location[1:]))[1]["state"] == "waiting"
            break
        thread.rules.running = False


async def test_interrupted_runs_that_nobody_answers_count_and_the_refusal_says_so():
    model = ScriptedModel(ScriptedCall("note", {"text": "x"}), loop=True)
    async with on_stage({"bot": talking(model)}, options=ServiceOptions(runs=2)) as stage:
        for name in ("one", "two"):
            await Thread(stage.ann, id=name).ask("note")
        third = Thread(stage.ann, id="three")
        status, rejected = await third.refused(third.input("note"))
        assert (status, rejected["code"]) == (429, "too_many_runs")
        assert "2 need approval" in rejected["message"]


USER = [{"id": "1", "role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ([], 422, "Expected `object`"),
        ({"threadId": "t", "messages": USER}, 422, "runId"),
        ({"threadId": "", "runId": "r", "messages": USER}, 422, "threadId"),
        ({"threadId": "t", "runId": "r", "messages": None}, 422, "messages"),
        ({"threadId": "t", "runId": "r", "messages": []}, 409, "cannot start"),
        ({"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "user", "content": " "}]}, 409, "cannot start"),
        ({"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "assistant", "content": "a"}]}, 409, "must end with"),
        ({"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "wizard", "content": "a"}]}, 422, "role"),
        ({"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "user", "content": [{"type": "odd"}]}]}, 422, "type"),
        ({"threadId": "t", "runId": "r", "messages": USER, "tools": [{"name": "a b", "description": ""}]}, 422, "tools"),
        ({"threadId": "t", "runId": "r", "messages": USER, "tools": [PICK, PICK]}, 422, "the same name"),
        (
            {"threadId": "t", "runId": "r", "messages": USER, "tools": [{**PICK, "parameters": {"type": "string"}}]},
            422, "type object",
        ),
        ({"threadId": "t", "runId": "r", "messages": USER, "resume": [{"interruptId": "a"}]}, 422, "status"),
        (
            {"threadId": "t", "runId": "r", "messages": USER,
             "resume": [{"interruptId": "a/b", "status": "resolved", "payload": {"approved": "yes"}}]},
            422, "payload.approved",
        ),
        (
            {"threadId": "t", "runId": "r", "messages": USER, "resume": [{"interruptId": "a/b", "status": "cancelled"}] * 2},
            422, "two answers",
        ),
    ],
)  # fmt: skip
async def test_inputs_that_begin_nothing(body: Any, status: int, says: str):
    async with on_stage({"bot": scripted("never")}) as stage:
        rejected = await Thread(stage.ann).refused(body)
        assert rejected[0] == status, rejected
        assert says in rejected[1]["message"]
        assert (await stage.ann.get("v1/runs"))[1] == {"runs": []}


async def test_another_tenants_interrupts_and_agents_that_are_not_there():
    model = ScriptedModel(ScriptedCall("note", {"text": "x"}), "hello ben")
    async with on_stage({"bot": talking(model)}) as stage:
        ann, ben = Thread(stage.ann), Thread(stage.ben)
        await ann.ask("note")
        given = ben.input("hello", resume=[resolved(ann.interrupts[0])])
        assert [e async for e in ben.stream(given)][1]["value"]["message"].startswith("No paused call")
        waits = (await stage.ann.get(ann.location[1:]))[1]
        assert (waits["state"], len(waits["waiting"])) == ("paused", 1)
        other = Thread(stage.ann, "?agent=nobody", "other")
        status, rejected = await other.refused(other.input("hi"))
        assert (status, rejected["code"]) == (404, "unknown_agent")


def with_a_child(steps: DurableSteps) -> Agent:
    """An agent whose sub-agent has to ask."""
    child = ScriptedModel(ScriptedCall("note", {"text": "from below"}, id="c"), "noted below")
    parent = ScriptedModel(ScriptedCall("spawn", {"task": "note it", "agent": "writer"}, id="s"), "all done")
    permissions = Permissions(ask=["note"], unattended="pause")
    subagents = Subagents([AgentDefinition(name="writer", model=child)])
    return Agent(parent, tools=[note], permissions=permissions, subagents=subagents, steps=steps)


@pytest.mark.parametrize("yes", [True, False])
async def test_a_sub_agents_question_reaches_a_client_and_its_answer_the_sub_agent(yes: bool):
    async with on_stage({"bot": with_a_child}) as stage:
        thread = Thread(stage.ann)
        await thread.ask("go")
        [request] = thread.interrupts
        assert "toolCallId" not in request
        assert request["metadata"] == {"tool": "note", "input": {"text": "from below"}}
        assert request["message"].startswith("writer")
        end = await thread.ask(resume=[resolved(request, approved=yes)])
        assert end["result"]["text"] == "all done"
        result = (await stage.ann.get(f"{thread.location[1:]}/result"))[1]
    assert result["status"] == "completed"
    assert [m["content"] for m in thread.messages if m["role"] == "tool"] == ["noted below"]


async def test_a_sub_agents_question_over_the_service_itself():
    async with on_stage({"bot": with_a_child}) as stage:
        run = await stage.ann.start("go")
        [request] = (await stage.ann.until(run, "paused"))["waiting"]
        assert (request["tool"], request["input"]) == ("note", {"text": "from below"})
        assert request["call_id"] == f"{request['agent']}/c"
        for body, status in (({"call_id": "c"}, 409), ({"call_id": request["call_id"]}, 202)):
            assert (await stage.ann.post(f"v1/runs/{run}/approve", body))[0] == status
        assert (await stage.ann.ended(run))["text"] == "all done"
        told = [e.data async for e in stage.ann.follow(run)]
    asks = [(e["agent"], [c["call"]["id"] for c in e["calls"]]) for e in told if e["type"] == "asked"]
    assert asks == [(request["agent"], [request["call_id"]]), (request["agent"], [])]
