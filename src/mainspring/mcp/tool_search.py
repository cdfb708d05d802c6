"""The tool `tool_search`: the model finds tools of MCP servers and unlocks them.

The search ranks tools with BM25 over names, servers, descriptions, and parameters. The same query returns the same order.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from mainspring.lazy import lazy_function
from mainspring.messages import ToolDefinition
from mainspring.messages.token_estimate import estimate_overhead
from mainspring.policies.disclosure import TOOL_SEARCH_NAME, Disclosure
from mainspring.prompt_tags import escape_json, escape_text
from mainspring.text import truncate_end
from mainspring.tools import Tool, ToolContext, ToolErrorCode, ToolResult, define_tool
from mainspring.tools.tool import no_access

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent

if TYPE_CHECKING:
    from mainspring.ranking import score_texts, tokenize
else:
    score_texts = lazy_function("mainspring.ranking", "score_texts")
    tokenize = lazy_function("mainspring.ranking", "tokenize")


_NAME, _SERVER, _PARAMETER = 6, 2, 1  # weight of a word in these fields, relative to the description
_MAX_DESCRIPTION_CHARS = 2000
"""Maximum characters of a description to index: the purpose of a tool is at the beginning."""
_PARAMETERS = 50
_PREFIX = 0.5


class ToolIndex:
    """Index that ranks tools. Entries are cached for each tool object."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Tool, Counter[str]]] = {}

    def search(self, tools: Sequence[Tool], query: str) -> list[Tool]:
        """Return the tools that match any word, best first; ties in alphabetical order."""
        self._known = {t.name: self._read(t) for t in tools}
        scores = score_texts(tokenize(query), [self._known[t.name][1] for t in tools], _PREFIX)
        found = [(-score, t.name, t) for score, t in zip(scores, tools, strict=True) if score > 0]
        return [t for _, _, t in sorted(found, key=lambda f: f[:2])]

    def _read(self, tool: Tool) -> tuple[Tool, Counter[str]]:
        known = self._known.get(tool.name)
        return known if known is not None and known[0] is tool else (tool, _tool_document(tool))


def _tool_document(tool: Tool) -> Counter[str]:
    server = tool.source.partition(":")[2]
    name = tool.name.removeprefix("mcp__")
    found: Counter[str] = Counter()
    for text, weight in (
        (name, _NAME),
        (tool.label, _NAME),
        (server, _SERVER),
        (tool.description[:_MAX_DESCRIPTION_CHARS], 1),
    ):
        for word in tokenize(text):
            found[word] += weight
    for key in _parameters(tool)[:_PARAMETERS]:
        for word in tokenize(str(key)):
            found[word] += _PARAMETER
    return found


def _parameters(tool: Tool) -> list[Any]:
    properties = tool.input_schema.get("properties")
    return list(cast("dict[Any, Any]", properties)) if isinstance(properties, dict) else []


DEFAULT_RESULTS = 10
"""Default number of tools that a search shows and unlocks."""


MAX_RESULTS = 50
"""Maximum number of tools that a search shows and unlocks."""


_MAX_QUERY_CHARS = 1000
_DESCRIPTION = 4000
_SCHEMA = 30_000
"""Maximum characters of a schema to show; a longer schema is only in the model's tools."""
_MAX_OUTPUT_BYTES = 120_000
_MAX_NAMES = 100


_TOOL_DESCRIPTION = (
    "Find tools of MCP servers that are locked, see their schemas and unlock them for use. Give names when you know them, words "
    "that describe what you want to do, or a server; query and server together narrow each other. What is found can be called from your next "
    "step on."
)


