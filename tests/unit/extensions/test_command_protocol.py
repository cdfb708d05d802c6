"""The exit code and output of a command: invalid output is a failure, never an approval."""

import json
from typing import Any, get_args

import pytest
from hypothesis import given, strategies as st

from mainspring.errors import ConfigError
from mainspring.extensions.command_hooks import COMMAND_EVENTS, GATES, CommandEvent, CommandHook, Verdict
from mainspring.extensions.command_hooks.config import hook_tool_names
from mainspring.extensions.command_hooks.protocol import (
    CONTEXT_EVENTS,
    Decision,
    PreToolUseInput,
    encode_payload,
    verdict_of,
)


def make_verdict(event: CommandEvent, out: Any = "", code: int = 0, err: str = "") -> Verdict:
    text = out if isinstance(out, str) else json.dumps(out)
    return verdict_of(CommandHook(event=event, command="x"), code, text, err)


def is_allowed(verdict: Verdict) -> bool:
    """Return True if the call or prompt is allowed."""
    return not verdict.failure and verdict.deny is None and verdict.ask is None and verdict.stop is None


@pytest.mark.covers("BYD-01")
def test_exit_code_0_without_output_allows() -> None:
    assert all(is_allowed(make_verdict(event)) for event in COMMAND_EVENTS)
    assert is_allowed(make_verdict("PreToolUse", "  \n"))
    assert is_allowed(make_verdict("PreToolUse", {}))


@pytest.mark.covers("BYD-01")
@pytest.mark.parametrize("out", ["", "{}", '{"decision": "approve"}', "{odd", "text"])
def test_exit_code_2_denies_whatever_the_output(out: str) -> None:
    verdict = make_verdict("PreToolUse", out, 2, "never that")
    assert (verdict.deny, verdict.failure) == ("never that", "")
    assert make_verdict("PreToolUse", "on stdout", 2).deny == "on stdout"
    assert make_verdict("PreToolUse", "", 2).deny == "denied by a hook"


@pytest.mark.covers("BYD-01")
@pytest.mark.parametrize("code", [1, 3, 126, 127, 137])
def test_other_exit_codes_fail_even_with_an_approving_output(code: int) -> None:
    verdict = make_verdict("PreToolUse", {"decision": "approve"}, code, "no such file")
    assert f"code {code}: no such file" in verdict.failure


@pytest.mark.covers("BYD-01")
@pytest.mark.parametrize(
    "out",
    [
        "{",
        "[]",
        "true",
        "ok",
        '"approve"',
        '{"decision": "yes"}',
        '{"decision": true}',
        '{"decison": "block"}',
        '{"permissionDecision": "deny"}',
        '{"continue": "no"}',
        '{"hookSpecificOutput": {"hookEventName": "PostToolUse", "permissionDecision": "deny"}}',
        '{"hookSpecificOutput": {"permissionDecison": "deny"}}',
        '{"hookSpecificOutput": {"updatedInput": "ls"}}',
        'starting\n{"decision": "block"}',
        '{"decision": "approve"}\n{"decision": "block"}',
    ],
)
@pytest.mark.parametrize("event", sorted(GATES))
def test_invalid_output_is_a_failure(event: CommandEvent, out: str) -> None:
    plain = event in CONTEXT_EVENTS and not any(line.startswith("{") for line in out.splitlines())
    assert bool(make_verdict(event, out).failure) is not plain  # Plain text is context for a prompt.


