"""The options of ``mainspring serve``. Imports nothing but the standard library."""

from __future__ import annotations

import argparse

from mainspring.app.cli.parser import (
    Parser,
    add_permission_options,
    add_workspace_options,
    positive_float,
    positive_int,
)

PROTOCOLS = ("http", "acp", "rpc", "mcp")
"""The ways to serve; each has a package of its name below `mainspring.app.servers`, with ``run(options) -> int`` in ``start``."""


def build_serve_parser() -> Parser:
    """The parser of ``serve``."""
    parser = Parser(
        "mainspring serve",
        description="Let other programs work with the agent: editors, scripts, other agents.",
        epilog="""examples:
  mainspring serve --http                    a service with a page, for this machine; see docs/http-service.md
  mainspring serve --acp                     for an editor that speaks the Agent Client Protocol; see docs/editors.md
  mainspring serve --rpc --cwd ~/project     JSON lines in and out; see docs/front-ends.md
  mainspring serve --mcp --allow edit        a tool of another agent; see docs/mcp.md""",
    )
    _add_forms(parser)
    add_model(parser)
    _add_conversation(parser)
    _add_http(parser)
    add_permission_options(parser)
    parser.add_argument(
        "--on-deny", choices=("continue", "stop"), default="continue", help="what a denied call does to a run"
    )
    add_workspace_options(parser)
    return parser


def _add_forms(parser: Parser) -> None:
    forms = parser.add_argument_group("how").add_mutually_exclusive_group(required=True)
    add = forms.add_argument
    add("--http", dest="form", action="store_const", const="http", help="runs over HTTP, with a page for browsers")
    add("--acp", dest="form", action="store_const", const="acp", help="the Agent Client Protocol of editors, on stdio")
    add("--rpc", dest="form", action="store_const", const="rpc", help="one conversation as JSON lines, on stdio")
    add("--mcp", dest="form", action="store_const", const="mcp", help="the agent as an MCP server, on stdio")


def add_model(parser: Parser) -> None:
    """The options that choose a model and limit a run."""
    group = parser.add_argument_group("model")
    group.add_argument("--model", metavar="PROVIDER:MODEL", help="which one, where the settings do not say")
    group.add_argument("--provider", metavar="NAME", help="whose model: its default one, or the --model of it")
    levels = ("off", "minimal", "low", "medium", "high", "xhigh")
    group.add_argument("--thinking", choices=levels, metavar="LEVEL", help="how much it reasons: off ... xhigh")
    group.add_argument("--max-turns", type=positive_int, metavar="N", help="most model calls of a run")
    group.add_argument("--max-seconds", type=positive_float, metavar="S", help="most seconds of a run")
    group.add_argument("--max-cost", type=positive_float, metavar="USD", help="most US dollars of a run")
    group.add_argument("--max-tokens", type=positive_int, metavar="N", help="most tokens of a run")
    group.add_argument("--max-output-tokens", type=positive_int, metavar="N", help="most tokens of one answer")


def _add_conversation(parser: Parser) -> None:
    group = parser.add_argument_group("conversation")
    group.add_argument("--session", metavar="NAME", help="--rpc: go on with this one: its id, title or file")
    group.add_argument("--session-id", metavar="ID", help="--rpc: begin one of this id, or go on with it")
    group.add_argument("--schema", action="store_true", help="--rpc: print the JSON Schema of all lines, and end")
    group.add_argument("--no-session", action="store_true", help="save nothing")
    group.add_argument("--plan", action="store_true", help="look and plan only")
    group.add_argument(
        "--sandbox", metavar="LAYER", nargs="?", const="auto", help="hold tools and commands in the project"
    )
    group.add_argument("--sandbox-network", action="store_true", help="let the sandbox reach the network")


def _add_http(parser: Parser) -> None:
    add = parser.add_argument_group("--http").add_argument
    add("--host", default="127.0.0.1", metavar="ADDRESS", help="where to listen (default: this machine only)")
    add("--port", type=port_number, default=8765, metavar="N", help="default 8765; 0 takes any that is free")
    add("--token-file", metavar="FILE", help="tokens, one a line, with a tenant's name before it; see also the page")
    add("--allow-host", action="append", default=[], metavar="NAME", help="a name under which the service is reached")
    add("--allow-origin", action="append", default=[], metavar="URL", help="a page of another host that may use it")
    add("--agents", action="append", default=[], metavar="MODULE:NAME", help="agents of your own, by name")
    add("--only-agents", action="store_true", help="those of --agents only, without the command's own")
    add("--url", metavar="URL", help="keep runs in this database (sqlite:///PATH, postgresql://...); workers do them")
    add("--work", action="store_true", help="--url: be a worker as well")
    add(
        "--code-version", default="1", metavar="NAME", help="--url: of your agents; workers of the same one do the runs"
    )
    add(
        "--drain",
        type=positive_float,
        default=30.0,
        metavar="S",
        help="at the end: seconds for runs that go on (default 30)",
    )
    add("--max-runs", type=positive_int, default=16, metavar="N", help="runs of a tenant at the same time (default 16)")
    add(
        "--max-requests",
        type=positive_int,
        default=600,
        metavar="N",
        help="requests of a tenant a minute (default 600)",
    )
    add("--max-followers", type=positive_int, default=1_000, metavar="N", help="followers of a tenant (default 1000)")
    add("--max-body", type=positive_int, default=1_048_576, metavar="BYTES", help="of a request (default 1 MiB)")
    add(
        "--keep",
        type=positive_int,
        default=1_000,
        metavar="N",
        help="without --url: runs that are over and kept (default 1000)",
    )


def port_number(text: str) -> int:
    """A port; 0 is any."""
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"must be a port, 0 to 65535, not {text!r}")
    return int(text)
