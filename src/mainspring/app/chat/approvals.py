"""Calls that need a yes: asked with the change they make, answered for once, for the session or for good."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from mainspring.app.chat.commands import Approve
from mainspring.app.chat.decisions import choices_for
from mainspring.app.chat.events import ApprovalAsked, Notice
from mainspring.app.chat.questions import PendingQuestions
from mainspring.app.chat.tool_display import ToolLabeler, diffs_from_preview
from mainspring.app.workspace.grants import GrantEffect
from mainspring.app.workspace.saved_rules import REACHES, Reach, RuleFiles
from mainspring.errors import ConfigError
from mainspring.loop import Approve as WithInput
from mainspring.permissions import PermissionRequest, Permissions, Reply
from mainspring.tools.support.editing.review import Hunk

CallKey = tuple[str, str]
"""Name of the agent, id of the call."""


class ApprovalManager:
    """Asks a person about calls, one after the other.

    Args:
        questions: Where it asks.
        display: Gives names of tools for people.
        is_child: Whether an agent of that name is a sub-agent.
        notice: Tells people something.
        mode_changed: Called when an answer has changed the mode.
    """

    def __init__(
        self,
        questions: PendingQuestions,
        display: ToolLabeler,
        is_child: Callable[[str], bool],
        notice: Callable[[Notice], None],
        mode_changed: Callable[[], None],
    ) -> None:
        self._questions = questions
        self._display = display
        self._is_child = is_child
        self._notice = notice
        self._mode_changed = mode_changed
        self._hunks: dict[CallKey, Approve] = {}
        self._edits: dict[str, dict[str, Any]] = {}
        self._given: dict[CallKey, tuple[str, dict[str, Any], Approve]] = {}
        self._unused_approvals: dict[CallKey, tuple[PermissionRequest, Approve]] = {}
        self.permissions: Permissions | None = None
        self.files = RuleFiles(None, "")

    def begin(self) -> None:
        """A run begins: what was said about calls of others is past."""
        self._hunks.clear()
        self._edits.clear()
        self._given.clear()
        self._unused_approvals.clear()

    def spent(self, agent: str, call_id: str) -> None:
        """A call was made: the yes to it is used up."""
        self._unused_approvals.pop((agent, call_id), None)
        self._given.pop((agent, call_id), None)
        self._hunks.pop((agent, call_id), None)

    def pop_edited_inputs(self) -> dict[str, WithInput]:
        """The calls that are to go on with other arguments, once."""
        edits, self._edits = self._edits, {}
        return {id: WithInput(arguments) for id, arguments in edits.items()}

    # --- what permissions ask ---------------------------------------------------------------------------------------

    async def ask(self, request: PermissionRequest) -> Reply:
        """The person's answer about a call."""
        key = (request.agent, request.call_id)
        known = self._given.get(key)
        if known is not None and known[:2] == (
            request.tool,
            request.input,
        ):  # the run resumes after an edited call beside it
            return self._reply(known[2], request, key)
        again = self._reuse_approval(request)
        if again is not None:
            return self._reply(again, request, key)
        if not self._questions.attended:
            return Reply(allow=False, reason="nobody is there to answer")
        given = await self._questions.approval(self._asked(request))
        await self._apply(given, request)
        agreed = given.input if given.decision == "edit" and given.input else request.input
        self._given[key] = (request.tool, agreed, given)
        if given.decision == "once" and not self._is_child(request.agent):
            self._unused_approvals[key] = (request, given)
        return self._reply(given, request, key)

    def _reuse_approval(self, request: PermissionRequest) -> Approve | None:
        """The yes to the very same call, if that was not made after all: because its file had to be read first, say."""
        for key, (earlier, given) in list(self._unused_approvals.items()):
            same = (earlier.agent, earlier.tool, earlier.input) == (request.agent, request.tool, request.input)
            if same and earlier.call_id != request.call_id and _same_change(earlier, request):
                del self._unused_approvals[key]
                self._unused_approvals[request.agent, request.call_id] = (request, given)
                return given
        return None

    def _asked(self, request: PermissionRequest) -> ApprovalAsked:
        child = request.agent if self._is_child(request.agent) else ""
        diffs = diffs_from_preview(request.preview) if request.preview else ()
        rules = [v.rule for v in request.verdicts if v.rule is not None]
        reason = request.reason
        if request.preview is not None and request.preview.problem:
            reason = f"{reason}; it would fail: {request.preview.problem.splitlines()[0]}"
        return ApprovalAsked(
            id=self._questions.new_id(),
            call_id=request.call_id,
            tool=request.tool,
            display=self._display(request.tool),
            action=request.action,
            resource=request.resource,
            scope=request.scope,
            reason=reason,
            rule=str(rules[0]) if rules else "",
            arguments=request.input,
            diffs=diffs,
            choose_hunks=request.preview is not None and len(request.preview.steps) > 1,
            suggestions=request.suggestions,
            wider=request.wider,
            child=child,
            choices=choices_for(request.suggestions, is_edit=request.is_edit),
        )

    def _reply(self, given: Approve, request: PermissionRequest, key: CallKey) -> Reply:
        match given.decision:
            case "deny" | "never":
                return Reply(allow=False, reason=given.reason, stop=given.stop)
            case "edit" if request.input != given.input:
                if self._is_child(request.agent):
                    wanted = f"the user wants the call made with other arguments: {given.input}"
                    return Reply(allow=False, reason=f"{given.reason} {wanted}".strip())
                self._edits[request.call_id] = given.input or {}
                return Reply(allow=True, pause=True)
            case _:
                if given.hunks is not None:
                    self._hunks[key] = given
                return Reply(allow=True, session=given.decision == "session")

    async def _apply(self, given: Approve, request: PermissionRequest) -> None:
        """Put in force what the answer says about later calls: save its rule, or accept all edits."""
        if given.decision == "edits" and request.is_edit and self.permissions is not None:
            self.permissions.accept_edits = True
            self._mode_changed()
        saved: dict[str, tuple[Reach, GrantEffect]] = {
            "always": ("project", "allow"),
            "everywhere": ("everywhere", "allow"),
            "never": ("project", "deny"),
        }
        if given.decision not in saved:
            return
        reach, effect = saved[given.decision]
        texts = tuple([line.strip() for line in given.rule.splitlines() if line.strip()]) or request.suggestions
        if not texts:
            self._notice(Notice("No rule was saved: no rule can cover this call.", "warn"))
            return
        try:
            rules = self.files.parse(reach, effect, texts)
            file = await asyncio.to_thread(self.files.save, reach, effect, texts)
        except ConfigError as error:
            self._notice(Notice(f"The rule was not saved, so that the answer is for this call only. {error}", "error"))
            return
        if self.permissions is not None:
            self.permissions.add(*rules)
        self._notice(Notice(f"Saved for {REACHES[reach]} in {file}: {effect} {', '.join(texts)}"))

    # --- what edits ask ---------------------------------------------------------------------------------------------

    def hunk(self, hunk: Hunk) -> bool | str:
        """Whether one edit of a call is made; a text is a no with its reason."""
        given = self._hunks.get((hunk.agent, hunk.call_id))
        if given is None or given.hunks is None or hunk.number - 1 in given.hunks:
            return True
        return given.reason or False


def _same_change(one: PermissionRequest, other: PermissionRequest) -> bool:
    if one.preview is None or other.preview is None:
        return one.preview is other.preview
    return one.preview.has_same_changes(other.preview)
