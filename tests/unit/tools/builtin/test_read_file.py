"""`read_file`."""

import base64
import hashlib
import io
import os
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from PIL import Image

from mainspring.env import MemoryEnv
from mainspring.messages import ImageBlock, TextBlock
from mainspring.tools import ToolContext, ToolErrorCode
from mainspring.tools.builtin import read_file


def memory_context(files: dict[str, str | bytes]) -> ToolContext:
    return ToolContext(env=MemoryEnv(files))


def numbered_lines(count: int) -> str:
    return "".join([f"line {i}\n" for i in range(1, count + 1)])


@pytest.mark.covers("TOL-01", "TOL-02")
async def test_long_file_is_read_in_parts() -> None:
    ctx = memory_context({"x": numbered_lines(4500)})
    first = await read_file(ctx, path="x")
    assert first.text.startswith("1\tline 1\n")
    assert first.text.endswith("2000\tline 2000\n(lines 1-2000 of 4500; continue with offset=2001)")
    second = await read_file(ctx, path="x", offset=2001)
    assert second.text.startswith("2001\tline 2001\n")
    last = await read_file(ctx, path="x", offset=4001)
    assert last.text.endswith("4500\tline 4500\n(lines 4001-4500 of 4500, end of file)")
    assert first.metadata["truncated"]
    assert first.metadata["total_lines"] == 4500


@pytest.mark.covers("TOL-01")
async def test_output_is_limited_to_262144_bytes() -> None:
    ctx = memory_context({"x": ("y" * 999 + "\n") * 1000})
    result = await read_file(ctx, path="x", line_numbers=False)
    assert result.text.endswith("(lines 1-262 of 1000, stopped at max_bytes; continue with offset=263)")
    assert len(result.text.rpartition("\n")[0].encode()) <= 262_144
    assert (await read_file(ctx, path="x", max_bytes=3000)).metadata["last_line"] == 3


@pytest.mark.covers("TOL-04")
async def test_zero_disables_the_limits() -> None:
    ctx = memory_context({"x": numbered_lines(30_000), "wide": "z" * 500_000})
    result = await read_file(ctx, path="x", limit=0, max_bytes=0)
    assert result.text.endswith("30000\tline 30000\n(end of file, 30000 lines)")
    assert "z" * 500_000 in (await read_file(ctx, path="wide", max_bytes=0)).text


@pytest.mark.covers("TOL-05")
async def test_line_numbers_can_be_disabled() -> None:
    ctx = memory_context({"x": "a\n\tb\n"})
    assert (await read_file(ctx, path="x")).text == "1\ta\n2\t\tb\n(end of file, 2 lines)"
    assert (await read_file(ctx, path="x", line_numbers=False)).text == "a\n\tb\n(end of file, 2 lines)"
    assert (await read_file(ctx, path="x", offset=2, limit=1)).text == "2\t\tb\n(lines 2-2 of 2, end of file)"


@pytest.mark.parametrize(
    ("content", "footer"),
    [
        ("", "(empty file)"),
        ("one", "(end of file, 1 line; no newline at the end)"),
        ("a\r\nb\r\n", "(end of file, 2 lines; CRLF line endings)"),
        ("a\r\nb\nc\n", "(end of file, 3 lines; mixed LF and CRLF line endings)"),
        ("a\rb\r", "(end of file, 2 lines; CR line endings)"),
        ("\ufeffa\n", "(end of file, 1 line; UTF-8 with byte order mark)"),
        ("é\n".encode("cp1252"), "(end of file, 1 line; cp1252)"),
        ("é\r\n".encode("utf-16"), "(end of file, 1 line; utf-16-le with byte order mark, CRLF line endings)"),
        ("é è\n".encode() + b"\xff\n", "(end of file, 2 lines; UTF-8 with 1 invalid bytes)"),
    ],
)
async def test_footer_describes_hidden_properties(content: str | bytes, footer: str) -> None:
    result = await read_file(memory_context({"x": content}), path="x")
    assert result.text.split("\n")[-1] == footer
    assert "\r" not in result.text
    assert "\ufeff" not in result.text


