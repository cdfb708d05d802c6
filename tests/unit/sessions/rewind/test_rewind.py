import asyncio
import hashlib
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from mainspring import Agent, Session
from mainspring.env import FileStat, LocalEnv
from mainspring.env.beneath import PathChangedError
from mainspring.env.memory import MemoryEnv
from mainspring.errors import SessionError
from mainspring.loop.hooks import BeforeToolRun
from mainspring.messages import Message, ToolUseBlock
from mainspring.sessions import MemorySessionStore
from mainspring.sessions.blob_store import BlobStore
from mainspring.sessions.rewind import FileSnapshots, plan_rewind, plan_undo, rewind
from mainspring.sessions.rewind.snapshots import BEFORE
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from mainspring.tools.builtin import builtin_tools

pytestmark = pytest.mark.covers("BYD-02")


class Project:
    """A folder with a session, and scripted runs in it."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "project"
        self.folder.mkdir()
        self.env = LocalEnv(str(self.folder))
        self.session = Session.create(self.folder, home=root / "home")

    async def do(self, *calls: ScriptedCall) -> str:
        """Run these calls and return the ID of the last entry."""
        replies = [Reply(calls=[call]) for call in calls]
        agent = Agent(
            ScriptedModel(*replies, Reply("done")),
            execution=self.env,
            tools=builtin_tools(),
            session=self.session,
            plugs=[FileSnapshots(self.session)],
        )
        await agent.run(f"do {len(calls)} things")
        return self.session.journal.leaf or ""

    def files(self) -> dict[str, str]:
        return {p.name: p.read_text(encoding="utf-8") for p in sorted(self.folder.iterdir())}


@pytest.fixture
async def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def write(name: str, text: str) -> ScriptedCall:
    return ScriptedCall("write_file", {"path": name, "content": text})


async def test_rewind_and_undo_restore_files_and_conversation(project: Project) -> None:
    start = await project.do(write("a.txt", "one\n"))
    await project.do(write("a.txt", "two\n"), write("b.txt", "new\n"))

    plan = await plan_rewind(project.session, project.env, start)
    assert [(Path(r.path).name, r.action) for r in plan.restores] == [("a.txt", "change"), ("b.txt", "delete")]
    assert plan.messages == 6
    assert project.files() == {"a.txt": "two\n", "b.txt": "new\n"}  # a plan changes nothing

    await rewind(project.session, project.env, plan)
    assert project.files() == {"a.txt": "one\n"}
    assert len(project.session.messages) == 4

    await rewind(project.session, project.env, await plan_undo(project.session, project.env))
    assert project.files() == {"a.txt": "two\n", "b.txt": "new\n"}
    assert len(project.session.messages) == 10

    await rewind(project.session, project.env, await plan_undo(project.session, project.env))
    assert project.files() == {"a.txt": "one\n"}
    assert len(project.session.messages) == 4


@pytest.mark.parametrize(("files", "conversation"), [(True, False), (False, True)])
async def test_files_and_conversation_can_be_rewound_separately(
    project: Project, files: bool, conversation: bool
) -> None:
    start = await project.do(write("a.txt", "one\n"))
    await project.do(write("a.txt", "two\n"))
    plan = await plan_rewind(project.session, project.env, start)

    await rewind(project.session, project.env, plan, files=files, conversation=conversation)

    assert project.files()["a.txt"] == ("one\n" if files else "two\n")
    assert len(project.session.messages) == (4 if conversation else 8)


async def test_rewind_skips_a_file_changed_by_another_program(project: Project) -> None:
    start = await project.do(write("a.txt", "one\n"), write("b.txt", "one\n"))
    await project.do(write("a.txt", "two\n"), write("b.txt", "two\n"))
    (project.folder / "a.txt").write_text("mine\n", encoding="utf-8")

    plan = await plan_rewind(project.session, project.env, start)
    with pytest.raises(SessionError, match=r"Nothing was rewound.*a\.txt.*another program changed"):
        await rewind(project.session, project.env, plan)
    assert project.files() == {"a.txt": "mine\n", "b.txt": "two\n"}

    await rewind(project.session, project.env, plan, overwrite=True)
    assert project.files() == {"a.txt": "one\n", "b.txt": "one\n"}
    await rewind(project.session, project.env, await plan_undo(project.session, project.env))
    assert project.files() == {"a.txt": "mine\n", "b.txt": "two\n"}


async def test_rewind_rejects_a_file_changed_after_the_plan(project: Project) -> None:
    start = await project.do(write("a.txt", "one\n"))
    await project.do(write("a.txt", "two\n"))
    plan = await plan_rewind(project.session, project.env, start)
    (project.folder / "a.txt").write_text("mine\n", encoding="utf-8")

    with pytest.raises(SessionError, match="changed just now"):
        await rewind(project.session, project.env, plan)

    assert project.files() == {"a.txt": "mine\n"}


async def test_failed_write_leaves_everything_unchanged(project: Project) -> None:
    start = await project.do(write("a.txt", "one\n"))
    await project.do(write("a.txt", "two\n"), write("z.txt", "new\n"))
    plan = await plan_rewind(project.session, project.env, start)

    class FailingEnv(LocalEnv):
        async def remove(self, path: str) -> None:
            raise PermissionError(13, "Permission denied", path)

    with pytest.raises(SessionError, match=r"z\.txt.*nothing was rewound"):
        await rewind(project.session, FailingEnv(str(project.folder)), plan)

    assert project.files() == {"a.txt": "two\n", "z.txt": "new\n"}
    assert len(project.session.messages) == 10


class UnreadableEnv(LocalEnv):
    """An environment that fails to read files: those that end with `name`, after `reads` reads."""

    name = "a.txt"
    reads = 0
    error: OSError = PermissionError(13, "Permission denied")

    def _check(self, path: str) -> None:
        if path.endswith(self.name):
            self.reads -= 1
            if self.reads < 0:
                raise self.error

    async def stat(self, path: str) -> FileStat:
        self._check(path)
        return await super().stat(path)


async def test_file_that_cannot_be_read_is_not_rewound(project: Project) -> None:
    start = await project.do(write("a.txt", "one\n"))
    await project.do(write("a.txt", "two\n"))
    plan = await plan_rewind(project.session, project.env, start)

    with pytest.raises(SessionError, match=r"a\.txt: permission denied.*Nothing was rewound\."):
        await rewind(project.session, UnreadableEnv(str(project.folder)), plan)

    assert project.files() == {"a.txt": "two\n"}


async def test_content_that_cannot_be_read_before_a_change_cannot_be_restored(project: Project) -> None:
    start = await project.do(write("a.txt", "one\n"))
    project.env = UnreadableEnv(str(project.folder))
    await project.do(write("a.txt", "two\n"))

    plan = await plan_rewind(project.session, LocalEnv(str(project.folder)), start)

    assert plan.restores == ()
    assert [conflict.reason for conflict in plan.conflicts] == [
        "its earlier content cannot be restored: permission denied by the operating system"
    ]


async def test_moved_folder_is_not_followed(project: Project) -> None:
    start = await project.do(write("a.txt", "one\n"))
    await project.do(write("a.txt", "two\n"))
    env = UnreadableEnv(str(project.folder))
    env.error = PathChangedError("a.txt")

    plan = await plan_rewind(project.session, env, start)

    assert plan.restores == ()
    assert "its current content cannot be stored" in plan.conflicts[0].reason


async def test_session_that_cannot_be_saved_is_not_rewound(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    start = await project.do(write("a.txt", "one\n"))
    await project.do(write("a.txt", "two\n"))
    plan = await plan_rewind(project.session, project.env, start)

    def fail(lines: object, *, sync: bool = False) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(project.session.journal.log, "append", fail)
        with pytest.raises(SessionError, match=r"Cannot save session .*Nothing was rewound"):
            await rewind(project.session, project.env, plan)
    project.session.journal.log.writable = False
    with pytest.raises(SessionError, match=r"Cannot write to session .*Nothing was rewound"):
        await rewind(project.session, project.env, plan)

    assert project.files() == {"a.txt": "two\n"}


async def test_file_that_cannot_be_restored_is_named(project: Project) -> None:
    start = await project.do(write("a.txt", "one\n"), write("b.txt", "one\n"))
    await project.do(write("a.txt", "two\n"), write("b.txt", "two\n"))
    plan = await plan_rewind(project.session, project.env, start)

    class FailingEnv(UnreadableEnv):
        async def write_bytes(self, path: str, data: bytes, *, parents: bool = True) -> None:
            if path.endswith("b.txt"):
                self.reads = 0
                raise PermissionError(13, "Permission denied", path)
            await super().write_bytes(path, data, parents=parents)

    env = FailingEnv(str(project.folder))
    env.reads = 100

    with pytest.raises(SessionError, match=r"a\.txt could not be restored; all other files are unchanged"):
        await rewind(project.session, env, plan)

    assert project.files() == {"a.txt": "one\n", "b.txt": "two\n"}


async def test_change_by_an_interrupted_call_conflicts(project: Project) -> None:
    start = await project.do(write("a.txt", "one\n"))
    snapshots = FileSnapshots(project.session)
    Agent(ScriptedModel(), execution=project.env, tools=builtin_tools(), plugs=[snapshots])
    arguments = {"path": "a.txt", "content": "two\n"}
    await snapshots._on_tool_start(
        BeforeToolRun(ToolUseBlock("killed", "write_file", arguments), "turn", arguments, True)
    )
    (project.folder / "a.txt").write_text("half", encoding="utf-8")

    plan = await plan_rewind(project.session, project.env, start)

    assert [conflict.reason for conflict in plan.conflicts] == [
        "the call that changed it was interrupted, so its current content may not be the tool's"
    ]


@pytest.mark.parametrize("data", [5, {"path": 5}])
async def test_invalid_file_record_is_ignored(project: Project, data: object) -> None:
    start = await project.do(write("a.txt", "one\n"))
    project.session.add_custom(BEFORE, data)

    assert (await plan_rewind(project.session, project.env, start)).restores == ()


async def test_record_of_a_newer_version_is_ignored(project: Project, tmp_path: Path) -> None:
    start = await project.do(write("a.txt", "one\n"))
    project.session.close()
    with open(project.session.location, "ab") as file:
        file.write(b'{"type":"custom","id":"new","parent":"%b","customType":5}\n' % start.encode())

    session = Session.open(project.session.location, home=tmp_path / "home")

    assert (await plan_rewind(session, project.env, start)).restores == ()


async def test_call_of_an_unknown_tool_or_path_is_not_recorded(project: Project) -> None:
    class UnresolvableEnv(LocalEnv):
        async def realpath(self, path: str) -> str:
            if path.endswith("a.txt"):
                raise OSError(40, "Too many levels of symbolic links")
            return await super().realpath(path)

    snapshots = FileSnapshots(project.session)
    env = UnresolvableEnv(str(project.folder))
    Agent(ScriptedModel(), execution=env, tools=builtin_tools(), plugs=[snapshots])
    before = len(project.session.entries())

    for name in ("write_file", "unknown"):
        arguments = {"path": "a.txt", "content": ""}
        await snapshots._on_tool_start(BeforeToolRun(ToolUseBlock("1", name, arguments), "turn", arguments, True))

    assert len(project.session.entries()) == before


async def test_plan_lists_shell_commands_that_may_have_changed_files(project: Project) -> None:
    start = await project.do(write("a.txt", "one\n"))
    await project.do(ScriptedCall("shell", {"command": "echo x > c.txt"}))
    await project.do(ScriptedCall("shell", {"command": "echo hi && wc -l a.txt"}))  # a read-only command
    await project.do(ScriptedCall("shell", {"command": "wc -l a.txt | tee d.txt"}))

    plan = await plan_rewind(project.session, project.env, start)

    assert set(plan.uncovered) == {"shell: echo x > c.txt", "shell: wc -l a.txt | tee d.txt"}
    assert plan.restores == ()


async def test_files_follow_the_time_order_across_branches(project: Project) -> None:
    first = await project.do(write("a.txt", "one\n"))
    second = await project.do(write("a.txt", "two\n"))
    project.session.branch(first)
    await project.do(write("a.txt", "three\n"))

    plan = await plan_rewind(project.session, project.env, second)
    await rewind(project.session, project.env, plan)

    assert project.files() == {"a.txt": "two\n"}
    texts = [m.text for m in project.session.messages if isinstance(m, Message) and m.role == "user" and m.text]
    assert texts == ["do 1 things", "do 1 things"]


async def test_stored_session_can_be_rewound_by_another_process(project: Project, tmp_path: Path) -> None:
    start = await project.do(write("a.txt", "one\n"))
    await project.do(write("a.txt", "two\n"))
    project.session.close()

    with Session.open(project.session.id, home=tmp_path / "home") as again:
        await rewind(again, project.env, await plan_rewind(again, project.env, start))

    assert project.files() == {"a.txt": "one\n"}
    blobs = [p for p in (tmp_path / "home" / "files").rglob("*") if p.is_file()]
    assert {p.stat().st_mode & 0o077 for p in blobs} == {0}
    assert all(p.parent.name + p.name == hashlib.sha256(p.read_bytes()).hexdigest() for p in blobs)


async def test_rewind_to_the_start_of_the_session(project: Project) -> None:
    (project.folder / "a.txt").write_text("mine\n", encoding="utf-8")
    await project.do(ScriptedCall("read_file", {"path": "a.txt"}), write("a.txt", "two\n"))

    await rewind(project.session, project.env, await plan_rewind(project.session, project.env, None))

    assert project.files() == {"a.txt": "mine\n"}
    assert project.session.messages == ()


async def test_undo_without_a_rewind_and_unknown_entries_are_rejected(project: Project) -> None:
    await project.do(write("a.txt", "one\n"))

    with pytest.raises(SessionError, match="Nothing to undo"):
        await plan_undo(project.session, project.env)
    with pytest.raises(SessionError, match="no entry nowhere"):
        await plan_rewind(project.session, project.env, "nowhere")


async def test_corrupt_blob_is_not_restored(project: Project, tmp_path: Path) -> None:
    start = await project.do(write("a.txt", "one\n"))
    await project.do(write("a.txt", "two\n"))
    for path in (tmp_path / "home" / "files").rglob("*"):
        if path.is_file():
            path.write_text("evil", encoding="utf-8")

    with pytest.raises(SessionError, match="is missing"):
        await rewind(project.session, project.env, await plan_rewind(project.session, project.env, start))

    assert project.files() == {"a.txt": "two\n"}


names = st.sampled_from(["a.txt", "b.txt", "c.txt"])
steps = st.lists(st.tuples(names, st.sampled_from(["1", "2", "3"])), min_size=1, max_size=6)


@settings(max_examples=40)
@given(steps, st.data())
def test_every_earlier_state_can_be_restored(script: list[tuple[str, str]], data: st.DataObject) -> None:
    async def run() -> None:
        env = MemoryEnv()
        session = Session.create("/", home=MemorySessionStore())
        moments: list[tuple[str | None, dict[str, bytes]]] = [(None, dict(env.files))]
        for name, text in script:
            agent = Agent(
                ScriptedModel(Reply(calls=[write(name, text)]), Reply("ok")),
                execution=env,
                tools=builtin_tools(),
                session=session,
                plugs=[FileSnapshots(session)],
            )
            await agent.run("go")
            moments.append((session.journal.leaf, dict(env.files)))
        entry, files = data.draw(st.sampled_from(moments))
        now = dict(env.files)
        await rewind(session, env, await plan_rewind(session, env, entry))
        assert dict(env.files) == files
        await rewind(session, env, await plan_undo(session, env))
        assert dict(env.files) == now

    asyncio.run(run())


def test_blob_store_saves_equal_content_once(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path / "files")

    assert blobs.put(b"x") == blobs.put(b"x")
    assert len([p for p in (tmp_path / "files").rglob("*") if p.is_file()]) == 1
    assert blobs.get(blobs.put(b"y")) == b"y"
    assert blobs.get("0" * 64) is None
