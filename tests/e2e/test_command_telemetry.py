"""The command with telemetry: the dashboard, what is sent and what is not, and the cost report."""

import csv
import io
import json
import os
import stat
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Command, command
from tests.e2e.servers.chat import Reply, call
from tests.requires import on_posix
from tests.unit.telemetry.receiver import Receiver

__all__ = ["command"]

pytestmark = on_posix

DOCKER = """#!/bin/sh
echo "$*" >>"$0.log"
case $1 in
    version) [ -e "$0.down" ] && { echo "Cannot connect to the Docker daemon" >&2; exit 1; }; echo 1.0 ;;
    image) exit 0 ;;
    run) [ -e "$0.broken" ] && { echo "port is already allocated" >&2; exit 125; }; touch "$0.up"; echo 0123456789abcdef ;;
    inspect) [ -e "$0.up" ] && echo true ;;
    rm) rm -f "$0.up" ;;
esac
"""


@pytest.fixture
def page(command: Command) -> Iterator[dict[str, Any]]:
    """Start the built-in viewer by the command, and stop it at the end."""
    command.variables["NO_PROXY"] = "127.0.0.1"
    done = command.run("telemetry", "start", "--viewer", "--json")
    assert done.code == 0, done.err
    yield json.loads(done.out)
    command.run("telemetry", "stop")


def get_json(page: dict[str, Any], path: str) -> Any:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    url, _, token = page["url"].partition("#token=")
    request = urllib.request.Request(url + path, headers={"Authorization": f"Bearer {token}"})
    with opener.open(request, timeout=120) as answer:
        return json.load(answer)


def enable_telemetry(command: Command, endpoint: str, **more: Any) -> None:
    command.settings({"telemetry": {"enabled": True, "endpoint": endpoint, **more}})


@pytest.mark.covers("CLI-17", "TEL-05")
def test_the_viewer_shows_runs_of_the_command(command: Command, page: dict[str, Any]) -> None:
    state = command.home / ".agent" / "telemetry.json"
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    assert command.run("telemetry", "url").out == page["url"] + "\n"
    assert command.run("telemetry", "start", "--viewer").out == page["url"] + "\n", "a second viewer was started"
    status = command.run("telemetry", "status")
    assert (status.code, status.out.splitlines()[0]) == (0, f"running: built-in viewer, process {page['pid']}")

    (command.folder / "a.txt").write_text("the content")
    command.server.script += [call("read_file", path="a.txt"), "It says: the content", "untraced"]
    enable_telemetry(command, page["endpoint"])
    assert command.run("-p", "What is in a.txt?").code == 0
    command.settings({})
    assert command.run("-p", "And without telemetry?").code == 0

    listed = {r["title"]: r for r in get_json(page, "api/runs")["runs"]}
    assert listed.keys() == {"What is in a.txt?", "And without telemetry?"}
    assert {r["id"].partition("-")[0] for r in listed.values()} == {"otlp", "session"}
    first = get_json(page, f"api/runs/{listed['What is in a.txt?']['id']}")
    kinds = [s.get("kind") for s in first["spans"]]
    assert kinds == ["agent", "model", "tool", "model"]
    assert "the content" in first["spans"][2]["output"]
    assert first["messages"][0]["text"] == "What is in a.txt?"

    assert command.run("telemetry", "stop").code == 0
    assert not state.exists()
    status = command.run("telemetry", "status")
    assert (status.code, status.out.startswith("not running: No dashboard is running")) == (1, True)
    with pytest.raises(urllib.error.URLError):
        get_json(page, "api/health")
    assert command.run("telemetry", "url").code == 1


@pytest.mark.covers("CLI-17")
def test_status_reports_a_killed_viewer_as_not_running(command: Command, page: dict[str, Any]) -> None:
    os.kill(page["pid"], 9)
    _wait_for_end(page)

    status = command.run("telemetry", "status", "--json")
    assert status.code == 1
    assert status.result["running"] is False
    assert "no longer running" in status.result["note"]
    again = command.run("telemetry", "start", "--viewer", "--json").result
    assert again["url"] != page["url"]
    assert get_json(again, "api/health")["viewer"] == "mainspring"


