"""``@file`` in a prompt: the file's content is attached, as far as the rules let it be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from mainspring.env import ExecutionEnv, RealPath, explain
from mainspring.errors import ConfigError, PermissionDeniedError
from mainspring.lazy import lazy_re
from mainspring.permissions import PermissionDecision
from mainspring.prompt_tags import wrap_in_tag

_MAX_FILE_BYTES = 256 << 10
"""Bytes that are attached of one file."""

MAX_TOTAL_BYTES = 1 << 20
"""Bytes that are attached of all files of a prompt."""

_MENTION = lazy_re(r"""(?:(?<=[\s(\["'{])|^)(\\?)@(?:"([^"\n]+)"|([^\s"'`,;:()<>\[\]{}]+))""")
_TRAILING = ".!?"


class ReadPolicy(Protocol):
    """Says whether a file may be read."""

    async def decide(
        self, tool: str, arguments: Mapping[str, Any], *, env: Any, definition: Any = None
    ) -> PermissionDecision:
        """What would be decided about a call."""
        ...


def find_mentions(prompt: str) -> list[str]:
    """The paths that a prompt mentions, each once."""
    found = [quoted or bare.rstrip(_TRAILING) for escape, quoted, bare in _MENTION.findall(prompt) if not escape]
    return list(dict.fromkeys(path for path in found if path))


async def attach_mentions(prompt: str, env: ExecutionEnv, permissions: ReadPolicy, reader: Any) -> str:
    r"""The prompt with the files that it mentions; ``\@`` is a plain ``@``.

    Args:
        prompt: What the user wrote.
        env: Where the files are.
        permissions: Decides whether they may be read.
        reader: The tool that reads files, for the rules about it.

    Raises:
        ConfigError: If a file is missing, is no text, or there is too much of it.
        PermissionDeniedError: If a rule does not let it be read.
    """
    if "@" not in prompt:
        return prompt
    blocks = await read_attachments(find_mentions(prompt), env, permissions, reader)
    plain = _MENTION.sub(lambda match: match.group(0).removeprefix("\\"), prompt)
    return "\n\n".join([plain, *blocks])


async def read_attachments(paths: Sequence[str], env: ExecutionEnv, permissions: ReadPolicy, reader: Any) -> list[str]:
    """The content of files, each between marks.

    Args:
        paths: The files, as they were spelled.
        env: Where they are.
        permissions: Decides whether they may be read.
        reader: The tool that reads files, for the rules about it.

    Raises:
        ConfigError: If a file is missing, is no text, or there is too much of it.
        PermissionDeniedError: If a rule does not let it be read.
    """
    blocks: list[str] = []
    for path in paths:
        decision = await permissions.decide("read_file", {"path": path}, env=env, definition=reader)
        if decision.outcome != "allow":
            request = "is not allowed without asking" if decision.outcome == "ask" else "is denied"
            raise PermissionDeniedError(
                f"@{path}: reading it {request}: {decision.reason}; --allow 'read_file({path})' allows it unless a rule denies it"
            )
        try:
            real = RealPath(decision.paths.get(path) or await env.realpath(path))
            blocks.append(await _read_block(path, real, env))
        except OSError as error:
            raise ConfigError(_missing_file_message(path, error)) from error
    if sum(map(len, blocks)) > MAX_TOTAL_BYTES:
        raise ConfigError("the files that the prompt mentions are larger than 1 MiB together; name them without @")
    return blocks


def _missing_file_message(path: str, error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return rf"there is no file {path!r} here (the prompt mentions @{path}); write \@{path} if no file is meant"
    return f"@{path}: {explain(error)}"


async def _read_block(path: str, real_path: RealPath, env: ExecutionEnv) -> str:
    found = await env.stat(real_path)
    if found.kind == "directory":
        names = [f"{e.name}/" if e.kind == "directory" else e.name for e in await env.list_dir(real_path)]
        return wrap_in_tag("folder", "\n".join(names), path=path)
    data = await env.read_bytes(real_path, limit=_MAX_FILE_BYTES)
    if b"\0" in data:
        raise ConfigError(f"@{path} is no text file; name it without @, so that a tool can look at it")
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    if found.size > len(data):
        cut = text.rfind("\n") + 1 or len(text)
        note = f"[cut here: {len(text[:cut].splitlines())} lines of a file of {found.size} bytes; read_file shows the rest]"
        text = f"{text[:cut]}{note}"
    return wrap_in_tag("file", text, path=path)
