"""Runs that end in structured output."""

from typing import Any

import jsonschema_rs  # loaded here, as it reads files
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.agent.agent import Agent
from mainspring.env import MemoryEnv
from mainspring.errors import AgentProviderError, ConfigError, ModelError, NetworkError
from mainspring.events import TextDelta
from mainspring.loop import RunOptions
from mainspring.loop.hooks import OutputHook, ToolGate
from mainspring.messages import Message, Usage
from mainspring.policies.structured import OUTPUT_TOOL
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import tool
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


def give(value: Any = None, **fields: Any) -> ScriptedCall:
    """A call that gives the final answer."""
    return ScriptedCall(OUTPUT_TOOL, value if value is not None else fields)


def agent(*script: Any, retries: int = 2, **options: Any) -> Agent:
    options.setdefault("behavior", RunOptions(schema=Person, output_retries=retries))
    return Agent(ScriptedModel(*script), execution=MemoryEnv({}), tools=[look], **options)


def requests(one: Agent) -> list[Any]:
    assert isinstance(one.model, ScriptedModel)
    return [seen.request for seen in one.model.requests]


def result_texts(one: Agent) -> list[str]:
    return [r.text for m in one.messages if isinstance(m, Message) for r in m.tool_results]


@pytest.mark.covers("AGT-33", "BYD-15", "AGT-42")
async def test_tools_can_be_used_until_the_answer_is_given_by_a_call() -> None:
    one = agent(ScriptedCall("look", {"key": "a"}), give(ANN))
    told: list[OutputHook] = []
    one.on(OutputHook, lambda hook: told.append(hook))
    result = await one.run("go")

    assert result.output == Person("Ann", 4)
    assert (result.stats.output, result.output_error, result.status) == (Person("Ann", 4), "", "completed")
    assert len(requests(one)) == 2
    assert [t.name for t in requests(one)[0].tools] == ["look", OUTPUT_TOOL]
    assert requests(one)[0].tool_choice == "auto"
    assert requests(one)[0].tools is requests(one)[1].tools  # the same bytes for the provider's cache
    assert [(h.output, h.raw, h.attempts, h.error) for h in told] == [(Person("Ann", 4), ANN, 1, "")]
    assert OUTPUT_TOOL not in one.tools
    assert [len(m.tool_results) for m in one.messages if isinstance(m, Message)] == [0, 0, 1, 0, 1]


@pytest.mark.covers("AGT-33", "BYD-15")
@pytest.mark.parametrize(
    "text",
    [
        '{"name": "Ann", "age": 4}',
        'Here:\n```json\n{"name": "Ann", "age": 4}\n```',
        'It is {"name": "Ann", "age": "4"}.',
    ],
)
async def test_an_answer_in_text_is_taken_if_it_holds_the_one_value_that_fits(text: str) -> None:
    one = agent(text)
    result = await one.run("go")
    assert (result.output, result.text, len(requests(one))) == (Person("Ann", 4), text, 1)


@pytest.mark.covers("AGT-33", "BYD-15")
async def test_an_answer_in_words_is_asked_for_again_as_a_forced_call() -> None:
    one = agent("Ann, I think.", give(ANN))
    result = await one.run("go")
    assert result.output == Person("Ann", 4)
    assert requests(one)[1].tool_choice == OUTPUT_TOOL
    nudge = requests(one)[1].messages[-1].text
    assert "no JSON value that matches the schema" in nudge
    assert '"required":["name","age"]' in nudge


@pytest.mark.covers("BYD-15")
async def test_models_that_reason_or_know_no_forced_call_are_only_asked() -> None:
    thinking = agent("words", give(ANN), behavior=RunOptions(schema=Person, thinking="high"))
    assert (await thinking.run("go")).output == Person("Ann", 4)
    assert requests(thinking)[1].tool_choice == "auto"

    stubborn = agent("words", "more words", '{"name": "Ann", "age": 4}')  # a model that calls no tools at all
    assert (await stubborn.run("go")).output == Person("Ann", 4)

    rejected = ModelError("tool_choice is not supported by this model", reason="bad_request", status=400)
    one = agent("words", rejected, give(ANN))
    assert (await one.run("go")).output == Person("Ann", 4)
    assert [r.tool_choice for r in requests(one)] == ["auto", OUTPUT_TOOL, "auto"]

    other = agent("words", ModelError("no money left", reason="quota", status=400))
    with pytest.raises(AgentProviderError):
        await other.run("go")


