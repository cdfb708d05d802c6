"""Decide about a command line: its commands, its redirections, and the files they touch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from itertools import chain

from msgspec.structs import replace

from mainspring.env.protocol import check_in_thread
from mainspring.lazy import lazy_re
from mainspring.permissions import suggestions
from mainspring.permissions.command_patterns import compile_command_pattern
from mainspring.permissions.decisions import FREE_REASON, READONLY_REASON, PermissionOutcome, Verdict
from mainspring.permissions.git_history import find_program_of_settings
from mainspring.permissions.git_repository import neutral_environment
from mainspring.permissions.line_files import (
    LineFiles,
    find_file_reads,
    find_possible_reads,
    find_read_folders,
    follow_links,
)
from mainspring.permissions.path_checker import NO_GRANT, FileGrant, GrantKey, PathChecker, PermissionMode
from mainspring.permissions.path_patterns import PathPattern
from mainspring.permissions.paths import ResolvedPath, ResolvesPaths, find_escapes, spell_word
from mainspring.permissions.programs import find_project_program, search_path_outside
from mainspring.permissions.recursive_reads import RecursiveReadChecker, find_refused_changes
from mainspring.permissions.rule_matcher import RuleMatch, RuleMatcher
from mainspring.permissions.rules import PermissionRule
from mainspring.shell_analysis import wildcards
from mainspring.shell_analysis.commands import AnalyzedLine
from mainspring.shell_analysis.file_reads import FileReads
from mainspring.shell_analysis.programs import words_like_options
from mainspring.shell_analysis.references import hosts_in_command, paths_in_code, paths_in_command
from mainspring.shell_analysis.syntax import AnalyzedCommand, Redirect, Word, program_name
from mainspring.text import escape_invisible

MAX_TRACKED_CWDS = 4

MAX_RAW_WORDS = 30_000
"""Maximum number of words that are compared with rules if the line cannot be parsed.