@pytest.mark.parametrize("offset", [4, 100])
async def test_offset_past_the_end_is_an_error(offset: int) -> None:
    result = await read_file(memory_context({"x": numbered_lines(3)}), path="x", offset=offset)
    assert result.is_error
    assert result.text == f"offset {offset} is past the end of x, which has 3 lines."


async def test_long_line_is_truncated_and_can_be_continued() -> None:
    text = "".join(chr(97 + i % 26) for i in range(10_000))
    ctx = memory_context({"x": f"short\n{text}\nend\n"})
    result = await read_file(ctx, path="x")
    assert (
        f"2\t{text[:2000]}… (8000 more characters in this line: offset=2 limit=1 column=2001)\n3\tend\n" in result.text
    )
    rest = await read_file(ctx, path="x", offset=2, limit=1, column=2001)
    assert rest.text.split("\n")[0] == "2\t" + text[2000:]


async def test_end_of_a_single_line_file_can_be_read() -> None:
    text = "é" * 200_000
    ctx = memory_context({"x": text})
    first = (await read_file(ctx, path="x", limit=1)).text
    assert "(68928 more characters in this line: offset=1 limit=1 column=131073)" in first
    assert (await read_file(ctx, path="x", limit=1, column=131_073)).text.startswith("1\t" + "é" * 68_928 + "\n")


@pytest.mark.covers("TOL-03")
@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x7fELF\x02\x01\x01\0\0", "ELF program"),
        (b"text and then\0a NUL", "unknown kind of data"),
        (bytes(range(128, 256)) * 20, "unknown kind of data"),
        (b"SQLite format 3\0....", "SQLite database"),
    ],
)
async def test_binary_file_is_described_by_size_and_kind(data: bytes, kind: str) -> None:
    result = await read_file(memory_context({"x": data}), path="x")
    assert not result.is_error
    assert result.text.startswith(f"[binary file: x, {len(data)} bytes, {kind}; not shown.")
    assert result.metadata["binary"]


async def test_file_type_is_detected_by_content() -> None:
    ctx = memory_context({"video.ts": "const a = 1;\n", "photo.png": "not an image\n", "notes.txt": make_png(2, 3)})
    assert "const a" in (await read_file(ctx, path="video.ts")).text
    assert "not an image" in (await read_file(ctx, path="photo.png")).text
    assert "[image/png]" in (await read_file(ctx, path="notes.txt")).text


def png_chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def make_png(width: int, height: int) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress((b"\0" + b"\xff\0\0" * width) * height)
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + png_chunk(b"IDAT", pixels) + png_chunk(b"IEND", b"")


def make_image(kind: str) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (2, 3), "red").save(out, kind)
    return out.getvalue()


GIF, JPEG, WEBP = make_image("GIF"), make_image("JPEG"), make_image("WEBP")


@pytest.mark.parametrize(
    ("data", "media_type"),
    [(make_png(2, 3), "image/png"), (GIF, "image/gif"), (JPEG, "image/jpeg"), (WEBP, "image/webp")],
)
async def test_image_is_returned(data: bytes, media_type: str) -> None:
    result = await read_file(memory_context({"x": data}), path="x")
    text, image = result.output
    assert isinstance(text, TextBlock)
    assert text.text == f"x: {media_type}, 2x3, {len(data)} bytes"
    assert image == ImageBlock(media_type, base64.b64encode(data).decode())


@pytest.mark.parametrize(
    "data",
    [
        make_png(2, 3)[:-20],
        make_png(0, 3),
        make_png(2, 3).replace(b"IDAT", b"IDAX"),
        GIF[:-1],
        JPEG[:-2],
        WEBP[:25] + b"\0" * 3,
    ],
)
async def test_damaged_image_is_not_returned(data: bytes) -> None:
    result = await read_file(memory_context({"x": data}), path="x")
    assert isinstance(result.output, str)
    assert "it is not shown" in result.text


