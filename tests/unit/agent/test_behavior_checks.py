"""Invalid options are all reported when they are passed, and none of them takes effect."""

import math
import re
from typing import Any, cast

import pytest
from hypothesis import given, strategies as st

from mainspring import Agent, ConfigError, RunOptions, Subagents
from mainspring.agent.options import validate_behavior
from mainspring.env.memory import MemoryEnv
from mainspring.errors import ConfigWarning
from mainspring.models import RetryConfig
from mainspring.policies.budgets import Budget, ToolBudget
from mainspring.policies.compaction import Compaction
from mainspring.testing import ScriptedCall, ScriptedModel

WRONG: list[dict[str, Any]] = [
    {"max_turns": -1},
    {"max_turns": "3"},
    {"max_turns": True},
    {"max_turns": 2.5},
    {"max_total_tokens": math.inf},
    {"max_seconds": math.nan},
    {"max_seconds": -1},
    {"max_cost": "1"},
    {"max_output_tokens": 0},
    {"temperature": 2.1},
    {"temperature": "hot"},
    {"thinking": "banana"},
    {"thinking_budget": -5},
    {"thinking_decay": 3},
    {"tool_execution": "sequentially"},
    {"tool_concurrency": 0},
    {"tool_concurrency": None},
    {"steering": "every"},
    {"abort_grace": -1},
    {"max_repairs": -1},
    {"retry": 3},
    {"timeout": -1},
    {"max_output_retries": "x"},
    {"warn_at": 7},
    {"session_budget": 3},
    {"dedup_tools": {"work": "same"}},
    {"tool_budgets": {"work": "x"}},
    {"tool_budgets": {"work": -1}},
    {"tool_budgets": ["work"]},
    {"tool_output_budget": -1},
    {"repeat_hint": 0},
    {"compact_strategy": "tial"},
    {"compact_keep_turns": -1},
    {"compaction": 3},
    {"on_overflow": 3},
    {"persist_threshold": -1},
    {"persist_dir": 3},
    {"persist_exclude_tools": "work"},
]


@pytest.mark.covers("AGT-27")
@pytest.mark.parametrize("options", WRONG, ids=str)
def test_invalid_option_value_is_rejected(options: dict[str, Any]) -> None:
    [name] = options
    with pytest.raises(ConfigError, match=rf"^behavior: {name} must be .*, not "):
        Agent(ScriptedModel(), behavior=RunOptions(**options))
    agent = Agent(ScriptedModel("ok"), execution=MemoryEnv())
    with pytest.raises(ConfigError, match=name):
        agent.run_sync("go", behavior=RunOptions(**options))
    assert not agent.running
    assert agent.run_sync("go").text == "ok", "the next run is unaffected"


def test_all_invalid_options_are_reported_together() -> None:
    with pytest.raises(ConfigError) as caught:
        validate_behavior(RunOptions(max_turns=-1, steering=cast("Any", "no")))
    assert str(caught.value) == (
        "behavior: max_turns must be a whole number of at least 0, not -1; steering must be 'one' or 'all', not 'no'."
    )


def test_wrong_behavior_type_and_unknown_run_option_are_rejected() -> None:
    with pytest.raises(ConfigError, match=r"behavior must be a RunOptions\(\.\.\.\), not dict"):
        Agent(ScriptedModel(), behavior=cast("Any", {"max_turns": 1}))
    agent = Agent(ScriptedModel("ok"), execution=MemoryEnv())
    with pytest.raises(ConfigError, match="thinking must be .*, not 'a lot'"):
        agent.run_sync("go", thinking=cast("Any", "a lot"))
    with pytest.raises(TypeError, match="Unknown option of a run: 'max_turns'. Use behavior=RunOptions"):
        agent.run_sync("go", **cast("Any", {"max_turns": 3}))
    assert agent.run_sync("go").text == "ok"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"tool_budgets": {"act": ToolBudget(2, on_exceed=cast("Any", "stear"))}},
            "['act']: on_exceed must be 'block' or 'steer', or a function, not 'stear'",
        ),
        ({"tool_budgets": {"act": ToolBudget(-1)}}, "['act']: max must be a number of at least 0, not -1"),
        (
            {"retry": RetryConfig(max_retries=cast("Any", "x"))},
            "retry: max_retries must be a number of at least 0, not 'x'",
        ),
        ({"retry": RetryConfig(jitter=2)}, "retry: jitter must be a number from 0 to 1, not 2"),
        ({"session_budget": Budget(max_cost=-1)}, "session_budget: max_cost must be a number of at least 0, not -1"),
        (
            {"compaction": Compaction(keep_recent=cast("Any", "x"))},
            "compaction: keep_recent must be a number of at least 0, not 'x'",
        ),
    ],
)
def test_nested_option_values_are_validated(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(text)):
        Agent(ScriptedModel(), execution=MemoryEnv(), behavior=RunOptions(**options))


@pytest.mark.parametrize("option", ["permissions", "session", "memory", "plugs"])
@pytest.mark.parametrize("junk", ["deny", True, 3, Subagents])
def test_object_that_is_not_a_plugin_is_rejected(option: str, junk: Any) -> None:
    with pytest.raises(ConfigError, match=f"cannot be used here. An agent takes {option}="):
        cast("Any", Agent)(ScriptedModel(), **{option: [junk] if option == "plugs" else junk})


def test_default_options_are_valid() -> None:
    validate_behavior(RunOptions(**{name: option.default for name, option in RunOptions.declared.items()}))


@given(st.sampled_from([f for f in RunOptions.declared if f != "schema"]), st.one_of(st.none(), st.integers(-3, 3), st.floats(), st.text(max_size=3), st.booleans(), st.just({"work": ToolBudget(max=1)}), st.just({}), st.just(())))  # fmt: skip
def test_accepted_option_value_never_hangs_a_run(name: str, value: Any) -> None:
    """Every value is rejected or leads to a run that ends."""
    try:
        agent = Agent(
            ScriptedModel([ScriptedCall("nothing"), ScriptedCall("nothing")], "ok"),
            execution=MemoryEnv(),
            behavior=RunOptions(**{name: value}),
        )
    except ConfigError:
        return
    result = agent.run_sync("go", raise_errors=False)
    assert result.status in ("completed", "max_turns", "max_total_tokens", "max_seconds", "max_cost", "error")


async def test_unknown_tool_in_a_limit_warns_once() -> None:
    async def add() -> str:
        """Add."""
        return ""

    behavior = RunOptions(
        tool_budgets={"adds": 1, "add": 1, "shell": 1, "mcp__files__read": 1}, dedup_tools={"ad": repr}
    )
    agent = Agent(
        ScriptedModel("one", "two"), execution=MemoryEnv(), tools=[add], behavior=behavior, tool_aliases={"zzz": "z"}
    )
    with pytest.warns(ConfigWarning) as caught_warnings:
        await agent.run("go")
    await agent.run("again")
    assert [str(w.message) for w in caught_warnings] == [
        "tool_budgets names the unknown tool 'adds'. Did you mean 'add'?",
        "dedup_tools names the unknown tool 'ad'. Did you mean 'add'?",
        "tool_aliases names the unknown tool 'zzz'",
    ]
