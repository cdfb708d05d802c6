"""Options of the public Agent and of its runs."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mainspring import Agent, CancelToken, Message, RunOptions, RunResult, TextBlock, Usage, create_agent, define_tool
from mainspring.env import LocalEnv, MemoryEnv
from mainspring.errors import (
    AgentBusyError,
    AgentError,
    AgentProviderError,
    ConfigError,
    NetworkError,
    ProviderConfigError,
)
from mainspring.loop.hooks import PromptSubmitted
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from tests.unit.loop.harness import as_message


def double(n: int) -> int:
    """Double a number."""
    return 2 * n


def make_agent(*script: Any, **options: Any) -> Agent:
    return Agent(ScriptedModel(*script), execution=MemoryEnv({}), **options)


def test_agent_accepts_a_model_name_a_provider_or_an_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    model = ScriptedModel("ok")
    assert Agent(model).model is model
    assert Agent(provider=model).model is model
    named = [Agent("openai:gpt-5"), Agent("gpt-5", provider="openai"), Agent(provider="openai"), Agent("local:a:b")]
    assert [(a.model.provider, a.model.model) for a in named] == [
        ("openai", "gpt-5"),
        ("openai", "gpt-5"),
        ("openai", "gpt-5-mini"),
        ("local", "a:b"),
    ]
    with pytest.raises(ProviderConfigError, match="Unknown provider: 'nope'"):
        Agent("x", provider="nope")
    with pytest.raises(ConfigError, match="not both"):
        Agent("openai:gpt-5", provider=model)
    with pytest.raises(ConfigError, match="already has the provider"):
        Agent(model, provider="openai")


@pytest.mark.covers("AGT-45")
async def test_second_run_is_rejected_while_the_first_prompt_is_processed() -> None:
    agent = make_agent("one", "two")
    processing, proceed = asyncio.Event(), asyncio.Event()

    async def wait(hook: PromptSubmitted) -> None:
        processing.set()
        await proceed.wait()

    agent.on(PromptSubmitted, wait)
    first = asyncio.ensure_future(agent.run("first"))
    await processing.wait()
    assert agent.running
    with pytest.raises(AgentBusyError, match="already running"):
        await agent.run("second")
    proceed.set()
    assert (await first).text == "one"
    assert (await agent.run("third")).text == "two"


@pytest.mark.covers("EXE-01")
async def test_tools_work_in_the_current_folder_of_this_machine_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("here")
    monkeypatch.chdir(tmp_path)
    env = Agent(ScriptedModel()).env
    assert isinstance(env, LocalEnv)
    assert await env.read_bytes("a.txt") == b"here"
    assert (await env.run(["cat", "a.txt"])).stdout.text == "here"


@pytest.mark.covers("CFG-12")
def test_agent_reads_the_model_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_MODEL", "local:m")
    assert Agent().model.model == "m"
    monkeypatch.setenv("AGENT_MODEL", "")
    with pytest.raises(ConfigError, match="AGENT_MODEL"):
        Agent()


@pytest.mark.covers("AGT-27")
async def test_run_overrides_apply_to_one_run_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = ScriptedModel(ScriptedCall("double", {"n": "21"}), "42")
    agent = make_agent("a", "b", behavior=RunOptions(thinking="low", temperature=0.5))

    result = await agent.run("go", model=other, thinking="high", tools=[double], behavior=RunOptions(max_turns=2))
    assert as_message(result.messages[2]).tool_results[0].text == "42"
    request = other.requests[0].request
    assert (request.thinking, request.temperature) == ("high", 0.5)

    await agent.run("and now")
    assert isinstance(agent.model, ScriptedModel)
    request = agent.model.requests[0].request
    assert (request.thinking, len(request.tools)) == ("low", 0)

    async def later() -> dict[str, Any]:
        return {"description": "D.", "parameters": {"type": "object"}, "execute": lambda args, ctx: "x"}

    await agent.run("again", tools=[define_tool("later", later)])
    assert [t.name for t in agent.model.requests[1].request.tools] == ["later"]

    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ProviderConfigError):  # the name is parsed; only the key is missing
        await agent.run("go", model="openai:gpt-5")


@pytest.mark.covers("MSG-25")
async def test_text_is_accepted_wherever_a_message_is() -> None:
    agent = make_agent("a", "b", NetworkError("too long", retryable=False), "c", messages="from before")

    def go_on(ctx: Any) -> Any:
        return {"continue_with": "go on"} if ctx.turn == 1 else None

    await agent.run("hello", hooks={"turn:after": go_on})
    users = [m.text for m in agent.messages if isinstance(m, Message) and m.role == "user"]
    assert users == ["from before", "hello", "go on"]

    agent.follow_up("never reached")
    await agent.run(
        "more", hooks={"model:error": lambda ctx: ctx.retry("in short")}, behavior=RunOptions(retry=None, max_turns=1)
    )
    assert [m.text for m in agent.messages if isinstance(m, Message)] == ["in short", "c"]


@pytest.mark.parametrize("blank", ["   ", "\n", [TextBlock(" ")], Message.user("\t")])
async def test_run_rejects_a_blank_prompt_without_calling_the_model(blank: Any) -> None:
    agent = make_agent("never", messages=[Message.user("x")])
    with pytest.raises(AgentError, match="The prompt is empty."):
        await agent.run(blank)
    assert len(agent.messages) == 1
    assert isinstance(agent.model, ScriptedModel)
    assert not agent.model.requests


@pytest.mark.covers("AGT-19")
async def test_failed_run_reports_its_usage() -> None:
    def script() -> tuple[Any, ...]:
        return Reply(calls=[ScriptedCall("double", {"n": 1})], usage=Usage(5, 6)), NetworkError("down", retryable=False)

    result = await make_agent(*script(), tools=[double]).run("go", raise_errors=False)
    assert (result.status, str(result.error)) == ("error", "down")
    assert (result.usage.total_tokens, result.stats.tool_counts, len(result.messages)) == (11, {"double": 1}, 3)

    with pytest.raises(AgentProviderError) as caught:
        await make_agent(*script(), tools=[double]).run("go")
    assert caught.value.outcome is not None
    assert caught.value.outcome.usage.total_tokens == 11

    signal = CancelToken()
    agent = make_agent(*script(), tools=[double], hooks={"tool:after": lambda ctx: signal.cancel("enough")})
    result = await agent.run("go", raise_errors=False, signal=signal)
    assert (result.status, result.usage.total_tokens, str(result.error)[:31]) == (
        "aborted",
        11,
        "The run was aborted: enough. Th",
    )

    rejected = await make_agent("a").run("go", raise_errors=False, signal=signal)
    assert (rejected.status, rejected.usage.total_tokens) == ("aborted", 0)


def test_run_sync_creates_a_new_event_loop_for_each_run() -> None:
    agent = make_agent("a", "b")
    assert (agent.run_sync("1").text, agent.run_sync("2").text) == ("a", "b")


async def test_run_sync_inside_an_event_loop_suggests_await() -> None:
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match=r"await agent\.run"):
        make_agent("a").run_sync("go")


async def test_output_as_raises_on_a_type_mismatch() -> None:
    result = RunResult(status="completed", output_or_none=3)
    assert result.output_as(int) == 3
    with pytest.raises(AgentError, match="The output, of type int, does not fit <class 'str'>: "):
        result.output_as(str)
    with pytest.raises(AgentError, match="no response matched"):
        RunResult(status="completed", output_or_none="text", output_error="no response matched").output_as(str)


async def test_functions_of_the_application_add_steering_and_follow_up_messages() -> None:
    steering, follow_ups = [["steered"], ["late"]], [[Message.user("followed")]]

    async def get_steering() -> list[Message]:
        return [Message.user(text) for text in (steering.pop(0) if steering else [])]

    model = ScriptedModel(ScriptedCall("double", {"n": 1}), "a", "b", "c", "d")
    agent = Agent(
        model,
        tools=[double],
        execution=MemoryEnv({}),
        get_steering=get_steering,
        get_follow_up=lambda: follow_ups.pop() if follow_ups else [],
    )
    agent.follow_up("queued")
    await agent.run("go")

    texts = [m.text for m in agent.messages if isinstance(m, Message) and m.role == "user" and m.text]
    assert texts == ["go", "steered", "late", "queued", "followed"]


@pytest.mark.covers("PKG-10")
@pytest.mark.parametrize("is_async", [False, True])
async def test_functions_of_the_application_provide_queued_messages(is_async: bool) -> None:
    waiting: dict[str, list[list[Message]]] = {
        "steer": [[Message.user("steered")], [], []],
        "follow": [[Message.user("one"), Message.user("two")], []],
    }

    def reader(name: str) -> Any:
        def read() -> list[Message]:
            return waiting[name].pop(0) if waiting[name] else []

        async def read_later() -> list[Message]:
            return read()

        return read_later if is_async else read

    model = ScriptedModel(ScriptedCall("double", {"n": 2}), "a", "b", "c")
    agent = create_agent(
        model=model,
        tools=[double],
        execution=MemoryEnv({}),
        transform=lambda messages, signal: messages,
        get_steering=reader("steer"),
        get_follow_up=reader("follow"),
    )
    agent.follow_up("own")
    result = await agent.run("go")

    assert result.status == "completed"
    said = [m.text for m in agent.messages if isinstance(m, Message) and m.role == "user" and m.text]
    assert said == ["go", "steered", "own", "one", "two"]


@pytest.mark.parametrize("name", ["get_steering", "get_follow_up", "transform"])
def test_functions_of_the_application_must_be_functions(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} of Agent must be a function"):
        make_agent("x", **{name: ["message"]})
