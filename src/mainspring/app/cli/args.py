"""The command line as values. Imports nothing but the standard library, so that ``--help`` is quick."""

from __future__ import annotations

import argparse
import difflib
import math
from collections.abc import Callable, Sequence
from typing import NoReturn

OUTPUTS = ("text", "json", "stream-json")
SANDBOXES = ("auto", "bubblewrap", "landlock", "seatbelt")
STDIN = "-"

USAGE = """mainspring -p "PROMPT" [options]
       mainspring COMMAND [options]"""

DESCRIPTION = "An agent for the terminal: ask, and it reads, searches, edits and runs what you allow."

EPILOG = """commands:
  check             what is configured, what is missing, how to set it
  models            the models that can be used here
  models get [NAME] fetch the embedded model
  tools list        the built-in tools
  tools call NAME 'JSON'
                    run one tool and print its result as JSON
  sessions list     saved conversations; also show, tree, search WORDS, name, rm, purge
  export [SESSION]  write one as an HTML page, Markdown or JSON lines; sessions import FILE takes it back
  config show       the settings and where each comes from
  config set KEY VALUE, config unset KEY
                    change your own settings
  rewind [SESSION]  go back before the last prompt, files too; --list, --dry-run, --undo
  trust [DIR]       let what a folder brings act: settings, hooks, memory
  memory show, memory add NOTE
                    what is remembered from conversation to conversation
  extensions list   what extends the agent, and what is wrong with it
  hooks list, hooks test EVENT
                    commands that are asked as hooks; try them
  replay traffic PATH...
                    decode recorded exchanges with models

examples:
  mainspring -p "What does @src/app.py do?"
  git diff | mainspring -p "Write a commit message"
  mainspring -p "Fix the failing test" --allow edit --allow 'shell(pytest *)'
  mainspring --continue -p "And now the docs"

exit codes: 0 done, 1 error, 2 usage or configuration, 3 a limit was reached, 4 denied (--on-deny stop),
5 the provider refused or cannot be reached, 128+N stopped by signal N (130: Ctrl-C)
"""


class UsageError(Exception):
    """The command line is wrong; ``usage`` is how it is meant."""

    def __init__(self, message: str, usage: str = "") -> None:
        super().__init__(message)
        self.usage = usage


