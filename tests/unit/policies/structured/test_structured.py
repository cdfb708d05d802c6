"""Runs that end in structured output."""

from typing import Any

import jsonschema_rs  # loaded here, as it reads files
import msgspec
import pytest
from hypothesis import given, strategies as st

from mainspring.agent.agent import Agent
from mainspring.env import MemoryEnv
from mainspring.errors import AgentError, AgentOutputError, AgentProviderError, ConfigError, ModelError, NetworkError
from mainspring.events import AgentEnd, SubagentEnd, TextDelta
from mainspring.loop import Approve, RunResult
from mainspring.loop.hooks import OutputHook, PermissionCheck, ToolGate, TurnBefore
from mainspring.messages import Message, Usage
from mainspring.policies.structured import OUTPUT_TOOL
from mainspring.run_options import RunOptions
from mainspring.subagents import AgentDefinition, Subagents
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import ToolContext, tool
from mainspring.tools.tool import SpawnResult
from tests.unit.loop.harness import assert_results_follow_calls

assert jsonschema_rs
pytestmark = pytest.mark.usefixtures("no_blocking")


class Person(msgspec.Struct):
    name: str
    age: int


ANN = {"name": "Ann", "age": 4}


@tool
async def look(key: str) -> str:
    """Look something up."""
    return f"value of {key}"


def output_call(value: Any = None, **fields: Any) -> ScriptedCall:
    """Return a call with the final output."""
    return ScriptedCall(OUTPUT_TOOL, value if value is not None else fields)


def make_agent(*script: Any, retries: int = 2, **options: Any) -> Agent:
    options.setdefault("behavior", RunOptions(schema=Person, max_output_retries=retries))
    return Agent(ScriptedModel(*script), execution=MemoryEnv({}), tools=[look], **options)


def requests(agent: Agent) -> list[Any]:
    assert isinstance(agent.model, ScriptedModel)
    return [seen.request for seen in agent.model.requests]


def result_texts(agent: Agent) -> list[str]:
    return [r.text for m in agent.messages if isinstance(m, Message) for r in m.tool_results]


@pytest.mark.covers("AGT-33", "BYD-15", "AGT-42")
async def test_run_ends_with_an_output_call_after_tool_calls() -> None:
    agent = make_agent(ScriptedCall("look", {"key": "a"}), output_call(ANN))
    output_events: list[OutputHook] = []
    agent.on(OutputHook, lambda hook: output_events.append(hook))
    result = await agent.run("go")

    assert result.output == Person("Ann", 4)
    assert (result.stats.output, result.output_error, result.status) == (Person("Ann", 4), "", "completed")
    assert len(requests(agent)) == 2
    assert [t.name for t in requests(agent)[0].tools] == ["look", OUTPUT_TOOL]
    assert requests(agent)[0].tool_choice == "auto"
    assert requests(agent)[0].tools is requests(agent)[1].tools  # the same bytes for the provider's cache
    assert [(h.output, h.raw, h.attempts, h.error) for h in output_events] == [(Person("Ann", 4), ANN, 1, "")]
    assert OUTPUT_TOOL not in agent.tools
    assert [len(m.tool_results) for m in agent.messages if isinstance(m, Message)] == [0, 0, 1, 0, 1]


@pytest.mark.covers("AGT-33", "BYD-15")
@pytest.mark.parametrize(
    "text",
    [
        '{"name": "Ann", "age": 4}',
        'Here:\n```json\n{"name": "Ann", "age": 4}\n```',
        'It is {"name": "Ann", "age": "4"}.',
    ],
)
async def test_text_with_exactly_one_valid_value_is_the_output(text: str) -> None:
    agent = make_agent(text)
    result = await agent.run("go")
    assert (result.output, result.text, len(requests(agent))) == (Person("Ann", 4), text, 1)


@pytest.mark.covers("AGT-33", "BYD-15")
async def test_text_without_json_is_retried_with_a_forced_call() -> None:
    agent = make_agent("Ann, I think.", output_call(ANN))
    result = await agent.run("go")
    assert result.output == Person("Ann", 4)
    assert requests(agent)[1].tool_choice == OUTPUT_TOOL
    nudge = requests(agent)[1].messages[-1].text
    assert "no JSON value that matches the schema" in nudge
    assert '"required":["name","age"]' in nudge


