"""Parse the command line. Imports only the standard library, so that ``--help`` is fast."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence

from mainspring.app.cli.agent_flags import AGENT_FLAGS
from mainspring.app.cli.command_table import COMMANDS
from mainspring.app.cli.parser import (
    STDIN_MARK,
    Parser,
    UsageError,
    add_deny_option,
    add_permission_options,
    add_workspace_options,
    comma_list,
)
from mainspring.lazy import lazy_function

__all__ = ["COMMANDS", "STDIN_MARK", "UsageError", "parse_arguments", "run_parser"]

_reject_extra_arguments = lazy_function("mainspring.app.cli.action_arguments", "reject_extra_arguments")

OUTPUTS = ("text", "json", "stream-json")
SANDBOXES = ("auto", "none", "bubblewrap", "landlock", "seatbelt")
LIST_TOOLS = ("",)
"""Value of ``--tools`` without a list, which lists the tools."""
PICK_SESSION = ""
"""Value of ``--resume`` without a name, which opens the list of sessions."""

_USAGE = """mainspring ["PROMPT"] [options]
       mainspring -p "PROMPT" [options]
       mainspring COMMAND [options]"""

DESCRIPTION = """An agent for the terminal that reads, searches, edits, and runs what you allow.

get started:
  mainspring check                    Check the configuration and show how to fix it
  mainspring config init              Choose a model provider, enter its API key, and test the connection
  mainspring                          Start a chat in this terminal
  mainspring "Fix the tests"          Start a chat with a first prompt (several words, in quotes)
  mainspring -p "What is in this folder?"
"""

EPILOG = """commands (mainspring COMMAND --help for details):
  setup
    check             Check what is configured, what is missing, and how to set it
    config            Manage settings: init, show, get KEY, set KEY VALUE, unset KEY, edit, validate, path
    config provider   Manage model providers: list, add NAME, remove NAME
    login, logout     Sign in to or out of a provider that uses an account instead of an API key (codex)
    models            List available models, or download an embedded one: get [NAME]
    completion        Print a completion script for bash, zsh, or fish
  sessions
    sessions          Manage sessions: list, show, tree, search WORDS, name, rm, purge, import FILE
    export [SESSION]  Export a session as HTML, Markdown, or JSON lines
    rewind [SESSION]  Undo prompts and their file changes: --list, --dry-run, --undo
    worktrees         Manage git worktrees created by --worktree NAME: list, remove NAME
    memory            Manage notes that every session reads: show, add NOTE
  permissions and tools
    permissions       Manage permission rules: list, allow, deny, revoke, explain
    trust [DIR]       Trust a folder, so that its settings, hooks, commands, and memory take effect
    tools             Run built-in tools: list, call NAME 'JSON'
    commands          Manage custom commands, which `-p "/NAME ARGUMENTS"` runs: list, show NAME
    skills            Manage skills: list, show, validate, install, enable, disable, update, remove, new
    mcp               Manage MCP servers: list, add, remove, test, tools, login, logs
    extensions        List extensions and their problems
    hooks             Manage command hooks: list, test EVENT
  servers and workers
    serve             Serve browsers, editors, programs, or other agents: --http, --acp, --rpc, --mcp
    worker            Run a worker that executes queued runs from a database
    runs              Manage durable runs: list, start, show, follow, answer, steer, abort
  monitoring
    telemetry         Show live traces of runs in a browser: start, stop, status, url
    cost              Show the cost of sessions: --by day, project, model, session
    replay            Decode recorded model traffic: traffic PATH...

examples:
  mainspring -p "What does @src/app.py do?"
  git diff | mainspring -p "Write a commit message"
  mainspring -p "Fix the failing test" --allow edit --allow 'shell(pytest *)'
  mainspring --continue -p "And now the docs"
  mainspring --worktree fix-login -p "Fix the login" --allow edit
  mainspring -p "List the endpoints" --schema endpoints.json --output json

