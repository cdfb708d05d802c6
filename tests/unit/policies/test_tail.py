"""Old results are left out of requests; the history stays."""

import statistics
import time
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mainspring import ImageBlock, Message, RunOptions, TextBlock, ToolResult, ToolResultBlock, define_tool
from mainspring.errors import ConfigError
from mainspring.loop.hooks import ContextTransform
from mainspring.messages import AgentMessage, CustomMessage
from mainspring.models import ModelInfo, ModelProfile
from mainspring.models.profile import AnthropicCapabilities
from mainspring.policies.compaction import Compaction, ToolResultClearing
from mainspring.testing import ScriptedCall, ScriptedModel
from tests.unit.policies.harness import edit, make_agent, project, read, requests, results, texts, turn, words

BIG = "x" * 40_000
STUB = "[Result of look left out to save space: 40000 bytes. Call it again if you need it.]"


def make_look_tool(output: Any = BIG) -> Any:
    async def execute(args: dict[str, Any], ctx: Any) -> Any:
        return output

    return define_tool("look", {"description": "Look.", "parameters": {"type": "object"}, "execute": execute})


def looking_agent(turns: int, output: Any = BIG, **options: Any) -> Any:
    return make_agent(*[ScriptedCall("look")] * turns, "done", tools=[make_look_tool(output)], **options)


@pytest.mark.covers("CMP-09")
async def test_old_results_become_stubs_above_the_threshold() -> None:
    agent = looking_agent(8, compact_strategy="tail")

    await agent.run("go")

    sent = [texts(r.messages) for r in requests(agent)]
    assert (RunOptions().compact_threshold, RunOptions().compact_keep_turns) == (128 * 1024, 4)
    assert sent[3] == [BIG] * 3  # 120,000 bytes
    assert sent[4] == [BIG] * 4  # above the threshold, but all within the last four turns
    assert sent[5] == [STUB, *[BIG] * 4]
    assert all(t[-4:] == [BIG] * 4 for t in sent[4:])
    assert sent[8] == [STUB] * 4 + [BIG] * 4


@pytest.mark.covers("CMP-09", "AGT-27")
async def test_clearing_is_off_by_default_and_configurable() -> None:
    agent = looking_agent(6)
    await agent.run("go")
    assert texts(requests(agent)[-1].messages) == [BIG] * 6

    agent = looking_agent(5, "y" * 200, compact_strategy="tail", compact_threshold=500, compact_keep_turns=1)
    await agent.run("go")
    sent = [[len(t) for t in texts(r.messages)] for r in requests(agent)]
    assert [[size == 200 for size in sizes] for sizes in sent] == [
        [], [True], [True, True], [False, False, True], [False, False, True, True], [False, False, False, False, True],
    ]  # fmt: skip


@pytest.mark.covers("CMP-09")
async def test_old_results_are_cleared_in_batches() -> None:
    agent = looking_agent(60, "y" * 1000, compact_strategy="tail", compact_threshold=10_000, compact_keep_turns=2)

    await agent.run("go")

    sent = [r.messages for r in requests(agent)]
    changes = sum(
        any(a is not b for a, b in zip(one, other, strict=False)) for one, other in zip(sent, sent[1:], strict=False)
    )
    assert changes <= 60 * 1000 // 8000 + 1
    assert max(sum(map(len, texts(m))) for m in sent) < 10_000 + 2_000 + 60 * 100


@pytest.mark.covers("CMP-10")
async def test_text_images_and_stored_turns_stay() -> None:
    image = ImageBlock("image/png", "A" * 100)
    output = ToolResult(output=(TextBlock(BIG), image))
    prompt = Message.user([TextBlock("p" * 300_000), image])
    agent = looking_agent(6, output, compact_strategy="tail")

    await agent.run([prompt])

    last = requests(agent)[-1].messages
    assert last[0].content == prompt.content
    stubbed = results(last)[0]
    assert stubbed.content == (TextBlock(STUB), image)
    assert all(b.text.startswith(BIG) for b in results(agent.messages))


