"""``mainspring models``."""

from __future__ import annotations

import argparse
import asyncio

from mainspring.app.cli.console import Console, one_line
from mainspring.app.cli.runner import run_command, workspace_options
from mainspring.app.cli.signals import GracefulShutdown
from mainspring.app.printing.text_output import TextRenderer
from mainspring.app.providers.availability import ModelListing, download_model, list_models
from mainspring.cancellation import CancelToken

_MARKS = {"ready": "ready  ", "fetch": "fetch  ", "down": "down   ", "missing": "missing"}


def run(options: argparse.Namespace) -> int:
    """List or download models, and return the exit code."""
    return run_command(
        options, lambda console: _download(options, console) if options.action == "get" else _list(options, console)
    )


def _list(options: argparse.Namespace, console: Console) -> int:
    found = asyncio.run(list_models(workspace_options(options)))
    if options.json:
        console.write_json(found)
        return 0
    width = max((len(view.spec) for view in found), default=0)
    for view in found:
        console.row(f"{'*' if view.chosen else ' '} {_MARKS[view.state]}  {view.spec:{width}}  {_describe(view)}")
    console.info(
        "* is the default model" if any(v.chosen for v in found) else "No model is available. Run `mainspring check`."
    )
    return 0


def _describe(view: ModelListing) -> str:
    known = (view.label, _format_context_window(view), _format_price(view), view.note)
    return one_line("; ".join(text for text in known if text), 300)


def _format_context_window(view: ModelListing) -> str:
    if view.context_window is None:
        return ""
    answer = f", {view.max_output_tokens // 1000}k out" if view.max_output_tokens else ""
    return f"{view.context_window // 1000}k{answer}"


def _format_price(view: ModelListing) -> str:
    if view.prices is None:
        return "price unknown" if view.state in ("ready", "down") else ""
    if not any(view.prices):
        return "free"
    more = f", higher above {view.dearer_above // 1000}k" if view.dearer_above else ""
    return f"${view.prices[0]:g} in, ${view.prices[1]:g} out{more}"


def _download(options: argparse.Namespace, console: Console) -> int:
    signal = CancelToken()

    async def get() -> str:
        return await download_model(options.name, workspace_options(options), TextRenderer(console).on_event, signal)

    with GracefulShutdown(signal, lambda number: None) as interrupts:
        try:
            console.answer(asyncio.run(get()) + "\n")
        except asyncio.CancelledError:
            console.fail("Interrupted. Run the same command again to resume.")
            return 128 + interrupts.number
    return 0
