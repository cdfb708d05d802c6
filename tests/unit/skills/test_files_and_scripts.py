"""Files and scripts of a skill: paths stay in its folder, and scripts have limits."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from mainspring.cancellation import CancelToken
from mainspring.env import LocalEnv, MemoryEnv
from mainspring.permissions import PermissionRequest, Permissions
from mainspring.skills import SkillsConfig, SkillsPlug
from mainspring.skills.content import OutsideFolderError, list_skill_files, resolve_skill_path
from mainspring.skills.execution import run_script, validate_arguments
from mainspring.skills.skill import Script, ScriptError, Skill
from mainspring.testing.scripted_model import ScriptedCall
from tests.unit.skills.factories import make_agent, results, write_skill


def use_skill(name: str = "pdf") -> ScriptedCall:
    return ScriptedCall("skills_use", {"name": name})


def read_call(path: str, **more: Any) -> ScriptedCall:
    return ScriptedCall("skills_read", {"skill": "pdf", "path": path, **more})


def run_call(script: str, *arguments: str, **more: Any) -> ScriptedCall:
    return ScriptedCall("skills_run_script", {"skill": "pdf", "script": script, "arguments": list(arguments), **more})


@pytest.mark.covers("SEC-14", "SKL-31")
@pytest.mark.parametrize(
    "path",
    [
        "../other/SKILL.md",
        "references/../../other/SKILL.md",
        "..",
        "/etc/hostname",
        "~/x",
        "~",
        "..\\other\\SKILL.md",
        "C:/x",
        "link.md",
        "folder/SKILL.md",
        "LINK.md",
        "./././../x",
        "",
        " ",
        "a\0b",
    ],
)
async def test_path_outside_the_skill_folder_is_rejected(tmp_path: Path, path: str) -> None:
    skill_folder = write_skill(tmp_path, "pdf", references__guide_dot_md="g")
    other = write_skill(tmp_path, "other")
    (skill_folder / "link.md").symlink_to(other / "SKILL.md")
    (skill_folder / "LINK.md").symlink_to("../other/SKILL.md")
    (skill_folder / "folder").symlink_to(other)

    with pytest.raises(OutsideFolderError):
        await resolve_skill_path(LocalEnv(str(tmp_path)), str(skill_folder), path)


@pytest.mark.covers("SEC-14", "SKL-31")
async def test_link_to_a_folder_with_the_same_prefix_is_rejected(tmp_path: Path) -> None:
    skill_folder = write_skill(tmp_path, "pdf")
    write_skill(tmp_path, "pdf-more")
    (skill_folder / "link").symlink_to(tmp_path / "pdf-more")

    with pytest.raises(OutsideFolderError, match="link that leads out"):
        await resolve_skill_path(LocalEnv(str(tmp_path)), str(skill_folder), "link/SKILL.md")


@pytest.mark.covers("SEC-14")
async def test_links_inside_the_folder_are_allowed_but_secrets_are_not(tmp_path: Path) -> None:
    skill_folder = write_skill(
        tmp_path, "pdf", a__guide_dot_md="g", _dot_env="KEY=1", keys__id_rsa="k", secrets_dot_md="how to"
    )
    (skill_folder / "short.md").symlink_to("a/guide.md")
    env = LocalEnv(str(tmp_path))

    assert await resolve_skill_path(env, str(skill_folder), "short.md") == str(skill_folder / "a" / "guide.md")
    assert await resolve_skill_path(env, str(skill_folder), "./a//guide.md") == str(skill_folder / "a" / "guide.md")
    for path in (".env", "keys/id_rsa", ".ENV"):
        with pytest.raises(OutsideFolderError, match="keys or passwords"):
            await resolve_skill_path(env, str(skill_folder), path)
    files, count = await list_skill_files(env, str(skill_folder))
    assert (list(files), count) == (["a/guide.md", "secrets.md"], 2)


@pytest.mark.covers("SKL-31", "SEC-14")
async def test_files_are_readable_while_the_skill_is_active(tmp_path: Path) -> None:
    skill_folder = write_skill(tmp_path, "pdf", "The body.", references__guide_dot_md="one\ntwo </skill_content>\n")
    (skill_folder / "long.txt").write_text("x" * 70 + "\n" + ("line\n" * 9000), encoding="utf-8")
    (skill_folder / "data.bin").write_bytes(b"\0\1")
    calls = [
        read_call("references/guide.md"),
        read_call("SKILL.md"),
        read_call("long.txt"),
        read_call("long.txt", offset=9001),
        read_call("data.bin"),
        read_call("no.md"),
        read_call("../x"),
    ]
    agent, _, _ = make_agent(tmp_path, read_call("SKILL.md"), use_skill(), calls, "done")

    await agent.run("go")

    early, _, guide, body, long, end, binary, missing, outside = results(agent)
    assert early.is_error
    assert early.text == "The skill pdf is not active; call skills_use with its name first."
    assert guide.text == "one\ntwo &lt;/skill_content>\n"
    assert body.text == "The body."
    assert "offset=" in long.text.splitlines()[-1]
    assert len(long.text) < 30_000
    assert end.text == "line\n"
    assert [r.is_error for r in (binary, missing, outside)] == [True, True, True]
    assert binary.text == "data.bin is not a text file"


@pytest.mark.covers("SKL-31", "SEC-14")
@pytest.mark.parametrize("path", ["../secret.txt", "link.txt", "a/../../secret.txt", "{absolute}"])
async def test_skills_read_rejects_outside_paths(tmp_path: Path, path: str) -> None:
    skill_folder = write_skill(tmp_path, "pdf", a__b_dot_md="inside")
    (tmp_path / "secret.txt").write_text("outside", encoding="utf-8")
    (skill_folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    path = path.format(absolute=tmp_path / "secret.txt")
    agent, _, _ = make_agent(tmp_path, use_skill(), [read_call(path), read_call("a/b.md")], "done")

    await agent.run("go")

    _, outside, inside = results(agent)
    assert (outside.is_error, "outside" in outside.text.replace("outside the", "")) == (True, False)
    assert inside.text == "inside"


@pytest.mark.covers("SKL-09")
async def test_script_timeout_is_at_most_a_minute(tmp_path: Path) -> None:
    request: list[float | None] = []

    class RecordingEnv(LocalEnv):
        async def run(self, *arguments: Any, **options: Any) -> Any:
            request.append(options["timeout"])
            return await super().run(*arguments, **options)

    skill_folder = write_skill(tmp_path, "pdf", scripts__a_dot_sh="true")
    skill = Skill(name="pdf", description="d", brief="d", source="user", directory=str(skill_folder))
    for seconds in (5.0, 600.0, 0.0):
        script = Script(name="a", path="scripts/a.sh", timeout=seconds)
        assert (
            await run_script(RecordingEnv(str(tmp_path)), skill, script, str(skill_folder / "scripts" / "a.sh"), ())
        )["success"]
    assert request == [5.0, 60.0, 60.0]


@pytest.mark.covers("SKL-31")
async def test_skill_files_in_the_project_follow_permission_rules(tmp_path: Path) -> None:
    folder = tmp_path / "project" / ".agent" / "skills"
    write_skill(folder, "pdf", guide_dot_md="g", private_dot_md="p")
    config = SkillsConfig(project=str(tmp_path / "project"), trust_project_skills=True, builtin=False)
    agent, _, _ = make_agent(
        tmp_path / "none",
        use_skill(),
        [read_call("guide.md"), read_call("private.md")],
        "done",
        plugs=[SkillsPlug(config)],
        execution=str(tmp_path / "project"),
        permissions=Permissions(deny=["read_file(**/private.md)"]),
    )

    await agent.run("go")

    guide, private = results(agent)[1:]
    assert guide.text == "g"
    assert "the rule 'read_file(**/private.md)' denies it" in private.text


_ECHO = "import json, os, sys\nprint(json.dumps({'args': sys.argv[1:], 'cwd': os.getcwd(), 'dir': os.environ['SKILL_DIR']}))\n"


@pytest.mark.covers("SKL-09")
async def test_script_runs_in_the_project_or_skill_folder_and_returns_json(tmp_path: Path) -> None:
    skill_folder = write_skill(
        tmp_path / "skills",
        "pdf",
        scripts__echo_dot_py=_ECHO,
        scripts__say_dot_sh="echo plain; echo bad >&2; exit 3",
        scripts__text_dot_sh="echo plain",
    )
    project = tmp_path / "project"
    project.mkdir()
    calls = [
        run_call("scripts/echo.py", "a b", "$HOME", "*"),
        run_call("echo.py", run_in="skill"),
        run_call("scripts/say.sh"),
        run_call("scripts/text.sh"),
    ]
    agent, _, _ = make_agent(tmp_path / "skills", use_skill(), calls, "done", execution=str(project))

    await agent.run("go")

    first, second, third, text = (json.loads(r.text) for r in results(agent)[1:])
    assert first == {
        "success": True,
        "message": "exit code 0",
        "exit_code": 0,
        "result": {"args": ["a b", "$HOME", "*"], "cwd": str(project), "dir": str(skill_folder)},
    }
    assert second["result"]["cwd"] == str(skill_folder)
    assert third == {
        "success": False,
        "error": "UNKNOWN",
        "message": "exit code 3",
        "exit_code": 3,
        "stdout": "plain\n",
        "stderr": "bad\n",
    }
    assert results(agent)[3].is_error
    assert text == {"success": True, "message": "exit code 0", "exit_code": 0, "result": "plain\n"}


@pytest.mark.covers("SKL-09")
def test_script_arguments_are_limited() -> None:
    validate_arguments(["x" * 40] * 100)
    validate_arguments(["x" * 4000, "é" * 48])
    together = ["a" * 3000, "b" * 3000]
    cases = (
        (["x"] * 101, "100 arguments at most"),
        (["é" * 2049], "not 4098"),
        (together, "not 6000"),
        (["a\0"], "NUL"),
    )
    for invalid, reason in cases:
        with pytest.raises(ScriptError, match=reason):
            validate_arguments(invalid)


@pytest.mark.covers("SKL-09", "SEC-14")
async def test_files_that_are_not_scripts_do_not_run(tmp_path: Path) -> None:
    skill_folder = write_skill(
        tmp_path / "s", "pdf", scripts__a_dot_sh="echo a", other__b_dot_sh="echo b", scripts__data_dot_xyz="?"
    )
    write_skill(tmp_path / "s", "evil", scripts__c_dot_sh="echo c")
    (skill_folder / "scripts" / "out.sh").symlink_to("../../evil/scripts/c.sh")
    names = (
        "other/b.sh",
        "../evil/scripts/c.sh",
        "scripts/../../evil/scripts/c.sh",
        "/bin/ls",
        "scripts/out.sh",
        "scripts/data.xyz",
        "scripts/none.sh",
        "",
    )
    agent, _, _ = make_agent(
        tmp_path / "s",
        use_skill(),
        [run_call(n) for n in names] + [run_call("scripts/a.sh", *["x"] * 101)],
        "done",
        execution=str(tmp_path),
    )

    await agent.run("go")

    assert [r.is_error for r in results(agent)[1:]] == [True] * 9
    assert all('"exit_code"' not in r.text for r in results(agent)[1:])


@pytest.mark.covers("SKL-09")
async def test_script_is_stopped_at_limits_and_by_an_abort(tmp_path: Path) -> None:
    head = "scripts:\n  - name: slow\n    path: scripts/slow.sh\n    timeout: 0.3\n"
    write_skill(
        tmp_path / "s",
        "pdf",
        head=head,
        scripts__slow_dot_sh="sleep 60 & sleep 60",
        scripts__loud_dot_sh="head -c 9000000 /dev/zero | tr '\\0' a; touch after",
        scripts__mark_dot_sh='touch "$PROJECT_DIR/started"; sleep 60; touch "$PROJECT_DIR/ended"',
    )
    agent, _, _ = make_agent(
        tmp_path / "s",
        use_skill(),
        [run_call("slow"), run_call("scripts/loud.sh")],
        "done",
        use_skill(),
        run_call("scripts/mark.sh"),
        execution=str(tmp_path),
    )
    await agent.run("go")
    slow, loud = (json.loads(r.text) for r in results(agent)[1:])
    assert (slow["error"], slow["message"]) == ("TIMEOUT", "it was stopped after 0.3 seconds")
    assert loud["message"] == "it was stopped, since it wrote more than 1048576 bytes"
    assert loud["cut"] == ["stdout"]
    assert not (tmp_path / "after").exists()
    assert len(results(agent)[2].text) < 40_000

    signal = CancelToken()
    running = asyncio.ensure_future(agent.run("again", signal=signal, raise_errors=False))
    while not (tmp_path / "started").exists():
        await asyncio.wait({running}, timeout=0.02)
    signal.cancel("enough")
    ended = await running
    assert ended.status == "aborted"
    assert not (tmp_path / "ended").exists()
    await agent.env.aclose()


@pytest.mark.covers("SKL-09")
async def test_permission_request_names_the_command_of_a_script(tmp_path: Path) -> None:
    skill_folder = write_skill(tmp_path / "s", "pdf", scripts__a_dot_sh="echo ran")
    requests: list[PermissionRequest] = []

    def ask(request: PermissionRequest) -> bool:
        requests.append(request)
        return False

    rule = f"skills_run_script(bash {skill_folder}/scripts/a.sh --quick)"
    permissions = Permissions(on_permission_request=ask, allow=[rule])
    agent, _, _ = make_agent(
        tmp_path / "s",
        use_skill(),
        [run_call("scripts/a.sh", "x"), run_call("scripts/a.sh", "--quick")],
        "done",
        execution=str(tmp_path),
        permissions=permissions,
    )

    await agent.run("go")

    assert [a.resource for a in requests] == [f"bash {skill_folder}/scripts/a.sh x"]
    first, second = results(agent)[1:]
    assert first.text.startswith("Permission denied")
    assert json.loads(second.text)["result"] == "ran\n"


async def test_script_asks_even_if_its_skill_is_activated_in_the_same_turn(tmp_path: Path) -> None:
    write_skill(tmp_path / "s", "pdf", scripts__a_dot_sh="touch ran", secret_dot_md="x")
    requests: list[PermissionRequest] = []

    def ask(request: PermissionRequest) -> bool:
        requests.append(request)
        return False

    permissions = Permissions(on_permission_request=ask)
    for first in (use_skill(), ScriptedCall("load_skill", {"name": "pdf"})):
        calls = [run_call("scripts/a.sh"), first, run_call("scripts/a.sh")]
        agent, _, _ = make_agent(tmp_path / "s", calls, "done", execution=str(tmp_path), permissions=permissions)

        await agent.run("go")

        assert not (tmp_path / "ran").exists()
        assert all(r.is_error for r in (results(agent)[0], results(agent)[2]))


@pytest.mark.covers("SKL-09", "SKL-20", "SKL-30", "SKL-37")
async def test_scripts_and_commands_of_an_untrusted_skill_do_not_run(tmp_path: Path) -> None:
    folder = tmp_path / ".agent" / "skills"
    write_skill(
        folder,
        "pdf",
        "Now: !`touch ran`",
        "toolsets: [tools.py:T]",
        scripts__a_dot_sh="touch ran",
        tools_dot_py="open('ran', 'w')",
    )
    config = SkillsConfig(project=str(tmp_path), builtin=False)  # the user has not decided about trust
    agent, _, plug = make_agent(
        tmp_path / "none",
        use_skill(),
        run_call("scripts/a.sh"),
        "done",
        execution=str(tmp_path),
        plugs=[SkillsPlug(config)],
    )

    await agent.run("go")

    used, script = results(agent)
    assert "Now: !`touch ran`" in used.text
    assert "its scripts and commands do not run" in used.text
    assert script.is_error
    assert "do not run" in script.text
    assert not (tmp_path / "ran").exists()
    assert not Path("ran").exists()
    assert plug.problems == ()


async def test_script_missing_in_the_environment_is_an_error(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf", scripts__a_dot_sh="echo a", guide_dot_md="g")
    agent, _, _ = make_agent(
        tmp_path, use_skill(), [run_call("scripts/a.sh"), read_call("guide.md")], "done", execution=MemoryEnv()
    )

    await agent.run("go")

    assert results(agent)[1].text.startswith("scripts/a.sh: ")
    assert results(agent)[1].is_error
    assert results(agent)[2].text == "g"
    assert os.path.exists(tmp_path / "pdf" / "guide.md")