async def test_non_files_are_rejected(ctx: ToolContext, project: Path) -> None:
    os.mkfifo(project / "fifo")
    (project / "zero").symlink_to("/dev/zero")
    (project / "folder").mkdir()
    (project / "loop").symlink_to("loop")
    expected = {
        "fifo": "Cannot read fifo: it is not a regular file but a fifo.",
        "zero": "Cannot read /dev/zero: it is not a regular file but a device.",
        "folder": "Cannot read folder: it is a folder. list_files shows what is in it.",
        "loop": "Cannot read loop: its symbolic links form a loop.",
        "": "Cannot read : the path is empty.",
    }
    for path, text in expected.items():
        result = await read_file(ctx, path=path)
        assert (result.is_error, result.text) == (True, text)


async def test_missing_file_has_suggestions() -> None:
    ctx = memory_context({"src/app/main.py": "", "src/utils.py": "", "README.md": ""})
    result = await read_file(ctx, path="main.py")
    assert result.code is ToolErrorCode.NOT_FOUND
    assert result.text == "main.py does not exist (resolved path: /project/main.py). Did you mean: src/app/main.py?"
    assert "src/utils.py?" in (await read_file(ctx, path="src/util.py")).text
    assert "glob finds files" in (await read_file(ctx, path="zzz")).text


@pytest.mark.parametrize(
    ("name", "requested"),
    [
        ("src/a.py", "@src/a.py"),
        ("Screenshot 1.02.03\u202fPM.txt", "Screenshot 1.02.03 PM.txt"),
        ("cafe\u0301.txt", "caf\u00e9.txt"),
        ("It\u2019s.md", "It's.md"),
    ],
)
async def test_look_alike_names_are_found(name: str, requested: str) -> None:
    result = await read_file(memory_context({name: "found\n"}), path=requested)
    assert result.text.startswith("1\tfound\n")


async def test_exact_name_is_preferred() -> None:
    ctx = memory_context({"@a": "at\n", "a": "plain\n"})
    assert "at" in (await read_file(ctx, path="@a")).text


@pytest.mark.parametrize(
    "data", [b"", b"a\nb", b"\xef\xbb\xbfa\n", "a\r\n".encode("utf-16"), "größer\n".encode("cp1252")]
)
async def test_hash_covers_the_whole_file(data: bytes) -> None:
    result = await read_file(memory_context({"x": data}), path="x", limit=1)
    assert result.metadata["hash"] == hashlib.sha256(data).hexdigest()


async def test_permitted_path_is_read() -> None:
    env = MemoryEnv({"a": "a\n", "b": "b\n"})
    ctx = ToolContext(env=env, paths={"x": "/project/b"})
    assert "1\tb" in (await read_file(ctx, path="x")).text


async def test_path_replaced_by_a_link_is_not_followed(ctx: ToolContext, project: Path) -> None:
    (project / "secret").write_text("s")
    (project / "x").symlink_to("secret")
    ctx.paths = {"x": f"{project}/x"}
    result = await read_file(ctx, path="x")
    assert result.code is ToolErrorCode.PERMISSION_DENIED


async def test_big_file_is_read_in_pieces(ctx: ToolContext, project: Path) -> None:
    line = "x" * 99 + "\n"
    (project / "big").write_text(line * 200_000)  # 20 MB: more than one piece.
    result = await read_file(ctx, path="big", offset=199_999, limit=5)
    assert result.text.endswith("\n(lines 199999-200000 of 200000, end of file)")
    middle = await read_file(ctx, path="big", offset=83_880, limit=20)
    assert middle.text.count("x" * 99 + "\n") == 20


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\r\n", min_codepoint=32, max_codepoint=0x24F)),
        min_size=1,
    )
)
async def test_content_is_returned_unchanged(lines: list[str]) -> None:
    content = "\n".join(lines)
    result = await read_file(memory_context({"x": content}), path="x", line_numbers=False)
    if content and "(" not in content and result.metadata.get("form") == "":
        assert result.text.rpartition("\n(")[0] == content.removesuffix("\n")
