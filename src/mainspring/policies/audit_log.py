"""An audit log: one line for each decision about a tool call and for each result."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec

from mainspring.events import Event, ToolExecutionEnd
from mainspring.redaction import Redactor
from mainspring.text import truncate_end

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent

logger = logging.getLogger("mainspring")

_MAX_FILE_BYTES = 16 << 20
"""Maximum size of the file in bytes.

A larger file is renamed to ``NAME.1``, which replaces the previous ``NAME.1``.
"""

MAX_TEXT = 2000
"""Maximum number of characters of a logged text."""


class AuditedDecision(Protocol):
    """The fields of a decision that the audit log records.

    The decisions of `Permissions` have them.
    """

    @property
    def tool(self) -> str:
        """Name of the tool."""
        ...

    @property
    def outcome(self) -> str:
        """``allow`` or ``deny``."""
        ...

    @property
    def reason(self) -> str:
        """Reason for the decision."""
        ...

    @property
    def rule(self) -> object:
        """The rule that decided; ``None`` if no rule did."""
        ...


class AuditLog:
    """A plugin that writes two lines for each call: the decision and the result.

    Secrets are redacted.

    The file is private. If a record cannot be written, the log reports it once and drops it: an audit never blocks a run.

    Args:
        path: The file; its folder is created if needed.
        max_bytes: Maximum size of the file.
        now: Function that returns the current time.
        redactor: Removes secrets; by default it knows those of the environment.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_bytes: int = _MAX_FILE_BYTES,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        redactor: Redactor | None = None,
    ) -> None:
        self.path = Path(path)
        self._max = max_bytes
        self._now = now
        self._redactor = redactor or Redactor.of()
        self._failed = False
        self._decisions: set[str] = set()

    def install(self, agent: CoreAgent) -> None:
        """Listen to an agent."""
        agent.subscribe(lambda event: self._handle_event(event, agent))

    def for_child(self) -> AuditLog:
        """Return this plugin: a subagent writes to the same file."""
        return self

    def record_decision(self, call_id: str, decision: AuditedDecision) -> None:
        """Record a decision, for ``Permissions(on_decision=audit.record_decision)``.

        Without it the result provides the decision.
        """
        self._decisions.add(call_id)
        rule = "" if decision.rule is None else str(decision.rule)
        self._write_decision(call_id, decision.tool, decision.outcome, decision.reason, rule)

    def _write_decision(self, call_id: str, tool: str, outcome: str, reason: str, rule: str = "") -> None:
        self._write(
            {"event": "decision", "call": call_id, "tool": tool, "outcome": outcome, "reason": reason, "rule": rule}
        )

    def _handle_event(self, event: Event, agent: CoreAgent) -> None:
        if not isinstance(event, ToolExecutionEnd):
            return
        call, result = event.call, event.result
        details = cast("dict[str, Any]", result.details or {})
        code = str(details.get("code") or "")
        if call.id not in self._decisions:
            denied = code == "PERMISSION_DENIED"
            self._write_decision(call.id, call.name, "deny" if denied else "allow", result.text if denied else "")
        self._decisions.discard(call.id)
        self._write(
            {
                "event": "result",
                "call": call.id,
                "tool": call.name,
                "agent": agent.name,
                "input": call.input,
                "is_error": result.is_error,
                "code": code,
                "output": result.text,
                "seconds": round(event.seconds, 3),
            }
        )

    def _write(self, record: dict[str, Any]) -> None:
        try:
            clean = _shortened(self._redactor.value(msgspec.to_builtins(record, enc_hook=str, str_keys=True)))
            self._append(msgspec.json.encode({"time": self._now().isoformat(), **clean}) + b"\n")
        except Exception as error:  # noqa: BLE001 - the run continues after any error of the disk
            if not self._failed:
                logger.warning("Cannot write the audit log %s: %s", self.path, error)
            self._failed = True

    def _append(self, line: bytes) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        file = os.open(self.path, flags, 0o600)
        try:
            if os.fstat(file).st_size + len(line) > self._max and os.fstat(file).st_size:
                os.close(file)
                os.replace(self.path, self.path.with_name(f"{self.path.name}.1"))
                file = os.open(self.path, flags, 0o600)
            os.write(file, line)
        finally:
            os.close(file)


def _shortened(value: Any, depth: int = 0) -> Any:
    """Return the value with long texts and lists truncated."""
    if isinstance(value, str):
        return truncate_end(value, MAX_TEXT, "… ({size} characters)")
    if depth >= 6:
        return "…"
    if isinstance(value, dict):
        return {k: _shortened(v, depth + 1) for k, v in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_shortened(v, depth + 1) for v in cast("list[Any]", value)[:200]]
    return value
