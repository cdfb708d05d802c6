"""`mainspring serve --http` as a program: tokens, custom agents, a database, and shutdown."""

import json
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Command, command
from tests.e2e.servers.chat import Reply, call
from tests.requires import durable_on_sqlite, require_module

__all__ = ["command"]

TOKEN = "a-token-of-the-test-0123456789"


@dataclass
class RunningService:
    """A running service."""

    process: "subprocess.Popen[str]"
    url: str
    token: str

    def ask(self, method: str, path: str, body: Any = None, token: str = "") -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"authorization": f"Bearer {token or self.token}", "content-type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def ag_ui(self, run: str, messages: list[Any], **more: Any) -> list[Any]:
        """Return the events of one run of an AG-UI client."""
        data = json.dumps({"threadId": "t", "runId": run, "messages": messages, **more}).encode()
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        request = urllib.request.Request(f"{self.url}v1/ag-ui", data, headers)
        with urllib.request.urlopen(request, timeout=120) as answer:
            lines = answer.read().decode().splitlines()
        return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        """Send a signal; return the exit code, stdout, and stderr."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=18)
        return self.process.returncode, out, err


@contextmanager
def start_service(command: Command, *arguments: str) -> Iterator[RunningService]:
    given = ("serve", "--http", "--port", "0", "--model", "openai:gpt-5-mini", *arguments)
    with command.start(*given) as process:
        assert process.stdout
        line = process.stdout.readline().strip()
        if not line:
            raise AssertionError(process.communicate(timeout=120)[1])
        url, _, token = line.partition("#token=")
        try:
            yield RunningService(process, url, token)
        finally:
            process.kill()


def test_service_prints_a_random_token_and_rejects_others(command: Command):
    command.server.script += ["Hello yourself."]
    with start_service(command) as service:
        assert service.url.startswith("http://127.0.0.1:")
        assert len(service.token) > 40
        status, run = service.ask("POST", "v1/runs", {"prompt": "Hello"})
        assert status == 201
        assert service.ask("GET", f"v1/runs/{run['id']}/result?wait=60")[1]["text"] == "Hello yourself."
        assert service.ask("GET", "v1/runs", token="x" * 43)[0] == 401
        code, out, err = service.end()
        assert (code, out) == (0, "")
        assert service.token not in err


def test_service_applies_permission_flags_and_waits_for_approvals(command: Command):
    command.server.script += [
        Reply(calls=[("shell", {"command": "touch made"}), ("write_file", {"path": "never", "content": "x"})]),
        "It is made.",
    ]
    with start_service(command, "--deny", "write_file") as service:
        run = service.ask("POST", "v1/runs", {"prompt": "Make it"})[1]["id"]
        while not (info := service.ask("GET", f"v1/runs/{run}")[1])["waiting"]:
            assert info["state"] in ("waiting", "running"), info
        assert [(w["tool"], w["input"]) for w in info["waiting"]] == [("shell", {"command": "touch made"})]
        assert not (command.folder / "made").exists()
        service.ask("POST", f"v1/runs/{run}/approve", {"call_id": info["waiting"][0]["call_id"]})
        assert service.ask("GET", f"v1/runs/{run}/result?wait=60")[1]["text"] == "It is made."
        assert (command.folder / "made").exists()
        assert not (command.folder / "never").exists()


def test_token_file_separates_tenants(command: Command, tmp_path: Path):
    tokens = tmp_path / "tokens"
    tokens.write_text(f"ann {TOKEN}1\nben {TOKEN}2\n")
    command.server.script += ["For Ann."]
    with start_service(command, "--token-file", str(tokens)) as service:
        assert service.token == ""
        run = service.ask("POST", "v1/runs", {"prompt": "Hello"}, f"{TOKEN}1")[1]["id"]
        assert service.ask("GET", f"v1/runs/{run}", token=f"{TOKEN}2")[0] == 404
        assert service.ask("GET", f"v1/runs/{run}/result?wait=60", token=f"{TOKEN}1")[1]["text"] == "For Ann."


def test_token_from_environment_is_hidden_from_shell_commands(command: Command):
    command.variables["MAINSPRING_SERVE_TOKEN"] = TOKEN
    command.server.script += [call("shell", command="env"), "Seen."]
    with start_service(command, "--allow", "shell") as service:
        service.token = TOKEN
        run = service.ask("POST", "v1/runs", {"prompt": "env"})[1]["id"]
        assert service.ask("GET", f"v1/runs/{run}/result?wait=60")[1]["status"] == "completed"
    result = command.server.requests[-1]["messages"][-1]["content"]
    assert "HOME=" in result
    assert TOKEN not in result


def test_service_finishes_the_run_before_it_stops(command: Command):
    command.server.script += [Reply("It took its time.", delay=3)]
    with start_service(command) as service:
        run = service.ask("POST", "v1/runs", {"prompt": "Take your time"})[1]["id"]
        assert command.server.request_received.wait(120)
        headers = {"authorization": f"Bearer {service.token}"}
        request = urllib.request.Request(f"{service.url}v1/runs/{run}/events", headers=headers)
        with urllib.request.urlopen(request, timeout=120) as events:
            events.readline()
            service.process.send_signal(signal.SIGTERM)
            received = events.read().decode()
        assert '"status":"completed","text":"It took its time."' in received
        _, err = service.process.communicate(timeout=120)
        assert service.process.returncode == 0
        assert "no new runs" in err


def test_second_signal_stops_the_service_immediately(command: Command):
    command.server.script += [Reply("never", stall=True)]
    with start_service(command) as service:
        service.ask("POST", "v1/runs", {"prompt": "x"})
        assert command.server.request_received.wait(120)
        service.process.send_signal(signal.SIGINT)
        assert service.process.stderr
        while "Shutting down" not in service.process.stderr.readline():
            pass
        assert service.end(signal.SIGINT)[0] == 0


AGENTS = """
from mainspring import Agent
from mainspring.testing.scripted_model import ScriptedModel

