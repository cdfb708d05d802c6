"""The permissions plugin: decide in `tool:permit`, ask the user where the rules require it, and remember grants for the session."""

from __future__ import annotations

import asyncio
import copy
import inspect
import warnings
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, get_args

from msgspec import Struct, structs
from msgspec.structs import replace

from mainspring.errors import ConfigError, ConfigWarning, check_option_names, format_exception
from mainspring.lazy import lazy_function
from mainspring.locks import LoopLock
from mainspring.loop.hooks import BeforeToolRun, PermissionCheck, SessionStart
from mainspring.permissions.decisions import SCOPE_VERBS, PermissionDecision, PermissionRequest, Reply, SessionGrant
from mainspring.permissions.engine import REQUIRES_APPROVAL, PermissionEngine, ToolCall
from mainspring.permissions.path_checker import GrantKey, PermissionMode
from mainspring.permissions.path_patterns import split_path
from mainspring.permissions.paths import ProjectPaths, ResolvesPaths
from mainspring.permissions.rules import PermissionRule, RuleSet, describe_unused_rules
from mainspring.permissions.sensitive_paths import SensitivePaths
from mainspring.text import escape_invisible
from mainspring.threads import run_in_thread
from mainspring.tools import Tool
from mainspring.tools.names import ALL_TOOL_NAMES

if TYPE_CHECKING:
    from mainspring.env import ExecutionEnv
    from mainspring.env.types import PathFilter
    from mainspring.loop import CoreAgent
    from mainspring.tools.support.editing.preview import Preview, preview_changes
else:  # loaded for the first approval
    Preview = lazy_function("mainspring.tools.support.editing.preview", "Preview")
    preview_changes = lazy_function("mainspring.tools.support.editing.preview", "preview_changes")

Answer = bool | Literal["session"] | Reply
"""Response to an approval of one call.

``"session"`` allows everything in the request until the session ends.
"""

PermissionCallback = Callable[[PermissionRequest], Answer | Awaitable[Answer]]
"""Callback that asks the user.

Sync or async; a sync callback runs in a thread, so that it may block.
"""

_PREVIEW_CHECK_ORDER = 90
"""Before a session records that a tool started."""

OnDeny = Literal["continue", "stop"]
"""After a denied call: the model receives the reason and continues, or the run stops."""


UnattendedMode = Literal["deny", "pause"]
"""If no user can be asked: the call is denied, or the run pauses until a user can respond."""


class PermissionOptions(TypedDict, total=False):
    """The less common options of `Permissions`."""

    unattended: UnattendedMode
    ask_timeout: float | None
    root: str | None
    home: str | None
    sensitive: Iterable[str]
    guarded: Iterable[str]
    reads_free: bool
    on_decision: Callable[[str, PermissionDecision], object]


_OPTIONS = ("allow", "ask", "deny", "rules", "mode", "on_permission_request", "on_deny")


