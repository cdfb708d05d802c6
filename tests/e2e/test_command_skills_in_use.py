"""The command with skills: a real process, real files, and a test server."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Command, command
from tests.e2e.servers.chat import Reply, call

__all__ = ["command"]


def write_skill(folder: Path, name: str, body: str, script: str = "") -> None:
    skill_folder = folder / "skills" / name
    (skill_folder / "scripts").mkdir(parents=True)
    (skill_folder / "SKILL.md").write_text(
        f"---\nname: {name}\ndescription: All about {name}.\n---\n{body}\n", encoding="utf-8"
    )
    if script:
        (skill_folder / "scripts" / "run.sh").write_text(script, encoding="utf-8")


def call_skill(name: str) -> Reply:
    return Reply(calls=[("skills_use", {"name": name})])


def tool_results(command: Command) -> list[str]:
    return [m["content"] for m in command.server.requests[-1]["messages"] if m["role"] == "tool"]


def system_prompt(request: dict[str, Any]) -> str:
    return next(m["content"] for m in request["messages"] if m["role"] in ("system", "developer"))


@pytest.mark.covers("SKL-22", "SKL-18", "SKL-09")
def test_user_skill_is_offered_and_its_script_runs_when_allowed(command: Command) -> None:
    write_skill(command.home / ".agent", "count", "Run scripts/run.sh.", 'echo "{\\"lines\\": 3}"')
    run = call("skills_run_script", skill="count", script="scripts/run.sh")
    command.server.script = [call_skill("count"), run, "three"]

    script = command.home / ".agent" / "skills" / "count" / "scripts" / "run.sh"
    done = command.run("-p", "count them", "--allow", f"skills_run_script(bash {script} *)")

    assert done.code == 0, done.err
    assert "matches no tool" not in done.err
    assert "- count: All about count." in system_prompt(command.server.requests[0])
    assert "- create-skill: " in system_prompt(command.server.requests[0])
    used, ran = tool_results(command)
    assert used.startswith('<skill_content name="count"')
    assert json.loads(ran)["result"] == {"lines": 3}


@pytest.mark.covers("SKL-20", "SKL-27", "SKL-37")
def test_project_skills_wait_for_trust_and_return_on_resume(command: Command) -> None:
    write_skill(command.folder / ".agent", "house-style", "Our way.")
    command.server.script[:] = ["no skill"]
    assert command.run("-p", "go").code == 0
    assert "house-style" not in system_prompt(command.server.requests[0])

    assert command.run("trust", ".").code == 0
    command.server.script = [
        call_skill("house-style"),
        "done",
        call("skills_read", skill="house-style", path="SKILL.md"),
        "done",
    ]
    assert command.run("-p", "go").code == 0
    assert command.run("-p", "go on", "--continue").code == 0
    assert tool_results(command)[-1] == "Our way."


def test_tools_flag_disables_skills(command: Command) -> None:
    write_skill(command.home / ".agent", "count", "Count.")
    command.server.script[:] = [Reply("hi")]

    done = command.run("-p", "go", "--tools", "read_file")

    assert done.code == 0, done.err
    assert "count" not in system_prompt(command.server.requests[0])
    assert [t["function"]["name"] for t in command.server.requests[0]["tools"]] == ["read_file"]


def test_stream_json_start_lists_the_tools_sent_to_the_model(command: Command) -> None:
    write_skill(command.home / ".agent", "house-style", "Two spaces.")
    command.server.script += ["done"]

    start, *_ = command.run("-p", "x", "--output", "stream-json").lines

    sent = {tool["function"]["name"] for tool in command.server.requests[0]["tools"]}
    assert "skills_read" in sent
    assert set(start["tools"]) == sent
