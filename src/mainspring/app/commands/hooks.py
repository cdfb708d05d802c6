"""``mainspring hooks``: list command hooks, or test them with a sample event."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from mainspring.app.cli.arguments import UsageError
from mainspring.app.cli.console import Console
from mainspring.app.cli.exit_codes import DENIED, OK
from mainspring.app.cli.parser import STDIN_MARK
from mainspring.app.cli.runner import run_command, workspace_options
from mainspring.app.cli.stdin import StdinReader
from mainspring.app.compose.extensions import command_hooks, hook_depth
from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.load import load_rules
from mainspring.env import LocalEnv
from mainspring.errors import ConfigError
from mainspring.extensions.command_hooks import COMMAND_EVENTS, CommandHook, HookCommandRunner, Verdict
from mainspring.extensions.command_hooks.config import CommandEvent, hook_tool_names
from mainspring.extensions.command_hooks.protocol import INPUTS
from mainspring.text import suggest_name

_SAMPLE_PAYLOAD: dict[str, Any] = {
    "session_id": "test",
    "agent": "mainspring",
    "prompt": "Hello",
    "tool_name": "shell",
    "tool_use_id": "call-test",
    "tool_response": {"output": "hello"},
    "message": "a tool call is waiting for approval",
    "last_assistant_message": "Done.",
    "agent_id": "child-1",
    "status": "completed",
    "trigger": "test",
    "messages_before": 40,
    "messages_after": 4,
    "reason": "exit",
}


class HookTest(Struct, frozen=True, kw_only=True):
    """The result of a test of command hooks.

    Attributes:
        verdicts: Result of each hook.
        refused: Whether a hook denied the action.
    """

    verdicts: tuple[Verdict, ...]
    refused: bool = False


def list_hooks(place: WorkspaceOptions) -> tuple[CommandHook, ...]:
    """List the command hooks that apply here.

    Raises:
        ConfigError: If the settings are invalid.
    """
    return tuple(command_hooks(load_rules(place)[1]))


async def try_hooks(event: str, tool: str, arguments: str, place: WorkspaceOptions) -> HookTest:
    """Run the command hooks of an event with sample data.

    Args:
        event: Event name.
        tool: Tool in the event; ``shell`` if empty.
        arguments: Arguments of the tool as a JSON object, or fields of another event. May be empty.
        place: Workspace options.

    Raises:
        ConfigError: If the event is unknown, or ``arguments`` is not a JSON object or does not match the event.
    """
    if event not in COMMAND_EVENTS:
        hint = suggest_name(event, COMMAND_EVENTS, f"Available events: {', '.join(COMMAND_EVENTS)}")
        raise ConfigError(f"Unknown event: {event!r}. {hint}")
    cwd, settings = load_rules(place)
    payload = _payload(event, tool, _parse_object(arguments), cwd)
    env = LocalEnv(cwd)
    try:
        runner = HookCommandRunner(command_hooks(settings), env, hook_depth(os.environ))
        name = getattr(payload, "tool_name", "")
        request = runner.hooks_for(event, hook_tool_names(name) if name else _matcher_subjects(payload))
        verdicts = await runner.ask(request, payload)
    finally:
        await env.aclose()
    wrong = [v for v in verdicts if v.deny is not None or v.stop is not None or (v.failure and v.hook.fails_closed)]
    return HookTest(verdicts=tuple(verdicts), refused=bool(wrong))


def _payload(event: CommandEvent, tool: str, mapping: dict[str, Any], cwd: str) -> Any:
    kind = INPUTS[event]
    known = kind.__struct_fields__
    fields = {name: value for name, value in _SAMPLE_PAYLOAD.items() if name in known} | {"cwd": cwd}
    if "tool_name" in known:
        fields |= {"tool_name": tool or "shell", "tool_input": mapping or {"command": "echo hello"}}
    else:
        fields |= mapping
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"The arguments do not match {event}: {error}") from None


def _matcher_subjects(payload: Any) -> tuple[str, ...]:
    """Return the values that a matcher is compared with, for an event without a tool."""
    names = ("source", "reason", "trigger", "notification_type", "agent_type")
    return tuple([getattr(payload, name) for name in names if hasattr(payload, name)])


_EXAMPLE = """mainspring hooks test PreToolUse --tool shell '{"command": "ls"}'"""


def _parse_object(text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ConfigError(
            f"The arguments are not valid JSON: {error}. The tool is named by --tool, for example: {_EXAMPLE}"
        ) from None
    if not isinstance(value, dict):
        raise ConfigError("The arguments must be a JSON object.")
    return value  # pyright: ignore[reportUnknownVariableType] - JSON has no other keys than texts


def run(options: argparse.Namespace) -> int:
    """List or test hooks, and return the exit code.

    Raises:
        UsageError: If the event is missing.
    """
    if options.action == "test" and not options.event:
        raise UsageError(f"hooks test requires an EVENT, for example: {_EXAMPLE}")
    work = _list if options.action == "list" else _test
    return run_command(options, lambda console: work(options, console))


def _list(options: argparse.Namespace, console: Console) -> int:
    found = list_hooks(workspace_options(options))
    rows = (f"{h.event}  {h.matcher or '*'}  {h.command}  ({h.timeout:g} s, {h.origin})" for h in found)
    empty = "No command hooks yet. Add them to the settings under hooks."
    console.write_list(found, rows, empty, as_json=options.json)
    return OK


def _test(options: argparse.Namespace, console: Console) -> int:
    arguments = StdinReader().text() if options.arguments == STDIN_MARK else options.arguments or ""
    tried = asyncio.run(try_hooks(options.event, options.tool or "", arguments, workspace_options(options)))
    console.write_list(tried, _format_results(tried), "No hook matches this event", as_json=options.json)
    return DENIED if tried.refused else OK


def _format_results(tried: HookTest) -> Iterator[str]:
    for verdict in tried.verdicts:
        yield verdict.hook.command
        results = {
            "failed": verdict.failure,
            "denies": verdict.deny,
            "asks": verdict.ask,
            "stops the run": verdict.stop,
            "arguments": verdict.input and msgspec.json.encode(verdict.input).decode(),
            "output": verdict.output,
            "context for the model": verdict.context,
            "message for the user": verdict.message,
        }
        lines = [f"  {name}: {value}" for name, value in results.items() if value]
        yield from lines or ["  no objection"]
