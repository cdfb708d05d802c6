"""Runs over HTTP: requests, responses, and events."""

from contextlib import aclosing

import pytest

from mainspring.models import ModelRequest
from mainspring.testing import Reply, ScriptedCall
from tests.unit.app.servers.http.harness import Gate, run_server, script_agent


async def test_run_can_be_started_followed_and_read():
    async with run_server({"bot": script_agent("Hi there")}) as server:
        status, run = await server.ann.post("v1/runs", {"prompt": "hello"})
        assert (status, run["agent"], run["id"].partition(".")[0]) == (201, "bot", "ann")
        events = [event async for event in server.ann.follow(run["id"])]
        assert [e.name for e in events if e.name not in ("text_delta", "turn_start")] == [
            "attempt_start",
            "message_end",
            "message_end",
            "agent_end",
        ]
        assert [e.id for e in events] == [str(n) for n in range(1, len(events) + 1)]
        assert "".join(e.data["text"] for e in events if e.name == "text_delta") == "Hi there"
        result = await server.ann.wait_for_result(run["id"])
        assert (result["status"], result["text"], result["turns"]) == ("completed", "Hi there", 1)
        status, listed = await server.ann.get("v1/runs")
        assert [(r["id"], r["state"], r["title"]) for r in listed["runs"]] == [(run["id"], "done", "hello")]
        assert (await server.ann.get("v1/runs?state=running"))[1] == {"runs": []}
        assert await server.ann.get("v1/agents") == (200, {"agents": [{"name": "bot"}]})


async def test_follower_resumes_after_the_last_event_id():
    gate = Gate("the end")
    async with run_server(
        {"bot": script_agent(Reply("first", calls=[ScriptedCall("note", {"text": "x"})]), gate)}
    ) as server:
        run = await server.ann.start()
        seen: list[str] = []
        async with aclosing(server.ann.follow(run)) as events:
            async for event in events:
                seen.append(event.id)
                if event.name == "approval_request":
                    break
        waiting = (await server.ann.get(f"v1/runs/{run}"))[1]["waiting"]
        await server.ann.post(f"v1/runs/{run}/approve", {"call_id": waiting[0]["call_id"]})
        gate.open.set()
        more = [e async for e in server.ann.follow(run, last_event_id=seen[-1])]
        again = [e async for e in server.ann.follow(run, f"?after={seen[-1]}")]
        assert [e.id for e in more] == [str(n) for n in range(int(seen[-1]) + 1, int(seen[-1]) + 1 + len(more))]
        assert [e.id for e in again] == [e.id for e in more]
        assert more[-1].name == "agent_end"
        # After the last event, a browser that reconnects automatically gets 204, which makes it stop.
        assert (await server.ann.get(f"v1/runs/{run}/events", last_event_id=more[-1].id))[0] == 204
        for number in (more[-1].id, str(int(more[-1].id) + 5)):
            assert (await server.ann.get(f"v1/runs/{run}/events?after={number}"))[0] == 204


@pytest.mark.parametrize("answer", ["approve", "deny"])
async def test_run_pauses_for_an_approval(answer: str):
    script = [Reply(calls=[ScriptedCall("note", {"text": "x"}, id="c1")]), "over"]
    async with run_server({"bot": script_agent(*script)}) as server:
        run = await server.ann.start()
        paused = await server.ann.wait_for_state(run, "paused")
        assert [(w["tool"], w["input"]) for w in paused["waiting"]] == [("note", {"text": "x"})]
        assert paused["waiting"][0]["reason"]
        status, rejected = await server.ann.post(f"v1/runs/{run}/{answer}", {"call_id": "other"})
        assert (status, rejected["code"]) == (409, "not_waiting")
        call = paused["waiting"][0]["call_id"]
        assert (await server.ann.post(f"v1/runs/{run}/{answer}", {"call_id": call}))[0] == 202
        assert (await server.ann.wait_for_result(run))["text"] == "over"
        ended = [e.data["result"] async for e in server.ann.follow(run) if e.name == "tool_execution_end"]
        assert ("noted x" in str(ended[0]["content"])) == (answer == "approve")


