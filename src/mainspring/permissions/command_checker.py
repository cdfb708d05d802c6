"""Decides about a command line: its commands, its redirections, and the files they touch."""

from __future__ import annotations

from collections.abc import Collection

from mainspring.lazy import lazy_re
from mainspring.permissions import suggestions as suggest
from mainspring.permissions.command_patterns import compile_command_pattern
from mainspring.permissions.decisions import FREE_REASON, READONLY_REASON, Outcome, Verdict
from mainspring.permissions.git_history import find_program_of_settings
from mainspring.permissions.git_repository import neutral_environment
from mainspring.permissions.path_checker import NO_GRANT, FileGrant, GrantKey, PathChecker, PermissionMode
from mainspring.permissions.paths import ResolvedPath, ResolvesPaths, expand_wildcards, find_escapes, resolve_word
from mainspring.permissions.programs import find_project_program, search_path_outside
from mainspring.permissions.recursive_reads import RecursiveReadChecker
from mainspring.permissions.rule_matcher import RuleMatch, RuleMatcher
from mainspring.permissions.rules import Rule
from mainspring.shell_analysis import wildcards
from mainspring.shell_analysis.commands import AnalyzedLine
from mainspring.shell_analysis.file_reads import FileReads, copying, find_readonly_reads, find_xargs_reads
from mainspring.shell_analysis.programs import words_like_options
from mainspring.shell_analysis.references import hosts_in_command, paths_in_command, plain_words_in_command
from mainspring.shell_analysis.syntax import AnalyzedCommand, Redirect, Word, program_name
from mainspring.text import escape_invisible

MAX_RESOLVED_PATHS = 300
"""How many paths of one line are looked at; a line with more is not judged."""

MAX_TRACKED_CWDS = 4

MAX_RAW_WORDS = 3_000
"""How many words of a line that is not understood are compared with rules; such a line asks in any case."""

_QUOTES = lazy_re(r"['\"\\]")
_RAW_WORD = lazy_re(r"[^\s'\"`()\[\]{};|&<>,=!$]+")
_HARMLESS_DEVICE = lazy_re(r"/dev/(null|zero|u?random|full|std(in|out|err)|tty|fd/\d+)")
_NETWORK_DEVICE = lazy_re(r"/dev/(?:tcp|udp)/([^/]+)/([^/]+)")


