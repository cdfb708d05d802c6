"""Decide about a command line: its commands, its redirections, and the files they touch."""

from __future__ import annotations

from collections.abc import Collection, Set

from msgspec.structs import replace

from mainspring.lazy import lazy_re
from mainspring.permissions import suggestions
from mainspring.permissions.command_patterns import compile_command_pattern
from mainspring.permissions.decisions import FREE_REASON, READONLY_REASON, PermissionOutcome, Verdict
from mainspring.permissions.git_repository import neutral_environment
from mainspring.permissions.path_checker import NO_GRANT, FileGrant, GrantKey, PathChecker, PermissionMode
from mainspring.permissions.paths import ResolvedPath, ResolvesPaths, expand_wildcards, find_escapes, resolve_word
from mainspring.permissions.programs import find_project_program, search_path_outside
from mainspring.permissions.recursive_reads import RecursiveReadChecker, find_program_of_settings
from mainspring.permissions.rule_matcher import RuleMatch, RuleMatcher
from mainspring.permissions.rules import PermissionRule
from mainspring.shell_analysis import wildcards
from mainspring.shell_analysis.commands import AnalyzedLine
from mainspring.shell_analysis.file_reads import FileReads, find_readonly_reads, find_recursive_read, find_xargs_reads
from mainspring.shell_analysis.programs import words_like_options
from mainspring.shell_analysis.references import hosts_in_command, paths_in_command, plain_words_in_command
from mainspring.shell_analysis.syntax import AnalyzedCommand, Redirect, Word, program_name
from mainspring.text import escape_invisible

MAX_RESOLVED_PATHS = 300
"""Maximum number of paths of one line that are checked. A line with more paths needs approval."""

MAX_TRACKED_CWDS = 4

MAX_RAW_WORDS = 3_000
"""Maximum number of words that are compared with rules if the line cannot be parsed.

Such a line needs approval in any case.
"""

_UNKNOWN_MATCHES = "the files that its wildcards match are unknown"

_QUOTES = lazy_re(r"['\"\\]")
_RAW_WORD = lazy_re(r"[^\s'\"`()\[\]{};|&<>,=!$]+")
_HARMLESS_DEVICE = lazy_re(r"/dev/(null|zero|u?random|full|std(in|out|err)|tty|fd/\d+)")
_NETWORK_DEVICE = lazy_re(r"/dev/(?:tcp|udp)/([^/]+)/([^/]+)")
_MATCHES_IF_SHOWN = "and the wildcards match it if the shell shows hidden files"


