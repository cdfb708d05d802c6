"""`read_file` on images, PDFs, huge files and what is no file at all."""

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
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from mainspring.env import MemoryEnv
from mainspring.messages import ImageBlock
from mainspring.tools import ToolContext, ToolErrorCode, ToolResult
from mainspring.tools.builtin import read_file
from mainspring.tools.support.images import MAX_EDGE
from tests.requires import on_linux, on_posix


def picture(kind: str, width: int, height: int, mode: str = "RGB", noise: bool = False, **options: Any) -> bytes:
    out = io.BytesIO()
    if noise:
        image = Image.frombytes(mode, (width, height), os.urandom(width * height * len(mode)))
    else:
        image = Image.new(mode, (width, height), "red")
    image.save(out, kind, **options)
    return out.getvalue()


def shown(result: ToolResult) -> Image.Image:
    assert not isinstance(result.output, str), result.output
    [block] = [b for b in result.output if isinstance(b, ImageBlock)]
    image = Image.open(io.BytesIO(base64.b64decode(block.data)))
    assert block.media_type == f"image/{str(image.format).lower()}"
    return image


async def read(data: bytes, name: str = "file", **arguments: Any) -> ToolResult:
    return await read_file(ToolContext(env=MemoryEnv({name: data})), path=name, **arguments)


