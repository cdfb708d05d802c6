"""The subcommands and their options. Imports only the standard library."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from mainspring.app.cli.parser import (
    Parser,
    add_common_options,
    add_permission_options,
    add_workspace_options,
    positive_int,
)
from mainspring.lazy import lazy_function


def _command_parser(name: str, description: str, epilog: str = "") -> Parser:
    return Parser(f"mainspring {name}", description=description, epilog=epilog)


def _check() -> Parser:
    parser = _command_parser("check", "Check what is configured and reachable, what is missing, and how to set it.")
    parser.add_argument("--model", metavar="PROVIDER:MODEL", help="Check this model")
    return add_common_options(parser)


def _complete_models() -> Parser:
    parser = _command_parser("models", "List available models, or download an embedded model: models get [NAME].")
    parser.add_argument(
        "action", nargs="?", choices=("list", "get"), default="list", help="list or get (default: list)"
    )
    parser.add_argument("name", nargs="?", help="Model to download: qwen-coder-0.5b, qwen-coder-1.5b, or smollm2-135m")
    return add_common_options(parser)


def _tools() -> Parser:
    parser = _command_parser("tools", "List the built-in tools, or run one: tools call NAME 'JSON'.")
    parser.add_argument(
        "action", nargs="?", choices=("list", "call"), default="list", help="list or call (default: list)"
    )
    parser.add_argument("name", nargs="?", help="Tool to call")
    parser.add_argument(
        "arguments", nargs="?", help="Arguments of the tool as a JSON object; '-' reads them from stdin"
    )
    parser.add_argument("--json", action="store_true", help="Output JSON, including schemas")
    add_permission_options(parser, "your own calls are allowed; sensitive files require --allow")
    add_workspace_options(parser)
    return parser


def _sessions() -> Parser:
    parser = _command_parser("sessions", "Manage saved sessions.")
    actions = ("list", "show", "tree", "search", "name", "rm", "purge", "import")
    parser.add_argument(
        "action",
        nargs="?",
        choices=actions,
        default="list",
        help="list, show, tree, search, name, rm, purge, or import (default: list)",
    )
    parser.add_argument(
        "words",
        nargs="*",
        metavar="WHAT",
        help="Words to search for, a session ID or title, a new name (after the ID), or a file from `mainspring export` to import",
    )
    parser.add_argument("--all", action="store_true", help="Include sessions of all folders")
    parser.add_argument(
        "--keep",
        type=positive_int,
        default=50,
        metavar="N",
        help="Number of this folder's sessions that purge keeps (default: 50)",
    )
    return add_common_options(parser)


def _config() -> Parser:
    parser = _command_parser(
        "config",
        "Show, change, edit, and validate settings, and set up model providers.",
        """examples:
  mainspring config init                                     Prompt for a provider, a key, and a model, and test them
  mainspring config init openai --key - < key.txt            Set up a provider without prompts
  mainspring config show agent --all                         Show the settings of a section, including defaults
  mainspring config set agent.maxTurns 20                    Change your own settings
  mainspring config get agent.maxTurns                       Print one value, for scripts
  mainspring config set --project agent.maxCost 1            Change the project's settings
  mainspring config provider add mine --url http://10.0.0.5:8000/v1 --model qwen3-30b
  mainspring config validate""",
    )
    add = parser.add_argument
    actions = ("show", "get", "init", "set", "unset", "edit", "validate", "provider", "schema", "path")
    add(
        "action",
        nargs="?",
        choices=actions,
        default="show",
        metavar="ACTION",
        help=f"{', '.join(actions)} (default: show)",
    )
    add(
        "key",
        nargs="?",
        help="Setting, for example, agent.maxTurns (get, set, unset), or a section, for example, agent (show); provider (init); or list, add, or remove (provider)",
    )
    add(
        "value",
        nargs="?",
        help="Value to set, '-' reads it from stdin; name of the provider (provider add, provider remove)",
    )
    add(
        "--project",
        action="store_true",
        help="Change the project's settings (.agent/settings.json) instead of your own",
    )
    add("--origin", action="store_true", help="Show the origin of each value (always on)")
    add("--all", action="store_true", help="Show all settings, including those with default values")
    add("--strict", action="store_true", help="Treat unknown keys as errors (validate)")
    add("--json", action="store_true", help="Output JSON")
    group = parser.add_argument_group("init, provider add")
    group.add_argument(
        "--key",
        dest="key_value",
        metavar="KEY",
        help="API key; '-' reads it from stdin, which keeps it out of the shell history",
    )
    group.add_argument(
        "--key-command", metavar="COMMAND", help="Command that prints the API key, for example, 'pass show openai'"
    )
    group.add_argument("--key-file", metavar="FILE", help="File with the API key, readable only by you")
    group.add_argument("--keyring", action="store_true", help="Store the API key in the system keyring")
    group.add_argument("--url", metavar="URL", help="Base URL, for example, http://localhost:8000/v1")
    group.add_argument("--model", metavar="MODEL", help="Default model of the provider")
    group.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="Provider-specific setting")
    group.add_argument("--no-test", action="store_true", help="Do not test the connection")
    group.add_argument("--no-default", action="store_true", help="Do not make it the default provider")
    add_workspace_options(parser)
    return parser


def _export() -> Parser:
    parser = _command_parser(
        "export", "Export a session to a file: an HTML page, Markdown, or JSON lines that can be imported."
    )
    parser.add_argument(
        "session", nargs="?", help="Session ID, title, or file (default: the most recent session in this folder)"
    )
    parser.add_argument(
        "--format",
        choices=("html", "markdown", "jsonl"),
        help="Export format (default: from the file extension, or html)",
    )
    parser.add_argument(
        "-o",
        "--out",
        metavar="FILE",
        help="Output file; '-' writes to stdout (default: ID.html in the folder exports of ~/.agent)",
    )
    parser.add_argument("--force", action="store_true", help="Overwrite an existing file")
    add_workspace_options(parser)
    return parser


def _rewind() -> Parser:
    parser = _command_parser(
        "rewind", "Rewind a session to an earlier prompt, together with the files that its tools changed."
    )
    parser.add_argument(
        "session", nargs="?", help="Session ID or title (default: the most recent session in this folder)"
    )
    parser.add_argument("--list", action="store_true", help="List the points to rewind to")
    parser.add_argument("--to", default="1", metavar="N", help="Number of prompts to undo, or an entry ID (default: 1)")
    parser.add_argument("--undo", action="store_true", help="Undo the last rewind")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--files-only", action="store_true", help="Rewind only files, not the conversation")
    which.add_argument("--conversation-only", action="store_true", help="Rewind only the conversation, not files")
    parser.add_argument("--dry-run", action="store_true", help="Show what would change, without changing it")
    parser.add_argument(
        "--force",
        action="store_true",
        help="Overwrite files that were changed outside the session, and skip files that cannot be restored",
    )
    return add_common_options(parser)


def _trust() -> Parser:
    parser = _command_parser(
        "trust", "Trust a folder, so that its settings, hooks, extensions, MCP servers, skills, and memory take effect."
    )
    parser.add_argument("folder", nargs="?", metavar="DIR", help="Folder (default: the current folder)")
    parser.add_argument("--remove", action="store_true", help="Stop trusting the folder")
    parser.add_argument("--list", action="store_true", help="List the trusted folders")
    parser.add_argument(
        "--show", action="store_true", help="List what would run automatically in this folder, without trusting it"
    )
    parser.add_argument("--json", action="store_true", help="Output the list as JSON")
    add_workspace_options(parser)
    return parser


def _permissions() -> Parser:
    parser = _command_parser(
        "permissions", "Show, save, or revoke permission rules, or explain a decision about a tool call."
    )
    parser.add_argument(
        "action",
        nargs="?",
        choices=("list", "allow", "deny", "revoke", "explain"),
        default="list",
        help="list, allow, deny, revoke, or explain (default: list)",
    )
    parser.add_argument(
        "tool",
        nargs="?",
        metavar="RULE|NUMBER|TOOL",
        help="Rule (allow, deny); number or text of a saved rule (revoke); tool, for example, shell (explain)",
    )
    parser.add_argument(
        "arguments",
        nargs="?",
        help="Arguments to explain: JSON, or only the command, path, or URL; '-' reads them from stdin",
    )
    parser.add_argument("--global", dest="everywhere", action="store_true", help="Save the rule for every project")
    parser.add_argument("--json", action="store_true", help="Output JSON")
    add_permission_options(parser)
    add_workspace_options(parser)
    return parser


def _memory() -> Parser:
    parser = _command_parser("memory", "Show the notes that every session reads, or add one.")
    parser.add_argument(
        "action", nargs="?", choices=("show", "add", "path"), default="show", help="show, add, or path (default: show)"
    )
    parser.add_argument("note", nargs="?", help="Note to remember; '-' reads it from stdin")
    parser.add_argument("--user", action="store_true", help="Only your own memory, which sessions in every folder read")
    parser.add_argument(
        "--section",
        choices=("Preferences", "Context", "Learned Patterns"),
        default="Context",
        help="Section to add the note to (default: Context)",
    )
    return add_common_options(parser)


def _extensions() -> Parser:
    parser = _command_parser("extensions", "List extensions: Python files and packages that the agent loads.")
    parser.add_argument("action", nargs="?", choices=("list",), default="list", help="list (default: list)")
    return add_common_options(parser)


def _hooks() -> Parser:
    parser = _command_parser("hooks", "List the command hooks in the settings, or test them with a sample event.")
    parser.add_argument(
        "action", nargs="?", choices=("list", "test"), default="list", help="list or test (default: list)"
    )
    parser.add_argument("event", nargs="?", help="Event to test, for example, PreToolUse")
    parser.add_argument(
        "arguments", nargs="?", help="Arguments of the tool as a JSON object; '-' reads them from stdin"
    )
    parser.add_argument("--tool", metavar="NAME", help="Tool in the sample event (default: shell)")
    return add_common_options(parser)


class _McpParser(Parser):
    """Parser of ``mainspring mcp``; the arguments after ``--`` are the command of a server."""

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse the arguments before ``--``."""
        at = arguments.index("--") if "--" in arguments else len(arguments)
        options = super().read(arguments[:at])
        options.command = list(arguments[at + 1 :])
        return options