@pytest.mark.covers("BYD-01")
@given(st.sampled_from(sorted(GATES)), st.integers(0, 255), st.text(), st.text())
def test_random_output_never_allows_a_call(event: CommandEvent, code: int, out: str, err: str) -> None:
    verdict = make_verdict(event, out, code, err)
    if code == 0 and out.strip() == "":
        assert is_allowed(verdict)
    elif event == "PreToolUse" or code != 0:
        assert not is_allowed(verdict) or (code == 0 and isinstance(json.loads(out), dict))


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "decision": st.sampled_from([*get_args(Decision), None]),
            "reason": st.text(max_size=20),
            "continue": st.booleans(),
            "hookSpecificOutput": st.fixed_dictionaries(
                {},
                optional={
                    "permissionDecision": st.sampled_from(get_args(Decision)),
                    "additionalContext": st.text(max_size=20),
                    "updatedInput": st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
                },
            ),
        },
    )
)
def test_stricter_of_two_decisions_wins(out: dict[str, Any]) -> None:
    verdict = make_verdict("PreToolUse", out)
    decisions = {out.get("decision"), out.get("hookSpecificOutput", {}).get("permissionDecision")}
    assert verdict.failure == ""
    assert (verdict.deny is not None) == bool(decisions & {"deny", "block"})
    assert (verdict.ask is not None) == ("ask" in decisions)
    assert (verdict.stop is not None) == (out.get("continue", True) is False)


def test_every_field_of_the_output_is_read() -> None:
    verdict = make_verdict(
        "PreToolUse",
        {
            "continue": False,
            "stopReason": "enough",
            "systemMessage": "a notice",
            "suppressOutput": True,
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "ask",
                "permissionDecisionReason": "odd",
                "updatedInput": {"a": 1},
                "additionalContext": "know this",
            },
        },
    )
    assert (verdict.stop, verdict.message, verdict.ask) == ("enough", "a notice", "odd")
    assert (verdict.input, verdict.context) == ({"a": 1}, "know this")
    assert make_verdict("PostToolUse", {"hookSpecificOutput": {"updatedToolOutput": "new"}}).output == "new"


@pytest.mark.parametrize(
    "out",
    [
        '\ufeff{"decision": "block"}',
        '[{"decision": "block"}]',
        'ok\n  {"decision": "block"}',
        'said "decision" : "block"',
    ],
)
def test_output_with_a_decision_is_not_used_as_plain_text(out: str) -> None:
    verdict = make_verdict("UserPromptSubmit", out)
    assert verdict.context == ""
    assert verdict.refusal is not None


def test_invalid_unicode_is_encoded_in_the_payload() -> None:
    sent = encode_payload(PreToolUseInput(tool_name="read_file", tool_input={"path": "caf\udce9"}))
    assert json.loads(sent)["tool_input"]["path"] == "caf\udce9"


def test_plain_text_is_context_only_for_context_events() -> None:
    assert make_verdict("UserPromptSubmit", "Use {braces} in f-strings.").context == "Use {braces} in f-strings."
    assert make_verdict("SessionStart", "The date is known.").context == "The date is known."
    assert "mixes text and JSON" in make_verdict("UserPromptSubmit", 'log line\n{"decision": "block"}').failure
    assert "not a JSON object" in make_verdict("Stop", "hello").failure


@pytest.mark.parametrize(
    ("matcher", "matching", "other"),
    [
        ("", ["shell", "edit"], []),
        ("*", ["shell", "edit"], []),
        ("Bash", ["shell"], ["edit", "shellfish"]),
        ("Edit|Write|MultiEdit", ["edit", "write_file", "multi_edit"], ["read_file", "apply_edit"]),
        ("mcp__.*", ["mcp__files__read"], ["files"]),
        ("LS|Task|WebFetch", ["list_files", "spawn", "fetch"], ["grep"]),
        ("read_file", ["read_file"], ["read"]),
    ],
)
def test_matchers_need_the_whole_name_and_accept_names_of_other_programs(
    matcher: str, matching: list[str], other: list[str]
) -> None:
    hook = CommandHook(event="PreToolUse", command="x", matcher=matcher)
    assert [name for name in (*matching, *other) if hook.matches(hook_tool_names(name))] == matching


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"event": "PreTool", "command": "x"}, "event: 'PreTool'"),
        ({"event": "Stop", "command": " "}, "has no command"),
        ({"event": "Stop", "command": "x", "timeout": 0}, "above 0"),
        ({"event": "Stop", "command": "x", "matcher": "("}, "is not a valid regular expression"),
    ],
)
def test_invalid_command_hook_is_rejected(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        CommandHook(**fields)
