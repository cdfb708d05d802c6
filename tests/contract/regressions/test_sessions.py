"""Known problems of agents with long conversations and shared state, each of which lost work of users."""

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
from mainspring.memory import Memory
from mainspring.messages import AgentMessage, Message, ToolResultBlock, Usage
from mainspring.models import ModelInfo, ModelRequest
from mainspring.policies.compaction import Compaction, SummaryCompactor, is_summary
from mainspring.run_options import RunOptions
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import tool

GOOD = "## Goal\nLook at everything.\n\n## Progress\n### Done\nsome looks\n\n## Next steps\nmore looks"


@tool
async def look(n: int, size: int = 4000) -> str:
    """Look at something.

    Args:
        n: The number.
        size: The size of the result.
    """
    return f"result {n} " + "z" * size


def is_compaction(request: ModelRequest) -> bool:
    return "You summarize" in request.system


class LookupModel:
    """A model that makes a number of lookups, writes summaries on request, and may report its token usage."""

    def __init__(self, count: int, *, reports_usage: bool = True, size: int = 4000) -> None:
        self.left, self.reports_usage, self.size = count, reports_usage, size

    def __call__(self, request: ModelRequest) -> Reply:
        chars = sum(len(str(b)) for m in request.messages for b in m.content) + len(request.system)
        usage = Usage(input_tokens=chars // 4, output_tokens=20) if self.reports_usage else None
        if is_compaction(request):
            return Reply(GOOD, usage=usage)
        self.left -= 1
        if self.left < 0:
            return Reply("done", usage=usage)
        return Reply(calls=[ScriptedCall("look", {"n": self.left, "size": self.size})], usage=usage)


def create_model(script: Any, window: int = 16_000) -> ScriptedModel:
    return ScriptedModel(script, loop=True, info=ModelInfo("small", "scripted", context_window=window))


def create_agent(model: ScriptedModel, options: Compaction | None = None, **more: Any) -> Agent:
    behavior = RunOptions(compaction=options or Compaction(), max_turns=100)
    return Agent(model, tools=[look], execution=MemoryEnv(), behavior=behavior, **more)


def turn_requests(model: ScriptedModel) -> list[ModelRequest]:
    return [s.request for s in model.requests if not is_compaction(s.request)]


def estimate_tokens(request: ModelRequest) -> int:
    return sum(len(str(b)) for m in request.messages for b in m.content) // 4


@pytest.mark.covers("CMP-01")
async def test_compaction_counts_results_of_the_next_request() -> None:
    """C-03: the usage of the last response does not include the results after it."""
    model = create_model(LookupModel(4, size=20_000))

    await create_agent(model).run("go")

    assert any(is_compaction(s.request) for s in model.requests)
    assert max(map(estimate_tokens, turn_requests(model))) < 16_000


@pytest.mark.covers("CMP-01", "CMP-13")
async def test_compaction_works_without_token_counts() -> None:
    """C-05."""
    model = create_model(LookupModel(40, reports_usage=False))

    outcome = await create_agent(model).run("go")

    assert outcome.text == "done"
    assert max(map(estimate_tokens, turn_requests(model))) < 16_000


@pytest.mark.covers("CMP-01")
async def test_old_token_counts_do_not_trigger_a_second_compaction() -> None:
    """C-04: usage reported before the compaction belongs to the old history."""
    model = create_model(LookupModel(14))

    await create_agent(model).run("go")

    kinds = [is_compaction(s.request) for s in model.requests]
    assert kinds.count(True) == 1
    assert not any(a and b for a, b in zip(kinds, kinds[1:], strict=False))


@pytest.mark.covers("BYD-26")
async def test_configured_threshold_overrides_the_context_window() -> None:
    """C-06: the context window of a local model is smaller than that of the large models."""
    unlimited, limited = (
        create_model(LookupModel(10), window=1_000_000),
        create_model(LookupModel(10), window=1_000_000),
    )

    await create_agent(unlimited).run("go")
    await create_agent(limited, Compaction(threshold=6000, keep_recent=2000)).run("go")

    assert not any(is_compaction(s.request) for s in unlimited.requests)
    assert max(map(estimate_tokens, turn_requests(limited))) < 8000


@pytest.mark.covers("CMP-07", "MEM-02")
async def test_context_window_from_an_error_is_remembered() -> None:
    """C-06: one oversized request is sent, not one each time."""
    lookup_model, rejected = LookupModel(60), list[int]()

    def script(request: ModelRequest) -> Reply | Exception:
        reply = lookup_model(request)
        assert reply.usage
        if reply.usage.input_tokens <= 16_000:
            return reply
        rejected.append(reply.usage.input_tokens)
        lookup_model.left += 1
        text = "This model's maximum context length is 16000 tokens. However, your messages resulted in more."
        return ContextExceededError(text, reason="overflow", provider="scripted", model="small")

    model = ScriptedModel(script, loop=True, info=ModelInfo("small", "scripted"))
    behavior = RunOptions(compaction=Compaction(keep_recent=4000))
    agent = Agent(model, tools=[look], execution=MemoryEnv(), behavior=behavior)
    assert (await agent.run("look at all of it")).text == "done"
    assert len(rejected) == 1


async def test_compaction_keeps_memory_instructions_tools_and_prompt(tmp_path: Path) -> None:
    """C-08: only messages are compacted."""
    (tmp_path / "MEMORY.md").write_text("- Likes tea\n", encoding="utf-8")
    model = create_model(LookupModel(30))
    agent = create_agent(model, system="Mind the gap.", memory=Memory(user=tmp_path / "MEMORY.md"))

    await agent.run("Find the purple one.")

    after = turn_requests(model)[-1]
    assert is_summary(after.messages[0])
    assert "Mind the gap." in after.system
    assert "Likes tea" in after.system
    assert "Find the purple one." in after.messages[0].text
    assert [t.name for t in after.tools] == [t.name for t in turn_requests(model)[0].tools]


@pytest.mark.covers("CMP-08")
async def test_message_steered_during_compaction_is_kept() -> None:
    """C-10."""
    lookup_model = LookupModel(20)

    def script(request: ModelRequest) -> Reply:
        if is_compaction(request) and not typed:
            typed.append("And the green one!")
            agent.steer(typed[0])
        return lookup_model(request)

    typed: list[str] = []
    model = create_model(script)
    agent = create_agent(model)
    await agent.run("go")

    assert typed
    assert sum(m.text == typed[0] for m in agent.messages if isinstance(m, Message)) == 1


async def test_oversized_system_prompt_is_not_compacted_forever() -> None:
    """C-01, C-11: compaction cannot shorten a system prompt."""
    model = create_model(LookupModel(8, reports_usage=False, size=400), window=4000)
    agent = create_agent(model, system="x" * 20_000)

    await agent.run("go")

    assert sum(is_compaction(s.request) for s in model.requests) <= 2


async def test_each_request_extends_the_previous_one() -> None:
    """C-12: only a compaction may invalidate the prompt cache of a provider."""
    model = create_model(LookupModel(12), window=1_000_000)
    agent = create_agent(model, system="Mind the gap.")
    await agent.run("go")
    await agent.run("and on")

    requests = turn_requests(model)
    encoded = [[msgspec.json.encode(m) for m in r.messages] for r in requests]
    for earlier, later in zip(encoded, encoded[1:], strict=False):
        assert later[: len(earlier)] == earlier
    assert len({(r.system, msgspec.json.encode(r.tools)) for r in requests}) == 1


async def answer_side_call(purpose: str, request: ModelRequest, *, model: object = None) -> Message:
    del purpose, request, model
    return Message.assistant(GOOD)


def lone_result(id: str) -> Message:
    return Message("user", (ToolResultBlock(tool_use_id=id, name="look", content="z" * 9000),))


@pytest.mark.covers("CMP-04")
@pytest.mark.parametrize(
    "history",
    [
        [],
        [Message.user("x" * 90_000)],
        [lone_result(f"c{i}") for i in range(20)],
        [Message.assistant("x" * 9000) for _ in range(20)],
        [m for i in range(20) for m in (Message.assistant("x" * 9000), lone_result(f"c{i}"))],
    ],
    ids=["empty", "one prompt", "only results", "only answers", "results without calls"],
)
@pytest.mark.parametrize("reason", ["threshold", "overflow"])
@pytest.mark.parametrize("window", [1, 500, 8000, None])
async def test_odd_histories_and_tiny_windows_are_compacted_or_unchanged(
    history: list[AgentMessage], reason: str, window: int | None
) -> None:
    shorter = await SummaryCompactor().compact(history, reason=reason, side_call=answer_side_call, window=window)

    assert shorter is None or (is_summary(shorter[0]) and len(shorter) <= len(history) + 1)


def test_folders_trusted_in_parallel_are_all_stored(tmp_path: Path) -> None:
    """S-02: no write replaces the file with an outdated state."""
    home = UserPaths(tmp_path / "home")
    folders = [tmp_path / f"p{i}" for i in range(12)]
    for folder in folders:
        folder.mkdir()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda folder: TrustStore(home).add(folder), folders))
        list(pool.map(lambda folder: TrustStore(home).remove(folder), folders[:4]))

    assert [Path(t.folder).name for t in TrustStore(home).list()] == sorted(f.name for f in folders[4:])
    assert (tmp_path / "home" / "trust.json").stat().st_mode & 0o077 == 0
