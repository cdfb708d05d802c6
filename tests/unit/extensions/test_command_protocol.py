"""What is read from a command's exit code and output: what cannot be understood is a failure, never consent."""

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def said(event: CommandEvent, out: Any = "", code: int = 0, err: str = "") -> Verdict:
    text = out if isinstance(out, str) else json.dumps(out)
    return verdict_of(CommandHook(event=event, command="x"), code, text, err)


def agrees(verdict: Verdict) -> bool:
    """Whether a call or prompt would go on."""
    return not verdict.failure and verdict.deny is None and verdict.ask is None and verdict.stop is None


@pytest.mark.covers("BYD-01")
def test_silence_with_exit_code_0_is_no_objection() -> None:
    assert all(agrees(said(event)) for event in COMMAND_EVENTS)
    assert agrees(said("PreToolUse", "  \n"))
    assert agrees(said("PreToolUse", {}))


@pytest.mark.covers("BYD-01")
@pytest.mark.parametrize("out", ["", "{}", '{"decision": "approve"}', "{odd", "text"])
def test_exit_code_2_refuses_whatever_was_written(out: str) -> None:
    verdict = said("PreToolUse", out, 2, "never that")
    assert (verdict.deny, verdict.failure) == ("never that", "")
    assert said("PreToolUse", "on stdout", 2).deny == "on stdout"
    assert said("PreToolUse", "", 2).deny == "denied by a hook"


@pytest.mark.covers("BYD-01")
@pytest.mark.parametrize("code", [1, 3, 126, 127, 137])
def test_other_exit_codes_are_failures_even_with_consent_written(code: int) -> None:
    verdict = said("PreToolUse", {"decision": "approve"}, code, "no such file")
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
def test_what_cannot_be_understood_is_no_consent(event: CommandEvent, out: str) -> None:
    plain = event in CONTEXT_EVENTS and not any(line.startswith("{") for line in out.splitlines())
    assert bool(said(event, out).failure) is not plain  # for a prompt, plain text is text for the model


@pytest.mark.covers("BYD-01")
@given(st.sampled_from(sorted(GATES)), st.integers(0, 255), st.text(), st.text())
def test_no_output_by_chance_is_consent_to_a_call(event: CommandEvent, code: int, out: str, err: str) -> None:
    verdict = said(event, out, code, err)
    if code == 0 and out.strip() == "":
        assert agrees(verdict)
    elif event == "PreToolUse" or code != 0:
        assert not agrees(verdict) or (code == 0 and isinstance(json.loads(out), dict))


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
def test_the_stricter_of_two_decisions_counts(out: dict[str, Any]) -> None:
    verdict = said("PreToolUse", out)
    given_ = {out.get("decision"), out.get("hookSpecificOutput", {}).get("permissionDecision")}
    assert verdict.failure == ""
    assert (verdict.deny is not None) == bool(given_ & {"deny", "block"})
    assert (verdict.ask is not None) == ("ask" in given_)
    assert (verdict.stop is not None) == (out.get("continue", True) is False)


def test_all_that_can_be_said() -> None:
    verdict = said(
        "PreToolUse",
        {
            "continue": False,
            "stopReason": "enough",
            "systemMessage": "told",
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
    assert (verdict.stop, verdict.message, verdict.ask) == ("enough", "told", "odd")
    assert (verdict.input, verdict.context) == ({"a": 1}, "know this")
    assert said("PostToolUse", {"hookSpecificOutput": {"updatedToolOutput": "new"}}).output == "new"


@pytest.mark.parametrize(
    "out",
    [
        '\ufeff{"decision": "block"}',
        '[{"decision": "block"}]',
        'ok\n  {"decision": "block"}',
        'said "decision" : "block"',
    ],
)
def test_no_decision_is_taken_for_text(out: str) -> None:
    verdict = said("UserPromptSubmit", out)
    assert verdict.context == ""
    assert verdict.refusal is not None


def test_text_that_is_no_unicode_is_sent_all_the_same() -> None:
    sent = encode_payload(PreToolUseInput(tool_name="read_file", tool_input={"path": "caf\udce9"}))
    assert json.loads(sent)["tool_input"]["path"] == "caf\udce9"


def test_plain_text_is_context_where_text_is_wanted() -> None:
    assert said("UserPromptSubmit", "Use {braces} in f-strings.").context == "Use {braces} in f-strings."
    assert said("SessionStart", "The date is known.").context == "The date is known."
    assert "mixes text and JSON" in said("UserPromptSubmit", 'log line\n{"decision": "block"}').failure
    assert "not a JSON object" in said("Stop", "hello").failure


@pytest.mark.parametrize(
    ("matcher", "fits", "not_"),
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
def test_matchers_fit_whole_names_and_those_of_other_programs(matcher: str, fits: list[str], not_: list[str]) -> None:
    hook = CommandHook(event="PreToolUse", command="x", matcher=matcher)
    assert [name for name in (*fits, *not_) if hook.matches(hook_tool_names(name))] == fits


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"event": "PreTool", "command": "x"}, "event: 'PreTool'"),
        ({"event": "Stop", "command": " "}, "has no command"),
        ({"event": "Stop", "command": "x", "timeout": 0}, "above 0"),
        ({"event": "Stop", "command": "x", "matcher": "("}, "is not a valid regular expression"),
    ],
)
def test_a_command_that_cannot_be_is_refused(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        CommandHook(**fields)
