"""The command with skills: a real process, real files, a server that answers."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Command, command
from tests.e2e.servers.chat import Reply, call

__all__ = ["command"]

pytestmark = pytest.mark.timeout(120)


def skill(folder: Path, name: str, body: str, script: str = "") -> None:
    own = folder / "skills" / name
    (own / "scripts").mkdir(parents=True)
    (own / "SKILL.md").write_text(f"---\nname: {name}\ndescription: All about {name}.\n---\n{body}\n", encoding="utf-8")
    if script:
        (own / "scripts" / "run.sh").write_text(script, encoding="utf-8")


def use(name: str) -> Reply:
    return Reply(calls=[("skills_use", {"name": name})])


def results(command: Command) -> list[str]:
    return [m["content"] for m in command.server.requests[-1]["messages"] if m["role"] == "tool"]


def system(request: dict[str, Any]) -> str:
    return next(m["content"] for m in request["messages"] if m["role"] in ("system", "developer"))


@pytest.mark.covers("SKL-22", "SKL-18", "SKL-09")
def test_a_skill_of_the_user_is_offered_used_and_its_script_runs_when_allowed(command: Command) -> None:
    skill(command.home / ".agent", "count", "Run scripts/run.sh.", 'echo "{\\"lines\\": 3}"')
    run = call("skills_run_script", skill="count", script="scripts/run.sh")
    command.server.script = [use("count"), run, "three"]

    script = command.home / ".agent" / "skills" / "count" / "scripts" / "run.sh"
    done = command.run("-p", "count them", "--allow", f"skills_run_script(bash {script} *)")

    assert done.code == 0, done.err
    assert "matches no tool" not in done.err
    assert "- count: All about count." in system(command.server.requests[0])
    assert "- create-skill: " in system(command.server.requests[0])
    used, ran = results(command)
    assert used.startswith('<skill_content name="count"')
    assert json.loads(ran)["result"] == {"lines": 3}


@pytest.mark.covers("SKL-20", "SKL-27", "SKL-37")
def test_skills_of_a_project_wait_for_trust_and_come_back_with_the_session(command: Command) -> None:
    skill(command.folder / ".agent", "house-style", "Our way.")
    command.server.script[:] = ["no skill"]
    assert command.run("-p", "go").code == 0
    assert "house-style" not in system(command.server.requests[0])

    assert command.run("trust", ".").code == 0
    command.server.script = [
        use("house-style"),
        "done",
        call("skills_read", skill="house-style", path="SKILL.md"),
        "done",
    ]
    assert command.run("-p", "go").code == 0
    assert command.run("-p", "go on", "--continue").code == 0
    assert results(command)[-1] == "Our way."


def test_who_wants_certain_tools_gets_those_alone(command: Command) -> None:
    skill(command.home / ".agent", "count", "Count.")
    command.server.script[:] = [Reply("hi")]

    done = command.run("-p", "go", "--tools", "read_file")

    assert done.code == 0, done.err
    assert "count" not in system(command.server.requests[0])
    assert [t["function"]["name"] for t in command.server.requests[0]["tools"]] == ["read_file"]


def test_the_first_line_of_stream_json_names_the_tools_that_the_model_gets(command: Command) -> None:
    skill(command.home / ".agent", "house-style", "Two spaces.")
    command.server.script += ["done"]

    start, *_ = command.run("-p", "x", "--output", "stream-json").lines

    sent = {tool["function"]["name"] for tool in command.server.requests[0]["tools"]}
    assert "skills_read" in sent
    assert set(start["tools"]) == sent
