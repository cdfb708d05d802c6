"""The command line as values. Imports nothing but the standard library, so that ``--help`` is quick."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence

from mainspring.app.cli.command_table import COMMANDS
from mainspring.app.cli.parser import (
    STDIN_MARK,
    Parser,
    UsageError,
    add_permission_options,
    add_workspace_options,
    comma_list,
    positive_float,
    positive_int,
)

__all__ = ["COMMANDS", "STDIN_MARK", "UsageError", "parse_arguments", "run_parser"]

OUTPUTS = ("text", "json", "stream-json")
SANDBOXES = ("auto", "none", "bubblewrap", "landlock", "seatbelt")
THINKING = ("off", "minimal", "low", "medium", "high", "xhigh")
LIST_TOOLS = ("",)
"""What ``--tools`` without a list gives: then the tools are listed."""

_USAGE = """mainspring [options]
       mainspring -p "PROMPT" [options]
       mainspring COMMAND [options]"""

MAX_DESCRIPTION_CHARS = """An agent for the terminal: ask, and it reads, searches, edits and runs what you allow.

first steps:
  mainspring check                    is there a model? what is missing, and how to get it
  mainspring config init              choose a provider, give its key, try the connection
  mainspring                          talk: a chat in this terminal
  mainspring -p "What is in this folder?"
"""

EPILOG = """commands (mainspring COMMAND --help says more):
  set up
    check             what is configured, what is missing, how to set it
    config            init (set up a provider), show, set KEY VALUE, unset KEY, edit, validate, path
    config provider   list, add NAME, remove NAME
    login, logout     sign in at a provider that takes an account in place of a key (codex)
    models            the models that can be used here; models get [NAME] fetches the embedded one
    completion        completion for bash, zsh or fish
  conversations
    sessions          list, show, tree, search WORDS, name, rm, purge, import FILE
    export [SESSION]  write one as an HTML page, Markdown or JSON lines
    rewind [SESSION]  go back before the last prompt, files too; --list, --dry-run, --undo
    worktrees         list, remove NAME: what --worktree NAME began
    memory            show, add NOTE: what is remembered from conversation to conversation
  what it may do, and with what
    permissions       the rules in force; allow, deny, revoke, explain
    trust [DIR]       let what a folder brings act: settings, hooks, commands, memory
    tools             list, call NAME 'JSON'
    commands          the Markdown commands that `-p "/NAME ARGUMENTS"` runs
    skills            list, show, validate, install, enable, disable, update, remove, new
    mcp               list, add, remove, test, tools, login, logs: MCP servers, and what their tools cost
    extensions        what extends the agent, and what is wrong with it
    hooks             list, test EVENT: commands that are asked as hooks
    serve             --http, --acp, --rpc, --mcp: for browsers, editors, programs, other agents
    worker            do the runs that wait in a database, beside other workers
    runs              list, start, show, follow, answer, steer, abort: runs that outlive their process
  what it did
    telemetry         start, stop, status, url: a page that shows runs while they go on
    cost              what conversations cost: --by day, project, model, session
    replay            traffic PATH...: decode recorded exchanges with models

examples:
  mainspring -p "What does @src/app.py do?"
  git diff | mainspring -p "Write a commit message"
  mainspring -p "Fix the failing test" --allow edit --allow 'shell(pytest *)'
  mainspring --continue -p "And now the docs"
  mainspring --worktree fix-login -p "Fix the login" --allow edit
  mainspring -p "List the endpoints" --schema endpoints.json --output json

