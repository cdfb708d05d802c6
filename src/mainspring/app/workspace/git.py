"""Git worktrees for sessions of their own: a folder and a branch beside the user's, begun by one word and removed without losing work.

They lie in the user's folder, so that the project sees nothing of them. Git's hooks are not run.

The git branch of a folder, read from its files: no program is started for it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from msgspec import Struct

from mainspring.app.workspace.paths import UserPaths, find_repository
from mainspring.app.workspace.trust import TrustStore
from mainspring.errors import ConfigError
from mainspring.lazy import lazy_re
from mainspring.programs import find_program
from mainspring.text import pluralize

FOLDER = "worktrees"
BRANCH_PREFIX = "mainspring/"
"""What stands before the names of their branches."""


_SECONDS = 120.0
_NAME = lazy_re(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SAFE_GIT_OPTIONS = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "advice.detachedHead=false")


class Worktree(Struct, frozen=True, kw_only=True):
    """A worktree.

    Attributes:
        name: Its name.
        path: Its folder.
        branch: Its branch.
        changes: Files that are changed or new and not committed.
        ignored: Files and folders in it that git ignores.
        ahead: Commits that the branch it was begun from does not have.
        new: Whether it was made just now.
    """

    name: str
    path: str
    branch: str
    changes: int = 0
    ignored: int = 0
    ahead: int = 0
    new: bool = False


class Worktrees:
    """The worktrees of one repository.

    Args:
        cwd: A folder in the repository, or in one of its worktrees.
        home: The user's folder, where they lie.

    Raises:
        ConfigError: If there is no repository, no git, or no home folder.
    """

    def __init__(self, cwd: str, home: UserPaths | None) -> None:
        if home is None:
            raise ConfigError("there is no home folder to keep worktrees in; set MAINSPRING_HOME to one")
        program = find_program("git", project=cwd)
        if program is None:
            raise ConfigError("worktrees need git, which is not installed")
        root = find_repository(Path(cwd))
        if root is None:
            raise ConfigError(f"{cwd} is in no git repository; a worktree needs one (git init, and a first commit)")
        self._program = program
        self._cwd = Path(cwd)
        self._root = self._main(root)
        self._home = home
        mark = hashlib.sha256(str(self._root).encode()).hexdigest()[:8]
        self.folder = home.root / FOLDER / f"{self._root.name}-{mark}"

    @property
    def root(self) -> Path:
        """The repository's own folder."""
        return self._root

    def get_or_create(self, name: str) -> Worktree:
        """The worktree of a name; it is made, with a branch from what is checked out here, if there is none.

        Raises:
            ConfigError: If the name cannot be used, or git refuses.
        """
        if not _NAME.fullmatch(name) or name.endswith((".lock", ".")) or ".." in name:
            raise ConfigError(f"{name!r} is no name for a worktree: letters, digits, '.', '_' and '-'")
        path = self.folder / name
        if (path / ".git").exists():
            return self._state(path)
        if path.exists():
            raise ConfigError(f"{path} is there already and is no worktree; remove it, or take another name")
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        branch = f"{BRANCH_PREFIX}{name}"
        known = self._git("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}", check=False)
        if self._git("rev-parse", "--verify", "--quiet", "HEAD", check=False) == "":
            raise ConfigError(f"{self._root} has no commit yet, so there is nothing to begin from; make one first")
        self._git("worktree", "prune")
        start = (
            [str(path), branch] if known else ["-b", branch, str(path), self._git("rev-parse", "HEAD", at=self._cwd)]
        )
        self._git("worktree", "add", "--quiet", *start)
        TrustStore(self._home).copy_trust(self._root, path)  # it is the same project
        return self._state(path, new=True)

    def matching_folder(self, worktree: Worktree) -> str:
        """The folder in a worktree that is the same as the one that one stands in."""
        below = self._cwd.relative_to(self._root) if self._cwd.is_relative_to(self._root) else Path()
        place = Path(worktree.path, below)
        return str(place if place.is_dir() else worktree.path)

    def list(self) -> list[Worktree]:
        """All of them, by name."""
        try:
            names = sorted(p.name for p in self.folder.iterdir() if (p / ".git").exists())
        except OSError:
            return []
        return [self._state(self.folder / name) for name in names]

    def remove(self, name: str, *, branch: bool = False, ignored: bool = False, force: bool = False) -> Worktree:
        """Remove a worktree, if nothing is lost by that. Its branch stays, with all that is committed, unless that is merged
        and ``branch`` says that it is to go.

        Args:
            name: Its name.
            branch: Whether its branch is removed as well.
            ignored: Whether files go with it that git ignores.
            force: Whether all files go with it, also work that is not committed. It takes no commits away.

        Raises:
            ConfigError: If there is none of that name, or something would be lost.
        """
        path = self.folder / name
        if not _NAME.fullmatch(name) or not (path / ".git").exists():
            known = ", ".join(w.name for w in self.list()) or "none"
            raise ConfigError(f"there is no worktree {name!r}; there are {known}")
        state = self._state(path)
        if state.changes and not force:
            raise ConfigError(
                f"{path} holds {pluralize(state.changes, 'change that is', 'changes that are')} not committed; nothing was removed. Commit them there "
                f"(git -C {path} commit), or throw them away: mainspring worktrees remove {name} --force"
            )
        if state.ignored and not ignored and not force:
            raise ConfigError(
                f"{path} holds files that git ignores ({state.ignored}); --ignored removes them with it. Nothing was removed"
            )
        if branch and state.ahead:
            raise ConfigError(
                f"{state.branch} has {pluralize(state.ahead, 'commit that is', 'commits that are')} merged nowhere; nothing was removed. Merge the branch "
                f"(git merge {state.branch}), or leave out --branch to keep the branch"
            )
        self._git("worktree", "remove", *(["--force"] if force or (ignored and state.ignored) else []), str(path))
        TrustStore(self._home).remove(path)
        if branch and state.branch.startswith(BRANCH_PREFIX):
            self._git("branch", "-D", state.branch)
        return state

    def _state(self, path: Path, *, new: bool = False) -> Worktree:
        lines = self._git("status", "--porcelain=v1", "--ignored=matching", at=path).splitlines()
        current = self._git("rev-parse", "--abbrev-ref", "HEAD", at=path)
        others = [
            ref
            for ref in self._git("for-each-ref", "--format=%(refname)", "refs/heads", "refs/remotes").splitlines()
            if ref != f"refs/heads/{current}"
        ]
        ahead = self._git("rev-list", "--count", "HEAD", *(f"^{ref}" for ref in others), at=path)
        return Worktree(
            name=path.name,
            path=str(path),
            branch=current,
            changes=sum(not line.startswith("!!") for line in lines),
            ignored=sum(line.startswith("!!") for line in lines),
            ahead=int(ahead),
            new=new,
        )

    def _main(self, root: Path) -> Path:
        """The repository's own folder, also from one of its worktrees."""
        common = self._git("rev-parse", "--path-format=absolute", "--git-common-dir", at=root)
        folder = Path(common)
        return folder.parent if folder.name == ".git" else root

    def _git(self, *arguments: str, at: Path | None = None, check: bool = True) -> str:
        environ = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}  # those of a hook point elsewhere
        try:
            done = subprocess.run(
                [self._program, *_SAFE_GIT_OPTIONS, *arguments],
                cwd=at or self._root,
                env={**environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ConfigError(f"git {arguments[0]} did not end within {_SECONDS:g} s") from None
        except OSError as error:
            raise ConfigError(f"git cannot be run: {error.strerror or error}") from error
        if done.returncode and check:
            raise ConfigError(f"git {' '.join(arguments[:2])}: {done.stderr.strip() or done.returncode}")
        return done.stdout.strip() if done.returncode == 0 else ""


def current_branch(cwd: str) -> str:
    """The branch that is checked out; the beginning of the commit where it is none; empty where there is no repository. Blocks."""
    folder = Path(cwd)
    for place in (folder, *folder.parents):
        git = place / ".git"
        try:
            if git.is_file():  # a worktree, or a submodule
                named = git.read_text(encoding="utf-8", errors="replace").strip().removeprefix("gitdir:").strip()
                git = (place / named).resolve()
            if not git.is_dir():
                continue
            head = (git / "HEAD").read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return ""
        return head.removeprefix("ref: refs/heads/") if head.startswith("ref:") else head[:8]
    return ""
