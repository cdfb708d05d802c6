"""``mainspring serve --mcp``."""

from __future__ import annotations

import argparse
import importlib.util
from importlib import import_module

from mainspring.app.chat import ChatOptions
from mainspring.app.cli.runner import asked
from mainspring.app.servers.stdio import OpenChats, Wire, serve_stdio
from mainspring.errors import ConfigError
from mainspring.extras import how_to_install


def run(options: argparse.Namespace) -> int:
    """Serve one client; the exit code."""

    async def serve(wire: Wire, chats: OpenChats) -> None:
        if importlib.util.find_spec("mcp") is None:
            raise ConfigError(f"--mcp needs the package mcp: {how_to_install('mcp')}")
        await import_module("mainspring.app.servers.mcp.server").serve_mcp(wire, chats, ChatOptions(ask=asked(options)))

    return serve_stdio(options, serve)
