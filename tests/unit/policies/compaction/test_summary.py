import asyncio
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from mainspring import Agent, RunOptions, Session
from mainspring.env.memory import MemoryEnv
from mainspring.errors import (
    AgentAbortedError,
    AgentContextExceededError,
    ContextExceededError,
    ModelError,
    ModelTimeoutError,
)
from mainspring.events import ContextCompacted
from mainspring.messages import (
    AgentMessage,
    ImageBlock,
    Message,
    TextBlock,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
    utc_now,
)
from mainspring.messages.token_estimate import TokenEstimator, estimate_tokens
from mainspring.models import ModelInfo, ModelRequest
from mainspring.policies.compaction import (
    Compaction,
    SummaryCompactor,
    find_cut_index,
    is_summary,
    parse_summary_message,
)
from mainspring.policies.compaction.window_report import describe_window
from mainspring.sessions import CompactionEntry, MemorySessionStore
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import tool

GOOD = "## Goal\nBuild it\n## Progress\n### Done\nsome\n### In progress\nnone\n### Blocked\nnone\n## Key decisions\nnone\n## Next steps\n1. go"


class FakeSummarizer:
    """Replaces the model that writes summaries."""

    def __init__(self, *answers: str | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[ModelRequest] = []

    async def __call__(self, purpose: str, request: ModelRequest, *, model: Any = None) -> Message:
        assert purpose == "summary"
        self.requests.append(request)
        answer = self.answers.pop(0) if self.answers else GOOD
        if isinstance(answer, Exception):
            raise answer
        return Message("assistant", (TextBlock(answer),))

    @property
    def texts(self) -> list[str]:
        return [r.messages[0].text for r in self.requests]


def make_call(id: str, name: str = "read_file", **arguments: Any) -> Message:
    return Message("assistant", (ToolUseBlock(id, name, arguments),), stop_reason="tool_use")


def make_result(id: str, text: str, name: str = "read_file") -> Message:
    return Message("user", (ToolResultBlock(id, name, text),))


def make_conversation(turns: int, size: int = 4000) -> list[AgentMessage]:
    messages: list[AgentMessage] = []
    for i in range(turns):
        messages += [
            Message.user(f"Request {i}"),
            make_call(f"c{i}", path=f"f{i}.py"),
            make_result(f"c{i}", "x" * size),
            Message("assistant", (TextBlock(f"Answer {i}"),)),
        ]
    return messages


def text_of(message: AgentMessage) -> str:
    assert isinstance(message, Message)
    return message.text


def has_complete_pairs(messages: Sequence[AgentMessage]) -> bool:
    open_calls: set[str] = set()
    for message in messages:
        assert isinstance(message, Message)
        results = {r.tool_use_id for r in message.tool_results}
        if results != open_calls:
            return False
        open_calls = {c.id for c in message.tool_uses}
    return not open_calls


@pytest.mark.covers("CMP-02", "CMP-04")
def test_cut_keeps_recent_tokens_and_falls_before_a_prompt() -> None:
    messages = make_conversation(40)

    cut = find_cut_index(messages, 10_000)

    assert text_of(messages[cut]).startswith("Request")
    assert 10_000 <= estimate_tokens(messages[cut:]) <= 15_500


@pytest.mark.covers("CMP-04", "OPT-09")
def test_long_turn_is_split_between_call_and_result_pairs() -> None:
    messages: list[AgentMessage] = [Message.user("One long task")]
    for i in range(60):
        messages += [make_call(f"c{i}", path=f"f{i}"), make_result(f"c{i}", "y" * 4000)]

    cut = find_cut_index(messages, 10_000)

    assert 0 < cut < len(messages) - 8
    assert has_complete_pairs(messages[:cut])
    assert has_complete_pairs(messages[cut:])


shapes = st.lists(st.tuples(st.sampled_from(["prompt", "pair", "answer"]), st.integers(1, 3000)), max_size=30)


@pytest.mark.covers("CMP-04", "TST-07")
@settings(max_examples=150)
@given(shapes, st.integers(0, 8000))
def test_cut_never_separates_a_call_from_its_result(shape: list[tuple[str, int]], keep: int) -> None:
    messages: list[AgentMessage] = []
    for i, (kind, size) in enumerate(shape):
        match kind:
            case "prompt":
                messages.append(Message.user("p" * size))
            case "pair":
                messages += [make_call(f"c{i}"), make_result(f"c{i}", "r" * size)]
            case _:
                messages.append(Message("assistant", (TextBlock("a" * size),)))

    cut = find_cut_index(messages, keep)

    assert 0 <= cut < max(len(messages), 1)
    assert has_complete_pairs(messages[:cut])
    assert has_complete_pairs(messages[cut:])


@pytest.mark.covers("CMP-05", "CMP-06", "OPT-09")
async def test_summary_replaces_the_old_messages_and_lists_files() -> None:
    messages = [replace(message, id=f"m{i}") for i, message in enumerate(make_conversation(40))]
    summarizer = FakeSummarizer()
    compactor = SummaryCompactor(Compaction(keep_recent=10_000))

    shorter = await compactor.compact(messages, reason="threshold", side_call=summarizer)

    assert shorter is not None
    head, *rest = shorter
    assert all(any(m is old for old in messages) for m in rest)
    assert is_summary(head)
    for heading in ("## Goal", "### Done", "### In progress", "### Blocked", "## Key decisions", "## Next steps"):
        assert heading in summarizer.texts[0]
    report = compactor.last_result
    assert report is not None
    assert report.summary == GOOD
    assert report.first_kept == rest[0].id == f"m{len(messages) - len(rest)}"
    assert (report.tokens_before, report.tokens_after) == (estimate_tokens(messages), estimate_tokens(shorter))
    assert report.tokens_after < report.tokens_before / 2
    assert report.files.read[:2] == ("f0.py", "f1.py")
    assert "Request 0" in text_of(head)
    assert len(summarizer.texts[0]) < 40 * 2500


@pytest.mark.covers("OPT-09")
async def test_next_summary_updates_the_previous_one() -> None:
    compactor = SummaryCompactor(Compaction(keep_recent=2000))
    first = await compactor.compact(
        [
            Message.user("Make tea"),
            make_call("w", "write_file", path="tea.py"),
            make_result("w", "ok", "write_file"),
            *make_conversation(10),
        ],
        reason="threshold",
        side_call=FakeSummarizer(GOOD.replace("Build it", "Make tea")),
    )
    assert first is not None
    summarizer = FakeSummarizer()

    second = await compactor.compact([*first, *make_conversation(10)], reason="threshold", side_call=summarizer)

    assert second is not None
    assert sum(map(is_summary, second)) == 1
    assert "<previous-summary>\n## Goal\nMake tea" in summarizer.texts[0]
    text, files, said = parse_summary_message(cast("Message", second[0]))
    assert text == GOOD
    assert files.changed == ("tea.py",)
    assert said[0] == "Make tea"


@pytest.mark.covers("BYD-26", "CMP-14")
@pytest.mark.parametrize("bad", ["", "   ", "ok", ModelError("quota", reason="quota"), ModelError("down")])
async def test_failed_summary_does_not_replace_the_history(bad: str | Exception) -> None:
    messages = make_conversation(40)

    for reason in ("threshold", "overflow"):
        compactor, summarizer = SummaryCompactor(), FakeSummarizer(*[bad] * 9)
        before = list(messages)
        assert await compactor.compact(messages, reason=reason, side_call=summarizer) is None
        assert compactor.problem.startswith("The summary failed: ")
        assert messages == before
        sizes = [len(text) for text in summarizer.texts]
        assert len(sizes) == (1 if isinstance(bad, ModelError) and bad.reason == "quota" else 4)
        assert all(after < size * 0.7 for size, after in pairwise(sizes))


async def test_summary_that_is_longer_than_the_messages_does_not_replace_them() -> None:
    compactor = SummaryCompactor()
    messages = make_conversation(40)

    assert await compactor.compact(messages, reason="threshold", side_call=FakeSummarizer("word " * 50_000)) is None
    assert compactor.problem.startswith("The summary is longer")


@pytest.mark.parametrize("bad", ["", ModelError("down"), ModelTimeoutError("too slow")])
async def test_summary_that_fails_for_a_long_text_is_made_of_its_halves(bad: str | Exception) -> None:
    messages = make_conversation(60)
    summarizer = FakeSummarizer(bad, bad)

    shorter = await SummaryCompactor(Compaction(keep_recent=2000)).compact(
        messages, reason="threshold", side_call=summarizer, window=200_000
    )

    assert shorter is not None
    text = "".join(summarizer.texts[2:])
    assert all(f"Answer {i}" in text for i in range(55)), "all of the old part is summarized"


async def test_single_long_message_is_split_in_half_without_loss() -> None:
    long = " ".join(f"word{i}" for i in range(5000))
    messages = [Message.user(long), Message.assistant("ok"), *make_conversation(10)]
    summarizer = FakeSummarizer("", "")

    await SummaryCompactor(Compaction(keep_recent=9000)).compact(messages, reason="threshold", side_call=summarizer)

    assert summarizer.texts[2:]
    text = "".join(part.split("<conversation>\n")[1].split("\n</conversation>")[0] for part in summarizer.texts[2:])
    assert "word0 " in text
    assert "word4999" in text


@pytest.mark.covers("OPT-10")
async def test_overflow_without_a_model_drops_old_messages_with_a_note() -> None:
    messages = make_conversation(40)

    shorter = await SummaryCompactor().compact(messages, reason="overflow")

    assert shorter is not None
    assert "; left out.)" in text_of(shorter[0])
    assert "Request 0" in text_of(shorter[0])
    assert has_complete_pairs(shorter)


@pytest.mark.covers("OPT-10")
async def test_oversized_summary_request_is_split() -> None:
    messages = make_conversation(120)
    summarizer = FakeSummarizer(
        ContextExceededError("too long", reason="overflow"), ContextExceededError("too long", reason="overflow")
    )

    shorter = await SummaryCompactor(Compaction(keep_recent=2000)).compact(
        messages, reason="threshold", side_call=summarizer, window=40_000
    )

    assert shorter is not None
    sizes = [len(text) for text in summarizer.texts]
    assert sizes[1] < sizes[0] * 0.6
    assert sizes[2] < sizes[1] * 0.6
    assert "Answer 0" in summarizer.texts[2]
    assert "<previous-summary>" in summarizer.texts[3]


async def test_images_are_not_sent_to_the_summary_model() -> None:
    picture = ImageBlock("image/png", "A" * 5000)
    messages: list[AgentMessage] = [Message("user", (TextBlock("look"), picture)), *make_conversation(20)]
    summarizer = FakeSummarizer()

    await SummaryCompactor(Compaction(keep_recent=2000)).compact(messages, reason="threshold", side_call=summarizer)

    assert "[image/png image]" in summarizer.texts[0]
    assert "AAAA" not in summarizer.texts[0]


@pytest.mark.covers("BYD-26")
async def test_prompt_kept_messages_and_instructions_are_customizable() -> None:
    important = make_result("skill", "THE SKILL", "skills_use")
    messages: list[AgentMessage] = [
        Message.user("hi"),
        make_call("skill", "skills_use"),
        important,
        *make_conversation(20),
    ]
    summarizer = FakeSummarizer()
    options = Compaction(
        keep_recent=2000,
        prompt="Just the verbs.",
        keep=lambda m: isinstance(m, Message) and any(r.name == "skills_use" for r in m.tool_results),
    )

    shorter = await SummaryCompactor(options).compact(
        messages, reason="asked", side_call=summarizer, instructions="Mind the colours."
    )

    assert shorter is not None
    assert any(m is important for m in shorter)
    assert has_complete_pairs(shorter)
    assert summarizer.texts[0].startswith("Just the verbs.")
    assert "Mind the colours." in summarizer.texts[0]


@pytest.mark.covers("OPT-10")
async def test_important_messages_are_kept_verbatim() -> None:
    change = [make_call("w", "edit", path="a.py"), make_result("w", "changed", "edit")]
    failure = [
        make_call("f", "shell", command="make"),
        Message("user", (ToolResultBlock("f", "shell", "error 2", is_error=True),)),
    ]
    dull: list[AgentMessage] = [
        m for i in range(30) for m in (make_call(f"d{i}", path="x"), make_result(f"d{i}", "." * 2000))
    ]
    wish = Message.user("It must never block.")
    messages: list[AgentMessage] = [wish, *dull[:20], *change, *dull[20:40], *failure, *dull[40:]]

    shorter = await SummaryCompactor(Compaction(keep_recent=1000, keep_important=200)).compact(
        messages, reason="threshold", side_call=FakeSummarizer()
    )

    assert shorter is not None
    assert [m for m in shorter[1:] if any(m is x for x in (wish, *change, *failure))] == [wish, *change, *failure]
    assert sum(any(m is d for d in dull) for m in shorter) <= 4
    assert has_complete_pairs(shorter[2:])


@pytest.mark.covers("BYD-26", "CMP-01", "CMP-02")
def test_limits_depend_on_the_context_window() -> None:
    assert Compaction().limit(200_000) == 200_000 - 16384
    assert Compaction().limit(8192) == 6144
    assert Compaction(threshold=0.5).limit(200_000) == 100_000
    assert Compaction(threshold=30_000).limit(None) == 30_000
    assert Compaction().limit(None) is None
    assert Compaction().keep_tokens_for(200_000) == 20_000
    assert Compaction().keep_tokens_for(8192) == 2730


@pytest.mark.covers("CMP-13")
def test_token_count_combines_reported_usage_and_estimate() -> None:
    meter = TokenEstimator()
    answer = Message("assistant", (TextBlock("ok"),), usage=Usage(input_tokens=900, output_tokens=100, cache_read=4000))
    messages: list[AgentMessage] = [Message.user("x" * 400), answer]

    assert meter.tokens(messages) == 5000
    assert meter.tokens([*messages, Message.user("y" * 4000)]) == 5000 + 1004
    assert meter.tokens([Message.user("x" * 400)], overhead=50) == 50 + 104
    meter.calibrate(20_000, 10_000)
    assert meter.chars_per_token == 3.0
    assert meter.tokens([Message.user("x" * 300)]) == 104


# --- in an agent -----------------------------------------------------------------------------------------------------


@tool
async def look(n: int) -> str:
    """Look at something.

    Args:
        n: Which.
    """
    return f"result {n} " + "z" * 4000


def small_model(*script: Any, **options: Any) -> ScriptedModel:
    info = ModelInfo("small", "scripted", context_window=16_000)
    return ScriptedModel(*script, info=info, **options)


def work_or_summarize(request: ModelRequest) -> Reply:
    """Call `look` again and again, report the tokens, and return a summary if asked for one."""
    chars = sum(len(str(b)) for m in request.messages for b in m.content)
    usage = Usage(input_tokens=chars // 4, output_tokens=20)
    if request.system and "You summarize" in request.system:
        return Reply(GOOD, usage=usage)
    done = sum("result" in r.text for m in request.messages for r in m.tool_results)
    assert usage.input_tokens < 16_000, "the window was exceeded"
    return Reply(calls=[ScriptedCall("look", {"n": done})], usage=usage)


class ToolLoop:
    """Calls `look` a number of times, then ends the run."""

    def __init__(self, count: int) -> None:
        self.left = count

    def __call__(self, request: ModelRequest) -> Reply:
        reply = work_or_summarize(request)
        if reply.calls:
            self.left -= 1
            if self.left < 0:
                return Reply("done", usage=reply.usage)
        return reply


@pytest.mark.covers("CMP-01", "CMP-07", "CMP-08", "SES-18")
async def test_long_run_stays_within_the_window_and_the_session_is_complete() -> None:
    store = MemorySessionStore()
    session = Session.create("/", home=store)
    model = small_model(ToolLoop(60), loop=True)
    agent = Agent(
        model, tools=[look], execution=MemoryEnv(), session=session, behavior=RunOptions(compaction=Compaction())
    )
    compaction_events: list[ContextCompacted] = []
    agent.on(ContextCompacted)(compaction_events.append)

    outcome = await agent.run("Look at everything, and mind the blue ones.")

    assert outcome.text == "done"
    assert len(compaction_events) >= 3
    work_requests = [s for s in model.requests if s.request.tools]
    assert all("mind the blue ones" in s.messages[0].text for s in work_requests)
    for seen in work_requests:
        assert has_complete_pairs(seen.messages)
    compactions = [e for e in session.entries() if isinstance(e, CompactionEntry)]
    assert len(compactions) == len(compaction_events)
    session.close()
    with Session.open(session.id, home=store) as again:
        assert [m.id for m in again.messages] == [m.id for m in agent.messages]
        assert len(again.messages) < 40
        stored = [e for e in again.entries() if e.__struct_config__.tag == "result"]
        assert len(stored) == 60


@pytest.mark.covers("CMP-03")
async def test_library_does_not_compact_by_default() -> None:
    async def has_summary(behavior: RunOptions) -> bool:
        model = ScriptedModel(ToolLoop(12), loop=True, info=ModelInfo("m", "scripted", context_window=5000))
        await Agent(model, tools=[look], execution=MemoryEnv(), behavior=behavior).run("go")
        return any("You summarize" in s.request.system for s in model.requests)

    assert await has_summary(RunOptions(compaction=Compaction()))
    assert not await has_summary(RunOptions())


@pytest.mark.covers("CMP-12")
async def test_overflow_triggers_one_summary_and_a_retry() -> None:
    failed = False

    def script(request: ModelRequest) -> Reply | Exception:
        nonlocal failed
        if "You summarize" in request.system:
            return Reply(GOOD)
        if len(request.messages) > 100 and not failed:
            failed = True
            return ContextExceededError("prompt is too long", reason="overflow")
        return Reply("fits")

    model = ScriptedModel(script, loop=True)
    agent = Agent(
        model,
        messages=make_conversation(40),
        execution=MemoryEnv(),
        behavior=RunOptions(compaction=Compaction(keep_recent=5000)),
    )

    outcome = await agent.run("go on")

    assert outcome.text == "fits"
    assert is_summary(agent.messages[0])
    assert failed


@pytest.mark.covers("OPT-10")
async def test_ineffective_summaries_stop_the_run() -> None:
    def script(request: ModelRequest) -> Reply | Exception:
        if "You summarize" in request.system:
            return Reply("S" * 60_000)
        if len(model.requests) > 12:
            return ContextExceededError("prompt is too long", reason="overflow")
        return Reply(calls=[ScriptedCall("look", {"n": 1})], usage=Usage(input_tokens=15_900))

    model = small_model(script, loop=True)
    agent = Agent(
        model, tools=[look], execution=MemoryEnv(), behavior=RunOptions(compaction=Compaction(), max_turns=30)
    )

    with pytest.raises(
        AgentContextExceededError,
        match="summaries in a row failed or freed too little.*The window is filled with about",
    ):
        await agent.run("go")

    assert sum("You summarize" in s.request.system for s in model.requests) <= 6


async def test_resumed_session_does_not_compact_again() -> None:
    store = MemorySessionStore()
    session = Session.create("/", home=store)
    model = small_model(ToolLoop(14), loop=True)
    options = RunOptions(compaction=Compaction())
    agent = Agent(model, tools=[look], execution=MemoryEnv(), session=session, behavior=options)
    await agent.run("Look")
    session.close()
    before = sum("You summarize" in s.request.system for s in model.requests)
    assert before == 1

    with Session.open(session.id, home=store) as again:
        second = small_model("hello", loop=True)
        await Agent(second, tools=[look], execution=MemoryEnv(), session=again, behavior=options).run("and?")

    assert len(second.requests) == 1
    assert utc_now() > second.requests[0].messages[0].timestamp


LONG = "word " * 40_000


@pytest.mark.parametrize("compaction", [None, Compaction()])
@pytest.mark.parametrize("window", [None, 16_000])
@pytest.mark.parametrize(
    "texts",
    [["go", LONG], ["go", "ok", "more", LONG], ["go", LONG, "more", LONG], [LONG, "ok"], ["go", LONG, "more", "ok"]],
)
async def test_message_longer_than_the_window_of_another_model_is_summarized(
    texts: list[str], window: int | None, compaction: Compaction | None
) -> None:
    def script(request: ModelRequest) -> Reply | Exception:
        tokens = estimate_tokens(request.messages)
        failure = ContextExceededError(f"prompt is too long: {tokens} tokens > 16000 maximum", reason="overflow")
        return failure if tokens > 16_000 else Reply(GOOD)

    model = ScriptedModel(script, loop=True, info=ModelInfo("m", "scripted", window))
    messages = [Message.assistant(text) if i % 2 else Message.user(text) for i, text in enumerate(texts)]
    agent = Agent(model, messages=messages, behavior=RunOptions(compaction=compaction))

    assert (await agent.run("and now?")).status == "completed"

    assert "and now?" in model.requests[-1].messages[-1].text
    assert len(model.requests) <= 20


@pytest.mark.parametrize("compaction", [None, Compaction(keep_recent=5000)])
async def test_overflow_that_no_summary_resolves_names_what_fills_the_window(compaction: Compaction | None) -> None:
    def script(request: ModelRequest) -> Reply | Exception:
        if "You summarize" in request.system:
            return Reply("")
        return ContextExceededError("The prompt is too long (HTTP 400).", reason="overflow")

    system = 'Be brief. <instructions path="/work/AGENTS.md">\n' + "Use tabs. " * 500 + "\n</instructions>"
    messages = make_conversation(40, 1000)
    agent = Agent(
        ScriptedModel(script, loop=True, info=ModelInfo("m", "p", 32_000)),
        system=system,
        tools=[look],
        messages=messages,
        execution=MemoryEnv(),
        behavior=RunOptions(compaction=compaction),
    )

    with pytest.raises(AgentContextExceededError) as caught:
        await agent.run("go on")

    text = str(caught.value)
    assert text.startswith(
        "The prompt is too long (HTTP 400). The summary failed: the model returned no summary. The window is filled with"
    )
    if compaction is None:  # The results were shortened first.
        assert " of 32,000 tokens: AGENTS.md about 1,2" in text
        return
    assert " of 32,000 tokens: tool results about " in text
    assert re.search(
        r"tool results about [\d,]+, AGENTS.md about 1,2\d\d, messages about [\d,]+, 1 tool about \d+, system prompt about \d\.",
        text,
    )
    assert text.endswith("Start a new session, read smaller parts of files, or use a model with a larger window.")
    assert text.count("The window is filled") == 1
    assert list(agent.messages[: len(messages)]) == messages, "the history stays"


@pytest.mark.parametrize(
    ("system", "tools", "advice"),
    [
        ("s" * 9000, 1, "Shorten the system prompt"),
        ('<instructions path="/p/CLAUDE.md">' + "s" * 9000 + "</instructions>", 1, "Shorten CLAUDE.md"),
        ("s", 400, "Offer fewer tools or MCP servers"),
        ("s", 1, "Start a new session, or use a model"),
    ],
)
def test_description_of_the_window_advises_about_the_largest_part(system: str, tools: int, advice: str) -> None:
    definition = ToolDefinition("look", "Look.", {"type": "object"})
    text = describe_window(system, [definition] * tools, [Message.user("m" * 4000)])
    assert text.split(". ")[1].startswith(advice)


@pytest.mark.parametrize("compaction", [Compaction(keep_recent=2000), Compaction(keep_recent=2000, threshold=3000)])
async def test_abort_during_a_summary_aborts_the_run_and_keeps_the_history(compaction: Compaction) -> None:
    def script(request: ModelRequest) -> Reply | Exception:
        if "You summarize" in request.system:
            asyncio.get_running_loop().call_later(0.01, agent.abort, "enough")
            return Reply(GOOD, delay=30)
        return ContextExceededError("prompt is too long", reason="overflow")

    messages = make_conversation(20)
    agent = Agent(
        ScriptedModel(script, loop=True),
        messages=messages,
        execution=MemoryEnv(),
        behavior=RunOptions(compaction=compaction),
    )

    with pytest.raises(AgentAbortedError, match="enough"):
        await agent.run("go on")

    assert list(agent.messages[:-1]) == messages