class CommandChecker:
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
        self.rules = rules
        self.mode: PermissionMode = mode
        self.paths = paths
        self.env = env
        self.grants = grants
        self.folders: list[str | None] = [folder]
        self.unrestricted_ids: set[int] = set()
        self.allow_readonly = allow_readonly
        self.verdicts: list[Verdict] = []
        self._recursive_reads = RecursiveReadChecker(env, paths)
        self._recursive_reads_of_allowed = RecursiveReadChecker(env, paths, allowed=True)
        self._targets: dict[tuple[str, str | None], ResolvedPath] = {}
        self._expansions: dict[tuple[str, tuple[str | None, ...]], list[ResolvedPath]] = {}
        self._too_broad_words: set[str] = set()  # words whose wildcards match too many paths to check
        self._unsure_paths: set[str] = set()  # hidden files that wildcards match only with an option of the shell
        self._too_many = False
        self._created_links: list[tuple[str, ...]] = []
        self._uses_created_link = False
        self._escapes: frozenset[tuple[str, str]] = frozenset()
        self._source = ""
        self._line_rule: PermissionRule | None = None  # the rule that names the whole line
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
        for part in line.parts:
            if isinstance(part, Redirect):
                await self._redirect(part)
            else:
                await self._check_command(part)
        problems: list[str] = []
        if self._uses_created_link:
            problems.append("it creates a link and then uses it; create the link in a separate command")
        if self._recursive_reads.fetches and not self._only_reading:
            problems.append("git may fetch missing objects, which can be prevented only if the whole line is read-only")
        if self._reads_by_git and self._search_path and not self._only_reading:
            problems.append(await find_program_of_settings(self.env, self.rules.place.root, self.folders))
        if self._too_many:
            problems.append("it names too many paths")
        for problem in filter(None, problems):
            reason = f"the command cannot be checked: {problem}"
            self.verdicts.append(Verdict("shell-run", escape_invisible(source, limit=2000), "ask", reason))
        return self.verdicts

    # --- lines that cannot be parsed --------------------------------------------------------------------------------

    async def _not_understood(self, problem: str, source: str) -> list[Verdict]:
        """Return the verdicts on a line that cannot be parsed.

        The line needs approval, unless a rule names the whole line. Deny and ask rules also apply to its words.
        """
        remember = ("shell-run", f"\0{source}\0{self.folders[0]}")
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
        if self._too_many and remember not in self.grants:
            self._add(Verdict("shell-run", shown, "ask", "it names too many paths", remember=remember))
        return self.verdicts

    async def _check_mentions(self, command: AnalyzedCommand) -> None:
        """Check each path and host that an unparsed line seems to name.

        Rules, ignore files, and sensitive paths can deny the line or require approval, but cannot allow it.
        """
        for text in dict.fromkeys(word.text for word in command.words[1:]):
            marked = wildcards.encode_wildcards(f"{wildcards.HOME}{text[1:]}" if text.startswith("~") else text)
            # Names of programs on the search path have no slash.
            marked = marked.replace(wildcards.ANY_TEXT, wildcards.ANY_CHAR)
            matched = await self._expand_wildcards(wildcards.hide_dotfiles(marked))
            for target in [*await self._resolve(marked), *matched]:
                for scope in ("fs-read", "fs-write", "fs-delete"):
                    self._add(self.paths.refused(scope, target))
                self._add(self.paths.check_mention(target))
        for host in dict.fromkeys(hosts_in_command(command)):
            self._check_host(host, only_restrictions=True)

    # --- commands ---------------------------------------------------------------------------------------------------

    async def _check_command(self, command: AnalyzedCommand) -> None:
        await self._follow_cd(command)
        self._mark_unrestricted(command)
        bounds = dict.fromkeys(self.rules.path_bounds(command))
        self._escapes = await find_escapes(self.env, self.rules.place, bounds, self.folders)
        verdict, file_grant = self._match_rules(command)
        if verdict.outcome == "ask" and verdict.rule is None and self.mode == "defaults":
            verdict = await self._check_readonly(command, verdict)
        self.verdicts.append(verdict)
        self._only_reading = self._only_reading and (
            verdict.reason == READONLY_REASON or id(command) in self.unrestricted_ids
        )
        if verdict.reason != READONLY_REASON:  # `_check_readonly` has already checked the files of a read-only command
            for inner in command.walk():
                for touch in inner.file_accesses:
                    await self._check_path(touch.scope, touch.word, file_grant)
            if verdict.outcome == "allow":
                await self._check_reads_of_allowed(command, verdict)
        mentions = dict.fromkeys(text for inner in command.walk() for text in paths_in_command(inner))
        for text in mentions:
            for target in [*await self._resolve(text), *await self._expand_wildcards(text)]:
                self._add(self.paths.check_mention(target), target)
        if verdict.outcome == "allow" and not self._is_granted(command):
            words = (touch.word.text for inner in command.walk() for touch in inner.file_accesses)
            if not self._too_broad_words.isdisjoint((*words, *mentions)):  # a file that no tool may access may be one
                self._add(self._decision(command, "ask", _UNKNOWN_MATCHES))
        await self._record_links(command)
        for host in dict.fromkeys(hosts_in_command(command)):
            self._check_host(host, only_restrictions=True)

    async def _record_links(self, command: AnalyzedCommand) -> None:
        """Record the links that a command creates. Paths through these links cannot be resolved before the line runs."""
        for inner in command.walk():
            if inner.words and program_name(inner.words[0].text) in ("ln", "link"):
                written = [touch.word for touch in inner.file_accesses if touch.scope == "fs-write"]
                for target in [target for word in written for target in await self._resolve(word.text)]:
                    names = [t.word.text.rpartition("/")[2] for t in inner.file_accesses if t.scope == "fs-read"]
                    self._created_links += [target.lexical, *((*target.lexical, name) for name in names)]

    async def _follow_cd(self, command: AnalyzedCommand) -> None:
        """Follow ``cd``: check later commands both in the folder before and in the folder after."""
        for inner in command.walk():
            if inner.cd_target is None:
                continue
            targets = await self._resolve(inner.cd_target.text)
            if targets and all(t.is_inside(self.rules.place) for t in targets):
                self.unrestricted_ids.add(id(inner))
            self.folders = list(dict.fromkeys([*self.folders, *(t.path or None for t in targets)]))
            if len(self.folders) > MAX_TRACKED_CWDS:
                self.folders = [None]

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
        at_root = self.folders == ["/" + "/".join(self.rules.place.root)]
        rule = self.rules.allow_command_rule(command, self.unrestricted_ids, self._escapes, at_root=at_root)
        if rule is not None:
            return self._decision(command, "allow", f"the rule {rule.text!r} allows it", rule), _file_grant(rule)
        rule = self.rules.allow_any_command_rule()
        if rule is not None:
            file_grant = FileGrant(rule, "anywhere", "inside")
            return self._decision(command, "allow", f"the rule {rule.text!r} allows it", rule), file_grant
        if self.mode == "allow":
            return self._decision(command, "allow", "the permission mode allows it"), NO_GRANT
        suggested = suggestions.suggest_command_rules(self.rules.tool, command)
        return self._decision(command, "ask", self._ask_reason(command), allow=suggested), NO_GRANT

    async def _check_readonly(self, command: AnalyzedCommand, verdict: Verdict) -> Verdict:
        """Decide about a command that no rule matches: it is allowed if it only reads in the project."""
        if not self.allow_readonly:
            return verdict
        found = _file_reads(command, self.unrestricted_ids)
        if found is None:
            return verdict
        own = self.folders
        everywhere = list(dict.fromkeys([*own, *[f for one in found for f in await self._folders_of(one)]]))
        problem = await find_project_program(self.env, self.rules.place, command.walk(), everywhere)
        if problem:
            return replace(verdict, reason=problem)
        try:
            for one in found:
                self.folders = await self._folders_of(one)
                problem = await self._check_reading(command, one)
                self.folders = own
                if problem:
                    return replace(verdict, reason=f"it reads, but {problem}")
        finally:
            self.folders = own
        return self._decision(command, "allow", READONLY_REASON)

    async def _folders_of(self, one: FileReads) -> list[str | None]:
        """Return the folders in which a command may open files."""
        if one.folder is None:
            return self.folders
        return list(dict.fromkeys([target.path or None for target in await self._resolve(one.folder.text)])) or [None]

    async def _check_reading(self, command: AnalyzedCommand, one: FileReads) -> str:
        """Check the files that a read-only command opens. Return why it may do more, or an empty string."""
        if one.git is not None and not self._reads_by_git:
            self._reads_by_git = True
            self._search_path = await search_path_outside(self.env, self.rules.place.root)
        drops_variables = one.git and any(u.words and program_name(u.words[0].text) == "env" for u in command.walk())
        self._only_reading = self._only_reading and not drops_variables
        problem = await self._recursive_reads.check(one, self.folders, self._resolve, self._expand_wildcards)
        for word in one.paths:
            await self._expand_wildcards(word.text)
            if word.text in self._too_broad_words:
                problem = problem or _UNKNOWN_MATCHES
        if not problem:
            for word in one.paths:
                await self._check_path("fs-read", word, NO_GRANT)
        return problem

    async def _check_reads_of_allowed(self, command: AnalyzedCommand, allowed: Verdict) -> None:
        """Check the files of a command that a rule allows against ignore files and rules about reading."""
        for word in (word for inner in command.walk() for word in words_like_options(inner)):
            found = await self._expand_wildcards(word.text)
            if word.text in self._too_broad_words or any(t.lexical[-1:][0].startswith("-") for t in found if t.lexical):
                reason = f"the word {word.source!r} may match a file that is named like an option"
                self._add(Verdict(allowed.scope, allowed.resource, "ask", reason))
        readings = _file_reads(command, self.unrestricted_ids)
        if readings is None:
            readings = [found for inner in command.walk() if (found := find_recursive_read(inner))]
            for text in dict.fromkeys(text for inner in command.walk() for text in plain_words_in_command(inner)):
                for target in await self._resolve(text):
                    self._add(self.paths.check_possible_path(target))
        own = self.folders
        for one in readings:
            self.folders = await self._folders_of(one)
            for word in one.paths:
                for target in [*await self._resolve(word.text), *await self._expand_wildcards(word.text)]:
                    self._add(self.paths.check_read_restrictions(target), target)
            problem = await self._recursive_reads_of_allowed.check_shown_files(
                one, self.folders, self._resolve, self._expand_wildcards
            )
            self.folders = own
            if problem:
                self._add(Verdict(allowed.scope, allowed.resource, "ask", problem))

    def _ask_reason(self, command: AnalyzedCommand) -> str:
        reason = next((u.unknown for u in command.walk() if u.unknown), "")
        if reason:
            return reason
        reason = self.rules.why_not_covered(command)
        if not reason and command.fixed > 1 and not command.inner:
            return "it runs code, so only a rule that names the whole command allows it"
        return reason or "no rule allows it"

    def _restrict(self, effect: str, command: AnalyzedCommand, rule_match: RuleMatch) -> Verdict:
        if not rule_match.certain:
            return self._decision(command, "ask", f"the rule {rule_match.rule.text!r} may match it", rule_match.rule)
        if effect == "deny":
            return self._decision(command, "deny", f"the rule {rule_match.rule.text!r} denies it", rule_match.rule)
        return self._decision(command, "ask", f"the rule {rule_match.rule.text!r} asks about it", rule_match.rule)

    def _is_granted(self, command: AnalyzedCommand) -> bool:
        return self._key(command) in self.grants

    def _key(self, command: AnalyzedCommand) -> GrantKey:
        """Return the key of a grant for a command.

        The same words are another command in another folder, or with other input.
        """
        text = command.text
        if self.folders != [self.rules.place.cwd]:
            text += "".join(f"\0{folder}" for folder in self.folders)
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

    # --- files and hosts --------------------------------------------------------------------------------------------

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
        if _HARMLESS_DEVICE.fullmatch(word.text):
            return
        for target in await self._resolve(word.text):
            self._add(self.paths.check(scope, target, file_grant))
        for target in await self._expand_wildcards(word.text):
            verdict = self.paths.check(scope, target, file_grant)
            self._add(None if verdict.outcome == "allow" else verdict, target)

    async def _resolve(self, text: str) -> list[ResolvedPath]:
        found: list[ResolvedPath] = []
        for folder in self.folders:
            key = (text, folder)
            if key not in self._targets:
                if len(self._targets) >= MAX_RESOLVED_PATHS:
                    self._too_many = True
                    return found
                self._targets[key] = await resolve_word(self.env, text, self.rules.place, folder)
            parts = self._targets[key].lexical
            self._uses_created_link = self._uses_created_link or any(
                parts[: len(link)] == link for link in self._created_links
            )
            found.append(self._targets[key])
        return found

    async def _expand_wildcards(self, text: str) -> list[ResolvedPath]:
        """Return the paths that the wildcards of a word currently match."""
        if not wildcards.is_glob(text) or wildcards.ANY_TEXT in text:
            return []
        key = (text, tuple(self.folders))
        if key not in self._expansions:
            found: list[ResolvedPath] = []
            for target in await self._resolve(text):
                paths = None if target.unknown else await expand_wildcards(self.env, target.real)
                if paths is None:
                    self._too_broad_words.add(text)
                    continue
                found += [await resolve_word(self.env, path, self.rules.place, None) for path in paths]
                if wildcards.ANY_CHAR in text:
                    visible = await expand_wildcards(self.env, [*map(wildcards.hide_dotfiles, target.real)])
                    self._unsure_paths.update({*paths}.difference(visible or ()))
            self._expansions[key] = found
        return self._expansions[key]

    def _check_host(self, host: str, *, only_restrictions: bool) -> None:
        verdict = check_host(self.rules, self.mode, host, self.grants, by_tool=False)
        if not only_restrictions or verdict.rule is not None and verdict.outcome != "allow":
            self._add(verdict)

    def _add(self, verdict: Verdict | None, target: ResolvedPath | None = None) -> None:
        if target is not None and target.spelled in self._unsure_paths and verdict and verdict.outcome == "deny":
            verdict = replace(verdict, outcome="ask", reason=f"{verdict.reason}, {_MATCHES_IF_SHOWN}")
        if verdict is not None and verdict not in self.verdicts:
            self.verdicts.append(verdict)


def _split_unparsed(source: str) -> AnalyzedCommand:
    """Return the words that an unparsed line seems to contain; each may be a command."""
    words = tuple([Word(piece, piece) for piece in _RAW_WORD.findall(source)[:MAX_RAW_WORDS]])
    return AnalyzedCommand(words=(Word(source, source), *words), text=source, scan=True)


def _file_reads(command: AnalyzedCommand, unrestricted_ids: Set[int]) -> list[FileReads] | None:
    """Return the files that a command and its subcommands open.

    Return None if any of them is not known to be read-only.
    """
    if id(command) in unrestricted_ids:
        return []
    listed = find_xargs_reads(command)
    if listed is not None:
        return listed
    if not command.inner or command.required_rules != "inner" or command.unknown:
        own = find_readonly_reads(command)
        return None if own is None else [own]
    found: list[FileReads] = []
    for inner in command.inner:
        its = _file_reads(inner, unrestricted_ids)
        if its is None:
            return None
        found += its
    return found


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
