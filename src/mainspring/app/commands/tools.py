"""``mainspring tools``."""

from __future__ import annotations

import argparse
import asyncio

import msgspec

from mainspring.app.cli.arguments import STDIN, UsageError
from mainspring.app.cli.console import Console, one_line
from mainspring.app.cli.exit_codes import DENIED, DONE, ERROR
from mainspring.app.cli.interrupts import Interrupts
from mainspring.app.cli.runner import framed, place_of, rules_of
from mainspring.app.cli.stdin import Piped
from mainspring.app.commands.tools_actions import CallResult, call_tool, list_tools
from mainspring.cancellation import CancelToken


def run(options: argparse.Namespace) -> int:
    """List or call; the exit code.

    Raises:
        UsageError: If the name of the tool is missing.
    """
    if options.action == "call" and not options.name:
        raise UsageError(
            'tools call needs a NAME and its arguments, as in: mainspring tools call read_file \'{"path": "a.txt"}\''
        )
    return framed(
        options, lambda console: _list(options, console) if options.action == "list" else _call(options, console)
    )


def _list(options: argparse.Namespace, console: Console) -> int:
    found = list_tools()
    if options.json:
        console.data(msgspec.json.encode(found).decode())
        return DONE
    width = max(len(tool.name) for tool in found)
    for tool in found:
        console.row(f"{tool.name:{width}}  {one_line(tool.summary, 100)}")
    return DONE


def _call(options: argparse.Namespace, console: Console) -> int:
    arguments = Piped().text() if options.arguments == STDIN else options.arguments or ""
    signal = CancelToken()

    async def call() -> CallResult:
        return await call_tool(options.name, arguments, place_of(options), rules_of(options), signal)

    with Interrupts(signal, lambda number: None) as interrupts:
        result = asyncio.run(call())
    console.data(msgspec.json.encode(result, enc_hook=str).decode())
    if interrupts.number:
        return 128 + interrupts.number
    if result.code == "PERMISSION_DENIED":
        return DENIED
    return ERROR if result.is_error else DONE
