"""The tool search: matches, ranking, and result text."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from mainspring.env import MemoryEnv
from mainspring.mcp import (
    create_tool_search,
)  # Import from the public package because applications create this tool too.
from mainspring.mcp.tool_search import DEFAULT_RESULTS, MAX_RESULTS, ToolIndex
from mainspring.tools import Tool, ToolContext, ToolResult, define_tool
from tests.unit.mcp.harness import parse_search_results

TOOLS = {
    ("github", "create_issue"): "Open a new issue in a repository. Needs a title.",
    ("github", "listIssues"): "List issues of a repository, newest first.",
    ("github", "merge_pull_request"): "Merge a pull request once its checks are green.",
    ("files", "read_text_file"): "Read a file of the disk as text.",
    ("files", "move"): "Move or rename a file or a directory.",
    ("mail", "send"): "Send an e-mail with a subject and attachments.",
    ("Team Calendar", "add_event"): "Put an appointment into the calendar: when, where, with whom.",
}


def make_tool(server: str, name: str, description: str = "", **properties: Any) -> Tool:
    async def execute(args: dict[str, Any], ctx: Any) -> str:
        return ""

    return define_tool(
        f"mcp__{server.replace(' ', '_')}__{name}",
        description=description or name,
        parameters={"type": "object", "properties": properties},
        execute=execute,
        source=f"mcp:{server}",
    )


ALL = [make_tool(server, name, text) for (server, name), text in TOOLS.items()]


async def search(
    tools: Any = ALL, *, limit: int = DEFAULT_RESULTS, wire_name: Any = str, **arguments: Any
) -> tuple[ToolResult, list[str]]:
    unlocked: list[str] = []
    tool = create_tool_search(tools, unlocked.extend, limit=limit, model_name=wire_name)
    return await tool(ToolContext(env=MemoryEnv({})), **arguments), unlocked


@pytest.mark.covers("DIS-05", "BYD-11")
@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("create an issue", "create_issue"),
        ("list issue", "listIssues"),
        ("pull requests", "merge_pull_request"),
        ("e-mail", "send"),
        ("rename directory", "move"),
        ("appointment", "add_event"),
        ("read files", "read_text_file"),
        ("repo", "listIssues"),
    ],
)
async def test_best_match_comes_first(query: str, first: str) -> None:
    result, unlocked = await search(query=query)

    assert unlocked[0].endswith(first), unlocked
    assert parse_search_results(result.text)[0]["name"] == unlocked[0]


@pytest.mark.covers("DIS-05", "DIS-06", "BYD-11")
async def test_exact_names_are_found_in_order_and_unknown_names_reported() -> None:
    result, unlocked = await search(
        names=["mcp__mail__send", "MCP__files__MOVE", "mcp__files__moev", "mcp__mail__send"]
    )

    assert unlocked == ["mcp__mail__send", "mcp__files__move"]
    assert "No locked tool is named mcp__files__moev; near it: mcp__files__move" in result.text


@pytest.mark.covers("DIS-05")
@pytest.mark.parametrize(
    ("server", "count"), [("github", 3), ("GitHub", 3), ("Team Calendar", 1), ("team_calendar", 1), ("nothing", 0)]
)
async def test_server_is_found_by_its_name_or_its_prefix(server: str, count: int) -> None:
    _, unlocked = await search(server=server)

    assert len(unlocked) == count


@pytest.mark.covers("DIS-05")
async def test_query_and_server_are_combined_and_names_come_first() -> None:
    _, unlocked = await search(names=["mcp__mail__send"], query="file", server="files")

    assert unlocked[0] == "mcp__mail__send"
    assert set(unlocked[1:]) == {"mcp__files__move", "mcp__files__read_text_file"}


@pytest.mark.covers("DIS-05")
async def test_limit_applies_and_further_matches_are_named() -> None:
    many = [make_tool("big", f"thing_{n:03}", "Does a thing.") for n in range(200)]

    result, unlocked = await search(many, server="big")
    assert len(unlocked) == DEFAULT_RESULTS == 10
    assert "190 more match; search for them by name, or raise limit: mcp__big__thing_010, " in result.text
    assert "mcp__big__thing_199" not in result.text
    assert len((await search(many, server="big", limit=3))[1]) == 3
    tool = create_tool_search(many, list)
    request = await tool(ToolContext(env=MemoryEnv({})), server="big", limit=25)
    assert len(parse_search_results(request.text)) == 25
    assert tool.input_schema["properties"]["limit"]["maximum"] == MAX_RESULTS
    assert len((await search(many, names=[t.name for t in many[:20]]))[1]) == 20


@pytest.mark.parametrize(
    ("arguments", "is_error"), [({}, True), ({"query": " "}, True), ({"query": "zzzz"}, False), ({"names": []}, True)]
)
async def test_search_without_matches_lists_the_servers(arguments: Any, is_error: bool) -> None:
    result, unlocked = await search(**arguments)

    assert (result.is_error, unlocked) == (is_error, [])
    assert "Servers and how many tools they have: Team Calendar (1), files (2), github (3), mail (1)" in result.text


@pytest.mark.covers("DIS-11")
async def test_tools_can_be_dynamic_and_shown_under_other_names() -> None:
    tools: list[Tool] = []
    unlocked: list[str] = []
    tool = create_tool_search(
        lambda: tools, unlocked.extend, name="find", model_name=lambda name: name.removeprefix("mcp__")
    )
    context = ToolContext(env=MemoryEnv({}))

    assert (tool.name, tool.source) == ("find", "builtin")
    assert "No tool is locked" in (await tool(context, query="send")).text
    tools += ALL
    result = await tool(context, names=["mail__send"])
    assert (unlocked, parse_search_results(result.text)[0]["name"]) == (["mcp__mail__send"], "mail__send")


@pytest.mark.covers("DIS-07", "SEC-13")
async def test_large_descriptions_and_schemas_are_truncated_with_a_note() -> None:
    huge = [
        make_tool("a", "long_text", "x" * 100_000),
        make_tool(
            "a", "long_schema", "y", **{f"p{n}": {"type": "string", "description": "z" * 100} for n in range(1000)}
        ),
    ]
    result, unlocked = await search(huge, server="a")

    assert len(unlocked) == 2
    assert len(result.text) < 10_000
    schema, text = parse_search_results(result.text)
    assert "too long to show" in schema["note"]
    assert len(text["description"]) == 4001

    many = [
        make_tool("a", f"t{n}", "y", **{f"p{i}": {"description": "z" * 100} for i in range(200)}) for n in range(50)
    ]
    whole, unlocked = await search(many, server="a", limit=50)
    assert len(unlocked) == 50
    assert len(whole.text) < 170_000


@pytest.mark.covers("DIS-07")
async def test_results_have_the_schema_in_a_tag_of_each_tool() -> None:
    tool = make_tool("a", "x", "One & two\n</description>", city={"type": "string", "description": "<b> & c"})
    result, _ = await search([tool], names=["mcp__a__x"])

    assert result.text == (
        "<tool_search_results>\n<tool>\n<name>mcp__a__x</name>\n"
        "<description>One &amp; two\n&lt;/description&gt;</description>\n"
        '<input_schema>{"type":"object","properties":{"city":{"type":"string","description":"\\u003cb> & c"}}}</input_schema>\n'
        "</tool>\n</tool_search_results>"
    )


def test_order_of_words_and_tools_does_not_change_the_ranking() -> None:
    index = ToolIndex()
    first = [t.name for t in index.search(ALL, "file issue repository")]

    assert first == [t.name for t in index.search(list(reversed(ALL)), "repository issue FILES")]
    assert first == [t.name for t in ToolIndex().search(ALL, "file issue repository")]


def test_non_latin_text_is_found() -> None:
    tools = [
        make_tool("a", "x", "天気予報を調べる"),
        make_tool("a", "y", "メールを送る"),
        make_tool("a", "z", "Überweisung prüfen"),
    ]
    index = ToolIndex()

    assert [t.name[-1] for t in index.search(tools, "天気")] == ["x"]
    assert [t.name[-1] for t in index.search(tools, "überweisung")] == ["z"]


def test_changed_tool_is_indexed_again() -> None:
    index = ToolIndex()
    assert not index.search([make_tool("a", "x", "old")], "new")
    assert index.search([make_tool("a", "x", "new")], "new")


@given(st.text(max_size=80), st.lists(st.text(max_size=40), max_size=4))
def test_search_accepts_any_text(query: str, descriptions: list[str]) -> None:
    tools = [make_tool("a", f"t{n}", text or "-") for n, text in enumerate(descriptions)]
    assert set(ToolIndex().search(tools, query)) <= set(tools)
