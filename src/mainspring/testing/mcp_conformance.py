"""The MCP client as driven by the official conformance suite: ``python -I -m mainspring.testing.mcp_conformance URL``.

The suite starts a server, runs this module with its address, and checks the traffic. Connections, calls, and logins are those
that agents use; only the user is simulated: forms are accepted with their defaults, and logins are approved.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from mainspring.mcp.config import McpServerConfig, parse_mcp_config
from mainspring.mcp.connect import connect_mcp
from mainspring.mcp.login import login_mcp
from mainspring.mcp.server import McpServer
from mainspring.mcp.types import ElicitRequest, ElicitResult, McpError, SamplingRequest, SamplingResult

USAGE_TEXT = "usage: python -I -m mainspring.testing.mcp_conformance URL"
_CONTEXT = "MCP_CONFORMANCE_CONTEXT"
"""The variable in which the suite passes advance information to the client, as JSON."""

MAX_LOGINS = 3
"""Maximum number of logins at a server that never accepts one."""

_SECONDS = 25.0
_SAMPLES: dict[str, Any] = {
    "string": "text",
    "integer": 5,
    "number": 5,
    "boolean": True,
    "array": [],
    "object": {},
    "null": None,
}


async def exercise_server(url: str, context: Mapping[str, Any], tokens: Path) -> list[str]:
    """Use a server in every way: connect, list, call every tool; log in if the server requires it.

    Args:
        url: Address of the server.
        context: Advance information: ``client_id`` and ``client_secret``, ``toolCalls`` to make.
        tokens: The folder for logins.

    Returns:
        A log, one line per action.

    Raises:
        McpFailure: If the server cannot be used.
    """
    config = _config(url, context)
    lines: list[str] = []
    for _ in range(MAX_LOGINS):
        try:
            async with connect_mcp(
                config, elicit=_fill_form, allow_sampling=_allow_sampling, sampler=_sample_text, tokens=tokens
            ) as server:
                lines += await _call_all_tools(server, context)
                return lines
        except McpError as failure:
            if failure.reason != "login":
                raise
            lines.append(str(failure))
        await login_mcp(config, tokens, show=_open_login_page, browser=False, seconds=_SECONDS)
    raise McpError(config.name, f"{url} still requires a login after {MAX_LOGINS} logins", "login")


def sample_arguments(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Create arguments for a simple schema: defaults, first choices, or any value of the type."""
    properties = cast("dict[str, Any]", schema.get("properties") or {})
    return {name: _sample(properties.get(name)) for name in cast("list[str]", schema.get("required") or [])}


def _sample(schema: Any) -> Any:
    field = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
    for known in ("default", "const"):
        if known in field:
            return field[known]
    choices = field.get("enum")
    if isinstance(choices, list) and choices:
        return cast("list[Any]", choices)[0]
    kinds: Any = field.get("type")
    first = next(iter(cast("list[Any]", kinds)), "") if isinstance(kinds, list) else kinds
    return _SAMPLES.get(str(first), "text")


def _config(url: str, context: Mapping[str, Any]) -> McpServerConfig:
    known = {name: context[name] for name in ("client_id", "client_secret") if context.get(name)}
    return parse_mcp_config([{"name": "conformance", "url": url, "timeout": _SECONDS, **known}]).servers[0]


async def _call_all_tools(server: McpServer, context: Mapping[str, Any]) -> list[str]:
    lines = [f"connected to {server.info.name} {server.info.version}, protocol {server.info.protocol}"]
    for kind, listing in (("resources", server.list_resources), ("prompts", server.list_prompts)):
        if kind in server.info.capabilities:
            lines.append(f"{kind}: {len(await listing())}")
    schemas = [info.input_schema for info in server.tool_infos]
    calls = [
        (info.name, {**sample_arguments(info.input_schema), **_echo_schema(info.input_schema, schemas)})
        for info in server.tool_infos
    ]
    calls += [(c["name"], c.get("arguments") or {}) for c in context.get("toolCalls") or ()]
    for name, arguments in calls:
        try:
            answer = await server.call(name, arguments)
        except McpError as failure:
            if failure.reason == "login":
                raise
            lines.append(f"{name}: {failure.reason}: {failure}")
        else:
            lines.append(f"{name}: {_summarize_content(answer.content)}{' (an error)' if answer.is_error else ''}")
    return lines


def _echo_schema(schema: Mapping[str, Any], schemas: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the richest received schema for a tool that asks for one."""
    requested = cast("dict[str, Any]", schema.get("properties") or {}).get("schema")
    return {"schema": max(schemas, key=len)} if isinstance(requested, dict) else {}


def _summarize_content(content: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps(content, ensure_ascii=False)[:200]


def _fill_form(request: ElicitRequest) -> ElicitResult:
    """Accept a form with its defaults."""
    fields = cast("dict[str, dict[str, Any]]", request.schema.get("properties") or {})
    required = cast("list[str]", request.schema.get("required") or [])
    given = {n: f["default"] for n, f in fields.items() if "default" in f}
    return ElicitResult("accept", {**{n: _sample(fields.get(n)) for n in required}, **given})


def _allow_sampling(request: SamplingRequest) -> bool:
    return True


async def _sample_text(request: SamplingRequest) -> SamplingResult:
    return SamplingResult("This is the answer of a test.", "scripted")


async def _open_login_page(page: str) -> None:
    """Open the login page as a user who agrees: the page redirects to us."""
    import httpx2

    async with httpx2.AsyncClient(follow_redirects=True, timeout=_SECONDS) as browser:
        await browser.get(page)


async def run(url: str, environ: Mapping[str, str] = os.environ) -> int:
    """Exercise a server and write the log to stderr; return the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            lines = await exercise_server(url, json.loads(environ.get(_CONTEXT) or "{}"), Path(folder))
        except McpError as failure:
            sys.stderr.write(f"{failure.reason}: {failure}\n")
            return 1
    sys.stderr.write("".join(f"{line}\n" for line in lines))
    return 0


def main(arguments: Sequence[str]) -> int:
    """Run for the address that is the last argument."""
    if not arguments:
        sys.stderr.write(f"{USAGE_TEXT}\n")
        return 2
    return asyncio.run(run(arguments[-1]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
