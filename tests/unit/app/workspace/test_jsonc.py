"""JSON with comments: parsing, error locations, and edits in place."""

import json

import pytest
from hypothesis import given, strategies as st

from mainspring.app.workspace.settings.jsonc import edit_jsonc
from mainspring.lenient_json import JsonError, parse_jsonc

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON_VALUES)
def test_json_is_read_like_the_json_module(value: object) -> None:
    assert parse_jsonc(json.dumps(value)).to_python() == value
    assert parse_jsonc(json.dumps(value, indent=2, ensure_ascii=False)).to_python() == value


def test_comments_and_trailing_commas_are_ignored() -> None:
    text = """// top
    {
      "a": [1, 2, /* two */ 3,], // list
      "url": "http://x/y", /* not a comment: */ "s": "/* no */ // no",
    }
    // end"""

    assert parse_jsonc(text).to_python() == {"a": [1, 2, 3], "url": "http://x/y", "s": "/* no */ // no"}


@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [
        ("", 1, 1, "empty"),
        ('{"a": 1 "b": 2}', 1, 9, 'Expected ","'),
        ('{\n  "a": tru\n}', 2, 8, "Expected a value"),
        ('{\n  "a": 1,,\n}', 2, 10, "Expected a key"),
        ("{'a': 1}", 1, 2, "double quotes"),
        ("{\"a\": 'x'}", 1, 7, "Use double quotes"),
        ('{"a": 1', 1, 8, "the end of the file"),
        ('{"a": 1} x', 1, 10, "after the end of the JSON value"),
        ('{"a": 1, "a": 2}', 1, 10, "Duplicate"),
        ('{"a" 1}', 1, 6, 'Expected ":"'),
        ('{"a": "x\n"}', 1, 9, "line breaks"),
        ('{"a": "x', 1, 7, "Missing closing quote"),
        ('{"a": "\\x"}', 1, 8, "escape"),
        ("/* {", 1, 1, "Unterminated"),
        ("[" * 100, 1, 66, "levels deep"),
        ("01", 1, 2, "after the end of the JSON value"),
    ],
)
def test_errors_have_line_and_column(text: str, line: int, column: int, reason: str) -> None:
    with pytest.raises(JsonError) as caught:
        parse_jsonc(text)

    assert (caught.value.line, caught.value.column) == (line, column)
    assert reason in caught.value.reason


BEFORE = """{
  // who answers
  "model": "a:b", // for now
  "agent": {"temperature": 1},
  "later": {"x": [1, 2]} // not ours
}
"""


def test_edit_keeps_everything_else() -> None:
    assert edit_jsonc(BEFORE, ["model"], '"c:d"') == BEFORE.replace('"a:b"', '"c:d"')
    assert edit_jsonc(BEFORE, ["agent", "maxTokens"], "5") == BEFORE.replace(
        '"temperature": 1', '"temperature": 1, "maxTokens": 5'
    )


def test_new_key_uses_the_layout_of_its_neighbors() -> None:
    changed = edit_jsonc(BEFORE, ["retry", "maxRetries"], "0")

    assert changed == BEFORE.replace(
        '"later": {"x": [1, 2]} // not ours\n', '"later": {"x": [1, 2]}, // not ours\n  "retry": {"maxRetries": 0}\n'
    )


@pytest.mark.parametrize("text", ["{}", "{\n}\n", "{ // nothing yet\n}\n", "  {}"])
def test_first_key_can_be_added(text: str) -> None:
    changed = edit_jsonc(text, ["a", "b"], "1")

    assert parse_jsonc(changed).to_python() == {"a": {"b": 1}}
    assert ("nothing yet" in text) == ("nothing yet" in changed)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (["model"], {"agent": {"temperature": 1}, "later": {"x": [1, 2]}}),
        (["agent"], {"model": "a:b", "later": {"x": [1, 2]}}),
        (["later"], {"model": "a:b", "agent": {"temperature": 1}}),
        (["agent", "temperature"], {"model": "a:b", "agent": {}, "later": {"x": [1, 2]}}),
        (["nobody", "home"], {"model": "a:b", "agent": {"temperature": 1}, "later": {"x": [1, 2]}}),
    ],
)
def test_key_can_be_removed(path: list[str], expected: object) -> None:
    changed = edit_jsonc(BEFORE, path, None)

    assert parse_jsonc(changed).to_python() == expected
    assert "// who answers" in changed


@given(
    st.dictionaries(st.text(), st.dictionaries(st.text(), JSON_VALUES, max_size=3), max_size=3),
    st.text(),
    st.text(),
    JSON_VALUES,
    st.sampled_from([None, 2]),
    st.booleans(),
)
def test_edits_match_dict_operations(
    tree: dict[str, dict[str, object]], one: str, two: str, value: object, indent: int | None, is_removal: bool
) -> None:
    text = json.dumps(tree, indent=indent)
    if not is_removal:
        tree.setdefault(one, {})[two] = value
    elif one in tree:
        tree[one].pop(two, None)

    text = edit_jsonc(text, [one, two], None if is_removal else json.dumps(value))

    assert parse_jsonc(text).to_python() == tree
    for key, section in tree.items():
        for name in list(section):
            text = edit_jsonc(text, [key, name], None)
            del section[name]
            assert parse_jsonc(text).to_python() == tree


def test_scalar_instead_of_an_object_is_an_error() -> None:
    with pytest.raises(JsonError, match="agent is not an object"):
        edit_jsonc('{"agent": 1}', ["agent", "maxTokens"], "1")