@pytest.mark.covers("BYD-15")
async def test_models_without_forced_calls_are_only_asked() -> None:
    thinking = make_agent("words", output_call(ANN), behavior=RunOptions(schema=Person, thinking="high"))
    assert (await thinking.run("go")).output == Person("Ann", 4)
    assert requests(thinking)[1].tool_choice == "auto"

    stubborn = make_agent("words", "more words", '{"name": "Ann", "age": 4}')  # a model that calls no tools at all
    assert (await stubborn.run("go")).output == Person("Ann", 4)

    rejected = ModelError("tool_choice is not supported by this model", reason="bad_request", status=400)
    agent = make_agent("words", rejected, output_call(ANN))
    assert (await agent.run("go")).output == Person("Ann", 4)
    assert [r.tool_choice for r in requests(agent)] == ["auto", OUTPUT_TOOL, "auto"]

    other = make_agent("words", ModelError("no money left", reason="quota", status=400))
    with pytest.raises(AgentProviderError):
        await other.run("go")


@pytest.mark.covers("BYD-15")
async def test_invalid_output_is_retried_with_the_error_up_to_the_limit() -> None:
    agent = make_agent(output_call(name="Ann"), output_call(name="Ann", age="old"), output_call(ANN))
    result = await agent.run("go")
    assert result.output == Person("Ann", 4)
    first, second, _ = result_texts(agent)
    assert "age" in first
    assert "old" in second

    never = make_agent(output_call(name="Ann"), output_call(name="Bob"), output_call(name="Cid"), retries=2)
    result = await never.run("go", raise_errors=False)
    assert (result.status, result.output_or_none, result.stats.output) == ("no_output", None, None)
    assert result.text == '{"name":"Cid"}'
    assert result.output_error.startswith("no response matched the schema in 3 attempts; the last error: ")
    assert "age" in result.output_error


@pytest.mark.covers("BYD-15", "AGT-33")
async def test_missing_output_is_a_failure_in_result_hooks_and_events() -> None:
    agent = make_agent("words", "other words", retries=1)
    output_events: list[OutputHook] = []
    ends: list[Any] = []
    agent.on(OutputHook, lambda hook: output_events.append(hook))
    agent.on("session:end", ends.append, order=10)
    agent.on("agent:done", ends.append)
    agent.on(AgentEnd, ends.append)
    result = await agent.run("go", raise_errors=False)
    assert (result.status, result.output_or_none, result.text, result.stats.output) == (
        "no_output",
        None,
        "other words",
        None,
    )
    assert "in 2 attempts" in result.output_error
    assert isinstance(result.error, AgentOutputError)
    assert [end.status for end in ends] == ["no_output"] * 3
    assert [end.error for end in ends[:2]] == [result.error] * 2
    assert (ends[2].error.type, ends[2].error.message) == ("AgentOutputError", result.error.reason)
    with pytest.raises(AgentError, match="in 2 attempts"):
        result.output_as(Person)
    assert (output_events[0].output, output_events[0].attempts) == (None, 2)
    assert output_events[0].error == result.output_error


REFUSAL = "I cannot help with that."


@pytest.mark.covers("BYD-15")
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ([REFUSAL, REFUSAL], "no JSON value that matches the schema"),
        ([output_call(name="Ann"), output_call(name="Ann")], "age"),
        ([Reply('{"name": "Ann"', stop_reason="max_tokens"), REFUSAL], "no JSON value"),
        ([REFUSAL, Reply('{"name": "Ann"', stop_reason="max_tokens")], "cut off at the output limit"),
    ],
)
async def test_run_and_stream_raise_what_happened_and_what_to_do(script: list[Any], reason: str) -> None:
    with pytest.raises(AgentOutputError) as ran:
        await make_agent(*script, retries=1).run("go")

    agent = make_agent(*script, retries=1)
    async with agent.stream("go") as run:
        events = [event async for event in run]
        with pytest.raises(AgentOutputError) as streamed:
            await run.result()

    assert str(ran.value) == str(streamed.value)
    assert "without the requested output: no response matched the schema in 2 attempts" in str(ran.value)
    assert reason in str(ran.value)
    assert ("max_output_tokens" if "cut off" in reason else "max_output_retries") in str(ran.value)
    assert isinstance(ran.value.outcome, RunResult)
    assert (ran.value.outcome.status, ran.value.outcome.output_or_none) == ("no_output", None)
    assert isinstance(events[-1], AgentEnd)
    assert events[-1].status == "no_output"
    assert (await agent.run("go", model=ScriptedModel(output_call(ANN)))).output == Person("Ann", 4)


async def test_reasoning_that_uses_the_whole_output_limit_is_the_reason_of_a_missing_output() -> None:
    agent = make_agent(Reply("", thinking="Let me see", stop_reason="max_tokens"), "never sent")

    with pytest.raises(AgentOutputError, match=r"cut off at the output limit\. Raise max_output_tokens"):
        await agent.run("go")

    assert len(requests(agent)) == 1


