"""``mainspring completion``: shell completion scripts, generated from the argument parsers.

Each script contains a function ``_mainspring_values KIND``, which prints values, one per line: names that are known now, or the output
of a command for those that the user creates, such as sessions. A second function, ``_mainspring_arguments``, selects the kind of the next
argument from the command and the arguments before it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from mainspring.app.cli.action_arguments import ACTION_ARGUMENTS
from mainspring.app.cli.arguments import COMMANDS, run_parser
from mainspring.app.cli.console import Console
from mainspring.app.cli.parser import Parser
from mainspring.app.cli.runner import run_command
from mainspring.app.workspace.settings.validation import allowed_values, iter_settings
from mainspring.extensions.command_hooks import COMMAND_EVENTS
from mainspring.models.catalog import load_catalog
from mainspring.models.embedded.weights import WEIGHTS
from mainspring.models.provider_table import PROVIDERS
from mainspring.tools.builtin import builtin_tools

_MODEL_METAVAR = "PROVIDER:MODEL"
_OPTION_KINDS = {
    "--provider": "provider",
    "--session": "session",
    "--session-id": "session",
    "--tool": "tool",
    "--tools": "tool",
    "--allow": "tool",
    "--ask": "tool",
    "--deny": "tool",
    "--worktree": "worktree",
}
_LISTS = {
    "session": "mainspring sessions list",
    "server": "mainspring mcp list --no-connect",
    "skill": "mainspring skills list",
    "command": "mainspring commands list",
    "worktree": "mainspring worktrees list",
    "run": "mainspring runs list",
}
"""The commands that list the values of a kind, one per line. A leading ``/`` of a custom command and the state of a server are removed."""
_FIRST_WORD = "sed -E 's/^(off)? +//; s/ .*//; s|^/||'"


class Option(Struct, frozen=True):
    """An option in a completion script.

    Attributes:
        names: Spellings of the option.
        help: Description on one line.
        takes: Whether a value follows.
        choices: Possible values; empty for files.
        optional: Whether the value can be omitted.
        kind: Kind of the value, for ``_mainspring_values``; empty if `choices` lists all values, or it is a file.
    """

    names: tuple[str, ...]
    help: str
    takes: bool
    choices: tuple[str, ...] = ()
    optional: bool = False
    kind: str = ""


class CommandSpec(Struct, frozen=True):
    """Completions for a command.

    Attributes:
        about: Description of the command.
        actions: Possible first arguments.
        options: Options of the command.
    """

    about: str
    actions: tuple[str, ...]
    options: tuple[Option, ...]


def run(options: argparse.Namespace) -> int:
    """Print the script, and return the exit code."""

    def work(console: Console) -> int:
        console.answer(_SCRIPTS[options.shell]())
        return 0

    return run_command(options, work)


def read_command_spec(parser: Parser) -> CommandSpec:
    """Create the completions of a command from its parser."""
    options: list[Option] = []
    actions: tuple[str, ...] = ()
    for action in parser.arguments:
        choices = tuple(map(str, action.choices or ()))
        if not action.option_strings:
            actions = actions or choices
            continue
        names = tuple(action.option_strings)
        kind = next((_OPTION_KINDS[name] for name in names if name in _OPTION_KINDS and action.nargs != 0), "")
        kind = "model" if action.metavar == _MODEL_METAVAR else kind
        help = " ".join((action.help or "").split())
        options.append(Option(names, help, action.nargs != 0, choices, action.nargs == "?", kind))
    return CommandSpec((parser.description or "").strip().splitlines()[0], actions, tuple(options))


def _all_commands() -> Iterator[tuple[str, CommandSpec]]:
    for name, make in COMMANDS.items():
        yield name, read_command_spec(make())


def _known_values() -> dict[str, list[str]]:
    """Return the values of each kind that are known now."""
    names = [".".join(path) for path, _ in iter_settings()]
    return {
        "model": [f"{entry.provider}:{entry.id}" for entry in load_catalog().models if entry.provider in PROVIDERS],
        "provider": list(PROVIDERS),
        "provider-action": ["list", "add", "remove"],
        "setting": names,
        "tool": [tool.name for tool in builtin_tools(include_optional=True)],
        "weights": list(WEIGHTS),
        "event": list(COMMAND_EVENTS),
        "login": ["codex"],
        "shell": list(_SCRIPTS),
        "commands": list(COMMANDS),
    }


def _setting_values() -> Iterator[tuple[str, list[str]]]:
    """Return the settings that have a few possible values, with these."""
    for path, kind in iter_settings():
        if values := allowed_values(kind) or (("true", "false") if kind in (bool, bool | None) else ()):
            yield ".".join(path), list(values)


def _arguments(specs: Mapping[str, CommandSpec], third: str) -> Iterator[tuple[str, str]]:
    """Return patterns of "COUNT COMMAND ARGUMENTS...", the words before the cursor, each with the kind of the next argument.

    Args:
        specs: Completions of all commands.
        third: The third word before the cursor, in the language of the shell.
    """
    for command, actions in ACTION_ARGUMENTS.items():
        if specs[command].actions and "" not in actions:
            yield f"1 {command}", f"actions {command}"
        for action, kinds in actions.items():
            for number, kind in enumerate(kinds, 2 if action else 1):
                words = f"{command} {action}".rstrip() + (" *" if number > (2 if action else 1) else "")
                if kind == "value":
                    yield f"{number} {words}", f"{kind} {third}"
                elif kind.islower():
                    yield (f"* {words}*" if kind.endswith("...") else f"{number} {words}"), kind.removesuffix("...")


def _shell_functions() -> list[str]:
    """Return the two functions for bash and zsh."""
    specs = dict(_all_commands())
    lines = ["_mainspring_values() {", "  case $1 in"]
    lines += [f"    {kind}) {command} 2>/dev/null | {_FIRST_WORD} ;;" for kind, command in _LISTS.items()]
    lines += [f"    {kind}) {_print_lines(values)} ;;" for kind, values in _known_values().items()]
    lines += ["    actions) case $2 in"]
    lines += [f"      {name}) {_print_lines(spec.actions)} ;;" for name, spec in specs.items() if spec.actions]
    lines += ["    esac ;;", "    value) case $2 in", "      model) _mainspring_values model ;;"]
    lines += [f"      {name}) {_print_lines(values)} ;;" for name, values in _setting_values()]
    lines += ["    esac ;;", "  esac", "}"]
    lines += ["# prints nothing for names of files, and fails if no argument is known", "_mainspring_arguments() {"]
    lines += ["  local IFS=' '", '  case "$# $*" in']
    for pattern, kind in _arguments(specs, '"$3"'):
        quoted = pattern.replace(" ", "\\ ")
        lines.append(f"    {quoted}) _mainspring_values {kind} ;;")
    return [*lines, "    *) return 1 ;;", "  esac", "}"]


def _print_lines(values: list[str] | tuple[str, ...]) -> str:
    return f"printf '%s\\n' {' '.join(map(_escaped, values))}"


def bash() -> str:
    """Generate the script for bash."""
    run_words = read_command_spec(run_parser())
    commands = dict(_all_commands())
    with_models = ["-", *[name for name, words in commands.items() if any(o.kind == "model" for o in words.options)]]
    takes = sorted({n for words in commands.values() for o in words.options if o.takes for n in o.names})
    lines = [
        "# completion of mainspring for bash",
        *_shell_functions(),
        "_mainspring_offer() {",  # `compgen -W` would expand the words, so names of servers and worktrees could run commands
        "  local word",
        "  COMPREPLY=()",
        "  while IFS= read -r word; do",
        '    [[ -n $word ]] && printf -v word %q "$word" && [[ $word == "$cur"* ]] && COMPREPLY+=("$word")',
        '  done <<< "$1"',
        "}",
        "_mainspring() {",
        "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command= words= i IFS=$'\\n'",
        "  local -a given=()",
        '  [[ $cur == "=" ]] && cur=',  # bash splits --output=json into three words
        '  [[ $prev == "=" ]] && prev=${COMP_WORDS[COMP_CWORD-2]}',
        "  [[ $COMP_CWORD -gt 1 && ${COMP_WORDS[1]} != -* ]] && command=${COMP_WORDS[1]}",
        "  for ((i = 2; i < COMP_CWORD; i++)); do",  # the arguments before the cursor, without options and their values
        "    case ${COMP_WORDS[i]} in",
        f'      {"|".join(takes)}) [[ ${{COMP_WORDS[i+1]}} == "=" ]] && ((i++)); ((i++)) ;;',
        '      -*|"=") ;;',
        '      *) given+=("${COMP_WORDS[i]}") ;;',
        "    esac",
        "  done",
        # bash splits a model at its colon and replaces only the last part
        "  local line=${COMP_LINE:0:COMP_POINT}",
        f"  local with_models=' {' '.join(with_models)} '",
        "  if [[ $line =~ \\ config\\ set\\ model\\ +([^\\ ]*)$ ]] ||",
        '    { [[ $with_models == *" ${command:--} "* ]] && [[ $line =~ --model[\\ =]+([^\\ ]*)$ ]]; }; then',
        "    cur=${BASH_REMATCH[1]}",
        '    _mainspring_offer "$(_mainspring_values model)"',
        '    [[ $cur == *:* && $COMP_WORDBREAKS == *:* ]] && COMPREPLY=("${COMPREPLY[@]#"${cur%:*}:"}")',
        "    return",
        "  fi",
        '  [[ $cur == -* ]] || case "${command:+-} $prev" in',
    ]
    seen: set[str] = set()
    for scope, words in (("", run_words), *[("-", words) for words in commands.values()]):
        for option in words.options:
            names = [name for name in option.names if f"{scope} {name}" not in seen]
            if not option.takes or not names:
                continue
            seen.update(f"{scope} {name}" for name in names)
            pattern = "|".join(f'"{scope} {name}"' for name in names)
            if option.choices or option.kind not in ("", "model"):  # models: see above
                values = _print_lines(option.choices) if option.choices else f"_mainspring_values {option.kind}"
                lines.append(f'    {pattern}) _mainspring_offer "$({values})"; return ;;')
            elif not option.optional:
                lines.append(f"    {pattern}) COMPREPLY=(); return ;;")  # names of files, by -o default
    lines += ["  esac", '  if [[ $cur != -* ]] && words=$(_mainspring_arguments "$command" "${given[@]}"); then :']
    lines += ["  elif [[ -z $command && $cur != -* ]]; then words=$(_mainspring_values commands)"]
    lines += ["  else case $command in"]
    for name, words in commands.items():
        lines.append(f"    {name}) words=$({_print_lines(_option_names(words))}) ;;")
    lines += [f"    *) words=$({_print_lines(_option_names(run_words))}) ;;", "  esac; fi"]
    lines += ['  _mainspring_offer "$words"', "}", "complete -o default -F _mainspring mainspring"]
    return "\n".join(lines) + "\n"


def zsh() -> str:
    """Generate the script for zsh."""
    commands = dict(_all_commands())
    lines = ["#compdef mainspring", "# completion of mainspring for zsh", *_shell_functions()]
    lines += ["_mainspring_offer() {", '  compadd -- ${(f)"$(_mainspring_values "$@")"}', "}"]
    lines += ["_mainspring_next() {", "  local values"]  # `_arguments` reduces `words` to the arguments
    lines += ['  values=$(_mainspring_arguments "$1" ${words[1,CURRENT-1]}) || return']
    lines += ["  if [[ -n $values ]]; then compadd -- ${(f)values}; else _files; fi", "}"]
    lines += ["_mainspring() {", "  local -a commands", "  commands=("]
    lines += [f"    {_quoted(f'{name}:{words.about}')}" for name, words in commands.items()]
    lines += ["  )", "  if (( CURRENT > 2 )) && [[ ${words[2]} != -* ]]; then", "    case ${words[2]} in"]
    for name, words in commands.items():
        arguments = f"'*:::argument: _mainspring_next {name}' {' '.join(_zsh(words))}"
        lines.append(f"      {name}) shift words; (( CURRENT-- )); _arguments {arguments} ;;")
    run_words = read_command_spec(run_parser())
    lines += [
        "    esac",
        "  elif (( CURRENT == 2 )) && [[ ${words[2]} != -* ]]; then",
        "    _describe command commands",
        "  else",
        f"    _arguments '*:file:_files' {' '.join(_zsh(run_words))}",
        "  fi",
        "}",
        "if [[ ${funcstack[1]} == _mainspring ]]; then",  # in a file of $fpath, which zsh runs on first use
        '  _mainspring "$@"',
        "else",
        "  compdef _mainspring mainspring",
        "fi",
    ]
    return "\n".join(lines) + "\n"


def _zsh(words: CommandSpec) -> Iterator[str]:
    for option in words.options:
        for name in option.names:
            values = f"({' '.join(map(_escaped, option.choices))})" if option.choices else "_files"
            value = f":value:{f' _mainspring_offer {option.kind}' if option.kind else values}" if option.takes else ""
            help_text = option.help.replace("[", "(").replace("]", ")").replace(":", " -")
            equals = "=" if value and name.startswith("--") and not option.optional else ""
            yield _quoted(f"{name}{equals}[{help_text}]{value}")


def fish() -> str:
    """Generate the script for fish."""
    specs = dict(_all_commands())
    lines = ["# completion of mainspring for fish", "function _mainspring_values", "  switch $argv[1]"]
    lines += [f"    case {kind}; {command} 2>/dev/null | {_FIRST_WORD}" for kind, command in _LISTS.items()]
    lines += ["    case file; __fish_complete_path (commandline -ct)"]
    lines += ["    case folder; __fish_complete_directories (commandline -ct)"]
    lines += [f"    case {kind}; {_print_lines(values)}" for kind, values in _known_values().items()]
    lines += ["    case actions; switch $argv[2]"]
    lines += [f"      case {name}; {_print_lines(spec.actions)}" for name, spec in specs.items() if spec.actions]
    lines += ["    end", "    case value; switch $argv[2]", "      case model; _mainspring_values model"]
    lines += [f"      case {name}; {_print_lines(values)}" for name, values in _setting_values()]
    lines += ["    end", "  end", "end", "function _mainspring_arguments"]
    takes = sorted({n for words in specs.values() for o in words.options if o.takes for n in o.names})
    lines += ["  set -l given", "  set -l skip 0", "  for word in (commandline -opc)[2..-1]"]
    lines += ["    if test $skip = 1; set skip 0; continue; end"]
    lines += [f"    switch $word; case {' '.join(takes)}; set skip 1; case '-*'; case '*'; set -a given $word; end"]
    lines += ["  end", "  set -l line (count $given) $given", '  switch "$line"']
    for pattern, kind in _arguments(specs, "$given[3]"):
        lines.append(f"    case '{pattern}'; _mainspring_values {kind}")
    lines += ["  end", "end"]
    alone = f"not __fish_seen_subcommand_from {' '.join(COMMANDS)}"
    lines.append(
        "complete -c mainspring -f -n '__fish_seen_subcommand_from "
        + " ".join(COMMANDS)
        + "' -a '(_mainspring_arguments)'"
    )
    for name, words in specs.items():
        lines.append(f"complete -c mainspring -f -n '{alone}' -a {name} -d {_quoted(words.about)}")
        lines += [_fish(option, f"__fish_seen_subcommand_from {name}") for option in words.options]
    lines += [_fish(option, alone) for option in read_command_spec(run_parser()).options]
    return "\n".join(lines) + "\n"


def _fish(option: Option, condition: str) -> str:
    spelled = " ".join(f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names)
    offered = f"(_mainspring_values {option.kind})" if option.kind else " ".join(map(_escaped, option.choices))
    values = f" -x -a {_quoted(offered)}" if offered else " -r" if option.takes else ""
    return f"complete -c mainspring -n '{condition}' {spelled}{values} -d {_quoted(option.help)}"


def _option_names(words: CommandSpec) -> list[str]:
    return [name for option in words.options for name in option.names if name.startswith("--")]


def _escaped(text: str) -> str:
    return text.replace(" ", "\\ ")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


_SCRIPTS: dict[str, Callable[[], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
