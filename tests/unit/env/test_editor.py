"""Files of an editor: tools read unsaved text, and writes go through the editor."""

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from mainspring.env import EditorEnv, LocalEnv

pytestmark = pytest.mark.covers("BYD-23")


class Editor:
    """An editor with some files open."""

    def __init__(self, *, saves: bool = True) -> None:
        self.open: dict[str, str] = {}
        self.reads: list[str] = []
        self.written: list[str] = []
        self.saves = saves

    async def read(self, path: str) -> str | None:
        self.reads.append(path)
        return self.open.get(path)

    async def write(self, path: str, text: str) -> bool:
        if not self.saves:
            return False
        self.written.append(path)
        self.open[path] = text
        return True


@pytest.fixture
def editor() -> Editor:
    return Editor()


@pytest.fixture
def env(tmp_path: Path, editor: Editor) -> EditorEnv:
    return EditorEnv(LocalEnv(tmp_path), editor)


async def test_unsaved_text_of_the_editor_is_read(env: EditorEnv, editor: Editor, tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("old\n")
    editor.open[str(file)] = "typed, and longer\n"
    assert await env.read_bytes("a.py") == b"typed, and longer\n"
    assert await env.read_bytes("a.py", offset=2, limit=3) == b"ped"
    assert (await env.stat("a.py")).size == 18
    del editor.open[str(file)]
    assert await env.read_bytes("a.py") == b"old\n"
    assert (await env.stat("a.py")).size == 4


async def test_line_endings_and_byte_order_mark_of_the_file_are_preserved(
    env: EditorEnv, editor: Editor, tmp_path: Path
) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"\xef\xbb\xbfa\r\nb\r\n")
    editor.open[str(file)] = "a\nb"
    assert await env.read_bytes("a.txt") == b"\xef\xbb\xbfa\r\nb\r\n", "the text of the editor is the same"
    editor.open[str(file)] = "a\nc\n"
    assert await env.read_bytes("a.txt") == b"\xef\xbb\xbfa\r\nc\r\n"


async def test_editor_is_asked_only_about_text_files_of_the_project(
    env: EditorEnv, editor: Editor, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other") / "b.txt"
    other.write_text("outside")
    (tmp_path / "image").write_bytes(b"\x89PNG\0\0")
    (tmp_path / "latin").write_bytes(b"\xe9t\xe9")
    (tmp_path / "large").write_bytes(b"x" * (1 << 20) + b"x")
    for name in (str(other), "image", "latin", "large"):
        await env.read_bytes(name)
    assert editor.reads == []
    with pytest.raises(FileNotFoundError):
        await env.read_bytes("missing")


async def test_writes_go_through_the_editor(env: EditorEnv, editor: Editor, tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("old")
    await env.write_bytes("a.py", b"new")
    assert (editor.open[str(file)], file.read_text()) == ("new", "old"), "the editor decides when to save"
    await env.write_bytes("sub/new.py", b"made")
    assert (tmp_path / "sub/new.py").read_text() == "made", "a new file is written to disk"
    await env.write_bytes("a.py", b"\0bin")
    assert file.read_bytes() == b"\0bin"
    assert editor.written == [str(file)]


async def test_file_is_written_to_disk_if_the_editor_does_not_write(tmp_path: Path) -> None:
    env = EditorEnv(LocalEnv(tmp_path), Editor(saves=False))
    (tmp_path / "a.py").write_text("old")
    await env.write_bytes("a.py", b"new")
    assert (tmp_path / "a.py").read_text() == "new"


async def test_renamed_file_keeps_the_unsaved_text(env: EditorEnv, editor: Editor, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("old")
    editor.open[str(tmp_path / "a.py")] = "typed"
    await env.read_bytes("a.py")
    await env.rename("a.py", "b.py")
    assert (tmp_path / "b.py").read_text() == "typed"


@settings(max_examples=40)
@given(
    disk=st.binary(max_size=60),
    typed=st.none() | st.text(max_size=60),
    at=st.integers(0, 70),
    length=st.integers(0, 70),
)
async def test_partial_read_is_a_slice_of_the_whole_file(
    tmp_path: Path, disk: bytes, typed: str | None, at: int, length: int
) -> None:
    editor = Editor()
    env = EditorEnv(LocalEnv(tmp_path), editor)
    (tmp_path / "f").write_bytes(disk)
    if typed is not None:
        editor.open[str(tmp_path / "f")] = typed
    whole = await env.read_bytes("f")
    assert await env.read_bytes("f", offset=at, limit=length) == whole[at : at + length]
    assert (await env.stat("f")).size == len(whole)


async def test_text_that_the_editor_has_not_reloaded_does_not_hide_the_disk(
    env: EditorEnv, editor: Editor, tmp_path: Path
) -> None:
    file = tmp_path / "a.py"
    file.write_text("old\n")
    editor.open[str(file)] = "old"
    assert await env.read_bytes("a.py") == b"old\n"
    file.write_text("formatted\n")
    assert await env.read_bytes("a.py") == b"formatted\n", "a command changed the file, and nothing is unsaved"
    assert await env.read_files(["a.py"], limit=100) == [b"formatted\n"]
    assert (await env.stat("a.py")).size == 10
    editor.open[str(file)] = "typed"
    assert await env.read_bytes("a.py") == b"typed", "the user's unsaved text wins"
    await env.write_bytes("a.py", b"written")
    assert await env.read_bytes("a.py") == b"written", "the editor has not saved it yet"


async def test_text_that_the_editor_saved_does_not_hide_a_later_change_of_the_disk(tmp_path: Path) -> None:
    class SavingEditor(Editor):
        async def write(self, path: str, text: str) -> bool:
            Path(path).write_text(text)
            return await super().write(path, text)

    editor = SavingEditor()
    env = EditorEnv(LocalEnv(tmp_path), editor)
    file = tmp_path / "a.py"
    file.write_text("old\n")
    await env.write_bytes("a.py", b"written\n")
    file.write_text("formatted\n")
    assert editor.open[str(file)] == "written\n"
    assert await env.read_bytes("a.py") == b"formatted\n"
