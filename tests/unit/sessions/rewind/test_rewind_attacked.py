"""Rewinds under adverse conditions: links, folders, unreadable and huge files, full disks, crashes."""

import os
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest

from mainspring import Agent, Session
from mainspring.env import LocalEnv
from mainspring.errors import AgentBusyError, SessionError
from mainspring.sessions.rewind import FileSnapshots, plan_rewind, plan_undo, rewind, snapshots as state
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from mainspring.tools.builtin import builtin_tools

pytestmark = pytest.mark.covers("BYD-02")


class Project:
    """A folder with a session, and scripted runs in it."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.folder = root / "project"
        self.folder.mkdir()
        self.env = LocalEnv(str(self.folder))
        self.session = Session.create(self.folder, home=self.home)

    async def do(self, *calls: ScriptedCall, session: Session | None = None) -> str:
        session = session or self.session
        agent = Agent(
            ScriptedModel(*[Reply(calls=[call]) for call in calls], Reply("done")),
            execution=self.env,
            tools=builtin_tools(),
            session=session,
            plugs=[FileSnapshots(session)],
        )
        await agent.run("go")
        return session.journal.leaf or ""

    def text(self, name: str) -> str | None:
        path = self.folder / name
        return path.read_text(encoding="utf-8") if path.is_file() else None


@pytest.fixture
async def project(tmp_path: Path) -> AsyncGenerator[Project]:
    created = Project(tmp_path)
    yield created
    created.session.close()


def write(name: str, text: str) -> ScriptedCall:
    return ScriptedCall("write_file", {"path": name, "content": text})


def as_link(path: Path) -> None:
    other = path.with_name("other.txt")
    other.write_bytes(path.read_bytes())
    path.unlink()
    path.symlink_to(other)


def as_dangling_link(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.with_name("nowhere"))


def as_link_to_itself(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def as_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("change", [as_link, as_dangling_link, as_link_to_itself, as_folder, as_fifo])
async def test_replaced_file_is_a_conflict_and_never_overwritten(
    project: Project, change: Callable[[Path], None]
) -> None:
    start = await project.do(write("a.txt", "one\n"), write("b.txt", "one\n"))
    await project.do(write("a.txt", "two\n"), write("b.txt", "two\n"), write("c.txt", "two\n"))
    change(project.folder / "a.txt")
    other = project.text("other.txt")

    plan = await plan_rewind(project.session, project.env, start)
    assert [Path(c.path).name for c in plan.conflicts] == ["a.txt"]
    with pytest.raises(SessionError, match=r"Nothing was rewound.*a\.txt"):
        await rewind(project.session, project.env, plan)
    assert project.text("b.txt") == "two\n"

    await rewind(project.session, project.env, plan, overwrite=True)
    path = project.folder / "a.txt"
    assert path.is_symlink() or path.is_dir() or path.is_fifo()  # unchanged
    assert (project.text("b.txt"), project.text("c.txt")) == ("one\n", None)
    assert project.text("other.txt") == other
    assert not (project.folder / "nowhere").exists()


async def test_unreadable_file_is_a_conflict(project: Project) -> None:
    start = await project.do(write("a.txt", "one\n"), write("b.txt", "one\n"))
    await project.do(write("a.txt", "two\n"), write("b.txt", "two\n"))

    class LockedEnv(LocalEnv):
        async def read_bytes(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
            if path.endswith("a.txt"):
                raise PermissionError(13, "Permission denied", path)
            return await super().read_bytes(path, offset=offset, limit=limit)

    env = LockedEnv(str(project.folder))
    plan = await plan_rewind(project.session, env, start)
    assert [(Path(c.path).name, c.forcible) for c in plan.conflicts] == [("a.txt", False)]
    await rewind(project.session, env, plan, overwrite=True)
    assert (project.text("a.txt"), project.text("b.txt")) == ("two\n", "one\n")


async def test_file_over_the_size_limit_is_a_conflict_and_never_lost(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "MAX_SNAPSHOT_BYTES", 10)
    start = await project.do(write("a.txt", "one\n"), write("big.txt", "x" * 20))
    await project.do(write("a.txt", "two\n"), write("big.txt", "y" * 20))
    (project.folder / "a.txt").write_text("z" * 20, encoding="utf-8")  # too large for a snapshot

    plan = await plan_rewind(project.session, project.env, start)
    assert {Path(c.path).name for c in plan.conflicts} == {"a.txt", "big.txt"}
    await rewind(project.session, project.env, plan, overwrite=True)

    assert (project.text("a.txt"), project.text("big.txt")) == ("z" * 20, "y" * 20)


async def test_undo_skips_a_failed_rewind(project: Project) -> None:
    start = await project.do(write("a.txt", "one\n"))
    middle = await project.do(write("a.txt", "two\n"))
    await project.do(write("a.txt", "three\n"), write("z.txt", "new\n"))
    await rewind(project.session, project.env, await plan_rewind(project.session, project.env, middle))
    await project.do(write("z.txt", "newer\n"))

    class FailingEnv(LocalEnv):
        async def remove(self, path: str) -> None:
            raise PermissionError(13, "Permission denied", path)

    plan = await plan_rewind(project.session, project.env, start)
    with pytest.raises(SessionError, match="nothing was rewound"):
        await rewind(project.session, FailingEnv(str(project.folder)), plan)
    assert (project.text("a.txt"), project.text("z.txt")) == ("two\n", "newer\n")

    again = await plan_rewind(project.session, project.env, start)
    assert again.conflicts == ()  # the failed attempt caused no conflicts
    await rewind(project.session, project.env, await plan_undo(project.session, project.env))
    assert (project.text("a.txt"), project.text("z.txt")) == ("three\n", "new\n")


@pytest.mark.parametrize("moment", [0, 1, 2])
async def test_interrupted_rewind_can_be_undone_and_repeated(project: Project, moment: int) -> None:
    names = ["a.txt", "b.txt", "c.txt"]
    start = await project.do(*[write(n, "one\n") for n in names])
    await project.do(*[write(n, "two\n") for n in names])

    class Killed(BaseException):
        pass

    class DyingEnv(LocalEnv):
        left = moment

        async def write_bytes(self, path: str, data: bytes, *, parents: bool = True) -> None:
            if not self.left:
                raise Killed
            self.left -= 1
            await super().write_bytes(path, data, parents=parents)

    plan = await plan_rewind(project.session, project.env, start)
    with pytest.raises(Killed):
        await rewind(project.session, DyingEnv(str(project.folder)), plan)
    left = Path(project.session.location).read_bytes()  # the file as a killed process would leave it
    project.session.close()
    Path(project.session.location).write_bytes(left)

    with Session.open(project.session.id, home=project.home) as session:
        undo = await plan_undo(session, project.env)
        assert undo.conflicts == ()
        assert len(undo.restores) == moment
        await rewind(session, project.env, undo)
        assert [project.text(n) for n in names] == ["two\n"] * 3
        once_more = await plan_rewind(session, project.env, start)
        assert once_more.conflicts == ()
        await rewind(session, project.env, once_more)
        assert [project.text(n) for n in names] == ["one\n"] * 3


async def test_rewind_can_be_repeated_after_a_crash(project: Project) -> None:
    start = await project.do(write("a.txt", "one\n"), write("b.txt", "one\n"))
    await project.do(write("a.txt", "two\n"), write("b.txt", "two\n"))

    class DyingEnv(LocalEnv):
        async def write_bytes(self, path: str, data: bytes, *, parents: bool = True) -> None:
            if path.endswith("b.txt"):
                raise KeyboardInterrupt
            await super().write_bytes(path, data, parents=parents)

    with pytest.raises(KeyboardInterrupt):
        await rewind(
            project.session,
            DyingEnv(str(project.folder)),
            await plan_rewind(project.session, project.env, start),
        )
    plan = await plan_rewind(project.session, project.env, start)

    assert plan.conflicts == ()
    await rewind(project.session, project.env, plan)
    assert (project.text("a.txt"), project.text("b.txt")) == ("one\n", "one\n")


async def test_undo_can_be_repeated(project: Project) -> None:
    start = await project.do(write("a.txt", "one\n"))
    await project.do(write("a.txt", "two\n"), write("b.txt", "new\n"))
    await rewind(project.session, project.env, await plan_rewind(project.session, project.env, start))

    for turn in range(5):
        await rewind(project.session, project.env, await plan_undo(project.session, project.env))
        there = turn % 2 == 0
        assert (project.text("a.txt"), project.text("b.txt")) == (("two\n", "new\n") if there else ("one\n", None))
        assert len(project.session.messages) == (10 if there else 4)


async def test_binary_file_is_restored(project: Project) -> None:
    data = bytes(range(256)) * 100
    (project.folder / "a.bin").write_bytes(data)
    await project.do(write("a.bin", "text\n"))

    await rewind(project.session, project.env, await plan_rewind(project.session, project.env, None))

    assert (project.folder / "a.bin").read_bytes() == data


async def test_deleted_folder_is_created_again(project: Project) -> None:
    start = await project.do(write("deep/er/a.txt", "one\n"))
    await project.do(write("deep/er/a.txt", "two\n"))
    (project.folder / "deep/er/a.txt").unlink()
    (project.folder / "deep/er").rmdir()

    plan = await plan_rewind(project.session, project.env, start)
    assert [c.forcible for c in plan.conflicts] == [True]
    await rewind(project.session, project.env, plan, overwrite=True)

    assert project.text("deep/er/a.txt") == "one\n"


async def test_target_between_calls_and_results_is_rejected(project: Project) -> None:
    await project.do(write("a.txt", "one\n"))
    await project.do(write("a.txt", "two\n"))
    intent = next(e.id for e in project.session.entries() if type(e).__name__ == "IntentEntry")

    plan = await plan_rewind(project.session, project.env, intent)
    with pytest.raises(SessionError, match="between tool calls and their results"):
        await rewind(project.session, project.env, plan, overwrite=True)

    assert project.text("a.txt") == "two\n"


async def test_fork_detects_changes_by_the_original_session(project: Project) -> None:
    start = await project.do(write("a.txt", "one\n"))
    await project.do(write("a.txt", "two\n"))
    with project.session.fork() as fork:
        await project.do(write("a.txt", "three\n"))  # in the original session
        plan = await plan_rewind(fork, project.env, start)
        assert len(plan.conflicts) == 1
        await rewind(fork, project.env, plan, overwrite=True)
        assert project.text("a.txt") == "one\n"
        await rewind(fork, project.env, await plan_undo(fork, project.env))
        assert project.text("a.txt") == "three\n"


async def test_rewind_is_rejected_during_a_run(project: Project) -> None:
    start = await project.do(write("a.txt", "one\n"))
    await project.do(write("a.txt", "two\n"))
    plan = await plan_rewind(project.session, project.env, start)
    rejected: list[bool] = []

    async def rewind_during_run(text: str) -> str:
        with pytest.raises(AgentBusyError):
            await rewind(project.session, project.env, plan)
        rejected.append(True)
        return text

    agent = Agent(
        ScriptedModel(Reply(calls=[ScriptedCall("rewind_during_run", {"text": "x"})]), Reply("done")),
        tools=[rewind_during_run],
        session=project.session,
    )
    await agent.run("go")

    assert rejected == [True]
    assert project.text("a.txt") == "two\n"
