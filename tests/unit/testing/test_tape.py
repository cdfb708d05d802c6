"""A real run becomes a test without network, key or tools."""

import json
from pathlib import Path
from typing import Any

import pytest

from mainspring import Agent, AgentProviderError, Behavior, RetryConfig
from mainspring.errors import ConfigError
from mainspring.models import MemoryResponse, MemoryTransport, create_model
from mainspring.models.http_model import HttpModel
from mainspring.testing import ReplayError, ScriptedModel, Tape
from mainspring.tools import tool

KEY = "sk-abcdefghijklmnopqrstuvwxyz123456"
SECRET = "hunter-2-of-\u00fc"
pytestmark = pytest.mark.covers("BYD-32")


def answer(*, call: str = "", text: str = "") -> bytes:
    made: dict[str, Any] = {"content": text}
    if call:
        function = {"name": "look", "arguments": json.dumps({"key": call})}
        made = {"tool_calls": [{"index": 0, "id": f"call_{call}", "type": "function", "function": function}]}
    reason = "tool_calls" if call else "stop"
    chunk = {"choices": [{"index": 0, "delta": made, "finish_reason": reason}]}
    return f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()


class Looking:
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


def host(*answers: bytes) -> HttpModel:
    events = {"content-type": "text/event-stream"}
    refusals = {b"busy": 503, b"no": 401}
    served = [
        MemoryResponse(b"{}", refusals[a]) if a in refusals else MemoryResponse(a, headers=events) for a in answers
    ]
    made = create_model("compatible:m", base_url="http://h/v1", api_key=KEY)
    assert isinstance(made, HttpModel)
    return made.through(MemoryTransport(*served))


async def run(
    tape: Tape, looking: Looking, model: Any = None, prompt: str = f"Find it, {SECRET}", **options: Any
) -> Any:
    model = tape.model("compatible:m", base_url="http://h/v1") if model is None else tape.model(model)
    behavior = Behavior(retry=RetryConfig(base_delay_ms=1 if tape.recording else 60_000), **options)
    return await Agent(model, tools=[looking.tool()], steps=tape.steps, behavior=behavior).run(prompt)


class _Recording(Tape):
    """Asks its host through the recorder: the one that a test gives stands for the real one."""

    def model(self, model: Any, **settings: Any) -> Any:
        recorder: Any = super().model(model, **settings)
        recorder._own_transport._own = model._own_transport
        return recorder


async def record(path: Path, *answers: bytes, looking: Looking | None = None) -> Any:
    with _Recording(path, "once", secrets=[SECRET]) as tape:
        return await run(tape, looking or Looking(), host(*answers))


TWO = (answer(call="a"), answer(call="bad"), answer(text="Done."))


async def test_a_run_is_played_without_network_key_or_tools(tmp_path: Path) -> None:
    path = tmp_path / "tapes" / "run.jsonl"
    real = await record(path, *TWO)
    looking = Looking()
    with Tape(path, secrets=[SECRET]) as tape:
        assert not tape.recording
        played = await run(tape, looking)
    assert played.text == real.text == "Done."
    assert looking.count == 0
    assert [r.is_error for m in played.messages for r in m.tool_results] == [False, True]
    assert "no bad" in played.messages[4].tool_results[0].text
    assert played.stats.turns == real.stats.turns == 3


async def test_no_secret_gets_on_the_tape(tmp_path: Path) -> None:
    await record(tmp_path / "t", *TWO)
    text = (tmp_path / "t").read_text(encoding="utf-8")
    assert KEY not in text
    assert SECRET not in text
    assert [next(iter(json.loads(line))) for line in text.splitlines()] == ["tape", *["exchange"] * 3, *["tool"] * 2]


async def test_a_refusal_is_played_too_and_nothing_is_waited_for(tmp_path: Path) -> None:
    await record(tmp_path / "t", b"busy", answer(text="At last."))
    with Tape(tmp_path / "t", secrets=[SECRET]) as tape:
        assert (await run(tape, Looking())).text == "At last."


async def test_another_prompt_is_told_with_the_difference(tmp_path: Path) -> None:
    await record(tmp_path / "t", *TWO)
    with pytest.raises(AgentProviderError, match="is 'Something else', recorded was 'Find it"):
        with Tape(tmp_path / "t", secrets=[SECRET]) as tape:
            await run(tape, Looking(), prompt="Something else")


async def test_a_run_that_stops_early_is_told(tmp_path: Path) -> None:
    await record(tmp_path / "t", *TWO)
    tape = Tape(tmp_path / "t", secrets=[SECRET])
    with (
        pytest.raises(ReplayError, match=r"over before POST /v1/chat/completions \(3 left in all\).*record it again"),
        tape,
    ):
        await run(tape, Looking(), max_turns=1)


async def test_a_call_that_was_never_made_is_told_even_where_the_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "t"
    await record(path, *TWO)
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text(
        "\n".join(x.replace('{"key": "a"}', '{"key": "b"}') if '"tool":' in x else x for x in lines), "utf-8"
    )
    with pytest.raises(ReplayError, match=r'called with \{"key": "a"\}, and recorded is'):
        with Tape(path, secrets=[SECRET]) as tape:
            await run(tape, Looking())


async def test_live_tools_run_and_what_they_give_must_still_fit(tmp_path: Path) -> None:
    await record(tmp_path / "t", *TWO)
    looking = Looking()
    with Tape(tmp_path / "t", tools="live", secrets=[SECRET]) as tape:
        assert (await run(tape, looking)).text == "Done."
    assert looking.count == 2
    with pytest.raises(AgentProviderError, match="is 'lost a with"):
        with Tape(tmp_path / "t", tools="live", secrets=[SECRET]) as tape:
            await run(tape, Looking("lost"))


async def test_a_run_that_fails_leaves_the_old_tape(tmp_path: Path) -> None:
    path = tmp_path / "t"
    await record(path, *TWO)
    before = path.read_bytes()
    with pytest.raises(AgentProviderError), _Recording(path, "record", secrets=[SECRET]) as tape:
        await run(tape, Looking(), host(TWO[0], b"no"))
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["t"]


def test_what_is_no_tape_is_told(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="there is no tape .*--tapes=once"):
        Tape(tmp_path / "none")
    for text, why in (("{", "is no tape"), ('{"tape": 9}\n', "says 9"), ("", "says None"), ("[]", "is no tape")):
        (tmp_path / "t").write_text(text, encoding="utf-8")
        with pytest.raises(ReplayError, match=why):
            Tape(tmp_path / "t")


def test_a_model_without_traffic_is_refused(tmp_path: Path) -> None:
    with Tape(tmp_path / "t", "record") as tape, pytest.raises(ConfigError, match="RecordingSteps records any model"):
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


def test_the_fixture_keeps_a_tape_for_each_test(pytester: pytest.Pytester) -> None:
    pytester.makeconftest('pytest_plugins = ["mainspring.testing.plugin"]')
    pytester.makepyfile(test_some=f"FAILS = 'c'\n{PLUGGED}")
    plain = ("-p", "no:cacheprovider", "-p", "no:anyio")
    pytester.runpytest_subprocess("--tapes=once", *plain).assert_outcomes(passed=1, failed=1)
    assert [p.name for p in (pytester.path / "tapes" / "test_some").iterdir()] == ["test_it-a-b.jsonl"]
    pytester.runpytest_subprocess(*plain).assert_outcomes(passed=1, errors=1)
