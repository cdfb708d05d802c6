"""What a prompt of an editor says, as a text with attachments."""

from __future__ import annotations

import binascii
import os
from base64 import b64decode
from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from acp import RequestError, schema

from mainspring.app.chat.commands import Attachment

Block = (
    schema.TextContentBlock
    | schema.ImageContentBlock
    | schema.AudioContentBlock
    | schema.ResourceContentBlock
    | schema.EmbeddedResourceContentBlock
)


def parse_prompt(blocks: Sequence[Block], cwd: str) -> tuple[str, tuple[Attachment, ...]]:
    """The text of a prompt, and what comes with it. A link to a file is a mention: the file is attached, as the rules let it.

    Args:
        blocks: The prompt.
        cwd: The folder of the session.

    Raises:
        RequestError: If something in it cannot be used; the whole prompt is refused then.
    """
    text: list[str] = []
    attached: list[Attachment] = []
    for block in blocks:
        match block:
            case schema.TextContentBlock():
                text.append(block.text)
            case schema.ImageContentBlock():
                attached.append(Attachment(media_type=_image(block.mime_type), data=_bytes(block.data, "an image")))
            case schema.ResourceContentBlock():
                text.append(_link_text(block.uri, block.name, cwd))
            case schema.EmbeddedResourceContentBlock():
                attached.append(_embedded_attachment(block.resource, cwd))
            case _:
                raise RequestError.invalid_params({"details": "audio is not understood; send text or images"})
    return "".join(text), tuple(attached)


def path_from_uri(uri: str) -> str | None:
    """The path of a ``file:`` address; ``None`` for any other."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or "\0" in unquote(parts.path):
        return None
    return unquote(parts.path) or None


def _mention(uri: str, cwd: str) -> str:
    path = path_from_uri(uri)
    if path is None:
        return uri
    inside = os.path.relpath(path, cwd)
    return path if inside.startswith("..") else inside


def _link_text(uri: str, name: str, cwd: str) -> str:
    if path_from_uri(uri) is None:
        return f"{name} ({uri})" if name and name != uri else uri
    path = _mention(uri, cwd)
    if '"' in path or "\n" in path:  # a mention has no form for it
        return path
    return f' @"{path}" '


def _embedded_attachment(resource: schema.TextResourceContents | schema.BlobResourceContents, cwd: str) -> Attachment:
    name = _mention(resource.uri, cwd)
    if isinstance(resource, schema.TextResourceContents):
        return Attachment(media_type="text/plain", text=resource.text, name=name)
    kind = resource.mime_type or ""
    if not kind.startswith("image/"):
        why = f"{name} is {kind or 'of an unknown kind'}; send text or images, or a link to the file"
        raise RequestError.invalid_params({"details": why})
    return Attachment(media_type=_image(kind), data=_bytes(resource.blob, name), name=name)


def _image(kind: str) -> str:
    if not kind.startswith("image/"):
        raise RequestError.invalid_params({"details": f"an image is of a kind like image/png, not {kind[:80]!r}"})
    return kind


def _bytes(data: str, what: str) -> bytes:
    try:
        return b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise RequestError.invalid_params({"details": f"the data of {what} is no base64"}) from None
