"""Failures of telemetry never affect runs."""

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from mainspring import Agent
from mainspring.env import MemoryEnv
from mainspring.telemetry import Telemetry, TelemetryOptions, Tracing
from mainspring.telemetry.otel import OtelApi
from mainspring.telemetry.pipeline import Pipeline
from mainspring.testing import ScriptedCall, ScriptedModel
from mainspring.tools import tool
from tests.requires import on_posix
from tests.unit.telemetry.receiver import Receiver, measure_seconds
from tests.unit.telemetry.recorder import Recorder


@tool
async def look(key: str) -> str:
    """Look."""
    return key


async def run(*plugs: Any) -> str:
    model = ScriptedModel([ScriptedCall("look", {"key": "a"}), ScriptedCall("look", {"key": "b"})], "done")
    return (await Agent(model, execution=MemoryEnv(), tools=[look], plugs=plugs).run("go")).text


class BrokenPipeline(SpanProcessor):
    """Fails at the start or end of a span, after a number of spans."""

    def __init__(self, at: str, after: int) -> None:
        self.at = at
        self.left = after

    def _maybe(self, at: str) -> None:
        if at == self.at:
            self.left -= 1
            if self.left < 0:
                raise RuntimeError("the processor is broken")

    def on_start(self, span: Span, parent_context: Any = None) -> None:
        self._maybe("start")

    def on_end(self, span: ReadableSpan) -> None:
        self._maybe("end")


@pytest.mark.covers("ERR-07", "BYD-30")
@pytest.mark.parametrize("at", ["start", "end"])
@pytest.mark.parametrize("after", range(5))
async def test_failing_processor_turns_tracing_off(at: str, after: int, caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder(processor=BrokenPipeline(at, after))

    assert await run(Tracing(recorder.telemetry)) == "done"

    assert trace.get_current_span() is trace.INVALID_SPAN
    warnings = [r for r in caplog.records if "Tracing failed" in r.getMessage()]
    assert len(warnings) == (1 if after < 5 else 0)


@pytest.mark.covers("ERR-07")
async def test_setup_error_disables_telemetry_and_runs_continue() -> None:
    class BrokenPipeline(Pipeline):
        def __init__(self) -> None:
            """Create a pipeline whose provider is broken."""

        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("the provider is broken")

    telemetry = Telemetry(pipeline=BrokenPipeline())

    assert not telemetry.on
    assert telemetry.disabled_reason == "it could not be set up (RuntimeError: the provider is broken)"
    assert await run(Tracing(telemetry)) == "done"
    with telemetry.helpers.start_llm_span("p", "m") as span:
        assert span.span is None
    assert telemetry.close()


@pytest.mark.covers("ERR-07")
async def test_failing_instruments_are_ignored() -> None:
    recorder = Recorder()
    signals = recorder.telemetry.signals
    assert signals is not None

    def raise_error(*_: Any, **__: Any) -> None:
        raise ValueError("no")

    signals.instruments.duration = raise_error
    assert await run(Tracing(recorder.telemetry)) == "done"


def make_telemetry(exporter: SpanExporter, close_seconds: float = 0.3) -> Telemetry:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=10))
    api = OtelApi()
    pipeline = Pipeline(
        api, provider.get_tracer("t"), api.metrics.get_meter("t"), api.logs.get_logger("t"), (provider.shutdown,)
    )
    return Telemetry(TelemetryOptions(close_seconds=close_seconds), pipeline=pipeline)


class BadExporter(SpanExporter):
    """Raises an error or hangs."""

    def __init__(self, hang: bool) -> None:
        self.hang = threading.Event() if hang else None
        self.asked = threading.Event()

    def export(self, spans: Any) -> SpanExportResult:
        self.asked.set()
        if self.hang is None:
            raise RuntimeError("exporter is broken")
        self.hang.wait()
        return SpanExportResult.FAILURE


@pytest.mark.covers("BYD-30")
async def test_failing_exporter_is_ignored() -> None:
    exporter = BadExporter(hang=False)
    telemetry = make_telemetry(exporter, close_seconds=120)

    assert await run(Tracing(telemetry)) == "done"

    assert await asyncio.to_thread(telemetry.close)
    assert exporter.asked.is_set()


