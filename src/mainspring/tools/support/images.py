"""Detect file types by content, validate images, and convert images for a model.

The conversion needs Pillow (extra ``images``).
"""

from __future__ import annotations

import io
import struct
import warnings
import zlib

from msgspec import Struct

from mainspring.errors import format_exception

MAX_IMAGE_BYTES = 3_750_000
"""Maximum size of an image: providers reject larger images, measured in base64."""


MAX_IMAGE_EDGE = 8000
"""Maximum edge in pixels: providers reject larger images."""


_TYPES: tuple[tuple[bytes, str], ...] = (
    (b"\x7fELF", "ELF program"),
    (b"MZ", "Windows program"),
    (b"\xcf\xfa\xed\xfe", "macOS program"),
    (b"\xca\xfe\xba\xbe", "Java class or macOS program"),
    (b"\0asm", "WebAssembly"),
    (b"%PDF-", "PDF"),
    (b"PK\x03\x04", "zip archive (also docx, xlsx, jar, wheel)"),
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"(\xb5/\xfd", "zstd"),
    (b"7z\xbc\xaf'\x1c", "7z archive"),
    (b"SQLite format 3\0", "SQLite database"),
    (b"\x89PNG\r\n\x1a\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"BM", "BMP image"),
    (b"II*\0", "TIFF image"),
    (b"MM\0*", "TIFF image"),
    (b"\0\0\1\0", "icon"),
    (b"OggS", "Ogg audio or video"),
    (b"ID3", "MP3 audio"),
    (b"fLaC", "FLAC audio"),
    (b"wOFF", "font"),
    (b"wOF2", "font"),
    (b"\0\1\0\0", "font"),
)


class ImageInfo(Struct, frozen=True):
    """An image, or the reason why it cannot be shown.

    Attributes:
        media_type: Media type, for example ``image/png``.
        width: Width in pixels.
        height: Height in pixels.
        fault: Reason why the image cannot be shown; empty if it can.
    """

    media_type: str
    width: int = 0
    height: int = 0
    fault: str = ""


def describe_file_type(data: bytes) -> str:
    """Return a description of the bytes' file type."""
    if data[:4] == b"RIFF":
        return {b"WEBP": "WebP image", b"WAVE": "WAV audio", b"AVI ": "AVI video"}.get(data[8:12], "RIFF container")
    if data[4:8] == b"ftyp":
        return "MP4, HEIC or AVIF media"
    return next((name for magic, name in _TYPES if data.startswith(magic)), "unknown kind of data")


