"""AG-UI clients start runs, answer approvals, run their own tools, and disconnect."""

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
from tests.unit.app.servers.ag_ui.client import Thread, cancel, resolve
from tests.unit.app.servers.http.harness import Gate, RunningServer, note, run_server, script_agent

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
    """Return the data that the client sent."""
    return json.dumps(ctx.extra["client"])


def make_factory(model: ScriptedModel, **options: Any) -> Factory:
    """Return a factory of agents that share one model."""

    def make_agent(steps: DurableSteps) -> Agent:
        permissions = Permissions(allow=["look", "whoami"], ask=["note"], unattended="pause")
        return Agent(model, tools=[note, look, whoami], permissions=permissions, steps=steps, **options)

    return make_agent


def read_texts(messages: Sequence[Any]) -> list[str]:
    return [m.text for m in messages if isinstance(m, Message) and m.text]


def read_results(model: ScriptedModel) -> dict[str, str]:
    """Return the tool results in the last request of the model."""
    return {r.tool_use_id: str(r.content) for m in model.requests[-1].messages for r in m.tool_results}


async def test_thread_with_several_turns_and_a_tool():
    """The model sees the conversation that the client sends, and the client gets only new messages."""
    model = ScriptedModel(Reply("let me see", calls=[ScriptedCall("look", {"what": "it"}, id="c")]), "a cat", "grey")
    async with run_server({"bot": make_factory(model)}) as server:
        thread = Thread(server.ann)
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
    assert read_texts(seen) == ["what is it?", "let me see", "a cat", "which colour?"]
    assert read_results(model) == {"c": "saw it"}


async def test_repeated_call_ids_are_distinct_for_the_client():
    again = [ScriptedCall("look", {"what": "a"}, id="same"), ScriptedCall("look", {"what": "b"}, id="same"), "done"]
    model = ScriptedModel(*again, ScriptedCall("look", {"what": "c"}, id="same"), "over")
    async with run_server({"bot": make_factory(model)}) as server:
        thread = Thread(server.ann)
        await thread.ask("look twice")
        await thread.ask("and once more")
    assert sorted(thread.rules.calls.values()) == ['{"what":"a"}', '{"what":"b"}', '{"what":"c"}']
    events = [m["content"] for m in thread.messages if m["role"] == "tool"]
    assert events == ["saw a", "saw b", "saw c"]


async def test_approvals_are_interrupts_that_the_next_run_resolves():
    calls = [
        ScriptedCall("note", {"text": "x"}, id="x"),
        ScriptedCall("note", {"text": "y"}, id="y"),
        ScriptedCall("note", {"text": "z"}, id="z"),
    ]
    model = ScriptedModel(Reply("I note", calls=calls), "all noted")
    async with run_server({"bot": make_factory(model)}) as server:
        thread = Thread(server.ann)
        await thread.ask("note three")
        x, y, z = thread.interrupts
        assert (x["toolCallId"], x["reason"], x["metadata"]["input"]) == ("x", "tool_call", {"text": "x"})
        # Interrupts without an answer are sent again, and the run does not continue.
        end = await thread.ask(resume=[resolve(x, input={"text": "X"}), resolve(y, approved=False, reason="no y")])
        assert end["outcome"] == {"type": "interrupt", "interrupts": [z]}
        assert len(thread.events) == 2
        assert len(model.requests) == 1
        # A run without answers is rejected while the previous one is paused.
        status, rejected = await thread.post_rejected(thread.make_input("never mind"))
        assert (status, rejected["code"]) == (409, "interrupted")
        assert z["id"] in rejected["message"]
        thread.messages.pop()
        end = await thread.ask(resume=[cancel(z)])
        assert end["outcome"] == {"type": "success"}
        assert thread.events[0]["runId"] == "run-4"
        # An interrupt cannot be answered twice.
        status, rejected = await thread.post_rejected({**thread.make_input(), "resume": [resolve(z)]})
        assert (status, rejected["code"]) == (409, "nothing_to_answer")
    seen = read_results(model)
    assert seen["x"] == "noted X"
    assert "no y" in seen["y"]
    assert "unanswered" in seen["z"]
    assert sorted(m["toolCallId"] for m in thread.messages if m["role"] == "tool") == ["x", "y", "z"]


