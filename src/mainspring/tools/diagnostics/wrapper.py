"""Wrapper that adds diagnostics from language servers to the results of tools that change files."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from mainspring.env import ExecutionEnv, RealPath
from mainspring.env.paths import display_path
from mainspring.text import truncate_end
from mainspring.tools.diagnostics.client import LanguageServerClient, LanguageServerConfig
from mainspring.tools.diagnostics.protocol import Diagnostic
from mainspring.tools.support.text_files import decode_text, replace_surrogates
from mainspring.tools.tool import Tool, ToolContext, ToolResult, to_tool_result

WAIT_SECONDS = 3.0
"""Seconds that a result waits for the servers; later diagnostics are reported with the next change."""
MAX_REPORTED = 10
_MAX_BYTES = 1 << 20
_MAX_MESSAGE_CHARS = 300
_KEY = "language-servers"


def with_diagnostics(tool: Tool, servers: Sequence[LanguageServerConfig], *, limit: float = WAIT_SECONDS) -> Tool:
    """Return the tool with results that also report the problems that a change caused.

    A server starts at the first change of a file that it supports, once per environment, and stops with the environment. If
    a server is missing, fails, or is slow, its diagnostics are omitted.

    Args:
        tool: Tool with `Tool.access` for its writes: ``write_file``, ``edit``, ``multi_edit``, ``apply_patch``.
        servers: Language servers.
        limit: Maximum seconds that a result waits for the servers.
    """

    async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        watched = await _affected_files(tool, arguments, ctx, servers)
        for watch, path in watched:
            await _record_baseline(watch, path, ctx)
        result = to_tool_result(await tool.execute(arguments, ctx))
        if not watched or result.is_error or not result.metadata.get("changed", True):
            return result
        return await _with_diagnostics(ctx, result, watched, limit)

    return replace(tool, execute=execute)


class _ServerState:
    """A client, and its diagnostics of each file before the unreported changes."""

    def __init__(self, client: LanguageServerClient) -> None:
        self.client = client
        self.loop = asyncio.get_running_loop()
        self.before: dict[str, tuple[Diagnostic, ...] | None] = {}
        self.tasks: dict[str, asyncio.Task[tuple[Diagnostic, ...] | None]] = {}


def _server_state(env: ExecutionEnv, server: LanguageServerConfig) -> _ServerState:
    states: dict[tuple[str, ...], _ServerState] = env.scratch.setdefault(_KEY, {})
    watch = states.get(server.command)
    if (
        watch is None or watch.loop is not asyncio.get_running_loop()
    ):  # A server of another event loop ended with that loop.
        watch = states[server.command] = _ServerState(LanguageServerClient(server, env))
    return watch


async def _affected_files(
    tool: Tool, arguments: Mapping[str, Any], ctx: ToolContext, servers: Sequence[LanguageServerConfig]
) -> list[tuple[_ServerState, str]]:
    """Return the files that the call will write and for which a server is configured."""
    found: dict[str, None] = {}
    for access in tool.access(arguments) if tool.access else ():
        if access.scope == "fs-write":
            try:
                found[await ctx.resolve(access.resource)] = None
            except OSError:
                continue  # the tool reports the error
    return [(_server_state(ctx.env, server), path) for path in found for server in servers if server.language_of(path)]


async def _text(ctx: ToolContext, path: str) -> str | None:
    try:
        data = await ctx.env.read_bytes(RealPath(path), limit=_MAX_BYTES + 1)
    except OSError:
        return None
    document = await asyncio.to_thread(decode_text, data) if len(data) <= _MAX_BYTES else None
    return None if document is None else replace_surrogates(document.text)


async def _record_baseline(watch: _ServerState, path: str, ctx: ToolContext) -> None:
    """Open a file that the server does not know yet, with the content before the change, without waiting for the result."""
    if watch.client.known(path) or path in watch.tasks:
        return
    text = await _text(ctx, path)
    if text is None:
        watch.before[path] = ()  # a new file: every problem is new
        watch.tasks[path] = asyncio.ensure_future(_started(watch.client))
    else:
        watch.tasks[path] = asyncio.ensure_future(watch.client.diagnose(path, text))


async def _started(client: LanguageServerClient) -> None:
    await client.ensure_running()


async def _with_diagnostics(
    ctx: ToolContext, result: ToolResult, watched: Sequence[tuple[_ServerState, str]], limit: float
) -> ToolResult:
    texts = {path: await _text(ctx, path) for _, path in watched}
    jobs = [
        asyncio.ensure_future(_new_diagnostics(watch, path, text))
        for watch, path in watched
        if (text := texts[path]) is not None
    ]
    if not jobs:
        return result
    _, late = await asyncio.wait(jobs, timeout=limit)
    for job in late:
        job.cancel()
    if late:
        for watch in dict.fromkeys(watch for watch, _ in watched):
            await watch.client.record_timeout()
    found = [job.result() for job in jobs if job not in late]
    reports = [entry for entry in found if entry is not None]
    notes = [
        note
        for watch, path, new, fixed in reports
        if (note := _format_note(watch, display_path(path, ctx.env.cwd), new, fixed))
    ]
    diagnostics = [
        {"path": path, "server": watch.client.server.title, "line": d.line, "column": d.column, "severity": d.severity,
         "message": d.message, "code": d.code}
        for watch, path, new, _ in reports
        for d in new
    ]  # fmt: skip
    metadata = {**result.metadata, "diagnostics": diagnostics, "diagnostics_late": bool(late)}
    output = result.output
    if notes and isinstance(output, str):
        output = "\n".join([output, *notes])
    return replace(result, output=output, metadata=metadata)


_Changes = tuple[_ServerState, str, list[Diagnostic], int]


async def _new_diagnostics(watch: _ServerState, path: str, text: str) -> _Changes | None:
    """Return the new problems in a file since the last report, and the number of resolved problems."""
    task = watch.tasks.get(path)
    if task is not None:
        before = await asyncio.shield(task)
        watch.tasks.pop(path, None)
        watch.before.setdefault(path, before)
    after = await watch.client.diagnose(path, text)
    if after is None:
        return None
    before = watch.before.get(path)
    watch.before[path] = after
    if before is None:
        return watch, path, [], 0  # No baseline yet; this result becomes the baseline.
    counts = Counter(d.key for d in before)
    new: list[Diagnostic] = []
    for diagnostic in after:
        if counts[diagnostic.key] > 0:
            counts[diagnostic.key] -= 1
        else:
            new.append(diagnostic)
    return watch, path, new, sum(counts.values())


def _format_note(watch: _ServerState, name: str, new: Sequence[Diagnostic], fixed_count: int) -> str:
    """Format new problems: errors first, up to a limit."""
    serious = [d for d in new if d.severity in ("error", "warning")]
    if not serious:
        return ""
    ranked = sorted(serious, key=lambda d: (d.severity != "error", d.line, d.column))
    lines = [f"{d.line}:{d.column} {d.severity}: {_format_diagnostic(d)}" for d in ranked[:MAX_REPORTED]]
    if len(ranked) > MAX_REPORTED:
        lines.append(f"and {len(ranked) - MAX_REPORTED} more")
    count = f"{len(ranked)} new problem{'' if len(ranked) == 1 else 's'}"
    fixed = f", {fixed_count} gone" if fixed_count else ""
    return replace_surrogates("\n".join([f"[{watch.client.server.title}: {count} in {name}{fixed}]", *lines]))


def _format_diagnostic(diagnostic: Diagnostic) -> str:
    text = truncate_end(" ".join(diagnostic.message.split()), _MAX_MESSAGE_CHARS)
    return f"{text} ({diagnostic.code})" if diagnostic.code else text