def _mcp() -> Parser:
    parser = _McpParser(
        "mainspring mcp",
        description="Manage MCP servers (Model Context Protocol): connections, tools, and token usage. See docs/mcp.md.",
        epilog="""examples:
  mainspring mcp                                        Connect to all servers and show the token usage of their tools
  mainspring mcp add files -- npx -y @modelcontextprotocol/server-filesystem .
  mainspring mcp add docs https://example.org/mcp --header 'Authorization: Bearer ${DOCS_TOKEN}'
  mainspring mcp add tracker --project --disclosure lazy --env 'KEY=${TRACKER_KEY}' -- tracker-server
  mainspring mcp test files
  mainspring mcp login docs""",
    )
    actions = ("list", "add", "remove", "test", "tools", "login", "logout", "logs")
    parser.add_argument(
        "action",
        nargs="?",
        choices=actions,
        default="list",
        help="list, add, remove, test, tools, login, logout, or logs (default: list)",
    )
    parser.add_argument("name", nargs="?", help="Server name; list and tools show all servers by default")
    parser.add_argument(
        "target", nargs="?", metavar="URL", help="URL of the server to add; for a program, use -- COMMAND ARGS..."
    )
    parser.add_argument(
        "--project", action="store_true", help="Use the project's .agent/mcp.json instead of your own (add, remove)"
    )
    parser.add_argument("--force", action="store_true", help="Replace a server with the same name (add)")
    parser.add_argument(
        "--transport", choices=("stdio", "http", "sse"), help="Transport, if it cannot be inferred (add)"
    )
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="Environment variable for the server; ${VAR} is expanded (add)",
    )
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="'NAME: VALUE'",
        help="HTTP header for the server; ${VAR} is expanded (add)",
    )
    parser.add_argument(
        "--disclosure",
        choices=("eager", "lazy", "auto"),
        help="Load tools immediately (eager), by search (lazy), or by search if all are large (auto) (add)",
    )
    parser.add_argument("--no-connect", action="store_true", help="Do not connect to the servers (list)")
    parser.add_argument("--no-browser", action="store_true", help="Print the URL instead of opening a browser (login)")
    parser.add_argument(
        "--lines", type=positive_int, default=50, metavar="N", help="Number of log lines to show (default: 50)"
    )
    return add_common_options(parser)