class CommandChecker:
    """Decides about one line."""

    def __init__(
        self,
        judge: RuleMatcher,
        mode: PermissionMode,
        paths: PathChecker,
        env: ResolvesPaths,
        grants: Collection[GrantKey],
        folder: str | None,
        *,
        reads_free: bool = True,
    ) -> None:
        self.judge = judge
        self.mode: PermissionMode = mode
        self.paths = paths
        self.env = env
        self.grants = grants
        self.folders: list[str | None] = [folder]
        self.free: set[int] = set()
        self.reads_free = reads_free
        self.verdicts: list[Verdict] = []
        self._recursive_reads = RecursiveReadChecker(env, paths)
        self._recursive_reads_of_allowed = RecursiveReadChecker(env, paths, allowed=True)
        self._targets: dict[tuple[str, str | None], ResolvedPath] = {}
        self._expansions: dict[tuple[str, tuple[str | None, ...]], list[ResolvedPath]] = {}
        self._too_broad_words: set[str] = set()  # words whose wildcards stand for too much to look at
        self._too_many = False
        self._links: list[tuple[str, ...]] = []
        self._linked = False
        self._escapes: frozenset[tuple[str, str]] = frozenset()
        self._source = ""
        self._whole: Rule | None = None  # the rule that names the whole line
        self._reads_by_git = False
        self._search_path: dict[str, str] = {}
        self._only_reading = True

    @property
    def environment(self) -> dict[str, str]:
        """The variables for a line that was allowed because all of it only reads; they keep git from running what a repository names."""
        if not self._reads_by_git or not self._only_reading:
            return {}
        return neutral_environment(self.env) | self._search_path

    async def check_line(self, line: AnalyzedLine, source: str) -> list[Verdict]:
        """All verdicts on a line; none only if it holds nothing."""
        self._source = source
        if line.problem:
            return await self._not_understood(line.problem, source)
        self._whole = self.judge.allows_line(source)
        for part in line.parts:
            if isinstance(part, Redirect):
                await self._redirect(part)
            else:
                await self._check_command(part)
        linked = "it makes a link and goes on with it; make the link alone" if self._linked else ""
        fetches = self._recursive_reads.fetches and not self._only_reading
        fetch = "git may fetch missing objects, which is prevented only if all of the line reads" if fetches else ""
        started = ""
        if self._reads_by_git and self._search_path and not self._only_reading:
            started = await find_program_of_settings(self.env, self.judge.place.root, self.folders)
        for doubt in (linked, fetch, started, "it names too many paths" if self._too_many else ""):
            if doubt:
                reason = f"the command cannot be judged: {doubt}"
                self.verdicts.append(Verdict("shell-run", escape_invisible(source, limit=2000), "ask", reason))
        return self.verdicts

    # --- lines that are not understood ------------------------------------------------------------------------------

    async def _not_understood(self, problem: str, source: str) -> list[Verdict]:
        """The verdicts on a line that is not understood: it asks, unless a rule names all of it. Rules that tighten see its pieces."""
        remember = ("shell-run", f"\0{source}\0{self.folders[0]}")
        shown = escape_invisible(source, limit=2000)
        rule = self.judge.allows_line(source)
        if rule is not None:
            self._add(Verdict("shell-run", shown, "allow", f"the rule {rule.text!r} names the whole line", rule))
        elif remember in self.grants:
            self._add(Verdict("shell-run", shown, "allow", "it was granted for this session"))
        else:
            reason = f"the command is not understood: {problem}"
            rules = suggest.line_rules(self.judge.tool, source)
            self._add(Verdict("shell-run", shown, "ask", reason, None, rules, remember))
        for spelling in dict.fromkeys((source, _QUOTES.sub("", source))):
            unit = self._parse_json_value(spelling)
            for effect in ("deny", "ask"):
                found = self.judge.restrict_scope(effect, "shell-run") or self.judge.restrict_command(effect, unit)
                if found is not None and not (effect == "ask" and remember in self.grants):
                    outcome = effect if found.certain else "ask"
                    verb = {"deny": "denies", "ask": "asks about"}[effect] if found.certain else "may be about"
                    reason = f"the rule {found.rule.text!r} {verb} it"
                    self._add(Verdict("shell-run", shown, outcome, reason, found.rule, remember=remember))
            await self._named_in(unit)
        if self._too_many and remember not in self.grants:
            self._add(Verdict("shell-run", shown, "ask", "it names too many paths", remember=remember))
        return self.verdicts

    def _parse_json_value(self, source: str) -> AnalyzedCommand:
        """A line that is not understood as the words that it seems to contain, each of which may be a command."""
        words = tuple([Word(piece, piece) for piece in _RAW_WORD.findall(source)[:MAX_RAW_WORDS]])
        return AnalyzedCommand(words=(Word(source, source), *words), text=source, scan=True)

    async def _named_in(self, unit: AnalyzedCommand) -> None:
        """What rules, ignore files, and sensitive paths say about whatever a line that is not understood seems to name."""
        for text in dict.fromkeys(word.text for word in unit.words[1:]):
            marked = wildcards.encode_wildcards(f"{wildcards.HOME}{text[1:]}" if text.startswith("~") else text)
            marked = marked.replace(wildcards.ANY_TEXT, wildcards.ANY_CHAR)  # names that a shell finds have no slash
            for target in [*await self._look(marked), *await self._expand_wildcards(marked)]:
                for scope in ("fs-read", "fs-write", "fs-delete"):
                    self._add(self.paths.refused(scope, target))
                self._add(self.paths.seen(target))
        for host in dict.fromkeys(hosts_in_command(unit)):
            self._check_host(host, seen=True)

    # --- commands ---------------------------------------------------------------------------------------------------

    async def _check_command(self, unit: AnalyzedCommand) -> None:
        await self._follow_cd(unit)
        self._mark_unrestricted(unit)
        bounds = dict.fromkeys(self.judge.path_bounds(unit))
        self._escapes = await find_escapes(self.env, self.judge.place, bounds, self.folders)
        verdict, cover = self._command(unit)
        if verdict.outcome == "ask" and verdict.rule is None and self.mode == "defaults":
            verdict = await self._only_reads(unit, verdict)
        self.verdicts.append(verdict)
        self._only_reading = self._only_reading and (verdict.reason == READONLY_REASON or id(unit) in self.free)
        if verdict.reason != READONLY_REASON:  # what such a command opens is known better
            for inner in unit.walk():
                for touch in inner.touches:
                    await self._check_path(touch.scope, touch.word, cover)
            if verdict.outcome == "allow":
                await self._check_reads_of_allowed(unit, verdict)
        for text in dict.fromkeys(text for inner in unit.walk() for text in paths_in_command(inner)):
            for target in [*await self._look(text), *await self._expand_wildcards(text)]:
                self._add(self.paths.seen(target))
        await self._record_links(unit)
        for host in dict.fromkeys(hosts_in_command(unit)):
            self._check_host(host, seen=True)

    async def _record_links(self, unit: AnalyzedCommand) -> None:
        """Note the links that a command makes: where they lead cannot be seen before they are there."""
        for inner in unit.walk():
            if inner.words and program_name(inner.words[0].text) in ("ln", "link"):
                made = [touch.word for touch in inner.touches if touch.scope == "fs-write"]
                for target in [target for word in made for target in await self._look(word.text)]:
                    names = [t.word.text.rpartition("/")[2] for t in inner.touches if t.scope == "fs-read"]
                    self._links += [target.lexical, *((*target.lexical, name) for name in names)]

    async def _follow_cd(self, unit: AnalyzedCommand) -> None:
        """Follow ``cd``. What comes later is judged in the folder before and in the folder after."""
        for inner in unit.walk():
            if inner.moves is None:
                continue
            targets = await self._look(inner.moves.text)
            if targets and all(t.inside(self.judge.place) for t in targets):
                self.free.add(id(inner))
            self.folders = list(dict.fromkeys([*self.folders, *(t.path or None for t in targets)]))
            if len(self.folders) > MAX_TRACKED_CWDS:
                self.folders = [None]

    def _mark_unrestricted(self, unit: AnalyzedCommand) -> None:
        for inner in unit.inner:
            self._mark_unrestricted(inner)
        runs_free = unit.needs == "inner" and unit.inner and all(id(u) in self.free for u in unit.inner)
        if unit.free or (runs_free and not unit.unknown):
            self.free.add(id(unit))

    def _command(self, unit: AnalyzedCommand) -> tuple[Verdict, FileGrant]:
        for effect in ("deny", "ask"):
            found = self.judge.restrict_command(effect, unit)
            if effect == "deny" and found is None:
                found = self.judge.restrict_scope("deny", "shell-run")
            if found is None and effect == "ask":
                found = self.judge.restrict_scope("ask", "shell-run")
            if found is not None and not (effect == "ask" and found.certain and self._is_granted(unit)):
                return self._restrict(effect, unit, found), NO_GRANT
        if id(unit) in self.free:
            return self._say(unit, "allow", FREE_REASON), NO_GRANT
        if self._is_granted(unit):
            return self._say(unit, "allow", "it was granted for this session"), FileGrant(
                None, "anywhere", "inside", "inside"
            )
        if self._whole is not None:
            reason = f"the rule {self._whole.text!r} names the whole line"
            return self._say(unit, "allow", reason, self._whole), FileGrant(
                self._whole, "anywhere", "anywhere", "anywhere"
            )
        at_root = self.folders == ["/" + "/".join(self.judge.place.root)]
        rule = self.judge.allow_command_rule(unit, self.free, self._escapes, at_root=at_root)
        if rule is not None:
            return self._say(unit, "allow", f"the rule {rule.text!r} allows it", rule), _file_grant(rule)
        rule = self.judge.allow_any_command_rule()
        if rule is not None:
            return self._say(unit, "allow", f"the rule {rule.text!r} allows it", rule), FileGrant(
                rule, "anywhere", "inside"
            )
        if self.mode == "allow":
            return self._say(unit, "allow", "this is allowed where no rule says otherwise"), NO_GRANT
        tool = self.judge.tool
        return self._say(unit, "ask", self._why_not(unit), allow=suggest.suggest_command_rules(tool, unit)), NO_GRANT

    async def _only_reads(self, unit: AnalyzedCommand, asked: Verdict) -> Verdict:
        """The decision about a command that no rule is about: if all it does is read in the project, it may."""
        if not self.reads_free:
            return asked
        found = self._file_reads(unit)
        if found is None:
            return asked
        own = self.folders
        everywhere = list(dict.fromkeys([*own, *[f for one in found for f in await self._folders_of(one)]]))
        problem = await find_project_program(self.env, self.judge.place, unit.walk(), everywhere)
        if problem:
            return Verdict(asked.scope, asked.resource, "ask", problem, None, asked.allow, asked.remember)
        try:
            for one in found:
                self.folders = await self._folders_of(one)
                problem = await self._check_reading(unit, one)
                self.folders = own
                if problem:
                    reason = f"it reads, but {problem}"
                    return Verdict(asked.scope, asked.resource, "ask", reason, None, asked.allow, asked.remember)
        finally:
            self.folders = own
        return self._say(unit, "allow", READONLY_REASON)

    async def _folders_of(self, one: FileReads) -> list[str | None]:
        """The folders in which a command may open files."""
        if one.folder is None:
            return self.folders
        return list(dict.fromkeys([target.path or None for target in await self._look(one.folder.text)])) or [None]

    async def _check_reading(self, unit: AnalyzedCommand, one: FileReads) -> str:
        """Check what a command opens that only reads. Returns why it may do more; empty if it does not."""
        if one.git is not None and not self._reads_by_git:
            self._reads_by_git = True
            self._search_path = await search_path_outside(self.env, self.judge.place.root)
        drops_variables = one.git and any(u.words and program_name(u.words[0].text) == "env" for u in unit.walk())
        self._only_reading = self._only_reading and not drops_variables
        problem = await self._recursive_reads.problem(one, self.folders, self._look, self._expand_wildcards)
        for word in one.paths:
            await self._expand_wildcards(word.text)
            if word.text in self._too_broad_words:
                problem = problem or "it is not known which files its wildcards stand for"
        if not problem:
            for word in one.paths:
                await self._check_path("fs-read", word, NO_GRANT)
        return problem

    async def _check_reads_of_allowed(self, unit: AnalyzedCommand, allowed: Verdict) -> None:
        """What ignore files and rules about reading say about the files of a command that a rule allows."""
        for word in (word for inner in unit.walk() for word in words_like_options(inner)):
            found = await self._expand_wildcards(word.text)
            if word.text in self._too_broad_words or any(t.lexical[-1:][0].startswith("-") for t in found if t.lexical):
                reason = f"the word {word.source!r} may stand for a file that is named like an option"
                self._add(Verdict(allowed.scope, allowed.resource, "ask", reason))
        readings = self._file_reads(unit)
        if readings is None:
            readings = [found for inner in unit.walk() if (found := copying(inner))]
            for text in dict.fromkeys(text for inner in unit.walk() for text in plain_words_in_command(inner)):
                for target in await self._look(text):
                    self._add(self.paths.check_possible_path(target))
        own = self.folders
        for one in readings:
            self.folders = await self._folders_of(one)
            for word in one.paths:
                for target in [*await self._look(word.text), *await self._expand_wildcards(word.text)]:
                    self._add(self.paths.check_read_restrictions(target))
            problem = await self._recursive_reads_of_allowed.shows(
                one, self.folders, self._look, self._expand_wildcards
            )
            self.folders = own
            if problem:
                self._add(Verdict(allowed.scope, allowed.resource, "ask", problem))

    def _file_reads(self, unit: AnalyzedCommand) -> list[FileReads] | None:
        """What a command and those that it runs open; ``None`` if one of them is not known to only read."""
        if id(unit) in self.free:
            return []
        listed = find_xargs_reads(unit)
        if listed is not None:
            return listed
        if not unit.inner or unit.needs != "inner" or unit.unknown:
            own = find_readonly_reads(unit)
            return None if own is None else [own]
        found: list[FileReads] = []
        for inner in unit.inner:
            its = self._file_reads(inner)
            if its is None:
                return None
            found += its
        return found

    def _why_not(self, unit: AnalyzedCommand) -> str:
        reason = next((u.unknown for u in unit.walk() if u.unknown), "")
        if reason:
            return reason
        reason = self.judge.why_not_covered(unit)
        if not reason and unit.fixed > 1 and not unit.inner:
            return "it runs code, so only a rule that names it to the end allows it"
        return reason or "no rule allows it"

    def _restrict(self, effect: str, unit: AnalyzedCommand, found: RuleMatch) -> Verdict:
        if not found.certain:
            return self._say(unit, "ask", f"it may be what the rule {found.rule.text!r} is about", found.rule)
        if effect == "deny":
            return self._say(unit, "deny", f"the rule {found.rule.text!r} denies it", found.rule)
        return self._say(unit, "ask", f"the rule {found.rule.text!r} asks about it", found.rule)

    def _is_granted(self, unit: AnalyzedCommand) -> bool:
        return self._key(unit) in self.grants

    def _key(self, unit: AnalyzedCommand) -> GrantKey:
        """By what a grant of a command is known. The same words are another command in another folder, and with other things to read."""
        text = unit.text
        if self.folders != [self.judge.place.cwd]:
            text += "".join(f"\0{folder}" for folder in self.folders)
        bound = unit.piped or "$" in unit.text  # to the line that feeds it, or sets its variables
        return ("shell-run", f"{text}\0{self._source}" if bound else text)

    def _say(
        self,
        unit: AnalyzedCommand,
        outcome: Outcome,
        reason: str,
        rule: Rule | None = None,
        *,
        allow: tuple[str, ...] = (),
    ) -> Verdict:
        remember = None if unit.unknown else self._key(unit)
        return Verdict("shell-run", escape_invisible(unit.text, limit=2000), outcome, reason, rule, allow, remember)

    # --- files and hosts --------------------------------------------------------------------------------------------

    async def _redirect(self, redirect: Redirect) -> None:
        text = redirect.target.text
        network = _NETWORK_DEVICE.fullmatch(text)
        if network:
            self._check_host(f"{network[1]}:{network[2]}", seen=False)
        elif not _HARMLESS_DEVICE.fullmatch(text):
            bare = self.judge.allow_any_command_rule()
            cover = FileGrant(bare, "anywhere", "inside") if bare else NO_GRANT
            if self._whole is not None:
                cover = FileGrant(self._whole, "anywhere", "anywhere", "anywhere")
            scope = "fs-write" if redirect.writes else "fs-read"
            await self._check_path(scope, redirect.target, cover)

    async def _check_path(self, scope: str, word: Word, cover: FileGrant) -> None:
        if _HARMLESS_DEVICE.fullmatch(word.text):
            return
        for target in await self._look(word.text):
            self._add(self.paths.verdict(scope, target, cover))
        for target in await self._expand_wildcards(word.text):
            verdict = self.paths.verdict(scope, target, cover)
            self._add(None if verdict.outcome == "allow" else verdict)

    async def _look(self, text: str) -> list[ResolvedPath]:
        found: list[ResolvedPath] = []
        for folder in self.folders:
            key = (text, folder)
            if key not in self._targets:
                if len(self._targets) >= MAX_RESOLVED_PATHS:
                    self._too_many = True
                    return found
                self._targets[key] = await resolve_word(self.env, text, self.judge.place, folder)
            parts = self._targets[key].lexical
            self._linked = self._linked or any(parts[: len(link)] == link for link in self._links)
            found.append(self._targets[key])
        return found

    async def _expand_wildcards(self, text: str) -> list[ResolvedPath]:
        """What the wildcards of a word stand for right now."""
        if wildcards.ANY_CHAR not in text or wildcards.ANY_TEXT in text:
            return []
        key = (text, tuple(self.folders))
        if key not in self._expansions:
            found: list[ResolvedPath] = []
            for target in await self._look(text):
                paths = await expand_wildcards(self.env, target.real)
                if paths is None:
                    self._too_broad_words.add(text)
                    continue
                found += [await resolve_word(self.env, path, self.judge.place, None) for path in paths]
            self._expansions[key] = found
        return self._expansions[key]

    def _check_host(self, host: str, *, seen: bool) -> None:
        verdict = check_host(self.judge, self.mode, host, self.grants, by_tool=False)
        if not seen or verdict.rule is not None and verdict.outcome != "allow":
            self._add(verdict)

    def _add(self, verdict: Verdict | None) -> None:
        if verdict is not None and verdict not in self.verdicts:
            self.verdicts.append(verdict)