class Parser(argparse.ArgumentParser):
    """A parser that raises, and offers the nearest option for one it does not know."""

    def __init__(self, prog: str, usage: str | None = None, description: str = "", epilog: str = "") -> None:
        super().__init__(
            prog=prog,
            usage=usage,
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            add_help=False,
        )
        self.add_argument("-h", "--help", action="help", help="show this and leave")

    def error(self, message: str) -> NoReturn:
        """Raise it."""
        raise UsageError(message, self.format_usage())

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse, with a hint for what is unknown."""
        options, unknown = self.parse_known_args(arguments)
        if unknown:
            first = unknown[0]
            known = [text for action in self._actions for text in action.option_strings]
            near = difflib.get_close_matches(first.partition("=")[0], known, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            if not first.startswith("-"):
                hint = "; put a prompt after -p, in quotes"
            self.error(f"unknown argument {first!r}{hint}")
        return options


def _whole(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, not {text!r}") from None
    if value < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return value


def _amount(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value <= 0:
        raise argparse.ArgumentTypeError(f"must be a number above 0, not {text!r}")
    return value


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip() and name.strip() != "none")


def _add_rules(
    parser: argparse.ArgumentParser, default: str = "reading in the folder is allowed, writing and running is not"
) -> None:
    group = parser.add_argument_group(f"permissions ({default})")
    rule = "as in read_file, 'edit(docs/**)', 'shell(git diff *)', scope:fs-write"
    group.add_argument("--allow", action="append", default=[], metavar="RULE", help=f"allow it: {rule}")
    group.add_argument(
        "--ask", action="append", default=[], metavar="RULE", help="ask before it; without a terminal: deny"
    )
    group.add_argument("--deny", action="append", default=[], metavar="RULE", help="deny it, whatever else allows it")


def _add_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cwd", metavar="DIR", help="work in this folder")
    parser.add_argument("--offline", action="store_true", help="use no network but the model's own; fetch nothing")
    parser.add_argument("-v", "--verbose", action="store_true", help="details on stderr")


def ask_parser() -> Parser:
    """The options of a run."""
    parser = Parser("mainspring", USAGE, DESCRIPTION, EPILOG)
    add = parser.add_argument
    add("-V", "--version", action="store_true", help="show the version and leave")
    add(
        "-p",
        "--prompt",
        nargs="?",
        const=STDIN,
        metavar="PROMPT",
        help="what to do; '-' or nothing: read it from stdin. @FILE in it attaches a file",
    )
    add("--output", choices=OUTPUTS, default="text", help="text (default), one JSON object, or one JSON event a line")
    add("--model", metavar="PROVIDER:MODEL", help="which model, as in openai:gpt-5-mini, embedded:qwen-coder-0.5b")
    add("--system", metavar="TEXT", help="instructions in place of the built-in ones")
    add("--tools", type=_names, metavar="LIST", help="only these tools, separated by commas; 'none' for none")
    group = parser.add_argument_group("conversation")
    group.add_argument(
        "-c", "--continue", dest="continued", action="store_true", help="go on with this folder's last one"
    )
    group.add_argument("--session", metavar="NAME", help="go on with this one: its id, title or file")
    group.add_argument("--session-id", metavar="ID", help="begin one of this id, or go on with it if it is there")
    group.add_argument("--fork", action="store_true", help="go on in a copy; the conversation itself stays as it is")
    group.add_argument("--no-session", action="store_true", help="save nothing")
    group = parser.add_argument_group("limits")
    group.add_argument("--max-turns", type=_whole, metavar="N", help="most model calls (default 50)")
    group.add_argument("--max-seconds", type=_amount, metavar="S", help="most seconds")
    group.add_argument("--max-cost", type=_amount, metavar="USD", help="most US dollars")
    group.add_argument("--max-tokens", type=_whole, metavar="N", help="most tokens, prompts and answers together")
    group.add_argument(
        "--max-output-tokens", type=_whole, metavar="N", help="most tokens of one answer (default 16384)"
    )
    _add_rules(parser)
    add("--plan", action="store_true", help="look and plan only; the plan is kept in a file")
    add(
        "--execute",
        nargs="?",
        const="",
        metavar="PLAN",
        help="carry out a plan: its file, or the last one that was kept",
    )
    add(
        "--sandbox",
        nargs="?",
        const="auto",
        choices=SANDBOXES,
        metavar="LAYER",
        help="hold tools and commands in the project, without network: by bubblewrap, landlock or seatbelt, "
        "whichever works here; where none does, nothing is started",
    )
    add("--sandbox-network", action="store_true", help="let the sandbox reach the network")
    add("--on-deny", choices=("continue", "stop"), default="continue", help="what a denied call does to the run")
    _add_place(parser)
    return parser


def _noun(name: str, description: str) -> Parser:
    return Parser(f"mainspring {name}", description=description)


def _check() -> Parser:
    parser = _noun("check", "What is configured, what can be reached, what is missing and how to set it.")
    parser.add_argument("--model", metavar="PROVIDER:MODEL", help="look at this model")
    parser.add_argument("--json", action="store_true", help="as JSON")
    _add_place(parser)
    return parser


def _models() -> Parser:
    parser = _noun("models", "List the models that can be used here, or fetch the embedded one: models get [NAME].")
    parser.add_argument("action", nargs="?", choices=("list", "get"), default="list", help="list (default) or get")
    parser.add_argument("name", nargs="?", help="which to get: qwen-coder-0.5b, qwen-coder-1.5b, smollm2-135m")
    parser.add_argument("--json", action="store_true", help="as JSON")
    _add_place(parser)
    return parser


def _tools() -> Parser:
    parser = _noun("tools", "List the built-in tools, or run one: tools call NAME 'JSON'.")
    parser.add_argument("action", nargs="?", choices=("list", "call"), default="list", help="list (default) or call")
    parser.add_argument("name", nargs="?", help="the tool to call")
    parser.add_argument("arguments", nargs="?", help="its arguments, a JSON object; '-' reads them from stdin")
    parser.add_argument("--json", action="store_true", help="as JSON, with schemas")
    _add_rules(parser, "a call is allowed, since you make it; sensitive files need --allow")
    _add_place(parser)
    return parser


def _sessions() -> Parser:
    parser = _noun("sessions", "Saved conversations: list, show, tree, search, name, remove, import.")
    actions = ("list", "show", "tree", "search", "name", "rm", "purge", "import")
    parser.add_argument("action", nargs="?", choices=actions, default="list", help="list (default), ...")
    parser.add_argument(
        "words",
        nargs="*",
        metavar="WHAT",
        help="search: words; show, tree, rm: an id or title; name: an id and a name; import: a file of `mainspring export`",
    )
    parser.add_argument("--all", action="store_true", help="those of all folders")
    parser.add_argument(
        "--keep", type=_whole, default=50, metavar="N", help="purge: how many of this folder stay (default 50)"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    _add_place(parser)
    return parser


def _config() -> Parser:
    parser = _noun("config", "Show the settings, or change your own.")
    parser.add_argument(
        "action", nargs="?", choices=("show", "set", "unset", "path"), default="show", help="show (default)"
    )
    parser.add_argument("key", nargs="?", help="as in agent.maxTokens, providers.openai.apiKey")
    parser.add_argument(
        "value", nargs="?", help="the value; '-' reads it from stdin, so that a key stays out of the history"
    )
    parser.add_argument("--origin", action="store_true", help="with where each value comes from")
    parser.add_argument("--json", action="store_true", help="as JSON")
    _add_place(parser)
    return parser


def _export() -> Parser:
    parser = _noun("export", "Write a conversation to a file: one HTML page, Markdown, or lines that can be imported.")
    parser.add_argument("session", nargs="?", help="its id, title or file; the folder's last one if left out")
    parser.add_argument(
        "--format", choices=("html", "markdown", "jsonl"), help="default: by the file's ending, else html"
    )
    parser.add_argument("-o", "--out", metavar="FILE", help="where to; '-' is stdout. Default: ID.html in this folder")
    parser.add_argument("--force", action="store_true", help="write over a file that exists")
    _add_place(parser)
    return parser


def _rewind() -> Parser:
    parser = _noun("rewind", "Go back in a conversation, together with the files that its tools changed.")
    parser.add_argument("session", nargs="?", help="its id or title; the folder's last one if left out")
    parser.add_argument("--list", action="store_true", help="the moments to go back to")
    parser.add_argument(
        "--to", default="1", metavar="N", help="before the Nth prompt from the end (default 1), or an entry's id"
    )
    parser.add_argument("--undo", action="store_true", help="take the last rewind back")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--files-only", action="store_true", help="leave the conversation as it is")
    which.add_argument("--conversation-only", action="store_true", help="leave the files as they are")
    parser.add_argument("--dry-run", action="store_true", help="tell what would happen")
    parser.add_argument(
        "--force", action="store_true", help="replace files changed by others too; leave what cannot come back"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    _add_place(parser)
    return parser


def _trust() -> Parser:
    parser = _noun("trust", "Let what a folder brings (settings, hooks, extensions, servers, skills, memory) act.")
    parser.add_argument("folder", nargs="?", metavar="DIR", help="the folder; this one if left out")
    parser.add_argument("--remove", action="store_true", help="trust it no more")
    parser.add_argument("--list", action="store_true", help="the folders that are trusted")
    parser.add_argument("--json", action="store_true", help="the list as JSON")
    _add_place(parser)
    return parser


def _permissions() -> Parser:
    parser = _noun(
        "permissions", "Show the rules in force, or explain what they say about a call: explain TOOL 'ARGS'."
    )
    parser.add_argument(
        "action", nargs="?", choices=("list", "explain"), default="list", help="list (default) or explain"
    )
    parser.add_argument("tool", nargs="?", help="the tool, as in shell, read_file, fetch")
    parser.add_argument(
        "arguments",
        nargs="?",
        help="its arguments as JSON, or its command, path or URL alone; '-' reads them from stdin",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    _add_rules(parser)
    _add_place(parser)
    return parser


def _memory() -> Parser:
    parser = _noun("memory", "Show what is remembered from conversation to conversation, or add to it.")
    parser.add_argument("action", nargs="?", choices=("show", "add", "path"), default="show", help="show (default)")
    parser.add_argument("note", nargs="?", help="what to remember; '-' reads it from stdin")
    parser.add_argument("--user", action="store_true", help="in the user's own memory, not the project's")
    parser.add_argument(
        "--section", choices=("Preferences", "Context", "Learned Patterns"), default="Context", help="default: Context"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    _add_place(parser)
    return parser


def _extensions() -> Parser:
    parser = _noun("extensions", "What extends the agent: Python files and packages that are loaded into it.")
    parser.add_argument("action", nargs="?", choices=("list",), default="list", help="list (default)")
    parser.add_argument("--json", action="store_true", help="as JSON")
    _add_place(parser)
    return parser


def _hooks() -> Parser:
    parser = _noun(
        "hooks", "Commands of the settings that are asked as hooks: list them, or try them on a made-up event."
    )
    parser.add_argument("action", nargs="?", choices=("list", "test"), default="list", help="list (default) or test")
    parser.add_argument("event", nargs="?", help="the event to try, as in PreToolUse")
    parser.add_argument("arguments", nargs="?", help="the tool's arguments, a JSON object; '-' reads them from stdin")
    parser.add_argument("--tool", metavar="NAME", help="the tool that the event is about (default: shell)")
    parser.add_argument("--json", action="store_true", help="as JSON")
    _add_place(parser)
    return parser


def _replay() -> Parser:
    parser = _noun("replay", "Decode recorded exchanges with models: replay traffic PATH...")
    parser.add_argument("action", choices=("traffic",), help="what to replay")
    parser.add_argument("paths", nargs="+", metavar="PATH", help="files, or folders of *.json files")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    _add_place(parser)
    return parser


COMMANDS: dict[str, Callable[[], Parser]] = {
    "check": _check,
    "models": _models,
    "tools": _tools,
    "sessions": _sessions,
    "config": _config,
    "replay": _replay,
    "export": _export,
    "rewind": _rewind,
    "trust": _trust,
    "memory": _memory,
    "permissions": _permissions,
    "extensions": _extensions,
    "hooks": _hooks,
}


def parse(arguments: Sequence[str]) -> tuple[str, argparse.Namespace]:
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
        raise UsageError(f"there is no command {name!r}; {hint}", ask_parser().format_usage())
    options = ask_parser().read(arguments)
    named = [n for n in ("session", "session_id", "continued") if getattr(options, n)]
    if len(named) > 1:
        raise UsageError("--continue, --session and --session-id name two conversations; give one of them")
    if options.fork and not named:
        raise UsageError("--fork needs the conversation to copy: add --continue or --session NAME")
    if options.sandbox_network and options.sandbox is None:
        raise UsageError("--sandbox-network opens the network of a sandbox; add --sandbox")
    if options.plan and options.execute is not None:
        raise UsageError("--plan only looks, and --execute carries a plan out; give one of them")
    if options.no_session and named:
        raise UsageError("--no-session saves nothing, so there is nothing to go on with; leave out one of them")
    return "ask", options