class Permissions:
    """Plugin that decides which tool calls may run. Without it, every call may.

    Args:
        allow: Rules that allow; docs/permission-rules.md describes their syntax.
        ask: Rules that ask.
        deny: Rules that deny. Over all sources, deny overrides ask, and ask overrides allow.
        rules: Rules of other sources, such as settings files.
        mode: The default where no rule matches.
        on_permission_request: Callback that asks the user. Without it, a call that would ask is denied, with a reason that describes how to
            allow it.
        on_deny: Whether the run stops at a denied call.
        **options: ``unattended``: if no user can be asked, ``deny`` the call or ``pause`` the run, so that it can resume where a user
            can respond. ``ask_timeout``: seconds to wait for an approval. ``root``: the project's folder (default: the environment's
            own). ``home``: the user's home folder (default: the environment's own). ``sensitive``, ``guarded``: more paths that
            always ask, or that ask before a change, as globs at any depth or absolute. ``reads_free``: whether commands that only read
            in the project need no rule in the mode ``defaults`` (default: they need one). ``on_decision``: callback that receives each
            decision with the ID of the call; the outcome is the final one, after an approval.

    Raises:
        ConfigError: If a rule is invalid, or an option has an invalid value.
        TypeError: If an option is unknown.
    """

    def __init__(
        self,
        *,
        allow: Iterable[str] = (),
        ask: Iterable[str] = (),
        deny: Iterable[str] = (),
        rules: RuleSet | None = None,
        mode: PermissionMode = "defaults",
        on_permission_request: PermissionCallback | None = None,
        on_deny: OnDeny = "continue",
        **options: Unpack[PermissionOptions],
    ) -> None:
        check_option_names("Permissions", options, (*_OPTIONS, *PermissionOptions.__optional_keys__) if options else ())
        unattended = options.get("unattended", "deny")
        for name, value, known in (
            ("mode", mode, PermissionMode),
            ("on_deny", on_deny, OnDeny),
            ("unattended", unattended, UnattendedMode),
        ):
            if value not in get_args(known):
                raise ConfigError(
                    f"Invalid value of the permissions option {name}: {value!r}. Use {' or '.join(map(repr, get_args(known)))}."
                )
        for name, request in (
            ("on_permission_request", on_permission_request),
            ("on_decision", options.get("on_decision")),
        ):
            if request is not None and not callable(request):
                raise ConfigError(f"The permissions option {name} must be a function, not {request!r:.80}.")
        for name in ("sensitive", "guarded"):
            if isinstance(options.get(name, ()), str):  # a string would be split into one pattern for each letter
                raise ConfigError(
                    f'The permissions option {name} must be a list of patterns, for example, {name}=["**/*.key"].'
                )
        sensitive = SensitivePaths.default(secret=options.get("sensitive", ()), guarded=options.get("guarded", ()))
        own_rules = RuleSet.build(allow=allow, ask=ask, deny=deny)
        free = options.get("reads_free", True)
        self.on_permission_request = on_permission_request
        self.on_deny: OnDeny = on_deny
        self.unattended: UnattendedMode = unattended
        self.ask_timeout = options.get("ask_timeout")
        self.root = options.get("root")
        self.home = options.get("home")
        self.on_decision = options.get("on_decision")
        engine = PermissionEngine(
            rules=own_rules + (rules or RuleSet()), mode=mode, sensitive=sensitive, reads_free=free
        )
        self._own_rules = own_rules
        self._tools = {*ALL_TOOL_NAMES}
        self._warned: set[str] = set()
        self._session = _SessionGrants(engine)
        self._place: tuple[ResolvesPaths, ProjectPaths] | None = None
        self._agent = ""

    def install(self, agent: CoreAgent) -> None:
        """Add the handler of `tool:permit` to an agent."""
        self._agent = agent.name
        if any(rule.tool for rule in self._own_rules):
            agent.on(SessionStart, lambda _: self._warn(agent))
        agent.on(PermissionCheck, self.on_tool_permit)
        agent.on(BeforeToolRun, self.judge_again, order=_PREVIEW_CHECK_ORDER - 1)
        agent.on(BeforeToolRun, self.on_tool_start, order=_PREVIEW_CHECK_ORDER)

    @property
    def problems(self) -> tuple[str, ...]:
        """Return the rules that match no tool and so have no effect.

        A rule matches no tool if no built-in tool has its name, and no tool that an agent with these permissions had when a run
        started. Rules for tools of MCP servers are not checked. When a run starts, each rule is reported once as a `ConfigWarning`; a
        tool that is added later ends the problem with the next run.
        """
        return describe_unused_rules(self._own_rules, sorted(self._tools))

    def _warn(self, agent: CoreAgent) -> None:
        self._tools.update(t.name for t in (*agent.tools, *getattr(agent, "known_tools", ())))
        for text in self.problems:
            if text not in self._warned:
                self._warned.add(text)
                warnings.warn(text, ConfigWarning, stacklevel=2)

    @property
    def engine(self) -> PermissionEngine:
        """Return the engine with the rules that currently apply."""
        return self._session.engine

    @engine.setter
    def engine(self, engine: PermissionEngine) -> None:
        self._session.engine = engine

    def add(self, *rules: PermissionRule) -> None:
        """Add rules from the next decision on, for subagents too."""
        engine = self._session.engine
        self._session.engine = structs.replace(engine, rules=engine.rules + RuleSet(rules))

    def remove(self, *rules: PermissionRule) -> None:
        """Remove the given rules from the next decision on, for subagents too."""
        engine = self._session.engine
        others = tuple([r for r in engine.rules if not any(r is each for each in rules)])
        self._session.engine = structs.replace(engine, rules=RuleSet(others))

    @property
    def accept_edits(self) -> bool:
        """Return True if the built-in edit tools may write in the project without a rule, for subagents too."""
        return self.engine.accept_edits

    @accept_edits.setter
    def accept_edits(self, accept: bool) -> None:
        self.engine = structs.replace(self.engine, accept_edits=accept)

    @property
    def session_grants(self) -> tuple[SessionGrant, ...]:
        """Return the grants of the session, the oldest first."""
        return tuple(self._session.grants.values())

    def grant_for_session(self, decision: PermissionDecision) -> None:
        """Allow what a decision asked about until the session ends, for subagents too."""
        self._session.remember(decision, everything=True)

    def revoke(self, grant: SessionGrant) -> None:
        """Revoke grants of the session from the next decision on, for subagents too."""
        self._session.grants.pop(grant.key, None)

    def for_child(self) -> Permissions:
        """Return the permissions of a subagent: the same rules, user, and grants, never more than its parent has."""
        return copy.copy(self)

    def for_conversation(self) -> Permissions:
        """Return the permissions of another conversation: the same rules and user, with its own grants."""
        other: Permissions = copy.copy(self)
        other._session = _SessionGrants(self.engine)
        return other

    @contextmanager
    def temporary_rules(self, *rules: PermissionRule) -> Generator[None]:
        """Add rules while the context is open, for subagents too."""
        self.add(*rules)
        try:
            yield
        finally:
            self.remove(*rules)

    async def decide(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        env: ResolvesPaths,
        definition: Any = None,
        original: Mapping[str, Any] | None = None,
        advise: bool = False,
    ) -> PermissionDecision:
        """Return the decision about a call, without asking the user.

        Args:
            tool: Name of the tool.
            arguments: The arguments as they will be used.
            env: Environment in which the tool will work.
            definition: The tool itself, if known.
            original: The arguments as the model wrote them.
            advise: Whether to find the rules that would allow a call that asks; that decides about the call several times.
        """
        call = ToolCall(tool, arguments, definition)
        place = await self._project_paths(env)
        grants = frozenset(self._session.grants)
        decision = await self.engine.decide(call, env, place, original=original, grants=grants)
        if not advise or decision.outcome != "ask":
            return decision
        found = await self.engine.suggest_rules(decision, call, env, place, original=original, grants=grants)
        return replace(decision, advice=found)

    async def unreadable_paths(self, env: ExecutionEnv, *, limit: int = 50_000) -> tuple[str, ...]:
        """Return the paths of the project that ignore files and deny rules hide from tools.

        A sandbox hides them from programs.

        Args:
            env: Environment in which tools work.
            limit: Maximum number of names that are checked.

        Returns:
            Resolved paths, sorted; for a folder that is hidden as a whole, only the folder.
        """
        place = await self._project_paths(env)
        root = "/" + "/".join(place.root)
        walk = await env.walk(root, include_ignored=True, limit=limit)
        found: list[str] = []
        for entry in walk.entries:
            path = f"{root.rstrip('/')}/{entry.path}"
            if found and path.startswith(f"{found[-1]}/"):
                continue
            if await self.engine.is_unreadable(path, place):
                found.append(path)
        return tuple(found)

    async def on_tool_permit(self, context: PermissionCheck) -> None:
        """Decide about a call that is about to run. The handler of `tool:permit`."""
        decision = await self._permit(context)
        if self.on_decision is not None and not context.paused and not context.skip_reason:
            self.on_decision(context.call_id, replace(decision, outcome="deny" if context.denied else "allow"))

    async def _permit(self, context: PermissionCheck) -> PermissionDecision:
        changes = self._session.changes
        decision = await self._decide(context)
        if decision.outcome == "ask":
            async with (
                self._session.questions.current()
            ):  # one approval at a time: a grant may also allow the call that waits next
                changes = self._session.changes
                decision = await self._decide(context, advise=True)
                if decision.outcome == "ask" and (
                    await context.will_be_skipped() or not await self._ask_user(decision, context)
                ):
                    return decision
        if decision.outcome == "deny":
            context.deny(denial_message(decision), stop=self.on_deny == "stop")
            return decision
        self._session.judged[self._agent, context.call_id] = _JudgedCall(
            context.tool, context.original, context.env, decision, changes
        )
        self._filter_searches(context.env, await self._project_paths(context.env))
        context.confirm()
        for spelled, real in decision.paths.items():
            context.bind_path(spelled, real)
        context.set_environment(decision.environment)
        return decision

    async def _decide(self, context: PermissionCheck, *, advise: bool = False) -> PermissionDecision:
        return await self.decide(
            context.name,
            context.input,
            env=context.env,
            definition=context.tool,
            original=context.original,
            advise=advise,
        )

    async def _ask_user(self, decision: PermissionDecision, context: PermissionCheck) -> bool:
        """Return True if the user allows the call; otherwise deny it."""
        stop = self.on_deny == "stop"
        if self.on_permission_request is None:
            if self.unattended == "pause":
                context.pause(permission_question(decision))
            else:
                context.deny(
                    f"{permission_question(decision)}, but no user can be asked. {allow_hint(decision)}", stop=stop
                )
            return False
        tried = await self._preview_call(decision, context)
        if tried is not None and tried.is_tool_error and await self._can_report(decision, context):
            self._approve_preview(tried, decision, context)  # nothing will be written: `on_tool_start` checks that
            return True
        is_once = context.tool.is_approved_per_call
        request = replace(
            build_request(replace(decision, advice=()) if is_once else decision, context.input),
            call_id=context.call_id,
            agent=self._agent,
            preview=tried,
            is_edit=await self._is_edit(context),
            is_once=is_once,
        )
        try:
            answer = await asyncio.wait_for(_ask(self.on_permission_request, request), self.ask_timeout)
        except TimeoutError:
            context.deny(f"{permission_question(decision)}, but the approval timed out.", stop=stop)
            return False
        except Exception as error:  # noqa: BLE001 - any exception of the application's callback denies the call
            context.deny(
                f"{permission_question(decision)}, but the approval request failed ({format_exception(error)}).",
                stop=stop,
            )
            return False
        reply = answer if isinstance(answer, Reply) else Reply(allow=answer is True or answer == "session")
        if reply.pause and not context.approved:
            context.pause(permission_question(decision))
            return False
        if reply.allow:
            is_session = not is_once and (reply.session or answer == "session")
            each_time = context.tool.preview is not None  # each call writes another text, which the user must see
            self._session.remember(decision, everything=is_session, each_time=each_time)
            if tried is not None:
                self._approve_preview(tried, decision, context)
            return True
        suffix = f": {reply.reason}" if reply.reason else "."
        context.deny(f"{permission_question(decision)}, and the user denied it{suffix}", stop=stop or reply.stop)
        return False

    async def _can_report(self, decision: PermissionDecision, context: PermissionCheck) -> bool:
        """Return True if the error of an edit reveals only files of the project that the agent may read."""
        place, grants = await self._project_paths(context.env), frozenset(self._session.grants)
        paths = decision.paths.values() if context.tool.preview is None else ()
        is_inside = all(split_path(path)[: len(place.root)] == place.root for path in paths)
        is_shown = [is_inside and await self.engine.can_show(path, place, grants) for path in paths]
        return bool(is_shown) and all(is_shown)

    def _approve_preview(self, tried: Preview, decision: PermissionDecision, context: PermissionCheck) -> None:
        key = self._agent, context.call_id
        self._session.approved_previews[key] = (context.tool, tried, context.env, decision.paths)

    async def _is_edit(self, context: PermissionCheck) -> bool:
        """Return True if allowing all edits in the project would allow a call that asks."""
        place = await self._project_paths(context.env)
        engine = structs.replace(self.engine, accept_edits=True)
        call, grants = ToolCall(context.name, context.input, context.tool), frozenset(self._session.grants)
        decision = await engine.decide(call, context.env, place, original=context.original, grants=grants)
        return decision.outcome == "allow"

    async def _preview_call(self, decision: PermissionDecision, context: PermissionCheck) -> Preview | None:
        try:
            return await preview_changes(context.tool, context.input, context.env, decision.paths)
        except (OSError, ValueError) as error:  # which the model receives when the call runs
            return Preview(problem=format_exception(error))

    async def judge_again(self, hook: BeforeToolRun) -> None:
        """Decide again about a call if another call may have changed files since its decision. The handler of `tool:start`.

        The calls of a turn are decided about before the first of them runs. One may create a link, or a repository, that another one reads.
        """
        judged = self._session.judged.pop((self._agent, hook.call_id), None)
        if judged is None:
            return
        first = judged.decision
        if judged.changes != self._session.changes:
            now = await self.decide(
                hook.name, hook.input, env=judged.env, definition=judged.tool, original=judged.original
            )
            is_same = all(v in first.needs_answer for v in now.needs_answer) and now.environment == first.environment
            if now.outcome == "deny" or not is_same:
                hook.block = (
                    "another call changed files after this one was approved, so this call may now do something else. Make the call "
                    f"again: {now.reason}"
                )
                return
        if not first.only_reads:
            self._session.changes += 1

    async def on_tool_start(self, hook: BeforeToolRun) -> None:
        """Check that a call writes exactly the approved change. The handler of `tool:start`."""
        shown = self._session.approved_previews.pop((self._agent, hook.call_id), None)
        if shown is None:
            return
        tool, before, env, paths = shown
        now = await preview_changes(tool, hook.input, env, paths)
        fails = bool(now and now.problem and before.problem)  # any error means that nothing will be written
        if not fails and (now is None or not before.has_same_changes(now)):
            hook.block = (
                "the file changed after this call was approved, so the call would do something else. Nothing was changed; "
                "read the file again and make the call again"
            )

    def _filter_searches(self, env: ExecutionEnv, place: ProjectPaths) -> None:
        """Make searches through folders omit content that a read of the file itself would not be allowed to show."""
        guard = env.path_filter if isinstance(env.path_filter, _SearchFilter) else _SearchFilter(env.path_filter)
        env.path_filter = guard.with_session(self._session, place)

    async def _project_paths(self, env: ResolvesPaths) -> ProjectPaths:
        if self._place is None or self._place[0] is not env:
            self._place = (env, await ProjectPaths.find(env, root=self.root, home=self.home))
        return self._place[1]


