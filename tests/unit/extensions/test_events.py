"""The short event names of extensions: the data for handlers and the effect of their return values."""

import asyncio
from typing import Any, cast

import pytest

from mainspring import Agent, Approve
from mainspring.cancellation import CancelToken
from mainspring.env import MemoryEnv
from mainspring.errors import AgentAbortedError, AgentBusyError
from mainspring.extensions import BeforeRunEvent, ContextEvent, ExtensionAPI, InputEvent, ToolCallEvent, ToolResultEvent
from mainspring.loop.hooks import PromptSubmitted, ToolBefore
from mainspring.messages import ImageBlock, Message, TextBlock
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import tool


@tool
async def look(key: str, times: int = 1) -> str:
    """Look something up."""
    if key == "broken":
        raise ValueError("no such key")
    return f"value of {key}" * times


def make_agent(*script: Any, extensions: Any = (), **options: Any) -> Agent:
    """Return an agent that follows a script."""
    return Agent(
        ScriptedModel(*script),
        execution=MemoryEnv(),
        tools=options.pop("tools", [look]),
        extensions=extensions,
        **options,
    )


def requests(agent: Agent) -> list[Any]:
    """Return the requests to the model."""
    assert isinstance(agent.model, ScriptedModel)
    return [seen.request for seen in agent.model.requests]


def texts(request: Any) -> list[str]:
    return [m.text for m in request.messages]


@pytest.mark.covers("EXT-01", "EXT-02")
@pytest.mark.parametrize("is_async", [False, True])
async def test_extension_receives_every_event_in_order(is_async: bool) -> None:
    received: list[str] = []
    names = (
        "context before_agent_start agent_start agent_end turn_start turn_end input tool_call tool_result session_start"
    )

    def register(api: ExtensionAPI) -> None:
        for name in (*names.split(), "session_shutdown"):
            api.on(name, lambda event, name=name: received.append(name))

    async def register_later(api: ExtensionAPI) -> None:
        await asyncio.sleep(0)
        register(api)

    agent = make_agent(
        Reply("", calls=[ScriptedCall("look", {"key": "a"})]),
        "done",
        extensions=[register_later if is_async else register],
    )
    await agent.run("go")
    await agent.shutdown()

    turn = ["context", "turn_start"]
    assert received == [
        *("session_start", "input", "before_agent_start", "agent_start"),
        *(*turn, "tool_call", "tool_result", "turn_end"),
        *(*turn, "turn_end", "agent_end", "session_shutdown"),
    ]


@pytest.mark.covers("EXT-02")
async def test_events_contain_their_data() -> None:
    received: dict[str, Any] = {}

    def extension(api: ExtensionAPI) -> None:
        for name in ("agent_start", "agent_end", "turn_start", "turn_end", "session_start"):
            api.on(name, lambda event, name=name: received.setdefault(name, []).append(event))

    agent = make_agent(Reply("", calls=[ScriptedCall("look", {"key": "a"})]), "done", extensions=[extension])
    await agent.run("go")

    assert [(e.turn, len(e.tool_results)) for e in received["turn_end"]] == [(1, 1), (2, 0)]
    assert received["turn_end"][0].tool_results[0].text == "value of a"
    assert received["turn_end"][1].message.text == "done"
    assert [e.turn for e in received["turn_start"]] == [1, 2]
    [end] = received["agent_end"]
    assert (end.status, end.turns, end.error, end.messages) == ("completed", 2, None, agent.messages)
    assert received["agent_start"][0].run_id == end.run_id
    assert received["session_start"][0].reason == "startup"


@pytest.mark.covers("EXT-03")
async def test_context_can_replace_messages_without_changing_the_history() -> None:
    def take_last(event: ContextEvent) -> dict[str, Any]:
        return {"messages": event.messages[-1:]}

    agent = make_agent("one", "two", extensions=[lambda api: api.on("context", take_last)])
    await agent.run("first")
    await agent.run("second")

    assert [texts(r) for r in requests(agent)] == [["first"], ["second"]]
    assert [m.text for m in agent.messages if isinstance(m, Message)] == ["first", "one", "second", "two"]


@pytest.mark.covers("EXT-04")
async def test_before_agent_start_changes_the_system_prompt_and_adds_a_message() -> None:
    def first(event: BeforeRunEvent) -> dict[str, Any]:
        return {"system_prompt": f"{event.system_prompt} Be brief.", "message": f"about {event.prompt!r}"}

    def second(event: BeforeRunEvent) -> None:
        event.system += " Really."
        event.messages.append(Message.user("and more"))

    def extension(api: ExtensionAPI) -> None:
        api.on("before_agent_start", first)
        api.on("before_agent_start", second)

    agent = make_agent("ok", "ok", extensions=[extension], system="You help.")
    await agent.run("go")
    cast("Any", agent.extensions).remove("extension")
    await agent.run("on")

    one, two = requests(agent)
    assert one.system == "You help. Be brief. Really."
    assert texts(one) == ["go", "about 'go'", "and more"]
    assert two.system == "You help."  # The change applies to one run only.
    assert agent.context.system == "You help."