async def test_client_tools_end_the_run_and_the_next_run_has_their_results():
    calls = [ScriptedCall("pick_colour", {"of": "hat"}, id="p"), ScriptedCall("look", {"what": "hat"}, id="l")]
    model = ScriptedModel(Reply(calls=calls), "a red hat", "never")
    async with run_server({"bot": make_factory(model)}) as server:
        thread = Thread(server.ann)
        end = await thread.ask("a hat", tools=[PICK])
        assert end["outcome"] == {"type": "success", "pendingToolCallIds": ["p"]}
        assert [e["toolCallId"] for e in thread.events if e["type"] == "TOOL_CALL_RESULT"] == ["l"]
        assert len(model.requests) == 1, "the model is not called before the client returns its result"
        offered = {spec.name: spec.input_schema for spec in model.requests[0].request.tools}
        assert offered["pick_colour"] == PICK["parameters"]
        thread.add_tool_result("p", "red")
        end = await thread.ask(tools=[PICK])
    assert end["result"]["text"] == "a red hat"
    assert read_results(model) == {"p": "red", "l": "saw hat"}


async def test_client_tool_and_approval_in_the_same_turn():
    both = [ScriptedCall("pick_colour", {"of": "hat"}, id="p"), ScriptedCall("note", {"text": "n"}, id="n")]
    again = [ScriptedCall("pick_colour", {"of": "coat"}, id="p")]
    model = ScriptedModel(Reply(calls=both), Reply(calls=again), "done")
    async with run_server({"bot": make_factory(model)}) as server:
        thread = Thread(server.ann)
        await thread.ask("go", tools=[PICK])
        [request] = thread.interrupts
        assert request["toolCallId"] == "n"
        thread.add_tool_result("p", "", error="nobody picked")
        end = await thread.ask(resume=[resolve(request)], tools=[PICK])
        assert end["outcome"] == {"type": "success", "pendingToolCallIds": ["p~2"]}, "a result belongs to one call"
        assert read_results(model) == {"p": "nobody picked", "n": "noted n"}
        thread.add_tool_result("p~2", [{"type": "text", "text": "blue"}])
        assert (await thread.ask(tools=[PICK]))["result"]["text"] == "done"


async def test_client_tool_does_not_replace_an_agent_tool():
    model = ScriptedModel(ScriptedCall("look", {"what": "it"}), "seen")
    async with run_server({"bot": make_factory(model)}) as server:
        thread = Thread(server.ann)
        end = await thread.ask("look", tools=[{"name": "look", "description": "mine"}])
    assert end["outcome"] == {"type": "success"}
    assert thread.messages[-2]["content"] == "saw it"


async def test_messages_context_and_state_of_the_client_are_passed_on():
    model = ScriptedModel(ScriptedCall("whoami"), "hello")
    facts = [{"description": "The page that is open", "value": "/prices"}]
    picture = base64.b64encode(b"pixels").decode()
    parts = [
        {"type": "text", "text": "see"},
        {"type": "image", "source": {"type": "data", "value": picture, "mimeType": "image/png"}},
        {"type": "image", "source": {"type": "url", "value": "http://169.254.169.254/secret"}},
        {"type": "audio", "source": {"type": "file", "value": "file-1"}},
    ]
    async with run_server({"bot": make_factory(model)}) as server:
        thread = Thread(server.ann)
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
    assert read_texts(seen)[:2] == ["Be brief.", "Be kind."]
    assert "The page that is open:\n/prices" in seen[2].text
    assert [type(b) for b in seen[3].content].count(ImageBlock) == 1
    warned = [e["value"]["message"] for e in thread.events if e.get("name") == "mainspring.warning"]
    assert [w.split()[4] for w in warned] == ["image", "audio"], warned
    client_data = next(m["content"] for m in thread.messages if m["role"] == "tool")
    assert json.loads(client_data) == {"state": {"n": 1}, "forwardedProps": {"deep": [None]}}


