"""Permissions: decide which tool calls may run.

The hook is `tool:permit`. The parts are usable separately: rules (`rules`), the effects of a command line (`shell_analysis`),
the resolution of paths (`paths`), and the decision (`engine`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.permissions.decisions import PermissionDecision as PermissionDecision
    from mainspring.permissions.decisions import PermissionOutcome as PermissionOutcome
    from mainspring.permissions.decisions import PermissionRequest as PermissionRequest
    from mainspring.permissions.decisions import Reply as Reply
    from mainspring.permissions.decisions import SessionGrant as SessionGrant
    from mainspring.permissions.decisions import Verdict as Verdict
    from mainspring.permissions.engine import PermissionEngine as PermissionEngine
    from mainspring.permissions.engine import ToolCall as ToolCall
    from mainspring.permissions.path_checker import PermissionMode as PermissionMode
    from mainspring.permissions.plug import Answer as Answer
    from mainspring.permissions.plug import OnDeny as OnDeny
    from mainspring.permissions.plug import PermissionCallback as PermissionCallback
    from mainspring.permissions.plug import Permissions as Permissions
    from mainspring.permissions.portable import is_portable as is_portable
    from mainspring.permissions.portable import relative_program as relative_program
    from mainspring.permissions.rules import Effect as Effect
    from mainspring.permissions.rules import PermissionRule as PermissionRule
    from mainspring.permissions.rules import RuleSet as RuleSet
    from mainspring.permissions.rules import RuleSource as RuleSource
    from mainspring.permissions.rules import find_unused_rules as find_unused_rules
    from mainspring.permissions.rules import parse_rule as parse_rule

lazy_exports(
    __name__,
    {
        "decisions": "PermissionDecision PermissionOutcome PermissionRequest Reply SessionGrant Verdict",
        "engine": "ToolCall PermissionEngine",
        "path_checker": "PermissionMode",
        "portable": "is_portable relative_program",
        "plug": "Answer PermissionCallback OnDeny Permissions",
        "rules": "Effect RuleSource PermissionRule RuleSet parse_rule find_unused_rules",
    },
)
