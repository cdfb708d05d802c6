"""Recording real runs and replaying them without network, keys, or tools."""

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from mainspring import Agent, AgentProviderError, RetryConfig, RunOptions
from mainspring.errors import ConfigError
from mainspring.messages import ImageBlock, Message, TextBlock
from mainspring.models import MemoryResponse, MemoryTransport, create_model
from mainspring.models.http_model import HttpModel
from mainspring.testing import ReplayError, Tape
from mainspring.testing.scripted_model import ScriptedModel
from mainspring.tools import Attachment, ToolResult, tool

KEY = "sk-abcdefghijklmnopqrstuvwxyz123456"
SECRET = "hunter-2-of-\u00fc"
pytestmark = pytest.mark.covers("BYD-32")


def make_response(*, call: str = "", text: str = "") -> bytes:
    delta: dict[str, Any] = {"content": text}
    if call:
        function = {"name": "look", "arguments": json.dumps({"key": call})}
        delta = {"tool_calls": [{"index": 0, "id": f"call_{len(call)}", "type": "function", "function": function}]}
    reason = "tool_calls" if call else "stop"
    chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
    return f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()


class CountingTool:
    """A tool that counts its calls."""

    def __init__(self, output: str = "found") -> None:
        self.count = 0
        self.output = output

    def tool(self) -> Any:
        @tool
        async def look(key: str) -> str:
            """Look something up."""
            self.count += 1
            if key == "bad":
                raise FileNotFoundError(f"no {key}")
            return f"{self.output} {key} with {SECRET}"

        return look


def make_host_model(*answers: bytes) -> HttpModel:
    events = {"content-type": "text/event-stream"}
    refusals = {b"busy": 503, b"no": 401}
    served = [
        MemoryResponse(b"{}", refusals[a]) if a in refusals else MemoryResponse(a, headers=events) for a in answers
    ]
    delta = create_model("compatible:m", base_url="http://h/v1", api_key=KEY)
    assert isinstance(delta, HttpModel)
    return delta.with_transport(MemoryTransport(*served))


async def run_agent(
    tape: Tape, lookup_tool: CountingTool, model: Any = None, prompt: str = f"Find it, {SECRET}", **options: Any
) -> Any:
    model = tape.model("compatible:m", base_url="http://h/v1") if model is None else tape.model(model)
    behavior = RunOptions(retry=RetryConfig(base_delay_seconds=0.001 if tape.recording else 60_000), **options)
    return await Agent(model, tools=[lookup_tool.tool()], steps=tape.steps, behavior=behavior).run(prompt)


class _Recording(Tape):
    """A recording tape whose network transport is replaced by the fake host of a test."""

    def model(self, model: Any, **settings: Any) -> Any:
        recorder: Any = super().model(model, **settings)
        recorder._own_transport._own = model._own_transport
        return recorder


async def record_run(path: Path, *answers: bytes, lookup_tool: CountingTool | None = None) -> Any:
    with _Recording(path, "once", secrets=[SECRET]) as tape:
        return await run_agent(tape, lookup_tool or CountingTool(), make_host_model(*answers))


QUICK = RunOptions(retry=RetryConfig(base_delay_seconds=0.001))
TWO = (make_response(call="a"), make_response(call="bad"), make_response(text="Done."))


async def test_replay_needs_no_network_key_or_tools(tmp_path: Path) -> None:
    path = tmp_path / "tapes" / "run.jsonl"
    real = await record_run(path, *TWO)
    lookup_tool = CountingTool()
    with Tape(path, secrets=[SECRET]) as tape:
        assert not tape.recording
        played = await run_agent(tape, lookup_tool)
    assert played.text == real.text == "Done."
    assert lookup_tool.count == 0
    assert [r.is_error for m in played.messages for r in m.tool_results] == [False, True]
    assert "no bad" in played.messages[4].tool_results[0].text
    assert played.stats.turns == real.stats.turns == 3


async def test_tape_contains_no_secrets(tmp_path: Path) -> None:
    await record_run(tmp_path / "t", *TWO)
    text = (tmp_path / "t").read_text(encoding="utf-8")
    assert KEY not in text
    assert SECRET not in text
    assert [next(iter(json.loads(line))) for line in text.splitlines()] == ["tape", *["exchange"] * 3, *["tool"] * 2]