@pytest.mark.covers("CMP-10")
async def test_transform_of_the_application_sees_cleared_results() -> None:
    seen: list[list[str]] = []
    agent = looking_agent(6, compact_strategy="tail")
    agent.on(ContextTransform, lambda hook: seen.append(texts(hook.messages)))

    await agent.run("go")

    assert seen[5][0] == STUB


@pytest.mark.covers("CMP-10")
async def test_rearranged_messages_are_not_cleared() -> None:
    agent = looking_agent(7, compact_strategy="tail")
    agent.on(ContextTransform, lambda hook: {"messages": hook.messages[1:]} if hook.turn > 6 else None, order=-500)

    await agent.run("go")

    assert texts(requests(agent)[5].messages)[0] == STUB
    assert texts(requests(agent)[-1].messages) == [BIG] * 7


async def test_replaced_history_is_scanned_from_the_start() -> None:
    agent = looking_agent(7, compact_strategy="tail")
    await agent.run("go")

    agent.context.messages[:] = agent.messages[5:]  # the application dropped the beginning
    extra = ScriptedModel(ScriptedCall("look"), "done")
    await agent.run("more", model=extra)

    sent = texts(extra.requests[-1].messages)
    assert sent == [*[STUB] * (len(sent) - 3), *[BIG] * 3]  # a text response is a turn too
    assert len(sent) > 4


async def test_result_shorter_than_its_stub_stays() -> None:
    agent = looking_agent(6, "tiny", compact_strategy="tail", compact_threshold=0)

    await agent.run("go")

    assert texts(requests(agent)[-1].messages) == ["tiny"] * 6


async def test_stub_mentions_the_file_of_a_persisted_result(tmp_path: Any) -> None:
    options = {"persist_dir": str(tmp_path), "persist_threshold": 100}
    agent = looking_agent(3, compact_strategy="tail", compact_threshold=100, compact_keep_turns=1, **options)

    await agent.run("go")

    path = results(agent.messages)[0].details["persisted"]
    assert f"all of it is in {path}." in texts(requests(agent)[-1].messages)[0]


async def test_cleared_read_is_not_deduplicated() -> None:
    script = [read("a.txt"), read("b.txt"), read("a.txt"), "done"]
    env = project(a__txt="a" * 500, b__txt="b" * 500)
    agent = make_agent(*script, env=env, compact_strategy="tail", compact_threshold=700, compact_keep_turns=1)

    await agent.run("go")

    assert not any(t.startswith("Unchanged") for t in texts(agent.messages))
    agent = make_agent(*script, env=env, compact_strategy="tail")
    await agent.run("go")
    assert texts(agent.messages)[2].startswith("Unchanged")


async def test_stale_reads_and_old_results_are_cleared_together() -> None:
    env = project(a__txt="a" * 600, b__txt="b" * 600)
    script = [[read("a.txt"), read("b.txt")], edit("a.txt", "a" * 600, "A"), "done", "done"]
    both: Any = {"elide_stale_reads": True, "compact_strategy": "tail", "compact_keep_turns": 1}
    agent = make_agent(*script, env=env, compact_threshold=1000, **both)

    await agent.run("go")
    await agent.run("go on")

    stale, old, edited = texts(requests(agent)[-1].messages)
    assert stale.startswith("[Left out: a.txt has changed")
    assert old.startswith("[Result of read_file left out")
    assert edited.startswith("Edited a.txt")


@pytest.mark.covers("CMP-11")
async def test_clearing_is_left_to_a_provider_that_supports_it() -> None:
    class HostedModel(ScriptedModel):
        profile = ModelProfile(
            ModelInfo("m", "anthropic"),
            "http://localhost",
            messages=AnthropicCapabilities(context_management={"edits": []}),
        )

    agent = looking_agent(8, compact_strategy="tail")
    hosted = HostedModel(*[ScriptedCall("look")] * 8, "done")

    await agent.run("go", model=hosted)
    assert texts(hosted.requests[-1].messages) == [BIG] * 8

    small = ModelInfo("m", "anthropic", context_window=20_000)
    hosted = HostedModel(*[ScriptedCall("look")] * 8, "done", info=small)
    await looking_agent(8, compaction=Compaction()).run("go", model=hosted)
    assert len(hosted.requests) == 9, "no summary is requested"

    hosted = HostedModel(read("a.txt"), read("a.txt"), "done")
    reading = make_agent("", env=project(a__txt="a"))
    await reading.run("go", model=hosted)
    assert texts(reading.messages)[1] == texts(reading.messages)[0]  # the provider may have cleared the first result


