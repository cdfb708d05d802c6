"""The options of `mainspring serve`, `mainspring worker`, and `mainspring runs`. Imports only the standard library."""

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


_URL_VARIABLE = "$MAINSPRING_RUNS_URL"
TERMINAL_STATES = ("done", "failed", "cancelled")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def build_worker_parser() -> Parser:
    """The parser of ``worker``."""
    parser = Parser(
        "mainspring worker",
        description="Do the runs that wait in a database, until SIGTERM. Any number of workers may share one. See docs/durable.md.",
        epilog="""examples:
  mainspring worker --url sqlite:///runs.db                     for the command's own agent, on this machine
  mainspring worker --url postgresql://agent@db/runs --agents my_agents:agents --only-agents
  mainspring runs start --url sqlite:///runs.db "What is in this folder?" """,
    )
    _add_url(parser)
    add = parser.add_argument
    add("--agents", action="append", default=[], metavar="MODULE:NAME", help="agents of your own, by name")
    add("--only-agents", action="store_true", help="those of --agents only, without the command's own")
    add("--name", default="", metavar="NAME", help="of this worker; under its old name it takes up its runs at once")
    add(
        "--concurrency",
        type=positive_int,
        default=8,
        metavar="N",
        help="runs of each agent at the same time (default 8)",
    )
    add(
        "--poll", type=positive_float, default=0.2, metavar="S", help="seconds between two looks for runs (default 0.2)"
    )
    add(
        "--keep", type=positive_float, metavar="DAYS", help="delete runs that ended so many days ago; else all are kept"
    )
    add(
        "--max-deaths",
        type=non_negative_int,
        default=20,
        metavar="N",
        help="workers that may die while they have a run, before it fails (default 20; 0 for any number)",
    )
    add(
        "--drain",
        type=positive_float,
        default=10.0,
        metavar="S",
        help="at the end: seconds for steps that go on (default 10)",
    )
    add(
        "--dead-after",
        type=positive_float,
        default=10.0,
        metavar="S",
        help="silence after which a worker's runs go to others (default 10); the same for all workers",
    )
    add_model(parser)
    add_permission_options(parser)
    add("--on-deny", choices=("continue", "stop"), default="continue", help="what a denied call does to a run")
    add("--sandbox", metavar="LAYER", nargs="?", const="auto", help="hold tools and commands in the project")
    add("--sandbox-network", action="store_true", help="let the sandbox reach the network")
    add_workspace_options(parser)
    parser.set_defaults(session=None, session_id=None, no_session=True, plan=False)
    return parser


def build_runs_parser() -> Parser:
    """The parser of ``runs``."""
    parser = Parser(
        "mainspring runs",
        description="Runs in a database: start them for workers, look, follow, steer, answer. See docs/durable.md.",
        epilog=f"""examples (--url, or {_URL_VARIABLE}, says where):
  mainspring runs start "What is in this folder?"       prints the id
  mainspring runs                                       the newest
  mainspring runs follow ID                             what it says and does, from the beginning, to its end
  mainspring runs show ID                               how far it is, and what waits for an answer
  mainspring runs answer ID CALL yes                    or no, with --reason
  mainspring runs steer ID "use Celsius"                joins at the next step
  mainspring runs abort ID
  mainspring runs cancel ID                             never take it up again, though no worker is there
  mainspring runs retry ID                              one that failed or was cancelled goes on where it was
  mainspring runs delete ID...                          runs that are over, with all that was kept of them
  mainspring runs prune --older-than 30d                all that ended longer ago""",
    )
    _add_url(parser)
    add = parser.add_argument
    actions = ("list", "start", "show", "follow", "answer", "steer", "abort", "cancel", "retry", "delete", "prune")
    add("action", nargs="?", choices=actions, default="list", metavar="ACTION", help=", ".join(actions))
    add("words", nargs="*", metavar="WHAT", help="start: a prompt; else the id, and what belongs to it")
    add("--agent", default="mainspring", metavar="NAME", help="start: which one (default: the command's own)")
    add("--id", default="", metavar="ID", help="start: of the run; one that is there already is not started again")
    add("--reason", default="", metavar="TEXT", help="answer no, abort: why")
    add("--after", type=positive_int, default=0, metavar="N", help="follow --json: events with a higher number only")
    add("--older-than", type=duration, metavar="AGE", help="prune: since their end, as in 30d, 12h, 90m or 0s")
    add(
        "--state",
        action="append",
        choices=TERMINAL_STATES,
        metavar="STATE",
        help=f"prune: only {', '.join(TERMINAL_STATES)} ones",
    )
    add("--dry-run", action="store_true", help="prune: say how many, and delete none")
    add("--limit", type=positive_int, default=20, metavar="N", help="list: how many (default 20)")
    add("--json", action="store_true", help="as JSON; follow: a line for each event")
    add_workspace_options(parser)
    return parser


def duration(text: str) -> float:
    """A time as a number and its unit, in seconds."""
    number, unit = text[:-1], text[-1:]
    if not number.isdecimal() or unit not in _UNITS:
        raise argparse.ArgumentTypeError(f"must be a number and s, m, h, d or w, as in 30d, not {text!r}")
    return float(int(number) * _UNITS[unit])


def non_negative_int(text: str) -> int:
    """A whole number, 0 or more."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number, 0 or more, not {text!r}")
    return int(text)


def _add_url(parser: Parser) -> None:
    add = parser.add_argument
    add("--url", metavar="URL", help=f"the database: sqlite:///PATH or postgresql://...; else {_URL_VARIABLE}")
    add("--code-version", default="1", metavar="NAME", help="of your agents; workers of the same one do the runs")