async def test_retry_is_replayed_without_delay(tmp_path: Path) -> None:
    await record_run(tmp_path / "t", b"busy", make_response(text="At last."))
    with Tape(tmp_path / "t", secrets=[SECRET]) as tape:
        assert (await run_agent(tape, CountingTool())).text == "At last."


async def test_changed_prompt_is_reported_with_the_difference(tmp_path: Path) -> None:
    await record_run(tmp_path / "t", *TWO)
    with pytest.raises(AgentProviderError, match="is 'Something else' instead of the recorded 'Find it"):
        with Tape(tmp_path / "t", secrets=[SECRET]) as tape:
            await run_agent(tape, CountingTool(), prompt="Something else")


async def test_run_that_stops_early_is_reported(tmp_path: Path) -> None:
    await record_run(tmp_path / "t", *TWO)
    tape = Tape(tmp_path / "t", secrets=[SECRET])
    with (
        pytest.raises(
            ReplayError, match=r"ended before POST /v1/chat/completions \(3 left in total\).*record the tape again"
        ),
        tape,
    ):
        await run_agent(tape, CountingTool(), max_turns=1)


async def test_changed_tool_call_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "t"
    await record_run(path, *TWO)
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text(
        "\n".join(x.replace('{"key": "a"}', '{"key": "b"}') if '"tool":' in x else x for x in lines), "utf-8"
    )
    with pytest.raises(ReplayError, match=r'called with \{"key": "a"\}, but the recording has'):
        with Tape(path, secrets=[SECRET]) as tape:
            await run_agent(tape, CountingTool())


async def test_live_tools_run_and_must_return_the_recorded_output(tmp_path: Path) -> None:
    await record_run(tmp_path / "t", *TWO)
    lookup_tool = CountingTool()
    with Tape(tmp_path / "t", tools="live", secrets=[SECRET]) as tape:
        assert (await run_agent(tape, lookup_tool)).text == "Done."
    assert lookup_tool.count == 2
    with pytest.raises(AgentProviderError, match="is 'lost a with"):
        with Tape(tmp_path / "t", tools="live", secrets=[SECRET]) as tape:
            await run_agent(tape, CountingTool("lost"))


async def test_failed_recording_keeps_the_old_tape(tmp_path: Path) -> None:
    path = tmp_path / "t"
    await record_run(path, *TWO)
    before = path.read_bytes()
    with pytest.raises(AgentProviderError), _Recording(path, "record", secrets=[SECRET]) as tape:
        await run_agent(tape, CountingTool(), make_host_model(TWO[0], b"no"))
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["t"]


@pytest.mark.parametrize("whole", [False, True])
async def test_aborted_call_makes_the_recording_fail(tmp_path: Path, whole: bool) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("the old one")

    @tool
    async def look(key: str) -> str:
        """Look something up."""
        if key == "long":
            _ = task.cancel() if whole else agent.abort()
            await asyncio.Event().wait()
        return "found"

    tape = _Recording(path, "record")
    model = tape.model(
        make_host_model(make_response(call="short"), make_response(call="long"), make_response(text="done"))
    )
    agent = Agent(model, tools=[look], steps=tape.steps)
    task = asyncio.ensure_future(agent.run("go", raise_errors=False))
    await asyncio.wait({task})
    assert task.cancelled() is whole
    assert (await agent.run("and now?")).text == "done"

    with pytest.raises(ReplayError, match=r"a call of look was aborted, which .* ScriptedModel"):
        tape.__exit__(None, None, None)
    assert path.read_text() == "the old one"


def test_invalid_tape_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="Tape not found: .*--tapes=once"):
        Tape(tmp_path / "none")
    for text, reason in (
        ("{", "is not a valid tape"),
        ('{"tape": 9}\n', "version 9"),
        ("", "version None"),
        ("[]", "is not a valid tape"),
    ):
        (tmp_path / "t").write_text(text, encoding="utf-8")
        with pytest.raises(ReplayError, match=reason):
            Tape(tmp_path / "t")


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        "not json",
        '{"exchange": 1}',
        '{"exchange": {"request": {}, "response": {}}}',
        '{"tool": {"name": "look"}}',
        '{"tool": {"name": "look", "input": {}}}',
        '{"tool": {"name": "look", "input": {}, "result": {"output": 7}}}',
        '{"tool": {"name": "look", "input": {}, "error": "x"}}',
    ],
)
def test_malformed_entry_is_reported_with_its_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "t").write_text(f'{{"tape": 1}}\n{line}\n', encoding="utf-8")
    with pytest.raises(ReplayError, match=r"(line|entry) 2: "):
        Tape(tmp_path / "t")


