"""Sources of skills: a folder, a repository, or a folder in one.

A repository is fetched into a folder without a working tree, so that none of its hooks, filters, submodules, or links takes effect.
The files of a folder or commit are listed before any is read: nothing is checked out or run.
"""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Protocol
from urllib.parse import unquote, urlsplit, urlunsplit

from msgspec import Struct

from mainspring.env.variables import child_environment
from mainspring.lazy import lazy_re
from mainspring.programs import explain_missing_program, find_program, wait_for_end
from mainspring.redaction import redact_environment
from mainspring.skills.skill import SkillError

_SCP = lazy_re(r"(?:([\w.-]+)@)?([\w.-]+):(?!//|:)([^\s]+)")
_GITHUB_SHORTHAND = lazy_re(r"([A-Za-z0-9][\w.-]*)/([A-Za-z0-9_][\w.-]*)((?:/[\w.-]+)*)")
_TREE_URL = lazy_re(r"(/[^/]+/[^/]+?)(?:\.git)?/(?:-/)?(?:tree|blob|src/branch)/([^/]+)/?(.*)")
_REF = lazy_re(r"[A-Za-z0-9_][\w./+@-]*")
_COMMIT = lazy_re(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SCHEMES = ("https", "ssh", "file")


class InstallSpec(Struct, frozen=True, kw_only=True):
    """The source of an installation.

    Attributes:
        url: The repository's URL, or the folder's path.
        git: Whether it is a repository.
        ref: Branch, tag, or commit. Empty for the default branch.
        path: The folder in it. Empty for the root.
    """

    url: str
    git: bool
    ref: str = ""
    path: str = ""

    @property
    def is_pinned(self) -> bool:
        """Whether it names one commit, so that no newer one can exist."""
        return _COMMIT.fullmatch(self.ref) is not None

    @property
    def is_remote(self) -> bool:
        """Whether the network is needed."""
        return self.git and not self.url.startswith("file://")


def parse_spec(text: str, *, cwd: str, ref: str = "", path: str = "") -> InstallSpec:
    """Parse a source.

    ``https://``, ``ssh://``, and ``file://`` URLs, ``git@host:path``, ``owner/name`` on GitHub, the page of a folder there, or a folder.
    ``#REF`` after it selects a branch, tag, or commit of a repository.

    Raises:
        SkillError: If it is not a source of skills.
    """
    given, _, fragment = text.strip().partition("#")
    ref = ref or fragment
    if not given or given.startswith("-"):
        raise SkillError(f"Invalid source: {text!r}. Use a folder or the URL of a repository.")
    if ref and (not _REF.fullmatch(ref) or ".." in ref):
        raise SkillError(f"Invalid branch, tag, or commit: {ref!r}")
    path = _validate_subfolder(path)
    here = Path(os.path.abspath(os.path.join(cwd, os.path.expanduser(given))))
    if "://" not in given and os.path.exists(here):
        if ref:
            return InstallSpec(url=f"file://{here}", git=True, ref=ref, path=path)
        if os.path.isfile(here):
            return InstallSpec(
                url=str(here.parent), git=False, path="" if here.name.lower() == "skill.md" else here.name
            )
        return InstallSpec(url=str(here), git=False, path=path)
    if "://" in given:
        return _parse_url(given, ref, path)
    if given.startswith((".", "/", "~")):
        raise SkillError(f"Folder not found: {here}")
    short = _GITHUB_SHORTHAND.fullmatch(given)
    if short is not None:
        inner = path or _validate_subfolder(short[3])
        return InstallSpec(
            url=f"https://github.com/{short[1]}/{short[2].removesuffix('.git')}", git=True, ref=ref, path=inner
        )
    scp = _SCP.fullmatch(given)
    if scp is not None and not scp[2].startswith("-"):
        user = f"{scp[1]}@" if scp[1] else ""
        # Unchanged: the path after the colon is relative to the home folder, and ssh:// has only absolute paths.
        return InstallSpec(url=f"{user}{scp[2]}:{scp[3]}", git=True, ref=ref, path=path)
    raise SkillError(
        f"Folder not found: {here}, and {given!r} is not the URL of a repository (https://..., git@host:path, owner/name)"
    )


def _parse_url(text: str, ref: str, path: str) -> InstallSpec:
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
    except ValueError as error:
        raise SkillError(f"Invalid URL {text!r}: {error}") from None
    if parts.scheme not in _SCHEMES:
        reason = "is not encrypted" if parts.scheme in ("http", "git", "ftp") else "cannot reach a repository"
        raise SkillError(f"{parts.scheme}:// {reason}; use https://, ssh:// or file://")
    if parts.scheme == "file":
        if host not in ("", "localhost"):
            raise SkillError("a file:// address has three slashes: file:///home/me/repository")
        return InstallSpec(url=f"file://{unquote(parts.path)}", git=True, ref=ref, path=path)
    if not host or host.startswith("-"):
        raise SkillError(f"The URL {text!r} has no host")
    if parts.password:
        raise SkillError("A URL may not contain a password, because it would be stored. Use git's own credentials.")
    page = _TREE_URL.fullmatch(unquote(parts.path))
    if page is not None and parts.scheme == "https":
        inner = page[3].removesuffix("SKILL.md").strip("/")
        url = urlunsplit((parts.scheme, parts.netloc, page[1], "", ""))
        return InstallSpec(url=url, git=True, ref=ref or page[2], path=path or _validate_subfolder(inner))
    return InstallSpec(
        url=urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", "")), git=True, ref=ref, path=path
    )


def _validate_subfolder(path: str) -> str:
    parts = [p for p in path.replace("\\", "/").split("/") if p not in ("", ".")]
    if ".." in parts or any(p.startswith("-") for p in parts[:1]):
        raise SkillError(f"Invalid folder in a repository: {path!r}")
    return "/".join(parts)


_SECONDS = 180.0
_STALL_SECONDS = 60
"""Maximum seconds for which a host may send no data."""
_MAX_OUTPUT_BYTES = 256 << 20
_PROTOCOLS = ("https", "ssh", "file")
_SAFE = (
    *("-c", "protocol.allow=never"),
    *(part for name in _PROTOCOLS for part in ("-c", f"protocol.{name}.allow=always")),
    *("-c", f"core.hooksPath={os.devnull}"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "submodule.recurse=false"),
    *("-c", "fetch.recurseSubmodules=false"),
    *("-c", "http.followRedirects=initial"),
    *("-c", "gc.auto=0"),
    *("-c", "maintenance.auto=false"),
    *("-c", "core.alternateRefsCommand="),
    *("-c", "credential.interactive=false"),
    *("-c", "http.lowSpeedLimit=1"),
)
"""Disabled features of git: all other transports, and everything that runs a program named by a repository."""


class _HostRefusedError(SkillError):
    """The host is unreachable or refuses access: another attempt in a different way is useless."""


_ERROR_HINTS = tuple(
    [
        (lazy_re(pattern), meaning)
        for pattern, meaning in (
            (
                r"[Cc]ould not resolve host",
                "unknown host or no network: check the URL and the connection",
            ),
            (
                r"terminal prompts disabled|could not read (?:Username|Password)|Authentication failed|Permission denied \(|"
                r"returned error: 40[13]",
                "the repository does not exist or requires a login, and Mainspring does not ask for one: log in with git first (a credential "
                "helper such as `gh auth setup-git`, or an ssh key), until `git ls-remote` works",
            ),
            (
                r"Host key verification failed",
                "the host's key is unknown: connect to it once with ssh, and compare the key",
            ),
            (
                r"certificate|SSL|TLS",
                "the host's certificate is not trusted or belongs to another host: check the URL; for a certificate of your own, set "
                "GIT_SSL_CAINFO to its file",
            ),
            (
                r"transport '[a-z]+' not allowed|[Pp]rotocol \S+ (?:not supported|disabled)",
                "the host redirects to a URL that is neither https, ssh, nor a file, which is not followed",
            ),
            (
                r"repository '[^']*' not found|does not appear to be a git repository|[Rr]epository not found|no such repository",
                "the repository does not exist",
            ),
            (
                r"Failed to connect|Couldn't connect|Connection (?:refused|timed out|reset|closed)|No route to host|"
                r"[Nn]etwork is unreachable|Operation too slow|Operation timed out|Empty reply",
                "the host is unreachable or does not answer: check the URL and the connection",
            ),
        )
    ]
)
"""Messages of git, their meaning, and possible fixes."""


class BareRepository:
    """Runs git in one folder.

    Args:
        folder: A repository without a working tree.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def run(self, *arguments: str, piped: bytes | None = None) -> bytes:
        """Return the output of a git command.

        Raises:
            SkillError: If git is missing, fails, or takes too long.
        """
        program = find_program("git")
        if program is None:
            raise SkillError(f"Fetching a repository requires git, but git {explain_missing_program('git')}.")
        process = await asyncio.create_subprocess_exec(
            program,
            *_SAFE,
            *("-c", f"http.lowSpeedTime={_STALL_SECONDS}"),
            *arguments,
            cwd=self._folder,
            env=_git_environment(),
            stdin=asyncio.subprocess.DEVNULL if piped is None else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # no terminal for a password prompt
        )
        try:
            async with asyncio.timeout(_SECONDS):
                out, err = await process.communicate(piped)
        except TimeoutError:
            raise SkillError(f"git {arguments[0]} took more than {_SECONDS:g} seconds; try again") from None
        finally:
            if process.returncode is None:
                _kill_process_group(process.pid)
                await wait_for_end(process)
        if process.returncode != 0:
            error_text = " ".join(redact_environment(err.decode("utf-8", "replace")).split())[-500:]
            for pattern, meaning in _ERROR_HINTS:
                if pattern.search(error_text):
                    raise _HostRefusedError(f"{meaning} (git: {error_text})")
            raise SkillError(f"git {arguments[0]} failed: {error_text or f'exit code {process.returncode}'}")
        if len(out) > _MAX_OUTPUT_BYTES:
            raise SkillError(f"git {arguments[0]} returned more than {_MAX_OUTPUT_BYTES >> 20} MiB")
        return out


def _kill_process_group(pid: int) -> None:
    """End git and its child processes: a transport, ssh."""
    with suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGTERM)


async def fetch_commit(spec: InstallSpec, folder: Path) -> tuple[BareRepository, str]:
    """Fetch the commit of a source.

    Args:
        spec: The repository.
        folder: An empty folder to fetch into.

    Returns:
        The repository, and the full ID of the commit.

    Raises:
        SkillError: If it cannot be fetched, or has no such branch, tag, or commit.
    """
    git = BareRepository(folder)
    await git.run("init", "--quiet", "--bare", "--template=", ".")
    requested = spec.ref or "HEAD"
    try:
        await _fetch_ref(git, spec, requested)
    except SkillError as error:
        # A server may refuse a commit that is not a tip or is abbreviated. If it is unreachable, all refs are, too.
        if isinstance(error, _HostRefusedError) or not _may_be_commit(spec.ref):
            raise SkillError(f"{spec.url}{f' at {spec.ref}' if spec.ref else ''}: {error}") from None
        await _fetch_all_refs(git, spec)
    commit = (await git.run("rev-parse", "--verify", "--end-of-options", "refs/taken^{commit}")).decode().strip()
    return git, commit


async def _fetch_ref(git: BareRepository, spec: InstallSpec, ref: str) -> None:
    """Fetch one branch or tag, with only its last commit if the server supports that: a static file server does not."""
    options = ("--quiet", "--no-tags", "--no-write-fetch-head")
    try:
        await git.run("fetch", "--depth=1", *options, spec.url, f"+{ref}:refs/taken")
    except SkillError as error:
        if "does not support shallow" not in str(error):
            raise
        await git.run("fetch", *options, spec.url, f"+{ref}:refs/taken")


def _may_be_commit(ref: str) -> bool:
    return 7 <= len(ref) and all(c in "0123456789abcdef" for c in ref)


async def _fetch_all_refs(git: BareRepository, spec: InstallSpec) -> None:
    """Fetch all branches and tags, and find the commit among them."""
    try:
        await git.run(
            "fetch",
            "--quiet",
            "--no-write-fetch-head",
            spec.url,
            "+refs/heads/*:refs/all/*",
            "+refs/tags/*:refs/tags/*",
        )
        commit = (await git.run("rev-parse", "--verify", "--end-of-options", f"{spec.ref}^{{commit}}")).decode().strip()
        await git.run("update-ref", "refs/taken", commit)
    except SkillError as error:
        raise SkillError(f"{spec.url} at {spec.ref}: {error}") from None


def _git_environment() -> dict[str, str]:
    """Return the user's environment without variables that redirect git. git must not prompt."""
    variables = {k: v for k, v in child_environment(os.environ).items() if not k.startswith("GIT_") or k in _KEPT}
    return {
        **variables,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "",
        "SSH_ASKPASS_REQUIRE": "never",
        "GCM_INTERACTIVE": "never",
        "GIT_ALLOW_PROTOCOL": ":".join(_PROTOCOLS),
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "LC_ALL": "C",
    }


_KEPT = frozenset(
    {"GIT_SSH_COMMAND", "GIT_SSH", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM"}
)


MAX_FILES = 2_000
MAX_FETCHED_BYTES = 50 << 20
"""Maximum bytes of all files of one skill."""


_MAX_LISTED = 200_000
_IGNORED_NAMES = frozenset({".git", "__pycache__", ".DS_Store", ".hg", ".svn"})


class SourceFile(Struct, frozen=True, kw_only=True):
    """A file.

    Attributes:
        path: Its path from the root, with ``/``.
        size: Its bytes.
        link: The target of a link.
        executable: Whether it is executable.
        key: The reader's key.
    """

    path: str
    size: int
    link: bool = False
    executable: bool = False
    key: str = ""


class FileTree(Protocol):
    """Lists and reads files."""

    commit: str
    """The commit. Empty for a folder."""

    async def items(self) -> Sequence[SourceFile]:
        """List all files.

        Raises:
            SkillError: If they cannot be listed, or one cannot be installed.
        """
        ...

    async def read(self, items: Sequence[SourceFile]) -> Mapping[str, bytes]:
        """Return the content of files by path. For a link, its target.

        Raises:
            SkillError: If they cannot be read.
        """
        ...


class FolderTree:
    """The files of a folder on this machine."""

    commit = ""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def items(self) -> Sequence[SourceFile]:
        """List all files except those of version control."""
        return await asyncio.to_thread(self._list)

    async def read(self, items: Sequence[SourceFile]) -> Mapping[str, bytes]:
        """Return the content of files."""
        return await asyncio.to_thread(self._read, items)

    def _list(self) -> list[SourceFile]:
        found: list[SourceFile] = []
        stack = [self._folder]
        while stack:
            folder = stack.pop()
            try:
                entries = list(os.scandir(folder))
            except OSError as error:
                raise SkillError(f"{folder}: cannot be read: {error.strerror or error}") from None
            for entry in entries:
                if entry.name in _IGNORED_NAMES:
                    continue
                path = PurePosixPath(Path(entry.path).relative_to(self._folder)).as_posix()
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    stack.append(Path(entry.path))
                elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                    link, runs = stat.S_ISLNK(status.st_mode), bool(status.st_mode & stat.S_IXUSR)
                    found.append(SourceFile(path=path, size=status.st_size, link=link, executable=runs and not link))
                else:
                    raise SkillError(f"{path} is neither a file nor a folder, so it cannot be installed")
                if len(found) > _MAX_LISTED:
                    raise SkillError(
                        f"{self._folder} contains more than {_MAX_LISTED} files; use the skill's own folder"
                    )
        return sorted(found, key=lambda item: item.path)

    def _read(self, items: Sequence[SourceFile]) -> dict[str, bytes]:
        read: dict[str, bytes] = {}
        for item in items:
            path = self._folder / item.path
            try:
                if item.link:
                    read[item.path] = os.fsencode(os.readlink(path))
                    continue
                with open(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), "rb") as file:
                    data = file.read(item.size + 1)
            except OSError as error:
                raise SkillError(f"{item.path}: cannot be read: {error.strerror or error}") from None
            if len(data) > item.size:
                raise SkillError(f"{item.path}: it grew while it was read; try again")
            read[item.path] = data
        return read


class GitTree:
    """The files of a commit in a fetched repository."""

    def __init__(self, git: BareRepository, commit: str) -> None:
        self._git = git
        self.commit = commit

    async def items(self) -> Sequence[SourceFile]:
        """List all files, without submodules."""
        found: list[SourceFile] = []
        out = await self._git.run("ls-tree", "-r", "-z", "-l", "--full-tree", self.commit)
        for row in out.split(b"\0"):
            if not row:
                continue
            facts, _, name = row.partition(b"\t")
            mode, kind, key, size = facts.split()
            if kind != b"blob":
                continue
            try:
                path = name.decode()
            except UnicodeDecodeError:
                raise SkillError(f"the name {name!r} is not UTF-8") from None
            found.append(
                SourceFile(
                    path=path, size=int(size), link=mode == b"120000", executable=mode == b"100755", key=key.decode()
                )
            )
            if len(found) > _MAX_LISTED:
                raise SkillError(f"the repository contains more than {_MAX_LISTED} files")
        return found

    async def read(self, items: Sequence[SourceFile]) -> Mapping[str, bytes]:
        """Return the content of files."""
        if not items:
            return {}
        out = await self._git.run("cat-file", "--batch", piped="".join(f"{item.key}\n" for item in items).encode())
        read: dict[str, bytes] = {}
        at = 0
        for item in items:
            line, _, _ = out[at : at + 200].partition(b"\n")
            parts = line.split()
            if len(parts) != 3 or parts[1] != b"blob":
                raise SkillError(f"{item.path}: it is missing in the fetched data")
            start = at + len(line) + 1
            read[item.path] = out[start : start + int(parts[2])]
            at = start + int(parts[2]) + 1
        return read
