"""Known problems of agents with long conversations and shared state: each was somebody's lost work, none is to be ours."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring import Agent
from mainspring.app.workspace.paths import UserPaths
from mainspring.app.workspace.trust import TrustStore
from mainspring.env.memory import MemoryEnv
from mainspring.errors import ContextExceededError
from mainspring.loop import RunOptions
from mainspring.loop.option_types import Compaction
from mainspring.memory import Memory
from mainspring.messages import AgentMessage, Message, ToolResultBlock, Usage
from mainspring.models import ModelInfo, ModelRequest
from mainspring.policies.compaction import SummaryCompactor, is_summary
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import tool

GOOD = "## Goal\nLook at everything.\n\n## Progress\n### Done\nsome looks\n\n## Next steps\nmore looks"


@tool
async def look(n: int, size: int = 4000) -> str:
    """Look at something.

    Args:
        n: Which.
        size: How much of it.
    """
    return f"result {n} " + "z" * size


def sums_up(request: ModelRequest) -> bool:
    return "You sum up" in request.system


class Looker:
    """A model that looks so often, and sums up when asked; it tells its tokens or keeps them to itself."""

    def __init__(self, count: int, *, tells: bool = True, size: int = 4000) -> None:
        self.left, self.tells, self.size = count, tells, size

    def __call__(self, request: ModelRequest) -> Reply:
        chars = sum(len(str(b)) for m in request.messages for b in m.content) + len(request.system)
        usage = Usage(input_tokens=chars // 4, output_tokens=20) if self.tells else None
        if sums_up(request):
            return Reply(GOOD, usage=usage)
        self.left -= 1
        if self.left < 0:
            return Reply("done", usage=usage)
        return Reply(calls=[ScriptedCall("look", {"n": self.left, "size": self.size})], usage=usage)


def of(script: Any, window: int = 16_000) -> ScriptedModel:
    return ScriptedModel(script, loop=True, info=ModelInfo("small", "scripted", context_window=window))


def agent_of(model: ScriptedModel, options: Compaction | None = None, **more: Any) -> Agent:
    behavior = RunOptions(compaction=options or Compaction(), max_turns=100)
    return Agent(model, tools=[look], execution=MemoryEnv(), behavior=behavior, **more)


def work(model: ScriptedModel) -> list[ModelRequest]:
    return [s.request for s in model.requests if not sums_up(s.request)]


def length(request: ModelRequest) -> int:
    return sum(len(str(b)) for m in request.messages for b in m.content) // 4


@pytest.mark.covers("CMP-01")
async def test_results_that_are_about_to_be_sent_count() -> None:
    """C-03: the report of the last answer says nothing of the results that came after it."""
    model = of(Looker(4, size=20_000))

    await agent_of(model).run("go")

    assert any(sums_up(s.request) for s in model.requests)
    assert max(map(length, work(model))) < 16_000


@pytest.mark.covers("CMP-01", "CMP-13")
async def test_a_model_that_never_tells_its_tokens_is_summed_up_all_the_same() -> None:
    """C-05."""
    model = of(Looker(40, tells=False))

    outcome = await agent_of(model).run("go")

    assert outcome.text == "done"
    assert max(map(length, work(model))) < 16_000


@pytest.mark.covers("CMP-01")
async def test_after_a_summary_old_reports_do_not_call_for_another() -> None:
    """C-04: what answers before the summary told is of another history."""
    model = of(Looker(14))

    await agent_of(model).run("go")

    kinds = [sums_up(s.request) for s in model.requests]
    assert kinds.count(True) == 1
    assert not any(a and b for a, b in zip(kinds, kinds[1:], strict=False))


@pytest.mark.covers("BYD-26")
async def test_a_window_that_the_user_names_is_what_counts() -> None:
    """C-06: a local model's window is not that of the large ones."""
    free, told = of(Looker(10), window=1_000_000), of(Looker(10), window=1_000_000)

    await agent_of(free).run("go")
    await agent_of(told, Compaction(threshold=6000, keep_recent=2000)).run("go")

    assert not any(sums_up(s.request) for s in free.requests)
    assert max(map(length, work(told))) < 8000


@pytest.mark.covers("CMP-07", "MEM-02")
async def test_a_window_that_only_an_error_tells_is_remembered() -> None:
    """C-06: one request too many, not one each time."""
    looker, refused = Looker(60), list[int]()

    def script(request: ModelRequest) -> Reply | Exception:
        reply = looker(request)
        assert reply.usage
        if reply.usage.input_tokens <= 16_000:
            return reply
        refused.append(reply.usage.input_tokens)
        looker.left += 1
        text = "This model's maximum context length is 16000 tokens. However, your messages resulted in more."
        return ContextExceededError(text, reason="overflow", provider="scripted", model="small")

    model = ScriptedModel(script, loop=True, info=ModelInfo("small", "scripted"))
    behavior = RunOptions(compaction=Compaction(keep_recent=4000))
    agent = Agent(model, tools=[look], execution=MemoryEnv(), behavior=behavior)
    assert (await agent.run("look at all of it")).text == "done"
    assert len(refused) == 1


