"""The options of `mainspring serve`, `mainspring worker`, and `mainspring runs`. Imports only the standard library."""

from __future__ import annotations

import argparse

from mainspring.app.cli.agent_flags import AGENT_FLAGS
from mainspring.app.cli.parser import (
    Parser,
    add_deny_option,
    add_permission_options,
    add_workspace_options,
    positive_float,
    positive_int,
)

PROTOCOLS = ("http", "acp", "rpc", "mcp")
"""The protocols to serve. Each has a package with its name in `mainspring.app.servers`, with ``run(options) -> int`` in ``start``."""


def build_serve_parser() -> Parser:
    """Create the parser of ``mainspring serve``."""
    parser = Parser(
        "mainspring serve",
        description="Serve the agent to other programs: browsers, editors, scripts, and other agents.",
        epilog="""examples:
  mainspring serve --http                    Serve a web page and an API on this machine (docs/http-service.md)
  mainspring serve --acp                     Serve an editor with the Agent Client Protocol (docs/editors.md)
  mainspring serve --rpc --cwd ~/project     Serve a program with JSON lines on stdio (docs/front-ends.md)
  mainspring serve --mcp --allow edit        Serve another agent as an MCP server (docs/mcp.md)""",
    )
    _add_forms(parser)
    add_model(parser)
    _add_conversation(parser)
    _add_http(parser)
    add_permission_options(parser)
    add_deny_option(parser)
    add_workspace_options(parser)
    return parser


def _add_forms(parser: Parser) -> None:
    forms = parser.add_argument_group("protocol").add_mutually_exclusive_group(required=True)
    add = forms.add_argument
    add("--http", dest="form", action="store_const", const="http", help="Serve runs over HTTP, with a web page")
    add(
        "--acp",
        dest="form",
        action="store_const",
        const="acp",
        help="Serve the Agent Client Protocol of editors on stdio",
    )
    add("--rpc", dest="form", action="store_const", const="rpc", help="Serve one session as JSON lines on stdio")
    add("--mcp", dest="form", action="store_const", const="mcp", help="Serve the agent as an MCP server on stdio")


def add_model(parser: Parser) -> None:
    """Add the options that choose a model and limit a run."""
    group = parser.add_argument_group("model")
    group.add_argument("--model", metavar="PROVIDER:MODEL", help="Model to use if the settings do not name one")
    group.add_argument(
        "--provider", metavar="NAME", help="Model provider; uses its default model unless --model names one"
    )
    for flag in AGENT_FLAGS:
        flag.add_to(group.add_argument)


def _add_conversation(parser: Parser) -> None:
    group = parser.add_argument_group("session")
    group.add_argument("--session", metavar="NAME", help="Resume a session by ID, title, or file (--rpc)")
    group.add_argument("--session-id", metavar="ID", help="Resume the session with this ID, or create it (--rpc)")
    group.add_argument("--schema", action="store_true", help="Print the JSON Schema of all lines and exit (--rpc)")
    group.add_argument("--no-session", action="store_true", help="Do not save sessions")
    group.add_argument("--plan", action="store_true", help="Plan without making changes")
    group.add_argument(
        "--sandbox",
        metavar="LAYER",
        nargs="?",
        const="auto",
        help="Run tools and commands in a sandbox limited to the project folder",
    )
    group.add_argument("--sandbox-network", action="store_true", help="Allow network access in the sandbox")


