"""``mainspring serve --rpc``."""

from __future__ import annotations

import argparse
import sys

from mainspring.app.cli.exit_codes import DONE
from mainspring.app.cli.frame import asked
from mainspring.app.export.forms import FORMS
from mainspring.app.server.rpc.schema import rpc_schema_text
from mainspring.app.server.rpc.serve import serve_rpc
from mainspring.app.server.running import serve_stdio
from mainspring.runtime.chat import ChatOptions


def run(options: argparse.Namespace) -> int:
    """Serve one conversation, or print what its lines are; the exit code."""
    if options.schema:
        sys.stdout.write(rpc_schema_text())
        return DONE
    chat = ChatOptions(ask=asked(options), exporters=FORMS)
    return serve_stdio(options, lambda wire, chats: serve_rpc(wire, chats, chat))