async def test_unknown_strategy_is_rejected() -> None:
    with pytest.raises(ConfigError, match="compact_strategy must be 'off' or 'tail', not 'tial'"):
        await make_agent("x", compact_strategy="tial").run("go")


_turns = st.lists(
    st.one_of(
        st.lists(st.integers(0, 3000), min_size=1, max_size=3),  # sizes of the results of a turn
        st.just("text"),
        st.just("custom"),
    ),
    max_size=25,
)


def _build_history(events: list[Any]) -> list[AgentMessage]:
    history: list[AgentMessage] = [Message.user("go")]
    for number, event in enumerate(events):
        if event == "text":
            history.append(Message.user("more"))
        elif event == "custom":
            history.append(CustomMessage("note"))
        else:
            history += turn(*[("look", "é" * (size // 2), None) for size in event], number=number)
    return history


def _byte_size(block: ToolResultBlock) -> int:
    return len(block.text.encode())


@given(_turns, st.integers(0, 4000), st.integers(0, 4), st.data())
@pytest.mark.covers("CMP-09", "CMP-10")
def test_only_old_results_change_and_the_threshold_is_met(
    events: list[Any], threshold: int, keep: int, data: st.DataObject
) -> None:
    whole = _build_history(events)
    history: list[AgentMessage] = []
    policy = ToolResultClearing(lambda: history, threshold=threshold, keep_turns=keep)
    last: list[AgentMessage] = []
    while True:
        history += whole[len(history) : len(history) + data.draw(st.integers(1, 6))]
        hook = ContextTransform(list(history), 0, "")
        policy.on_context_transform(hook)
        if len(history) == len(whole):
            break
        last = hook.messages

    turns = [i for i, m in enumerate(history) if isinstance(m, Message) and m.role == "assistant"]
    cut = len(history) if not keep else turns[-keep] if len(turns) >= keep else 0
    for i, (before, after) in enumerate(zip(history, hook.messages, strict=True)):
        if before is after:
            continue
        assert i < cut
        assert isinstance(before, Message)
        assert isinstance(after, Message)
        assert after.id == before.id
        for old, new in zip(before.tool_results, after.tool_results, strict=True):
            assert new is old or (new.text.startswith("[Result of look left out") and len(new.text) < _byte_size(old))
    first = next(
        (i for i, m in enumerate(history) if m is hook.messages[i] and any(_byte_size(b) > 110 for b in results([m]))),
        cut,
    )
    remaining = sum(_byte_size(b) for b in results(history[first:]))  # bytes that were not cleared
    assert remaining <= threshold or first >= cut
    stubbed = [i for i, m in enumerate(last) if m is not history[i]]
    assert all(hook.messages[i] is last[i] for i in stubbed)  # a cleared result stays the same object


def test_cost_per_turn_does_not_grow_with_the_history() -> None:
    """Each message is processed once: apart from copying lists, the cost of a turn is constant."""
    history: list[AgentMessage] = [Message.user("go")]
    policy = ToolResultClearing(lambda: history, threshold=20_000, keep_turns=4)
    costs: list[float] = []
    for number in range(400):
        history += turn(("look", "x" * 500, None), number=number)
        hook = ContextTransform(list(history), number, "")
        started = time.perf_counter()
        policy.on_context_transform(hook)
        costs.append(time.perf_counter() - started)

    assert statistics.median(costs[-50:]) < 8 * statistics.median(costs[10:30])  # with 20 times as many messages
    assert len(words(history)) == 1


@pytest.mark.covers("AGT-27")
async def test_clearing_can_be_enabled_for_a_run() -> None:
    agent = looking_agent(6)

    await agent.run("go", behavior=RunOptions(compact_strategy="tail"))

    assert texts(requests(agent)[-1].messages)[0] == STUB