async def test_call_can_be_approved_with_edited_arguments():
    script = [Reply(calls=[ScriptedCall("note", {"text": "x"}, id="c1")]), "over"]
    async with run_server({"bot": script_agent(*script)}) as server:
        run = await server.ann.start()
        call = (await server.ann.wait_for_state(run, "paused"))["waiting"][0]["call_id"]
        await server.ann.post(f"v1/runs/{run}/approve", {"call_id": call, "input": {"text": "y"}})
        await server.ann.wait_for_result(run)
        results = [e.data["result"]["content"] async for e in server.ann.follow(run) if e.name == "tool_execution_end"]
        assert "noted y" in str(results)


async def test_steering_and_follow_up_messages_reach_the_run():
    first, second = Gate("one"), Gate("two")
    async with run_server({"bot": script_agent(first, second, "three")}) as server:
        run = await server.ann.start()
        await first.asked.wait()
        assert (await server.ann.post(f"v1/runs/{run}/steer", {"text": "left"}))[0] == 202
        first.open.set()
        await second.asked.wait()
        assert (await server.ann.post(f"v1/runs/{run}/follow-up", {"text": "and then"}))[0] == 202
        second.open.set()
        assert (await server.ann.wait_for_result(run))["text"] == "three"
        texts = [
            e.data["message"]["content"][0]["text"] async for e in server.ann.follow(run) if e.name == "message_end"
        ]
        assert texts == ["hello", "one", "left", "two", "and then", "three"]
        status, rejected = await server.ann.post(f"v1/runs/{run}/steer", {"text": "too late"})
        assert (status, rejected["code"]) == (409, "over")


async def test_running_and_paused_runs_can_be_aborted():
    gate = Gate()
    asking = [Reply(calls=[ScriptedCall("note", {"text": "x"})]), "never"]
    async with run_server({"works": script_agent(gate), "asks": script_agent(*asking)}) as server:
        run = await server.ann.start(agent="works")
        await gate.asked.wait()
        await server.ann.post(f"v1/runs/{run}/abort", {"reason": "enough"})
        assert (await server.ann.wait_for_result(run))["status"] == "aborted"
        run = await server.ann.start(agent="asks")
        await server.ann.wait_for_state(run, "paused")
        await server.ann.post(f"v1/runs/{run}/abort", {})
        assert (await server.ann.wait_for_result(run))["status"] in ("aborted", "denied")


async def test_fork_continues_the_conversation_and_keeps_the_run():
    seen: list[list[str]] = []

    def record_request(request: ModelRequest) -> str:
        seen.append([m.text for m in request.messages])
        return f"answer {len(seen)}"

    async with run_server({"bot": script_agent(record_request, record_request, record_request)}) as server:
        run = await server.ann.start("first")
        await server.ann.wait_for_result(run)
        before = [e.id async for e in server.ann.follow(run)]
        status, fork = await server.ann.post(f"v1/runs/{run}/fork", {"prompt": "second"})
        assert (status, fork["title"]) == (201, "second")
        await server.ann.wait_for_result(fork["id"])
        _, third = await server.ann.post(f"v1/runs/{fork['id']}/fork", {"prompt": "other", "at": 2})
        await server.ann.wait_for_result(third["id"])
        assert seen == [["first"], ["first", "answer 1", "second"], ["first", "answer 1", "other"]]
        assert [e.id async for e in server.ann.follow(run)] == before
        status, rejected = await server.ann.post(f"v1/runs/{run}/fork", {"prompt": "x", "at": 99})
        assert (status, rejected["code"]) == (409, "unknown_message")


async def test_start_with_a_key_is_idempotent():
    async with run_server({"bot": script_agent("a")}) as server:
        first = await server.ann.post("v1/runs", {"prompt": "hello", "key": "job-1"})
        again = await server.ann.post("v1/runs", {"prompt": "hello", "key": "job-1"})
        assert (first[0], again[0]) == (201, 200)
        assert first[1]["id"] == again[1]["id"] == "ann.job-1"
        assert (await server.ben.post("v1/runs", {"prompt": "hello", "key": "job-1"}))[1]["id"] == "ben.job-1"


async def test_failed_run_reports_its_error():
    async with run_server({"bot": script_agent()}) as server:
        run = await server.ann.start()
        result = await server.ann.wait_for_result(run)
        assert result["status"] == "error"
        assert result["error"]
        assert (await server.ann.get(f"v1/runs/{run}/result"))[0] == 200
