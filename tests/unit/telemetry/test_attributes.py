"""Message content is exported only if enabled, and without secrets."""

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from opentelemetry.trace import StatusCode

from mainspring import Agent
from mainspring.env import MemoryEnv
from mainspring.errors import ModelError, NetworkError, RateLimitedError
from mainspring.messages import ImageBlock, Message, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from mainspring.models import RetryConfig
from mainspring.redaction import Redactor
from mainspring.run_options import RunOptions
from mainspring.telemetry import Tracing
from mainspring.telemetry.attributes import Cleaner, ContentEncoder
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import ToolResult, tool
from tests.unit.telemetry.recorder import Recorder

pytestmark = pytest.mark.usefixtures("no_blocking")

KEY = "sk-ant-api03-" + "a1B2c3D4e5" * 4
PASSWORD = "swordfish-4711"
CANARY = "the-cake-is-a-lie"


@tool
async def fetch(url: str, token: str = "") -> str:
    """Fetch."""
    if "broken" in url:
        raise ValueError(f"{CANARY} {KEY}")
    return f"{CANARY} {KEY} {PASSWORD}"


@tool
async def coded() -> ToolResult:
    """Fail with a code that is a sentence."""
    return ToolResult(output="no", is_error=True, metadata={"code": f"it said {CANARY}"})


QUICKLY = RetryConfig(max_retries=1, base_delay_seconds=0.001, jitter=0.0)


async def run(recorder: Recorder, **options: Any) -> None:
    calls = [
        ScriptedCall("fetch", {"url": f"http://x/{CANARY}", "token": KEY}),
        ScriptedCall("fetch", {"url": "broken", "token": PASSWORD}),
    ]
    model = ScriptedModel(
        NetworkError(f"refused {KEY}"),
        Reply("looking", thinking=f"{CANARY} {PASSWORD}", calls=calls),
        f"It says {CANARY} {KEY} {PASSWORD}",
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
    await agent.run(f"Tell me {CANARY} {KEY} {PASSWORD}")


@pytest.mark.covers("TEL-09")
async def test_content_is_not_sent_by_default() -> None:
    recorder = Recorder(environ={"MY_API_KEY": PASSWORD})

    await run(recorder)

    sent = recorder.everything()
    assert CANARY not in sent
    assert KEY not in sent
    assert PASSWORD not in sent
    assert "messages" not in sent


@pytest.mark.covers("TEL-09")
@pytest.mark.parametrize("sensitive", [False, True])
async def test_content_quoted_by_errors_is_sensitive(sensitive: bool) -> None:
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
    event_messages = {str(e.attributes["exception.message"]) for e in recorder.events}
    if sensitive:
        assert f"not allowed here: {CANARY}" in texts & event_messages
    else:
        assert texts == {"RATE_LIMITED (quota, HTTP 429)", "UNKNOWN", "ValueError"}
        assert event_messages == {"RATE_LIMITED (quota, HTTP 429)", "UNKNOWN"}


@pytest.mark.covers("TEL-09")
@pytest.mark.parametrize("content", ["spans", "events", "both"])
async def test_sensitive_content_is_sent_without_secrets(content: str) -> None:
    recorder = Recorder(environ={"MY_API_KEY": PASSWORD}, sensitive=True, content=content)

    await run(recorder)

    sent = recorder.everything()
    assert KEY not in sent
    assert PASSWORD not in sent
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


async def test_long_content_is_truncated() -> None:
    recorder = Recorder(sensitive=True, text_limit=100)

    agent = Agent(ScriptedModel("b" * 5000), execution=MemoryEnv(), plugs=[Tracing(recorder.telemetry)])
    await agent.run("a" * 5000)

    facts = recorder.span("chat scripted-1").attributes or {}
    assert len(str(facts["gen_ai.input.messages"])) < 250
    assert len(str(facts["gen_ai.output.messages"])) < 250


@pytest.mark.covers("TEL-09")
def test_truncated_or_escaped_keys_are_redacted() -> None:
    cleaner = Cleaner(100, Redactor(['pa"ss\\word']))
    many = f"{KEY} " * 4  # redaction shortens the text, so the cut falls into the rest

    assert "sk-ant" not in cleaner.text(many + "x" * 1000)
    assert cleaner.text("y" * 1000) == "y" * 100 + "…"
    assert cleaner.text("y" * 150) == "y" * 100 + "…"
    assert cleaner.text("y" * 100) == "y" * 100
    assert cleaner.value({"with": 'is pa"ss\\word'}) == {"with": "is [redacted]"}


class CountingCleaner(Cleaner):
    """Records the texts that it cleans."""

    def __init__(self) -> None:
        super().__init__(1000, Redactor())
        self.given: list[str] = []

    def text(self, text: str) -> str:
        self.given.append(text)
        return super().text(text)


async def test_message_is_converted_once_per_run() -> None:
    recorder, counting = Recorder(sensitive=True), CountingCleaner()
    assert recorder.telemetry.signals is not None
    recorder.telemetry.signals.cleaner = counting
    script = [ScriptedCall("fetch", {"url": str(n)}) for n in range(20)]
    agent = Agent(
        ScriptedModel(*script, "x"), execution=MemoryEnv(), tools=[fetch], plugs=[Tracing(recorder.telemetry)]
    )
    await agent.run("the prompt")

    assert counting.given.count("the prompt") == 1


def test_images_are_sent_as_size_only() -> None:
    encoded = ContentEncoder(Cleaner(100, Redactor())).messages(
        [Message.user([ImageBlock("image/png", "QUJD"), TextBlock("see")])]
    )

    assert json.loads(encoded)[0]["parts"] == [
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
def test_any_message_becomes_json_without_the_secret(messages: list[Message], limit: int) -> None:
    content = ContentEncoder(Cleaner(limit, Redactor([PASSWORD])))
    secret = Message.user(f"x {PASSWORD} y")

    encoded = content.messages([*messages, secret])

    assert len(json.loads(encoded)) == len(messages) + 1
    assert PASSWORD not in encoded
