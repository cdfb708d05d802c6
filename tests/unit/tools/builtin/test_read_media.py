"""`read_file` on images, PDFs, huge files, and special files."""

import asyncio
import base64
import io
import os
import socket
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image

from mainspring.env import MemoryEnv
from mainspring.messages import ImageBlock
from mainspring.tools import ToolContext, ToolErrorCode, ToolResult
from mainspring.tools.builtin import read_file
from mainspring.tools.support.images import MAX_EDGE
from tests.requires import on_linux, on_posix


def make_image(kind: str, width: int, height: int, mode: str = "RGB", noise: bool = False, **options: Any) -> bytes:
    out = io.BytesIO()
    if noise:
        image = Image.frombytes(mode, (width, height), os.urandom(width * height * len(mode)))
    else:
        image = Image.new(mode, (width, height), "red")
    image.save(out, kind, **options)
    return out.getvalue()


def decode_image(result: ToolResult) -> Image.Image:
    assert not isinstance(result.output, str), result.output
    [block] = [b for b in result.output if isinstance(b, ImageBlock)]
    image = Image.open(io.BytesIO(base64.b64decode(block.data)))
    assert block.media_type == f"image/{str(image.format).lower()}"
    return image


async def read_bytes(data: bytes, name: str = "file", **arguments: Any) -> ToolResult:
    return await read_file(ToolContext(env=MemoryEnv({name: data})), path=name, **arguments)


@pytest.mark.covers("BYD-27")
@pytest.mark.parametrize(("kind", "mode"), [("PNG", "RGBA"), ("JPEG", "RGB"), ("GIF", "P"), ("WEBP", "RGB")])
async def test_large_image_is_scaled_down(kind: str, mode: str) -> None:
    result = await read_bytes(make_image(kind, 3000, 1500, mode))
    assert decode_image(result).size == (MAX_EDGE, MAX_EDGE // 2)
    assert "3000x1500" in result.text


@pytest.mark.covers("BYD-27")
async def test_image_with_many_bytes_is_compressed() -> None:
    data = make_image("PNG", 1500, 1500, noise=True)
    assert len(data) > 3_750_000
    image = decode_image(await read_bytes(data))
    assert image.format == "JPEG"


@pytest.mark.parametrize("kind", ["BMP", "TIFF", "ICO"])
async def test_other_formats_are_converted(kind: str) -> None:
    assert decode_image(await read_bytes(make_image(kind, 32, 32))).format == "PNG"


async def test_small_image_is_unchanged() -> None:
    data = make_image("PNG", 20, 10)
    result = await read_bytes(data)
    assert isinstance(result.output, tuple)
    assert result.output[1] == ImageBlock("image/png", base64.b64encode(data).decode())


async def test_exif_orientation_is_applied() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    assert decode_image(await read_bytes(make_image("JPEG", 2000, 1000, exif=exif))).size == (MAX_EDGE // 2, MAX_EDGE)


@pytest.mark.covers("BYD-27")
async def test_image_with_too_many_pixels_is_rejected() -> None:
    result = await read_bytes(make_image("PNG", 20_000, 6_000, "1"))
    assert isinstance(result.output, str)
    assert "20000x6000 pixels, which is too many" in result.text


@pytest.mark.covers("BYD-27")
@settings(max_examples=60)
@given(st.sampled_from(["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"]), st.data())
def test_damaged_image_is_text_or_decodable(kind: str, data: st.DataObject) -> None:
    """A truncated or changed image either still decodes, or the result is text."""
    whole = make_image(kind, data.draw(st.sampled_from([1600, 60])), 3)
    broken = bytearray(whole[: data.draw(st.integers(10, len(whole)))])
    at = data.draw(st.integers(0, len(broken) - 1))
    broken[at] ^= data.draw(st.integers(0, 255))
    result = asyncio.run(read_bytes(bytes(broken)))
    if not isinstance(result.output, str):
        decode_image(result).load()


@pytest.mark.covers("BYD-27")
async def test_image_that_needs_pillow_is_an_error_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    fine, *others = make_image("PNG", 3000, 20), make_image("BMP", 32, 32), make_image("PNG", 9000, 2)
    others.append(fine + b"\0" * 4_000_000)
    monkeypatch.setitem(sys.modules, "PIL", None)
    for data in others:
        result = await read_bytes(data)
        assert "[images]'" in result.text
        assert isinstance(result.output, str)
    assert not isinstance((await read_bytes(fine)).output, str)


# --- PDF ------------------------------------------------------------------------------------------------------------------


def make_pdf(*pages: str) -> bytes:
    """Create a PDF with one line of text per page; an empty string creates a page without text."""
    objects: list[bytes] = []
    kids = " ".join(f"{4 + 2 * i} 0 R" for i in range(len(pages)))
    objects.append(b"<< /Type /Catalog /Pages 2 0 R >>")
    objects.append(f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode())
    objects.append(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for i, text in enumerate(pages):
        resources = "/Resources << /Font << /F1 3 0 R >> >>"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 300] {resources} /Contents {5 + 2 * i} 0 R >>".encode()
        )
        stream = f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET".encode() if text else b""
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
    out = bytearray(b"%PDF-1.4\n")
    offsets: list[int] = []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, start)
    return bytes(out)


