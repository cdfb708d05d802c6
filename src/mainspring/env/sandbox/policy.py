"""The access rights of programs in a sandbox, which each backend enforces in its own way."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from mainspring.env.paths import GUARDED_NAMES, is_inside
from mainspring.env.sandbox.git_folder import GIT_FILES, HOOKS_FOLDER, REPOSITORY, read_start
from mainspring.env.sandbox.guarded import is_guarded, linked_repository
from mainspring.env.walk import IGNORE_FILE_NAMES
from mainspring.errors import ConfigError

SYSTEM_LINUX = (
    "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr", "/etc", "/opt", "/nix", "/gnu", "/snap", "/run/current-system",
    "/sys/devices/system", "/sys/fs/cgroup",
)  # fmt: skip
"""System folders that programs read on Linux."""

SYSTEM_MACOS = (
    "/bin", "/sbin", "/usr", "/System", "/Library", "/opt", "/etc", "/private/etc", "/private/var/select", "/private/var/db/dyld",
    "/private/var/db/timezone", "/Applications/Xcode.app",
)  # fmt: skip
"""The same on macOS."""

TOOLCHAIN_PATHS = (
    ".cargo", ".rustup", ".pyenv", ".nvm", ".volta", ".rbenv", ".asdf", ".sdkman", ".bun", ".deno", "go", ".local/lib",
    ".local/share/mise", ".local/share/pipx", ".local/share/uv", ".gitconfig", ".config/git",
)  # fmt: skip
"""Paths in the home folder, otherwise unreadable, that a user's tools need."""

SECRET_PATHS = (
    ".ssh", ".gnupg", ".gpg", ".aws", ".azure", ".kube", ".docker", ".password-store", ".config/gcloud", ".config/gh", ".config/op",
    ".config/rclone", ".config/git/credentials", ".local/share/keyrings", ".netrc", ".git-credentials", ".npmrc", ".pypirc", ".pgpass",
    ".cargo/credentials", ".cargo/credentials.toml", ".mozilla", ".config/google-chrome", "Library/Keychains", ".bash_history",
    ".zsh_history", ".agent/settings.json",
)  # fmt: skip
"""Keys and key stores in the home folder. They stay hidden even if a folder above them is readable."""

SYSTEM_SECRETS = (
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssl/private",
)
"""Keys and key stores of the system; only root can read them anyway."""

IGNORE_FILES = (".agentignore", *IGNORE_FILE_NAMES)
"""Ignore files in folders above the project that apply to its files."""

BLOCKED_VARIABLES = (
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "GPG_AGENT_INFO",
    "DBUS_SESSION_BUS_ADDRESS",
    "DOCKER_HOST",
    "XAUTHORITY",
)
"""Variables that lead to services outside, which programs in a sandbox do not get."""

_PROGRAM_FOLDERS = ("bin", "sbin", "shims")


class SymlinkHop(Struct, frozen=True):
    """A symbolic link on the way to a readable folder."""

    path: str
    target: str


class SandboxPolicy(Struct, frozen=True, kw_only=True):
    """The access rights of programs in a sandbox. All paths are resolved.

    Attributes:
        writable: Folders and files that may be read and changed: the project's folder first.
        readable: Folders and files that may be read.
        hidden: Folders and files that may not be read at any depth; they override all others.
        guarded: Paths that may be read but not changed although they are in a writable folder; some may not exist.
        exempt: Guarded paths, or paths in them, that may be changed: the user named them, or git needs them.
        repository: The git folder of the repository, if the project is a linked worktree of it or a submodule.
        sealed: Guarded paths from which this program itself runs; changing them would allow an escape from the sandbox.
        tmp: The private folder for temporary files, which may be changed.
        home: The home folder; it exists, but its content is hidden unless another attribute names it.
        links: Links that lead to readable folders.
        network: Whether the network can be used.
    """

    writable: tuple[str, ...]
    readable: tuple[str, ...]
    hidden: tuple[str, ...] = ()
    guarded: tuple[str, ...] = ()
    exempt: tuple[str, ...] = ()
    repository: str = ""
    sealed: tuple[str, ...] = ()
    tmp: str
    home: str
    links: tuple[SymlinkHop, ...] = ()
    network: bool = False

    def can_read(self, path: str) -> bool:
        """Return True if a file or folder may be read; ``path`` is a resolved path."""
        return not self.is_denied(path) and _lies_in(path, (*self.writable, self.tmp, *self.readable))

    def can_write(self, path: str) -> bool:
        """Return True if a path may be created, changed, or removed."""
        return _lies_in(path, (*self.writable, self.tmp)) and not self.is_denied(path) and not self.guards(path)

    def guards(self, path: str) -> bool:
        """Return True if a path may not be changed because it defines programs that run later. It need not exist."""
        if not _lies_in(path, self.exempt) and any(is_guarded(path, root) for root in self.writable):
            return True
        inner = max((len(p) for p in self.exempt if is_inside(path, p)), default=-1)
        return any(is_inside(path, p) and len(p) > inner for p in self.guarded)

    def is_denied(self, path: str) -> bool:
        """Return True if a path is hidden."""
        return _lies_in(path, self.hidden)