async def test_handler_of_turn_before_that_completes_the_run_leaves_no_output() -> None:
    agent = make_agent("words")
    agent.on(TurnBefore, lambda hook: {"stop": "completed"})
    result = await agent.run("go", raise_errors=False)
    assert (result.status, result.output_or_none) == ("no_output", None)
    assert result.output_error == "The run ended (completed) without an output"


async def test_output_of_a_handler_replaces_a_missing_one() -> None:
    agent = make_agent("words", retries=0)
    agent.on(OutputHook, lambda hook: {"output": hook.output or Person("unknown", 0)})
    result = await agent.run("go")
    assert (result.status, result.output, result.output_error) == ("completed", Person("unknown", 0), "")


async def test_prompt_that_an_extension_handles_has_no_output() -> None:
    agent = make_agent("words")
    agent.on("input", lambda hook: {"handled": True, "reply": "done"})
    with pytest.raises(AgentOutputError, match="did not reach the model: done"):
        await agent.run("/do")
    result = await agent.run("/do", raise_errors=False)
    assert (result.status, result.output_or_none, result.text) == ("no_output", None, "done")
    agent.on("input", lambda hook: {"block": "not now"}, order=-1)
    blocked = await agent.run("/do")
    assert (blocked.status, blocked.output_or_none) == ("denied", None)
    with pytest.raises(AgentOutputError, match="not now"):
        _ = blocked.output
    assert "not now" in blocked.output_error


@pytest.mark.covers("BYD-15")
async def test_parent_sees_the_missing_output_of_a_subagent_as_an_error() -> None:
    kinds = [
        AgentDefinition(name="asker", description="Asks.", behavior=RunOptions(schema=Person, max_output_retries=0))
    ]
    spawn = ScriptedCall("spawn", {"task": "Ask.", "agent": "asker"})
    agent = Agent(
        ScriptedModel(spawn, REFUSAL, "over"),
        execution=MemoryEnv({}),
        tools=[look],
        subagents=Subagents(kinds),
    )
    ends: list[SubagentEnd] = []
    agent.on(SubagentEnd, ends.append)
    result = await agent.run("go")
    [failed] = [block for m in result.messages if isinstance(m, Message) for block in m.tool_results]
    assert failed.is_error
    assert "did not return the requested output" in failed.text
    assert "no response matched the schema in 1 attempt" in failed.text
    assert failed.text.endswith(REFUSAL)
    assert [(end.stats.status, end.error and end.error.type) for end in ends] == [("no_output", "AgentOutputError")]


@pytest.mark.covers("BYD-15")
async def test_first_valid_output_wins_and_other_calls_still_run() -> None:
    agent = make_agent(
        [
            ScriptedCall("look", {"key": "a"}),
            output_call(ANN),
            output_call(name="Bob", age=5),
            ScriptedCall("look", {"key": "b"}),
        ]
    )
    result = await agent.run("go")
    assert result.output == Person("Ann", 4)
    texts = result_texts(agent)
    assert (texts[0], texts[3]) == ("value of a", "value of b")
    assert "Not taken" in texts[2]
    assert len(requests(agent)) == 1


async def test_several_values_in_a_text_are_not_an_output() -> None:
    agent = make_agent('{"name": "Ann", "age": 4} or {"name": "Bob", "age": 5}', output_call(ANN))
    assert (await agent.run("go")).output == Person("Ann", 4)
    assert "2 values that match" in requests(agent)[1].messages[-1].text


@pytest.mark.covers("BYD-15")
async def test_truncated_output_is_not_accepted() -> None:
    cut = Reply(calls=[ScriptedCall(OUTPUT_TOOL, raw='{"name": "Ann", "age": 4')], stop_reason="max_tokens")
    agent = make_agent(cut, Reply('{"name": "Ann", "age": 4}', stop_reason="max_tokens"), output_call(ANN))
    result = await agent.run("go")
    assert result.output == Person("Ann", 4)
    assert len(requests(agent)) == 3


async def test_malformed_json_in_an_output_call_is_repaired() -> None:
    agent = make_agent(Reply(calls=[ScriptedCall(OUTPUT_TOOL, raw="{'name': 'Ann', 'age': 4,}")]))
    assert (await agent.run("go")).output == Person("Ann", 4)


async def test_limit_after_a_rejected_output_is_reported_with_the_last_error() -> None:
    agent = make_agent(ScriptedCall(OUTPUT_TOOL, {"name": "Ann"}), behavior=RunOptions(schema=Person, max_turns=1))
    result = await agent.run("go")
    with pytest.raises(
        AgentOutputError,
        match=r"^The run ended \(max_turns\) without an output: no response matched .* Raise the limit, or ",
    ):
        _ = result.output