def _replay() -> Parser:
    parser = _command_parser("replay", "Decode recorded model traffic: replay traffic PATH...")
    parser.add_argument("action", choices=("traffic",), help="Type of recording")
    parser.add_argument("paths", nargs="+", metavar="PATH", help="Recordings, or folders of *.json recordings")
    parser.add_argument("--json", action="store_true", help="Output one JSON object per line")
    add_workspace_options(parser)
    return parser


def _login() -> Parser:
    parser = _command_parser("login", "Sign in to a provider that uses an account instead of an API key.")
    parser.add_argument(
        "provider", nargs="?", default="codex", help="Provider: codex, a ChatGPT account (default: codex)"
    )
    parser.add_argument("--no-browser", action="store_true", help="Print the URL instead of opening a browser")
    add_workspace_options(parser)
    return parser


def _logout() -> Parser:
    parser = _command_parser("logout", "Sign out of a provider and delete its tokens from this machine.")
    parser.add_argument("provider", nargs="?", default="codex", help="Provider to sign out of (default: codex)")
    add_workspace_options(parser)
    return parser


def _completion() -> Parser:
    parser = _command_parser(
        "completion",
        "Print a shell completion script for commands and options.",
        """to enable completion:
  bash   echo 'source <(mainspring completion bash)' >> ~/.bashrc
  zsh    echo 'source <(mainspring completion zsh)' >> ~/.zshrc
  fish   mainspring completion fish > ~/.config/fish/completions/mainspring.fish""",
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="Shell to generate the script for")
    add_workspace_options(parser)
    return parser