@pytest.mark.covers("BYD-27")
@pytest.mark.parametrize(("kind", "mode"), [("PNG", "RGBA"), ("JPEG", "RGB"), ("GIF", "P"), ("WEBP", "RGB")])
async def test_a_big_image_is_made_smaller(kind: str, mode: str) -> None:
    result = await read(picture(kind, 3000, 1500, mode))
    assert shown(result).size == (MAX_EDGE, MAX_EDGE // 2)
    assert "3000x1500" in result.text


@pytest.mark.covers("BYD-27")
async def test_an_image_of_many_bytes_is_made_smaller() -> None:
    data = picture("PNG", 1500, 1500, noise=True)
    assert len(data) > 3_750_000
    image = shown(await read(data))
    assert image.format == "JPEG"


@pytest.mark.parametrize("kind", ["BMP", "TIFF", "ICO"])
async def test_rarer_kinds_are_converted(kind: str) -> None:
    assert shown(await read(picture(kind, 32, 32))).format == "PNG"


async def test_a_small_image_goes_as_it_is() -> None:
    data = picture("PNG", 20, 10)
    result = await read(data)
    assert isinstance(result.output, tuple)
    assert result.output[1] == ImageBlock("image/png", base64.b64encode(data).decode())


async def test_a_photo_is_turned_as_its_camera_says() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    assert shown(await read(picture("JPEG", 2000, 1000, exif=exif))).size == (MAX_EDGE // 2, MAX_EDGE)


@pytest.mark.covers("BYD-27")
async def test_an_image_that_unpacks_to_too_much_is_refused() -> None:
    result = await read(picture("PNG", 20_000, 6_000, "1"))
    assert isinstance(result.output, str)
    assert "20000x6000 pixels, which is too many" in result.text


@pytest.mark.covers("BYD-27")
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"]), st.data())
def test_a_damaged_image_is_never_sent_as_one(kind: str, data: st.DataObject) -> None:
    """Cut off or with a byte changed: either it still decodes, or the answer is text."""
    whole = picture(kind, data.draw(st.sampled_from([1600, 60])), 3)
    broken = bytearray(whole[: data.draw(st.integers(10, len(whole)))])
    at = data.draw(st.integers(0, len(broken) - 1))
    broken[at] ^= data.draw(st.integers(0, 255))
    result = asyncio.run(read(bytes(broken)))
    if not isinstance(result.output, str):
        shown(result).load()


@pytest.mark.covers("BYD-27")
async def test_without_pillow_what_cannot_be_sent_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    fine, *others = picture("PNG", 3000, 20), picture("BMP", 32, 32), picture("PNG", 9000, 2)
    others.append(fine + b"\0" * 4_000_000)
    monkeypatch.setitem(sys.modules, "PIL", None)
    for data in others:
        result = await read(data)
        assert "[images]'" in result.text
        assert isinstance(result.output, str)
    assert not isinstance((await read(fine)).output, str)


# --- PDF ------------------------------------------------------------------------------------------------------------------


def pdf(*pages: str) -> bytes:
    """A PDF whose pages have a line of text each; an empty text makes a page without any."""
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
async def test_the_text_of_a_pdf_is_read_by_pages() -> None:
    data = pdf("First page", "Second page", "", "Fourth page")
    whole = await read(data)
    assert whole.text == (
        "--- page 1 ---\nFirst page\n--- page 2 ---\nSecond page\n--- page 3 ---\n(no text; it may be a picture)\n"
        "--- page 4 ---\nFourth page\n(PDF, pages 1-4 of 4)"
    )
    assert whole.metadata["without_text"] == 1
    assert (await read(data, pages="2")).text == (
        "--- page 2 ---\nSecond page\n(PDF, pages 2-2 of 4; continue with pages=3-)"
    )
    assert (await read(data, pages="4-")).text.endswith("(PDF, pages 4-4 of 4)")
    some = await read(data, max_bytes=70)
    assert some.text.endswith("(PDF, pages 1-2 of 4, stopped at max_bytes; continue with pages=3-)")
    assert "more characters on this page" in (await read(data, max_bytes=20)).text


@pytest.mark.parametrize("pages", ["0", "5", "3-2", "x", "-2"])
async def test_pages_that_are_not_there_are_told(pages: str) -> None:
    result = await read(pdf("a", "b"), pages=pages)
    assert result.code == ToolErrorCode.VALIDATION_ERROR
    assert "has 2 pages" in result.text


async def test_what_only_starts_like_a_pdf_is_told() -> None:
    result = await read(b"%PDF-1.7\n\0\0")
    assert result.code == ToolErrorCode.IO_ERROR
    assert "(a PDF) cannot be read: it is damaged" in result.text


@settings(max_examples=60)
@given(st.data())
def test_a_damaged_pdf_never_raises(data: st.DataObject) -> None:
    whole = pdf("First page", "Second page")
    broken = bytearray(whole[: data.draw(st.integers(20, len(whole)))])
    broken[data.draw(st.integers(8, len(broken) - 1))] ^= data.draw(st.integers(0, 255))
    result = asyncio.run(read(bytes(broken)))
    assert isinstance(result.output, str)
    assert "page" in result.text or "cannot be read" in result.text


async def test_without_pypdf_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    result = await read(pdf("x"))
    assert result.code == ToolErrorCode.CONFIG_ERROR
    assert "[pdf]'" in result.text


async def test_a_pdf_with_a_password_is_told() -> None:
    from pypdf import PdfReader, PdfWriter

    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf("secret"))))
    writer.encrypt("password", algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    assert "protected by a password" in (await read(out.getvalue())).text


# --- what is big, and what is no file -------------------------------------------------------------------------------------


async def test_two_gigabytes_are_read_in_little_memory(ctx: ToolContext, project: Path) -> None:
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


async def test_lines_behind_the_counted_part_can_be_reached(ctx: ToolContext, project: Path) -> None:
    with open(project / "big.txt", "wb") as file:
        file.write(b"a\n" * 50_000)
        file.seek(300 << 20)
        file.write(b"\nlast\n")
    assert (await read_file(ctx, path="big.txt", offset=50_002)).text.startswith("50002\tlast\n")


@on_posix
async def test_what_never_ends_or_blocks_is_refused(
    ctx: ToolContext, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(project / "pipe")
    listener = socket.socket(socket.AF_UNIX)
    try:
        monkeypatch.chdir(project)  # the name of a socket is short
        listener.bind("socket")
        (project / "zero").symlink_to("/dev/zero")
        for name, kind in (("pipe", "fifo"), ("socket", "socket"), ("zero", "device"), ("/dev/urandom", "device")):
            result = await read_file(ctx, path=name)
            assert result.is_error
            assert f"not a regular file but a {kind}" in result.text
    finally:
        listener.close()


@on_linux
async def test_files_of_the_kernel_are_read_or_refused_but_never_waited_for(ctx: ToolContext) -> None:
    assert "MemTotal" in (await read_file(ctx, path="/proc/meminfo")).text
    for name in ("/proc/self/mem", "/proc/kmsg", f"/proc/{os.getpid()}/task/{os.getpid()}/pagemap"):
        assert "interface to the kernel" in (await read_file(ctx, path=name)).text
    assert (await read_file(ctx, path="/proc/self/fd/0")).is_error