async def test_secrets_are_redacted_in_every_form_and_across_chunks(tmp_path: Path) -> None:
    shaped, password = "sk-proj-abcdefgh1234567890abcdefgh", 'pa"ss\\wörd'
    reply_text = f"The key is {shaped}, and {password} too; {KEY}"
    pieces = [reply_text[at : at + 5] for at in range(0, len(reply_text), 5)]
    streamed = "".join(f"data: {json.dumps({'choices': [{'index': 0, 'delta': {'content': p}}]})}\n\n" for p in pieces)
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    with _Recording(tmp_path / "t", "record", secrets=[password]) as tape:
        await run_agent(
            tape,
            CountingTool(),
            make_host_model(
                make_response(call=password), f"{streamed}data: {json.dumps(end)}\n\ndata: [DONE]\n\n".encode()
            ),
        )

    text = (tmp_path / "t").read_text(encoding="utf-8")
    for hidden in (shaped[:12], shaped[-8:], "ss\\", "w\u00f6rd", "w\\u00f6rd", KEY[:12], KEY[-6:]):
        assert hidden not in text
    with Tape(tmp_path / "t", secrets=[password]) as tape:
        played = await run_agent(tape, CountingTool())
    assert played.text == "The key is [redacted], and [redacted] too; [redacted]"


async def test_escape_sequence_that_contains_a_secret_is_replayed(tmp_path: Path) -> None:
    with _Recording(tmp_path / "t", "record", secrets=["0000ab"]) as tape:
        real = await run_agent(tape, CountingTool(), make_host_model(make_response(text="it is \x00ab")))

    with Tape(tmp_path / "t", secrets=["0000ab"]) as tape:
        played = await run_agent(tape, CountingTool())
    assert played.text == real.text == "it is \x00ab"


async def test_unicode_line_separators_are_replayed(tmp_path: Path) -> None:
    await record_run(tmp_path / "t", make_response(call="\u2028\u0085"), make_response(text="a\u2029b"))
    with Tape(tmp_path / "t", secrets=[SECRET]) as tape:
        assert (await run_agent(tape, CountingTool())).text == "a\u2029b"


async def test_identical_calls_get_their_own_results(tmp_path: Path) -> None:
    calls = [
        {"index": n, "id": f"c{n}", "type": "function", "function": {"name": "roll", "arguments": "{}"}} for n in (0, 1)
    ]
    chunk = {"choices": [{"index": 0, "delta": {"tool_calls": calls}, "finish_reason": "tool_calls"}]}
    both = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()
    second_is_done = asyncio.Event()
    rolled: list[int] = []

    @tool(concurrency_safe=True)
    async def roll() -> str:
        """Roll a die; the first call takes longer."""
        rolled.append(1)
        number = len(rolled)
        if number == 1:
            await second_is_done.wait()
        second_is_done.set()
        return f"result {number}"

    for mode in ("record", "replay"):
        with _Recording(tmp_path / "t", mode) if mode == "record" else Tape(tmp_path / "t") as tape:
            model = tape.model(make_host_model(both, make_response(text="Done.")))
            done = await Agent(model, tools=[roll], steps=tape.steps).run("Roll twice")
        results = [r for m in done.messages if isinstance(m, Message) for r in m.tool_results]
        assert [r.text for r in results] == ["result 1", "result 2"]
    assert len(rolled) == 2