def create_tool_search(
    tools: Callable[[], Iterable[Tool]] | Iterable[Tool],
    on_found: Callable[[Sequence[str]], object],
    *,
    name: str = TOOL_SEARCH_NAME,
    limit: int = DEFAULT_RESULTS,
    model_name: Callable[[str], str] = str,
) -> Tool:
    """Create the tool `tool_search` for an application that unlocks tools itself.

    An `Agent` with a `Disclosure` already has this tool.

    Args:
        tools: Tools to search, or a function that returns the current tools.
        on_found: Function that receives the names of the found tools, in the order of the result.
        name: Name of the tool.
        limit: Default number of tools that a search shows and unlocks, 1 to 50.
        model_name: Function that returns the name of a tool for the model, which results show (default: its own name).
    """
    search = _SearchTool(tools, on_found, limit, model_name)
    words = {"type": "string", "maxLength": _MAX_QUERY_CHARS}
    return define_tool(
        name,
        description=_TOOL_DESCRIPTION,
        parameters={
            "type": "object",
            "properties": {
                "names": {"type": "array", "items": {"type": "string"}, "description": "Exact names of tools."},
                "query": {
                    **words,
                    "description": "What the tool should do, in a few words. The best matches come first.",
                },
                "server": {**words, "description": "Only tools of this server; alone: all of its tools."},
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_RESULTS,
                    "description": f"Most tools to show and unlock. Default {limit}; for names: all of them.",
                },
            },
            "additionalProperties": False,
        },
        execute=search.execute,
        source="builtin",
        idempotent=True,
        access=no_access,
    )


def create_search_of(disclosure: Disclosure) -> Tool:
    """Create the tool `tool_search` for the tools that a disclosure locks."""
    return create_tool_search(
        lambda: disclosure.lazy_tools,
        disclosure.on_found,
        limit=disclosure.search.limit,
        model_name=disclosure.model_name,
    )


class ToolSearchPlug:
    """Plugin that adds the tool `tool_search` to an agent with a `Disclosure`.

    An agent that already has a tool with this name is unchanged.

    Attributes:
        tool: The added tool; it works only for this agent.
    """

    def __init__(self) -> None:
        self.tool: Tool | None = None
        self._limit = 0

    def install(self, agent: CoreAgent) -> None:
        """See `Plugin`."""
        disclosure = next((p for p in agent.plugs if isinstance(p, Disclosure)), None)
        if disclosure is not None:
            self.update(agent, disclosure)

    def update(self, agent: CoreAgent, disclosure: Disclosure) -> None:
        """Add, replace, or remove the tool, as the options of the next run require."""
        limit = disclosure.search.limit if disclosure.has_lazy_servers and disclosure.search.tool else 0
        if self.tool is not None and limit != self._limit:
            if agent.tools.get(TOOL_SEARCH_NAME) is self.tool:
                agent.tools.remove(TOOL_SEARCH_NAME)
            self.tool = None
        if limit and disclosure.search_name not in agent.tools:
            self._limit = limit
            self.tool = create_search_of(disclosure)
            agent.tools.add(self.tool)

    def for_child(self) -> ToolSearchPlug:
        """Return a separate search for a subagent."""
        return ToolSearchPlug()


