"""Worktrees: created by name, reused, and removed without losing work."""

import shutil
from pathlib import Path

import pytest

from mainspring.app.workspace.git import Worktrees, current_branch
from mainspring.app.workspace.paths import UserPaths
from mainspring.app.workspace.trust import TrustStore
from mainspring.errors import ConfigError
from tests.helpers.git import git
from tests.requires import requires

pytestmark = [pytest.mark.covers("BYD-28"), requires(shutil.which("git") is not None, "git")]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "sub").mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    for key, value in (("user.name", "t"), ("user.email", "t@example.org")):
        git(folder, "config", key, value)
    (folder / "sub" / "a.txt").write_text("one\n", encoding="utf-8")
    (folder / ".gitignore").write_text("build/\n", encoding="utf-8")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    return folder


@pytest.fixture
def user(tmp_path: Path) -> UserPaths:
    return UserPaths(tmp_path / "user")


def test_all_worktrees_of_a_bare_repository_have_the_same_list(
    repository: Path, user: UserPaths, tmp_path: Path
) -> None:
    bare = tmp_path / "bare.git"
    git(tmp_path, "clone", "-q", "--bare", str(repository), str(bare))
    for name in ("one", "two"):
        git(bare, "worktree", "add", "-q", "-b", name, str(tmp_path / name))

    tree = Worktrees(str(tmp_path / "one"), user).get_or_create("fix")

    for folder in (tmp_path / "two", Path(tree.path)):
        trees = Worktrees(str(folder), user)
        assert [found.path for found in trees.list()] == [tree.path]
        assert (trees.get_or_create("fix").path, trees.get_or_create("fix").new) == (tree.path, False)
    assert Worktrees(str(tmp_path / "two"), user).remove("fix", branch=True).path == tree.path
    assert git(bare, "config", "core.bare") == "true"


def test_worktree_is_created_on_its_own_branch(repository: Path, user: UserPaths) -> None:
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.write_text("#!/bin/sh\ntouch /tmp/mainspring-hook-ran\n", encoding="utf-8")
    hook.chmod(0o755)
    (repository / "sub" / "a.txt").write_text("changed by the user\n", encoding="utf-8")
    trees = Worktrees(str(repository / "sub"), user)

    tree = trees.get_or_create("fix")

    assert (tree.branch, tree.new, tree.changes) == ("mainspring/fix", True, 0)
    assert Path(tree.path).is_relative_to(user.root)
    assert trees.matching_folder(tree) == f"{tree.path}/sub"
    assert (Path(tree.path) / "sub" / "a.txt").read_text(encoding="utf-8") == "one\n"
    assert git(repository, "status", "--porcelain") == "M sub/a.txt"
    assert git(repository, "rev-parse", "--abbrev-ref", "HEAD") == "main"
    assert not Path("/tmp/mainspring-hook-ran").exists()
    again = Worktrees(tree.path, user).get_or_create("fix")
    assert (again.path, again.new) == (tree.path, False)


def test_uncommitted_and_unmerged_work_is_not_removed(repository: Path, user: UserPaths) -> None:
    trees = Worktrees(str(repository), user)
    tree = trees.get_or_create("fix")
    folder = Path(tree.path)
    for change in ("new.txt", "sub/a.txt"):
        (folder / change).write_text("work\n", encoding="utf-8")
        with pytest.raises(ConfigError, match="uncommitted change.*Nothing was removed"):
            trees.remove("fix", branch=True, ignored=True)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "work")
    (folder / "build").mkdir()
    (folder / "build" / "x").write_text("x", encoding="utf-8")
    with pytest.raises(ConfigError, match="files that git ignores"):
        trees.remove("fix")
    with pytest.raises(ConfigError, match="1 unmerged commit"):
        trees.remove("fix", branch=True, ignored=True)
    [listed] = trees.list()
    assert (listed.changes, listed.ignored, listed.ahead) == (0, 1, 1)

    trees.remove("fix", ignored=True)

    assert not folder.exists()
    assert git(repository, "show", "mainspring/fix:new.txt") == "work"
    trees.get_or_create("fix")
    assert (folder / "new.txt").exists()
    git(repository, "merge", "-q", "mainspring/fix")
    trees.remove("fix", branch=True)
    assert "mainspring/fix" not in git(repository, "branch", "--list")
    assert trees.list() == []