@pytest.mark.covers("AGT-33")
async def test_limit_before_the_output_is_reported() -> None:
    agent = make_agent(ScriptedCall("look", {"key": "a"}), behavior=RunOptions(schema=Person, max_turns=1))
    result = await agent.run("go")
    assert (result.status, result.stats.output) == ("max_turns", None)
    assert result.output_error == "The run ended (max_turns) without an output"
    with pytest.raises(
        AgentOutputError, match=r"^The run ended \(max_turns\) without an output\. Raise the limit, or "
    ) as raised:
        _ = result.output
    assert raised.value.outcome is result
    assert result.output_or_none is None
    assert msgspec.to_builtins(result)["output"] is None
    with pytest.raises(AgentOutputError, match="max_turns"):
        result.output_as(Person)
    async with make_agent(ScriptedCall("look", {"key": "a"}), behavior=agent.behavior).stream("go") as run:
        with pytest.raises(AgentOutputError, match="max_turns"):
            _ = [output async for output in run.outputs()]


async def test_failed_run_reports_the_output_error() -> None:
    agent = make_agent(NetworkError("the line is cut", retryable=False))
    output_events: list[OutputHook] = []
    agent.on(OutputHook, lambda hook: output_events.append(hook))
    result = await agent.run("go", raise_errors=False)
    assert result.status == "error"
    assert "the line is cut" in result.output_error
    assert len(output_events) == 1


@pytest.mark.covers("AGT-33")
async def test_output_schema_applies_to_one_run() -> None:
    agent = make_agent(output_call(ANN), "words", ScriptedCall(OUTPUT_TOOL, {"output": [1, 2]}), behavior=RunOptions())
    first = await agent.run("go", behavior=RunOptions(schema=Person))
    plain = await agent.run("go on")
    third = await agent.run("go on", behavior=RunOptions(schema=list[int]))
    assert (first.output, plain.output, third.output) == (Person("Ann", 4), "words", [1, 2])
    assert (plain.stats.output, plain.output_error) == (None, "")
    assert [len(r.tools) for r in requests(agent)] == [2, 1, 2]
    with pytest.raises(ConfigError):
        await agent.run("go", behavior=RunOptions(schema={"type": "nope"}))
    assert not agent.running


async def test_gate_can_block_the_output_and_a_hook_can_change_it() -> None:
    agent = make_agent(output_call(name="Bob", age=1), output_call(ANN))
    agent.on(ToolGate, lambda hook: {"block": "not Bob"} if hook.input.get("name") == "Bob" else None)
    agent.on(OutputHook, lambda hook: {"output": hook.output.name})
    result = await agent.run("go")
    assert result_texts(agent)[0] == "Blocked: not Bob"
    assert (result.output, result.stats.output) == ("Ann", "Ann")


async def test_blocked_outputs_stop_at_the_retry_limit() -> None:
    agent = make_agent(*[output_call(ANN)] * 9)
    agent.on(ToolGate, lambda hook: {"block": True})
    result = await agent.run("go", raise_errors=False)
    assert len(requests(agent)) == 3
    assert (result.status, result.stats.output) == ("no_output", None)
    assert "the call was denied" in result.output_error


async def test_text_with_an_invalid_value_gets_the_validation_error() -> None:
    agent = make_agent('{"name": "Ann", "age": "old"}', output_call(ANN))
    assert (await agent.run("go")).output == Person("Ann", 4)
    assert "old" in requests(agent)[1].messages[-1].text.partition("schema")[0]


async def test_steering_message_after_the_output_gets_a_new_output() -> None:
    agent = make_agent(output_call(ANN), output_call(name="Bob", age=5))
    agent.on("tool-results:after", lambda hook: agent.steer("no, Bob") if len(requests(agent)) == 1 else None)
    result = await agent.run("go")
    assert result.output == Person("Bob", 5)

    two = make_agent(output_call(ANN), behavior=RunOptions(schema=Person, max_turns=1))
    two.on("tool-results:after", lambda hook: two.steer("no, Bob"))
    result = await two.run("go")
    assert result.stats.output == Person("Ann", 4)  # at a limit the message stays queued, and the output is final
    assert result.status == "completed"


@pytest.mark.covers("BYD-15")
async def test_text_is_still_streamed() -> None:
    agent = make_agent(Reply("thinking aloud", calls=[output_call(ANN)], chunk_count=5))
    async with agent.stream("go") as run:
        pieces = [e.text async for e in run if isinstance(e, TextDelta)]
        result = await run.result()
    assert "".join(pieces) == "thinking aloud"
    assert len(pieces) == 5
    assert result.output == Person("Ann", 4)


