"""Making an image fit for a model: smaller, in a format that all of them read. Needs Pillow (extra ``images``)."""

from __future__ import annotations

import io
import warnings

from msgspec import Struct

LONGEST_EDGE = 1568
"""Pixels; providers shrink what is bigger than about that, after counting its tokens."""
MOST_PIXELS = 100_000_000
"""Images with more are not decoded: one can unpack to gigabytes."""
_QUALITIES = (85, 70, 50)


class Picture(Struct, frozen=True):
    """An image ready to be sent."""

    data: bytes
    media_type: str
    width: int
    height: int


class PictureError(ValueError):
    """The image cannot be made fit; the text says why."""


class NoPillowError(PictureError):
    """Pillow is not installed."""


def fitted(data: bytes, most_bytes: int, longest_edge: int = LONGEST_EDGE) -> Picture:
    """The image with its longest edge and its size within the limits, as PNG or JPEG. Slow; meant for a thread.

    Of several frames the first is taken; a photo is turned as its camera says.

    Raises:
        NoPillowError: If Pillow is missing.
        PictureError: If it is damaged, or cannot be made small enough.
    """
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise NoPillowError("Pillow is not installed") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about its size, which is checked here
            with Image.open(io.BytesIO(data)) as opened:
                if opened.width * opened.height > MOST_PIXELS:
                    raise PictureError(f"it has {opened.width}x{opened.height} pixels, which is too many to unpack")
                opened.draft("RGB", (longest_edge, longest_edge))
                image = ImageOps.exif_transpose(opened)
                image.thumbnail((longest_edge, longest_edge))
                has_alpha = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
                flat = image.convert("RGBA" if has_alpha else "RGB")
    except PictureError:
        raise
    except Exception as e:  # decoders raise whatever damaged data makes them raise
        raise PictureError(f"it cannot be decoded: {type(e).__name__}: {e}") from None
    tries: list[tuple[str, dict[str, int | bool]]] = [("PNG", {"optimize": True})]
    if not has_alpha:
        tries += [("JPEG", {"quality": quality, "optimize": True}) for quality in _QUALITIES]
        if data[:2] == b"\xff\xd8":
            tries = tries[1:]
    for kind, options in tries:
        out = io.BytesIO()
        flat.save(out, kind, **options)
        if out.tell() <= most_bytes:
            return Picture(out.getvalue(), f"image/{kind.lower()}", flat.width, flat.height)
    if longest_edge > 256:
        return fitted(data, most_bytes, longest_edge // 2)
    raise PictureError(f"it cannot be made smaller than {most_bytes} bytes")


def fault_of(data: bytes) -> str:
    """Why an image cannot be decoded; empty if it can, or if Pillow is missing. Slow; meant for a thread."""
    try:
        from PIL import Image
    except ImportError:
        return ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(data)) as image:
                image.load()
    except Exception as e:  # decoders raise whatever damaged data makes them raise
        return f"it cannot be decoded ({type(e).__name__})"
    return ""