def make_policy(
    cwd: str,
    *,
    home: str,
    tmp: str,
    writable: Sequence[str] = (),
    readable: Sequence[str] = (),
    hidden: Sequence[str] = (),
    network: bool = False,
    guarded: Sequence[str] = (),
) -> SandboxPolicy:
    """Return the policy for programs of a project. Blocking; a few milliseconds.

    The variables ``PATH`` and ``VIRTUAL_ENV`` of this process name folders that programs need.

    Args:
        cwd: The project folder.
        home: The home folder.
        tmp: A private folder for temporary files.
        writable: Folders that may be changed in addition to the project's folder.
        readable: Folders and files that may be read in addition to the usual ones.
        hidden: Folders and files that may not be read, in addition to `SECRET_PATHS`.
        network: Whether the network can be used.
        guarded: Guarded files that were found in the folders below.

    Raises:
        ConfigError: If the project or one of the writable folders is hidden or does not exist.
    """

    def path_of(path: str) -> str:
        return os.path.join(cwd, os.path.join(home, path[2:]) if path.startswith("~/") else path)

    secret = (*SYSTEM_SECRETS, *(os.path.join(home, p) for p in SECRET_PATHS), *map(path_of, hidden))
    hiding = _existing(os.path.realpath(p) for p in secret if _is_readable(p))
    linked = linked_repository(os.path.realpath(cwd))
    common, own = linked or ("", "")
    request = tuple(os.path.realpath(path_of(p)) for p in writable)
    changed = (os.path.realpath(cwd), *request, *([common] if common else []))
    for path in changed:
        if _lies_in(path, hiding):
            raise ConfigError(f"The sandbox cannot work in {path}: that folder contains secrets.")
        if not os.path.exists(path):
            raise ConfigError(f"The sandbox cannot let programs write to {path}: it does not exist. Create it first.")
    requested = [
        *_system(),
        *_programs(os.environ, home),
        *(os.path.join(home, p) for p in TOOLCHAIN_PATHS),
        *_repository_paths(cwd),
    ]
    requested += (os.path.join(above, name) for above in _parents(cwd) for name in IGNORE_FILES)
    requested += map(path_of, readable)
    read = _outermost([p for p in _existing(os.path.realpath(p) for p in requested) if not _lies_in(p, changed)])
    sealed = tuple(p for p in _installation_paths() if _lies_in(p, changed))
    roots = _outermost(changed, first=True)
    return SandboxPolicy(
        writable=roots,
        readable=read,
        hidden=_outermost(hiding),
        guarded=tuple(
            dict.fromkeys(
                (*(p for r in roots for p in _guarded(r)), *_guarded_in_repository(common, own), *guarded, *sealed)
            )
        ),
        exempt=(*(p for p in request if any(is_guarded(p, root) for root in roots)), *([own] if own != common else [])),
        repository=common,
        sealed=sealed,
        tmp=tmp,
        home=home,
        links=tuple(
            dict.fromkeys(link for p in requested for link in _symlink_hops(p) if not _lies_in(link.path, read))
        ),
        network=network,
    )


def _guarded(root: str) -> Iterator[str]:
    yield from (os.path.join(root, name) for name in GUARDED_NAMES if not name.startswith("*"))
    git = os.path.join(root, ".git")
    if os.path.isfile(git) or os.path.islink(git):  # contains the path of the repository
        yield git
    else:
        yield from (os.path.join(git, name) for name in (*GIT_FILES, HOOKS_FOLDER))


def _guarded_in_repository(common: str, own: str) -> Iterator[str]:
    """Return the guarded paths in the git folders of a linked worktree or a submodule."""
    if common:
        yield from (os.path.join(common, name) for name in (*GIT_FILES, HOOKS_FOLDER))
    if own != common:
        yield from (os.path.join(common, name) for name in ("worktrees", "modules"))
        yield from (os.path.join(own, name) for name in GIT_FILES)


