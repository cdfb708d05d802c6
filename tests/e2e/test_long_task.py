"""A task of 300 tool calls over HTTP, with a conversation that is compacted repeatedly."""

import json
from pathlib import Path

import pytest

from mainspring import Agent, RunOptions, tool
from mainspring.env.memory import MemoryEnv
from mainspring.events import ContextCompacted
from mainspring.policies.compaction import Compaction
from mainspring.sessions import CompactionEntry, ResultEntry, Session, SessionOptions
from tests.e2e.servers.strict import SPECS, StrictServer, check_anthropic, check_chat, count_tokens, strict_server

CALLS = 300
GOAL = "Look up all keys in order and tell me how many are blue."
CONSTRAINT = "Never look up a key twice, and leave the red ones alone."
LIMIT = 6000
QUICK = SessionOptions(fsync="never")


@tool
async def look(key: str) -> str:
    """Look something up."""
    return f"value of {key}: " + "blue and round, " * 25


def create_agent(server: StrictServer, session: Session) -> Agent:
    compaction = Compaction(threshold=LIMIT, keep_recent=1500)
    behavior = RunOptions(compaction=compaction, max_turns=CALLS * 2)
    return Agent(server.model(), tools=[look], execution=MemoryEnv({}), session=session, behavior=behavior)


@pytest.mark.covers("CMP-04", "CMP-07", "SES-18", "BYD-26")
@pytest.mark.parametrize("protocol", SPECS)
async def test_compaction_keeps_goal_constraints_and_recent_results(protocol: str, tmp_path: Path) -> None:
    compactions: list[ContextCompacted] = []
    with strict_server(protocol, CALLS) as server:
        session = Session.create(tmp_path, home=tmp_path, id="long", options=QUICK)
        agent = create_agent(server, session)
        agent.on(ContextCompacted, compactions.append)
        outcome = await agent.run(f"{GOAL}\n{CONSTRAINT}")
        assert outcome.text == "all done"
        session.close()

        assert server.faults == []
        assert len(compactions) == server.summaries >= 10
        for number, body in enumerate(server.requests[1:], 1):
            text = json.dumps(body["messages"])
            assert GOAL in text
            assert CONSTRAINT in text
            assert count_tokens(body) < LIMIT * 1.5
            request = json.dumps(server.requests[number - 1]["messages"])
            new = [
                f"value of {n}: "
                for n in range(server.calls_made)
                if f"value of {n}: " in text and f"value of {n}: " not in request
            ]
            assert new or number == len(server.requests)  # the results of the last calls are there

        # Another process resumes the session, and its requests are complete as well.
        again = Session.open("long", home=tmp_path, options=QUICK)
        assert again.unread_entries > CALLS
        results = [e for e in again.entries() if isinstance(e, ResultEntry)]
        assert [e.result.text.split(":")[0] for e in results] == [f"value of {n}" for n in range(CALLS)]
        assert sum(isinstance(e, CompactionEntry) for e in again.entries()) == len(compactions)
        outcome = await create_agent(server, again).run("How many?")
        assert outcome.text == "all done"
        assert server.faults == []
        text = json.dumps(server.requests[-1]["messages"])
        assert all(words in text for words in (GOAL, CONSTRAINT, f"value of {CALLS - 1}: ", "How many?"))
        again.close()


def test_strict_server_detects_invalid_histories() -> None:
    call = {"role": "assistant", "tool_calls": [{"id": "a"}]}
    result = {"role": "tool", "tool_call_id": "a"}
    user = {"role": "user", "content": "x"}
    assert list(check_chat([user, call, result, user])) == []
    for wrong in ([user, call], [user, result], [user, call, user, result], [user, call, result, result]):
        assert list(check_chat(wrong))
    use = {"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]}
    block = {"type": "tool_result", "tool_use_id": "a"}
    given = {"role": "user", "content": [block]}
    assert list(check_anthropic([user, use, given])) == []
    late = {"role": "user", "content": [{"type": "text", "text": "x"}, block]}
    for wrong in ([user, use], [user, use, user], [given], [use, given], [user, use, late], [user, user]):
        assert list(check_anthropic(wrong))
