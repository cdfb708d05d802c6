"""Write the tables of options in the docs, the schema of the settings, and the flags: `python -m scripts.make_option_pages`.

All are derived from the options that the policies declare. A test compares them with the code.
"""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from msgspec import UNSET, Struct

from mainspring.app.workspace.settings.json_schema import settings_schema
from mainspring.app.workspace.settings.load import variable_name
from mainspring.app.workspace.settings.schema import agent_key, iter_agent_settings
from mainspring.options import AgentSetting, OptionSpec
from mainspring.run_options import RunOptions

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
FLAGS = ROOT / "src" / "mainspring" / "app" / "cli" / "agent_flags.py"
FLAGS_HEAD = '''"""The flags for settings of the agent. `python -m scripts.make_option_pages` writes this file from the options of a run.

A module without imports of policies, so that ``--help`` is fast.
"""

from __future__ import annotations

from mainspring.app.cli.parser import AgentFlag, positive_float, positive_int

AGENT_FLAGS = (
'''


def replace_rows(page: str, start: str, rows: Iterable[str]) -> str:
    """Replace the lines that begin with a pattern, which follow each other, by rows."""
    block = re.compile(rf"^(?:{start}.*\n)+", re.MULTILINE)
    if len(block.findall(page)) != 1:
        raise ValueError(f"the page must have one table with rows that begin with {start!r}")
    return block.sub(lambda _: "".join([f"{row}\n" for row in rows]), page)


def describe_default(value: Any) -> str:
    """Return a default for a table."""
    if value is None or value in ((), {}):
        return "none"
    if isinstance(value, str | bool):
        return f"`{json.dumps(value)}`"
    return f"`{type(value).__name__}()`" if isinstance(value, Struct) else f"`{value:g}`"


def command_default(option: OptionSpec, setting: AgentSetting) -> Any:
    """Return the default of the command; None for none."""
    return option.default if setting.default is UNSET else setting.default


def option_rows() -> Iterator[str]:
    """Return the rows of all options of a run."""
    for name, option in RunOptions.declared.items():
        page = option.owner.page.removeprefix("run-options.md") if option.owner is not None else ""
        effect = option.doc + (f" [More]({page})." if page else "")
        if option.setting is not None and option.setting.default is not UNSET:
            effect += f" The command sets {describe_default(option.setting.default).strip('`')}."
        yield f"| `{name}` | {describe_default(option.default)} | {effect.replace('|', chr(92) + '|')} |"


def setting_rows() -> Iterator[str]:
    """Return the rows of the settings of the agent."""
    for name, option, setting in iter_agent_settings():
        doc = setting.doc or option.doc.rstrip(".")
        if get_origin(option.kind) is Literal:
            doc += ": " + ", ".join([f"`{choice}`" for choice in get_args(option.kind)])
        default = command_default(option, setting)
        key = agent_key(name, setting)
        names = ", ".join([f"`{each}`" for each in (setting.flag, variable_name(key)) if each])
        yield f"| `agent.{key}` | {doc}{'' if default is None else f'; default {describe_default(default)}'} ({names}) |"


def flag_rows() -> Iterator[str]:
    """Return the rows of the flags that limit a run."""
    for _, option, setting in iter_agent_settings():
        if setting.flag and option.kind in (int, float):
            default = command_default(option, setting)
            yield f"| `{setting.flag} {setting.metavar}` | {setting.doc} | {'none' if default is None else default} |"


def flag_entries() -> Iterator[str]:
    """Return the code of all flags."""
    for name, option, setting in iter_agent_settings():
        if not setting.flag:
            continue
        help_text, kind, default = setting.doc, "", command_default(option, setting)
        if get_origin(option.kind) is Literal:
            choices = get_args(option.kind)
            help_text += f": {', '.join(choices[:-1])}, or {choices[-1]}"
            kind = f"choices={choices!r}".replace("'", '"')
        elif option.kind is bool:
            kind = "kind=bool"
        else:
            kind = f"kind={'positive_int' if option.kind is int else 'positive_float'}"
        if default is not None:
            help_text += f" (default: {('off', 'on')[default] if option.kind is bool else default})"
        lines = (setting.flag, agent_key(name, setting), setting.metavar, help_text)
        yield "    AgentFlag(\n" + "".join([f'        "{line}",\n' for line in lines]) + f"        {kind},\n    ),\n"


def build() -> dict[Path, str]:
    """Return the text of each file."""

    def page(name: str, start: str, rows: Iterable[str]) -> tuple[Path, str]:
        path = DOCS / name
        return path, replace_rows(path.read_text(encoding="utf-8"), start, rows)

    setting = r"\| `agent\.(?!systemPrompt)"
    options = "|".join(RunOptions.declared)
    return {
        FLAGS: FLAGS_HEAD + "".join(flag_entries()) + ")\n",
        DOCS / "settings.schema.json": settings_schema(),
        **dict(
            [
                page("run-options.md", rf"\| `(?:{options})`", option_rows()),
                page("settings.md", setting, setting_rows()),
                page("command-line.md", r"\| `--max-(?!r)", flag_rows()),
            ]
        ),
    }


if __name__ == "__main__":
    for file, text in build().items():
        file.write_text(text, encoding="utf-8")
