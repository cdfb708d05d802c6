"""What was said leaves the machine only where that is wanted, and then without secrets."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.trace import StatusCode

from mainspring import Agent
from mainspring.env import MemoryEnv
from mainspring.errors import ModelError, NetworkError, RateLimitedError
from mainspring.loop import RunOptions
from mainspring.messages import ImageBlock, Message, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from mainspring.models import RetryConfig
from mainspring.redaction import Redactor
from mainspring.telemetry import Tracing
from mainspring.telemetry.attributes import Cleaner, ContentEncoder
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import ToolResult, tool
from tests.unit.telemetry.recorder import Recorder

pytestmark = pytest.mark.usefixtures("no_blocking")

KEY = "sk-ant-api03-" + "a1B2c3D4e5" * 4
OWN = "swordfish-4711"
CANARY = "the-cake-is-a-lie"


@tool
async def fetch(url: str, token: str = "") -> str:
    """Fetch."""
    if "broken" in url:
        raise ValueError(f"{CANARY} {KEY}")
    return f"{CANARY} {KEY} {OWN}"


@tool
async def coded() -> ToolResult:
    """Fail with a code that is a sentence."""
    return ToolResult(output="no", is_error=True, metadata={"code": f"it said {CANARY}"})


QUICKLY = RetryConfig(max_retries=1, base_delay_ms=1, jitter=0.0)


async def run(recorder: Recorder, **options: Any) -> None:
    calls = [
        ScriptedCall("fetch", {"url": f"http://x/{CANARY}", "token": KEY}),
        ScriptedCall("fetch", {"url": "broken", "token": OWN}),
    ]
    model = ScriptedModel(
        NetworkError(f"refused {KEY}"),
        Reply("looking", thinking=f"{CANARY} {OWN}", calls=calls),
        f"It says {CANARY} {KEY} {OWN}",
    )
    agent = Agent(
        model,
        system=f"Keep {CANARY}",
        execution=MemoryEnv(),
        tools=[fetch],
        plugs=[Tracing(recorder.telemetry)],
        behavior=RunOptions(retry=QUICKLY),
        **options,
    )
    await agent.run(f"Tell me {CANARY} {KEY} {OWN}")


@pytest.mark.covers("TEL-09")
async def test_nothing_that_was_said_is_sent_unless_it_is_wanted() -> None:
    recorder = Recorder(environ={"MY_API_KEY": OWN})

    await run(recorder)

    said = recorder.everything()
    assert CANARY not in said
    assert KEY not in said
    assert OWN not in said
    assert "messages" not in said


@pytest.mark.covers("TEL-09")
@pytest.mark.parametrize("sensitive", [False, True])
async def test_what_an_error_quotes_is_content_too(sensitive: bool) -> None:
    recorder = Recorder(sensitive=sensitive)
    rejected = RateLimitedError(f"not allowed here: {CANARY}", reason="quota", status=429)
    odd = ModelError(f"odd: {CANARY}", reason=f"it said {CANARY}")
    calls = [ScriptedCall("fetch", {"url": "broken"}), ScriptedCall("coded", {})]
    for script in ([rejected, rejected], [odd], [Reply("", calls=calls), "done"]):
        agent = Agent(
            ScriptedModel(*script), execution=MemoryEnv(), tools=[fetch, coded], plugs=[Tracing(recorder.telemetry)]
        )
        await agent.run("go", behavior=RunOptions(retry=QUICKLY), raise_errors=False)
    with pytest.raises(ValueError, match=CANARY), recorder.telemetry.helpers.start_llm_span("openai", "gpt-5-mini"):
        raise ValueError(CANARY)

    assert (CANARY in recorder.everything()) is sensitive
    texts = {str(s.status.description) for s in recorder.spans if s.status.status_code is StatusCode.ERROR}
    told = {str(e.attributes["exception.message"]) for e in recorder.events}
    if sensitive:
        assert f"not allowed here: {CANARY}" in texts & told
    else:
        assert texts == {"RATE_LIMITED (quota, HTTP 429)", "UNKNOWN", "ValueError"}
        assert told == {"RATE_LIMITED (quota, HTTP 429)", "UNKNOWN"}


@pytest.mark.covers("TEL-09")
@pytest.mark.parametrize("content", ["spans", "events", "both"])
async def test_what_is_wanted_is_sent_without_secrets(content: str) -> None:
    recorder = Recorder(environ={"MY_API_KEY": OWN}, sensitive=True, content=content)

    await run(recorder)

    said = recorder.everything()
    assert KEY not in said
    assert OWN not in said
    in_spans = CANARY in repr([dict(s.attributes or {}) for s in recorder.spans])
    in_events = CANARY in repr([e.attributes for e in recorder.events])
    assert (in_spans, in_events) == (content != "events", content != "spans")
    if content == "events":
        return
    first, last = (s for s in recorder.spans if s.name.startswith("chat"))
    facts = last.attributes or {}
    request = json.loads(str(facts["gen_ai.input.messages"]))
    assert [m["role"] for m in request] == ["user", "assistant", "tool"]
    assert request[1]["parts"][0] == {"type": "reasoning", "content": f"{CANARY} [redacted]"}
    assert request[1]["parts"][2]["arguments"] == {"url": f"http://x/{CANARY}", "token": "[redacted]"}
    assert json.loads(str(facts["gen_ai.output.messages"]))[0]["finish_reason"] == "stop"
    assert json.loads(str(facts["gen_ai.system_instructions"])) == [{"type": "text", "content": f"Keep {CANARY}"}]
    assert json.loads(str(facts["gen_ai.tool.definitions"])) == [{"type": "function", "name": "fetch"}]
    assert json.loads(str((first.attributes or {})["gen_ai.output.messages"]))[0]["finish_reason"] == "tool_call"
    call = next(s for s in recorder.spans if s.name == "execute_tool fetch")
    assert (call.attributes or {})["gen_ai.tool.call.result"] == f"{CANARY} [redacted] [redacted]"
    agent = recorder.span("invoke_agent agent").attributes or {}
    assert "looking" not in str(agent["gen_ai.input.messages"])
    assert CANARY in str(agent["gen_ai.output.messages"])


async def test_long_content_is_cut() -> None:
    recorder = Recorder(sensitive=True, text_limit=100)

    agent = Agent(ScriptedModel("b" * 5000), execution=MemoryEnv(), plugs=[Tracing(recorder.telemetry)])
    await agent.run("a" * 5000)

    facts = recorder.span("chat scripted-1").attributes or {}
    assert len(str(facts["gen_ai.input.messages"])) < 250
    assert len(str(facts["gen_ai.output.messages"])) < 250


@pytest.mark.covers("TEL-09")
def test_no_key_is_cut_in_two_and_none_hides_in_the_escapes_of_json() -> None:
    cleaner = Cleaner(100, Redactor(['pa"ss\\word']))
    many = f"{KEY} " * 4  # what is masked makes the text shorter, so that the cut comes into what is kept

    assert "sk-ant" not in cleaner.text(many + "x" * 1000)
    assert cleaner.text("y" * 1000) == "y" * 100 + "…"
    assert cleaner.text("y" * 150) == "y" * 100 + "…"
    assert cleaner.text("y" * 100) == "y" * 100
    assert cleaner.value({"with": 'is pa"ss\\word'}) == {"with": "is [redacted]"}


class Counting(Cleaner):
    """Remembers what it was given."""

    def __init__(self) -> None:
        super().__init__(1000, Redactor())
        self.given: list[str] = []

    def text(self, text: str) -> str:
        self.given.append(text)
        return super().text(text)


async def test_a_message_is_converted_once_for_a_run() -> None:
    recorder, counting = Recorder(sensitive=True), Counting()
    assert recorder.telemetry.signals is not None
    recorder.telemetry.signals.cleaner = counting
    script = [ScriptedCall("fetch", {"url": str(n)}) for n in range(20)]
    agent = Agent(
        ScriptedModel(*script, "x"), execution=MemoryEnv(), tools=[fetch], plugs=[Tracing(recorder.telemetry)]
    )
    await agent.run("the prompt")

    assert counting.given.count("the prompt") == 1


def test_images_go_as_their_size_only() -> None:
    made = ContentEncoder(Cleaner(100, Redactor())).messages(
        [Message.user([ImageBlock("image/png", "QUJD"), TextBlock("see")])]
    )

    assert json.loads(made)[0]["parts"] == [
        {"type": "image", "mime_type": "image/png", "base64_length": 4},
        {"type": "text", "content": "see"},
    ]


texts = st.text(max_size=60)
blocks = st.one_of(
    texts.map(TextBlock),
    texts.map(ThinkingBlock),
    st.builds(
        ToolUseBlock, id=texts, name=texts, input=st.dictionaries(texts, st.one_of(texts, st.integers(), st.none()))
    ),
    st.builds(ToolUseBlock, id=texts, name=texts, raw_input=texts),
    st.builds(ToolResultBlock, tool_use_id=texts, content=texts),
)


@settings(max_examples=40)
@given(st.lists(st.lists(blocks, max_size=4).map(lambda b: Message("user", tuple(b))), max_size=4), st.integers(0, 40))
def test_whatever_is_said_becomes_json_without_the_secret(messages: list[Message], limit: int) -> None:
    content = ContentEncoder(Cleaner(limit, Redactor([OWN])))
    secret = Message.user(f"x {OWN} y")

    made = content.messages([*messages, secret])

    assert len(json.loads(made)) == len(messages) + 1
    assert OWN not in made
