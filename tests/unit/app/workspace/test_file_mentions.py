"""Files that a prompt mentions."""

from collections.abc import Mapping
from typing import Any

import pytest

from mainspring.app.workspace import file_mentions as mentions
from mainspring.app.workspace.file_mentions import attach_mentions
from mainspring.env import MemoryEnv
from mainspring.errors import ConfigError, PermissionDeniedError
from mainspring.permissions import PermissionDecision, Permissions
from mainspring.prompt_tags import wrap_in_tag
from mainspring.tools.builtin import read_file
from tests.rows import each_row

FILES = {
    "latin.txt": "café\n".encode("latin-1"),
    "wide.txt": "café\n".encode("utf-16"),
    "a.txt": "one\ntwo\n",
    "docs/b c.md": "# B",
    "bin": b"\0\1",
    "big.txt": "0123456789\n" * 30_000,
    "long.txt": "é" * 200_000,
}
NOTES: list[str] = []


async def attach(prompt: str, **rules: Any) -> str:
    env = MemoryEnv(FILES)
    text, _ = await attach_mentions(prompt, env, Permissions(home="/home/nobody", **rules), read_file, NOTES.append)
    return text


@pytest.mark.parametrize(
    ("prompt", "paths"),
    [
        ("look at @a.txt", ["a.txt"]),
        ("@a.txt and @a.txt, (@b.txt) [@c]", ["a.txt", "b.txt", "c"]),
        ("is it @src/x.py? Or @y.", ["src/x.py", "y"]),
        ('"@d" @"with space.txt"', ["d", "with space.txt"]),
        ("me@example.org, a@b, \\@property, @ alone, @", []),
        ("@~/notes.md\n@../up", ["~/notes.md", "../up"]),
        (r"dropped: @/tmp/my\ file\ \(1\)\ it\'s.txt and @a\&b.", ["/tmp/my file (1) it's.txt", "a&b"]),
        (r"@src\main.py @x\\", [r"src\main.py", "x\\"]),
    ],
)
def test_mentions_are_found(prompt: str, paths: list[str]) -> None:
    assert mentions.find_mentions(prompt) == paths


@pytest.mark.parametrize(
    "path", ["a.txt", "my file.txt", r"a\ b", r"src\x.py", "a(1).txt", "it's", "end.", "\\ " * 200 + "'"]
)
def test_mention_of_a_path_is_found_again(path: str) -> None:
    assert mentions.find_mentions(f"see {mentions.format_mention(path)} there") == [path]


async def test_files_and_folders_are_attached() -> None:
    text = await attach('see @a.txt and @"docs/b c.md" in @docs; \\@this is plain')

    assert text == (
        'see @a.txt and @"docs/b c.md" in @docs; @this is plain\n\n'
        '<file path="a.txt">\none\ntwo\n</file>\n\n<file path="docs/b c.md">\n# B\n</file>\n\n'
        '<folder path="docs">\nb c.md\n</folder>'
    )


@each_row("name", ["latin.txt", "wide.txt"])
async def test_attached_file_is_decoded_like_a_read_one(name: str) -> None:
    assert f'<file path="{name}">\ncafé\n</file>' in await attach(f"see @{name}")


async def test_attachment_is_not_cut_inside_a_character() -> None:
    assert "\ufffd" not in await attach("see @long.txt")


async def test_prompt_without_mentions_is_unchanged() -> None:
    assert await attach("plain") == "plain"


async def test_large_file_is_truncated_at_a_line() -> None:
    NOTES.clear()
    text = await attach("@big.txt @a.txt")

    assert len(text) < 270_000
    assert "[cut here: 23831 lines of a file of 330000 bytes; read_file shows the rest]" in text
    assert NOTES == ["Attached only the first 23831 lines (255 KiB) of big.txt (322 KiB). The agent can read the rest."]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("none.txt", "File not found: 'none.txt'"),
        ("a" * 5000, "more than 200 levels or 4096 characters"),
        ("bin", "not a text file"),
    ],
)
async def test_unusable_file_is_named_in_the_error(path: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        await attach(f"see @{path}")


async def test_attachments_over_the_limit_are_rejected() -> None:
    class AllowAll:
        async def decide(
            self, tool: str, arguments: Mapping[str, Any], *, env: Any, definition: Any = None
        ) -> PermissionDecision:
            return PermissionDecision(tool, "allow", "", None)

    env = MemoryEnv({f"{i}.txt": "x" * 300_000 for i in range(5)})

    with pytest.raises(ConfigError, match="larger than 1 MiB"):
        await attach_mentions("@0.txt @1.txt @2.txt @3.txt @4.txt", env, AllowAll(), None, NOTES.append)


@pytest.mark.parametrize("path", ["../other/x", "/etc/passwd", ".env"])
async def test_outside_and_sensitive_files_need_permission(path: str) -> None:
    with pytest.raises(PermissionDeniedError, match="requires approval"):
        await attach(f"@{path}")


async def test_denied_file_is_an_error() -> None:
    with pytest.raises(PermissionDeniedError, match="is denied"):
        await attach("@a.txt", deny=["read_file(a.txt)"])


def test_delimiter_does_not_occur_in_the_content() -> None:
    assert wrap_in_tag("file", "a</file>b</file-2>") == "<file-3>\na</file>b</file-2>\n</file-3>"
