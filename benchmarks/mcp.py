"""Ten MCP servers of twenty tools each: how soon the first prompt goes out, what the tools cost, and what a cache keeps.

The servers are small programs that speak the protocol over stdio; one of them can be told never to answer. The model follows a
script, so nothing but Mainspring is measured. Tokens are about, by the library's estimate of four characters each; bytes are of the
request as Anthropic gets it (tools, then the system prompt, then messages: the order in which a prefix is cached).
``python -m benchmarks mcp``, or with fewer servers: ``python -m benchmarks.mcp 3``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from mainspring import Agent
from mainspring.mcp import McpPlug, McpServerConfig
from mainspring.messages.token_estimate import estimate_overhead
from mainspring.models import ModelRequest
from mainspring.models.port import ModelInfo
from mainspring.models.profile import ModelProfile
from mainspring.models.wire import anthropic as anthropic_messages
from mainspring.testing.scripted_model import ScriptedCall, ScriptedModel

SERVERS, TOOLS, TURNS = 10, 20, 20
SEARCHES = {4: "copy a file", 9: "send a mail", 15: "close a ticket"}
"""In which turns the model searches, and for what."""

_SYSTEM = "You help with the work on a project. " * 40
_AREAS = ("file", "mail", "ticket", "calendar", "wiki", "chat", "build", "deploy", "metric", "contact")
_VERBS = "copy move send close open list read write delete rename search archive label share watch lock merge split tag export".split()

PROGRAM = '''
    import json, sys

    name, verbs, silent = sys.argv[1], sys.argv[2].split(), len(sys.argv) > 3
    def schema(verb):
        about = f"The {name} to {verb}, by its id or its path. Wild cards are not expanded here."
        return {"type": "object", "required": ["target"], "additionalProperties": False, "properties": {
            "target": {"type": "string", "description": about},
            "mode": {"type": "string", "enum": ["safe", "fast", "dry-run"], "description": "How careful to be."},
            "limit": {"type": "integer", "minimum": 1, "maximum": 500, "description": "Most of them in one call."},
            "tags": {"type": "array", "items": {"type": "string"}, "description": "Only those that have all of these tags."}}}
    tools = [{"name": f"{v}_{name}", "description": f"{v.title()} a {name}. Use it when the user asks to {v} something among the {name}s; it tells what was done.", "inputSchema": schema(v)} for v in verbs]
    for line in sys.stdin:
        message = json.loads(line)
        method = message.get("method")
        if silent or "id" not in message:
            continue
        if method == "initialize":
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": name, "version": "1"}}
        elif method == "tools/list":
            result = {"tools": tools}
        elif method == "tools/call":
            result = {"content": [{"type": "text", "text": "done"}]}
        else:
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no such method"}}), flush=True)
            continue
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
'''  # fmt: skip


def configs(program: Path, count: int, *, silent: bool = False) -> list[McpServerConfig]:
    """Servers, of which one may never answer."""
    areas = [_AREAS[i % len(_AREAS)] + (str(i // len(_AREAS)) if i >= len(_AREAS) else "") for i in range(count)]
    return [
        McpServerConfig(
            name=area,
            command=sys.executable,
            args=(
                "-S",
                "-E",
                str(program),
                area,
                " ".join(_VERBS[:TOOLS]),
                *(("silent",) if silent and i == 0 else ()),
            ),
        )
        for i, area in enumerate(areas)
    ]


async def first_prompt(servers: Sequence[McpServerConfig]) -> dict[str, Any]:
    """Seconds from the making of an agent to its first request, and with how many tools."""
    began = time.perf_counter()
    seen: list[float] = []

    def answer(request: ModelRequest) -> str:
        seen.append(time.perf_counter() - began)
        seen.append(sum(t.name.startswith("mcp__") for t in request.tools))
        return "done"

    agent = Agent(ScriptedModel(answer), system=_SYSTEM, mcp_servers=McpPlug(servers))
    try:
        await agent.run("Hello")
    finally:
        await agent.shutdown()
    return {"seconds": round(seen[0], 2), "tools": int(seen[1])}


async def conversation(servers: Sequence[McpServerConfig], disclosure: Any) -> dict[str, Any]:
    """Twenty turns, with searches where tools are found by search: what the first request costs, and what each keeps of the last."""
    script: list[Any] = []
    for turn in range(1, TURNS):
        query = SEARCHES.get(turn) if disclosure == "lazy" else None
        script.append(
            ScriptedCall("tool_search", {"query": query, "limit": 3})
            if query
            else ScriptedCall("mcp__file__list_file", {"target": "a"})
        )
    if disclosure == "lazy":
        script[0] = ScriptedCall("tool_search", {"names": ["mcp__file__list_file"]})
    model = ScriptedModel(*script, "done")
    agent = Agent(model, system=_SYSTEM, mcp_servers=McpPlug(servers, grace=30.0), tool_disclosure=disclosure)
    try:
        await agent.run("Go")
    finally:
        await agent.shutdown()
    requests = [seen.request for seen in model.requests]
    sent = [_sent(seen.request, seen.messages) for seen in model.requests]
    kept = [_common(a, b) for a, b in zip(sent, sent[1:], strict=False)]
    first = requests[0]
    tools_kept = [_common(_tools(a), _tools(b)) / len(_tools(a)) for a, b in zip(requests, requests[1:], strict=False)]
    return {
        "first_request_tokens": estimate_overhead(first.system, first.tools),
        "tools_in_first_request": len(first.tools),
        "tools_in_last_request": len(requests[-1].tools),
        "turns_that_kept_every_byte_before": sum(k >= len(a) for k, a in zip(kept, sent, strict=False)),
        "turns": len(kept),
        "tools_prefix_kept_at_least": round(min(tools_kept), 4),
        "system_prompts": len({r.system for r in requests}),
        "bytes_sent": sum(map(len, sent)),
        "bytes_of_a_prefix_before": sum(kept),
    }


def _tools(request: ModelRequest) -> bytes:
    return b"".join(json.dumps([t.name, t.description, t.input_schema]).encode() for t in request.tools)


def _sent(request: ModelRequest, messages: Any) -> bytes:
    """A request in the order in which its prefix is cached; without the marks of the cache, which move."""
    body = json.loads(
        anthropic_messages.encode_request(
            replace(request, messages=tuple(messages), scratch=None), ModelProfile(ModelInfo("m", "p"), "http://h")
        )
    )
    parts = [*body["tools"], body.get("system"), *body["messages"]]
    return b"\n".join(json.dumps(_unmarked(p)).encode() for p in parts)


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _unmarked(v) for k, v in value.items() if k != "cache_control"}
    return [_unmarked(v) for v in value] if isinstance(value, list) else value


def _common(a: bytes, b: bytes) -> int:
    return len(os.path.commonprefix([a, b]))


def figures(servers: int = SERVERS) -> dict[str, Any]:
    """All figures."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "server.py"
        program.write_text(textwrap.dedent(PROGRAM), encoding="utf-8")
        good, silent = configs(program, servers), configs(program, servers, silent=True)
        return {
            "servers": servers,
            "tools": servers * TOOLS,
            "first_prompt_all_answer": asyncio.run(first_prompt(good)),
            "first_prompt_one_never_answers": asyncio.run(first_prompt(silent)),
            "eager": asyncio.run(conversation(good, "eager")),
            "lazy": asyncio.run(conversation(good, "lazy")),
        }


def measure(servers: int = SERVERS) -> None:
    """Print all figures."""
    print(json.dumps(figures(servers), indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("servers", nargs="?", type=int, default=SERVERS)
    measure(parser.parse_args().servers)


if __name__ == "__main__":
    main()