def _installation_paths() -> tuple[str, ...]:
    """Return the paths from which this program runs: its Python and its modules."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    return (os.path.realpath(sys.prefix), package)


def _system() -> tuple[str, ...]:
    if sys.platform == "darwin":
        return SYSTEM_MACOS
    resolver = os.path.realpath("/etc/resolv.conf")
    return (*SYSTEM_LINUX, resolver)


def _programs(variables: Mapping[str, str], home: str) -> Iterator[str]:
    """Return folders of programs and the folders that they need: ``~/x/bin`` includes ``~/x``, but ``~/bin`` only itself."""
    yield from (sys.prefix, sys.base_prefix, os.path.dirname(os.path.realpath(sys.executable)))
    if environment := variables.get("VIRTUAL_ENV"):
        yield environment
    for folder in variables.get("PATH", "").split(os.pathsep):
        if not os.path.isabs(folder):
            continue
        yield folder
        above, name = os.path.split(folder.rstrip("/"))
        real = os.path.realpath(above)
        too_much = is_inside(home, real) or real in (os.path.join(home, ".local"), os.path.join(home, ".config"))
        if name in _PROGRAM_FOLDERS and real.count("/") > 1 and not too_much:
            yield above


def _repository_paths(cwd: str) -> Iterator[str]:
    """Return the folders of the repository that contains the project, so that ``git`` works."""
    folder = cwd
    while folder != os.path.dirname(folder):
        git = os.path.join(folder, ".git")
        if os.path.isdir(git) and (not os.path.islink(git) or _is_repository(git)):
            yield from (git, os.path.join(folder, ".gitattributes"), *_borrowed_objects(git))
            return
        if os.path.isfile(git):
            yield git
            for place in _linked_repository(git):
                yield from (place, *_borrowed_objects(place))
            return
        folder = os.path.dirname(folder)


def _borrowed_objects(git: str) -> Iterator[str]:
    """Return the objects that a repository takes from others, as after ``git clone --reference``."""
    objects = os.path.join(git, "objects")
    for line in read_start(os.path.join(objects, "info/alternates")).decode("utf-8", "surrogateescape").splitlines():
        place = os.path.realpath(os.path.join(objects, line))
        if os.path.basename(place) == "objects" and _is_repository(
            os.path.dirname(place)
        ):  # The file may name any folder.
            yield place


def _is_repository(folder: str) -> bool:
    return all(os.path.exists(os.path.join(folder, name)) for name in REPOSITORY)


def _parents(folder: str) -> Iterator[str]:
    while folder != (folder := os.path.dirname(folder)):
        yield folder


def _linked_repository(git: str) -> Iterator[str]:
    """Return the target of the ``.git`` file of a worktree or submodule."""
    try:
        with open(git, encoding="utf-8") as file:
            line = file.read(4096).strip()
    except (OSError, UnicodeDecodeError):
        return
    if not line.startswith("gitdir: "):
        return
    place = os.path.realpath(os.path.join(os.path.dirname(git), line[8:]))
    above = os.path.dirname(place)
    if os.path.basename(above) == "worktrees":
        place = os.path.dirname(above)
    if ".git" in place.split("/"):  # The file may name any folder.
        yield place


def _symlink_hops(path: str) -> Iterator[SymlinkHop]:
    """Return the symbolic links on the way to a path, outermost first."""
    at = "/"
    for part in path.strip("/").split("/"):
        step = os.path.join(at, part)
        if os.path.islink(step):
            yield SymlinkHop(step, os.path.realpath(step))
            at = os.path.realpath(step)
        else:
            at = step


def _existing(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(p for p in dict.fromkeys(paths) if os.path.lexists(p) and p != "/")


def _is_readable(path: str) -> bool:
    """Return True if this user could read a path; hiding others would be useless."""
    return os.access(path, os.R_OK) or os.access(path, os.X_OK)


def _outermost(paths: Sequence[str], *, first: bool = False) -> tuple[str, ...]:
    """Return the paths without those that are inside another one; sorted, except for the ``first``."""
    outermost = [p for p in dict.fromkeys(paths) if not any(p != q and is_inside(p, q) for q in paths)]
    return tuple(outermost) if first else tuple(sorted(outermost))


def _lies_in(path: str, roots: Iterable[str]) -> bool:
    return any(is_inside(path, root) for root in roots)