def _add_http(parser: Parser) -> None:
    add = parser.add_argument_group("--http").add_argument
    add("--host", default="127.0.0.1", metavar="ADDRESS", help="Address to listen on (default: 127.0.0.1)")
    add(
        "--port",
        type=port_number,
        default=8765,
        metavar="N",
        help="Port to listen on; 0 chooses a free port (default: 8765)",
    )
    add(
        "--token-file",
        metavar="FILE",
        help="File with access tokens, one per line, each with an optional tenant name before it",
    )
    add("--allow-host", action="append", default=[], metavar="NAME", help="Additional host name of the service")
    add(
        "--allow-origin",
        action="append",
        default=[],
        metavar="URL",
        help="Web page on another host that may use the service",
    )
    add("--agents", action="append", default=[], metavar="MODULE:NAME", help="Additional agents, by name")
    add("--only-agents", action="store_true", help="Serve only the agents of --agents, not the built-in agent")
    add(
        "--url",
        metavar="URL",
        help="Store runs in this database (sqlite:///PATH or postgresql://...), so that workers execute them",
    )
    add("--work", action="store_true", help="Also run a worker (with --url)")
    add(
        "--code-version",
        default="1",
        metavar="NAME",
        help="Version of your agents; only workers with the same version execute the runs (with --url)",
    )
    add(
        "--drain",
        type=positive_float,
        default=30.0,
        metavar="S",
        help="Seconds that active runs may take at shutdown (default: 30)",
    )
    add(
        "--max-runs",
        type=positive_int,
        default=16,
        metavar="N",
        help="Maximum number of concurrent runs per tenant (default: 16)",
    )
    add(
        "--max-requests",
        type=positive_int,
        default=600,
        metavar="N",
        help="Maximum number of requests per minute and tenant (default: 600)",
    )
    add(
        "--max-followers",
        type=positive_int,
        default=1_000,
        metavar="N",
        help="Maximum number of followers per tenant (default: 1000)",
    )
    add(
        "--max-body",
        type=positive_int,
        default=1_048_576,
        metavar="BYTES",
        help="Maximum size of a request body in bytes (default: 1048576)",
    )
    add(
        "--keep",
        type=positive_int,
        default=1_000,
        metavar="N",
        help="Number of finished runs to keep in memory (without --url) (default: 1000)",
    )


def port_number(text: str) -> int:
    """Parse a port number; 0 is any port."""
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"must be a port from 0 to 65535, not {text!r}")
    return int(text)


_URL_VARIABLE = "$MAINSPRING_RUNS_URL"
TERMINAL_STATES = ("done", "failed", "cancelled")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def build_worker_parser() -> Parser:
    """Create the parser of ``mainspring worker``."""
    parser = Parser(
        "mainspring worker",
        description="Run a worker that executes queued runs from a database until it receives SIGTERM. Workers can share a database. See docs/durable.md.",
        epilog="""examples:
  mainspring worker --url sqlite:///runs.db                     Execute runs of the built-in agent on this machine
  mainspring worker --url postgresql://agent@db/runs --agents my_agents:agents --only-agents
  mainspring runs start --url sqlite:///runs.db "What is in this folder?" """,
    )
    _add_url(parser)
    add = parser.add_argument
    add("--agents", action="append", default=[], metavar="MODULE:NAME", help="Additional agents, by name")
    add("--only-agents", action="store_true", help="Serve only the agents of --agents, not the built-in agent")
    add(
        "--name",
        default="",
        metavar="NAME",
        help="Name of the worker; a restarted worker with the same name resumes its runs immediately",
    )
    add(
        "--concurrency",
        type=positive_int,
        default=8,
        metavar="N",
        help="Maximum number of concurrent runs per agent (default: 8)",
    )
    add(
        "--poll",
        type=positive_float,
        default=0.2,
        metavar="S",
        help="Seconds between two checks for runs (default: 0.2)",
    )
    add(
        "--keep",
        type=positive_float,
        metavar="DAYS",
        help="Delete runs that ended this many days ago (default: keep all runs)",
    )
    add(
        "--max-crashes",
        type=non_negative_int,
        default=20,
        metavar="N",
        help="Number of worker crashes after which a run fails; 0 for no limit (default: 20)",
    )
    add(
        "--drain",
        type=positive_float,
        default=10.0,
        metavar="S",
        help="Seconds that active steps may take at shutdown (default: 10)",
    )
    add(
        "--dead-after",
        type=positive_float,
        default=10.0,
        metavar="S",
        help="Seconds without a heartbeat after which other workers resume a worker's runs; must be the same for all workers (default: 10)",
    )
    add_model(parser)
    add_permission_options(parser)
    add_deny_option(parser)
    add(
        "--sandbox",
        metavar="LAYER",
        nargs="?",
        const="auto",
        help="Run tools and commands in a sandbox limited to the project folder",
    )
    add("--sandbox-network", action="store_true", help="Allow network access in the sandbox")
    add_workspace_options(parser)
    parser.set_defaults(session=None, session_id=None, no_session=True, plan=False)
    return parser


