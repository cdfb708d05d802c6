"""Permissions: decide which tool calls may run.

The hook is `tool:permit`. The parts are usable separately: rules (`rules`), the effects of a command line (`shell_analysis`),
the resolution of paths (`paths`), and the decision (`engine`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.permissions.decisions import (
        PermissionDecision as PermissionDecision,
        PermissionOutcome as PermissionOutcome,
        PermissionRequest as PermissionRequest,
        Reply as Reply,
        SessionGrant as SessionGrant,
        Verdict as Verdict,
    )
    from mainspring.permissions.engine import PermissionEngine as PermissionEngine, ToolCall as ToolCall
    from mainspring.permissions.path_checker import PermissionMode as PermissionMode
    from mainspring.permissions.plug import (
        Answer as Answer,
        OnDeny as OnDeny,
        PermissionCallback as PermissionCallback,
        Permissions as Permissions,
    )
    from mainspring.permissions.portable import is_portable as is_portable, relative_program as relative_program
    from mainspring.permissions.rules import (
        Effect as Effect,
        PermissionRule as PermissionRule,
        RuleSet as RuleSet,
        RuleSource as RuleSource,
        describe_unused_rules as describe_unused_rules,
        find_unused_rules as find_unused_rules,
        parse_rule as parse_rule,
    )

lazy_exports(
    __name__,
    {
        "decisions": "PermissionDecision PermissionOutcome PermissionRequest Reply SessionGrant Verdict",
        "engine": "ToolCall PermissionEngine",
        "path_checker": "PermissionMode",
        "portable": "is_portable relative_program",
        "plug": "Answer PermissionCallback OnDeny Permissions",
        "rules": "Effect RuleSource PermissionRule RuleSet parse_rule find_unused_rules describe_unused_rules",
    },
)
