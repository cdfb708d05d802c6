"""Tool names: valid for every provider, stable across starts, and unique."""

import re

import pytest
from hypothesis import given, strategies as st

from mainspring.mcp import server_prefixes, tool_names
from mainspring.mcp.tools import server_of_tool_name

LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}")


@pytest.mark.covers("MCP-05")
def test_plain_names_are_unchanged() -> None:
    keys = server_prefixes(["docs", "my-server"])
    assert tool_names(keys["docs"], ["read_file"]) == {"read_file": "mcp__docs__read_file"}
    assert tool_names(keys["my-server"], ["a.b"]) == {"a.b": "mcp__my-server__a_b"}


def test_names_that_would_collide_are_distinguished_in_any_order() -> None:
    names = tool_names("s", ["a.b", "a_b", "a/b"])
    assert names["a_b"] == "mcp__s__a_b"
    assert len(set(names.values())) == 3
    assert names == tool_names("s", ["a/b", "a_b", "a.b"])
    keys = server_prefixes(["my docs", "my_docs", "my.docs", "ü", "ö"])
    assert keys["my_docs"] == "my_docs"
    assert len(set(keys.values())) == 5
    assert keys == server_prefixes(["ö", "ü", "my.docs", "my_docs", "my docs"])


def test_long_names_are_shortened_with_a_hash() -> None:
    key = server_prefixes(["x" * 80])["x" * 80]
    names = tool_names(key, ["y" * 100, "y" * 101])
    assert len(set(names.values())) == 2
    assert all(len(n) == 64 and n.startswith(f"mcp__{key}__") for n in names.values())


def test_server_of_a_tool_name_is_found() -> None:
    keys = server_prefixes(["a__b", "a"])
    assert keys == {"a__b": "a_b", "a": "a"}
    assert server_of_tool_name(tool_names(keys["a"], ["b__c"])["b__c"], keys) == "a"
    assert server_of_tool_name(tool_names(keys["a__b"], ["c"])["c"], keys) == "a__b"
    assert server_of_tool_name("read_file", keys) is None


@given(st.lists(st.text(max_size=70), max_size=6, unique=True), st.lists(st.text(max_size=90), max_size=6, unique=True))
def test_tool_names_are_valid_and_unique_for_any_input(servers: list[str], tools: list[str]) -> None:
    keys = server_prefixes(servers)
    found = [name for server in servers for name in tool_names(keys[server], tools).values()]
    assert all(LEGAL.fullmatch(name) for name in found)
    assert len(set(found)) == len(found)
    assert server_prefixes(reversed(servers)) == keys
