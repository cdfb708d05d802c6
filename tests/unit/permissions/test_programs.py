"""A read-only command asks if its program would be found in the project."""

import os
from pathlib import Path

import pytest

from mainspring.env import LocalEnv
from mainspring.env.container import ContainerEnv
from mainspring.permissions import Permissions
from mainspring.programs import explain_missing_program, find_program
from tests.helpers.containers import fake_docker as fake_docker
from tests.unit.permissions.harness import TOOLS


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name in ("bin/ls", ".venv/bin/python3", "node_modules/.bin/tsc", "sub/bin/cat", "bin/grep"):
        make_program(folder / name)
    (folder / "a").write_text("x")
    (tmp_path / "link").symlink_to(folder / "bin")
    make_program(tmp_path / "other" / "ls", "a program")
    make_program(tmp_path / "other" / "tar", "a program")
    make_program(tmp_path / "scripts" / "stat")
    make_program(tmp_path / "scripts" / "wc", "#!/usr/bin/env mawk\n")
    make_program(folder / "bin" / "gzip")
    make_program(folder / "awks" / "mawk")
    make_program(folder / "bin" / "echo")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "a-file").write_text("")
    (tmp_path / "not-programs" / "ls").mkdir(parents=True)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "ls").symlink_to(folder / "bin" / "ls")
    return folder


def make_program(path: Path, text: str = "#!/bin/sh\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("entry", "line", "outcome"),
    [
        ("bin", "ls", "ask"),
        ("./bin", "ls | cat", "ask"),
        ("{project}/bin", "ls", "ask"),
        ("{project}/../project/bin", "ls", "ask"),
        ("{outside}/link", "ls", "ask"),
        ("{outside}/linked", "ls", "ask"),
        ("bin", "timeout 5 ls", "ask"),
        ("~/project/bin", "ls", "ask"),
        ("~/other", "ls", "allow"),
        ("bin", "command ls", "ask"),
        ("bin", "printf a | xargs -n 1 echo", "ask"),
        ("bin", "env echo a", "ask"),
        ("bin", "if ls; then echo a; fi", "ask"),
        ("bin", "egrep x a", "ask"),
        ("bin", "cd sub && cat ../a", "ask"),
        ("{project}/.venv/bin", "python3 --version", "ask"),
        ("bin", "cat a", "allow"),
        ("{outside}/other:bin", "tar tzf a", "ask"),  # which starts gzip
        ("{outside}/other:awks", "tar tzf a", "allow"),
        ("{outside}/scripts:awks", "stat a", "ask"),  # a script of a shell may start anything
        ("{outside}/scripts", "stat a", "allow"),
        ("{outside}/scripts:awks", "wc a", "ask"),
        ("{outside}/scripts:bin", "wc a", "allow"),
        ("bin", "/bin/ls", "allow"),
        ("bin", "echo a; pwd; test -f a", "allow"),
        ("/usr/bin:/bin:bin", "ls", "allow"),
        ("{outside}/other:bin", "ls", "allow"),
        ("{project}/.venv/bin", "ls; cat a", "allow"),
        ("{project}/node_modules/.bin", "ls", "allow"),
        ("", "ls", "allow"),
        ("", "cd bin && ls", "ask"),
        ("bin", "cd sub; cd ../awks; cd ..; cd bin; cd ../sub; cd ..; ls", "ask"),  # in one of too many folders
        ("{outside}/loop", "ls", "allow"),
        ("{outside}/loop", "git status", "allow"),
        ("missing", "git status", "allow"),
        ("{outside}/a-file", "ls", "allow"),
        ("{outside}/unreadable:bin", "stat a", "allow"),
        ("{outside}/not-programs:bin", "ls", "ask"),
    ],
)
@pytest.mark.covers("SEC-01")
async def test_program_in_the_project_asks(project: Path, entry: str, line: str, outcome: str) -> None:
    path = entry.format(project=project, outside=project.parent) + os.pathsep + os.environ["PATH"]
    env = LocalEnv(project, home=str(project.parent), variables={"PATH": path})

    decision = await Permissions().decide("shell", {"command": line}, env=env, definition=TOOLS["shell"])

    assert decision.outcome == outcome, [v.reason for v in decision.verdicts]
    if outcome == "ask":
        assert any("PATH entry" in v.reason for v in decision.needs_answer)


async def test_approval_request_names_the_path_entry(project: Path) -> None:
    env = LocalEnv(project, variables={"PATH": f"bin{os.pathsep}{os.environ['PATH']}"})

    decision = await Permissions().decide("shell", {"command": "ls"}, env=env, definition=TOOLS["shell"])

    assert [v.reason for v in decision.needs_answer] == [
        "the PATH entry 'bin' is in the project, and its 'ls' would run"
    ]


async def test_rule_allows_a_program_in_the_project(project: Path) -> None:
    env = LocalEnv(project, variables={"PATH": f"bin{os.pathsep}{os.environ['PATH']}"})

    decision = await Permissions(allow=["shell(ls *)"]).decide(
        "shell", {"command": "ls"}, env=env, definition=TOOLS["shell"]
    )

    assert decision.outcome == "allow"