async def test_failed_run_is_reported_and_the_thread_continues():
    model = ScriptedModel(AuthenticationError("the key was refused"), "better now")
    async with run_server({"bot": make_factory(model)}) as server:
        thread = Thread(server.ann)
        end = await thread.ask("hello")
        assert end["type"] == "RUN_ERROR"
        assert "the key was refused" in end["message"]
        assert (await thread.ask("again"))["result"]["text"] == "better now"


async def test_error_of_the_agent_factory_is_reported():
    def broken(_: DurableSteps) -> Agent:
        raise RuntimeError("no such thing")

    async with run_server({"bot": broken}) as server:
        end = await Thread(server.ann).ask("hello")
    assert end["type"] == "RUN_ERROR"
    assert "no such thing" in end["message"]


async def wait_for_state(server: RunningServer, location: str, *states: str) -> str:
    """Wait for one of the states and return it."""
    while (state := (await server.ann.get(location[1:]))[1]["state"]) not in states:
        pass
    return state


@pytest.mark.parametrize("on_disconnect", ["stop", "continue"])
async def test_disconnect_stops_or_continues_the_run(on_disconnect: str):
    gate = Gate("the end")
    async with run_server({"bot": script_agent(gate)}) as server:
        thread = Thread(server.ann, f"?on_disconnect={on_disconnect}")
        async with thread.post(thread.make_input("hello")) as answer:
            location = answer.headers["location"]
            await gate.asked.wait()
        if on_disconnect == "continue":
            while "mainspring_followers 0" not in (await server.ann.get("metrics"))[1]:
                pass
            gate.open.set()
        await wait_for_state(server, location, "done")
        result = (await server.ann.get(f"{location[1:]}/result"))[1]
    assert result["status"] == ("aborted" if on_disconnect == "stop" else "completed")


async def test_disconnected_client_can_find_its_run():
    model = ScriptedModel("hello you")
    async with run_server({"bot": make_factory(model)}) as server:
        thread = Thread(server.ann)
        await thread.ask("hello")
        run = thread.location.rpartition("/")[2]
        events = [e.data async for e in server.ann.follow(run, "?format=ag-ui")]
        status, rejected = await thread.post_rejected(
            {**thread.make_input(), "runId": "run-1", "messages": thread.messages[:1]}
        )
        assert (status, rejected["code"]) == (409, "known_run")
        assert run in rejected["message"]
        assert (await server.ben.get(thread.location[1:]))[0] == 404
    assert [e for e in events if e["type"] == "TEXT_MESSAGE_CONTENT"][-1]["delta"] == "hello you"


async def test_shutdown_ends_the_stream_but_not_the_run():
    gate = Gate("the end")
    async with run_server({"bot": script_agent(gate)}) as server:
        thread = Thread(server.ann)
        async with thread.post(thread.make_input("hello")) as answer:
            await gate.asked.wait()
            server.state.shutdown_started.set()
            assert b"the service is shutting down" in await answer.content.read()
        assert await wait_for_state(server, answer.headers["location"], "running", "done") == "running"
        gate.open.set()
        assert await wait_for_state(server, answer.headers["location"], "done")


async def test_run_started_is_sent_before_a_worker_takes_the_run():
    gate = Gate("never")
    async with run_server({"bot": script_agent(gate)}, options=ServiceOptions(concurrency=1)) as server:
        await server.ann.start()
        await gate.asked.wait()
        thread = Thread(server.ann)
        async for event in thread.stream(thread.make_input("hello")):
            assert event["type"] == "RUN_STARTED"
            assert (await server.ann.get(thread.location[1:]))[1]["state"] == "waiting"
            break
        thread.rules.running = False


