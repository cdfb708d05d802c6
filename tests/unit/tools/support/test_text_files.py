"""Encodings: decoded text is encoded back to the same bytes."""

import os

import pytest
from hypothesis import given, strategies as st

from mainspring.tools.support.text_files import decode_text, looks_binary, replace_surrogates

GERMAN = "Größe = 'Straße'\nfür alle\n"


@pytest.mark.parametrize(
    ("text", "encoding", "found"),
    [
        ("plain\n", "utf-8", "utf-8"),
        (GERMAN, "utf-8", "utf-8"),
        (GERMAN, "cp1252", "cp1252"),
        ("caf\u00e9\n", "latin-1", "cp1252"),
        ("\u201cquoted\u201d \u2013 dash\n", "cp1252", "cp1252"),
        ("Привет, мир! Это тест.\n", "cp1251", "cp1251"),
        ("Привет, мир! Это тест.\n", "koi8_r", "koi8_r"),
        ("日本語のテキストです。\nこんにちは世界\n", "shift_jis", "cp932"),
        ("// 版权所有\nint main() { return 0; }\n", "gbk", "gb18030"),
        ("這是一個用來測試編碼的檔案，裡面的句子比較長一些，這樣才容易分辨。\n", "big5", "big5"),
        ("안녕하세요 세계\n", "cp949", "cp949"),
        ("Zażółć gęślą jaźń\n", "cp1250", "cp1250"),
        ("plain line\n" * 30_000 + "Привет, мир! Это тест.\n", "cp1251", "cp1251"),
        ("x" * 300_000 + "\n" + GERMAN, "cp1252", "cp1252"),
    ],
)
def test_common_encodings_are_detected(text: str, encoding: str, found: str) -> None:
    document = decode_text(text.encode(encoding))
    assert document is not None
    assert (document.text, document.encoding) == (text, found)
    assert document.encode(document.text) == text.encode(encoding)


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_byte_order_mark_is_preserved_but_hidden(codec: str) -> None:
    data = ("" if codec == "utf-8-sig" else "\ufeff").encode(codec) + GERMAN.encode(codec.removesuffix("-sig"))
    if codec == "utf-8-sig":
        data = GERMAN.encode(codec)
    document = decode_text(data)
    assert document is not None
    assert document.text == GERMAN
    assert document.encode(GERMAN) == data
    assert "byte order mark" in document.encoding_note


def test_replacement_characters_of_a_short_file_with_a_byte_order_mark_are_text() -> None:
    document = decode_text("a \ufffd\n".encode("utf-8-sig"))
    assert document is not None
    assert (document.text, document.damage) == ("a \ufffd\n", 0)


@pytest.mark.parametrize(
    "data",
    [b"\0", b"text\0", b"\x01\x02\x03\x04 abc", bytes(range(128, 256)) * 10, b"\xff\xfe\xfd" * 100, b"\x7fELF\x02\x01"],
)
def test_binary_data_is_not_a_document(data: bytes) -> None:
    assert decode_text(data) is None


def test_random_bytes_are_binary() -> None:
    assert decode_text(os.urandom(4000)) is None


@pytest.mark.parametrize("data", [b"", b"\x1b[31mred\x1b[0m\n", b"\f\v page\n", GERMAN.encode("utf-16")])
def test_unusual_text_is_not_binary(data: bytes) -> None:
    assert not looks_binary(data)


def test_damaged_byte_does_not_change_the_encoding() -> None:
    data = GERMAN.encode() + b"\xff\n"
    document = decode_text(data)
    assert document is not None
    assert document.encoding_note == "UTF-8 with 1 invalid bytes"
    assert document.encode(document.text) == data
    assert replace_surrogates(document.text) == GERMAN + "\ufffd\n"


@given(st.binary(max_size=300))
def test_decoded_document_encodes_back_to_the_same_bytes(data: bytes) -> None:
    document = decode_text(data)
    assert document is None or document.encode(document.text) == data


@given(
    st.text(
        alphabet=st.characters(codec="utf-8", exclude_categories=["Cc", "Co", "Cn"], exclude_characters="\ufeff\ufffd")
    )
)
def test_any_utf8_text_is_decoded(text: str) -> None:
    document = decode_text(text.encode())
    assert document is not None
    assert document.text == text
