"""``mainspring completion``: shell completion scripts, generated from the argument parsers."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

from msgspec import Struct

from mainspring.app.cli.arguments import COMMANDS, run_parser
from mainspring.app.cli.console import Console
from mainspring.app.cli.parser import Parser
from mainspring.app.cli.runner import run_command
from mainspring.models.catalog import load_catalog

_MODEL_METAVAR = "PROVIDER:MODEL"


class Option(Struct, frozen=True):
    """An option in a completion script.

    Attributes:
        names: Spellings of the option.
        help: Description on one line.
        takes: Whether a value follows.
        choices: Possible values; empty for files.
        optional: Whether the value can be omitted.
        is_model: Whether the value is a model with its provider.
    """

    names: tuple[str, ...]
    help: str
    takes: bool
    choices: tuple[str, ...] = ()
    optional: bool = False
    is_model: bool = False


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
        help = " ".join((action.help or "").split())
        is_optional = action.nargs == "?"
        is_model = action.metavar == _MODEL_METAVAR
        options.append(Option(tuple(action.option_strings), help, action.nargs != 0, choices, is_optional, is_model))
    return CommandSpec((parser.description or "").strip().splitlines()[0], actions, tuple(options))


def _all_commands() -> Iterator[tuple[str, CommandSpec]]:
    for name, make in COMMANDS.items():
        yield name, read_command_spec(make())


def _models() -> str:
    """Return the models of the catalog, separated by spaces."""
    return " ".join(f"{entry.provider}:{entry.id}" for entry in load_catalog().models)


def bash() -> str:
    """Generate the script for bash."""
    run_words = read_command_spec(run_parser())
    with_models = [name for name, words in _all_commands() if any(option.is_model for option in words.options)]
    commands_with_models = ["-", *with_models]  # the dash: no command
    lines = [
        "# completion of mainspring for bash",
        "_mainspring() {",
        "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command= words=",
        '  [[ $cur == "=" ]] && cur=',  # bash splits --output=json into three words
        '  [[ $prev == "=" ]] && prev=${COMP_WORDS[COMP_CWORD-2]}',
        "  [[ $COMP_CWORD -gt 1 && ${COMP_WORDS[1]} != -* ]] && command=${COMP_WORDS[1]}",
        # bash splits a model at its colon and replaces only the last part
        "  local line=${COMP_LINE:0:COMP_POINT}",
        f"  local with_models=' {' '.join(commands_with_models)} '",
        '  if [[ $with_models == *" ${command:--} "* && $line =~ --model[\\ =]+([^\\ ]*)$ ]]; then',
        "    cur=${BASH_REMATCH[1]}",
        f"    COMPREPLY=($(compgen -W '{_models()}' -- \"$cur\"))",
        '    [[ $cur == *:* && $COMP_WORDBREAKS == *:* ]] && COMPREPLY=("${COMPREPLY[@]#"${cur%:*}:"}")',
        "    return",
        "  fi",
        "  case $prev in",
    ]
    seen: set[str] = set()
    free: set[str] = set()
    for _, words in (("", run_words), *_all_commands()):
        for option in words.options:
            free |= set(option.names) if option.takes and not option.optional and not option.choices else set()
            pattern = "|".join(name for name in option.names if name not in seen)
            if option.choices and pattern:
                seen.update(option.names)
                lines.append(
                    f'    {pattern}) COMPREPLY=($(compgen -W "{" ".join(option.choices)}" -- "$cur")); return ;;'
                )
    if values := sorted(free - seen):
        lines.append(f"    {'|'.join(values)}) COMPREPLY=(); return ;;")  # names of files, by -o default
    lines += ["  esac", "  case $command in"]
    for name, words in _all_commands():
        lines.append(f'    {name}) words="{" ".join([*words.actions, *_option_names(words)])}" ;;')
    lines += [
        f'    *) words="{" ".join([*_option_names(run_words), *COMMANDS])}" ;;',
        "  esac",
        '  COMPREPLY=($(compgen -W "$words" -- "$cur"))',
        "}",
        "complete -o default -F _mainspring mainspring",
    ]
    return "\n".join(lines) + "\n"


def zsh() -> str:
    """Generate the script for zsh."""
    lines = ["#compdef mainspring", "# completion of mainspring for zsh", "_mainspring_models() {"]
    lines += [f"  local -a models=({_models()})", "  compadd -a models", "}", "_mainspring() {", "  local -a commands"]
    lines.append("  commands=(")
    lines += [f"    {_quoted(f'{name}:{words.about}')}" for name, words in _all_commands()]
    lines += ["  )", "  if (( CURRENT > 2 )) && [[ ${words[2]} != -* ]]; then", "    case ${words[2]} in"]
    for name, words in _all_commands():
        lines.append(f"      {name}) shift words; (( CURRENT-- )); _arguments {' '.join(_zsh(words))} ;;")
    run_words = read_command_spec(run_parser())
    lines += [
        "    esac",
        "  elif (( CURRENT == 2 )) && [[ ${words[2]} != -* ]]; then",
        "    _describe command commands",
        "  else",
        f"    _arguments {' '.join(_zsh(run_words))}",
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
    if words.actions:
        yield _quoted(f"1:action:({' '.join(words.actions)})")
    yield "'*:file:_files'"
    for option in words.options:
        for name in option.names:
            values = f"({' '.join(option.choices)})" if option.choices else "_files"
            value = f":value:{'_mainspring_models' if option.is_model else values}" if option.takes else ""
            help_text = option.help.replace("[", "(").replace("]", ")").replace(":", " -")
            equals = "=" if value and name.startswith("--") and not option.optional else ""
            yield _quoted(f"{name}{equals}[{help_text}]{value}")


def fish() -> str:
    """Generate the script for fish."""
    lines = ["# completion of mainspring for fish"]
    lines += ["function __mainspring_models", rf"  printf '%s\n' {_models()}", "end"]
    alone = f"not __fish_seen_subcommand_from {' '.join(COMMANDS)}"
    for name, words in _all_commands():
        lines.append(f"complete -c mainspring -f -n '{alone}' -a {name} -d {_quoted(words.about)}")
        inside = f"__fish_seen_subcommand_from {name}"
        if words.actions:
            actions = " ".join(words.actions)
            first = f"{inside}; and not __fish_seen_subcommand_from {actions}"
            lines.append(f"complete -c mainspring -f -n '{first}' -a {_quoted(actions)}")
        lines += [_fish(option, inside) for option in words.options]
    lines += [_fish(option, alone) for option in read_command_spec(run_parser()).options]
    return "\n".join(lines) + "\n"


def _fish(option: Option, condition: str) -> str:
    spelled = " ".join(f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names)
    offered = "(__mainspring_models)" if option.is_model else " ".join(option.choices)
    values = f" -x -a {_quoted(offered)}" if offered else " -r" if option.takes else ""
    return f"complete -c mainspring -n '{condition}' {spelled}{values} -d {_quoted(option.help)}"


def _option_names(words: CommandSpec) -> list[str]:
    return [name for option in words.options for name in option.names if name.startswith("--")]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


_SCRIPTS: dict[str, Callable[[], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
