"""``mainspring serve``: serve a protocol, which has its own package."""

from __future__ import annotations

import argparse
from importlib import import_module

from mainspring.app.cli.arguments import UsageError


def run(options: argparse.Namespace) -> int:
    """Serve until the client disconnects, and return the exit code.

    Raises:
        UsageError: If options conflict.
    """
    if options.form != "rpc" and (options.session or options.session_id):
        raise UsageError(
            "--session and --session-id require --rpc. With other protocols, the client chooses the session."
        )
    if options.form != "rpc" and options.schema:
        raise UsageError("--schema requires --rpc. The schema of --http is docs/openapi.json.")
    if options.session and options.session_id:
        raise UsageError("Use only one of --session and --session-id.")
    return import_module(f"mainspring.app.servers.{options.form}.start").run(options)
