"""Permissions: which calls of tools may happen.

Above: the hook `tool:permit`. Below: rules (`rules`), what a command line does (`units`), where a path leads (`paths`), and the
decision (`engine`), each usable alone.
"""

from mainspring.policies.permissions.decision import Decision, Outcome, PermissionRequest, Reply, Verdict
from mainspring.policies.permissions.engine import Call, Engine
from mainspring.policies.permissions.pathjudge import Mode
from mainspring.policies.permissions.plan import PlanMode
from mainspring.policies.permissions.plug import Answer, Ask, OnDeny, Permissions
from mainspring.policies.permissions.rules import Effect, Origin, Rule, RuleSet, parse_rule, rules_without_tool
from mainspring.policies.permissions.units import CommandLine, Unit, analyse

__all__ = [
    "Answer",
    "Ask",
    "Call",
    "CommandLine",
    "Decision",
    "Effect",
    "Engine",
    "Mode",
    "OnDeny",
    "Origin",
    "Outcome",
    "PermissionRequest",
    "Permissions",
    "PlanMode",
    "Reply",
    "Rule",
    "RuleSet",
    "Unit",
    "Verdict",
    "analyse",
    "parse_rule",
    "rules_without_tool",
]
