"""The front matter of a Markdown file."""

import string

import pytest
from hypothesis import given, strategies as st

from mainspring.frontmatter import parse_fields_and_body


@pytest.mark.parametrize(
    ("text", "fields", "body"),
    [
        ("---\nname: a\ntools: [x, y]\n---\nbody\n", {"name": "a", "tools": ["x", "y"]}, "body\n"),
        ("---\r\nname: a\r\n---\r\nbody", {"name": "a"}, "body"),
        ("\ufeff---\nname: a\n---\nbody", {"name": "a"}, "body"),
        ("---\nname: no\nversion: 1.10\n---\n", {"name": "no", "version": "1.10"}, ""),
        ("---\ntools:\n  - x\n  - y\n---\n", {"tools": ["x", "y"]}, ""),
        ("---\ntext: >\n  one\n  two\n---\n", {"text": "one two\n"}, ""),
        ("---\ndescription: Use when: it rains\nname: b\n---\nx", {"description": "Use when: it rains", "name": "b"}, "x"),
        ("---\na: 'x: y: z\n  more\n---\nx", {"a": "x: y: z more"}, "x"),
        ("---\n---\nbody", {}, "body"),
        ("---\n- a list\n---\nbody", {}, "body"),
        ("no head\n---\n", {}, "no head\n---\n"),
        ("---\nname: a\nnever closed", {}, "---\nname: a\nnever closed"),
        ("", {}, ""),
    ],
)  # fmt: skip
def test_fields_and_body_are_parsed(text: str, fields: dict[str, object], body: str) -> None:
    assert parse_fields_and_body(text) == (fields, body)


@given(st.text())
def test_any_text_is_parsed_without_loss(text: str) -> None:
    fields, body = parse_fields_and_body(text)
    assert text.endswith(body)
    assert all(isinstance(key, str) for key in fields)


@given(
    st.dictionaries(
        st.text(string.ascii_lowercase, min_size=1), st.text(string.ascii_letters + " :#'", min_size=1), max_size=4
    ),
    st.text(string.printable),
)
def test_head_of_plain_lines_is_always_found(fields: dict[str, str], body: str) -> None:
    head = "".join(f"{key}: {value}\n" for key, value in fields.items())
    found, rest = parse_fields_and_body(f"---\n{head}---\n{body}")
    assert rest == body
    assert set(found) <= set(fields)
