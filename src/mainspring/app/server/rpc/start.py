"""``mainspring serve --rpc``."""

from __future__ import annotations

import argparse

from mainspring.app.cli.frame import asked
from mainspring.app.server.rpc.serve import serve_rpc
from mainspring.app.server.running import serve_stdio
from mainspring.runtime.chat import ChatOptions


def run(options: argparse.Namespace) -> int:
    """Serve one conversation; the exit code."""
    return serve_stdio(options, lambda wire, chats: serve_rpc(wire, chats, ChatOptions(ask=asked(options))))