def test_find_program_skips_the_project(project: Path) -> None:
    outside = project.parent
    for path in ("bin", "", f"{project}/bin", f"{outside}/link", f"{outside}/linked"):
        assert find_program("ls", path=path, project=str(project)) is None
        both = os.pathsep.join((path, f"{outside}/other"))
        assert find_program("ls", path=both, project=str(project)) == f"{outside}/other/ls"


async def test_search_does_not_run_ripgrep_from_the_project(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_program(project / "bin" / "rg")
    monkeypatch.setenv("PATH", f"{project}/bin{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(project)

    found = await LocalEnv(project).find_program("rg")

    assert found is None or not found.startswith(str(project))


@pytest.mark.parametrize("line", ["ls etc", "git -C etc --version", "git status", "egrep x etc/hostname"])
async def test_programs_do_not_ask_if_the_project_is_the_root_folder(line: str) -> None:
    decision = await Permissions().decide("shell", {"command": line}, env=LocalEnv("/"), definition=TOOLS["shell"])

    assert not any("PATH" in verdict.reason for verdict in decision.verdicts)
    assert decision.outcome == "allow" or "--version" in line


class _UnreadableProgramEnv(LocalEnv):
    """An environment with a program whose content cannot be read."""

    async def read_bytes(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        if path.endswith("/stat"):
            raise PermissionError(13, "Permission denied", path)
        return await super().read_bytes(path, offset=offset, limit=limit)


async def test_program_without_a_search_path_or_with_unreadable_content_is_allowed(project: Path) -> None:
    env = _UnreadableProgramEnv(project)
    for search_path in ("", f"{project.parent}/scripts:awks"):
        env.search_path = search_path
        decision = await Permissions().decide("shell", {"command": "stat a"}, env=env, definition=TOOLS["shell"])
        assert decision.outcome == "allow"


@pytest.mark.parametrize("given", ["image", "variables"])
@pytest.mark.parametrize(
    ("entry", "line", "outcome"),
    [
        ("bin", "ls", "ask"),
        ("{project}/bin", "ls", "ask"),
        ("{project}/bin", "egrep x a", "ask"),
        ("{outside}/link", "ls", "ask"),
        ("{outside}/linked", "ls", "ask"),
        ("", "cd bin && ls", "ask"),
        ("{project}/.venv/bin", "ls; cat a", "allow"),
        ("{outside}/other:bin", "ls", "allow"),
        ("{project}/bin", "/bin/ls", "allow"),
        ("/usr/bin:/bin:{project}/bin", "ls", "allow"),
        ("bin", "cd sub; cd ../awks; cd ..; cd bin; cd ../sub; cd ..; file a", "ask"),
    ],
)
@pytest.mark.covers("SEC-01")
async def test_program_in_the_project_asks_in_a_container(
    project: Path, fake_docker: str, given: str, entry: str, line: str, outcome: str
) -> None:
    path = entry.format(project=project, outside=project.parent) + os.pathsep + os.environ["PATH"]
    if given == "image":
        Path(f"{fake_docker}.path").write_text(path)
    env = ContainerEnv("image", project, engine=fake_docker, variables={"PATH": path} if given == "variables" else {})

    decision = await Permissions().decide("shell", {"command": line}, env=env, definition=TOOLS["shell"])
    await env.aclose()

    assert decision.outcome == outcome, [v.reason for v in decision.verdicts]
    if outcome == "ask":
        assert any("PATH entry" in v.reason for v in decision.needs_answer)


@pytest.mark.covers("SEC-01")
async def test_container_does_not_use_programs_of_the_project(project: Path, fake_docker: str) -> None:
    for name in ("sh", "bash", "stat", "readlink", "cat", "tail"):
        make_program(project / "bin" / name)
        (project / "bin" / name).write_text(f"#!/bin/sh\ntouch {project}/ran\n")
    Path(f"{fake_docker}.path").write_text(f"{project}/bin:bin:{os.environ['PATH']}")
    env = ContainerEnv("image", project, engine=fake_docker)

    await env.stat("/etc/hostname")
    await env.read_bytes("/etc/hostname")
    assert not (await env.find_program("bash") or "").startswith(str(project))
    done = await env.run("echo hi")
    await env.aclose()

    assert done.stdout.text == "hi\n"
    assert not (project / "ran").exists()


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("{project}/bin", "{project}/bin/ls is inside the current folder {project},"),
        ("bin", "{project}/bin/ls is inside the current folder {project},"),
        ("{outside}/linked", "{outside}/linked/ls, a link to {project}/bin/ls, is inside the current folder"),
        ("../other", "{outside}/other/ls is in '../other', a relative entry of PATH. Make the entry absolute"),
        ("{outside}/not-programs", "is not installed"),
    ],
)
def test_missing_program_is_explained(entry: str, reason: str, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = {"project": project, "outside": project.parent}
    monkeypatch.chdir(project)
    monkeypatch.setenv("PATH", entry.format(**places))

    assert find_program("ls") is None
    assert reason.format(**places) in explain_missing_program("ls")