class _SearchTool:
    """Search of an agent."""

    def __init__(
        self,
        tools: Callable[[], Iterable[Tool]] | Iterable[Tool],
        unlock: Callable[[Sequence[str]], object],
        limit: int,
        wire_name: Callable[[str], str],
    ) -> None:
        given = tools if callable(tools) else list(tools)
        self._tools: Callable[[], Iterable[Tool]] = given if callable(given) else lambda: given
        self._unlock = unlock
        self._limit = limit
        self._wire_name = wire_name
        self._index = ToolIndex()

    async def execute(self, arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        """Search, unlock, and show tools."""
        names: list[str] = arguments.get("names") or []
        query, server = arguments.get("query", "").strip(), arguments.get("server", "").strip()
        tools = sorted(self._tools(), key=lambda t: t.name)
        if not names and not query and not server:
            text = f"Give names, a query or a server. {_describe_servers(tools)}"
            return ToolResult(output=text, is_error=True, code=ToolErrorCode.VALIDATION_ERROR)
        found, notes = self._find_by_name(tools, names)
        limit = arguments.get("limit") or (max(self._limit, min(len(found), MAX_RESULTS)) if names else self._limit)
        if query or server:
            candidates = [t for t in tools if not server or _is_from_server(t, server)]
            if query:
                candidates = await asyncio.to_thread(self._index.search, candidates, query[:_MAX_QUERY_CHARS])
            found += [t for t in candidates if t not in found]
        shown, rest = found[:limit], found[limit:]
        self._unlock([t.name for t in shown])
        if rest:
            notes.append(f"{len(rest)} more match; search for them by name, or raise limit: {self._render_names(rest)}")
        if not found and not notes:
            notes.append(f"Nothing matches. {_describe_servers(tools)}")
        lines = ["<tool_search_results>", *self._render_tools(shown), "</tool_search_results>", *notes]
        facts = {"unlocked": [t.name for t in shown], "matches": len(found)}
        return ToolResult(output="\n".join(lines), title=f"{len(shown)} of {len(found)} tools", metadata=facts)

    def _find_by_name(self, tools: Sequence[Tool], names: Sequence[str]) -> tuple[list[Tool], list[str]]:
        """Return the tools with these names, and notes about unknown names."""
        by_name = {self._wire_name(t.name).casefold(): t for t in tools} | {t.name: t for t in tools}
        by_name |= {self._wire_name(t.name): t for t in tools}
        found: dict[str, Tool] = {}
        notes: list[str] = []
        for name in dict.fromkeys(names[:_MAX_NAMES]):
            tool = by_name.get(name) or by_name.get(name.casefold())
            if tool is not None:
                found[tool.name] = tool
                continue
            import difflib

            near = difflib.get_close_matches(name[:200], [self._wire_name(t.name) for t in tools[:1000]], 3)
            hint = f"; near it: {', '.join(map(escape_text, near))}" if near else ""
            notes.append(f"No locked tool is named {escape_text(name[:200])}{hint}")
        return list(found.values()), notes

    def _render_tools(self, tools: Sequence[Tool]) -> list[str]:
        """Return the tools, limited to the size of a result."""
        lines: list[str] = []
        remaining = _MAX_OUTPUT_BYTES
        for tool in tools:
            line = _render_tool(self._wire_name(tool.name), tool, remaining > 0)
            remaining -= len(line)
            lines.append(line)
        return lines

    def _render_names(self, tools: Sequence[Tool]) -> str:
        names = ", ".join(escape_text(self._wire_name(t.name)) for t in tools[:_MAX_NAMES])
        return names if len(tools) <= _MAX_NAMES else f"{names}, ..."


def _render_tool(name: str, tool: Tool, has_room: bool) -> str:
    description = truncate_end(tool.description, _DESCRIPTION)
    about = "\n".join(map(escape_text, description.splitlines()))
    schema = ""
    if has_room:
        try:
            schema = escape_json(tool.input_schema)
        except ValueError:
            schema = ""
    if not schema or len(schema) > _SCHEMA:
        schema = "<note>the schema is too long to show here; it is one of your tools now</note>"
    else:
        schema = f"<input_schema>{schema}</input_schema>"
    return f"<tool>\n<name>{escape_text(name)}</name>\n<description>{about}</description>\n{schema}\n</tool>"


def _is_from_server(tool: Tool, server: str) -> bool:
    """Return True if a tool belongs to a server, given by its name or by its part of the tool's name."""
    own = tool.source.partition(":")[2]
    return server.casefold() in (own.casefold(), _plain(own)) or _plain(server) == _plain(own)


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name).casefold()


def _describe_servers(tools: Sequence[Tool]) -> str:
    counts: dict[str, int] = {}
    for tool in tools:
        server = tool.source.partition(":")[2]
        counts[server] = counts.get(server, 0) + 1
    if not counts:
        return "No tool is locked."
    server_counts = [f"{escape_text(name)} ({n})" for name, n in sorted(counts.items())]
    return f"Servers and how many tools they have: {', '.join(server_counts[:_MAX_NAMES])}"


class ServerTokenCost(Struct, frozen=True, kw_only=True):
    """Estimated cost of a server's tools in tokens, without the model's own tokenizer.

    Attributes:
        tools: Number of tools.
        eager: Tokens with schemas, in every request.
        lazy: Tokens of the names alone, in every request; `estimate_search_cost` is added once for all servers.
    """

    tools: int = 0
    eager: int = 0
    lazy: int = 0


def estimate_cost(specs: Sequence[ToolDefinition]) -> ServerTokenCost:
    """Estimate the cost of tools as sent."""
    return ServerTokenCost(
        tools=len(specs),
        eager=estimate_overhead("", specs),
        lazy=estimate_overhead("".join(f"{s.name}\n" for s in specs), ()),
    )


def estimate_search_cost() -> int:
    """Estimate the cost of the tool `tool_search` in every request, in tokens."""
    return estimate_overhead("", (create_tool_search((), lambda names: None).spec,))