async def test_memory_instructions_tools_and_the_user_s_words_outlive_a_compaction(tmp_path: Path) -> None:
    """C-08: what is no message is not summed up."""
    (tmp_path / "MEMORY.md").write_text("- Likes tea\n", encoding="utf-8")
    model = of(Looker(30))
    agent = agent_of(model, system="Mind the gap.", memory=Memory(user=tmp_path / "MEMORY.md"))

    await agent.run("Find the purple one.")

    after = work(model)[-1]
    assert is_summary(after.messages[0])
    assert "Mind the gap." in after.system
    assert "Likes tea" in after.system
    assert "Find the purple one." in after.messages[0].text
    assert [t.name for t in after.tools] == [t.name for t in work(model)[0].tools]


@pytest.mark.covers("CMP-08")
async def test_what_is_typed_while_it_is_summed_up_arrives() -> None:
    """C-10."""
    looker = Looker(20)

    def script(request: ModelRequest) -> Reply:
        if sums_up(request) and not typed:
            typed.append("And the green one!")
            agent.steer(typed[0])
        return looker(request)

    typed: list[str] = []
    model = of(script)
    agent = agent_of(model)
    await agent.run("go")

    assert typed
    assert sum(m.text == typed[0] for m in agent.messages if isinstance(m, Message)) == 1


async def test_too_much_before_the_first_message_is_told_and_not_summed_up_for_ever() -> None:
    """C-01, C-11: no summary makes a system prompt shorter."""
    model = of(Looker(8, tells=False, size=400), window=4000)
    agent = agent_of(model, system="x" * 20_000)

    await agent.run("go")

    assert sum(sums_up(s.request) for s in model.requests) <= 2


async def test_each_request_begins_with_the_one_before_it() -> None:
    """C-12: only a compaction may change what a provider has in its cache."""
    model = of(Looker(12), window=1_000_000)
    agent = agent_of(model, system="Mind the gap.")
    await agent.run("go")
    await agent.run("and on")

    requests = work(model)
    encoded = [[msgspec.json.encode(m) for m in r.messages] for r in requests]
    for earlier, later in zip(encoded, encoded[1:], strict=False):
        assert later[: len(earlier)] == earlier
    assert len({(r.system, msgspec.json.encode(r.tools)) for r in requests}) == 1


async def ask(purpose: str, request: ModelRequest, *, model: object = None) -> Message:
    del purpose, request, model
    return Message.assistant(GOOD)


def result(id: str) -> Message:
    return Message("user", (ToolResultBlock(tool_use_id=id, name="look", content="z" * 9000),))


@pytest.mark.covers("CMP-04")
@pytest.mark.parametrize(
    "history",
    [
        [],
        [Message.user("x" * 90_000)],
        [result(f"c{i}") for i in range(20)],
        [Message.assistant("x" * 9000) for _ in range(20)],
        [m for i in range(20) for m in (Message.assistant("x" * 9000), result(f"c{i}"))],
    ],
    ids=["empty", "one prompt", "only results", "only answers", "results without calls"],
)
@pytest.mark.parametrize("reason", ["threshold", "overflow"])
@pytest.mark.parametrize("window", [1, 500, 8000, None])
async def test_odd_histories_and_tiny_windows_are_shortened_or_left_alone(
    history: list[AgentMessage], reason: str, window: int | None
) -> None:
    shorter = await SummaryCompactor().compact(history, reason=reason, side_call=ask, window=window)

    assert shorter is None or (is_summary(shorter[0]) and len(shorter) <= len(history) + 1)


def test_folders_that_are_trusted_at_once_are_all_kept(tmp_path: Path) -> None:
    """S-02: nobody writes a whole file from what it was a while ago."""
    home = UserPaths(tmp_path / "home")
    folders = [tmp_path / f"p{i}" for i in range(12)]
    for folder in folders:
        folder.mkdir()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda folder: TrustStore(home).add(folder), folders))
        list(pool.map(lambda folder: TrustStore(home).remove(folder), folders[:4]))

    assert [Path(t.folder).name for t in TrustStore(home).list()] == sorted(f.name for f in folders[4:])
    assert (tmp_path / "home" / "trust.json").stat().st_mode & 0o077 == 0
