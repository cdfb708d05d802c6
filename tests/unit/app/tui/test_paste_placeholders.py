from pathlib import Path

import pytest

from mainspring.app.tui.paste import PasteStore, find_image_path, read_image

BIG = "\n".join(f"line {i}" for i in range(5000))


@pytest.mark.covers("CLI-02")
def test_large_paste_becomes_one_placeholder() -> None:
    pastes = PasteStore()
    placeholder = pastes.text(BIG)
    assert len(placeholder) == 1
    assert pastes.label(placeholder) == "[pasted 5000 lines]"
    assert pastes.to_display(f"look: {placeholder}!") == "look: [pasted 5000 lines]!"
    assert pastes.expand(f"look: {placeholder}!").text == f"look: {BIG}!"


def test_each_placeholder_has_its_own_text() -> None:
    pastes = PasteStore()
    one, two = pastes.text("a" * 2000), pastes.text("b" * 2000)
    assert pastes.label(one) == "[pasted 2000 characters]"
    assert pastes.expand(two + one).text == "b" * 2000 + "a" * 2000
    assert pastes.expand("[pasted 2000 characters]").text == "[pasted 2000 characters]"


def test_small_paste_stays_text_with_normalized_line_ends() -> None:
    assert PasteStore().text("a\r\nb\rc\0") == "a\nb\nc"


def test_placeholders_cannot_be_pasted() -> None:
    pastes = PasteStore()
    placeholder = pastes.text(BIG)
    assert pastes.text(f"x{placeholder}y") == "xy"
    assert pastes.expand("\U0010fffd").text == ""


def test_image_paths_are_recognized_and_attached(tmp_path: Path) -> None:
    path = tmp_path / "a b.png"
    path.write_bytes(b"\x89PNG")
    for pasted in (str(path), f"'{path}'", str(path).replace(" ", "\\ "), f"file://{str(path).replace(' ', '%20')}\n"):
        assert find_image_path(pasted) == path
    assert find_image_path("see /a/b.png") is None
    assert find_image_path("/a/b.txt") is None
    pastes = PasteStore()
    placeholder = pastes.add_image(*read_image(path), path.name)
    whole = pastes.expand(f"what is {placeholder}?")
    assert whole.text == "what is [Image 1: a b.png]?"
    assert pastes.label(pastes.add_image(b"\x89PNG", "image/png")) == "[Image 2]"
    assert [(i.data, i.media_type, i.name) for i in whole.images] == [(b"\x89PNG", "image/png", "a b.png")]