class _JudgedCall(Struct, frozen=True):
    """A call that may run, and the number of earlier calls that may have changed files."""

    tool: Tool
    original: Mapping[str, Any]
    env: ExecutionEnv
    decision: PermissionDecision
    changes: int


class _SessionGrants:
    """The grants and the queue of approvals; shared with subagents."""

    def __init__(self, engine: PermissionEngine) -> None:
        self.engine = engine
        self.grants: dict[GrantKey, SessionGrant] = {}
        self.approved_previews: dict[tuple[str, str], tuple[Tool, Preview, ExecutionEnv, Mapping[str, str]]] = {}
        self.judged: dict[tuple[str, str], _JudgedCall] = {}
        self.changes = 0
        self.questions = LoopLock()  # one approval at a time

    def remember(self, decision: PermissionDecision, *, everything: bool, each_time: bool = False) -> None:
        for verdict in decision.needs_answer:
            if verdict.remember is not None and (everything or (verdict.lasting and not each_time)):
                grant = SessionGrant(verdict.remember, SCOPE_VERBS[verdict.scope], verdict.resource)
                self.grants.setdefault(verdict.remember, grant)


class _SearchFilter:
    """Filter of search results; the rules of all sessions that share an environment apply."""

    def __init__(self, other: PathFilter | None, *members: tuple[_SessionGrants, ProjectPaths]) -> None:
        self._other = other
        self._members = members

    def with_session(self, session: _SessionGrants, place: ProjectPaths) -> _SearchFilter:
        if any(member[0] is session for member in self._members):
            return self
        return _SearchFilter(self._other, *self._members, (session, place))

    async def __call__(self, path: str) -> bool:
        if self._other is not None:
            answer = self._other(path)
            if not (await answer if inspect.isawaitable(answer) else answer):
                return False
        for session, place in self._members:
            if not await session.engine.can_show(path, place, session.grants):
                return False
        return True