def build_runs_parser() -> Parser:
    """Create the parser of ``mainspring runs``."""
    parser = Parser(
        "mainspring runs",
        description="Start, list, follow, steer, and answer durable runs in a database. See docs/durable.md.",
        epilog=f"""examples (the database is --url or {_URL_VARIABLE}):
  mainspring runs start "What is in this folder?"       Start a run, and print its ID
  mainspring runs                                       List the most recent runs
  mainspring runs follow ID                             Follow a run from its start to its end
  mainspring runs show ID                               Show the status of a run and its pending approvals
  mainspring runs answer ID CALL yes                    Allow a tool call; deny it with no, and an optional --reason
  mainspring runs steer ID "use Celsius"                Send a steering message, which the next turn reads
  mainspring runs abort ID                              Abort a run
  mainspring runs cancel ID                             Cancel a run, even if no worker is running
  mainspring runs retry ID                              Resume a failed or cancelled run
  mainspring runs delete ID...                          Delete finished runs and their data
  mainspring runs prune --older-than 30d                Delete all runs that finished before then""",
    )
    _add_url(parser)
    add = parser.add_argument
    actions = ("list", "start", "show", "follow", "answer", "steer", "abort", "cancel", "retry", "delete", "prune")
    add("action", nargs="?", choices=actions, default="list", metavar="ACTION", help=", ".join(actions))
    add(
        "words", nargs="*", metavar="WHAT", help="Prompt (start); otherwise, the run ID and the arguments of the action"
    )
    add("--agent", default="mainspring", metavar="NAME", help="Agent to start (default: the built-in agent)")
    add("--id", default="", metavar="ID", help="ID of the run to start; an existing run is not started again")
    add("--reason", default="", metavar="TEXT", help="Reason for denying or aborting")
    add(
        "--after",
        type=positive_int,
        default=0,
        metavar="N",
        help="Only output events with a higher number (follow --json)",
    )
    add(
        "--older-than",
        type=duration,
        metavar="AGE",
        help="Age of the runs to delete, since their end, for example, 30d, 12h, 90m, or 0s (prune)",
    )
    add(
        "--state",
        action="append",
        choices=TERMINAL_STATES,
        metavar="STATE",
        help=f"Only delete runs in this state: {', '.join(TERMINAL_STATES)} (prune)",
    )
    add("--dry-run", action="store_true", help="Show how many runs would be deleted, without deleting them (prune)")
    add("--limit", type=positive_int, default=20, metavar="N", help="Maximum number of runs to list (default: 20)")
    add("--json", action="store_true", help="Output JSON; with follow, one line per event")
    add_workspace_options(parser)
    return parser


def duration(text: str) -> float:
    """Parse a duration with a unit, and return the seconds."""
    number, unit = text[:-1], text[-1:]
    if not number.isdecimal() or unit not in _UNITS:
        raise argparse.ArgumentTypeError(
            f"must be a number with the unit s, m, h, d, or w, for example, 30d, not {text!r}"
        )
    return float(int(number) * _UNITS[unit])


def non_negative_int(text: str) -> int:
    """Parse an integer, 0 or more."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be an integer, 0 or more, not {text!r}")
    return int(text)


def _add_url(parser: Parser) -> None:
    add = parser.add_argument
    add("--url", metavar="URL", help=f"Database: sqlite:///PATH or postgresql://... (default: {_URL_VARIABLE})")
    add(
        "--code-version",
        default="1",
        metavar="NAME",
        help="Version of your agents; only workers with the same version execute the runs",
    )