def _wait_for_end(page: dict[str, Any]) -> None:
    while True:
        try:
            get_json(page, "api/health")
        except OSError:
            return


@pytest.fixture
def docker(command: Command, tmp_path: Path) -> Path:
    """Put a fake container engine on the path as the only one; it starts nothing."""
    folder = tmp_path / "engines"
    folder.mkdir()
    for name in ("docker", "podman"):
        (folder / name).write_text(DOCKER if name == "docker" else "#!/bin/sh\nexit 1\n")
        (folder / name).chmod(0o755)
    command.variables["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return folder / "docker"


@pytest.mark.covers("CLI-17")
def test_telemetry_start_uses_aspire_with_a_container_engine(command: Command, docker: Path) -> None:
    started = command.run("telemetry", "start", "--json")

    assert started.code == 0, started.err
    assert started.result["kind"] == "aspire"
    assert started.result["url"].startswith("http://127.0.0.1:18888/login?t=")
    output = Path(f"{docker}.log").read_text()
    assert "127.0.0.1:18888:18888" in output
    assert "127.0.0.1:4318:18890" in output
    assert started.result["url"].partition("t=")[2] in output
    assert command.run("telemetry", "status").out.startswith("running: Aspire dashboard, container 0123456789ab")

    Path(f"{docker}.up").unlink()
    assert command.run("telemetry", "status").code == 1
    command.run("telemetry", "start")
    assert command.run("telemetry", "stop").code == 0
    assert not Path(f"{docker}.up").exists()


@pytest.mark.covers("CLI-17")
def test_telemetry_start_uses_the_viewer_without_an_engine(command: Command, docker: Path) -> None:
    Path(f"{docker}.down").touch()

    started = command.run("telemetry", "start", "--json")
    try:
        assert started.result["kind"] == "viewer"
        assert "Cannot connect to the Docker daemon" in started.err
    finally:
        command.run("telemetry", "stop")
    output = command.run("telemetry", "start", "--aspire")
    assert output.code == 2
    assert "Cannot connect to the Docker daemon" in output.err


def test_failed_container_start_is_reported(command: Command, docker: Path) -> None:
    Path(f"{docker}.broken").touch()

    output = command.run("telemetry", "start", "--aspire")
    assert output.code == 1
    assert "port is already allocated" in output.err
    assert not (command.home / ".agent" / "telemetry.json").exists()
    started = command.run("telemetry", "start", "--json")
    try:
        assert started.result["kind"] == "viewer"
        assert "port is already allocated" in started.err
    finally:
        command.run("telemetry", "stop")


AUDIT = """
import os, sys
def hook(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        with open(os.environ["AUDIT_FILE"], "a") as file:
            file.write(repr(args[1] if event != "socket.getaddrinfo" else args[:2]) + chr(10))
sys.addaudithook(hook)
"""


@pytest.mark.covers("TEL-01", "BYD-30")
@pytest.mark.parametrize("variables", [{}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}])
def test_run_connects_only_to_the_model_provider(command: Command, tmp_path: Path, variables: dict[str, str]) -> None:
    """TL-01: telemetry is off unless it is turned on; the only connection is the one to the model provider."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(AUDIT)
    seen = tmp_path / "seen"
    command.variables |= {"PYTHONPATH": str(tmp_path / "site"), "AUDIT_FILE": str(seen), **variables}
    command.server.script.append("fine")

    assert command.run("-p", "go").code == 0

    port = command.server.base_url.rpartition(":")[2].partition("/")[0]
    assert seen.read_text()
    assert [line for line in seen.read_text().splitlines() if port not in line] == []


@pytest.mark.covers("BYD-30")
def test_do_not_track_and_invalid_endpoint_print_a_note(command: Command) -> None:
    command.server.script += ["fine", "fine"]
    enable_telemetry(command, "http://127.0.0.1:9")
    command.variables["DO_NOT_TRACK"] = "1"
    done = command.run("-p", "go")
    assert (done.code, done.out) == (0, "fine\n")
    assert "nothing is sent: DO_NOT_TRACK is set" in done.err

    del command.variables["DO_NOT_TRACK"]
    enable_telemetry(command, "localhost:4318")
    done = command.run("-p", "go")
    assert (done.code, done.out) == (0, "fine\n")
    assert "not an http:// or https:// address" in done.err


@pytest.mark.covers("TEL-12")
def test_unreachable_collector_prints_nothing(command: Command) -> None:
    command.server.script += ["fine", "fine"]
    bare = command.run("-p", "go")
    enable_telemetry(command, "http://127.0.0.1:9")

    done = command.run("-p", "go")

    assert (done.code, done.out, done.err) == (0, "fine\n", bare.err)


@pytest.mark.covers("TEL-09", "CFG-09")
def test_content_is_sent_only_if_settings_enable_it(command: Command) -> None:
    command.variables["NO_PROXY"] = "127.0.0.1"
    command.server.script += ["the answer", "the answer"]
    with Receiver() as quiet, Receiver() as verbose:
        enable_telemetry(command, quiet.endpoint)
        command.run("-p", "the prompt")
        enable_telemetry(command, verbose.endpoint, enableSensitiveData=True, spanNames="classic")
        command.run("-p", "the prompt")

    assert {s["name"] for s in quiet.spans} == {"invoke_agent mainspring", "chat gpt-5-mini"}
    assert {s["name"] for s in verbose.spans} == {"agent.run", "gen_ai.chat"}
    for word in ("the prompt", "the answer"):
        assert word not in str(quiet.requests)
        assert word in str(verbose.requests)


@pytest.mark.covers("CFG-03")
def test_endpoint_in_the_environment_wins_over_settings(command: Command) -> None:
    command.variables["NO_PROXY"] = "127.0.0.1"
    command.server.script.append("fine")
    with Receiver() as in_file, Receiver() as in_environment:
        enable_telemetry(command, in_file.endpoint)
        command.variables["OTEL_EXPORTER_OTLP_ENDPOINT"] = in_environment.endpoint
        command.run("-p", "go")

    assert (len(in_file.spans), {s["name"] for s in in_environment.spans}) == (
        0,
        {"invoke_agent mainspring", "chat gpt-5-mini"},
    )


def test_untrusted_folder_cannot_enable_telemetry(command: Command) -> None:
    command.variables["NO_PROXY"] = "127.0.0.1"
    command.server.script.append("fine")
    with Receiver() as receiver:
        settings = command.folder / ".agent" / "settings.json"
        settings.parent.mkdir()
        settings.write_text(json.dumps({"telemetry": {"enabled": True, "endpoint": receiver.endpoint}}))
        assert command.run("-p", "go").code == 0

    assert not receiver.spans


def test_aborted_run_is_exported(command: Command) -> None:
    import signal

    command.variables["NO_PROXY"] = "127.0.0.1"
    command.server.script.append(Reply("slow", stall=True))
    with Receiver() as receiver:
        enable_telemetry(command, receiver.endpoint)
        with command.start("-p", "go") as process:
            assert command.server.stalled.wait(120)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=120)
            assert process.returncode == 130

    assert {s["name"] for s in receiver.spans} == {"invoke_agent mainspring", "chat gpt-5-mini"}
    assert {s["status"]["code"] for s in receiver.spans} == {"STATUS_CODE_ERROR"}


def test_cost_command_reports_costs_and_unknown_prices(command: Command) -> None:
    command.server.script += ["one", "two"]
    command.run("-p", "go")
    command.run("-p", "go", "--model", "openai:gpt-unheard-of")

    table = command.run("cost")
    assert table.code == 0
    assert "unknown" in table.out
    assert "excludes 1 call with 15 tokens, because their price is unknown" in table.err
    report = command.run("cost", "--by", "model", "--json").result
    assert report["total"]["calls"] == 2
    assert report["total"]["unpricedCalls"] == 1
    assert report["total"]["cost"] > 0
    sheet = list(csv.DictReader(io.StringIO(command.run("cost", "--by", "session", "--csv", "--since", "1h").out)))
    assert len(sheet) == 2
    assert sum(int(row["calls"]) for row in sheet) == 2