async def test_images_bytes_and_metadata_are_replayed_unchanged(tmp_path: Path) -> None:
    picture = ToolResult(
        output=(TextBlock("A dot"), ImageBlock("image/png", "iVBORw0KGgo=")),
        title="dot.png",
        metadata={"size": 8, "path": Path("dot.png")},
        attachments=(Attachment("dot.png", "image/png", data="AP8="),),
    )

    @tool
    async def look(key: str) -> ToolResult:
        """Look."""
        return picture

    class PictureTool:
        def tool(self) -> Any:
            return look

    lookup_tool = cast("Any", PictureTool())
    real = await record_run(tmp_path / "t", *TWO[::2], lookup_tool=lookup_tool)
    with Tape(tmp_path / "t", secrets=[SECRET]) as tape:
        played = await run_agent(tape, lookup_tool)
    for one, other in zip(real.messages, played.messages, strict=True):
        assert [msgspec.structs.asdict(b) for b in other.content] == [msgspec.structs.asdict(b) for b in one.content]


async def test_two_models_share_a_tape(tmp_path: Path) -> None:
    texts: list[list[str]] = []
    for kind in (_Recording, Tape):
        with kind(tmp_path / "t", "once") as tape:
            first = Agent(tape.model(make_host_model(make_response(text="One."))), steps=tape.steps)
            second = Agent(
                tape.model(make_host_model(b"busy", make_response(text="Two."))), steps=tape.steps, behavior=QUICK
            )
            texts.append([r.text for r in await asyncio.gather(first.run("1"), second.run("2"))])
    assert texts == [["One.", "Two."]] * 2


def test_model_without_http_is_rejected(tmp_path: Path) -> None:
    with (
        Tape(tmp_path / "t", "record") as tape,
        pytest.raises(ConfigError, match="RecordingSteps, which records any model"),
    ):
        tape.model(ScriptedModel("x"))


PLUGGED = """
import json, pytest
from mainspring import Agent
from mainspring.models import MemoryResponse, MemoryTransport

ANSWER = 'data: {"choices":[{"index":0,"delta":{"content":"Hi."},"finish_reason":"stop"}]}' + "\\n\\ndata: [DONE]\\n\\n"

@pytest.mark.parametrize("word", ["a b", "c"])
def test_it(tape, word):
    model = tape.model("compatible:m", base_url="http://h/v1", api_key="x" * 20)
    if tape.recording:
        model._own_transport._own = MemoryTransport(MemoryResponse(ANSWER.encode(), headers={"content-type": "text/event-stream"}))
    assert Agent(model, steps=tape.steps).run_sync(word).text == "Hi."
    assert word != FAILS
"""


def test_fixture_uses_one_tape_per_test(pytester: pytest.Pytester) -> None:
    pytester.makeconftest('pytest_plugins = ["mainspring.testing.pytest_plugin"]')
    pytester.makepyfile(test_some=f"FAILS = 'c'\n{PLUGGED}")
    plain = ("-p", "no:cacheprovider", "-p", "no:anyio")
    pytester.runpytest_inprocess("--tapes=once", *plain).assert_outcomes(passed=1, failed=1)
    assert [p.name for p in (pytester.path / "tapes" / "test_some").iterdir()] == ["test_it-a-b.jsonl"]
    pytester.runpytest_inprocess(*plain).assert_outcomes(passed=1, errors=1)


async def test_run_with_a_handoff_is_recorded_and_replayed(tmp_path: Path) -> None:
    def make(tape: Tape, desk_model: Any, clerk_model: Any, look: CountingTool) -> Agent:
        clerk = Agent(tape.model(clerk_model), name="clerk", system="You search.", tools=[look.tool()])
        return Agent(tape.model(desk_model), name="desk", handoffs=[clerk], steps=tape.steps, behavior=QUICK)

    def transfer() -> bytes:
        return make_response(call="x").replace(b"look", b"transfer_to_clerk").replace(rb"{\"key\": \"x\"}", b"{}")

    path = tmp_path / "t"
    with _Recording(path, "once", secrets=[SECRET]) as tape:
        clerk_model = make_host_model(make_response(call="ab"), make_response(text="Found."))
        agent = make(tape, make_host_model(transfer()), clerk_model, CountingTool())
        real = await agent.run("Find it")
    assert (real.text, real.agent) == ("Found.", "clerk")

    look = CountingTool()
    offline = create_model("compatible:m", base_url="http://h/v1", api_key="none")
    with Tape(path, secrets=[SECRET]) as tape:
        played = await make(tape, offline, offline, look).run("Find it")
    assert (played.text, played.agent, look.count) == ("Found.", "clerk", 0)
    assert [r.name for r in played.tool_results] == ["transfer_to_clerk", "look"]
