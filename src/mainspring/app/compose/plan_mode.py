"""Plan mode, guardrails and the audit log of the command."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mainspring.app.run.events import Notice, RunEventHandler
from mainspring.app.run.options import LaunchOptions
from mainspring.app.workspace.settings import Settings
from mainspring.errors import ConfigError
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
"""The entry of a session that says whether plan mode is on, so that going on with it later does not lose it."""

_LARGEST = 1 << 20


def build_audit_log(settings: Settings, redactor: Redactor) -> AuditLog | None:
    """The audit log of the settings: ``auditLog`` names its file, from the user's folder."""
    name = settings.config.audit_log
    if not name:
        return None
    base = settings.home.root if settings.home else Path.cwd()
    return AuditLog(base / os.path.expanduser(name), redactor=redactor)


def build_plan_mode(
    options: LaunchOptions, session: Session | None, report: RunEventHandler, *, switchable: bool = False
) -> PlanMode | None:
    """Plan mode, where it was asked for or is on in the session; with ``switchable`` it is there anyway, switched off."""
    before = _is_on_in_session(session)
    active = options.execute is None and (options.plan or before)
    if session is not None and session.writable and active != before:
        session.add_custom(PLAN_MODE_ENTRY_TYPE, {"active": active})
    if not active:
        return PlanMode(state=PlanState(active=False)) if switchable else None
    if switchable:
        return PlanMode()
    if before and not options.plan:
        report(Notice("plan mode is on in this conversation; --execute carries its plan out"))
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
    """What of it there is, and guardrails."""
    found: list[Plugin] = [Guardrails()]
    return [*found, *([plan] if plan else []), *([audit] if audit else [])]


def build_plan_prompt(name: str, cwd: str, report: RunEventHandler) -> str:
    """The prompt that carries out a plan.

    Args:
        name: Its file, from the project's folder; empty for the last one that was kept.
        cwd: The project's folder.
        report: Is told which plan it is.

    Raises:
        ConfigError: If there is no such plan.
    """
    folder = Path(cwd, PLANS_FOLDER)
    if name:
        path = Path(cwd, os.path.expanduser(name))
        path = path if path.is_file() else folder / name
    else:
        path = max(folder.glob("*.md"), default=folder)
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError:
        missing = f"there is no plan {name}" if name else f"there is no plan in {folder}"
        raise ConfigError(f'{missing}; make one with: mainspring --plan -p "..."') from None
    if len(data) > _LARGEST:
        raise ConfigError(f"{path} is larger than 1 MiB, which no plan should be")
    report(Notice(f"carrying out {path}"))
    return EXECUTE_PLAN_PROMPT + data.decode("utf-8", "replace")


async def save_answer_as_plan(plan: PlanMode | None, text: str, report: RunEventHandler) -> None:
    """Keep what a run in plan mode answered as its plan, unless it presented one, and tell where."""
    if plan is None:
        return
    if not plan.state.file and text.strip():
        try:
            await plan.save_plan(text)
        except OSError as error:
            report(Notice(f"the plan could not be kept: {error.strerror or error}"))
    if plan.state.file:
        report(
            Notice(f"the plan is in {plan.state.file}; to carry it out: mainspring -c --execute, with what it may do")
        )
