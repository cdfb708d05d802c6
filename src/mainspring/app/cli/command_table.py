"""The commands beside a run, and their options. Imports nothing but the standard library."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from mainspring.app.cli.parser import Parser, add_permission_options, add_workspace_options, positive_int
from mainspring.lazy import lazy_function


def _command_parser(name: str, description: str, epilog: str = "") -> Parser:
    return Parser(f"mainspring {name}", description=description, epilog=epilog)


def _check() -> Parser:
    parser = _command_parser("check", "What is configured, what can be reached, what is missing and how to set it.")
    parser.add_argument("--model", metavar="PROVIDER:MODEL", help="look at this model")
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_workspace_options(parser)
    return parser


def _models() -> Parser:
    parser = _command_parser(
        "models", "List the models that can be used here, or fetch the embedded one: models get [NAME]."
    )
    parser.add_argument("action", nargs="?", choices=("list", "get"), default="list", help="list (default) or get")
    parser.add_argument("name", nargs="?", help="which to get: qwen-coder-0.5b, qwen-coder-1.5b, smollm2-135m")
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_workspace_options(parser)
    return parser


def _tools() -> Parser:
    parser = _command_parser("tools", "List the built-in tools, or run one: tools call NAME 'JSON'.")
    parser.add_argument("action", nargs="?", choices=("list", "call"), default="list", help="list (default) or call")
    parser.add_argument("name", nargs="?", help="the tool to call")
    parser.add_argument("arguments", nargs="?", help="its arguments, a JSON object; '-' reads them from stdin")
    parser.add_argument("--json", action="store_true", help="as JSON, with schemas")
    add_permission_options(parser, "a call is allowed, since you make it; sensitive files need --allow")
    add_workspace_options(parser)
    return parser


def _sessions() -> Parser:
    parser = _command_parser("sessions", "Saved conversations: list, show, tree, search, name, remove, import.")
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
        "--keep", type=positive_int, default=50, metavar="N", help="purge: how many of this folder stay (default 50)"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_workspace_options(parser)
    return parser


def _config() -> Parser:
    parser = _command_parser(
        "config",
        "The settings: show them with where each value comes from, set up a provider, change, edit and check them.",
        """examples:
  mainspring config init                                     asks for provider, key and model, and tries them
  mainspring config init openai --key - < key.txt            the same without questions
  mainspring config set agent.maxTurns 20                    in your own file
  mainspring config set --project agent.maxCost 1            in the file of this project
  mainspring config provider add mine --url http://10.0.0.5:8000/v1 --model qwen3-30b
  mainspring config validate""",
    )
    add = parser.add_argument
    actions = ("show", "init", "set", "unset", "edit", "validate", "provider", "schema", "path")
    add(
        "action",
        nargs="?",
        choices=actions,
        default="show",
        metavar="ACTION",
        help=f"{', '.join(actions)} (default: show)",
    )
    add("key", nargs="?", help="set, unset: as in agent.maxTokens; init: the provider; provider: list, add or remove")
    add("value", nargs="?", help="set: the value, '-' reads it from stdin; provider add, remove: its name")
    add("--project", action="store_true", help="in the project's file (.agent/settings.json) in place of your own")
    add("--origin", action="store_true", help="show: with where each value comes from; it always is")
    add("--all", action="store_true", help="show: what is not set as well, with its default")
    add("--strict", action="store_true", help="validate: an unknown key is an error")
    add("--json", action="store_true", help="as JSON")
    group = parser.add_argument_group("init, provider add")
    group.add_argument(
        "--key",
        dest="key_value",
        metavar="KEY",
        help="its key; '-' reads it from stdin, so that it stays out of the history",
    )
    group.add_argument(
        "--key-command", metavar="COMMAND", help="a command that prints the key, as in 'pass show openai'"
    )
    group.add_argument("--key-file", metavar="FILE", help="a file that holds the key, readable for you only")
    group.add_argument("--keyring", action="store_true", help="keep the key in the system's keyring")
    group.add_argument("--url", metavar="URL", help="where it is, as in http://localhost:8000/v1")
    group.add_argument("--model", metavar="MODEL", help="the model to use there")
    group.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of this provider alone"
    )
    group.add_argument("--no-test", action="store_true", help="do not try the connection")
    group.add_argument("--no-default", action="store_true", help="do not make it the default provider")
    add_workspace_options(parser)
    return parser


def _export() -> Parser:
    parser = _command_parser(
        "export", "Write a conversation to a file: one HTML page, Markdown, or lines that can be imported."
    )
    parser.add_argument("session", nargs="?", help="its id, title or file; the folder's last one if left out")
    parser.add_argument(
        "--format", choices=("html", "markdown", "jsonl"), help="default: by the file's ending, else html"
    )
    parser.add_argument("-o", "--out", metavar="FILE", help="where to; '-' is stdout. Default: ID.html in this folder")
    parser.add_argument("--force", action="store_true", help="write over a file that exists")
    add_workspace_options(parser)
    return parser


def _rewind() -> Parser:
    parser = _command_parser("rewind", "Go back in a conversation, together with the files that its tools changed.")
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
    add_workspace_options(parser)
    return parser


def _trust() -> Parser:
    parser = _command_parser(
        "trust", "Let what a folder brings (settings, hooks, extensions, servers, skills, memory) act."
    )
    parser.add_argument("folder", nargs="?", metavar="DIR", help="the folder; this one if left out")
    parser.add_argument("--remove", action="store_true", help="trust it no more")
    parser.add_argument("--list", action="store_true", help="the folders that are trusted")
    parser.add_argument("--show", action="store_true", help="what acts in it by itself, or would; trust nothing")
    parser.add_argument("--json", action="store_true", help="the list as JSON")
    add_workspace_options(parser)
    return parser


def _permissions() -> Parser:
    parser = _command_parser(
        "permissions", "Show, save, or revoke permission rules, or explain what they say about a call."
    )
    parser.add_argument(
        "action",
        nargs="?",
        choices=("list", "allow", "deny", "revoke", "explain"),
        default="list",
        help="List the rules, save one that allows or denies, revoke a saved one, or explain a decision (default: list)",
    )
    parser.add_argument(
        "tool",
        nargs="?",
        metavar="RULE|NUMBER|TOOL",
        help="allow and deny: the rule; revoke: its number or text; explain: the tool, for example, shell",
    )
    parser.add_argument(
        "arguments",
        nargs="?",
        help="explain: arguments as JSON, or the command, path, or URL alone; '-' reads them from stdin",
    )
    parser.add_argument(
        "--global", dest="everywhere", action="store_true", help="Save the rule for every project, not for this one"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_permission_options(parser)
    add_workspace_options(parser)
    return parser


def _memory() -> Parser:
    parser = _command_parser("memory", "Show what is remembered from conversation to conversation, or add to it.")
    parser.add_argument("action", nargs="?", choices=("show", "add", "path"), default="show", help="show (default)")
    parser.add_argument("note", nargs="?", help="what to remember; '-' reads it from stdin")
    parser.add_argument("--user", action="store_true", help="in the user's own memory, not the project's")
    parser.add_argument(
        "--section", choices=("Preferences", "Context", "Learned Patterns"), default="Context", help="default: Context"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_workspace_options(parser)
    return parser


def _extensions() -> Parser:
    parser = _command_parser("extensions", "What extends the agent: Python files and packages that are loaded into it.")
    parser.add_argument("action", nargs="?", choices=("list",), default="list", help="list (default)")
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_workspace_options(parser)
    return parser


def _hooks() -> Parser:
    parser = _command_parser(
        "hooks", "Commands of the settings that are asked as hooks: list them, or try them on a made-up event."
    )
    parser.add_argument("action", nargs="?", choices=("list", "test"), default="list", help="list (default) or test")
    parser.add_argument("event", nargs="?", help="the event to try, as in PreToolUse")
    parser.add_argument("arguments", nargs="?", help="the tool's arguments, a JSON object; '-' reads them from stdin")
    parser.add_argument("--tool", metavar="NAME", help="the tool that the event is about (default: shell)")
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_workspace_options(parser)
    return parser


class _McpParser(Parser):
    """Options of ``mcp``; behind ``--`` stands a server's command, whose options are its own."""

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse what stands before ``--``."""
        at = arguments.index("--") if "--" in arguments else len(arguments)
        options = super().read(arguments[:at])
        options.command = list(arguments[at + 1 :])
        return options


def _mcp() -> Parser:
    parser = _McpParser(
        "mainspring mcp",
        description="Servers of the Model Context Protocol: what they offer, what that costs, and whether they work. See docs/mcp.md.",
        epilog="""examples:
  mainspring mcp                                        all servers, connected to, with what their tools cost
  mainspring mcp add files -- npx -y @modelcontextprotocol/server-filesystem .
  mainspring mcp add docs https://example.org/mcp --header 'Authorization: Bearer ${DOCS_TOKEN}'
  mainspring mcp add tracker --project --disclosure lazy --env 'KEY=${TRACKER_KEY}' -- tracker-server
  mainspring mcp test files
  mainspring mcp login docs""",
    )
    actions = ("list", "add", "remove", "test", "tools", "login", "logout", "logs")
    parser.add_argument("action", nargs="?", choices=actions, default="list", help="list (default), ...")
    parser.add_argument("name", nargs="?", help="the server; list and tools: only this one")
    parser.add_argument("target", nargs="?", metavar="URL", help="add: its address; for a program: -- COMMAND ARGS...")
    parser.add_argument(
        "--project", action="store_true", help="add, remove: in the project's .agent/mcp.json, not your own"
    )
    parser.add_argument("--force", action="store_true", help="add: replace one of this name")
    parser.add_argument("--transport", choices=("stdio", "http", "sse"), help="add: if it cannot be told from the rest")
    parser.add_argument(
        "--env", action="append", default=[], metavar="NAME=VALUE", help="add: a variable; ${VAR} is put in"
    )
    parser.add_argument(
        "--header", action="append", default=[], metavar="'NAME: VALUE'", help="add: a header; likewise"
    )
    parser.add_argument("--disclosure", choices=("eager", "lazy"), help="add: offer its tools at once, or by search")
    parser.add_argument("--no-connect", action="store_true", help="list: start and ask none")
    parser.add_argument("--no-browser", action="store_true", help="login: only show the address")
    parser.add_argument("--lines", type=positive_int, default=50, metavar="N", help="logs: how many (default 50)")
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_workspace_options(parser)
    return parser


def _replay() -> Parser:
    parser = _command_parser("replay", "Decode recorded exchanges with models: replay traffic PATH...")
    parser.add_argument("action", choices=("traffic",), help="what to replay")
    parser.add_argument("paths", nargs="+", metavar="PATH", help="files, or folders of *.json files")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    add_workspace_options(parser)
    return parser


def _login() -> Parser:
    parser = _command_parser("login", "Sign in at a provider that takes an account in place of a key.")
    parser.add_argument("provider", nargs="?", default="codex", help="codex (default): a ChatGPT account")
    parser.add_argument("--no-browser", action="store_true", help="only show the address, to open it by hand")
    add_workspace_options(parser)
    return parser


def _logout() -> Parser:
    parser = _command_parser("logout", "Forget a login: its tokens are removed from this machine.")
    parser.add_argument("provider", nargs="?", default="codex", help="codex (default)")
    add_workspace_options(parser)
    return parser


def _completion() -> Parser:
    parser = _command_parser(
        "completion",
        "Print what makes a shell complete commands and options.",
        """to switch it on:
  bash   echo 'source <(mainspring completion bash)' >> ~/.bashrc
  zsh    echo 'source <(mainspring completion zsh)' >> ~/.zshrc
  fish   mainspring completion fish > ~/.config/fish/completions/mainspring.fish""",
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="which shell")
    add_workspace_options(parser)
    return parser


def _worktrees() -> Parser:
    parser = _command_parser(
        "worktrees",
        "The git worktrees that `mainspring --worktree NAME` began: list them, or remove one. Work that is not committed is "
        "removed with --force only.",
    )
    parser.add_argument(
        "action", nargs="?", choices=("list", "remove"), default="list", help="list (default) or remove"
    )
    parser.add_argument("name", nargs="?", help="which to remove")
    parser.add_argument("--branch", action="store_true", help="remove: its branch too, if all of it is merged")
    parser.add_argument("--ignored", action="store_true", help="remove: with the files in it that git ignores")
    parser.add_argument("--force", action="store_true", help="remove: with all files in it, also what is not committed")
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_workspace_options(parser)
    return parser


def _commands() -> Parser:
    parser = _command_parser(
        "commands",
        'The Markdown commands that can be used here, as in: mainspring -p "/review src". See docs/custom-commands.md.',
    )
    parser.add_argument("action", nargs="?", choices=("list", "show"), default="list", help="list (default) or show")
    parser.add_argument("name", nargs="?", help="show: which")
    parser.add_argument(
        "arguments", nargs="*", help="show: its arguments; the prompt that they make is printed, nothing is run"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_workspace_options(parser)
    return parser


def _skills() -> Parser:
    parser = _command_parser(
        "skills",
        "Skills: instructions, scripts and tools that the agent takes up when a task needs them. See docs/skills.md.",
        """examples:
  mainspring skills                                          which there are, and what is wrong with others
  mainspring skills install anthropics/skills --skill pdf    shows what it brings, and asks
  mainspring skills install https://example.org/team/skills.git#v1.2 --path review --yes
  mainspring skills install ./my-skill
  mainspring skills update                                   shows what changed, and asks
  mainspring skills validate .agent/skills
  mainspring skills new release-notes --description "Writes release notes. Use it before a release." """,
    )
    add = parser.add_argument
    actions = ("list", "show", "validate", "install", "enable", "disable", "update", "remove", "new")
    add(
        "action",
        nargs="?",
        choices=actions,
        default="list",
        metavar="ACTION",
        help=f"{', '.join(actions)} (default: list)",
    )
    add(
        "words",
        nargs="*",
        metavar="WHAT",
        help="validate: files, folders or names; install: a folder, the address of a repository, or OWNER/NAME on GitHub, with #REF "
        "behind it if wanted; else: the skill's name",
    )
    add("--skill", action="append", default=[], metavar="NAME", help="install: which, where there are several")
    add("--all", action="store_true", help="install: all that are there")
    add("--ref", default="", metavar="REF", help="install: at this branch, tag or commit")
    add("--path", default="", metavar="DIR", help="install: from this folder of the repository")
    add("--force", action="store_true", help="install, update: replace what was written or changed by hand")
    add("-y", "--yes", action="store_true", help="install, update, remove: do not ask")
    add("--description", default="", metavar="TEXT", help="new: what it does, and when to use it")
    add("--scripts", action="store_true", help="new: with a script")
    add("--project", action="store_true", help="new: in the project (.agent/skills) in place of your own folder")
    add("--json", action="store_true", help="as JSON")
    add_workspace_options(parser)
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
    "mcp": _mcp,
    "telemetry": lazy_function("mainspring.app.cli.telemetry_options", "build_telemetry_parser"),
    "cost": lazy_function("mainspring.app.cli.telemetry_options", "build_cost_parser"),
    "login": _login,
    "logout": _logout,
    "completion": _completion,
    "worktrees": _worktrees,
    "commands": _commands,
    "skills": _skills,
    "serve": lazy_function("mainspring.app.cli.serve_options", "build_serve_parser"),
    "worker": lazy_function("mainspring.app.cli.worker_options", "build_worker_parser"),
    "runs": lazy_function("mainspring.app.cli.worker_options", "build_runs_parser"),
}
"""Each has a module of its name beside this one, with ``run(options) -> int``."""