@pytest.mark.covers("BYD-15")
async def test_what_does_not_fit_goes_back_with_what_is_wrong_and_only_so_often() -> None:
    one = agent(give(name="Ann"), give(name="Ann", age="old"), give(ANN))
    result = await one.run("go")
    assert result.output == Person("Ann", 4)
    first, second, _ = result_texts(one)
    assert "age" in first
    assert "old" in second

    never = agent(give(name="Ann"), give(name="Bob"), give(name="Cid"), retries=2)
    result = await never.run("go")
    assert (result.status, result.stats.output) == ("completed", None)
    assert result.output == result.text == '{"name":"Cid"}'
    assert result.output_error.startswith("no response matched the schema in 3 attempts; the last error: ")
    assert "age" in result.output_error


@pytest.mark.covers("BYD-15", "AGT-33")
async def test_without_an_answer_that_fits_the_text_stands_in_and_the_result_says_so() -> None:
    one = agent("words", "other words", retries=1)
    told: list[OutputHook] = []
    one.on(OutputHook, lambda hook: told.append(hook))
    result = await one.run("go")
    assert (result.output, result.stats.output) == ("other words", None)
    assert "in 2 attempts" in result.output_error
    assert (told[0].output, told[0].attempts) == (None, 2)
    assert told[0].error == result.output_error


@pytest.mark.covers("BYD-15")
async def test_the_first_answer_that_fits_counts_and_calls_beside_it_still_run() -> None:
    one = agent(
        [ScriptedCall("look", {"key": "a"}), give(ANN), give(name="Bob", age=5), ScriptedCall("look", {"key": "b"})]
    )
    result = await one.run("go")
    assert result.output == Person("Ann", 4)
    texts = result_texts(one)
    assert (texts[0], texts[3]) == ("value of a", "value of b")
    assert "Not taken" in texts[2]
    assert len(requests(one)) == 1


async def test_several_values_in_a_text_are_no_answer() -> None:
    one = agent('{"name": "Ann", "age": 4} or {"name": "Bob", "age": 5}', give(ANN))
    assert (await one.run("go")).output == Person("Ann", 4)
    assert "2 values that match" in requests(one)[1].messages[-1].text


@pytest.mark.covers("BYD-15")
async def test_an_answer_that_was_cut_off_is_not_taken() -> None:
    cut = Reply(calls=[ScriptedCall(OUTPUT_TOOL, raw='{"name": "Ann", "age": 4')], stop_reason="max_tokens")
    one = agent(cut, Reply('{"name": "Ann", "age": 4}', stop_reason="max_tokens"), give(ANN))
    result = await one.run("go")
    assert result.output == Person("Ann", 4)
    assert len(requests(one)) == 3


async def test_arguments_that_were_almost_json_are_mended_as_for_any_tool() -> None:
    one = agent(Reply(calls=[ScriptedCall(OUTPUT_TOOL, raw="{'name': 'Ann', 'age': 4,}")]))
    assert (await one.run("go")).output == Person("Ann", 4)


@pytest.mark.covers("AGT-33")
async def test_a_limit_before_the_answer_is_told() -> None:
    one = agent(ScriptedCall("look", {"key": "a"}), behavior=RunOptions(schema=Person, max_turns=1))
    result = await one.run("go")
    assert (result.status, result.stats.output) == ("max_turns", None)
    assert result.output_error == "The run ended (max_turns) without an output"


async def test_a_run_that_fails_says_so_too() -> None:
    one = agent(NetworkError("the line is cut", retryable=False))
    told: list[OutputHook] = []
    one.on(OutputHook, lambda hook: told.append(hook))
    result = await one.run("go", raise_errors=False)
    assert result.status == "error"
    assert "the line is cut" in result.output_error
    assert len(told) == 1


@pytest.mark.covers("AGT-33")
async def test_schemas_belong_to_their_run() -> None:
    one = agent(give(ANN), "words", ScriptedCall(OUTPUT_TOOL, {"output": [1, 2]}), behavior=RunOptions())
    first = await one.run("go", behavior=RunOptions(schema=Person))
    plain = await one.run("go on")
    third = await one.run("go on", behavior=RunOptions(schema=list[int]))
    assert (first.output, plain.output, third.output) == (Person("Ann", 4), "words", [1, 2])
    assert (plain.stats.output, plain.output_error) == (None, "")
    assert [len(r.tools) for r in requests(one)] == [2, 1, 2]
    with pytest.raises(ConfigError):
        await one.run("go", behavior=RunOptions(schema={"type": "nope"}))
    assert not one.running


async def test_a_gate_may_refuse_the_answer_and_a_hook_may_change_it() -> None:
    one = agent(give(name="Bob", age=1), give(ANN))
    one.on(ToolGate, lambda hook: {"block": "not Bob"} if hook.input.get("name") == "Bob" else None)
    one.on(OutputHook, lambda hook: {"output": hook.output.name})
    result = await one.run("go")
    assert result_texts(one)[0] == "Blocked: not Bob"
    assert (result.output, result.stats.output) == ("Ann", "Ann")


