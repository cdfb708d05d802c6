"""Export pipelines: providers of the application, or our own by settings and OpenTelemetry variables."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace

from mainspring import Agent
from mainspring.env import MemoryEnv
from mainspring.telemetry import Telemetry, Tracing
from mainspring.telemetry.pipeline import TelemetryDisabled, TelemetryOptions, create_pipeline
from mainspring.testing.scripted_model import ScriptedModel
from tests.unit.telemetry.receiver import Receiver


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> "Receiver":
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return Receiver()


@pytest.mark.covers("TEL-05", "BYD-30")
async def test_spans_metrics_and_events_are_exported_by_otlp(receiver: Receiver) -> None:
    with receiver:
        telemetry = Telemetry(endpoint=f"{receiver.endpoint}/", close_seconds=120, environ={})
        agent = Agent(ScriptedModel("done"), execution=MemoryEnv(), plugs=[Tracing(telemetry)])
        await agent.run("go")

        assert telemetry.close()

    assert {s["name"] for s in receiver.spans} == {"invoke_agent agent", "chat scripted-1"}
    assert "gen_ai.client.operation.duration" in {m["name"] for m in receiver.metrics}
    assert receiver.resources[0]["service.name"] == "mainspring"
    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider), "a global provider was set"


@pytest.mark.covers("TEL-05")
async def test_opentelemetry_variables_are_respected(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiver:
        for name, value in {
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint,
            "OTEL_EXPORTER_OTLP_HEADERS": "x-team=blue",
            "OTEL_SERVICE_NAME": "shop",
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
            "OTEL_METRICS_EXPORTER": "none",
        }.items():
            monkeypatch.setenv(name, value)
        telemetry = Telemetry()
        await Agent(ScriptedModel("done"), execution=MemoryEnv(), plugs=[Tracing(telemetry)]).run("go")
        telemetry.close()

    assert receiver.resources[0]["service.name"] == "shop"
    assert receiver.resources[0]["deployment.environment.name"] == "test"
    assert receiver.headers[0]["x-team"] == "blue"
    assert not receiver.metrics


@pytest.mark.covers("TEL-01", "TEL-12")
@pytest.mark.parametrize(
    ("environ", "given", "why"),
    [
        ({"OTEL_SDK_DISABLED": "TRUE"}, {}, "OTEL_SDK_DISABLED"),
        ({"DO_NOT_TRACK": "1"}, {}, "DO_NOT_TRACK"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "carrier-pigeon"}, {}, "carrier-pigeon"),
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, {}, "zipkin"),
        ({}, {"endpoint": "localhost:4318"}, "not an http"),
        ({}, {"endpoint": "http://[::1"}, "not an http"),
        ({}, {"endpoint": "file:///etc/passwd"}, "not an http"),
    ],
)
def test_invalid_setup_disables_telemetry_with_a_reason(
    environ: dict[str, str], given: dict[str, Any], why: str
) -> None:
    with pytest.raises(TelemetryDisabled, match=why):
        create_pipeline(TelemetryOptions(**given), environ)

    telemetry = Telemetry(environ=environ, **given)

    assert not telemetry.on
    assert why in telemetry.disabled_reason


def _run_python(code: str, tmp_path: Path, **environ: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NO_PROXY": "127.0.0.1", **environ},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    return done.stdout


_RUN = """
import asyncio, sys
from mainspring import Agent
from mainspring.env.memory import MemoryEnv; from mainspring.testing.scripted_model import ScriptedModel
from mainspring.telemetry import Telemetry, Tracing
"""


@pytest.mark.covers("TEL-01", "BYD-30")
def test_disabled_telemetry_imports_nothing(tmp_path: Path) -> None:
    code = """
import asyncio, sys
import mainspring
from mainspring import Agent
from mainspring.env.memory import MemoryEnv; from mainspring.testing.scripted_model import ScriptedModel
import mainspring.telemetry
import mainspring.app.compose.conversation
asyncio.run(Agent(ScriptedModel("x"), execution=MemoryEnv()).run("go"))
print([m for m in sys.modules if m.startswith("opentelemetry")])
"""

    assert _run_python(code, tmp_path) == "[]\n"


@pytest.mark.covers("TEL-12")
def test_runs_work_without_opentelemetry_installed(tmp_path: Path) -> None:
    code = f"""{_RUN}
class No:
    def find_spec(self, name, *_):
        if name.startswith("opentelemetry"):
            raise ImportError(f"No module named {{name!r}}")
sys.meta_path.insert(0, No())
telemetry = Telemetry()
print(asyncio.run(Agent(ScriptedModel("fine"), execution=MemoryEnv(), plugs=[Tracing(telemetry)]).run("go")).text)
print(telemetry.disabled_reason)
"""

    output = _run_python(code, tmp_path)

    assert output.startswith("fine\nOpenTelemetry is not installed")
    assert "[otel]'" in output


@pytest.mark.covers("BYD-30")
def test_providers_of_the_application_are_used(tmp_path: Path) -> None:
    code = f"""{_RUN}
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
out = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(out))
trace.set_tracer_provider(provider)
telemetry = Telemetry(endpoint="http://127.0.0.1:9")
asyncio.run(Agent(ScriptedModel("x"), execution=MemoryEnv(), plugs=[Tracing(telemetry)]).run("go"))
assert telemetry.close() and trace.get_tracer_provider() is provider
print([s.name for s in out.get_finished_spans()], [t.name for t in __import__("threading").enumerate()])
print({{s.instrumentation_scope.name for s in out.get_finished_spans()}})
"""

    assert _run_python(code, tmp_path) == "['chat scripted-1', 'invoke_agent agent'] ['MainThread']\n{'mainspring'}\n"
