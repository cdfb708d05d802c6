"""Attach files that a prompt mentions as ``@file``, if the permission rules allow reading them."""

from __future__ import annotations

import asyncio
import base64
import os
import stat
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from mainspring.env import ExecutionEnv, RealPath, explain
from mainspring.errors import ConfigError, PermissionDeniedError
from mainspring.lazy import lazy_re
from mainspring.messages import ImageBlock
from mainspring.permissions import PermissionDecision
from mainspring.permissions.paths import TOO_LONG, is_too_long
from mainspring.prompt_tags import wrap_in_tag
from mainspring.text import pluralize, truncate_end
from mainspring.tools.support.images import (
    MAX_EDGE,
    MAX_IMAGE_BYTES,
    MAX_IMAGE_EDGE,
    ImageError,
    inspect_image,
    is_image,
    shrink_image,
)
from mainspring.tools.support.text_files import decode_text, replace_surrogates

if TYPE_CHECKING:
    from mainspring.models import ModelInfo

_MAX_FILE_BYTES = 256 << 10
"""Maximum number of bytes to attach from one file."""

_MAX_IMAGE_FILE_BYTES = 64 << 20
"""Maximum number of bytes of an image file, which is made smaller if needed."""

MAX_TOTAL_BYTES = 1 << 20
"""Maximum number of bytes to attach to a prompt."""

_MENTION = lazy_re(
    r"""(?:(?<=[\s(\["'{])|^)(\\?)@(?:"([^"\n]+)"|((?:\\[^\w\n]|\\(?![^\w\n])|[^\s"'`,;:()<>\[\]{}\\])+))"""
)
_ESCAPED = lazy_re(r"\\([^\w\n])")
"""A character that a terminal escapes in the path of a file that is dropped into it, such as a space."""
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
    found = [
        quoted or _ESCAPED.sub(r"\1", bare.rstrip(_TRAILING))
        for escape, quoted, bare in _MENTION.findall(prompt)
        if not escape
    ]
    return list(dict.fromkeys(path for path in found if path))


def format_mention(path: str) -> str:
    """Return the text that mentions a path, quoted if needed."""
    is_plain = _MENTION.fullmatch(f"@{path}") is not None and find_mentions(f"@{path}") == [path]
    return f"@{path}" if is_plain or '"' in path else f'@"{path}"'


