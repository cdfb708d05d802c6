"""Old results are left out of requests; the history stays."""

import statistics
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring import ImageBlock, Message, RunOptions, TextBlock, ToolResult, ToolResultBlock, define_tool
from mainspring.errors import ConfigError
from mainspring.loop.hooks import ContextTransform
from mainspring.messages import AgentMessage, CustomMessage
from mainspring.models import ModelInfo, ModelProfile
from mainspring.models.profile import AnthropicCapabilities
from mainspring.policies.compaction import ToolResultClearing
from mainspring.testing import ScriptedCall, ScriptedModel
from tests.unit.policies.harness import agent, edit, project, read, requests, results, texts, turn, words

BIG = "x" * 40_000
STUB = "[Result of look left out to save room: 40000 bytes. Call it again if you need it.]"


def look(output: Any = BIG) -> Any:
    async def execute(args: dict[str, Any], ctx: Any) -> Any:
        return output

    return define_tool("look", {"description": "Look.", "parameters": {"type": "object"}, "execute": execute})


def looking(turns: int, output: Any = BIG, **options: Any) -> Any:
    return agent(*[ScriptedCall("look")] * turns, "done", tools=[look(output)], **options)


@pytest.mark.covers("CMP-09")
async def test_above_128_kib_results_before_the_last_four_turns_become_stubs() -> None:
    made = looking(8, compact_strategy="tail")

    await made.run("go")

    sent = [texts(r.messages) for r in requests(made)]
    assert sent[3] == [BIG] * 3  # 120,000 bytes
    assert sent[4] == [BIG] * 4  # above, and all within the last four turns
    assert sent[5] == [STUB, *[BIG] * 4]
    assert all(t[-4:] == [BIG] * 4 for t in sent[4:])
    assert sent[8] == [STUB] * 4 + [BIG] * 4


@pytest.mark.covers("CMP-09", "AGT-27")
async def test_off_by_default_and_both_numbers_are_options() -> None:
    made = looking(6)
    await made.run("go")
    assert texts(requests(made)[-1].messages) == [BIG] * 6

    made = looking(5, "y" * 200, compact_strategy="tail", compact_threshold=500, compact_keep_turns=1)
    await made.run("go")
    sent = [[len(t) for t in texts(r.messages)] for r in requests(made)]
    assert [[size == 200 for size in sizes] for sizes in sent] == [
        [], [True], [True, True], [False, False, True], [False, False, True, True], [False, False, False, False, True],
    ]  # fmt: skip


@pytest.mark.covers("CMP-09")
async def test_all_that_is_old_goes_at_once_so_the_prefix_seldom_changes() -> None:
    made = looking(60, "y" * 1000, compact_strategy="tail", compact_threshold=10_000, compact_keep_turns=2)

    await made.run("go")

    sent = [r.messages for r in requests(made)]
    changes = sum(
        any(a is not b for a, b in zip(one, other, strict=False)) for one, other in zip(sent, sent[1:], strict=False)
    )
    assert changes <= 60 * 1000 // 8000 + 1
    assert max(sum(map(len, texts(m))) for m in sent) < 10_000 + 2_000 + 60 * 100


@pytest.mark.covers("CMP-10")
async def test_text_and_images_stay_and_so_do_stored_turns() -> None:
    image = ImageBlock("image/png", "A" * 100)
    output = ToolResult(output=(TextBlock(BIG), image))
    prompt = Message.user([TextBlock("p" * 300_000), image])
    made = looking(6, output, compact_strategy="tail")

    await made.run([prompt])

    last = requests(made)[-1].messages
    assert last[0].content == prompt.content
    stubbed = results(last)[0]
    assert stubbed.content == (TextBlock(STUB), image)
    assert all(b.text.startswith(BIG) for b in results(made.messages))


@pytest.mark.covers("CMP-10")
async def test_an_applications_transform_comes_after_it() -> None:
    seen: list[list[str]] = []
    made = looking(6, compact_strategy="tail")
    made.on(ContextTransform, lambda hook: seen.append(texts(hook.messages)))

    await made.run("go")

    assert seen[5][0] == STUB


@pytest.mark.covers("CMP-10")
async def test_it_leaves_alone_what_somebody_rearranged_before() -> None:
    made = looking(7, compact_strategy="tail")
    made.on(ContextTransform, lambda hook: {"messages": hook.messages[1:]} if hook.turn > 6 else None, order=-500)

    await made.run("go")

    assert texts(requests(made)[5].messages)[0] == STUB
    assert texts(requests(made)[-1].messages) == [BIG] * 7


async def test_another_history_is_looked_at_anew() -> None:
    made = looking(7, compact_strategy="tail")
    await made.run("go")

    made.context.messages[:] = made.messages[5:]  # an application forgot the beginning
    extra = ScriptedModel(ScriptedCall("look"), "done")
    await made.run("more", model=extra)

    sent = texts(extra.requests[-1].messages)
    assert sent == [*[STUB] * (len(sent) - 3), *[BIG] * 3]  # an answer in words is a turn, too
    assert len(sent) > 4


async def test_short_results_stay_since_the_stub_would_be_longer() -> None:
    made = looking(6, "tiny", compact_strategy="tail", compact_threshold=0)

    await made.run("go")

    assert texts(requests(made)[-1].messages) == ["tiny"] * 6