@pytest.mark.covers("EXT-04")
async def test_before_agent_start_sees_the_system_prompt_of_the_run() -> None:
    seen: list[str] = []
    agent = make_agent(
        "ok", extensions=[lambda api: api.on("before_agent_start", lambda e: seen.append(e.system))], system="A"
    )
    await agent.run("go", system="B")

    assert seen == ["B"]
    assert requests(agent)[0].system == "B"


@pytest.mark.covers("EXT-05", "EXT-15")
async def test_input_handler_can_continue_transform_or_handle_the_prompt() -> None:
    def extension(api: ExtensionAPI) -> None:
        @api.on("input")
        def look_at(event: InputEvent) -> dict[str, Any] | None:
            if event.text == "/ping":
                return {"action": "handled", "reply": "pong"}
            if event.text.startswith("?"):
                return {"action": "transform", "text": f"Explain {event.text[1:]}"}
            return {"action": "continue"}

    agent = make_agent("one", "two", extensions=[extension])
    ping = await agent.run("/ping")

    assert (ping.status, ping.text, ping.turns, ping.messages) == ("completed", "pong", 0, ())
    assert requests(agent) == []
    assert agent.messages == ()

    await agent.run("hello")
    await agent.run("?closures")

    assert texts(requests(agent)[0]) == ["hello"]
    assert texts(requests(agent)[1])[-1] == "Explain closures"


@pytest.mark.covers("EXT-05")
async def test_handled_prompt_ends_a_stream_without_events() -> None:
    agent = make_agent(extensions=[lambda api: api.on("input", lambda e: {"action": "handled", "reply": "pong"})])
    async with agent.stream("/ping") as run:
        events = [event async for event in run]
    assert events == []
    assert (await run.result()).text == "pong"


@pytest.mark.covers("EXT-05")
async def test_transformed_prompt_keeps_its_images() -> None:
    picture = ImageBlock("image/png", "aGk=")
    agent = make_agent("ok", extensions=[lambda api: api.on("input", lambda e: {"text": e.text.upper()})])
    await agent.run([TextBlock("look"), picture])

    [message] = requests(agent)[0].messages
    assert message.content == (TextBlock("LOOK"), picture)


@pytest.mark.covers("EXT-05")
async def test_failing_or_blocking_input_handler_prevents_the_run() -> None:
    def broken(event: InputEvent) -> None:
        raise KeyError("oops")

    agent = make_agent("never", extensions=[lambda api: api.on("input", broken)])
    result = await agent.run("go")
    assert result.status == "denied"
    assert "KeyError" in result.text

    agent = make_agent("never")
    agent.on(PromptSubmitted, lambda hook: {"block": "not today"})
    result = await agent.run("go")
    assert (result.status, result.text) == ("denied", "Blocked: not today")
    assert requests(agent) == []


async def test_unknown_input_action_is_a_failure() -> None:
    agent = make_agent("never", extensions=[lambda api: api.on("input", lambda e: {"action": "ignore"})])
    assert "not 'ignore'" in (await agent.run("go")).text


@pytest.mark.covers("EXT-06")
async def test_tool_call_can_be_blocked_with_a_reason_for_the_final_arguments() -> None:
    seen: list[dict[str, Any]] = []

    async def judge(event: ToolCallEvent) -> dict[str, Any] | None:
        seen.append(event.input)
        if event.input["key"] == "secret":
            return {"block": True, "reason": "keep out"}
        event.input["key"] = "changed"  # The handler gets a copy, so this changes nothing.
        return None

    def extension(api: ExtensionAPI) -> None:
        api.on("tool_call", judge)
        api.on(
            ToolBefore,
            lambda hook: {"input": {**hook.input, "key": "secret"} if hook.input["key"] == "s" else hook.input},
        )

    calls = [
        ScriptedCall("look", {"key": "secret"}),
        ScriptedCall("look", {"key": "s"}),
        ScriptedCall("look", {"key": "open", "times": "2"}),
    ]
    agent = make_agent(Reply("", calls=calls), "done", extensions=[extension])
    await agent.run("go")

    results = [r for m in agent.messages if isinstance(m, Message) for r in m.tool_results]
    assert [r.text for r in results] == [
        "Permission denied: keep out",
        "Permission denied: keep out",
        "value of open" * 2,
    ]
    assert seen[1]["key"] == "secret"
    assert seen[2]["times"] == 2  # after coercion