def is_image(data: bytes) -> bool:
    """Return True if the bytes begin an image in a format that models accept."""
    is_webp = data[:4] == b"RIFF" and data[8:12] == b"WEBP"
    return is_webp or data.startswith((b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a"))


def is_convertible(data: bytes) -> bool:
    """Return True if the bytes begin an image that must be converted for models."""
    if data[:2] == b"BM":
        return len(data) > 26 and data[6:10] == b"\0\0\0\0"
    return data.startswith((b"II*\0", b"MM\0*")) or (data[:4] == b"\0\0\1\0" and data[4:6] != b"\0\0")


def inspect_image(data: bytes) -> ImageInfo:
    """Inspect the whole file. A large file takes a few milliseconds."""
    if data.startswith(b"\x89PNG"):
        return _make_info("image/png", _png(data), "it is cut off or damaged")
    if data.startswith(b"\xff\xd8"):
        return _make_info("image/jpeg", _jpeg(data), "it is cut off or damaged")
    if data.startswith(b"GIF8"):
        is_complete = len(data) > 13 and data.rstrip(b"\0")[-1:] == b";"
        return _make_info("image/gif", struct.unpack("<HH", data[6:10]) if is_complete else None, "it is cut off")
    return _make_info("image/webp", _webp(data), "it is cut off or damaged")


def _make_info(media_type: str, size: tuple[int, int] | None, fault: str) -> ImageInfo:
    if size is None or 0 in size:
        return ImageInfo(media_type, fault=fault)
    return ImageInfo(media_type, *size)


def _png(data: bytes) -> tuple[int, int] | None:
    """Return width and height, if every part up to the end exists and has the right checksum."""
    at, size, has_pixels = 8, None, False
    while at + 12 <= len(data):
        length, name = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + length]
        check = data[at + 8 + length : at + 12 + length]
        if len(body) < length or len(check) < 4 or struct.unpack(">I", check)[0] != zlib.crc32(name + body):
            return None
        if name == b"IHDR" and length == 13:
            size = struct.unpack(">II", body[:8])
        has_pixels = has_pixels or name == b"IDAT"
        if name == b"IEND":
            return size if has_pixels else None
        at += 12 + length
    return None


def _jpeg(data: bytes) -> tuple[int, int] | None:
    """Return width and height from the frame header, if the image is complete."""
    if data.rfind(b"\xff\xd9") < 0:
        return None
    at = 2
    while at + 9 < len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + struct.unpack(">H", data[at + 2 : at + 4])[0]
    return None


def _webp(data: bytes) -> tuple[int, int] | None:
    if len(data) < 30 or struct.unpack("<I", data[4:8])[0] + 8 > len(data):
        return None
    kind = data[12:16]
    if kind == b"VP8X":
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 ":
        width, height = struct.unpack("<HH", data[26:30])
        return width & 0x3FFF, height & 0x3FFF
    return None


MAX_EDGE = 1568
"""Maximum edge in pixels: providers shrink larger images, after counting their tokens."""
MAX_PIXELS = 100_000_000
"""Maximum number of pixels to decode: a larger image can expand to gigabytes."""
_QUALITIES = (85, 70, 50)


class EncodedImage(Struct, frozen=True):
    """An image that is ready to send."""

    data: bytes
    media_type: str
    width: int
    height: int


class ImageError(ValueError):
    """The image cannot be converted; the message contains the reason."""


class PillowMissingError(ImageError):
    """Pillow is not installed."""


def shrink_image(data: bytes, max_bytes: int, max_edge: int = MAX_EDGE) -> EncodedImage:
    """Return the image with its longest edge and its size within the limits, as PNG or JPEG.

    Slow; run it in a thread.

    Only the first of several frames is used; a photo is rotated according to its camera orientation.

    Raises:
        PillowMissingError: Pillow is not installed.
        ImageError: The image is damaged, or cannot be made small enough.
    """
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise PillowMissingError("Pillow is not installed") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warns about the size, which is checked here
            with Image.open(io.BytesIO(data)) as opened:
                if opened.width * opened.height > MAX_PIXELS:
                    raise ImageError(f"it has {opened.width}x{opened.height} pixels, which is too many to unpack")
                opened.draft("RGB", (max_edge, max_edge))
                image = ImageOps.exif_transpose(opened)
                image.thumbnail((max_edge, max_edge))
                has_alpha = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
                flat = image.convert("RGBA" if has_alpha else "RGB")
    except ImageError:
        raise
    except Exception as e:  # decoders raise arbitrary exceptions for damaged data
        raise ImageError(f"it cannot be decoded: {format_exception(e)}") from None
    tries: list[tuple[str, dict[str, int | bool]]] = [("PNG", {"optimize": True})]
    if not has_alpha:
        tries += [("JPEG", {"quality": quality, "optimize": True}) for quality in _QUALITIES]
        if data[:2] == b"\xff\xd8":
            tries = tries[1:]
    for kind, options in tries:
        out = io.BytesIO()
        flat.save(out, kind, **options)
        if out.tell() <= max_bytes:
            return EncodedImage(out.getvalue(), f"image/{kind.lower()}", flat.width, flat.height)
    if max_edge > 256:
        return shrink_image(data, max_bytes, max_edge // 2)
    raise ImageError(f"it cannot be made smaller than {max_bytes} bytes")


def image_error(data: bytes) -> str:
    """Return why an image cannot be decoded; empty if it can, or if Pillow is missing.

    Slow; run it in a thread.
    """
    try:
        from PIL import Image
    except ImportError:
        return ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(data)) as image:
                image.load()
    except Exception as e:  # decoders raise arbitrary exceptions for damaged data
        return f"it cannot be decoded ({type(e).__name__})"
    return ""
