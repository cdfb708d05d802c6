"""How servers are configured: every form there is, entry by entry."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.errors import ConfigError
from mainspring.mcp import McpConfig, McpServerConfig, merge_configs, parse_mcp_config
from mainspring.mcp.config import expand_config, expand_variables

ENTRY = {"command": "npx", "args": ["-y", "server", 7], "env": {"PORT": 80, "ON": True}, "cwd": "/tmp"}


def one(entry: Any) -> McpServerConfig:
    found = parse_mcp_config({"docs": entry})
    assert not found.problems
    return found.servers[0]


@pytest.mark.covers("MCP-04", "MCP-12")
@pytest.mark.parametrize(
    "data",
    [
        {"mcpServers": {"docs": ENTRY}},
        {"servers": {"docs": ENTRY}},
        {"mcp": {"servers": {"docs": ENTRY}}},
        {"docs": ENTRY},
        [{"name": "docs", **ENTRY}],
        {"servers": [{"name": "docs", **ENTRY}]},
        {"mcpServers": {"docs": {**ENTRY, "type": "stdio"}}, "inputs": []},
    ],
)
def test_a_map_and_a_list_say_the_same(data: Any) -> None:
    found = parse_mcp_config(data, place="mcp.json")
    assert found.problems == ()
    (server,) = found.servers
    assert (server.name, server.transport, server.command) == ("docs", "stdio", "npx")
    assert server.args == ("-y", "server", "7")
    assert server.env == {"PORT": "80", "ON": "true"}
    assert server.place == "mcp.json"


@pytest.mark.covers("MCP-03")
@pytest.mark.parametrize(
    ("entry", "transport"),
    [
        ({"url": "https://x.test/mcp"}, "http"),
        ({"type": "http", "url": "https://x.test/mcp"}, "http"),
        ({"type": "streamable-http", "url": "https://x.test/mcp"}, "http"),
        ({"httpUrl": "https://x.test/mcp"}, "http"),
        ({"serverUrl": "https://x.test/sse"}, "sse"),
        ({"type": "sse", "url": "https://x.test/anything"}, "sse"),
        ({"type": "local", "command": ["node", "server.js"]}, "stdio"),
        ({"transport": "http", "url": "${BASE}/mcp", "headers": {"X": 1}}, "http"),
    ],
)
def test_what_other_programs_write_is_understood(entry: Any, transport: str) -> None:
    assert one(entry).transport == transport


@pytest.mark.covers("BYD-10")
def test_a_filter_and_its_other_names() -> None:
    for entry in (
        {"include": ["read_*"], "exclude": "read_secret"},
        {"tools": {"include": ["read_*"], "exclude": ["read_secret"]}},
        {"includeTools": ["read_*"], "excludeTools": ["read_secret"]},
        {"tools": "read_*", "disabledTools": ["read_secret"]},
    ):
        server = one({"command": "a", **entry})
        assert [server.includes_tool(n) for n in ("read_file", "read_secret", "write")] == [True, False, False], entry
    assert not one({"command": "a", "disabled": True}).enabled


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("npx", "must be an object, not str"),
        ({"args": []}, "needs a command (a program) or a url"),
        ({"comand": "npx"}, "Unknown setting: 'comand'. Did you mean 'command'?"),
        ({"command": "a", "args": "-y b"}, "args must be a list of texts, for example, ['-y', 'b']"),
        ({"command": "a", "env": {"A": []}}, "[] must be a text"),
        ({"type": "http"}, "requires a url that begins with http"),
        ({"url": "ftp://x"}, "requires a url that begins with http:// or https://, not 'ftp://x'"),
        ({"type": "carrier-pigeon", "url": "https://x"}, "Invalid enum value 'carrier-pigeon'"),
        ({"command": "a", "timeout": -1}, "timeout must be 0 to 86400 seconds, not -1"),
        ({"command": "a", "timeout": "soon"}, "Expected float, got str"),
        ({"command": "a", "disclosure": "sometimes"}, "Invalid enum value 'sometimes'"),
    ],
)
def test_a_broken_entry_is_told_of_and_harms_no_other(entry: Any, problem: str) -> None:
    found = parse_mcp_config({"bad": entry, "good": {"command": "a"}}, place="f.json")
    assert [s.name for s in found.servers] == ["good"]
    assert found.problems[0].startswith("f.json: MCP server 'bad': ")
    assert problem in found.problems[0]


def test_what_means_nothing_here_is_passed_over_with_a_word() -> None:
    found = parse_mcp_config({"a": {"command": "x", "alwaysAllow": ["y"], "description": "z"}})
    assert len(found.servers) == 1
    assert [w.partition(": ")[2] for w in found.warnings] == [
        "alwaysAllow is not supported and is ignored",
        "description is not supported and is ignored",
    ]


def test_of_one_name_the_last_counts() -> None:
    twice = parse_mcp_config([{"name": "a", "command": "x"}, {"name": "a", "command": "y"}])
    assert [s.command for s in twice.servers] == ["y"]
    assert "Duplicate MCP server name: 'a'" in twice.warnings[0]
    merged = merge_configs(twice, parse_mcp_config({"b": {"command": "z"}, "a": {"url": "http://x"}}))
    assert [(s.name, s.url) for s in merged.servers] == [("a", "http://x"), ("b", "")]


@pytest.mark.parametrize("data", [None, {}, [], {"mcpServers": {}}, {"mcpServers": None}])
def test_nothing_is_nothing(data: Any) -> None:
    assert parse_mcp_config(data) == McpConfig()


def test_secrets_are_not_shown() -> None:
    server = one({"url": "https://x.test", "headers": {"Authorization": "Bearer abc"}, "clientSecret": "xyz"})
    assert "abc" not in repr(server)
    assert "xyz" not in repr(server)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda c: (
            st.lists(c, max_size=3)
            | st.dictionaries(st.sampled_from(["name", "command", "url", "args", "env", "servers", "a"]), c, max_size=4)
        ),
        max_leaves=12,
    )
)
def test_whatever_stands_there_gives_servers_or_problems(data: Any) -> None:
    found = parse_mcp_config(data)
    assert all(s.command.strip() or s.url for s in found.servers)


def test_variables_are_put_in_and_what_is_missing_is_named() -> None:
    server = one(
        {
            "command": "${BIN:-node}",
            "args": ["--key=${KEY}", "${EMPTY:-fallback}", "$KEY", "${A}${A}"],
            "env": {"TOKEN": "${KEY}"},
            "cwd": "${HOME}/x",
        }
    )
    made = expand_config(server, {"KEY": "k${HOME}", "EMPTY": "", "A": "a", "HOME": "/h"})
    assert made.command == "node"
    assert made.args == ("--key=k${HOME}", "fallback", "$KEY", "aa")
    assert made.env == {"TOKEN": "k${HOME}"}
    assert made.cwd == "/h/x"
    with pytest.raises(ConfigError, match="'docs' requires the variables A, HOME, KEY, which are not set"):
        expand_config(server, {})
    web = one({"url": "https://${HOST}/mcp", "headers": {"Authorization": "Bearer ${T}"}})
    assert expand_config(web, {"HOST": "x.test", "T": "t"}).headers == {"Authorization": "Bearer t"}


@given(st.text(alphabet="ab${}:-_AB ", max_size=30))
def test_no_text_breaks_the_expansion(text: str) -> None:
    missing: set[str] = set()
    made = expand_variables(text, {"A": "x"}, missing)
    assert "${A}" not in made or "${A}" not in text
    if "${" not in text:
        assert made == text
