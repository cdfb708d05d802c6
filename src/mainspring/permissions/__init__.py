"""Permissions: which calls of tools may happen.

Above: the hook `tool:permit`. Below: rules (`rules`), what a command line does (`units`), where a path leads (`paths`), and the
decision (`engine`), each usable alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import exports

if TYPE_CHECKING:
    from mainspring.permissions.decisions import Decision as Decision
    from mainspring.permissions.decisions import Outcome as Outcome
    from mainspring.permissions.decisions import PermissionRequest as PermissionRequest
    from mainspring.permissions.decisions import Reply as Reply
    from mainspring.permissions.decisions import SessionGrant as SessionGrant
    from mainspring.permissions.decisions import Verdict as Verdict
    from mainspring.permissions.engine import Call as Call
    from mainspring.permissions.engine import Engine as Engine
    from mainspring.permissions.path_checker import Mode as Mode
    from mainspring.permissions.plug import Answer as Answer
    from mainspring.permissions.plug import Ask as Ask
    from mainspring.permissions.plug import OnDeny as OnDeny
    from mainspring.permissions.plug import Permissions as Permissions
    from mainspring.permissions.portable import is_portable as is_portable
    from mainspring.permissions.portable import relative_program as relative_program
    from mainspring.permissions.rules import Effect as Effect
    from mainspring.permissions.rules import Origin as Origin
    from mainspring.permissions.rules import Rule as Rule
    from mainspring.permissions.rules import RuleSet as RuleSet
    from mainspring.permissions.rules import parse_rule as parse_rule
    from mainspring.permissions.rules import rules_without_tool as rules_without_tool

__all__, __getattr__ = exports(
    __name__,
    {
        "decisions": "Decision Outcome PermissionRequest Reply SessionGrant Verdict",
        "engine": "Call Engine",
        "path_checker": "Mode",
        "portable": "is_portable relative_program",
        "plug": "Answer Ask OnDeny Permissions",
        "rules": "Effect Origin Rule RuleSet parse_rule rules_without_tool",
    },
)