async def test_where_a_result_was_put_is_still_told(tmp_path: Any) -> None:
    options = {"persist_dir": str(tmp_path), "persist_threshold": 100}
    made = looking(3, compact_strategy="tail", compact_threshold=100, compact_keep_turns=1, **options)

    await made.run("go")

    path = results(made.messages)[0].details["persisted"]
    assert f"all of it is in {path}." in texts(requests(made)[-1].messages)[0]


async def test_what_is_left_out_is_read_again_in_full() -> None:
    script = [read("a.txt"), read("b.txt"), read("a.txt"), "done"]
    env = project(a__txt="a" * 500, b__txt="b" * 500)
    made = agent(*script, env=env, compact_strategy="tail", compact_threshold=700, compact_keep_turns=1)

    await made.run("go")

    assert not any(t.startswith("Unchanged") for t in texts(made.messages))
    made = agent(*script, env=env, compact_strategy="tail")
    await made.run("go")
    assert texts(made.messages)[2].startswith("Unchanged")


async def test_stale_reads_and_old_results_are_left_out_together() -> None:
    env = project(a__txt="a" * 600, b__txt="b" * 600)
    script = [[read("a.txt"), read("b.txt")], edit("a.txt", "a" * 600, "A"), "done", "done"]
    both: Any = {"elide_stale_reads": True, "compact_strategy": "tail", "compact_keep_turns": 1}
    made = agent(*script, env=env, compact_threshold=1000, **both)

    await made.run("go")
    await made.run("go on")

    stale, old, edited = texts(requests(made)[-1].messages)
    assert stale.startswith("[Left out: a.txt has changed")
    assert old.startswith("[Result of read_file left out")
    assert edited.startswith("Edited a.txt")


@pytest.mark.covers("CMP-11")
async def test_where_the_host_does_it_itself_it_is_left_to_the_host() -> None:
    class Hosted(ScriptedModel):
        profile = ModelProfile(
            ModelInfo("m", "anthropic"),
            "http://localhost",
            messages=AnthropicCapabilities(context_management={"edits": []}),
        )

    made = looking(8, compact_strategy="tail")
    hosted = Hosted(*[ScriptedCall("look")] * 8, "done")

    await made.run("go", model=hosted)
    assert texts(hosted.requests[-1].messages) == [BIG] * 8

    hosted = Hosted(read("a.txt"), read("a.txt"), "done")
    reading = agent("", env=project(a__txt="a"))
    await reading.run("go", model=hosted)
    assert texts(reading.messages)[1] == texts(reading.messages)[0]  # the host may have cleared the first


async def test_there_is_no_other_strategy() -> None:
    with pytest.raises(ConfigError, match="compact_strategy must be 'off' or 'tail', not 'tial'"):
        await agent("x", compact_strategy="tial").run("go")


_turns = st.lists(
    st.one_of(
        st.lists(st.integers(0, 3000), min_size=1, max_size=3),  # sizes of the results of a turn
        st.just("text"),
        st.just("custom"),
    ),
    max_size=25,
)


def _build(events: list[Any]) -> list[AgentMessage]:
    history: list[AgentMessage] = [Message.user("go")]
    for number, event in enumerate(events):
        if event == "text":
            history.append(Message.user("more"))
        elif event == "custom":
            history.append(CustomMessage("note"))
        else:
            history += turn(*[("look", "é" * (size // 2), None) for size in event], number=number)
    return history


def _bytes(block: ToolResultBlock) -> int:
    return len(block.text.encode())


@given(_turns, st.integers(0, 4000), st.integers(0, 4), st.data())
@pytest.mark.covers("CMP-09", "CMP-10")
def test_whatever_the_history_only_old_results_change_and_enough_of_them(
    events: list[Any], threshold: int, keep: int, data: st.DataObject
) -> None:
    whole = _build(events)
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
            assert new is old or (new.text.startswith("[Result of look left out") and len(new.text) < _bytes(old))
    first = next(
        (i for i, m in enumerate(history) if m is hook.messages[i] and any(_bytes(b) > 110 for b in results([m]))), cut
    )
    left = sum(_bytes(b) for b in results(history[first:]))  # what was not looked at yet
    assert left <= threshold or first >= cut
    stubbed = [i for i, m in enumerate(last) if m is not history[i]]
    assert all(hook.messages[i] is last[i] for i in stubbed)  # once left out, always the same


def test_a_long_conversation_costs_no_more_by_the_turn() -> None:
    """Each message is looked at once: the work of a turn does not grow with the history, but for copies at the speed of C."""
    history: list[AgentMessage] = [Message.user("go")]
    policy = ToolResultClearing(lambda: history, threshold=20_000, keep_turns=4)
    costs: list[float] = []
    for number in range(400):
        history += turn(("look", "x" * 500, None), number=number)
        hook = ContextTransform(list(history), number, "")
        started = time.perf_counter()
        policy.on_context_transform(hook)
        costs.append(time.perf_counter() - started)

    assert statistics.median(costs[-50:]) < 0.001
    assert len(words(history)) == 1


@pytest.mark.covers("AGT-27")
async def test_a_run_may_ask_for_it() -> None:
    made = looking(6)

    await made.run("go", behavior=RunOptions(compact_strategy="tail"))

    assert texts(requests(made)[-1].messages)[0] == STUB
