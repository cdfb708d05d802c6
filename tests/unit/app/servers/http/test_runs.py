"""Runs over HTTP: what is asked, what comes back, and what followers are told."""

from contextlib import aclosing

import pytest

from mainspring.models import ModelRequest
from mainspring.testing import Reply, ScriptedCall
from tests.unit.app.servers.http.harness import Gate, on_stage, scripted


async def test_a_run_is_started_followed_and_its_result_read():
    async with on_stage({"bot": scripted("Hi there")}) as stage:
        status, run = await stage.ann.post("v1/runs", {"prompt": "hello"})
        assert (status, run["agent"], run["id"].partition(".")[0]) == (201, "bot", "ann")
        told = [event async for event in stage.ann.follow(run["id"])]
        assert [e.name for e in told if e.name not in ("text", "turn")] == ["attempt", "message", "message", "end"]
        assert [e.id for e in told] == [str(n) for n in range(1, len(told) + 1)]
        assert "".join(e.data["text"] for e in told if e.name == "text") == "Hi there"
        result = await stage.ann.ended(run["id"])
        assert (result["status"], result["text"], result["turns"]) == ("completed", "Hi there", 1)
        status, listed = await stage.ann.get("v1/runs")
        assert [(r["id"], r["state"], r["title"]) for r in listed["runs"]] == [(run["id"], "done", "hello")]
        assert (await stage.ann.get("v1/runs?state=running"))[1] == {"runs": []}
        assert await stage.ann.get("v1/agents") == (200, {"agents": [{"name": "bot"}]})


async def test_a_follower_comes_back_by_the_id_of_the_last_event():
    gate = Gate("the end")
    async with on_stage({"bot": scripted(Reply("first", calls=[ScriptedCall("note", {"text": "x"})]), gate)}) as stage:
        run = await stage.ann.start()
        seen: list[str] = []
        async with aclosing(stage.ann.follow(run)) as events:
            async for event in events:
                seen.append(event.id)
                if event.name == "asked":
                    break
        waiting = (await stage.ann.get(f"v1/runs/{run}"))[1]["waiting"]
        await stage.ann.post(f"v1/runs/{run}/approve", {"call_id": waiting[0]["call_id"]})
        gate.open.set()
        more = [e async for e in stage.ann.follow(run, last_event_id=seen[-1])]
        again = [e async for e in stage.ann.follow(run, f"?after={seen[-1]}")]
        assert [e.id for e in more] == [str(n) for n in range(int(seen[-1]) + 1, int(seen[-1]) + 1 + len(more))]
        assert [e.id for e in again] == [e.id for e in more]
        assert more[-1].name == "end"
        # All was told: a browser that comes back by itself is told to stay away.
        assert (await stage.ann.get(f"v1/runs/{run}/events", last_event_id=more[-1].id))[0] == 204
        for number in (more[-1].id, str(int(more[-1].id) + 5)):
            assert (await stage.ann.get(f"v1/runs/{run}/events?after={number}"))[0] == 204


@pytest.mark.parametrize("answer", ["approve", "deny"])
async def test_a_call_that_asks_pauses_the_run_until_it_is_answered(answer: str):
    script = [Reply(calls=[ScriptedCall("note", {"text": "x"}, id="c1")]), "over"]
    async with on_stage({"bot": scripted(*script)}) as stage:
        run = await stage.ann.start()
        paused = await stage.ann.until(run, "paused")
        assert [(w["tool"], w["input"]) for w in paused["waiting"]] == [("note", {"text": "x"})]
        assert paused["waiting"][0]["reason"]
        status, rejected = await stage.ann.post(f"v1/runs/{run}/{answer}", {"call_id": "other"})
        assert (status, rejected["code"]) == (409, "not_waiting")
        call = paused["waiting"][0]["call_id"]
        assert (await stage.ann.post(f"v1/runs/{run}/{answer}", {"call_id": call}))[0] == 202
        assert (await stage.ann.ended(run))["text"] == "over"
        ended = [e.data["result"] async for e in stage.ann.follow(run) if e.name == "tool_end"]
        assert ("noted x" in str(ended[0]["content"])) == (answer == "approve")