@pytest.mark.covers("EXT-06")
@pytest.mark.parametrize("answer", [{"blok": True}, "raise", {"block": "plainly no"}])
async def test_tool_call_fails_closed(answer: Any) -> None:
    def judge(event: ToolCallEvent) -> Any:
        if answer == "raise":
            raise RuntimeError("lost")
        return answer

    agent = make_agent(
        Reply("", calls=[ScriptedCall("look", {"key": "a"})]),
        "done",
        extensions=[lambda api: api.on("tool_call", judge)],
    )
    await agent.run("go")

    [result] = [r for m in agent.messages if isinstance(m, Message) for r in m.tool_results]
    assert result.is_error
    assert "value of" not in result.text


@pytest.mark.covers("EXT-07")
async def test_tool_result_replaces_content_details_and_error() -> None:
    def mask(event: ToolResultEvent) -> dict[str, Any]:
        assert isinstance(event.content, str)
        return {
            "content": event.content.replace("a", "*"),
            "details": {**event.details, "masked": True},
            "is_error": False,
        }

    calls = [ScriptedCall("look", {"key": "a"}), ScriptedCall("look", {"key": "broken"})]
    agent = make_agent(Reply("", calls=calls), "done", extensions=[lambda api: api.on("tool_result", mask)])
    await agent.run("go")

    one, two = [r for m in agent.messages if isinstance(m, Message) for r in m.tool_results]
    assert (one.text, one.is_error) == ("v*lue of *", False)
    assert two.text.endswith("no such key")
    assert not two.is_error
    assert one.details["masked"] is True


async def test_any_hook_can_be_named_and_handlers_may_take_the_context() -> None:
    seen: list[Any] = []

    class Handler:
        async def __call__(self, hook: Any, ctx: Any) -> None:
            seen.append((hook.event, ctx.cwd))

    def extension(api: ExtensionAPI) -> None:
        api.on("tool:before", Handler())
        api.on("turn_start", lambda event, *rest: seen.append(len(rest)))
        api.on("session:end", lambda hook, ctx=None: seen.append(ctx))

    agent = make_agent(Reply("", calls=[ScriptedCall("look", {"key": "a"})]), "done", extensions=[extension])
    await agent.run("go")

    assert seen == [1, ("tool:before", agent.env.cwd), 1, None]


async def test_session_starts_once_and_again_after_a_reset() -> None:
    received: list[tuple[str, str]] = []

    def extension(api: ExtensionAPI) -> None:
        api.on("session_start", lambda e: received.append(("start", e.reason)))
        api.on("session_shutdown", lambda e: received.append(("shutdown", e.reason)))

    agent = make_agent("a", "b", "c", extensions=[extension])
    await agent.run("go")
    await agent.run("on")
    agent.reset()
    await agent.run("again")
    await agent.shutdown()
    await agent.shutdown()

    assert received == [("start", "startup"), ("shutdown", "reset"), ("start", "reset"), ("shutdown", "exit")]


async def test_prompt_in_an_input_handler_can_be_aborted_and_blocks_a_second_prompt() -> None:
    handling = asyncio.Event()

    async def slow(event: InputEvent) -> None:
        handling.set()
        await asyncio.Event().wait()

    agent = make_agent("never", extensions=[lambda api: api.on("input", slow)])
    running = asyncio.ensure_future(agent.run("go"))
    await handling.wait()
    assert agent.running
    with pytest.raises(AgentBusyError, match="already running"):
        await agent.run("second")
    agent.abort("enough")
    with pytest.raises(AgentAbortedError, match="enough"):
        await running
    assert not agent.running
    assert agent.messages == ()

    signal = CancelToken()
    signal.cancel("before")
    aborted = await agent.run("go", signal=signal, raise_errors=False)
    assert aborted.status == "aborted"


async def test_messages_for_a_paused_run_are_added_after_the_results() -> None:
    paused: list[int] = []

    def extension(api: ExtensionAPI) -> None:
        api.on("before_agent_start", lambda e: None if e.prompt else {"message": "by the way"})

        @api.on("tool:gate")
        def pause(hook: Any) -> None:
            hook.pause = "may it?"
            paused.append(1)

    agent = make_agent(Reply("", calls=[ScriptedCall("look", {"key": "a"})]), "done", "done", extensions=[extension])
    assert (await agent.run("go")).status == "paused"
    agent.answer(Approve())
    assert (await agent.run()).status == "completed"

    roles = [m.text or [r.text for r in m.tool_results] for m in agent.messages if isinstance(m, Message)]
    assert roles.index(["value of a"]) < roles.index("by the way")
