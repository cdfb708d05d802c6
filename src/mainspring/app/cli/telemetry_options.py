"""The options of ``mainspring telemetry`` and ``mainspring cost``."""

from __future__ import annotations

from mainspring.app.cli.parser import Parser, add_common_options, add_workspace_options, positive_int


def build_telemetry_parser() -> Parser:
    """Create the parser of ``mainspring telemetry``."""
    parser = Parser(
        "mainspring telemetry",
        description="Show live traces of runs: the Aspire dashboard if docker or podman is available, or the built-in viewer.",
    )
    parser.add_argument(
        "action",
        nargs="?",
        choices=("start", "stop", "status", "url", "serve"),
        default="status",
        help="start, stop, status, url, or serve: run the viewer in this terminal (default: status)",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--viewer", action="store_true", help="Use the built-in viewer (start)")
    which.add_argument("--aspire", action="store_true", help="Use the Aspire dashboard, or fail (start)")
    parser.add_argument(
        "--port", type=positive_int, metavar="N", help="Port that receives spans (default: 4318, or a free port)"
    )
    return add_common_options(parser)


def build_cost_parser() -> Parser:
    """Create the parser of ``mainspring cost``."""
    parser = Parser(
        "mainspring cost",
        description="Show the cost of saved sessions in tokens and US dollars, including subagents and failed attempts.",
    )
    parser.add_argument(
        "--by",
        choices=("day", "project", "model", "session"),
        default="day",
        help="Group by day, project, model, or session (default: day)",
    )
    parser.add_argument(
        "--since", metavar="WHEN", help="Start of the period, for example, 2026-11-01, today, 24h, 7d, or 4w"
    )
    parser.add_argument("--here", action="store_true", help="Only include costs of this folder")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="Output JSON")
    form.add_argument("--csv", action="store_true", help="Output CSV, for a spreadsheet")
    add_workspace_options(parser)
    return parser