@pytest.mark.covers("BYD-30")
async def test_hanging_exporter_does_not_delay_closing() -> None:
    exporter = BadExporter(hang=True)
    assert exporter.hang is not None
    telemetry = make_telemetry(exporter)

    assert await run(Tracing(telemetry)) == "done"
    seconds = await asyncio.to_thread(measure_seconds, lambda: telemetry.close())
    exporter.hang.set()

    assert seconds > 0.2
    assert telemetry.close(), "closing again waits again"


@pytest.fixture
def wait_for_senders() -> Iterator[None]:
    """Wait for exporter threads: their random delays would disturb property tests."""
    yield
    for thread in threading.enumerate():
        if thread.name.startswith("Otel") or "_quietly" in thread.name:
            thread.join(120)
            assert not thread.is_alive(), thread.name


def _unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.covers("TEL-12")
@pytest.mark.usefixtures("wait_for_senders")
async def test_unreachable_collector_does_not_delay_runs(capfd: pytest.CaptureFixture[str]) -> None:
    endpoint = f"http://127.0.0.1:{_unused_port()}"
    options = TelemetryOptions(endpoint=endpoint, close_seconds=0.3, export_seconds=4)
    telemetry = Telemetry(options, environ={})

    started = time.monotonic()
    for _ in range(20):
        assert await run(Tracing(telemetry)) == "done"
    assert time.monotonic() - started < 70, "runs wait for the collector: each attempt to send takes four seconds"
    seconds = await asyncio.to_thread(measure_seconds, lambda: telemetry.close())

    assert seconds < 3.5, "closing waits for the four seconds of an attempt"
    assert capfd.readouterr() == ("", "")


@pytest.mark.covers("TEL-12")
@pytest.mark.usefixtures("wait_for_senders")
async def test_unresponsive_collector_does_not_delay_runs() -> None:
    with Receiver(silent=True) as receiver:
        options = TelemetryOptions(endpoint=receiver.endpoint, close_seconds=0.3, export_seconds=4)
        telemetry = Telemetry(options, environ={})

        assert await run(Tracing(telemetry)) == "done"
        assert await asyncio.to_thread(measure_seconds, lambda: telemetry.close()) < 3.5


@pytest.mark.covers("BYD-30")
async def test_spans_over_the_queue_limit_are_dropped() -> None:
    exporter = BadExporter(hang=True)
    assert exporter.hang is not None
    telemetry = make_telemetry(exporter)

    for _ in range(10_000):
        telemetry.tracer.start_span("x").end()

    assert await run(Tracing(telemetry)) == "done"
    exporter.hang.set()
    await asyncio.to_thread(telemetry.close)


@on_posix
@pytest.mark.covers("BYD-30")
def test_tracing_works_after_a_fork(tmp_path: Path) -> None:
    code = """
import asyncio, os, sys
from mainspring import Agent
from mainspring.env.memory import MemoryEnv; from mainspring.testing import ScriptedModel
from mainspring.telemetry import Telemetry, Tracing
telemetry = Telemetry(endpoint=sys.argv[1], close_seconds=120)
def run(name):
    agent = Agent(ScriptedModel("done"), name=name, execution=MemoryEnv(), plugs=[Tracing(telemetry)])
    assert asyncio.run(agent.run("go")).text == "done"
run("before")
child = os.fork()
run("child" if child == 0 else "parent")
telemetry.close()
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    with Receiver() as receiver:
        done = subprocess.run(
            [sys.executable, "-c", code, receiver.endpoint],
            env={**os.environ, "NO_PROXY": "127.0.0.1"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    assert done.returncode == 0, done.stderr
    names = [s["name"] for s in receiver.spans]
    assert names.count("invoke_agent before") == 1
    assert names.count("invoke_agent parent") == names.count("invoke_agent child") == 1


def test_open_telemetry_is_flushed_at_exit(tmp_path: Path) -> None:
    code = """
import asyncio, sys
from mainspring import Agent
from mainspring.env.memory import MemoryEnv; from mainspring.testing import ScriptedModel
from mainspring.telemetry import install_tracing
agent = Agent(ScriptedModel("done"), execution=MemoryEnv())
install_tracing(agent, endpoint=sys.argv[1])
asyncio.run(agent.run("go"))
"""
    with Receiver() as receiver:
        environ = {**os.environ, "NO_PROXY": "127.0.0.1"}
        subprocess.run(
            [sys.executable, "-c", code, receiver.endpoint], env=environ, cwd=tmp_path, check=True, timeout=240
        )

    assert len(receiver.spans) == 2