exit codes: 0 done, 1 error, 2 usage or configuration, 3 a limit was reached, 4 denied (--on-deny stop),
5 the provider refused or cannot be reached, 128+N stopped by signal N (130: Ctrl-C)
"""


def run_parser() -> Parser:
    """The options of a run."""
    parser = Parser("mainspring", _USAGE, MAX_DESCRIPTION_CHARS, EPILOG)
    add = parser.add_argument
    add("-V", "--version", action="store_true", help="show the version and leave")
    add(
        "-p",
        "--prompt",
        nargs="?",
        const=STDIN_MARK,
        metavar="PROMPT",
        help="what to do; '-' or nothing: read it from stdin. @FILE in it attaches a file, /NAME runs a command of yours",
    )
    add("--output", choices=OUTPUTS, default="text", help="text (default), one JSON object, or one JSON event a line")
    add("--schema", metavar="FILE", help="have the answer fit a JSON Schema: its file, or the schema itself")
    add("--system", metavar="TEXT", help="instructions in place of the built-in ones")
    add(
        "--tools",
        type=comma_list,
        nargs="?",
        const=LIST_TOOLS,
        metavar="LIST",
        help="only these tools, separated by commas; 'none' for none; without a list: show which there are",
    )
    add("--check", action="store_true", help="the same as the command check")
    _add_model(parser)
    _add_conversation(parser)
    _add_limits(parser)
    add_permission_options(parser)
    parser.add_argument("--on-deny", choices=("continue", "stop"), default="continue", help="what a denied call does")
    _add_mode_options(parser)
    add_workspace_options(parser)
    return parser


def _add_model(parser: Parser) -> None:
    group = parser.add_argument_group("model")
    group.add_argument(
        "--model", metavar="PROVIDER:MODEL", help="which one, as in openai:gpt-5-mini, embedded:qwen-coder-0.5b"
    )
    group.add_argument("--provider", metavar="NAME", help="whose model: its default one, or the --model of it")
    group.add_argument("--thinking", choices=THINKING, metavar="LEVEL", help="how much it reasons: off ... xhigh")


def _add_conversation(parser: Parser) -> None:
    group = parser.add_argument_group("conversation")
    group.add_argument(
        "-c", "--continue", dest="continued", action="store_true", help="go on with this folder's last one"
    )
    group.add_argument(
        "-r", "--resume", "--session", dest="session", metavar="NAME", help="go on with this one: its id, title or file"
    )
    group.add_argument("--session-id", metavar="ID", help="begin one of this id, or go on with it if it is there")
    group.add_argument("--fork", action="store_true", help="go on in a copy; the conversation itself stays as it is")
    group.add_argument("--no-session", action="store_true", help="save nothing")


def _add_limits(parser: Parser) -> None:
    group = parser.add_argument_group("limits")
    group.add_argument("--max-turns", type=positive_int, metavar="N", help="most model calls (default 50)")
    group.add_argument("--max-seconds", type=positive_float, metavar="S", help="most seconds")
    group.add_argument("--max-cost", type=positive_float, metavar="USD", help="most US dollars")
    group.add_argument("--max-tokens", type=positive_int, metavar="N", help="most tokens, prompts and answers together")
    group.add_argument(
        "--max-output-tokens", type=positive_int, metavar="N", help="most tokens of one answer (default 16384)"
    )


def _add_mode_options(parser: Parser) -> None:
    group = parser.add_argument_group("how it works")
    group.add_argument("--plan", action="store_true", help="look and plan only; the plan is kept in a file")
    group.add_argument("--accept-edits", action="store_true", help="Edit the project's files without approval")
    group.add_argument(
        "--execute",
        nargs="?",
        const="",
        metavar="PLAN",
        help="carry out a plan: its file, or the last one that was kept",
    )
    group.add_argument(
        "--sandbox",
        nargs="?",
        const="auto",
        choices=SANDBOXES,
        metavar="LAYER",
        help="hold tools and commands in the project, without network: by bubblewrap, landlock or seatbelt, "
        "whichever works here; where none does, nothing is started. 'none': not in one, whatever the settings say",
    )
    group.add_argument("--sandbox-network", action="store_true", help="let the sandbox reach the network")
    group.add_argument("--worktree", metavar="NAME", help="work in a git worktree of this name, on a branch of its own")


def parse_arguments(arguments: Sequence[str]) -> tuple[str, argparse.Namespace]:
    """The command (``ask`` where none is named) and its options.

    Raises:
        UsageError: If the command line is wrong.
        SystemExit: After ``--help``.
    """
    name = next(iter(arguments), "")
    if name in COMMANDS:
        return name, COMMANDS[name]().read(arguments[1:])
    if name and not name.startswith("-"):
        near = difflib.get_close_matches(name, COMMANDS, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(COMMANDS)}; a prompt goes after -p"
        raise UsageError(f"there is no command {name!r}; {hint}", run_parser().format_usage())
    if "--check" in arguments:
        return "check", COMMANDS["check"]().read([text for text in arguments if text != "--check"])
    options = run_parser().read(arguments)
    if options.tools == LIST_TOOLS:
        return "tools", COMMANDS["tools"]().read([])
    _check_conflicts(options)
    return "ask", options


def _check_conflicts(options: argparse.Namespace) -> None:
    """Whether the options of a run fit each other.

    Raises:
        UsageError: If they do not.
    """
    named = [n for n in ("session", "session_id", "continued") if getattr(options, n)]
    if len(named) > 1:
        raise UsageError("--continue, --session and --session-id name two conversations; give one of them")
    if options.fork and not named:
        raise UsageError("--fork needs the conversation to copy: add --continue or --session NAME")
    if options.sandbox_network and options.sandbox in {None, "none"}:
        raise UsageError("--sandbox-network opens the network of a sandbox; add --sandbox")
    if options.plan and options.execute is not None:
        raise UsageError("--plan only looks, and --execute carries a plan out; give one of them")
    if options.plan and options.accept_edits:
        raise UsageError("Use only one of --plan and --accept-edits.")
    if options.no_session and named:
        raise UsageError("--no-session saves nothing, so there is nothing to go on with; leave out one of them")