Such a line needs approval in any case.
"""

_USES_CHANGED_FILES = "it uses files that another command of the line may create or replace, for example, with a link; run it as separate commands"
_UNKNOWN_MATCHES = "the files that its wildcards match are unknown"

_QUOTES = lazy_re(r"['\"\\]")
_RAW_WORD = lazy_re(r"[^\s'\"`()\[\]{};|&<>,=!$]+")
_HARMLESS_DEVICE = lazy_re(r"/dev/(null|zero|u?random|full|std(in|out|err)|tty|fd/\d+)")
_NETWORK_DEVICE = lazy_re(r"/dev/(?:tcp|udp)/([^/]+)/([^/]+)")
_MATCHES_IF_SHOWN = "and the wildcards match it if the shell shows hidden files"


class _LineVerdicts:
    """Verdicts on the paths and hosts of one command line."""

    def __init__(
        self,
        rules: RuleMatcher,
        mode: PermissionMode,
        paths: PathChecker,
        env: ResolvesPaths,
        grants: Collection[GrantKey],
        folder: str | None,
    ) -> None:
        self.rules = rules
        self.mode: PermissionMode = mode
        self.paths = paths
        self.env = env
        self.grants = grants
        self.verdicts: list[Verdict] = []
        self._files = LineFiles(env, rules.place, folder)
        self._line_rule: PermissionRule | None = None  # the rule that names the whole line
        self._added: set[Verdict] = set()
        self._checked: set[tuple[str, str, FileGrant, tuple[str | None, ...], int]] = set()
        self._denials: dict[tuple[str, ...], list[tuple[PermissionRule, PathPattern, str]]] = {}

    async def _redirect(self, redirect: Redirect) -> None:
        text = redirect.target.text
        network = _NETWORK_DEVICE.fullmatch(text)
        if network:
            self._check_host(f"{network[1]}:{network[2]}", only_restrictions=False)
        elif not _HARMLESS_DEVICE.fullmatch(text):
            any_command_rule = self.rules.allow_any_command_rule()
            file_grant = FileGrant(any_command_rule, "anywhere", "inside") if any_command_rule else NO_GRANT
            if self._line_rule is not None:
                file_grant = FileGrant(self._line_rule, "anywhere", "anywhere", "anywhere")
            scope = "fs-write" if redirect.writes else "fs-read"
            await self._check_path(scope, redirect.target, file_grant)

    async def _check_path(self, scope: str, word: Word, file_grant: FileGrant) -> None:
        links = len(self._files.created_links)  # a path that was checked before may lead through a new link
        key = (scope, word.text, file_grant, tuple(self._files.folders), links)
        if key in self._checked or _HARMLESS_DEVICE.fullmatch(word.text):
            return
        self._checked.add(key)
        for target in await self._resolve_checked(word.text, scope):
            self._add(self.paths.check(scope, target, file_grant))
        for target in await self._files.expand_wildcards(word.text):
            verdict = self.paths.check(scope, target, file_grant)
            self._add(None if verdict.outcome == "allow" else verdict, target)

    async def _resolve_checked(self, text: str, *scopes: str) -> list[ResolvedPath]:
        """Resolve a word. If the line has too many paths, deny rules apply to the spelling of the path."""
        found = await self._files.resolve(text)
        if len(found) < len(self._files.folders):
            if scopes not in self._denials:
                self._denials[scopes] = list(self.rules.path_denials(scopes))
            for folder in self._files.folders if self._denials[scopes] else ():
                self._add(self.paths.deny_spelling(spell_word(text, self.rules.place, folder), self._denials[scopes]))
        return found

    def _check_host(self, host: str, *, only_restrictions: bool) -> None:
        verdict = check_host(self.rules, self.mode, host, self.grants, by_tool=False)
        if not only_restrictions or verdict.rule is not None and verdict.outcome != "allow":
            self._add(verdict)

    def _add(self, verdict: Verdict | None, target: ResolvedPath | None = None) -> None:
        if target is not None and target.spelled in self._files.unsure_paths and verdict and verdict.outcome == "deny":
            verdict = replace(verdict, outcome="ask", reason=f"{verdict.reason}, {_MATCHES_IF_SHOWN}")
        if verdict is not None and verdict not in self._added:
            self._added.add(verdict)
            self.verdicts.append(verdict)


class CommandChecker(_LineVerdicts):
    """Checker of one command line."""

    def __init__(
        self,
        rules: RuleMatcher,
        mode: PermissionMode,
        paths: PathChecker,
        env: ResolvesPaths,
        grants: Collection[GrantKey],
        folder: str | None,
        *,
        allow_readonly: bool = True,
    ) -> None:
        super().__init__(rules, mode, paths, env, grants, folder)
        self.unrestricted_ids: set[int] = set()
        self._readonly_ids: set[int] = set()
        self.allow_readonly = allow_readonly
        self._programs: dict[tuple[tuple[str, ...], tuple[str | None, ...]], str] = {}
        self._recursive_reads = RecursiveReadChecker(env, paths)
        self._recursive_reads_of_allowed = RecursiveReadChecker(env, paths, allowed=True)
        self._escapes: frozenset[tuple[str, str]] = frozenset()
        self._source = ""
        self._reads_by_git = False
        self._search_path: dict[str, str] = {}
        self._only_reading = True

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables of a line that is allowed because it only reads: git runs no programs that a repository names."""
        if not self._reads_by_git or not self._only_reading:
            return {}
        return neutral_environment(self.env) | self._search_path

    async def check_line(self, line: AnalyzedLine, source: str) -> list[Verdict]:
        """Return all verdicts on a line; empty only if the line is empty."""
        self._source = source
        if line.problem:
            return await self._not_understood(line.problem, source)
        self._line_rule = self.rules.find_line_rule(source)
        files = [part.target.text for part in line.parts if isinstance(part, Redirect)]
        await self._files.resolve_together(text for text in files if not text.startswith("/dev/"))
        for number, part in enumerate(line.parts, 1):
            if isinstance(part, Redirect):
                await self._redirect(part)
            else:
                await self._check_command(part)
            await self._follow_links(line, number)
        problems: list[str] = []
        if self._files.uses_created_link:
            problems.append("it creates a link and then uses it; create the link in a separate command")
        elif self._files.uses_changed_files and self._line_rule is None:
            problems.append(_USES_CHANGED_FILES)
        if self._recursive_reads.fetches and not self._only_reading:
            problems.append("git may fetch missing objects, which can be prevented only if the whole line is read-only")
        if self._reads_by_git and self._search_path and not self._only_reading:
            problems.append(await find_program_of_settings(self.env, self.rules.place.root, self._files.folders))
        if self._files.too_many:
            problems.append("it names too many paths")
        for problem in filter(None, problems):
            reason = f"the command cannot be checked: {problem}"
            self.verdicts.append(Verdict("shell-run", escape_invisible(source, limit=2000), "ask", reason))
        return self.verdicts

    async def _follow_links(self, line: AnalyzedLine, number: int) -> None:
        """Note the links that the parts of a line up to a position create and use."""
        part = line.parts[number - 1]
        if len(line.parts) == 1 and isinstance(part, AnalyzedCommand) and not part.inner:
            return
        again = [line.parts[positions.start : number] for positions in line.unordered if positions.stop == number]
        for each in [part, *chain.from_iterable(again)]:
            is_checked = id(each) in self._readonly_ids or self.rules.has_read_restrictions()
            await follow_links(self._files, each, self.unrestricted_ids, self.rules.path_bounds, is_checked=is_checked)

    # --- lines that cannot be parsed --------------------------------------------------------------------------------

    async def _not_understood(self, problem: str, source: str) -> list[Verdict]:
        """Return the verdicts on a line that cannot be parsed.

        The line needs approval, unless a rule names the whole line. Deny and ask rules also apply to its words.
        """
        remember = ("shell-run", f"\0{source}\0{self._files.folders[0]}")
        shown = escape_invisible(source, limit=2000)
        rule = self.rules.find_line_rule(source)
        if rule is not None:
            self._add(Verdict("shell-run", shown, "allow", f"the rule {rule.text!r} names the whole line", rule))
        elif remember in self.grants:
            self._add(Verdict("shell-run", shown, "allow", "it is allowed for this session"))
        else:
            reason = f"the command cannot be analyzed: {problem}"
            rules = suggestions.line_rules(self.rules.tool, source)
            self._add(Verdict("shell-run", shown, "ask", reason, None, rules, remember))
        for spelling in dict.fromkeys((source, _QUOTES.sub("", source))):
            command = _split_unparsed(spelling)
            for effect in ("deny", "ask"):
                found = self.rules.restrict_scope(effect, "shell-run") or self.rules.restrict_command(effect, command)
                if found is not None and not (effect == "ask" and remember in self.grants):
                    outcome = effect if found.certain else "ask"
                    verb = {"deny": "denies", "ask": "asks about"}[effect] if found.certain else "may match"
                    reason = f"the rule {found.rule.text!r} {verb} it"
                    self._add(Verdict("shell-run", shown, outcome, reason, found.rule, remember=remember))
            await self._check_mentions(command)
        if self._files.too_many and remember not in self.grants:
            self._add(Verdict("shell-run", shown, "ask", "it names too many paths", remember=remember))
        return self.verdicts

    async def _check_mentions(self, command: AnalyzedCommand) -> None:
        """Check each path and host that an unparsed line seems to name.

        Rules, ignore files, and sensitive paths can deny the line or require approval, but cannot allow it.
        """
        texts = [_mark_raw_word(text) for text in dict.fromkeys(word.text for word in command.words[1:])]
        await self._files.resolve_together(texts, expand=False)
        await self._files.resolve_together(map(wildcards.hide_dotfiles, filter(wildcards.is_glob, texts)))
        scopes = ("fs-read", "fs-write", "fs-delete")
        for text in texts:
            matched = await self._files.expand_wildcards(wildcards.hide_dotfiles(text))
            for target in [*await self._resolve_checked(text, *scopes), *matched]:
                for scope in scopes:
                    self._add(self.paths.refused(scope, target))
                self._add(self.paths.check_mention(target))
        for host in dict.fromkeys(hosts_in_command(command)):
            self._check_host(host, only_restrictions=True)

    # --- commands ---------------------------------------------------------------------------------------------------

    async def _check_command(self, command: AnalyzedCommand) -> None:
        await self._follow_cd(command)
        self._mark_unrestricted(command)
        bounds = dict.fromkeys(self.rules.path_bounds(command))
        find = partial(find_escapes, self.env, self.rules.place, bounds, self._files.folders)
        self._escapes = await check_in_thread(self.env, find) if bounds else frozenset()
        verdict, file_grant = self._match_rules(command)
        if verdict.outcome == "ask" and verdict.rule is None:
            if self.mode == "defaults":
                verdict = await self._check_readonly(command, verdict)
            if verdict.outcome == "ask":
                verdict = replace(verdict, allow=suggestions.suggest_command_rules(self.rules.tool, command))
        self.verdicts.append(verdict)
        self._added.add(verdict)
        self._only_reading = self._only_reading and (
            verdict.reason == READONLY_REASON or id(command) in self.unrestricted_ids
        )
        mentions = dict.fromkeys(text for inner in command.walk() for text in paths_in_command(inner))
        if verdict.reason == READONLY_REASON:
            self._readonly_ids.add(id(command))
        else:  # `_check_readonly` has already checked the files of a read-only command
            touches = [touch for inner in command.walk() for touch in inner.file_accesses]
            await self._files.resolve_together([*(touch.word.text for touch in touches), *mentions])
            for touch in touches:
                await self._check_path(touch.scope, touch.word, file_grant)
            if verdict.outcome == "allow":
                await self._check_reads_of_allowed(command, verdict)
                async for found in find_refused_changes(self._files, self.env, self.paths, command):
                    self._add(found)
        await self._check_words(command, mentions)
        if verdict.outcome == "allow":
            words = (touch.word.text for inner in command.walk() for touch in inner.file_accesses)
            self._ask_about_matches(command, (*words, *mentions))
        for host in dict.fromkeys(hosts_in_command(command)):
            self._check_host(host, only_restrictions=True)

    async def _check_words(self, command: AnalyzedCommand, mentions: Collection[str]) -> None:
        """Check the paths that a command mentions, and those in its code, which may change them."""
        await self._files.resolve_together(mentions)
        for text in mentions:
            for target in [*await self._resolve_checked(text, "fs-read"), *await self._files.expand_wildcards(text)]:
                self._add(self.paths.check_mention(target), target)
        for text in dict.fromkeys(text for inner in command.walk() for text in paths_in_code(inner)):
            for target in await self._files.resolve(text):
                strict = self.paths.refused("fs-write", target) or self.paths.refused("fs-delete", target)
                if strict is not None:
                    reason = f"{strict.reason}, and code of the command may change it"
                    self._add(replace(strict, outcome="ask", reason=reason))

    async def _follow_cd(self, command: AnalyzedCommand) -> None:
        """Follow ``cd``: check later commands both in the folder before and in the folder after."""
        for inner in command.walk():
            if inner.cd_target is None:
                continue
            await self._files.note_opened([inner.cd_target.text])
            targets = await self._files.resolve(inner.cd_target.text)
            if targets and all(t.is_inside(self.rules.place) for t in targets):
                self.unrestricted_ids.add(id(inner))
            self._files.folders = list(dict.fromkeys([*self._files.folders, *(t.path or None for t in targets)]))
            if len(self._files.folders) > MAX_TRACKED_CWDS:
                self._files.folders = [None]

    def _mark_unrestricted(self, command: AnalyzedCommand) -> None:
        for inner in command.inner:
            self._mark_unrestricted(inner)
        runs_free = (
            command.required_rules == "inner"
            and command.inner
            and all(id(u) in self.unrestricted_ids for u in command.inner)
        )
        if command.is_unrestricted or (runs_free and not command.unknown):
            self.unrestricted_ids.add(id(command))

    def _match_rules(self, command: AnalyzedCommand) -> tuple[Verdict, FileGrant]:
        for effect in ("deny", "ask"):
            found = self.rules.restrict_command(effect, command)
            if effect == "deny" and found is None:
                found = self.rules.restrict_scope("deny", "shell-run")
            if found is None and effect == "ask":
                found = self.rules.restrict_scope("ask", "shell-run")
            if found is not None and not (effect == "ask" and found.certain and self._is_granted(command)):
                return self._restrict(effect, command, found), NO_GRANT
        if id(command) in self.unrestricted_ids:
            return self._decision(command, "allow", FREE_REASON), NO_GRANT
        if self._is_granted(command):
            file_grant = FileGrant(None, "anywhere", "inside", "inside")
            return self._decision(command, "allow", "it is allowed for this session"), file_grant
        if self._line_rule is not None:
            reason = f"the rule {self._line_rule.text!r} names the whole line"
            file_grant = FileGrant(self._line_rule, "anywhere", "anywhere", "anywhere")
            return self._decision(command, "allow", reason, self._line_rule), file_grant
        at_root = self._files.folders == ["/" + "/".join(self.rules.place.root)]
        rule = self.rules.allow_command_rule(command, self.unrestricted_ids, self._escapes, at_root=at_root)
        if rule is not None:
            return self._decision(command, "allow", f"the rule {rule.text!r} allows it", rule), _file_grant(rule)
        rule = self.rules.allow_any_command_rule()
        if rule is not None:
            file_grant = FileGrant(rule, "anywhere", "inside")
            return self._decision(command, "allow", f"the rule {rule.text!r} allows it", rule), file_grant
        if self.mode == "allow":
            return self._decision(command, "allow", "the permission mode allows it"), NO_GRANT
        return self._decision(command, "ask", self._ask_reason(command)), NO_GRANT

    async def _check_readonly(self, command: AnalyzedCommand, verdict: Verdict) -> Verdict:
        """Decide about a command that no rule matches: it is allowed if it only reads in the project."""
        if not self.allow_readonly:
            return verdict
        found = find_file_reads(command, self.unrestricted_ids)
        if found is None:
            return verdict
        own = self._files.folders
        everywhere = list(
            dict.fromkeys([*own, *[f for one in found for f in await find_read_folders(self._files, one)]])
        )
        problem = await self._find_project_program(command, everywhere)
        if problem:
            return replace(verdict, reason=problem)
        try:
            for one in found:
                self._files.folders = await find_read_folders(self._files, one)
                problem = await self._check_reading(command, one)
                self._files.folders = own
                if problem:
                    return replace(verdict, reason=f"it reads, but {problem}")
        finally:
            self._files.folders = own
        return self._decision(command, "allow", READONLY_REASON)

    async def _find_project_program(self, command: AnalyzedCommand, folders: Sequence[str | None]) -> str:
        """Return why a program of a command may be a file of the project; many commands of a line are the same programs."""
        names = tuple([unit.words[0].text for unit in command.walk() if unit.words])
        key = (names, tuple(folders))
        if key not in self._programs:
            self._programs[key] = await find_project_program(self.env, self.rules.place, names, folders)
        return self._programs[key]

    async def _check_reading(self, command: AnalyzedCommand, one: FileReads) -> str:
        """Check the files that a read-only command opens. Return why it may do more, or an empty string."""
        if one.git is not None and not self._reads_by_git:
            self._reads_by_git = True
            self._search_path = await search_path_outside(self.env, self.rules.place.root)
        drops_variables = one.git and any(u.words and program_name(u.words[0].text) == "env" for u in command.walk())
        self._only_reading = self._only_reading and not drops_variables
        await self._files.resolve_together([word.text for word in one.paths])
        self._files.note_search(follows_links=one.deep and one.follows)
        problem = await self._recursive_reads.check(
            one, self._files.folders, self._files.resolve, self._files.expand_wildcards
        )
        for word in one.paths:
            await self._files.expand_wildcards(word.text)
            if word.text in self._files.too_broad_words:
                problem = problem or _UNKNOWN_MATCHES
        if not problem:
            for word in one.paths:
                await self._check_path("fs-read", word, NO_GRANT)
        return problem

    async def _check_reads_of_allowed(self, command: AnalyzedCommand, allowed: Verdict) -> None:
        """Check the files of a command that a rule allows against ignore files and rules about reading."""
        for word in (word for inner in command.walk() for word in words_like_options(inner)):
            found = await self._files.expand_wildcards(word.text)
            is_option = any(t.lexical[-1].startswith("-") for t in found if t.lexical)
            if word.text in self._files.too_broad_words or is_option:
                reason = f"the word {word.source!r} may match a file that is named like an option"
                self._add(Verdict(allowed.scope, allowed.resource, "ask", reason))
        readings, plain = find_possible_reads(command, self.unrestricted_ids)
        await self._files.resolve_together(plain)
        for text in plain:
            for target in [*await self._files.resolve(text), *await self._files.expand_wildcards(text)]:
                self._add(self.paths.check_possible_path(target))
        self._ask_about_matches(command, plain)
        own = self._files.folders
        for one in readings:
            self._files.folders = await find_read_folders(self._files, one)
            texts = dict.fromkeys(word.text for word in one.paths)
            await self._files.resolve_together(texts)
            self._files.note_search(follows_links=one.deep and one.follows)
            for text in texts:
                targets = await self._resolve_checked(text, "fs-read")
                for target in [*targets, *await self._files.expand_wildcards(text)]:
                    self._add(self.paths.check_read_restrictions(target), target)
            self._ask_about_matches(command, texts)
            problem = await self._recursive_reads_of_allowed.check_shown_files(
                one, self._files.folders, self._files.resolve, self._files.expand_wildcards
            )
            self._files.folders = own
            if problem:
                self._add(Verdict(allowed.scope, allowed.resource, "ask", problem))

    def _ask_about_matches(self, command: AnalyzedCommand, texts: Iterable[str]) -> None:
        """Ask about a command that a rule allows if a word may match a file that no tool may access."""
        if not self._files.too_broad_words.isdisjoint(texts) and not self._is_granted(command):
            self._add(self._decision(command, "ask", _UNKNOWN_MATCHES))

    def _ask_reason(self, command: AnalyzedCommand) -> str:
        reason = next((u.unknown for u in command.walk() if u.unknown), "") or self.rules.why_not_covered(command)
        if not reason and command.fixed > 1 and not command.inner:
            return "it runs code, so only a rule that names the whole command allows it"
        return reason or "no rule allows it"

    def _restrict(self, effect: str, command: AnalyzedCommand, rule_match: RuleMatch) -> Verdict:
        rule, outcome = rule_match.rule, "deny" if effect == "deny" and rule_match.certain else "ask"
        verb = "may match" if not rule_match.certain else "denies" if effect == "deny" else "asks about"
        return self._decision(command, outcome, f"the rule {rule.text!r} {verb} it", rule)

    def _is_granted(self, command: AnalyzedCommand) -> bool:
        return self._key(command) in self.grants

    def _key(self, command: AnalyzedCommand) -> GrantKey:
        """Return the key of a grant for a command.

        The same words are another command in another folder, or with other input.
        """
        text = command.text
        if self._files.folders != [self.rules.place.cwd]:
            text += "".join(f"\0{folder}" for folder in self._files.folders)
        # Other parts of the line may provide the input of the command or set its variables.
        depends_on_line = command.piped or "$" in command.text
        return ("shell-run", f"{text}\0{self._source}" if depends_on_line else text)

    def _decision(
        self,
        command: AnalyzedCommand,
        outcome: PermissionOutcome,
        reason: str,
        rule: PermissionRule | None = None,
        *,
        allow: tuple[str, ...] = (),
    ) -> Verdict:
        remember = None if command.unknown else self._key(command)
        return Verdict("shell-run", escape_invisible(command.text, limit=2000), outcome, reason, rule, allow, remember)