@pytest.mark.covers("BYD-27")
async def test_pdf_text_is_read_by_page() -> None:
    data = make_pdf("First page", "Second page", "", "Fourth page")
    whole = await read_bytes(data)
    assert whole.text == (
        "--- page 1 ---\nFirst page\n--- page 2 ---\nSecond page\n--- page 3 ---\n(no text; it may be a picture)\n"
        "--- page 4 ---\nFourth page\n(PDF, pages 1-4 of 4)"
    )
    assert whole.metadata["without_text"] == 1
    assert (await read_bytes(data, pages="2")).text == (
        "--- page 2 ---\nSecond page\n(PDF, pages 2-2 of 4; continue with pages=3-)"
    )
    assert (await read_bytes(data, pages="4-")).text.endswith("(PDF, pages 4-4 of 4)")
    some = await read_bytes(data, max_bytes=70)
    assert some.text.endswith("(PDF, pages 1-2 of 4, stopped at max_bytes; continue with pages=3-)")
    assert "more characters on this page" in (await read_bytes(data, max_bytes=20)).text


@pytest.mark.parametrize("pages", ["0", "5", "3-2", "x", "-2"])
async def test_missing_pages_are_an_error(pages: str) -> None:
    result = await read_bytes(make_pdf("a", "b"), pages=pages)
    assert result.code == ToolErrorCode.VALIDATION_ERROR
    assert "has 2 pages" in result.text


async def test_invalid_pdf_is_an_error() -> None:
    result = await read_bytes(b"%PDF-1.7\n\0\0")
    assert result.code == ToolErrorCode.IO_ERROR
    assert "(a PDF) cannot be read: it is damaged" in result.text


@settings(max_examples=60)
@given(st.data())
def test_damaged_pdf_does_not_raise(data: st.DataObject) -> None:
    whole = make_pdf("First page", "Second page")
    broken = bytearray(whole[: data.draw(st.integers(20, len(whole)))])
    broken[data.draw(st.integers(8, len(broken) - 1))] ^= data.draw(st.integers(0, 255))
    result = asyncio.run(read_bytes(bytes(broken)))
    assert isinstance(result.output, str)
    assert "page" in result.text or "cannot be read" in result.text


async def test_missing_pypdf_is_an_error_with_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    result = await read_bytes(make_pdf("x"))
    assert result.code == ToolErrorCode.CONFIG_ERROR
    assert "[pdf]'" in result.text


async def test_encrypted_pdf_is_an_error() -> None:
    from pypdf import PdfReader, PdfWriter

    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(make_pdf("secret"))))
    writer.encrypt("password", algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    assert "protected by a password" in (await read_bytes(out.getvalue())).text


# --- huge and special files -----------------------------------------------------------------------------------------------


async def test_huge_file_is_read_with_little_memory(ctx: ToolContext, project: Path) -> None:
    with open(project / "big.txt", "wb") as file:
        file.write(b"line of text\n" * 20_000)
        file.truncate(2 << 30)
    tracemalloc.start()
    try:
        result = await read_file(ctx, path="big.txt", limit=3)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.text.startswith("1\tline of text\n2\tline of text\n3\tline of text\n(lines 1-3 of more than 20001")
    assert peak < 40_000_000


async def test_lines_after_the_counted_part_can_be_read(ctx: ToolContext, project: Path) -> None:
    with open(project / "big.txt", "wb") as file:
        file.write(b"a\n" * 50_000)
        file.seek(300 << 20)
        file.write(b"\nlast\n")
    assert (await read_file(ctx, path="big.txt", offset=50_002)).text.startswith("50002\tlast\n")


@on_posix
async def test_endless_or_blocking_files_are_rejected(
    ctx: ToolContext, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(project / "pipe")
    listener = socket.socket(socket.AF_UNIX)
    try:
        monkeypatch.chdir(project)  # socket names have a short maximum length
        listener.bind("socket")
        (project / "zero").symlink_to("/dev/zero")
        for name, kind in (("pipe", "fifo"), ("socket", "socket"), ("zero", "device"), ("/dev/urandom", "device")):
            result = await read_file(ctx, path=name)
            assert result.is_error
            assert f"not a regular file but a {kind}" in result.text
    finally:
        listener.close()


@on_linux
async def test_kernel_files_are_read_or_rejected_without_blocking(ctx: ToolContext) -> None:
    assert "MemTotal" in (await read_file(ctx, path="/proc/meminfo")).text
    for name in ("/proc/self/mem", "/proc/kmsg", f"/proc/{os.getpid()}/task/{os.getpid()}/pagemap"):
        assert "interface to the kernel" in (await read_file(ctx, path=name)).text
    assert (await read_file(ctx, path="/proc/self/fd/0")).is_error