exit codes: 0 success, 1 error, 2 usage or configuration error, 3 limit reached, 4 denied (--on-deny stop),
5 provider error or provider unreachable, 128+N stopped by signal N (130: Ctrl-C)
"""


def run_parser() -> Parser:
    """Create the parser of the options of a run."""
    parser = Parser("mainspring", _USAGE, DESCRIPTION, EPILOG)
    add = parser.add_argument
    add("message", nargs="?", metavar="PROMPT", help="First prompt of a chat in a terminal, in quotes")
    add("-V", "--version", action="store_true", help="Show the version and exit")
    add(
        "-p",
        "--prompt",
        nargs="?",
        const=STDIN_MARK,
        metavar="PROMPT",
        help="Prompt text; '-' or no value reads it from stdin. @FILE attaches a file, /NAME runs a custom command",
    )
    add(
        "--output",
        choices=OUTPUTS,
        default="text",
        help="Output format: text, json (one object), or stream-json (one event per line) (default: text)",
    )
    add("--schema", metavar="FILE", help="JSON Schema that the response must match, as a file or inline JSON")
    add("--system", metavar="TEXT", help="System prompt that replaces the built-in one")
    add(
        "--tools",
        type=comma_list,
        nargs="?",
        const=LIST_TOOLS,
        metavar="LIST",
        help="Tools to offer, separated by commas, or 'none'; without a value, list the tools",
    )
    add("--check", action="store_true", help="Same as `mainspring check`")
    _add_model(parser)
    _add_conversation(parser)
    _add_limits(parser)
    add_permission_options(parser)
    add_deny_option(parser)
    _add_mode_options(parser)
    add_workspace_options(parser)
    return parser


def _add_model(parser: Parser) -> None:
    group = parser.add_argument_group("model")
    group.add_argument(
        "--model",
        metavar="PROVIDER:MODEL",
        help="Model to use, for example, openai:gpt-5-mini or embedded:qwen-coder-0.5b",
    )
    group.add_argument(
        "--provider", metavar="NAME", help="Model provider; uses its default model unless --model names one"
    )
    for flag in AGENT_FLAGS:
        if flag.choices:
            flag.add_to(group.add_argument)


def _add_conversation(parser: Parser) -> None:
    group = parser.add_argument_group("session")
    group.add_argument(
        "-c",
        "--continue",
        dest="continued",
        action="store_true",
        help="Continue the most recent session in this folder",
    )
    group.add_argument(
        "-r",
        "--resume",
        "--session",
        dest="session",
        nargs="?",
        const=PICK_SESSION,
        metavar="NAME",
        help="Resume a session by ID, title, or file; in a chat, without a name, choose it from a list",
    )
    group.add_argument("--session-id", metavar="ID", help="Resume the session with this ID, or create it")
    group.add_argument("--fork", action="store_true", help="Fork the session instead of continuing it")
    group.add_argument("--no-session", action="store_true", help="Do not save the session")


def _add_limits(parser: Parser) -> None:
    group = parser.add_argument_group("limits")
    for flag in AGENT_FLAGS:
        if not flag.choices and flag.kind is not bool:
            flag.add_to(group.add_argument)


def _add_mode_options(parser: Parser) -> None:
    group = parser.add_argument_group("behavior")
    group.add_argument("--plan", action="store_true", help="Plan without making changes; the plan is saved to a file")
    group.add_argument("--accept-edits", action="store_true", help="Edit the project's files without approval")
    for flag in AGENT_FLAGS:
        if flag.kind is bool:
            flag.add_to(group.add_argument)
    group.add_argument(
        "--require-mcp",
        action="store_true",
        help="Fail if an MCP server does not start (exit code 2), for example, in CI",
    )
    group.add_argument(
        "--execute",
        nargs="?",
        const="",
        metavar="PLAN",
        help="Execute a plan file (default: the most recent plan)",
    )
    group.add_argument(
        "--sandbox",
        nargs="?",
        const="auto",
        choices=SANDBOXES,
        metavar="LAYER",
        help="Run tools and commands in a sandbox limited to the project folder, without network access: auto, bubblewrap, landlock, "
        "seatbelt, or none; auto fails if no sandbox is available, and none overrides the settings (default: auto)",
    )
    group.add_argument("--sandbox-network", action="store_true", help="Allow network access in the sandbox")
    group.add_argument(
        "--screen-reader", action="store_true", help="Chat in plain lines for a screen reader, without redrawing"
    )
    group.add_argument("--worktree", metavar="NAME", help="Work in a git worktree with this name, on its own branch")


def parse_arguments(arguments: Sequence[str]) -> tuple[str, argparse.Namespace]:
    """Parse the command line into the name of a command (``ask`` by default) and its options.

    Raises:
        UsageError: If the command line is invalid.
        SystemExit: After ``--help``.
    """
    name = next(iter(arguments), "")
    if name == "help":  # mainspring help [COMMAND]
        arguments = [*arguments[1:2], "--help"]
        name = arguments[0]
    if name in COMMANDS:
        parser = COMMANDS[name]()
        options = parser.read(arguments[1:])
        _reject_extra_arguments(name, parser, options)
        return name, options
    if name and not name.startswith("-") and not _is_sentence(name):
        raise unknown_command(name)
    if "--check" in arguments:
        return "check", COMMANDS["check"]().read([text for text in arguments if text != "--check"])
    options = run_parser().read(arguments)
    if options.tools == LIST_TOOLS:
        return "tools", COMMANDS["tools"]().read([])
    _check_conflicts(options)
    return "ask", options


def _is_sentence(text: str) -> bool:
    """Return True if an argument is a prompt: only quoted arguments contain blanks. Otherwise, it is a mistyped command."""
    return len(text.split()) > 1 or text.startswith("/")


_ELSEWHERE = {
    "ask": '-p "PROMPT" for one prompt, or `mainspring "PROMPT"` for a chat',
    "auth": "`mainspring config init` for an API key, or `mainspring login` for an account",
    "chat": "`mainspring` without a command",
    "continue": "--continue",
    "doctor": "`mainspring check`",
    "exec": '-p "PROMPT"',
    "init": "`mainspring config init` to set up a provider, or /init in a chat to write AGENTS.md",
    "resume": "--resume NAME",
    "run": '-p "PROMPT" for one prompt, or `mainspring "PROMPT"` for a chat',
    "setup": "`mainspring config init`",
    "start": "`mainspring` without a command",
    "version": "--version",
}
"""What to use in place of commands that other programs have."""


def unknown_command(name: str) -> UsageError:
    """Return the error for an argument that is not a command."""
    if name in _ELSEWHERE:
        return UsageError(f"Unknown command: {name}. Use {_ELSEWHERE[name]}.")
    near = difflib.get_close_matches(name, COMMANDS, 1)
    prompt = 'To send a prompt, use -p. To start a chat with it, put it in quotes: mainspring "Fix the tests"'
    hint = f"Did you mean {near[0]}?" if near else f"Available commands: {', '.join(COMMANDS)}. {prompt}"
    return UsageError(f"Unknown command: {name}. {hint}", run_parser().format_usage())


def _check_conflicts(options: argparse.Namespace) -> None:
    """Check that the options of a run do not conflict.

    Raises:
        UsageError: If they conflict.
    """
    if options.message is not None and options.prompt is not None:
        raise UsageError(
            f"Unknown argument: {options.message}. Put the prompt in quotes after -p.", run_parser().format_usage()
        )
    if options.message is not None and not _is_sentence(options.message):
        raise unknown_command(options.message)
    named = [n for n in ("session", "session_id", "continued") if getattr(options, n)]
    if len(named) > 1:
        raise UsageError("Use only one of --continue, --session, and --session-id.")
    if options.fork and not named:
        raise UsageError("--fork requires a session. Add --continue or --session NAME.")
    if options.sandbox_network and options.sandbox in {None, "none"}:
        raise UsageError("--sandbox-network requires a sandbox. Add --sandbox.")
    if options.plan and options.execute is not None:
        raise UsageError("Use only one of --plan and --execute.")
    if options.plan and options.accept_edits:
        raise UsageError("Use only one of --plan and --accept-edits.")
    if options.screen_reader and options.prompt is not None:
        raise UsageError("--screen-reader is for the chat. Omit -p, or omit --screen-reader.")
    if options.no_session and named:
        raise UsageError("Use only one of --no-session and --continue, --session, or --session-id.")