def _mark_raw_word(text: str) -> str:
    """Return a word of an unparsed line with its wildcards marked."""
    marked = wildcards.encode_wildcards(f"{wildcards.HOME}{text[1:]}" if text.startswith("~") else text)
    return marked.replace(wildcards.ANY_TEXT, wildcards.ANY_CHAR)  # names of programs on the search path have no slash


def _split_unparsed(source: str) -> AnalyzedCommand:
    """Return the words that an unparsed line seems to contain; each may be a command."""
    words = tuple([Word(piece, piece) for piece in _RAW_WORD.findall(source)[:MAX_RAW_WORDS]])
    return AnalyzedCommand(words=(Word(source, source), *words), text=source, scan=True)


def _file_grant(rule: PermissionRule) -> FileGrant:
    """Return the file access that a rule for a command grants.

    A rule that names every word of the command grants access to all files. Another rule grants writing and deleting in the project,
    and reading everywhere, or only in the project if the rule is a default.
    """
    exact = rule.pattern is not None and compile_command_pattern(rule.pattern).exact
    if exact:
        return FileGrant(rule, "anywhere", "anywhere", "anywhere")
    return FileGrant(rule, "inside" if rule.origin.kind == "default" else "anywhere", "inside", "inside")


def check_host(
    rules: RuleMatcher, mode: PermissionMode, host: str, grants: Collection[GrantKey], *, by_tool: bool = True
) -> Verdict:
    """Decide about a host."""
    remember = ("network", host)
    shown = escape_invisible(host.replace(wildcards.ANY_TEXT, "…"), limit=300)
    for effect in ("deny", "ask"):
        found = rules.restrict_scope(effect, "network") or rules.restrict_host(effect, host)
        if found is None or (effect == "ask" and remember in grants):
            continue
        verb = "denies it" if effect == "deny" else "asks about it"
        return Verdict("network", shown, effect, f"the rule {found.rule.text!r} {verb}", found.rule, remember=remember)
    rule = (
        rules.allow_host_rule(host)
        or rules.allow_scope_rule("network")
        or (rules.allow_call_rule() if by_tool else None)
    )
    if rule is not None:
        return Verdict("network", shown, "allow", f"the rule {rule.text!r} allows it", rule)
    if remember in grants:
        return Verdict("network", shown, "allow", "it is allowed for this session")
    if mode == "allow":
        return Verdict("network", shown, "allow", "the permission mode allows it")
    suggested = suggestions.suggest_host_rules(rules.tool if by_tool else "", host)
    return Verdict("network", shown, "ask", "no rule allows it", None, suggested, remember)
