"""``mainspring serve --rpc``."""

from __future__ import annotations

import argparse

from mainspring.app.chat import ChatOptions
from mainspring.app.cli.console import write_output
from mainspring.app.cli.exit_codes import OK
from mainspring.app.cli.runner import launch_options
from mainspring.app.export.formats import EXPORTERS
from mainspring.app.servers.rpc.protocol import rpc_schema_text
from mainspring.app.servers.rpc.server import serve_rpc
from mainspring.app.servers.stdio import serve_stdio


def run(options: argparse.Namespace) -> int:
    """Serve one chat, or print the schema of the lines, and return the exit code."""
    if options.schema:
        write_output(rpc_schema_text())
        return OK
    chat = ChatOptions(ask=launch_options(options), exporters=EXPORTERS)
    return serve_stdio(options, lambda wire, chats: serve_rpc(wire, chats, chat))