agents = {
    "parrot": lambda steps: Agent(ScriptedModel("I am a parrot."), steps=steps),
    "owl": lambda steps: Agent(ScriptedModel("I am an owl."), steps=steps),
}
"""


def test_service_runs_custom_agents(command: Command):
    (command.folder / "my_agents.py").write_text(AGENTS)
    with start_service(command, "--agents", "my_agents:agents", "--only-agents") as service:
        assert service.ask("GET", "v1/agents")[1] == {"agents": [{"name": "parrot"}, {"name": "owl"}]}
        run = service.ask("POST", "v1/runs", {"prompt": "Who are you?", "agent": "owl"})[1]["id"]
        assert service.ask("GET", f"v1/runs/{run}/result?wait=60")[1]["text"] == "I am an owl."
        assert service.ask("POST", "v1/runs", {"prompt": "x", "agent": "mainspring"})[0] == 404


@pytest.mark.soak
@durable_on_sqlite
def test_runs_in_a_database_survive_a_restart(command: Command):
    require_module("dbos", "DBOS")
    command.variables["MAINSPRING_SERVE_TOKEN"] = TOKEN
    url = f"sqlite:///{command.folder}/runs.db"
    command.server.script += [call("shell", command="touch made"), "It is made."]
    with start_service(command, "--url", url, "--work") as service:
        service.token = TOKEN
        run = service.ask("POST", "v1/runs", {"prompt": "Make it"})[1]["id"]
        while not service.ask("GET", f"v1/runs/{run}")[1]["waiting"]:
            pass
        assert service.end()[0] == 0
    with start_service(command, "--url", url, "--work") as service:
        service.token = TOKEN
        while not (waiting := service.ask("GET", f"v1/runs/{run}")[1]["waiting"]):
            pass
        service.ask("POST", f"v1/runs/{run}/approve", {"call_id": waiting[0]["call_id"]})
        assert service.ask("GET", f"v1/runs/{run}/result?wait=60")[1]["text"] == "It is made."
    assert len(command.server.requests) == 2  # no model call was made twice


@pytest.mark.soak
@durable_on_sqlite
def test_ag_ui_client_answers_after_the_service_is_killed(command: Command):
    """A subagent asks, the service is killed, and another service gets the answer and resumes the run."""
    require_module("dbos", "DBOS")
    command.variables["MAINSPRING_SERVE_TOKEN"] = TOKEN
    url = f"sqlite:///{command.folder}/runs.db"
    command.server.script += [call("spawn", task="touch made"), call("shell", command="touch made"), "Below.", "Above."]
    user = [{"id": "1", "role": "user", "content": "Make it"}]
    with start_service(command, "--url", url, "--work") as service:
        service.token = TOKEN
        [request] = service.ag_ui("r1", user)[-1]["outcome"]["interrupts"]
        service.process.kill()
    assert not (command.folder / "made").exists()
    with start_service(command, "--url", url, "--work") as service:
        service.token = TOKEN
        run = request["id"].partition("/")[0]
        while not service.ask("GET", f"v1/runs/{run}")[1]["waiting"]:
            pass
        answer = {"interruptId": request["id"], "status": "resolved", "payload": {"approved": True}}
        received = service.ag_ui("r2", user, resume=[answer])
        assert (received[0]["runId"], received[-1]["result"]["text"]) == ("r2", "Above.")
    assert (command.folder / "made").exists()
    assert len(command.server.requests) == 4


def test_service_reports_a_port_in_use(command: Command):
    with start_service(command) as service:
        port = service.url.rstrip("/").rpartition(":")[2]
        with command.start("serve", "--http", "--port", port, "--model", "openai:gpt-5-mini") as second:
            out, err = second.communicate(timeout=120)
        assert (second.returncode, out) == (2, "")
        assert f"port {port}: Address already in use. Choose another port with --port" in err
        assert service.ask("GET", "v1/runs")[0] == 200
        with start_service(command) as other:  # the same home, another port
            assert other.ask("GET", "v1/runs")[0] == 200
            assert other.ask("GET", "v1/runs", token=service.token)[0] == 401
