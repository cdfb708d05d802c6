"""Decide about a call from rules alone. Usable without an agent."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from mainspring.env import explain
from mainspring.env.protocol import check_in_thread
from mainspring.lazy import lazy_function
from mainspring.permissions.decisions import UNTOUCHED_REASON, PermissionDecision, Verdict, combine, strictest
from mainspring.permissions.path_checker import GrantKey, PathChecker, PermissionMode
from mainspring.permissions.path_patterns import split_path
from mainspring.permissions.paths import ProjectPaths, ResolvedPath, ResolvesPaths, resolve_path
from mainspring.permissions.rule_matcher import RuleMatcher
from mainspring.permissions.rules import FILE_TOOLS, RuleSet, parse_rule
from mainspring.permissions.sensitive_paths import SensitivePaths
from mainspring.shell_analysis.references import names_in_arguments, parse_host, paths_in_arguments
from mainspring.text import escape_invisible
from mainspring.tools import Access, Tool

if TYPE_CHECKING:
    from mainspring.env.types import FileStat
    from mainspring.permissions.command_checker import CommandChecker, check_host
    from mainspring.shell_analysis.commands import analyze
else:  # loading the analysis of commands takes as long as loading all the rest
    CommandChecker = lazy_function("mainspring.permissions.command_checker", "CommandChecker")
    analyze = lazy_function("mainspring.shell_analysis.commands", "analyze")
    check_host = lazy_function("mainspring.permissions.command_checker", "check_host")

if TYPE_CHECKING:
    from mainspring.permissions.suggestions import suggest_argument_rules
else:
    suggest_argument_rules = lazy_function("mainspring.permissions.suggestions", "suggest_argument_rules")

MAX_SUGGESTED_RULES = 20
"""Maximum number of rules in a suggestion. A longer one is not useful, and trying it takes time that is quadratic in its length."""

MAX_SUGGESTION_CHECKS = 400
"""Maximum number of verdicts that the trials for a minimal suggestion may take; with more, the suggestion may contain unneeded rules."""

MAX_MENTIONS = 200
"""Maximum number of strings of a call that are checked as possible paths; a call with more asks."""

FOLDER_ARGUMENTS = ("cwd", "workdir", "directory")
"""Arguments that name the folder in which a command runs."""


REQUIRES_APPROVAL = "the tool requires an approval"
"""Reason of a decision that no rule can change."""


class ToolCall(Struct, frozen=True):
    """A tool call to decide about.

    Attributes:
        tool: Name of the tool.
        arguments: Its arguments.
        definition: The tool itself, which declares what a call touches; ``None`` if unknown.
    """

    tool: str
    arguments: Mapping[str, Any]
    definition: Tool | None = None


class PermissionEngine(Struct, frozen=True):
    """Engine that decides about calls.

    Attributes:
        rules: The rules of all sources.
        mode: The default where no rule matches.
        sensitive: Paths that always ask.
        reads_free: Whether, in the mode ``defaults``, commands that only read in the project need no rule.
        accept_edits: Whether the built-in edit tools may write in the project without a rule. Deletions, commands, sensitive and
            guarded paths, and everything that a rule asks about or denies are decided as before.
    """

    rules: RuleSet = RuleSet()
    mode: PermissionMode = "defaults"
    sensitive: SensitivePaths = SensitivePaths.default()
    reads_free: bool = True
    accept_edits: bool = False

    async def decide(
        self,
        call: ToolCall,
        env: ResolvesPaths,
        place: ProjectPaths,
        *,
        original: Mapping[str, Any] | None = None,
        grants: Collection[GrantKey] = (),
    ) -> PermissionDecision:
        """Decide about a call.

        Args:
            call: The call as it will run.
            env: Environment in which it will run.
            place: The project and the home folder.
            original: The arguments as the model wrote them; the stricter decision of the two forms applies.
            grants: Grants of the session.
        """
        decision = await _CallCheck(self, call, env, place, grants).decide()
        if original is None or original == call.arguments or decision.outcome == "deny":
            return decision
        first = ToolCall(call.tool, original, call.definition)
        if declared_access(first) is None and call.definition is not None and call.definition.access is not None:
            return decision  # that form declares nothing; the form that runs was checked
        return strictest(decision, await _CallCheck(self, first, env, place, grants, final=False).decide())

    async def suggest_rules(
        self,
        decision: PermissionDecision,
        call: ToolCall,
        env: ResolvesPaths,
        place: ProjectPaths,
        *,
        original: Mapping[str, Any] | None = None,
        grants: Collection[GrantKey] = (),
    ) -> tuple[tuple[str, ...], ...]:
        """Find the rules that would allow a call which asks, by trying them.

        The other arguments are those of `decide`.

        Returns:
            Minimal sets of rules, each of which allows the whole call; the narrowest set first. None if no rules would allow it.
        """

        async def enough(texts: tuple[str, ...]) -> bool:
            more = RuleSet(tuple([parse_rule(text, "allow") for text in texts]))
            engine = structs.replace(self, rules=self.rules + more)
            return (await engine.decide(call, env, place, original=original, grants=grants)).outcome == "allow"

        offered = [v.allow for v in decision.needs_answer if v.allow]
        found: list[tuple[str, ...]] = []
        for end in (0, -1):
            rules = tuple(dict.fromkeys(each[end] for each in offered))
            if not 0 < len(rules) <= MAX_SUGGESTED_RULES or not await enough(rules):
                continue
            is_short = len(rules) * len(decision.verdicts) <= MAX_SUGGESTION_CHECKS
            # The command must be allowed before the files that it touches.
            for rule in reversed(rules) if is_short and len(rules) > 1 else ():
                fewer = tuple([r for r in rules if r != rule])
                if fewer and await enough(fewer):
                    rules = fewer
            if rules not in found:
                found.append(rules)
        return tuple(found)

    async def is_unreadable(self, path: str, place: ProjectPaths) -> bool:
        """Return True if an ignore file or a deny rule keeps every tool from reading a path.

        Ask rules do not matter.

        Args:
            path: The resolved path.
            place: The project and the home folder.
        """
        parts = split_path(path)
        target = ResolvedPath(path, parts, parts, path, hidden=await place.ignore_files.ignored_by(parts))
        found = PathChecker(RuleMatcher(self.rules, "read_file", place), self.mode, self.sensitive, ()).check_mention(
            target
        )
        return found is not None and found.outcome == "deny"

    async def can_show(self, path: str, place: ProjectPaths, grants: Collection[GrantKey]) -> bool:
        """Return True if a search through a folder may show the content of a file.

        Args:
            path: The resolved path of the file.
            place: The project and the home folder.
            grants: Grants of the session.
        """
        judge = PathChecker(RuleMatcher(self.rules, "grep", place), self.mode, self.sensitive, grants)
        parts = split_path(path)
        return (
            judge.check_mention(
                ResolvedPath(path, parts, parts, path, hidden=await place.ignore_files.ignored_by(parts))
            )
            is None
        )


def _is_edit_tool(call: ToolCall) -> bool:
    """Return True if a call is one of a built-in tool that edits files.

    Another tool may only share its name.
    """
    built_in = call.definition is not None and call.definition.source == "builtin"
    return built_in and FILE_TOOLS.get(call.tool) == "fs-write"


def declared_access(call: ToolCall) -> tuple[Access, ...] | None:
    """Return what a call declares to touch; None if it does not or cannot declare it."""
    if call.definition is None or call.definition.access is None:
        return None
    try:
        return tuple(call.definition.access(call.arguments))
    except Exception:  # noqa: BLE001 - the tool's own code may raise on invalid arguments
        return None


def rule_argument(arguments: Mapping[str, Any]) -> str:
    """Return the text that the pattern of a rule is matched against for a tool that does not declare what it touches.

    The text is the only argument if it is a string, else all arguments as JSON with sorted keys and no spaces.
    """
    if len(arguments) == 1:
        only = next(iter(arguments.values()))
        if isinstance(only, str):
            return only
    return json.dumps(arguments, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)


class _CallCheck:
    """The state of the decision about one call."""

    def __init__(
        self,
        engine: PermissionEngine,
        call: ToolCall,
        env: ResolvesPaths,
        place: ProjectPaths,
        grants: Collection[GrantKey],
        *,
        final: bool = True,
    ) -> None:
        self.is_final_form = final
        self.engine = engine
        self.call = call
        self.env = env
        self.place = place
        self.grants = grants
        former_names = call.definition.former_names if call.definition is not None else ()
        self.judge = RuleMatcher(engine.rules, call.tool, place, former_names)
        edits = engine.accept_edits and _is_edit_tool(call)
        self.paths = PathChecker(self.judge, engine.mode, engine.sensitive, grants, edits=edits)
        self.verdicts: list[Verdict] = []
        self.resolved: dict[str, str] = {}
        self.environment: dict[str, str] = {}

    async def decide(self) -> PermissionDecision:
        argument = escape_invisible(rule_argument(self.call.arguments), limit=300)
        denied = self.judge.restrict_call("deny")
        if denied is not None:
            reason = f"the rule {denied.rule.text!r} denies every call"
            return combine(self.call.tool, [Verdict("tool", argument, "deny", reason, denied.rule)], {})
        asks = self.judge.restrict_call("ask")
        remember = ("tool", f"{self.call.tool} {rule_argument(self.call.arguments)}")
        if asks is not None and remember not in self.grants:
            reason = f"the rule {asks.rule.text!r} asks about every call"
            self.verdicts.append(Verdict("tool", argument, "ask", reason, asks.rule, remember=remember))
        elif self.call.definition is not None and self.call.definition.needs_approval(self.call.arguments):
            if remember not in self.grants:
                reason = REQUIRES_APPROVAL
                self.verdicts.append(Verdict("tool", argument, "ask", reason, remember=remember))
        touched = declared_access(self.call)
        if touched is None:
            await self._check_undeclared(argument, remember)
        elif not touched:
            await self._check_harmless(argument, remember)
        await self._check_accesses(touched or ())
        if not self.verdicts:
            self._check_no_access(argument, remember)
        return combine(self.call.tool, self.verdicts, self.resolved, self.environment)

    async def _check_accesses(self, accesses: Sequence[Access]) -> None:
        for are_paths, group in groupby(accesses, lambda access: access.scope not in ("shell-run", "network")):
            if are_paths:
                await check_in_thread(self.env, partial(self._check_paths, tuple(group)))
                continue
            for access in group:
                if access.scope == "shell-run":
                    await self._check_command(access.resource)
                else:
                    self._check_url(access.resource)

    async def _check_paths(self, accesses: Sequence[Access]) -> None:
        for access in accesses:
            await self._check_path(access)

    async def _check_path(self, access: Access) -> None:
        try:
            target = await resolve_path(self.env, access.resource, self.place)
        except (OSError, ValueError) as error:
            if not self.is_final_form:
                return  # the original arguments may have any form; the form that runs was checked
            why = explain(error) if isinstance(error, OSError) else str(error)
            reason = f"the path cannot be resolved: {escape_invisible(why, limit=200)}"
            self.verdicts.append(
                Verdict(access.scope, escape_invisible(access.resource, limit=300) or "''", "deny", reason)
            )
            return
        self.resolved[access.resource] = target.path
        paths = self.paths
        if paths.edits and access.scope == "fs-write" and await _acts_elsewhere(self.env, target, self.place):
            paths = structs.replace(paths, edits=False)
        self.verdicts.append(paths.check(access.scope, target))

    async def _check_command(self, source: str) -> None:
        paths = PathChecker(self.judge, self.engine.mode, self.engine.sensitive, self.grants, by_tool=False)
        folder: str | None = self.place.cwd
        for name in FOLDER_ARGUMENTS:
            value = self.call.arguments.get(name)
            if isinstance(value, str) and value:
                folder = await self._folder(value)
        free = self.engine.reads_free
        checker = CommandChecker(
            self.judge, self.engine.mode, paths, self.env, self.grants, folder, allow_readonly=free
        )
        found = await checker.check_line(analyze(source), source)
        self.environment |= checker.environment
        self.verdicts += found or [Verdict("shell-run", escape_invisible(source, limit=300), "allow", "it is empty")]

    async def _folder(self, text: str) -> str | None:
        try:
            target = await resolve_path(self.env, text, self.place)
        except (OSError, ValueError):
            return None
        self.resolved[text] = target.path
        return target.path

    def _check_url(self, url: str) -> None:
        host = parse_host(url)
        if host is None:
            reason = "its host cannot be determined"
            self.verdicts.append(Verdict("network", escape_invisible(url, limit=300), "ask", reason))
        else:
            self.verdicts.append(check_host(self.judge, self.engine.mode, host, self.grants))

    async def _check_undeclared(self, argument: str, remember: GrantKey) -> None:
        """Check a call of a tool that does not declare what it touches: its name, its argument, and paths in its argument."""
        await self._check_seen(argument)
        if self._is_restricted(argument, remember):
            return
        text = rule_argument(self.call.arguments)
        rule = self.judge.allow_argument_rule(text) or self.judge.allow_call_rule()
        if rule is not None:
            self.verdicts.append(Verdict("tool", argument, "allow", f"the rule {rule.text!r} allows it", rule))
        elif self.engine.mode == "allow" or remember in self.grants:
            self.verdicts.append(Verdict("tool", argument, "allow", "the permission mode allows it"))
        else:
            rules = suggest_argument_rules(self.call.tool, text)
            reason = "the tool does not declare what it touches"
            self.verdicts.append(Verdict("tool", argument, "ask", reason, None, rules, remember))

    async def _check_harmless(self, argument: str, remember: GrantKey) -> None:
        """Check a call that declares to touch nothing.

        An MCP server declares that itself, so the paths in its arguments are checked, too.
        """
        definition = self.call.definition
        if definition is not None and definition.source not in ("builtin", "user"):
            await self._check_seen(argument)
        self._is_restricted(argument, remember)

    async def _check_seen(self, argument: str) -> None:
        """Check the paths that a call seems to name against ignore files, rules, and sensitive paths."""
        paths = dict.fromkeys(paths_in_arguments(self.call.arguments))
        names = dict.fromkeys(names_in_arguments(self.call.arguments))

        async def check() -> None:
            for seen in islice(paths, MAX_MENTIONS):
                await self._check_mention(seen)
            for seen in islice(names, MAX_MENTIONS):
                await self._check_mention(seen, plain=True)

        await check_in_thread(self.env, check)
        if len(paths) > MAX_MENTIONS or (len(names) > MAX_MENTIONS and self.judge.has_read_restrictions()):
            self.verdicts.append(Verdict("tool", argument, "ask", "it names too many paths to check"))

    def _is_restricted(self, argument: str, remember: GrantKey) -> bool:
        """Return True if a rule denies or asks about the argument of a call, and record its verdict."""
        text = rule_argument(self.call.arguments)
        for effect in ("deny", "ask"):
            found = self.judge.restrict_argument(effect, text)
            if found is not None and not (effect == "ask" and remember in self.grants):
                verb = "denies it" if effect == "deny" else "asks about it"
                reason = f"the rule {found.rule.text!r} {verb}"
                self.verdicts.append(Verdict("tool", argument, effect, reason, found.rule, remember=remember))
                return True
        return False

    async def _check_mention(self, text: str, *, plain: bool = False) -> None:
        try:
            target = await resolve_path(self.env, text, self.place)
        except (OSError, ValueError):
            return
        verdict = self.paths.check_possible_path(target) if plain else self.paths.check_mention(target)
        if verdict is not None:
            self.verdicts.append(verdict)

    def _check_no_access(self, argument: str, remember: GrantKey) -> None:
        """Check a call that touches nothing, or declares so."""
        rule = self.judge.allow_call_rule() or self.judge.allow_argument_rule(rule_argument(self.call.arguments))
        if rule is None and self.engine.mode == "ask" and remember not in self.grants:
            rules = (self.call.tool,)
            self.verdicts.append(
                Verdict("tool", argument, "ask", "the permission mode asks about every call", None, rules, remember)
            )
        else:
            self.verdicts.append(Verdict("tool", argument, "allow", UNTOUCHED_REASON, rule))


async def _acts_elsewhere(env: ResolvesPaths, target: ResolvedPath, place: ProjectPaths) -> bool:
    """Return True if a change of a file in the project also changes something else.

    A file with a second hard link changes under both names, and a file in a bare repository can be a git hook.
    """
    stat = getattr(env, "stat", None)
    if stat is None or not target.is_inside(place):
        return False

    async def find(path: str) -> FileStat | None:
        try:
            return await stat(path)
        except (OSError, ValueError):
            return None

    found = await find(target.path)
    if found is not None and found.kind == "file" and found.links > 1:
        return True
    for end in range(len(place.root), len(target.real)):
        folder = "/" + "/".join(target.real[:end])
        if await find(f"{folder}/HEAD") and await find(f"{folder}/objects") and await find(f"{folder}/refs"):
            return True
    return False