def _worktrees() -> Parser:
    parser = _command_parser(
        "worktrees",
        "List or remove git worktrees created by `mainspring --worktree NAME`. Uncommitted changes are only removed with --force.",
    )
    parser.add_argument(
        "action", nargs="?", choices=("list", "remove"), default="list", help="list or remove (default: list)"
    )
    parser.add_argument("name", nargs="?", help="Worktree to remove")
    parser.add_argument("--branch", action="store_true", help="Also delete the branch if it is fully merged (remove)")
    parser.add_argument("--ignored", action="store_true", help="Also delete files that git ignores (remove)")
    parser.add_argument("--force", action="store_true", help="Delete all files, including uncommitted changes (remove)")
    return add_common_options(parser)


def _commands() -> Parser:
    parser = _command_parser(
        "commands",
        'List or show custom commands, for example: mainspring -p "/review src". See docs/custom-commands.md.',
    )
    parser.add_argument(
        "action", nargs="?", choices=("list", "show"), default="list", help="list or show (default: list)"
    )
    parser.add_argument("name", nargs="?", help="Command to show")
    parser.add_argument(
        "arguments", nargs="*", help="Arguments of the command; its prompt is printed, and nothing is run"
    )
    return add_common_options(parser)


def _skills() -> Parser:
    parser = _command_parser(
        "skills",
        "Manage skills: instructions, scripts, and tools that the agent loads when a task needs them. See docs/skills.md.",
        """examples:
  mainspring skills                                          List skills and their problems
  mainspring skills install anthropics/skills --skill pdf    Show the content of a skill, and ask before installing it
  mainspring skills install https://example.org/team/skills.git#v1.2 --path review --yes
  mainspring skills install ./my-skill
  mainspring skills update                                   Show what changed, and ask before updating
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
        help="Skill name; files, folders, or names (validate); a folder, the URL of a repository, or OWNER/NAME on GitHub, with an "
        "optional #REF (install)",
    )
    add("--skill", action="append", default=[], metavar="NAME", help="Skill to install, if there are several")
    add("--all", action="store_true", help="Install all skills")
    add("--ref", default="", metavar="REF", help="Branch, tag, or commit to install")
    add("--path", default="", metavar="DIR", help="Folder in the repository to install from")
    add("--force", action="store_true", help="Overwrite skills that you wrote or changed (install, update)")
    add("-y", "--yes", action="store_true", help="Skip the confirmation prompt (install, update, remove)")
    add("--description", default="", metavar="TEXT", help="Description of the skill, and when to use it (new)")
    add("--scripts", action="store_true", help="Add a script to the skill (new)")
    add(
        "--project",
        action="store_true",
        help="Create the skill in the project (.agent/skills) instead of your own folder (new)",
    )
    return add_common_options(parser)


COMMANDS: dict[str, Callable[[], Parser]] = {
    "check": _check,
    "models": _complete_models,
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
    "serve": lazy_function("mainspring.app.cli.server_options", "build_serve_parser"),
    "worker": lazy_function("mainspring.app.cli.server_options", "build_worker_parser"),
    "runs": lazy_function("mainspring.app.cli.server_options", "build_runs_parser"),
}
"""The parser factory of each command. Each command has a module with its name in `mainspring.app.commands`, with ``run(options) -> int``."""