async def test_answers_that_a_gate_always_refuses_do_not_go_on_for_ever() -> None:
    one = agent(*[give(ANN)] * 9)
    one.on(ToolGate, lambda hook: {"block": True})
    result = await one.run("go")
    assert len(requests(one)) == 3
    assert (result.status, result.stats.output) == ("completed", None)
    assert "the call was denied" in result.output_error


async def test_text_with_a_value_that_does_not_fit_is_told_what_is_wrong_with_it() -> None:
    one = agent('{"name": "Ann", "age": "old"}', give(ANN))
    assert (await one.run("go")).output == Person("Ann", 4)
    assert "old" in requests(one)[1].messages[-1].text.partition("schema")[0]


async def test_whoever_speaks_after_the_answer_gets_another_one() -> None:
    one = agent(give(ANN), give(name="Bob", age=5))
    one.on("tool-results:after", lambda hook: one.steer("no, Bob") if len(requests(one)) == 1 else None)
    result = await one.run("go")
    assert result.output == Person("Bob", 5)

    two = agent(give(ANN), behavior=RunOptions(schema=Person, max_turns=1))
    two.on("tool-results:after", lambda hook: two.steer("no, Bob"))
    result = await two.run("go")
    assert result.stats.output == Person("Ann", 4)  # at a limit the message waits, and the answer stands
    assert result.status == "completed"


@pytest.mark.covers("BYD-15")
async def test_text_still_streams() -> None:
    one = agent(Reply("thinking aloud", calls=[give(ANN)], chunk_count=5))
    async with one.stream("go") as run:
        pieces = [e.text async for e in run if isinstance(e, TextDelta)]
        result = await run.result()
    assert "".join(pieces) == "thinking aloud"
    assert len(pieces) == 5
    assert result.output == Person("Ann", 4)


@pytest.mark.covers("AGT-42", "AGT-33")
async def test_figures_of_a_run_with_an_answer_and_a_sub_agent() -> None:
    spawn = Reply(calls=[ScriptedCall("spawn", {"task": "help"})], usage=Usage(output_tokens=1))
    last = Reply(calls=[give(ANN)], usage=Usage(output_tokens=4))
    one = agent(spawn, Reply("helped", usage=Usage(output_tokens=2)), last, subagents=True)
    result = await one.run("go")
    stats = result.stats
    assert (stats.turns, stats.usage.output_tokens) == (2, 7)
    assert [u.output_tokens for u in stats.turn_usage] == [1, 4]
    assert stats.seconds > 0
    assert stats.tool_counts == {"spawn": 1, OUTPUT_TOOL: 1}
    assert stats.output == Person("Ann", 4)
    assert [(c.turns, c.usage.output_tokens) for c in stats.children] == [(1, 2)]
    assert OUTPUT_TOOL not in [t.name for t in requests(one)[1].tools]  # the form is for the answer, not for helpers


STEPS: list[Any] = [
    give(ANN),
    give(name="Ann"),
    "words",
    '{"name": "Ann", "age": 4}',
    "",
    ScriptedCall("look", {"key": "a"}),
    [ScriptedCall("look", {"key": "a"}), give(ANN), give(ANN)],
    [give(name="Ann"), give(age="x"), ScriptedCall("nothing")],
    Reply(calls=[give(ANN)], stop_reason="max_tokens"),
    Reply(calls=[ScriptedCall(OUTPUT_TOOL, raw="{broken")]),
]


@pytest.mark.covers("AGT-33", "BYD-15")
@given(st.lists(st.sampled_from(STEPS), max_size=8), st.integers(0, 3))
def test_whatever_a_model_does_the_run_ends_with_an_answer_that_fits_or_with_a_reason(
    steps: list[Any], retries: int
) -> None:
    one = agent(*steps, *["words"] * 9, retries=retries)
    told: list[OutputHook] = []
    one.on(OutputHook, lambda hook: told.append(hook))
    result = one.run_sync("go", raise_errors=False)

    assert_results_follow_calls(one.messages)
    assert len(told) == 1
    assert (result.output_error == "") == (result.stats.output is not None)
    if result.output_error:
        assert (result.stats.output, result.output) == (None, result.text)
    else:
        assert result.output == Person("Ann", 4)
        assert result.status == "completed"
    if result.status == "completed":
        assert told[0].attempts <= retries + 3  # those of the last message are all looked at
    assert one.run_sync("again", behavior=RunOptions(schema=None), model=ScriptedModel("fine")).output == "fine"
