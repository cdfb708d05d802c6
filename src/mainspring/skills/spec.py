"""What somebody names to install from: a folder, a repository, or a page of one."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from msgspec import Struct

from mainspring.lazy import lazy_re
from mainspring.skills.skill import SkillError

_SCP = lazy_re(r"(?:([\w.-]+)@)?([\w.-]+):(?!//|:)([^\s]+)")
_SHORT = lazy_re(r"([A-Za-z0-9][\w.-]*)/([A-Za-z0-9_][\w.-]*)((?:/[\w.-]+)*)")
_PAGE = lazy_re(r"(/[^/]+/[^/]+?)(?:\.git)?/(?:-/)?(?:tree|blob|src/branch)/([^/]+)/?(.*)")
_REF = lazy_re(r"[A-Za-z0-9_][\w./+@-]*")
_COMMIT = lazy_re(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SCHEMES = ("https", "ssh", "file")


class Spec(Struct, frozen=True, kw_only=True):
    """Where to install from.

    Attributes:
        url: The repository's address, or the folder's path.
        git: Whether it is a repository.
        ref: Branch, tag or commit; empty for the repository's own branch.
        path: The folder in it; empty for the top.
    """

    url: str
    git: bool
    ref: str = ""
    path: str = ""

    @property
    def pinned(self) -> bool:
        """Whether it names one commit, so that there can be no newer one."""
        return _COMMIT.fullmatch(self.ref) is not None

    @property
    def remote(self) -> bool:
        """Whether the network is needed."""
        return self.git and not self.url.startswith("file://")


def read_spec(text: str, *, cwd: str, ref: str = "", path: str = "") -> Spec:
    """What a text names.

    ``https://``, ``ssh://`` and ``file://`` addresses, ``git@host:path``, ``owner/name`` on GitHub, the page of a folder there, or a
    folder; with ``#REF`` behind it a repository at that branch, tag or commit.

    Raises:
        SkillError: If it names nothing that can be installed from.
    """
    given, _, fragment = text.strip().partition("#")
    ref = ref or fragment
    if not given or given.startswith("-"):
        raise SkillError(f"{text!r} is neither a folder nor the address of a repository")
    if ref and (not _REF.fullmatch(ref) or ".." in ref):
        raise SkillError(f"{ref!r} is no branch, tag or commit")
    path = _inner(path)
    here = Path(os.path.abspath(os.path.join(cwd, os.path.expanduser(given))))
    if "://" not in given and here.exists():
        if ref:
            return Spec(url=f"file://{here}", git=True, ref=ref, path=path)
        if here.is_file():
            return Spec(url=str(here.parent), git=False, path="" if here.name.lower() == "skill.md" else here.name)
        return Spec(url=str(here), git=False, path=path)
    if "://" in given:
        return _address(given, ref, path)
    if given.startswith((".", "/", "~")):
        raise SkillError(f"there is no folder {here}")
    short = _SHORT.fullmatch(given)
    if short is not None:
        inner = path or _inner(short[3])
        return Spec(url=f"https://github.com/{short[1]}/{short[2].removesuffix('.git')}", git=True, ref=ref, path=inner)
    scp = _SCP.fullmatch(given)
    if scp is not None and not scp[2].startswith("-"):
        user = f"{scp[1]}@" if scp[1] else ""
        # As it is: behind the colon stands a path from the home folder there, and ssh:// has none but those from the root.
        return Spec(url=f"{user}{scp[2]}:{scp[3]}", git=True, ref=ref, path=path)
    raise SkillError(
        f"there is no folder {here}, and {given!r} is no address of a repository (https://..., git@host:path, owner/name)"
    )


def _address(given: str, ref: str, path: str) -> Spec:
    try:
        parts = urlsplit(given)
        host = parts.hostname or ""
    except ValueError as error:
        raise SkillError(f"{given!r} is no address: {error}") from None
    if parts.scheme not in _SCHEMES:
        why = "is not encrypted" if parts.scheme in ("http", "git", "ftp") else "is no way to reach a repository"
        raise SkillError(f"{parts.scheme}:// {why}; use https://, ssh:// or file://")
    if parts.scheme == "file":
        if host not in ("", "localhost"):
            raise SkillError("a file:// address has three slashes: file:///home/me/repository")
        return Spec(url=f"file://{unquote(parts.path)}", git=True, ref=ref, path=path)
    if not host or host.startswith("-"):
        raise SkillError(f"{given!r} names no host")
    if parts.password:
        raise SkillError("an address may not hold a password: it would be kept; git's own credentials are used")
    page = _PAGE.fullmatch(unquote(parts.path))
    if page is not None and parts.scheme == "https":
        inner = page[3].removesuffix("SKILL.md").strip("/")
        url = urlunsplit((parts.scheme, parts.netloc, page[1], "", ""))
        return Spec(url=url, git=True, ref=ref or page[2], path=path or _inner(inner))
    return Spec(
        url=urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", "")), git=True, ref=ref, path=path
    )


def _inner(path: str) -> str:
    parts = [p for p in path.replace("\\", "/").split("/") if p not in ("", ".")]
    if ".." in parts or any(p.startswith("-") for p in parts[:1]):
        raise SkillError(f"{path!r} is no folder in there")
    return "/".join(parts)
