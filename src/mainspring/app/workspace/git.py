"""Git worktrees for sessions: separate folders and branches, created by name and removed without losing work.

They are stored in the user's folder, outside the project. Git hooks are not run.

The current branch is read from git's files, without starting a program unless git stores it in a table.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from mainspring.app.workspace.paths import UserPaths, find_repository
from mainspring.app.workspace.trust import TrustStore
from mainspring.errors import ConfigError
from mainspring.lazy import lazy_re
from mainspring.programs import find_program
from mainspring.text import pluralize

FOLDER = "worktrees"
BRANCH_PREFIX = "mainspring/"
"""Prefix of the branch names of worktrees."""


_SECONDS = 120.0
_BRANCH_SECONDS = 5.0
_REFTABLE_HEAD = "ref: refs/heads/.invalid"
"""What `HEAD` contains if git stores the branches in tables (`extensions.refStorage`)."""
_WORK_IN_SUBMODULE = (
    "git status --porcelain --ignored=matching --untracked-files=normal && git rev-list HEAD --all --not --remotes --"
)
"""Shell command that prints a line for each changed file of a submodule, and for each commit that no remote has."""
_NAME = lazy_re(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SAFE_GIT_OPTIONS = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "advice.detachedHead=false")


class Worktree(Struct, frozen=True, kw_only=True):
    """A worktree.

    Attributes:
        name: Name.
        path: Folder.
        branch: Branch.
        changes: Number of uncommitted changed or new files.
        ignored: Number of files and folders that git ignores.
        ahead: Number of commits that the base branch does not have.
        new: Whether it was just created.
        new_branch: Whether its branch was created with it.
        problem: Why git cannot read the worktree; empty if it can.
    """

    name: str
    path: str
    branch: str
    changes: int = 0
    ignored: int = 0
    ahead: int = 0
    new: bool = False
    new_branch: bool = False
    problem: str = ""


class Worktrees:
    """The worktrees of one repository.

    Args:
        cwd: Folder in the repository or one of its worktrees.
        home: User's folder, which contains the worktrees.

    Raises:
        ConfigError: If the folder is not in a repository, git is not installed, or the home directory is not found.
    """

    def __init__(self, cwd: str, home: UserPaths | None) -> None:
        if home is None:
            raise ConfigError("Cannot find your home directory. Set MAINSPRING_HOME.")
        program = find_program("git", project=cwd)
        if program is None:
            raise ConfigError("Worktrees require git, which is not installed.")
        root = find_repository(Path(cwd))
        if root is None:
            raise ConfigError(f"{cwd} is not in a git repository. Create one with `git init`, and commit something.")
        self._program = program
        self._cwd = Path(cwd)
        common = Path(self._git("rev-parse", "--path-format=absolute", "--git-common-dir", at=root))
        self._root = common.parent if common.name == ".git" else root  # also from one of its worktrees
        self._home = home
        place = self._root
        if common.name != ".git" and self._git("rev-parse", "--is-bare-repository", at=common, check=False) == "true":
            place = common  # a bare repository has worktrees only, which share their list
        mark = hashlib.sha256(str(place).encode()).hexdigest()[:8]
        self.folder = home.root / FOLDER / f"{place.name}-{mark}"

    @property
    def root(self) -> Path:
        """Folder of the repository."""
        return self._root

    def get_or_create(self, name: str) -> Worktree:
        """Return the worktree with a name. If needed, create it with a branch from the current commit.

        Raises:
            ConfigError: If the name is invalid, or git fails.
        """
        if not _NAME.fullmatch(name) or name.endswith((".lock", ".")) or ".." in name:
            raise ConfigError(f"Invalid worktree name: {name!r}. Use letters, digits, '.', '_', and '-'.")
        path = self.folder / name
        if (path / ".git").exists():
            return self._state(path)
        if path.exists():
            raise ConfigError(f"{path} already exists, and is not a worktree. Remove it, or use another name.")
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        branch = f"{BRANCH_PREFIX}{name}"
        known = self._git("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}", check=False)
        if self._git("rev-parse", "--verify", "--quiet", "HEAD", check=False) == "":
            raise ConfigError(f"{self._root} has no commits yet. Commit something first.")
        self._git("worktree", "prune")
        start = (
            [str(path), branch] if known else ["-b", branch, str(path), self._git("rev-parse", "HEAD", at=self._cwd)]
        )
        self._git("worktree", "add", "--quiet", *start, seconds=None)  # a killed checkout would leave half a worktree
        TrustStore(self._home).copy_trust(self._root, path)  # the same project
        return replace(self._state(path), new=True, new_branch=not known)

    def matching_folder(self, worktree: Worktree) -> str:
        """Return the folder in a worktree that corresponds to the working folder."""
        below = self._cwd.relative_to(self._root) if self._cwd.is_relative_to(self._root) else Path()
        place = Path(worktree.path, below)
        return str(place if place.is_dir() else worktree.path)

    def list(self) -> list[Worktree]:
        """List all worktrees by name, also those that git cannot read."""
        try:
            paths = sorted(p for p in self.folder.iterdir() if (p / ".git").exists())
        except OSError:
            return []
        found: list[Worktree] = []
        for path in paths:
            try:
                found.append(self._state(path))
            except ConfigError as error:
                found.append(Worktree(name=path.name, path=str(path), branch="", problem=str(error)))
        return found

    def remove(self, name: str, *, branch: bool = False, ignored: bool = False, force: bool = False) -> Worktree:
        """Remove a worktree if no work is lost. Its branch stays with all commits, unless it is merged and ``branch`` is set.

        Args:
            name: Name of the worktree.
            branch: Whether to delete the branch, too.
            ignored: Whether to delete files that git ignores.
            force: Whether to delete all files, including uncommitted changes. Commits are never deleted.

        Raises:
            ConfigError: If the name is unknown, or work would be lost.
        """
        path = self.folder / name
        if not _NAME.fullmatch(name) or not (path / ".git").exists():
            known = ", ".join(w.name for w in self.list()) or "none"
            raise ConfigError(f"Unknown worktree: {name!r}. Available worktrees: {known}")
        state = self._state(path)
        has_submodules = (path / ".gitmodules").exists()
        if state.changes and not force:
            included = ", including unpushed commits of submodules" if has_submodules else ""
            raise ConfigError(
                f"{path} has {pluralize(state.changes, 'uncommitted change')}{included}. Nothing was removed. Commit them "
                f"(git -C {path} commit), or discard them: mainspring worktrees remove {name} --force"
            )
        if state.ignored and not ignored and not force:
            raise ConfigError(
                f"{path} contains files that git ignores ({state.ignored}). Nothing was removed. To delete them, use --ignored."
            )
        if branch and state.ahead:
            raise ConfigError(
                f"{state.branch} has {pluralize(state.ahead, 'unmerged commit', 'unmerged commits')}. Nothing was removed. Merge the branch "
                f"(git merge {state.branch}), or omit --branch to keep it."
            )
        # Git wants --force for ignored files, and for submodules even without changes.
        forced = force or (ignored and state.ignored) or has_submodules
        self._git("worktree", "remove", *(["--force"] if forced else []), str(path))
        TrustStore(self._home).remove(path)
        if branch and state.branch.startswith(BRANCH_PREFIX):
            self._git("branch", "-D", state.branch)
        return state

    def _state(self, path: Path) -> Worktree:
        lines = self._git(
            "status", "--porcelain=v1", "--ignored=matching", "--untracked-files=normal", at=path
        ).splitlines()
        if (path / ".gitmodules").exists():  # their commits are stored in the worktree's own part of the git folder
            lines += self._git(
                "submodule", "--quiet", "foreach", "--recursive", _WORK_IN_SUBMODULE, at=path
            ).splitlines()
        current = self._git("symbolic-ref", "--short", "--quiet", "HEAD", at=path, check=False) or "HEAD"
        others = ("--not", f"--exclude={current}", "--branches", "--remotes", "--")
        has_commit = self._git("rev-parse", "--verify", "--quiet", "HEAD", at=path, check=False)
        ahead = self._git("rev-list", "--count", "HEAD", *others, at=path) if has_commit else 0
        return Worktree(
            name=path.name,
            path=str(path),
            branch=current,
            changes=sum(not line.startswith("!!") for line in lines),
            ignored=sum(line.startswith("!!") for line in lines),
            ahead=int(ahead),
        )

    def _git(
        self, *arguments: str, at: Path | None = None, check: bool = True, seconds: float | None = _SECONDS
    ) -> str:
        try:
            done = _run_git(self._program, *arguments, cwd=at or self._root, seconds=seconds)
        except subprocess.TimeoutExpired:
            raise ConfigError(f"git {arguments[0]} timed out after {seconds:g}s.") from None
        except OSError as error:
            raise ConfigError(f"Cannot run git: {error.strerror or error}.") from error
        if done.returncode and check:
            raise ConfigError(f"git {' '.join(arguments[:2])}: {done.stderr.strip() or done.returncode}")
        return done.stdout.strip() if done.returncode == 0 else ""


def _run_git(
    program: str, *arguments: str, cwd: Path, seconds: float | None = _SECONDS
) -> subprocess.CompletedProcess[str]:
    """Run git without hooks, prompts, and the variables of a calling git hook, which point to another repository.

    Raises:
        OSError: If git cannot be started.
        TimeoutExpired: If it takes longer than ``seconds``.
    """
    environ = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    return subprocess.run(
        [program, *_SAFE_GIT_OPTIONS, *arguments],
        cwd=cwd,
        env={**environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=seconds,
        check=False,
    )


def current_branch(cwd: str, *, commit: bool = True) -> str:
    """Return the current branch, or an empty string outside a repository. Blocks.

    Args:
        cwd: Folder in a repository or one of its worktrees.
        commit: Whether to return the short commit if no branch is checked out; otherwise an empty string.
    """
    folder = Path(cwd)
    for place in (folder, *folder.parents):
        git = place / ".git"
        try:
            if os.path.isfile(git):  # in a worktree or a submodule
                named = git.read_text(encoding="utf-8", errors="replace").strip().removeprefix("gitdir:").strip()
                git = (place / named).resolve()
            if not os.path.isdir(git):
                continue
            head = (git / "HEAD").read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return ""
        if head == _REFTABLE_HEAD:
            return _branch_of_git(folder, commit)
        return head.removeprefix("ref: refs/heads/") if head.startswith("ref:") else head[: 8 * commit]
    return ""


def _branch_of_git(folder: Path, commit: bool) -> str:
    program = find_program("git", project=str(folder))
    if program is None:
        return ""
    branch, short = ("symbolic-ref", "--short", "--quiet", "HEAD"), ("rev-parse", "--short=8", "HEAD")
    with suppress(OSError, subprocess.TimeoutExpired):
        for question in (branch, short) if commit else (branch,):
            done = _run_git(program, *question, cwd=folder, seconds=_BRANCH_SECONDS)
            if done.returncode == 0:
                return done.stdout.strip()
    return ""