async def test_a_call_is_made_with_other_arguments():
    script = [Reply(calls=[ScriptedCall("note", {"text": "x"}, id="c1")]), "over"]
    async with on_stage({"bot": scripted(*script)}) as stage:
        run = await stage.ann.start()
        call = (await stage.ann.until(run, "paused"))["waiting"][0]["call_id"]
        await stage.ann.post(f"v1/runs/{run}/approve", {"call_id": call, "input": {"text": "y"}})
        await stage.ann.ended(run)
        results = [e.data["result"]["content"] async for e in stage.ann.follow(run) if e.name == "tool_end"]
        assert "noted y" in str(results)


async def test_steering_and_following_up_reach_the_run():
    first, second = Gate("one"), Gate("two")
    async with on_stage({"bot": scripted(first, second, "three")}) as stage:
        run = await stage.ann.start()
        await first.asked.wait()
        assert (await stage.ann.post(f"v1/runs/{run}/steer", {"text": "left"}))[0] == 202
        first.open.set()
        await second.asked.wait()
        assert (await stage.ann.post(f"v1/runs/{run}/follow-up", {"text": "and then"}))[0] == 202
        second.open.set()
        assert (await stage.ann.ended(run))["text"] == "three"
        texts = [e.data["message"]["content"][0]["text"] async for e in stage.ann.follow(run) if e.name == "message"]
        assert texts == ["hello", "one", "left", "two", "and then", "three"]
        status, rejected = await stage.ann.post(f"v1/runs/{run}/steer", {"text": "too late"})
        assert (status, rejected["code"]) == (409, "over")


async def test_a_run_is_stopped_at_work_and_while_it_asks():
    gate = Gate()
    asking = [Reply(calls=[ScriptedCall("note", {"text": "x"})]), "never"]
    async with on_stage({"works": scripted(gate), "asks": scripted(*asking)}) as stage:
        run = await stage.ann.start(agent="works")
        await gate.asked.wait()
        await stage.ann.post(f"v1/runs/{run}/abort", {"reason": "enough"})
        assert (await stage.ann.ended(run))["status"] == "aborted"
        run = await stage.ann.start(agent="asks")
        await stage.ann.until(run, "paused")
        await stage.ann.post(f"v1/runs/{run}/abort", {})
        assert (await stage.ann.ended(run))["status"] in ("aborted", "denied")


async def test_a_fork_goes_on_from_the_conversation_and_leaves_the_run_alone():
    seen: list[list[str]] = []

    def answer(request: ModelRequest) -> str:
        seen.append([m.text for m in request.messages])
        return f"answer {len(seen)}"

    async with on_stage({"bot": scripted(answer, answer, answer)}) as stage:
        run = await stage.ann.start("first")
        await stage.ann.ended(run)
        before = [e.id async for e in stage.ann.follow(run)]
        status, fork = await stage.ann.post(f"v1/runs/{run}/fork", {"prompt": "second"})
        assert (status, fork["title"]) == (201, "second")
        await stage.ann.ended(fork["id"])
        _, third = await stage.ann.post(f"v1/runs/{fork['id']}/fork", {"prompt": "other", "at": 2})
        await stage.ann.ended(third["id"])
        assert seen == [["first"], ["first", "answer 1", "second"], ["first", "answer 1", "other"]]
        assert [e.id async for e in stage.ann.follow(run)] == before
        status, rejected = await stage.ann.post(f"v1/runs/{run}/fork", {"prompt": "x", "at": 99})
        assert (status, rejected["code"]) == (409, "unknown_message")


async def test_a_start_with_a_key_is_done_once():
    async with on_stage({"bot": scripted("a")}) as stage:
        first = await stage.ann.post("v1/runs", {"prompt": "hello", "key": "job-1"})
        again = await stage.ann.post("v1/runs", {"prompt": "hello", "key": "job-1"})
        assert (first[0], again[0]) == (201, 200)
        assert first[1]["id"] == again[1]["id"] == "ann.job-1"
        assert (await stage.ben.post("v1/runs", {"prompt": "hello", "key": "job-1"}))[1]["id"] == "ben.job-1"


async def test_a_run_that_fails_says_why():
    async with on_stage({"bot": scripted()}) as stage:
        run = await stage.ann.start()
        result = await stage.ann.ended(run)
        assert result["status"] == "error"
        assert result["error"]
        assert (await stage.ann.get(f"v1/runs/{run}/result"))[0] == 200
