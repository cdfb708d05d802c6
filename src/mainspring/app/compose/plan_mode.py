"""Create plan mode, guardrails, and the audit log."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mainspring.app.run.events import RunEventHandler
from mainspring.app.run.options import LaunchOptions
from mainspring.app.workspace.settings import Settings
from mainspring.errors import ConfigError
from mainspring.events import Notice
from mainspring.lazy import lazy_function
from mainspring.loop import Plugin
from mainspring.policies.guardrails import Guardrails
from mainspring.policies.plan_mode import EXECUTE_PLAN_PROMPT, PLANS_FOLDER, PlanMode, PlanState
from mainspring.redaction import Redactor
from mainspring.sessions import CustomEntry, Session

if TYPE_CHECKING:
    from mainspring.policies.audit_log import AuditLog
else:
    AuditLog = lazy_function("mainspring.policies.audit_log", "AuditLog")

PLAN_MODE_ENTRY_TYPE = "plan_mode"
"""Type of the session entry that stores whether plan mode is on, so that it stays on when the session is resumed."""

_MAX_BYTES = 1 << 20


def build_audit_log(settings: Settings, redactor: Redactor) -> AuditLog | None:
    """Create the audit log of the setting ``auditLog``, a path relative to the user's folder."""
    name = settings.config.audit_log
    if not name:
        return None
    base = settings.home.root if settings.home else Path.cwd()
    return AuditLog(base / os.path.expanduser(name), redactor=redactor)


def build_plan_mode(
    options: LaunchOptions, session: Session | None, report: RunEventHandler, *, switchable: bool = False
) -> PlanMode | None:
    """Create plan mode if it is requested or on in the session; with ``switchable`` also if it is off."""
    before = _is_on_in_session(session)
    active = options.execute is None and (options.plan or before)
    if session is not None and session.writable and active != before:
        session.add_custom(PLAN_MODE_ENTRY_TYPE, {"active": active})
    if not active:
        return PlanMode(state=PlanState(active=False)) if switchable else None
    if switchable:
        return PlanMode()
    if before and not options.plan:
        report(Notice("Plan mode is on in this session. Execute the plan with --execute."))
    return PlanMode()


def _is_on_in_session(session: Session | None) -> bool:
    if session is None:
        return False
    entries = (
        e for e in reversed(session.entries()) if isinstance(e, CustomEntry) and e.custom_type == PLAN_MODE_ENTRY_TYPE
    )
    last = next(entries, None)
    data: Any = last.data if last is not None else None
    return data == {"active": True}


def safety_plugs(plan: PlanMode | None, audit: AuditLog | None) -> list[Plugin]:
    """Return the plugins for plan mode, the audit log, and guardrails."""
    found: list[Plugin] = [Guardrails()]
    return [*found, *([plan] if plan else []), *([audit] if audit else [])]


def build_plan_prompt(name: str, cwd: str, report: RunEventHandler) -> str:
    """Return the prompt that executes a plan.

    Args:
        name: Name of its file, relative to the project folder; empty for the last saved plan.
        cwd: The project folder.
        report: Callback that receives the file of the plan.

    Raises:
        ConfigError: If the plan does not exist.
    """
    folder = Path(cwd, PLANS_FOLDER)
    if name:
        path = Path(cwd, os.path.expanduser(name))
        path = path if os.path.isfile(path) else folder / name
    else:
        path = max(folder.glob("*.md"), default=folder)
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError:
        missing = f"Plan {name} not found" if name else f"No plan found in {folder}"
        raise ConfigError(f'{missing}. Make one with `mainspring --plan -p "..."`.') from None
    if len(data) > _MAX_BYTES:
        raise ConfigError(f"{path} is larger than 1MiB, which is too large for a plan.")
    report(Notice(f"Executing {path}"))
    return EXECUTE_PLAN_PROMPT + data.decode("utf-8", "replace")


async def save_answer_as_plan(plan: PlanMode | None, text: str, report: RunEventHandler, *, execute: str) -> None:
    """Save the response of a run in plan mode as its plan, unless the run presented one, and report the file.

    Args:
        plan: Plan mode of the conversation.
        text: The response.
        report: Receives the notice.
        execute: How the user executes the plan.
    """
    if plan is None:
        return
    if not plan.state.file and text.strip():
        try:
            await plan.save_plan(text)
        except OSError as error:
            report(Notice(f"Cannot save the plan: {error.strerror or error}"))
    if plan.state.file:
        report(Notice(f"Saved the plan to {plan.state.file}. Execute it with {execute}."))
