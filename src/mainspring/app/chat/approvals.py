"""Approvals of tool calls: asks the user with the exact change, applies the decision, and lists the decisions to offer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from mainspring.app.chat.commands import Approve
from mainspring.app.chat.questions import PendingQuestions, WorkTimeSteps
from mainspring.app.chat.tool_display import ToolLabeler, diffs_from_preview
from mainspring.app.chat.types import ApprovalDecision
from mainspring.app.compose.conversation import OpenConversation
from mainspring.app.workspace.saved_rules import REACHES, GrantEffect, Reach, RuleFiles
from mainspring.errors import ConfigError
from mainspring.events import ApprovalRequest, Notice, Option, ToolDisplay
from mainspring.loop import Approve as WithInput
from mainspring.loop.hooks import ToolFinished
from mainspring.messages import ToolUseBlock
from mainspring.permissions import PermissionRequest, Permissions, Reply, is_portable, parse_rule
from mainspring.tools.support.editing.review import EditHunk

CallKey = tuple[str, str]
"""Name of the agent and ID of the call."""

_ORDER_LAST = 900


class ApprovalManager:
    """Asks the user to approve tool calls, and applies the decisions to this call and to later ones.

    Args:
        questions: Where approvals wait for the user.
        tool_label: Returns the display name of a tool.
        is_subagent: Returns True if an agent of that name is a subagent.
        publish: Publishes a notice.
        on_mode_change: Called when a decision or an approved plan may have changed the mode.
    """

    def __init__(
        self,
        questions: PendingQuestions,
        tool_label: ToolLabeler,
        is_subagent: Callable[[str], bool],
        publish: Callable[[Notice], None],
        on_mode_change: Callable[[], None],
    ) -> None:
        self._questions = questions
        self._tool_label = tool_label
        self._is_subagent = is_subagent
        self._publish = publish
        self._on_mode_change = on_mode_change
        self._partial_edits: dict[CallKey, Approve] = {}
        self._edited_inputs: dict[str, dict[str, Any]] = {}
        self._decided: dict[CallKey, tuple[str, dict[str, Any], Approve]] = {}
        self._unused_approvals: dict[CallKey, tuple[PermissionRequest, Approve]] = {}
        self._permissions: Permissions | None = None
        self.files = RuleFiles(None, "")
        """Where rules of this project and of the user are saved."""

    async def attach(self, conversation: OpenConversation) -> None:
        """Approve the calls of a conversation from now on."""
        self._permissions = conversation.permissions
        self.files = RuleFiles(conversation.settings.home, conversation.env.cwd)
        agent = conversation.agent
        agent.steps = WorkTimeSteps(lambda: self._questions.waited_seconds)
        agent.on(ToolFinished, lambda hook: self._on_tool_finished(agent.name, hook.call_id), order=_ORDER_LAST)

    def start_run(self) -> None:
        """Forget the decisions about calls of earlier runs."""
        self._partial_edits.clear()
        self._edited_inputs.clear()
        self._decided.clear()
        self._unused_approvals.clear()

    def _on_tool_finished(self, agent: str, call_id: str) -> None:
        self._unused_approvals.pop((agent, call_id), None)
        self._decided.pop((agent, call_id), None)
        self._partial_edits.pop((agent, call_id), None)
        self._on_mode_change()  # the call may have approved a plan

    def pop_edited_inputs(self) -> dict[str, WithInput]:
        """Return the calls that the user allowed with other arguments, once."""
        edits, self._edited_inputs = self._edited_inputs, {}
        return {id: WithInput(arguments) for id, arguments in edits.items()}

    # --- calls -----------------------------------------------------------------------------------------------------

    async def ask(self, request: PermissionRequest) -> Reply:
        """Ask the user about a call, unless a decision about the same call is known."""
        key = (request.agent, request.call_id)
        known = self._decided.get(key)
        # The run was resumed after another call was edited. IDs are unique per message only, so the tool is compared, too.
        if known is not None and known[:2] == (request.tool, request.input):
            return self._to_reply(known[2], request, key)
        reused = self._reuse_approval(request)
        if reused is not None:
            return self._to_reply(reused, request, key)
        if not self._questions.is_attended:
            return Reply(allow=False, reason="no user is available to answer")
        approval = await self._questions.ask_approval(self._question(request))
        await self._apply(approval, request)
        final_input = approval.input if approval.decision == "edit" and approval.input else request.input
        self._decided[key] = (request.tool, final_input, approval)
        if approval.decision == "once" and not self._is_subagent(request.agent):
            self._unused_approvals[key] = (request, approval)
        return self._to_reply(approval, request, key)

    def _reuse_approval(self, request: PermissionRequest) -> Approve | None:
        """Return the unused approval of an identical call, for example one whose file had to be read first."""
        for key, (earlier, approval) in list(self._unused_approvals.items()):
            same = (earlier.agent, earlier.tool, earlier.input) == (request.agent, request.tool, request.input)
            if same and earlier.call_id != request.call_id and _has_same_changes(earlier, request):
                del self._unused_approvals[key]
                self._unused_approvals[request.agent, request.call_id] = (request, approval)
                return approval
        return None

    def _question(self, request: PermissionRequest) -> ApprovalRequest:
        diffs = diffs_from_preview(request.preview) if request.preview else ()
        rules = [v.rule for v in request.verdicts if v.rule is not None]
        reason = request.reason
        if request.preview is not None and request.preview.problem:
            reason = f"{reason}; the edit would fail: {request.preview.problem.splitlines()[0]}"
        return ApprovalRequest(
            id=self._questions.new_id(),
            call=ToolUseBlock(request.call_id, request.tool, request.input),
            display=ToolDisplay(name=self._tool_label(request.tool), diffs=diffs),
            action=request.action,
            resource=request.resource,
            scope=request.scope,
            reason=reason,
            rule=str(rules[0]) if rules else "",
            choose_hunks=request.preview is not None and len(request.preview.steps) > 1,
            suggestions=request.suggestions,
            wider=request.wider,
            agent=request.agent if self._is_subagent(request.agent) else "",
            choices=choices_for(request.suggestions, is_edit=request.is_edit, is_once=request.is_once),
        )

    def _to_reply(self, approval: Approve, request: PermissionRequest, key: CallKey) -> Reply:
        match approval.decision:
            case "deny" | "never":
                return Reply(allow=False, reason=approval.reason, stop=approval.stop)
            case "edit" if request.input != approval.input:
                if self._is_subagent(request.agent):
                    requested = f"the user wants the call made with other arguments: {approval.input}"
                    return Reply(allow=False, reason=f"{approval.reason} {requested}".strip())
                self._edited_inputs[request.call_id] = approval.input or {}
                return Reply(allow=True, pause=True)
            case _:
                if approval.hunks is not None:
                    self._partial_edits[key] = approval
                return Reply(allow=True, session=approval.decision == "session")

    async def _apply(self, approval: Approve, request: PermissionRequest) -> None:
        """Apply a decision to later calls: save its rule, or accept all edits."""
        if approval.decision == "edits" and request.is_edit and self._permissions is not None:
            self._permissions.accept_edits = True
            self._on_mode_change()
        saved: dict[str, tuple[Reach, GrantEffect]] = {
            "always": ("project", "allow"),
            "everywhere": ("everywhere", "allow"),
            "never": ("project", "deny"),
        }
        if approval.decision not in saved:
            return
        reach, effect = saved[approval.decision]
        texts = tuple([line.strip() for line in approval.rule.splitlines() if line.strip()]) or request.suggestions
        if not texts:
            self._publish(Notice("No rule was saved: no rule can cover this call.", "warn"))
            return
        try:
            rules = self.files.parse(reach, effect, texts)
            file = await asyncio.to_thread(self.files.save, reach, effect, texts)
        except ConfigError as error:
            self._publish(
                Notice(f"The rule was not saved, so the decision applies to this call only. {error}", "error")
            )
            return
        if self._permissions is not None:
            self._permissions.add(*rules)
        self._publish(Notice(f"Saved for {REACHES[reach]} in {file}: {effect} {', '.join(texts)}"))

    # --- edits -----------------------------------------------------------------------------------------------------

    def review_hunk(self, hunk: EditHunk) -> bool | str:
        """Return True if the user allowed one change of an edit, else False or the reason for the denial."""
        approval = self._partial_edits.get((hunk.agent, hunk.call_id))
        if approval is None or approval.hunks is None or hunk.number - 1 in approval.hunks:
            return True
        return approval.reason or False


def _has_same_changes(one: PermissionRequest, other: PermissionRequest) -> bool:
    if one.preview is None or other.preview is None:
        return one.preview is other.preview
    return one.preview.has_same_changes(other.preview)


_DECISIONS: tuple[tuple[ApprovalDecision, str, str], ...] = (
    ("once", "Yes", "Allow"),
    ("session", "Yes, and don't ask again this session", "Allow for This Session"),
    (
        "edits",
        "Yes, and allow all edits in this project this session",
        "Allow All Edits in This Project for This Session",
    ),
    ("always", "Yes, and always allow {rule} in this project", "Always Allow {rule} in This Project"),
    ("everywhere", "Yes, and always allow {rule} in every project", "Always Allow {rule} in Every Project"),
    ("edit", "Edit arguments...", "Edit Arguments..."),
    ("deny", "No, and tell the agent what to do instead", "Deny"),
    ("never", "No, and never allow {rule} in this project", "Never Allow {rule} in This Project"),
)
"""Each decision with the text of its list entry and of its button, in the order in which they are shown."""


def choices_for(rules: tuple[str, ...] = (), *, is_edit: bool = False, is_once: bool = False) -> tuple[Option, ...]:
    """Return the decisions that make sense for a call, in order.

    Args:
        rules: The rules that together would allow the call; empty if no rule can.
        is_edit: Whether allowing all edits in the project would allow the call.
        is_once: Whether the approval can apply to this call only.
    """
    hidden: set[ApprovalDecision] = set() if is_edit else {"edits"}
    if is_once:
        hidden.add("session")
    if not rules:
        hidden |= {"always", "everywhere", "never"}
    if not all(map(_is_portable, rules)):
        hidden.add("everywhere")
    rule = f"`{rules[0]}`" if len(rules) == 1 else f"{len(rules)} rules"
    return tuple(
        [
            Option(decision, label.replace("{rule}", rule), button.replace("{rule}", rule))
            for decision, label, button in _DECISIONS
            if decision not in hidden
        ]
    )


def _is_portable(text: str) -> bool:
    try:
        return is_portable(parse_rule(text, "allow"))
    except ConfigError:
        return False
