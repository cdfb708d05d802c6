"""``mainspring serve``: leaves the work to the package of the form that is asked for."""

from __future__ import annotations

import argparse
from importlib import import_module

from mainspring.app.cli.arguments import UsageError


def run(options: argparse.Namespace) -> int:
    """Serve until the other side leaves; the exit code.

    Raises:
        UsageError: If options do not fit each other.
    """
    if options.form != "rpc" and (options.session or options.session_id):
        raise UsageError("--session and --session-id are for --rpc; with the other forms the client names its sessions")
    if options.form != "rpc" and options.schema:
        raise UsageError("--schema is for --rpc; docs/openapi.json describes --http")
    if options.session and options.session_id:
        raise UsageError("--session and --session-id name two conversations; give one of them")
    return import_module(f"mainspring.app.servers.{options.form}.start").run(options)
