"""The options of the commands that look back: what runs did, and what they cost."""

from __future__ import annotations

from mainspring.app.cli.parser import Parser, add_workspace_options, positive_int


def build_telemetry_parser() -> Parser:
    """Of ``mainspring telemetry``."""
    parser = Parser(
        "mainspring telemetry",
        description="A page that shows runs while they go on: the Aspire dashboard where docker or podman answers, else our own viewer.",
    )
    parser.add_argument(
        "action",
        nargs="?",
        choices=("start", "stop", "status", "url", "serve"),
        default="status",
        help="start it in the background, stop it, tell its state (default) or its address; serve: be it, in this terminal",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--viewer", action="store_true", help="start: our own viewer, whatever else there is")
    which.add_argument("--aspire", action="store_true", help="start: the Aspire dashboard, or nothing")
    parser.add_argument(
        "--port", type=positive_int, metavar="N", help="where spans come in (default 4318; another where that is taken)"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_workspace_options(parser)
    return parser


def build_cost_parser() -> Parser:
    """Of ``mainspring cost``."""
    parser = Parser(
        "mainspring cost",
        description="What saved conversations cost: tokens and US dollars, sub-agents and failed attempts included.",
    )
    parser.add_argument(
        "--by", choices=("day", "project", "model", "session"), default="day", help="by what (default day)"
    )
    parser.add_argument("--since", metavar="WHEN", help="from then on: 2026-11-01, today, 24h, 7d, 4w")
    parser.add_argument("--here", action="store_true", help="only what was spent in this folder")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as JSON")
    form.add_argument("--csv", action="store_true", help="as CSV, for a sheet")
    add_workspace_options(parser)
    return parser
