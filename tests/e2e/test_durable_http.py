"""`mainspring worker` and `mainspring serve --http` on one database: started, followed, and approved over HTTP, executed by workers."""

import json
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.e2e.command import Command, command
from tests.e2e.servers.chat import Reply
from tests.e2e.test_http_service import RunningService, start_service
from tests.requires import durable_on_sqlite, on_posix

__all__ = ["command"]
pytestmark = [pytest.mark.slow, on_posix]

TOKEN = "a-token-of-the-test-0123456789"


@pytest.fixture(params=[pytest.param("sqlite", marks=durable_on_sqlite), "postgres"])
def url(request: pytest.FixtureRequest, command: Command) -> str:
    command.variables["MAINSPRING_SERVE_TOKEN"] = TOKEN
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres").database())
    return f"sqlite:///{command.folder.parent}/runs.db"


class Follower(threading.Thread):
    """Reads the events of a run from a number to the end."""

    def __init__(self, service: RunningService, run: str, after: str = "") -> None:
        super().__init__(daemon=True)
        headers = {"authorization": f"Bearer {TOKEN}", **({"last-event-id": after} if after else {})}
        self._request = urllib.request.Request(f"{service.url}v1/runs/{run}/events", headers=headers)
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.start()

    def run(self) -> None:
        with urllib.request.urlopen(self._request, timeout=120) as events:
            id = ""
            for line in events:
                field, _, value = line.decode().rstrip("\n").partition(": ")
                if field == "id":
                    id = value
                elif field == "data":
                    self.events.append((id, json.loads(value)))

    def wait_for(self, text: str) -> None:
        """Wait until the text has arrived."""
        end = time.monotonic() + 120
        while text not in "".join(event["text"] for _, event in self.events if event["type"] == "text_delta"):
            assert time.monotonic() < end, self.events
            _moment()

    @property
    def kinds(self) -> list[str]:
        return [event["type"] for _, event in self.events if event["type"] != "text_delta"]


@contextmanager
def start_worker(command: Command, url: str, name: str, *options: str) -> Iterator["subprocess.Popen[str]"]:
    given = ("--model", "openai:gpt-5-mini", "--name", name, "--dead-after", "1.5", "--drain", "1")
    with command.start("worker", "--url", url, *given, *options, stdout=subprocess.DEVNULL) as process:
        assert process.stderr
        try:
            while "is executing runs" not in (line := process.stderr.readline()):
                assert line, process.wait(120)
            yield process
        finally:
            process.kill()
            process.communicate(timeout=120)


def wait_for_state(service: RunningService, run: str, state: str) -> dict[str, Any]:
    """Wait until the run is in a state and return its info."""
    end = time.monotonic() + 120
    while (info := service.ask("GET", f"v1/runs/{run}")[1])["state"] != state:
        assert time.monotonic() < end, info
        _moment()
    return info


def _moment() -> None:
    threading.Event().wait(0.05)


def test_http_run_survives_killed_workers(command: Command, url: str) -> None:
    (command.folder / "a.txt").write_text("forty-two\n", encoding="utf-8")
    command.server.script += [
        Reply("I look.", calls=[("read_file", {"path": "a.txt"})]),
        Reply("It says", stall=True),  # the worker is killed here
        Reply("It says forty-two. ", calls=[("shell", {"command": "echo once >> made"})]),
        "It is made.",
    ]
    with start_service(command, "--url", url) as service:
        service.token = TOKEN
        status, started = service.ask("POST", "v1/runs", {"prompt": "Look, then make it", "agent": "mainspring"})
        run = started["id"]
        assert (status, started["state"]) == (201, "waiting")
        assert "no worker that knows the agent 'mainspring' is alive" in started["error"]
        follower = Follower(service, run)
        with start_worker(command, url, "one") as first:
            assert service.ask("GET", "v1/agents")[1] == {"agents": [{"name": "mainspring"}]}
            assert command.server.stalled.wait(120)
            follower.wait_for("It says")
            first.kill()
        with start_worker(command, url, "two") as second:
            waiting = wait_for_state(service, run, "paused")
            assert waiting["worker"] == "two"
            [call] = waiting["waiting"]
            assert (call["tool"], call["input"]) == ("shell", {"command": "echo once >> made"})
            second.send_signal(signal.SIGTERM)
            assert second.wait(120) == 0
        assert not (command.folder / "made").exists()
        assert service.ask("POST", f"v1/runs/{run}/approve", {"call_id": call["call_id"]})[0] < 300
        assert service.ask("GET", f"v1/runs/{run}")[1]["state"] == "paused", "no worker is running"
        with start_worker(command, url, "three"):
            wait_for_state(service, run, "done")
            result = service.ask("GET", f"v1/runs/{run}/result")[1]
            assert (result["status"], result["text"]) == ("completed", "It is made.")
        follower.join(120)
        assert not follower.is_alive()
        again = Follower(service, run, after=follower.events[2][0])
        again.join(120)
        assert again.events == follower.events[3:], "a returning follower gets the missed events"
        with start_worker(command, url, "four", "--keep", "0.000001"):
            while service.ask("GET", f"v1/runs/{run}")[0] != 404:
                _moment()
        assert service.end()[0] == 0
    assert (command.folder / "made").read_text() == "once\n"
    assert len(command.server.requests) == 4, "only the active response was requested again"
    assert [id for id, _ in follower.events] == [str(n) for n in range(1, len(follower.events) + 1)]
    kinds = follower.kinds
    assert [e["number"] for _, e in follower.events if e["type"] == "attempt_start"] == [1, 2, 3]
    begun = [event["call"]["name"] for _, event in follower.events if event["type"] == "tool_execution_start"]
    assert begun == ["read_file", "shell", "shell"], "an approved call starts again"
    assert kinds.count("tool_execution_end") == 2
    assert kinds[-1] == "agent_end"
    answers = [
        e["message"] for _, e in follower.events if e["type"] == "message_end" and e["message"]["role"] == "assistant"
    ]
    assert len(answers) == 3