def _file_grant(rule: Rule) -> FileGrant:
    """What a rule that names a command says about its files: all where it names every word, else the project's."""
    exact = rule.pattern is not None and compile_command_pattern(rule.pattern).exact
    if exact:
        return FileGrant(rule, "anywhere", "anywhere", "anywhere")
    return FileGrant(rule, "inside" if rule.origin.kind == "default" else "anywhere", "inside", "inside")


def check_host(
    judge: RuleMatcher, mode: PermissionMode, host: str, grants: Collection[GrantKey], *, by_tool: bool = True
) -> Verdict:
    """The decision about a host."""
    remember = ("network", host)
    shown = escape_invisible(host.replace(wildcards.ANY_TEXT, "…"), limit=300)
    for effect in ("deny", "ask"):
        found = judge.restrict_scope(effect, "network") or judge.restrict_host(effect, host)
        if found is None or (effect == "ask" and remember in grants):
            continue
        verb = "denies it" if effect == "deny" else "asks about it"
        return Verdict("network", shown, effect, f"the rule {found.rule.text!r} {verb}", found.rule, remember=remember)
    rule = (
        judge.allow_host_rule(host)
        or judge.allow_scope_rule("network")
        or (judge.allow_call_rule() if by_tool else None)
    )
    if rule is not None:
        return Verdict("network", shown, "allow", f"the rule {rule.text!r} allows it", rule)
    if remember in grants or mode == "allow":
        return Verdict("network", shown, "allow", "this is allowed where no rule says otherwise")
    rules = suggest.suggest_host_rules(judge.tool if by_tool else "", host)
    return Verdict("network", shown, "ask", "no rule allows it", None, rules, remember)