@pytest.mark.covers("AGT-42", "AGT-33")
async def test_stats_include_the_output_and_a_subagent() -> None:
    spawn = Reply(calls=[ScriptedCall("spawn", {"task": "help"})], usage=Usage(output_tokens=1))
    last = Reply(calls=[output_call(ANN)], usage=Usage(output_tokens=4))
    agent = make_agent(spawn, Reply("helped", usage=Usage(output_tokens=2)), last, subagents=True)
    result = await agent.run("go")
    stats = result.stats
    assert (stats.turns, stats.usage.output_tokens) == (2, 7)
    assert [u.output_tokens for u in stats.turn_usage] == [1, 4]
    assert stats.seconds > 0
    assert stats.tool_counts == {"spawn": 1, OUTPUT_TOOL: 1}
    assert stats.output == Person("Ann", 4)
    assert [(c.turns, c.usage.output_tokens) for c in stats.children] == [(1, 2)]
    assert OUTPUT_TOOL not in [t.name for t in requests(agent)[1].tools]  # the output tool is not passed to subagents


STEPS: list[Any] = [
    output_call(ANN),
    output_call(name="Ann"),
    "words",
    '{"name": "Ann", "age": 4}',
    "",
    ScriptedCall("look", {"key": "a"}),
    [ScriptedCall("look", {"key": "a"}), output_call(ANN), output_call(ANN)],
    [output_call(name="Ann"), output_call(age="x"), ScriptedCall("nothing")],
    Reply(calls=[output_call(ANN)], stop_reason="max_tokens"),
    Reply(calls=[ScriptedCall(OUTPUT_TOOL, raw="{broken")]),
]


@pytest.mark.covers("AGT-33", "BYD-15")
@given(st.lists(st.sampled_from(STEPS), max_size=8), st.integers(0, 3))
def test_every_run_ends_with_a_valid_output_or_an_error(steps: list[Any], retries: int) -> None:
    agent = make_agent(*steps, *["words"] * 9, retries=retries)
    output_events: list[OutputHook] = []
    agent.on(OutputHook, lambda hook: output_events.append(hook))
    result = agent.run_sync("go", raise_errors=False)

    assert_results_follow_calls(agent.messages)
    assert len(output_events) == 1
    assert (result.output_error == "") == (result.stats.output is not None)
    if result.output_error:
        assert (result.stats.output, result.output_or_none) == (None, None)
        assert result.status in ("no_output", "error")
        assert result.error is not None
    else:
        assert result.output == Person("Ann", 4)
        assert result.status == "completed"
    if result.status in ("completed", "no_output"):
        assert output_events[0].attempts <= retries + 3  # all attempts of the last message are counted
    assert agent.run_sync("again", behavior=RunOptions(schema=None), model=ScriptedModel("fine")).output == "fine"


@pytest.mark.covers("AGT-15")
async def test_done_has_the_structured_output() -> None:
    agent = make_agent(output_call(ANN))
    done: list[Any] = []
    agent.on("agent:done", done.append)

    result = await agent.run("go")

    assert result.output == Person("Ann", 4)
    assert [(hook.output, hook.stats.output) for hook in done] == [(result.output, result.output)]


async def test_missing_output_of_a_paused_run_says_what_to_do() -> None:
    def pause(hook: PermissionCheck) -> None:
        hook.pause("look?")

    agent = make_agent(ScriptedCall("look", {"key": "a"}), output_call(ANN), hooks={PermissionCheck: pause})
    paused = await agent.run("go")
    with pytest.raises(
        AgentOutputError, match=r"\(paused\) without an output\. Answer the pending calls with agent\.answer"
    ):
        _ = paused.output
    agent.answer(Approve())
    assert (await agent.run()).output == Person("Ann", 4)


async def test_missing_output_of_a_spawned_agent_raises() -> None:
    found: list[SpawnResult[Person]] = []

    @tool
    async def delegate(ctx: ToolContext) -> str:
        """Delegate."""
        assert ctx.spawn is not None
        found.append(await ctx.spawn("go", output_type=Person, signal=ctx.signal))
        return "ok"

    script = ScriptedModel(ScriptedCall("delegate"), "words", "words", "words", "Done.", loop=True)
    agent = Agent(script, tools=[delegate], subagents=True, execution=MemoryEnv({}))
    await agent.run("go")
    assert found[0].output_or_none is None
    with pytest.raises(AgentOutputError, match=r"The subagent ended \(no_output\) without an output: "):
        _ = found[0].output