async def _ask(callback: PermissionCallback, request: PermissionRequest) -> Answer:
    if inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(getattr(callback, "__call__", None)):
        answer = callback(request)
    else:
        answer = await run_in_thread(callback, request)
    return await answer if inspect.isawaitable(answer) else answer


def build_request(decision: PermissionDecision, arguments: Mapping[str, Any]) -> PermissionRequest:
    """Build the approval request for a decision."""
    request = decision.needs_answer
    first = next((v for v in request if v.scope == "shell-run"), request[0])
    resource = first.resource
    if first.scope == "shell-run" and isinstance(arguments.get("command"), str):
        resource = escape_invisible(arguments["command"])
    return PermissionRequest(
        scope=first.scope,
        resource=resource,
        action=SCOPE_VERBS[first.scope],
        tool=decision.tool,
        input=copy.deepcopy(dict(arguments)),
        reason=decision.ask_reason,
        verdicts=request,
        suggestions=decision.advice[0] if decision.advice else (),
        wider=decision.advice[-1] if decision.advice else (),
    )


def denial_message(decision: PermissionDecision) -> str:
    """Return the message to the model about a call that a rule denies."""
    denied = next(v for v in decision.verdicts if v.outcome == "deny")
    place = f" ({denied.rule.origin})" if denied.rule is not None else ""
    return f"{decision.tool} may not {SCOPE_VERBS[denied.scope]} {denied.resource}: {denied.reason}{place}."


