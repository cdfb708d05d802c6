"""``mainspring serve --mcp``."""

from __future__ import annotations

import argparse
import importlib.util
from importlib import import_module

from mainspring.app.chat import ChatOptions
from mainspring.app.cli.runner import launch_options
from mainspring.app.servers.stdio import ChatRegistry, serve_stdio
from mainspring.errors import ConfigError
from mainspring.extras import install_command
from mainspring.line_transport import LineTransport


def run(options: argparse.Namespace) -> int:
    """Serve one client, and return the exit code."""

    async def serve(wire: LineTransport, chats: ChatRegistry) -> None:
        if importlib.util.find_spec("mcp") is None:
            raise ConfigError(f"--mcp requires the package mcp. Install it: {install_command('mcp')}")
        await import_module("mainspring.app.servers.mcp.server").serve_mcp(
            wire, chats, ChatOptions(ask=launch_options(options))
        )

    return serve_stdio(options, serve)
