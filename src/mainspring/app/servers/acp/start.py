"""``mainspring serve --acp``."""

from __future__ import annotations

import argparse
import importlib.util
import logging
from importlib import import_module

from mainspring.app.chat import ChatOptions
from mainspring.app.cli.runner import launch_options
from mainspring.app.export.formats import EXPORTERS
from mainspring.app.servers.stdio import ChatRegistry, serve_stdio
from mainspring.errors import ConfigError
from mainspring.extras import install_command
from mainspring.line_transport import LineTransport


def run(options: argparse.Namespace) -> int:
    """Serve one editor, and return the exit code."""
    if not options.verbose:  # the package logs every error response to the root logger
        logging.getLogger().addHandler(logging.NullHandler())

    async def serve(wire: LineTransport, chats: ChatRegistry) -> None:
        if importlib.util.find_spec("acp") is None:
            raise ConfigError(f"--acp requires the package agent-client-protocol. Install it: {install_command('acp')}")
        await import_module("mainspring.app.servers.acp.agent").serve_acp(
            wire, chats, ChatOptions(ask=launch_options(options), exporters=EXPORTERS)
        )

    return serve_stdio(options, serve)
