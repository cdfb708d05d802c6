"""Fetching a repository: into a folder without a working tree, so that no hook, filter, submodule or link of it can act."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

from mainspring.env.variables import program_variables
from mainspring.lazy import lazy_re
from mainspring.programs import find_program
from mainspring.redaction import redact
from mainspring.skills.skill import SkillError
from mainspring.skills.spec import Spec

_SECONDS = 180.0
_SILENT_SECONDS = 60
"""How long a host may send nothing at all."""
_MOST_OUTPUT = 256 << 20
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
"""What of git is switched off: other ways than these three, and everything that runs a program which a repository names."""


class _Refused(SkillError):
    """The host cannot be reached, or lets nobody in: it need not be asked again in another way."""


_MEANINGS = tuple(
    [
        (lazy_re(pattern), meaning)
        for pattern, meaning in (
            (
                r"[Cc]ould not resolve host",
                "there is no such host, or no network: check the address and the connection",
            ),
            (
                r"terminal prompts disabled|could not read (?:Username|Password)|Authentication failed|Permission denied \(|"
                r"returned error: 40[13]",
                "there is no such repository, or it wants a login, and none is asked for here: log in with git first (a credential "
                "helper such as `gh auth setup-git`, or an ssh key), until `git ls-remote` works",
            ),
            (
                r"Host key verification failed",
                "the host's key is not known: connect to it once with ssh, and compare the key",
            ),
            (
                r"certificate|SSL|TLS",
                "the host's certificate is not trusted or is another host's: check the address; for a certificate of your own set "
                "GIT_SSL_CAINFO to its file",
            ),
            (
                r"transport '[a-z]+' not allowed|[Pp]rotocol \S+ (?:not supported|disabled)",
                "the host sends us on to an address that is neither https, ssh nor a file, which is not followed",
            ),
            (
                r"repository '[^']*' not found|does not appear to be a git repository|[Rr]epository not found|no such repository",
                "there is no such repository there",
            ),
            (
                r"Failed to connect|Couldn't connect|Connection (?:refused|timed out|reset|closed)|No route to host|"
                r"[Nn]etwork is unreachable|Operation too slow|Operation timed out|Empty reply",
                "the host cannot be reached or does not answer: check the address and the connection",
            ),
        )
    ]
)
"""What git's words mean, and what can be done."""


class Git:
    """The program git in one folder.

    Args:
        folder: A repository without a working tree.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def run(self, *arguments: str, piped: bytes | None = None) -> bytes:
        """What a command of git says.

        Raises:
            SkillError: If there is no git, or it fails, or takes too long.
        """
        program = find_program("git")
        if program is None:
            raise SkillError("git is not installed, and a repository cannot be fetched without it")
        process = await asyncio.create_subprocess_exec(
            program,
            *_SAFE,
            *("-c", f"http.lowSpeedTime={_SILENT_SECONDS}"),
            *arguments,
            cwd=self._folder,
            env=_variables(),
            stdin=asyncio.subprocess.DEVNULL if piped is None else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # no terminal to ask for a password at
        )
        try:
            async with asyncio.timeout(_SECONDS):
                out, err = await process.communicate(piped)
        except TimeoutError:
            raise SkillError(f"git {arguments[0]} took more than {_SECONDS:g} seconds; try again") from None
        finally:
            if process.returncode is None:
                _end(process.pid)
                await process.wait()
        if process.returncode != 0:
            said = " ".join(redact(err.decode("utf-8", "replace")).split())[-500:]
            for pattern, meaning in _MEANINGS:
                if pattern.search(said):
                    raise _Refused(f"{meaning} (git: {said})")
            raise SkillError(f"git {arguments[0]} failed: {said or f'exit code {process.returncode}'}")
        if len(out) > _MOST_OUTPUT:
            raise SkillError(f"git {arguments[0]} gave more than {_MOST_OUTPUT >> 20} MiB")
        return out


def _end(pid: int) -> None:
    """End git with what it started: a transport of its own, ssh."""
    with suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGTERM)


async def fetch(spec: Spec, folder: Path) -> tuple[Git, str]:
    """Fetch the commit that a spec names.

    Args:
        spec: The repository.
        folder: An empty folder to fetch into.

    Returns:
        The repository, and the full name of the commit.

    Raises:
        SkillError: If it cannot be fetched, or has no such branch, tag or commit.
    """
    git = Git(folder)
    await git.run("init", "--quiet", "--bare", "--template=", ".")
    wanted = spec.ref or "HEAD"
    try:
        await _tip(git, spec, wanted)
    except SkillError as error:
        # A server may refuse a commit that is no tip, and a short one is none; where it cannot be had at all, neither can the rest.
        if isinstance(error, _Refused) or not _may_be_commit(spec.ref):
            raise SkillError(f"{spec.url}{f' at {spec.ref}' if spec.ref else ''}: {error}") from None
        await _all(git, spec)
    commit = (await git.run("rev-parse", "--verify", "--end-of-options", "refs/taken^{commit}")).decode().strip()
    return git, commit


async def _tip(git: Git, spec: Spec, wanted: str) -> None:
    """Fetch one branch or tag, with its last commit alone where the server can do that: one that only serves files cannot."""
    options = ("--quiet", "--no-tags", "--no-write-fetch-head")
    try:
        await git.run("fetch", "--depth=1", *options, spec.url, f"+{wanted}:refs/taken")
    except SkillError as error:
        if "does not support shallow" not in str(error):
            raise
        await git.run("fetch", *options, spec.url, f"+{wanted}:refs/taken")


def _may_be_commit(ref: str) -> bool:
    return 7 <= len(ref) and all(c in "0123456789abcdef" for c in ref)


async def _all(git: Git, spec: Spec) -> None:
    """Fetch every branch and tag, and take the commit from there."""
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


def _variables() -> dict[str, str]:
    """The user's variables without those that point git elsewhere; it must not ask for anything."""
    kept = {k: v for k, v in program_variables(os.environ).items() if not k.startswith("GIT_") or k in _KEPT}
    return {
        **kept,
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
