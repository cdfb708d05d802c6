"""Server configuration: all supported formats, entry by entry."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from mainspring.errors import ConfigError
from mainspring.mcp import McpConfig, McpServerConfig, merge_configs, parse_mcp_config
from mainspring.mcp.config import expand_config, expand_variables

ENTRY = {"command": "npx", "args": ["-y", "server", 7], "env": {"PORT": 80, "ON": True}, "cwd": "/tmp"}


def parse_one(entry: Any) -> McpServerConfig:
    parsed = parse_mcp_config({"docs": entry})
    assert not parsed.problems
    return parsed.servers[0]


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
def test_maps_and_lists_give_the_same_server(data: Any) -> None:
    parsed = parse_mcp_config(data, place="mcp.json")
    assert parsed.problems == ()
    (server,) = parsed.servers
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
def test_transports_of_other_programs_are_recognized(entry: Any, transport: str) -> None:
    assert parse_one(entry).transport == transport


@pytest.mark.covers("BYD-10")
def test_tool_filters_accept_the_settings_of_other_programs() -> None:
    for entry in (
        {"include": ["read_*"], "exclude": "read_secret"},
        {"tools": {"include": ["read_*"], "exclude": ["read_secret"]}},
        {"includeTools": ["read_*"], "excludeTools": ["read_secret"]},
        {"tools": "read_*", "disabledTools": ["read_secret"]},
    ):
        server = parse_one({"command": "a", **entry})
        assert [server.includes_tool(n) for n in ("read_file", "read_secret", "write")] == [True, False, False], entry
    assert not parse_one({"command": "a", "disabled": True}).enabled


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("npx", "must be an object, not 'npx'. In Python: McpServerConfig("),
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
def test_invalid_entry_is_reported_and_other_servers_are_parsed(entry: Any, problem: str) -> None:
    parsed = parse_mcp_config({"bad": entry, "good": {"command": "a"}}, place="f.json")
    assert [s.name for s in parsed.servers] == ["good"]
    assert parsed.problems[0].startswith("f.json: MCP server 'bad': ")
    assert problem in parsed.problems[0]


def test_unsupported_settings_are_ignored_with_a_warning() -> None:
    parsed = parse_mcp_config({"a": {"command": "x", "alwaysAllow": ["y"], "description": "z"}})
    assert len(parsed.servers) == 1
    assert [w.partition(": ")[2] for w in parsed.warnings] == [
        "alwaysAllow is not supported and is ignored",
        "description is not supported and is ignored",
    ]


def test_last_server_with_a_name_wins() -> None:
    duplicated = parse_mcp_config([{"name": "a", "command": "x"}, {"name": "a", "command": "y"}])
    assert [s.command for s in duplicated.servers] == ["y"]
    assert "Duplicate MCP server name: 'a'" in duplicated.warnings[0]
    merged = merge_configs(duplicated, parse_mcp_config({"b": {"command": "z"}, "a": {"url": "http://x"}}))
    assert [(s.name, s.url) for s in merged.servers] == [("a", "http://x"), ("b", "")]


@pytest.mark.parametrize("data", [None, {}, [], {"mcpServers": {}}, {"mcpServers": None}])
def test_empty_config_has_no_servers(data: Any) -> None:
    assert parse_mcp_config(data) == McpConfig()


def test_secrets_are_not_shown_in_the_repr() -> None:
    server = parse_one({"url": "https://x.test", "headers": {"Authorization": "Bearer abc"}, "clientSecret": "xyz"})
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
def test_parser_accepts_any_json(data: Any) -> None:
    parsed = parse_mcp_config(data)
    assert all(s.command.strip() or s.url for s in parsed.servers)


def test_variables_are_expanded_and_missing_ones_are_named() -> None:
    server = parse_one(
        {
            "command": "${BIN:-node}",
            "args": ["--key=${KEY}", "${EMPTY:-fallback}", "$KEY", "${A}${env:A}"],
            "env": {"TOKEN": "${KEY}"},
            "cwd": "${HOME}/x",
        }
    )
    expanded = expand_config(server, {"KEY": "k${HOME}", "EMPTY": "", "A": "a", "HOME": "/h"})
    assert expanded.command == "node"
    assert expanded.args == ("--key=k${HOME}", "fallback", "$KEY", "aa")
    assert expanded.env == {"TOKEN": "k${HOME}"}
    assert expanded.cwd == "/h/x"
    with pytest.raises(ConfigError, match="'docs' requires the variables A, HOME, KEY, which are not set"):
        expand_config(server, {})
    http_server = parse_one({"url": "https://${HOST}/mcp", "headers": {"Authorization": "Bearer ${T}"}})
    assert expand_config(http_server, {"HOST": "x.test", "T": "t"}).headers == {"Authorization": "Bearer t"}


@given(st.text(alphabet="ab${}:-_AB ", max_size=30))
def test_expand_variables_accepts_any_text(text: str) -> None:
    missing: set[str] = set()
    expanded = expand_variables(text, {"A": "x"}, missing)
    assert "${A}" not in expanded or "${A}" not in text
    if "${" not in text:
        assert expanded == text