async def test_interrupted_runs_count_toward_the_limit():
    model = ScriptedModel(ScriptedCall("note", {"text": "x"}), loop=True)
    async with run_server({"bot": make_factory(model)}, options=ServiceOptions(runs=2)) as server:
        for name in ("one", "two"):
            await Thread(server.ann, id=name).ask("note")
        third = Thread(server.ann, id="three")
        status, rejected = await third.post_rejected(third.make_input("note"))
        assert (status, rejected["code"]) == (429, "too_many_runs")
        assert "2 need approval" in rejected["message"]


USER = [{"id": "1", "role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("body", "status", "message"),
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
async def test_invalid_input_starts_no_run(body: Any, status: int, message: str):
    async with run_server({"bot": script_agent("never")}) as server:
        rejected = await Thread(server.ann).post_rejected(body)
        assert rejected[0] == status, rejected
        assert message in rejected[1]["message"]
        assert (await server.ann.get("v1/runs"))[1] == {"runs": []}


async def test_foreign_interrupts_and_unknown_agents_are_rejected():
    model = ScriptedModel(ScriptedCall("note", {"text": "x"}), "hello ben")
    async with run_server({"bot": make_factory(model)}) as server:
        ann, ben = Thread(server.ann), Thread(server.ben)
        await ann.ask("note")
        given = ben.make_input("hello", resume=[resolve(ann.interrupts[0])])
        assert [e async for e in ben.stream(given)][1]["value"]["message"].startswith("No paused call")
        waits = (await server.ann.get(ann.location[1:]))[1]
        assert (waits["state"], len(waits["waiting"])) == ("paused", 1)
        other = Thread(server.ann, "?agent=nobody", "other")
        status, rejected = await other.post_rejected(other.make_input("hi"))
        assert (status, rejected["code"]) == (404, "unknown_agent")


def make_agent_with_subagent(steps: DurableSteps) -> Agent:
    """Return an agent whose subagent needs an approval."""
    child = ScriptedModel(ScriptedCall("note", {"text": "from below"}, id="c"), "noted below")
    parent = ScriptedModel(ScriptedCall("spawn", {"task": "note it", "agent": "writer"}, id="s"), "all done")
    permissions = Permissions(ask=["note"], unattended="pause")
    subagents = Subagents([AgentDefinition(name="writer", model=child)])
    return Agent(parent, tools=[note], permissions=permissions, subagents=subagents, steps=steps)


@pytest.mark.parametrize("yes", [True, False])
async def test_subagent_approval_reaches_the_client(yes: bool):
    async with run_server({"bot": make_agent_with_subagent}) as server:
        thread = Thread(server.ann)
        await thread.ask("go")
        [request] = thread.interrupts
        assert "toolCallId" not in request
        assert request["metadata"] == {"tool": "note", "input": {"text": "from below"}}
        assert request["message"].startswith("writer")
        end = await thread.ask(resume=[resolve(request, approved=yes)])
        assert end["result"]["text"] == "all done"
        result = (await server.ann.get(f"{thread.location[1:]}/result"))[1]
    assert result["status"] == "completed"
    assert [m["content"] for m in thread.messages if m["role"] == "tool"] == ["noted below"]


async def test_subagent_approval_over_the_runs_api():
    async with run_server({"bot": make_agent_with_subagent}) as server:
        run = await server.ann.start("go")
        [request] = (await server.ann.wait_for_state(run, "paused"))["waiting"]
        assert (request["tool"], request["input"]) == ("note", {"text": "from below"})
        assert request["call_id"] == f"{request['agent']}/c"
        for body, status in (({"call_id": "c"}, 409), ({"call_id": request["call_id"]}, 202)):
            assert (await server.ann.post(f"v1/runs/{run}/approve", body))[0] == status
        assert (await server.ann.wait_for_result(run))["text"] == "all done"
        events = [e.data async for e in server.ann.follow(run)]
    approvals = [e for e in events if e["type"].startswith("approval_")]
    assert [(e["type"], e["id"]) for e in approvals] == [
        ("approval_request", request["call_id"]),
        ("approval_result", request["call_id"]),
    ]
    assert (approvals[0]["agent"], approvals[1]["decision"]) == (request["agent"], "once")
