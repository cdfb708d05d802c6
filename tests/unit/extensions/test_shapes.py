"""Shapes of values that handlers of extensions return, and events registered by their class."""

from typing import Any

import pytest

from mainspring import Agent, RunOptions
from mainspring.errors import ConfigError, NetworkError
from mainspring.extensions import EVENTS, ExtensionAPI, ExtensionContext
from mainspring.extensions.events import EVENT_NAMES
from mainspring.messages import CustomMessage, ImageBlock, Message, TextBlock, ToolResultBlock, Usage
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import ToolResult, tool

PIXEL = ImageBlock("image/png", "eA==")


@tool
async def look(key: str) -> ToolResult:
    """Look something up."""
    return ToolResult(output=f"value of {key}", metadata={"key": key})


@tool
async def count() -> ToolResult:
    """Return facts that are not a dict."""
    metadata: Any = [1, 2]
    return ToolResult(output="two", metadata=metadata)


async def run_with(answer: Any, name: str = "look", **arguments: Any) -> ToolResultBlock:
    def extension(api: ExtensionAPI) -> None:
        api.on("tool_result", lambda event: answer)

    model = ScriptedModel(Reply(calls=[ScriptedCall(name, arguments)]), "done")
    agent = Agent(model, tools=[look, count], extensions=[extension])
    await agent.run("go")
    return next(result for message in agent.messages for result in message.tool_results)


@pytest.mark.covers("EXT-07")
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "value of a"),
        ("new", "new"),
        ([{"type": "text", "text": "x"}], (TextBlock("x"),)),
        ([{"type": "text", "text": "x"}, {"type": "image", "data": "eA==", "mimeType": "image/png"}], (TextBlock("x"), PIXEL)),
        ((TextBlock("x"), {"type": "image", "data": "eA==", "media_type": "image/png"}), (TextBlock("x"), PIXEL)),
        ([1, 2], "[1,2]"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("details", [..., None, {"more": 1}, [1, 2], "text", 7])
async def test_results_of_every_shape_replace_content_and_details(content: Any, expected: Any, details: Any) -> None:
    answer = {"content": content} if details is ... else {"content": content, "details": details}
    result = await run_with(answer, key="a")

    assert (result.content, result.is_error) == (expected, False)
    unchanged = details is ... or details is None
    assert result.details == (
        {"key": "a"} if unchanged else details if isinstance(details, dict) else {"details": details}
    )


@pytest.mark.covers("TDF-09", "EXT-07")
@pytest.mark.parametrize("answer", [None, {"details": None}, {"is_error": None}])
async def test_details_of_a_tool_may_be_any_value(answer: Any) -> None:
    result = await run_with(answer, "count")

    assert (result.text, result.is_error, result.details) == ("two", False, {"details": [1, 2]})


@pytest.mark.covers("HOK-42")
async def test_events_are_registered_by_their_class() -> None:
    assert sorted(EVENT_NAMES.values()) == sorted(EVENTS)
    seen: list[str] = []

    def extension(api: ExtensionAPI) -> None:
        for kind in EVENT_NAMES:
            api.on(kind, lambda event: seen.append(type(event).__name__))

    model = ScriptedModel(Reply(calls=[ScriptedCall("look", {"key": "a"})]), "done")
    agent = Agent(model, tools=[look], extensions=[extension])
    await agent.run("go")
    await agent.shutdown()

    assert set(seen) == {kind.__name__ for kind in EVENT_NAMES}


@pytest.mark.parametrize("kind", [dict, ToolResult, "tool_cal"])
async def test_unknown_events_are_refused_with_the_known_names(kind: Any) -> None:
    def extension(api: ExtensionAPI) -> None:
        with pytest.raises(ConfigError, match="short names are session_start, input"):
            api.on(kind, lambda event: None)

    agent = Agent(ScriptedModel("done"), extensions=[extension])
    assert agent.extensions is not None
    assert not agent.extensions.problems


async def test_every_message_of_a_history_has_a_custom_type() -> None:
    def extension(api: ExtensionAPI) -> None:
        api.on("context", lambda e: {"messages": [m for m in e.messages if m.custom_type != "temporary"]})

    model = ScriptedModel("done")
    agent = Agent(
        model,
        extensions=[extension],
        convert=lambda ms: [Message.user(f"[{m.custom_type}]") if isinstance(m, CustomMessage) else m for m in ms],
    )
    await agent.run([CustomMessage("temporary"), CustomMessage("note"), Message.user("go")])

    assert [m.text for m in model.requests[0].messages] == ["[note]", "go"]


@pytest.mark.covers("EXT-12")
async def test_context_usage_at_the_end_of_a_turn_counts_its_response() -> None:
    seen: list[int] = []

    def extension(api: ExtensionAPI) -> None:
        def on_turn_end(event: Any, ctx: ExtensionContext) -> None:
            seen.append(ctx.get_context_usage().tokens)

        api.on("turn_end", on_turn_end)
        api.on("agent_end", on_turn_end)

    replies = (
        Reply(calls=[ScriptedCall("look", {"key": "a"})], usage=Usage(500, 50)),
        Reply("done", usage=Usage(700, 50)),
    )
    agent = Agent(ScriptedModel(*replies), tools=[look], extensions=[extension])
    await agent.run("go")

    assert 550 < seen[0] < 600
    assert seen[1:] == [750, 750]


@pytest.mark.covers("AGT-04")
async def test_turns_of_failed_calls_end_for_extensions_and_listeners() -> None:
    seen: list[tuple[str, str | None]] = []

    def extension(api: ExtensionAPI) -> None:
        api.on("turn_start", lambda event: seen.append(("start", None)))
        api.on("turn_end", lambda event: seen.append(("end", event.message.stop_reason)))

    agent = Agent(ScriptedModel(NetworkError("down")), behavior=RunOptions(retry=None), extensions=[extension])
    result = await agent.run("go", raise_errors=False)

    assert result.status == "error"
    assert seen == [("start", None), ("end", "error")]


@pytest.mark.covers("MOD-36")
@pytest.mark.parametrize("level", ["bogus", 5, "", ["high"]])
async def test_invalid_thinking_level_is_refused_when_it_is_set(level: Any) -> None:
    refused: list[str] = []

    def extension(api: ExtensionAPI) -> None:
        def change(event: Any) -> None:
            with pytest.raises(ConfigError, match="thinking must be") as info:
                api.thinking = level
            refused.append(str(info.value))

        api.on("turn_start", change)

    agent = Agent(ScriptedModel("a", "b"), behavior=RunOptions(thinking="low"), extensions=[extension])
    with pytest.raises(ConfigError, match="thinking must be None or 'off' or "):
        agent.thinking = level
    await agent.run("go")

    assert len(refused) == 1
    assert agent.thinking == "low"