def permission_question(decision: PermissionDecision) -> str:
    """Return the sentence that names the needed permission, without its end."""
    verdicts = decision.needs_answer
    needed = list(dict.fromkeys((f"{SCOPE_VERBS[v.scope]} {v.resource}", v.reason) for v in verdicts))
    shown = needed[:3]
    following = [*[reason for _, reason in shown[1:]], ""]
    parts = [f"{what} ({why})" if why != after else what for (what, why), after in zip(shown, following, strict=True)]
    more = f" and {len(needed) - 3} more" if len(needed) > 3 else ""
    return f"{decision.tool} needs permission to {'; '.join(parts)}{more}"


def allow_hint(decision: PermissionDecision) -> str:
    """Return how the user can allow the call, with flags and in the settings."""
    if not decision.advice:
        blocking_rule = next((v.rule for v in decision.needs_answer if v.rule is not None and not v.allow), None)
        if blocking_rule is not None:
            return f"No rule can allow it while {blocking_rule.text!r} ({blocking_rule.origin}) is in effect."
        if any(v.reason == REQUIRES_APPROVAL for v in decision.needs_answer):
            return "No rule can allow it: only a user can."
        return "No rule can allow it in this form; write it as plain, separate steps."
    narrow, wide = decision.advice[0], decision.advice[-1]
    text = f"The user can allow it with {_flags(narrow)}"
    if wide != narrow:
        text += f", or more widely with {_flags(wide)}"
    listed = ", ".join(f'"{_escaped(rule)}"' for rule in narrow)
    return f'{text}; or in settings.json: "permissions": {{"allow": [{listed}]}}.'


def _flags(rules: Iterable[str]) -> str:
    return " ".join(f"--allow {_shell_quoted(rule)}" for rule in rules)


def _shell_quoted(text: str) -> str:
    quote = "'"
    return quote + text.replace(quote, "'\\''") + quote


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
