"""Policies: plugins on the loop that decide, limit, or shape.

They do not depend on each other. Budgets, compaction, and structured output are separate packages.
"""

from __future__ import annotations

from mainspring.lazy import TYPE_CHECKING, lazy_exports

if TYPE_CHECKING:
    from mainspring.policies.audit_log import AuditLog as AuditLog
    from mainspring.policies.disclosure import Disclosure as Disclosure
    from mainspring.policies.guardrails import (
        DEFAULT_GUARDRAILS as DEFAULT_GUARDRAILS,
        Guardrail as Guardrail,
        Guardrails as Guardrails,
    )
    from mainspring.policies.large_results.store import (
        FileOutputStore as FileOutputStore,
        MemoryOutputStore as MemoryOutputStore,
    )
    from mainspring.policies.plan_mode import PlanMode as PlanMode
    from mainspring.policies.rate_limit import RateLimit as RateLimit
    from mainspring.policies.relevant_history import (
        MessageHistory as MessageHistory,
        RelevantHistory as RelevantHistory,
    )
    from mainspring.policies.tool_filter import ToolFilter as ToolFilter

lazy_exports(
    __name__,
    {
        "audit_log": "AuditLog",
        "disclosure": "Disclosure",
        "guardrails": "DEFAULT_GUARDRAILS Guardrail Guardrails",
        "large_results.store": "FileOutputStore MemoryOutputStore",
        "plan_mode": "PlanMode",
        "rate_limit": "RateLimit",
        "relevant_history": "MessageHistory RelevantHistory",
        "tool_filter": "ToolFilter",
    },
)