def test_force_removes_uncommitted_changes_but_keeps_commits(repository: Path, user: UserPaths) -> None:
    trees = Worktrees(str(repository), user)
    folder = Path(trees.get_or_create("fix").path)
    (folder / "kept.txt").write_text("kept\n", encoding="utf-8")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "work")
    (folder / "new.txt").write_text("work\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="1 uncommitted change.*mainspring worktrees remove fix --force"):
        trees.remove("fix")
    with pytest.raises(ConfigError, match="unmerged commit"):
        trees.remove("fix", branch=True, force=True)

    trees.remove("fix", force=True)

    assert not folder.exists()
    assert git(repository, "show", "mainspring/fix:kept.txt") == "kept"


def test_worktree_with_submodules_is_removed_unless_they_contain_work(
    repository: Path, user: UserPaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "library"
    shutil.copytree(repository, library)
    for number, (key, value) in enumerate(
        (("protocol.file.allow", "always"), ("user.name", "t"), ("user.email", "t@t"))
    ):
        monkeypatch.setenv(f"GIT_CONFIG_KEY_{number}", key)
        monkeypatch.setenv(f"GIT_CONFIG_VALUE_{number}", value)
    monkeypatch.setenv("GIT_CONFIG_COUNT", "3")
    git(repository, "submodule", "--quiet", "add", str(library), "library")
    git(repository, "commit", "-qm", "submodule")
    trees = Worktrees(str(repository), user)
    folder = Path(trees.get_or_create("fix").path)
    git(folder, "submodule", "--quiet", "update", "--init")
    (folder / "library" / "build").mkdir()
    (folder / "library" / "build" / "x").write_text("x", encoding="utf-8")
    with pytest.raises(ConfigError, match="files that git ignores"):
        trees.remove("fix")
    git(folder / "library", "commit", "-q", "--allow-empty", "-m", "only here")
    git(folder, "commit", "-aqm", "newer submodule")
    with pytest.raises(ConfigError, match="1 uncommitted change, including unpushed commits of submodules"):
        trees.remove("fix", ignored=True)
    git(folder / "library", "reset", "-q", "--hard", "HEAD~")
    git(folder, "commit", "-aqm", "older submodule")

    trees.remove("fix", ignored=True)

    assert not folder.exists()


def test_unreadable_worktree_does_not_hide_the_others(repository: Path, user: UserPaths) -> None:
    """A worktree whose administrative files are gone, one without a commit, and a repository of many branches and own options."""
    git(repository, "config", "status.showUntrackedFiles", "no")
    head = git(repository, "rev-parse", "HEAD")
    branches = "".join(f"{head} refs/remotes/origin/{'long-name-' * 20}{number:06}\n" for number in range(9_000))
    (repository / ".git" / "packed-refs").write_text(f"# pack-refs with: sorted \n{branches}", encoding="utf-8")
    trees = Worktrees(str(repository), user)
    for name in ("broken", "empty", "good"):
        trees.get_or_create(name)
    shutil.rmtree(repository / ".git" / "worktrees" / "broken")
    git(trees.folder / "empty", "switch", "-q", "--orphan", "start")
    (trees.folder / "good" / "new.txt").write_text("work\n", encoding="utf-8")
    (trees.folder / "good" / "HEAD").write_text("a name of git\n", encoding="utf-8")

    broken, empty, good = trees.list()

    assert "not a git repository" in broken.problem
    assert (empty.branch, empty.changes, empty.ahead, empty.problem) == ("start", 0, 0, "")
    assert (good.branch, good.changes, good.ahead, good.problem) == ("mainspring/good", 2, 0, "")


def test_branch_is_read_from_git_files(tmp_path: Path) -> None:
    assert current_branch(str(tmp_path), commit=False) == ""
    (tmp_path / ".git").mkdir()
    assert current_branch(str(tmp_path), commit=False) == ""
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/feature/x\n", encoding="utf-8")
    (tmp_path / "sub").mkdir()
    assert current_branch(str(tmp_path / "sub"), commit=False) == "feature/x"
    (tmp_path / ".git" / "HEAD").write_text("0123456789abcdef\n", encoding="utf-8")
    assert current_branch(str(tmp_path)) == "01234567"
    assert current_branch(str(tmp_path), commit=False) == ""


def test_branch_is_read_from_git_if_it_is_stored_in_a_table(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git writes a name that no branch can have into `HEAD` if the branches are in a reftable."""
    assert current_branch(str(repository / "sub")) == "main"
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "git").write_text('#!/bin/sh\ncase "$*" in *symbolic-ref*HEAD) echo topic;; esac\n', encoding="utf-8")
    (programs / "git").chmod(0o755)
    (repository / ".git" / "HEAD").write_text("ref: refs/heads/.invalid\n", encoding="utf-8")
    monkeypatch.setenv("PATH", f"{programs}:/bin")

    assert current_branch(str(repository / "sub")) == "topic"

    (programs / "git").write_text("#!/bin/sh\nexit 128\n", encoding="utf-8")
    assert current_branch(str(repository / "sub")) == ""


def test_worktree_inherits_trust(repository: Path, user: UserPaths) -> None:
    trust = TrustStore(user)
    trust.add(repository)
    trees = Worktrees(str(repository), user)

    tree = trees.get_or_create("fix")
    assert trust.covers(tree.path)
    trees.remove("fix")
    assert not trust.covers(tree.path)


def test_worktree_with_other_content_is_not_trusted(repository: Path, user: UserPaths) -> None:
    """Another branch may contain different hooks."""
    file = repository / ".agent" / "settings.json"
    file.parent.mkdir()
    file.write_text('{"hooks": {"Stop": [{"command": "other"}]}}', encoding="utf-8")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "hooks")
    file.write_text('{"hooks": {"Stop": [{"command": "mine"}]}}', encoding="utf-8")
    trust = TrustStore(user)
    trust.add(repository)

    tree = Worktrees(str(repository), user).get_or_create("fix")

    assert trust.covers(repository)
    assert not trust.covers(tree.path)


@pytest.mark.parametrize("name", ["", "-x", "a/b", "..", "a..b", "x.lock", "a b"])
def test_invalid_worktree_name_is_rejected(repository: Path, user: UserPaths, name: str) -> None:
    with pytest.raises(ConfigError, match="Invalid worktree name"):
        Worktrees(str(repository), user).get_or_create(name)


def test_worktrees_need_a_repository_with_commits(tmp_path: Path, user: UserPaths) -> None:
    with pytest.raises(ConfigError, match="not in a git repository"):
        Worktrees(str(tmp_path), user)
    git(tmp_path, "init", "-q")
    with pytest.raises(ConfigError, match="no commits yet"):
        Worktrees(str(tmp_path), user).get_or_create("x")
    with pytest.raises(ConfigError, match="home directory"):
        Worktrees(str(tmp_path), None)
    with pytest.raises(ConfigError, match="Unknown worktree: 'x'"):
        Worktrees(str(tmp_path), user).remove("x")