def is_attachable(path: str) -> bool:
    """Return True if a mention of a path can be attached: a folder, an image, or a text file that exists."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return os.path.isdir(path)
        with open(path, "rb") as file:
            start = file.read(_MAX_FILE_BYTES)
    except PermissionError:
        return True  # the error of the mention contains the reason
    except OSError:
        return False
    return b"\0" not in start or is_image(start)


class MentionReader:
    """Reads the files that a prompt mentions.

    Args:
        env: Environment of the files.
        permissions: Policy for reading files.
        reader: Tool that reads files, to which rules apply.
        ask: Asks the user about a file that needs approval, and returns True if it is allowed. Without it, such a file is an error.
        with_images: Whether images are attached.
    """

    def __init__(
        self,
        env: ExecutionEnv,
        permissions: ReadPolicy,
        reader: Any,
        *,
        ask: Callable[[PermissionDecision, str], Awaitable[bool]] | None = None,
        with_images: bool = False,
    ) -> None:
        self._env = env
        self._permissions = permissions
        self._reader = reader
        self._ask = ask
        self._with_images = with_images
        self.images: list[ImageBlock] = []
        """The images that were read."""
        self.notes: list[str] = []
        """What the user must know about the files: which are attached in part."""

    async def attach(self, prompt: str) -> str:
        r"""Attach the files that a prompt mentions; ``\@`` is a plain ``@``.

        Raises:
            ConfigError: If a file is missing, is not text, or the files are too large.
            PermissionDeniedError: If reading a file is denied.
        """
        if "@" not in prompt:
            return prompt
        blocks = await self.read(find_mentions(prompt))
        plain = _MENTION.sub(lambda match: match.group(0).removeprefix("\\"), prompt)
        return "\n\n".join([plain, *blocks])

    async def read(self, paths: Sequence[str]) -> list[str]:
        """Return the content of files, each in a tag.

        Args:
            paths: Paths as mentioned.

        Raises:
            ConfigError: If a file is missing, is not text, or the files are too large.
            PermissionDeniedError: If reading a file is denied.
        """
        blocks: list[str] = []
        for path in paths:
            if is_too_long(path):
                shown = truncate_end(path, 100)
                raise ConfigError(
                    rf"File not found: {shown!r}: {TOO_LONG}. If it is not a file, write \@ instead of @."
                )
            decision = await self._permissions.decide(
                "read_file", {"path": path}, env=self._env, definition=self._reader
            )
            if decision.outcome != "allow":
                await self._require_approval(path, decision)
            try:
                real = RealPath(decision.paths.get(path) or await self._env.realpath(path))
                blocks.append(await self._read_block(path, real))
            except OSError as error:
                raise ConfigError(_missing_file_message(path, error)) from error
        if sum(map(len, blocks)) > MAX_TOTAL_BYTES:
            raise ConfigError("The files in the prompt are larger than 1 MiB together. Mention them without @.")
        return blocks

    async def _require_approval(self, path: str, decision: PermissionDecision) -> None:
        can_ask = self._ask is not None and decision.outcome == "ask"
        if can_ask and self._ask is not None and await self._ask(decision, path):
            return
        if can_ask:
            raise PermissionDeniedError(f"@{path}: You denied reading it. Mention it without @, or allow it.")
        request = "requires approval" if decision.outcome == "ask" else "is denied"
        raise PermissionDeniedError(
            f"@{path}: Reading it {request}: {decision.reason}. Allow it with --allow 'read_file({path})', unless a rule denies it."
        )

    async def _read_block(self, path: str, real_path: RealPath) -> str:
        env = self._env
        found = await env.stat(real_path)
        if found.kind == "directory":
            names = [f"{e.name}/" if e.kind == "directory" else e.name for e in await env.list_dir(real_path)]
            return wrap_in_tag("folder", "\n".join(names), path=path)
        data = await env.read_bytes(real_path, limit=_MAX_FILE_BYTES)
        if self._with_images and is_image(data):
            image = await fit_image(f"@{path}", await env.read_bytes(real_path, limit=_MAX_IMAGE_FILE_BYTES + 1))
            self.images.append(image)
            return wrap_in_tag("file", f"[the image is attached: {image.media_type}]", path=path)
        if found.size > len(data):
            data = data[: data.rfind(b"\n") + 1] or data  # no part of a character
        document = await asyncio.to_thread(decode_text, data)
        if document is None:
            raise ConfigError(f"@{path} is not a text file. Mention it without @, so that a tool can read it.")
        text = replace_surrogates(document.text)
        if found.size > len(data):
            cut = text.rfind("\n") + 1 or len(text)
            lines = len(text[:cut].splitlines())
            note = f"[cut here: {lines} lines of a file of {found.size} bytes; read_file shows the rest]"
            text = f"{text[:cut]}{note}"
            self.notes.append(
                f"Attached only the first {pluralize(lines, 'line')} ({cut >> 10} KiB) of {path} ({found.size >> 10} KiB). "
                "The agent can read the rest."
            )
        return wrap_in_tag("file", text, path=path)


async def fit_image(name: str, data: bytes) -> ImageBlock:
    """Return an image, made smaller if models do not accept its size.

    Args:
        name: Its name, for errors.
        data: Its bytes.

    Raises:
        ConfigError: If it is not an image, or too large.
    """
    if len(data) > _MAX_IMAGE_FILE_BYTES:
        raise ConfigError(f"{name} is larger than {_MAX_IMAGE_FILE_BYTES >> 20} MiB, the limit for images.")
    image = await asyncio.to_thread(inspect_image, data)
    if image.fault:
        raise ConfigError(f"{name} cannot be attached: {image.fault}.")
    media_type = image.media_type
    if len(data) > MAX_IMAGE_BYTES or max(image.width, image.height) > MAX_EDGE:
        try:
            fit = await asyncio.to_thread(shrink_image, data, MAX_IMAGE_BYTES)
        except ImageError as error:
            if len(data) > MAX_IMAGE_BYTES or max(image.width, image.height) > MAX_IMAGE_EDGE:
                raise ConfigError(f"{name} is too large to attach, and cannot be made smaller: {error}.") from None
        else:
            data, media_type = fit.data, fit.media_type
    return ImageBlock(media_type, base64.b64encode(data).decode())


async def attach_mentions(
    prompt: str, env: ExecutionEnv, permissions: ReadPolicy, reader: Any, notify: Callable[[str], object]
) -> tuple[str, list[ImageBlock]]:
    """Attach the files that a prompt mentions, and return its images separately. See `MentionReader`.

    Args:
        prompt: The prompt.
        env: Environment of the files.
        permissions: Policy for reading files.
        reader: Tool that reads files, to which rules apply.
        notify: Called with each note for the user.
    """
    files = MentionReader(env, permissions, reader, with_images=True)
    text = await files.attach(prompt)
    for note in files.notes:
        notify(note)
    return text, files.images


def require_vision(info: ModelInfo, name: str) -> None:
    """Check that a model accepts images.

    Args:
        info: The model.
        name: Its name, as the user selects it.

    Raises:
        ConfigError: If it does not.
    """
    if not info.vision:
        raise ConfigError(
            f"{name} does not accept images. Remove the image, or use another model. If the model does accept images, "
            f"set providers.{info.provider}.vision to true."
        )


async def read_attachments(paths: Sequence[str], env: ExecutionEnv, permissions: ReadPolicy, reader: Any) -> list[str]:
    """Return the content of text files, each in a tag. See `MentionReader`."""
    return await MentionReader(env, permissions, reader).read(paths)


def _missing_file_message(path: str, error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return rf"File not found: {path!r} (the prompt mentions @{path}). If it is not a file, write \@{path}."
    return f"@{path}: {explain(error)}"
