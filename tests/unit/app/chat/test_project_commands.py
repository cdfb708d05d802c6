"""``/init``, ``/diff``, and ``/review``."""

from pathlib import Path

import pytest

from mainspring.app.chat.command_results import Changes, Picker, Text
from mainspring.app.chat.commands import Rewind
from mainspring.app.chat.events import ReplayEnd, SessionChange
from mainspring.app.workspace.git_changes import parse_git_diff
from mainspring.events import AgentEnd, MessageEnd
from mainspring.messages import Message, TextBlock
from tests.helpers.git import git
from tests.unit.app.chat.harness import Reader, chatting


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with two commits on ``main``, and a branch ``feature`` with one more."""
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "app.py").write_text("x = 1\ny = 2\n")
    (folder / "old.txt").write_text("old\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "First")
    (folder / "app.py").write_text("x = 1\ny = 3\n")
    git(folder, "commit", "-qam", "Second")
    git(folder, "checkout", "-qb", "feature")
    (folder / "feature.py").write_text("z = 1\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "Feature")
    git(folder, "checkout", "-q", "main")
    return folder


async def test_diff_shows_uncommitted_changes_and_new_files(project: Path, home: Path) -> None:
    async with chatting(project, home) as chat:
        clean = await chat.slash("/diff")
        (project / "app.py").write_text("x = 5\ny = 3\n")
        git(project, "add", "app.py")
        (project / "app.py").write_text("x = 5\ny = 6\n")
        (project / "old.txt").rename(project / "gone.txt")
        (project / "new dir").mkdir()
        (project / "new dir" / "nöw.txt").write_text("diff --git a/x b/x\n--- text\n")
        (project / "image.bin").write_bytes(b"\0\1")
        (project / "empty.txt").write_text("")
        (project / "link").symlink_to("/etc/passwd")
        (project / ".gitignore").write_text("build/\n")
        (project / "build").mkdir()
        (project / "build" / "out").write_text("out")
        done = await chat.slash("/diff")

    assert clean.shown == Text("No changes in the uncommitted changes.")
    assert isinstance(done.shown, Changes)
    assert done.shown.text == "The uncommitted changes: 8 files, +6 -3"
    found = {diff.path: (diff.change, diff.added, diff.removed, diff.note) for diff in done.shown.diffs}
    assert found == {
        "app.py": ("edit", 2, 2, ""),
        "old.txt": ("delete", 0, 1, ""),
        "gone.txt": ("create", 1, 0, ""),
        "new dir/nöw.txt": ("create", 2, 0, ""),
        "image.bin": ("create", 0, 0, "binary"),
        "empty.txt": ("create", 0, 0, ""),
        "link": ("create", 0, 0, "a link"),
        ".gitignore": ("create", 1, 0, ""),
    }


async def test_diff_shows_a_branch_a_commit_and_a_range(project: Path, home: Path) -> None:
    first = git(project, "rev-parse", "--short", "HEAD~1")
    async with chatting(project, home) as chat:
        shown = {name: await chat.slash(f"/diff {name}") for name in ("feature", "HEAD", first, f"{first}..feature")}
        same = await chat.slash("/diff main")
        bad = [await chat.slash(f"/diff {name}") for name in ("nothing", "--output=x", "-p")]
        git(project, "checkout", "-q", "feature")
        back = await chat.slash("/diff main")

    paths = {
        name: [d.path for d in done.shown.diffs] for name, done in shown.items() if isinstance(done.shown, Changes)
    }
    assert paths == {
        "feature": ["feature.py"],
        "HEAD": ["app.py"],
        first: ["app.py", "old.txt"],
        f"{first}..feature": ["app.py", "feature.py"],
    }
    assert same.shown == Text("No changes in the branch main.")
    assert isinstance(back.shown, Changes)
    assert back.shown.text == "The current branch, compared with main: 1 file, +1 -0"
    assert all(done.error.startswith("Unknown branch or commit: ") for done in bad)
    assert not (project / "x").exists()


async def test_diff_outside_a_repository_and_before_the_first_commit(tmp_path: Path, home: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("a\n")
    async with chatting(folder, home) as chat:
        none = await chat.slash("/diff")
        git(folder, "init", "-q")
        git(folder, "add", ".")
        first = await chat.slash("/diff")

    assert "is not in a git repository. Create one with: git init" in none.error
    assert isinstance(first.shown, Changes)
    assert [(d.path, d.change) for d in first.shown.diffs] == [("a.txt", "create")]


@pytest.mark.parametrize(
    "setting",
    ["diff.external", "core.fsmonitor", "diff.py.textconv", "filter.x.clean", "diff.py.command"],
)
async def test_changes_never_run_a_program_of_the_repository(project: Path, home: Path, setting: str) -> None:
    program = project / "run.sh"
    program.write_text(f"#!/bin/sh\ntouch {project}/ran\ncat\n")
    program.chmod(0o755)
    (project / ".gitattributes").write_text("*.py diff=py filter=x\n")
    git(project, "config", setting, str(program))
    (project / "app.py").write_text("changed\n")
    async with chatting(project, home, "Fine.") as chat:
        for line in ("/diff", "/diff HEAD", "/review"):
            await chat.slash(line)

    assert not (project / "ran").exists()


def attached(chat: Reader) -> str:
    [message] = [m for m in chat.model.requests[-1].messages if m.role == "user"]
    return "\n".join(block.text for block in message.content if isinstance(block, TextBlock))


async def test_review_gets_the_changes_and_can_only_read(project: Path, home: Path) -> None:
    (project / "app.py").write_text("x = 1\ny = 4\n")
    (project / ".env").write_text("TOKEN=hunter2\n")
    async with chatting(project, home, "One problem.") as chat:
        receipt = await chat.slash("/review")
        end = await chat.until(AgentEnd)

    assert receipt.error == ""
    assert end.text == "One problem."
    text = attached(chat)
    assert "Review the uncommitted changes" in text
    assert "-y = 3\n+y = 4" in text
    assert "hunter2" not in text
    assert "Not attached, since reading it needs approval: .env" in text
    assert {tool.name for tool in chat.model.requests[-1].request.tools} <= {"read_file", "grep", "glob", "list_files"}
    assert chat.model.requests[-1].request.tools


async def test_prompt_of_a_command_is_one_line_with_instructions(project: Path, home: Path) -> None:
    async with chatting(project, home, "Good.", "Written.") as chat:
        await chat.slash("/review feature")
        await chat.until(AgentEnd)
        await chat.slash("/init")
        await chat.until(AgentEnd)
        listed = await chat.slash("/rewind list conversation")
    async with chatting(project, home, ask={"continued": True}) as again:
        await again.until(ReplayEnd)
        await again.send(Rewind("2", what="conversation"))
        rewound = await again.until(SessionChange, lambda event: event.reason == "rewound")

    for event in (chat.of(MessageEnd)[0], again.of(MessageEnd)[0]):
        assert isinstance(event.message, Message)
        assert event.message.text == "Review the branch feature."
        assert "Do not change any file." in event.instructions
        assert "+z = 1" not in event.instructions
    assert isinstance(listed.shown, Picker)
    assert [c.label for c in listed.shown.choices] == ["Write AGENTS.md.", "Review the branch feature."]
    assert rewound.draft == "/review feature"


async def test_review_of_a_branch_and_of_a_clean_folder(project: Path, home: Path) -> None:
    async with chatting(project, home, "Good.") as chat:
        clean = await chat.slash("/review")
        await chat.slash("/review feature")
        await chat.until(AgentEnd)

    assert isinstance(clean.shown, Picker)
    assert [c.line for c in clean.shown.choices][0] == "/review feature"
    assert [c.detail for c in clean.shown.choices] == ["Feature", "Second", "First"]
    assert "Review the branch feature" in attached(chat)
    assert "+z = 1" in attached(chat)


async def test_init_writes_instructions_and_asks_about_existing_ones(project: Path, home: Path) -> None:
    async with chatting(project, home, "Written.", "Improved.", "Replaced.") as chat:
        await chat.slash("/init")
        await chat.until(AgentEnd)
        new = attached(chat)
        (project / "AGENTS.md").write_text("# Rules\n")
        asked = await chat.slash("/init")
        await chat.slash("/init improve")
        await chat.until(AgentEnd)
        improved = chat.model.requests[-1].messages[-1].text
        await chat.slash("/init replace")
        await chat.until(AgentEnd)
        replaced = chat.model.requests[-1].messages[-1].text
        odd = await chat.slash("/init now")

    assert new.startswith("Write AGENTS.md.\n\n<command-instructions")
    assert "exists" not in new
    assert isinstance(asked.shown, Picker)
    assert [c.line for c in asked.shown.choices] == ["/init improve", "/init replace"]
    assert "Read it first and improve it" in improved
    assert "write it from scratch" in replaced
    assert odd.error == "Use /init, /init improve, or /init replace."


def test_heads_of_git_diffs_are_parsed() -> None:
    text = """diff --git a/a b.txt b/a b.txt
old mode 100644
new mode 100755
diff --git a/old.txt b/new.txt
similarity index 100%
rename from old.txt
rename to new.txt
diff --git a/image.png b/image.png
index 1..2 100644
Binary files a/image.png and b/image.png differ
diff --git a/c d.txt b/c d.txt
index 1..2 100644
--- a/c d.txt\t
+++ b/c d.txt\t
@@ -1 +1,2 @@
--- gone
+++ come
+x
"""
    found = [(d.path, d.change, d.note, d.added, d.removed) for d in parse_git_diff(text)]
    assert found == [
        ("a b.txt", "edit", "mode 100755", 0, 0),
        ("new.txt", "rename", "renamed from old.txt", 0, 0),
        ("image.png", "edit", "binary", 0, 0),
        ("c d.txt", "edit", "", 2, 1),
    ]
