"""Attach files that a prompt mentions as ``@file``, if the permission rules allow reading them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from mainspring.env import ExecutionEnv, RealPath, explain
from mainspring.errors import ConfigError, PermissionDeniedError
from mainspring.lazy import lazy_re
from mainspring.permissions import PermissionDecision
from mainspring.prompt_tags import wrap_in_tag

_MAX_FILE_BYTES = 256 << 10
"""Maximum number of bytes to attach from one file."""

MAX_TOTAL_BYTES = 1 << 20
"""Maximum number of bytes to attach to a prompt."""

_MENTION = lazy_re(r"""(?:(?<=[\s(\["'{])|^)(\\?)@(?:"([^"\n]+)"|([^\s"'`,;:()<>\[\]{}]+))""")
_TRAILING = ".!?"


class ReadPolicy(Protocol):
    """A policy that decides whether a file may be read."""

    async def decide(
        self, tool: str, arguments: Mapping[str, Any], *, env: Any, definition: Any = None
    ) -> PermissionDecision:
        """Decide whether a call is allowed."""
        ...


def find_mentions(prompt: str) -> list[str]:
    """Return the paths that a prompt mentions, without duplicates."""
    found = [quoted or bare.rstrip(_TRAILING) for escape, quoted, bare in _MENTION.findall(prompt) if not escape]
    return list(dict.fromkeys(path for path in found if path))


async def attach_mentions(prompt: str, env: ExecutionEnv, permissions: ReadPolicy, reader: Any) -> str:
    r"""Attach the files that a prompt mentions; ``\@`` is a plain ``@``.

    Args:
        prompt: Prompt of the user.
        env: Environment of the files.
        permissions: Policy for reading files.
        reader: Tool that reads files, to which rules apply.

    Raises:
        ConfigError: If a file is missing, is not text, or the files are too large.
        PermissionDeniedError: If a rule denies reading a file.
    """
    if "@" not in prompt:
        return prompt
    blocks = await read_attachments(find_mentions(prompt), env, permissions, reader)
    plain = _MENTION.sub(lambda match: match.group(0).removeprefix("\\"), prompt)
    return "\n\n".join([plain, *blocks])


async def read_attachments(paths: Sequence[str], env: ExecutionEnv, permissions: ReadPolicy, reader: Any) -> list[str]:
    """Return the content of files, each in a tag.

    Args:
        paths: Paths as mentioned.
        env: Environment of the files.
        permissions: Policy for reading files.
        reader: Tool that reads files, to which rules apply.

    Raises:
        ConfigError: If a file is missing, is not text, or the files are too large.
        PermissionDeniedError: If a rule denies reading a file.
    """
    blocks: list[str] = []
    for path in paths:
        decision = await permissions.decide("read_file", {"path": path}, env=env, definition=reader)
        if decision.outcome != "allow":
            request = "requires approval" if decision.outcome == "ask" else "is denied"
            raise PermissionDeniedError(
                f"@{path}: Reading it {request}: {decision.reason}. Allow it with --allow 'read_file({path})', unless a rule denies it."
            )
        try:
            real = RealPath(decision.paths.get(path) or await env.realpath(path))
            blocks.append(await _read_block(path, real, env))
        except OSError as error:
            raise ConfigError(_missing_file_message(path, error)) from error
    if sum(map(len, blocks)) > MAX_TOTAL_BYTES:
        raise ConfigError("The files in the prompt are larger than 1 MiB together. Mention them without @.")
    return blocks


def _missing_file_message(path: str, error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return rf"File not found: {path!r} (the prompt mentions @{path}). If it is not a file, write \@{path}."
    return f"@{path}: {explain(error)}"


async def _read_block(path: str, real_path: RealPath, env: ExecutionEnv) -> str:
    found = await env.stat(real_path)
    if found.kind == "directory":
        names = [f"{e.name}/" if e.kind == "directory" else e.name for e in await env.list_dir(real_path)]
        return wrap_in_tag("folder", "\n".join(names), path=path)
    data = await env.read_bytes(real_path, limit=_MAX_FILE_BYTES)
    if b"\0" in data:
        raise ConfigError(f"@{path} is not a text file. Mention it without @, so that a tool can read it.")
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    if found.size > len(data):
        cut = text.rfind("\n") + 1 or len(text)
        note = f"[cut here: {len(text[:cut].splitlines())} lines of a file of {found.size} bytes; read_file shows the rest]"
        text = f"{text[:cut]}{note}"
    return wrap_in_tag("file", text, path=path)
