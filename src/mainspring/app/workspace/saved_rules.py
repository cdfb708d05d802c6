"""Rules that the user saved while working: for one project in the grants file, for every project in the user's settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

from mainspring.app.workspace.grants import GrantEffect, GrantStore
from mainspring.app.workspace.paths import UserPaths
from mainspring.app.workspace.settings import parse_settings
from mainspring.app.workspace.settings.jsonc import JsonError, edit
from mainspring.errors import ConfigError
from mainspring.locks import LockTimeoutError, lock_directory
from mainspring.permissions import Rule, RuleSource, is_portable, parse_rule, relative_program
from mainspring.state_files import write_text_atomically

T = TypeVar("T")

Reach = Literal["project", "everywhere"]
"""Where a saved rule applies: in one project, or in every project."""

REACHES: dict[Reach, str] = {"everywhere": "every project", "project": "this project"}
"""The names of the reaches, for people."""


class RuleFiles(Struct, frozen=True):
    """The files in which the user's rules are saved, for one project.

    Attributes:
        home: The user's folder.
        folder: The project's folder.
    """

    home: UserPaths | None
    folder: str

    def parse(self, reach: Reach, effect: GrantEffect, texts: tuple[str, ...]) -> tuple[Rule, ...]:
        """Return rules as they apply once they are saved.

        Raises:
            ConfigError: If a rule is not valid, or names a file of one project and should apply in every project.
        """
        place = GrantStore(self.home).place(self.folder)
        if reach == "everywhere":
            place = f"{self.home.settings if self.home else ''}: permissions.{effect}"
        rules = tuple([parse_rule(text, effect, RuleSource("user", place)) for text in texts])
        for rule in rules if reach == "everywhere" and effect == "allow" else ():
            if not is_portable(rule):
                name = relative_program(rule) or rule.pattern
                raise ConfigError(
                    f"{rule.text!r} cannot be allowed in every project: {name} is another file in each project. Allow the "
                    "rule in this project, or name the file by its absolute path."
                )
        return rules

    def save(self, reach: Reach, effect: GrantEffect, texts: tuple[str, ...]) -> Path:
        """Save rules, either all or none, and return the file. Blocks.

        Raises:
            ConfigError: If a rule is not valid, or the file cannot be read or written.
        """
        self.parse(reach, effect, texts)
        if reach == "project":
            return GrantStore(self.home).add(self.folder, effect, texts)
        return self._change_settings(effect, lambda known: list(dict.fromkeys([*known, *texts])))

    def reach_of(self, rule: Rule) -> Reach | None:
        """Return where a rule in force applies, or None if it is not one that `save` saves: of a flag, or of the project's settings."""
        if rule.effect == "ask" or self.home is None or rule.origin.kind != "user":
            return None
        if rule.origin.place == GrantStore(self.home).place(self.folder):
            return "project"
        return "everywhere" if rule.origin.place.startswith(f"{self.home.settings}: ") else None

    def file(self, rule: Rule) -> Path | None:
        """Return the file that stores a saved rule."""
        if self.home is None:
            return None
        return GrantStore(self.home).file if self.reach_of(rule) == "project" else self.home.settings

    def remove(self, rule: Rule) -> Path:
        """Remove a saved rule from its file, and return the file. Blocks.

        Raises:
            ConfigError: If it is not a saved rule, or the file cannot be read or written.
        """
        reach = self.reach_of(rule)
        if reach is None or rule.effect == "ask":
            raise ConfigError(f"{rule.text!r} is not a saved rule. Remove it where it is stored: {rule.origin}.")
        if reach == "project":
            return GrantStore(self.home).remove(self.folder, rule.effect, rule.text)
        return self._change_settings(rule.effect, lambda known: [text for text in known if text != rule.text])

    def named(self, rules: Iterable[Rule], wanted: str) -> Rule:
        """Return the saved rule of a number, counted from 1 in `saved`, or of a text.

        Raises:
            ConfigError: If no saved rule has it, or several have the text.
        """
        saved = self.saved(rules)
        return pick(wanted, [rule.text for rule in saved], saved)

    def saved(self, rules: Iterable[Rule]) -> list[Rule]:
        """Return the saved ones of some rules: those for every project, then those for this one."""
        known = {(self.reach_of(rule), rule.effect, rule.text): rule for rule in rules}
        return [rule for reach in REACHES for (found, _, _), rule in known.items() if found == reach]

    def same(self, rule: Rule, rules: Iterable[Rule]) -> list[Rule]:
        """Return those of some rules that say the same as one, and apply in the same projects."""
        wanted = (self.reach_of(rule), rule.effect, rule.text)
        return [each for each in rules if (self.reach_of(each), each.effect, each.text) == wanted]

    def _change_settings(self, effect: GrantEffect, change: Callable[[list[str]], list[str]]) -> Path:
        """Change a list of rules in the user's settings; everything else in the file stays."""
        if self.home is None:
            raise ConfigError("Cannot find your home directory. Set MAINSPRING_HOME.")
        file = Path(self.home.settings).resolve()
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with lock_directory(file.parent):  # read and written under one lock: two chats may save at the same time
                text = file.read_text(encoding="utf-8-sig") if file.exists() else "{\n}\n"
                known = list(parse_settings(text, str(file)).values.get(("permissions", effect), ()))
                wanted = change(known)
                if wanted != known:
                    made = edit(text, ("permissions", effect), msgspec.json.encode(wanted).decode())
                    parse_settings(made, str(file))
                    write_text_atomically(file, made, private=True)
        except LockTimeoutError as error:
            raise ConfigError(str(error)) from None
        except JsonError as error:
            raise ConfigError(f"{file}:{error.line}:{error.column}: {error.reason}") from None
        except OSError as error:
            raise ConfigError(f"Cannot write {file}: {error.strerror or error}.") from error
        return file


def pick(wanted: str, texts: Sequence[str], values: Sequence[T]) -> T:
    """Return the value of a number, counted from 1, or of a text.

    Raises:
        ConfigError: If no value has it, or several have the text.
    """
    wanted = wanted.strip()
    if wanted.isdecimal() and len(wanted) < 7 and 0 < int(wanted) <= len(values):
        return values[int(wanted) - 1]
    found = [value for text, value in zip(texts, values, strict=True) if text == wanted]
    if len(found) == 1:
        return found[0]
    if found:
        numbers = ", ".join(str(i) for i, text in enumerate(texts, 1) if text == wanted)
        raise ConfigError(f"{wanted!r} is granted more than once. Give its number: {numbers}.")
    raise ConfigError(f"Nothing is granted as {wanted!r}. List what is granted with: mainspring permissions")
