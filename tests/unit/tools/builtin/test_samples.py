"""The sample tools."""

import pytest

import mainspring.tools.builtin as builtin
from mainspring.tools import parse_arguments
from mainspring.tools.builtin.samples import greet, hello, search_books


@pytest.mark.covers("OPT-02")
async def test_hello_and_greet() -> None:
    assert (await hello()).text == "Hello! Tools work."
    assert (await greet(name="Ada", language="fr")).text == "Bonjour, Ada!"
    assert parse_arguments(greet.input_schema, '{"name": ""}').error is not None


@pytest.mark.covers("TOL-23")
async def test_domain_tool_has_a_typed_schema() -> None:
    properties = search_books.input_schema["properties"]
    assert properties["limit"]["minimum"] == 1
    assert properties["limit"]["maximum"] == 20
    assert "fiction" in str(properties["subject"])
    assert parse_arguments(search_books.input_schema, '{"subject": "cooking"}').error is not None
    found = await search_books(query="the of", since=1965)
    assert found.text == "The Left Hand of Darkness (fiction, 1969)\n(1 found)"
    assert (await search_books(subject="history", limit=1)).text == "The Guns of August (history, 1962)\n(2 found)"


def test_unknown_tool_name_raises() -> None:
    assert builtin.hello is hello
    with pytest.raises(AttributeError, match="no attribute 'helo'"):
        getattr(builtin, "helo")  # noqa: B009 - an unknown name
