"""Shell commands as hooks of an agent, in a real environment."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mainspring import Agent, RunOptions
from mainspring.env import LocalEnv, MemoryEnv
from mainspring.events import ContextCompacted
from mainspring.extensions import NonInteractiveUI
from mainspring.extensions.command_hooks import COMMAND_EVENTS, GATES, CommandEvent, CommandHook, CommandHooks
from mainspring.extensions.command_hooks.config import MAX_HOOK_DEPTH
from mainspring.extensions.command_hooks.plug import MAX_STOP_CONTINUATIONS
from mainspring.extensions.command_hooks.runner import HookCommandRunner
from mainspring.loop.hooks import ToolBefore
from mainspring.messages import Message
from mainspring.permissions import Permissions
from mainspring.subagents import Subagents
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import tool
from tests.helpers.processes import ended


@tool
async def look(key: str, times: int = 1) -> str:
    """Look something up."""
    if key == "broken":
        raise ValueError("no such key")
    return f"value of {key}" * times


@pytest.fixture
async def env(tmp_path: Path) -> AsyncIterator[LocalEnv]:
    env = LocalEnv(tmp_path)
    yield env
    await env.aclose()


def hook(event: CommandEvent, command: str, **fields: Any) -> CommandHook:
    return CommandHook(event=event, command=command, **fields)


def print_answer(**answer: Any) -> str:
    """Return a command that prints this answer."""
    return f"cat >/dev/null; echo '{json.dumps(answer)}'"


def print_hook_output(event: str, **answer: Any) -> str:
    return print_answer(hookSpecificOutput={"hookEventName": event, **answer})


def make_agent(
    env: Any, hooks: list[CommandHook], *script: Any, notices: list[str] | None = None, **options: Any
) -> Agent:
    ui = NonInteractiveUI(lambda text, level: notices.append(text) if notices is not None else None)
    plug = CommandHooks(hooks, ui=options.pop("ui", ui), depth=options.pop("depth", 0))
    return Agent(ScriptedModel(*script), execution=env, tools=[look], plugs=[plug], **options)


def results(agent: Agent) -> list[str]:
    return [r.text for m in agent.messages if isinstance(m, Message) for r in m.tool_results]


def texts(agent: Agent) -> list[str]:
    return [m.text for m in agent.messages if isinstance(m, Message) and m.role == "user" and m.text]


def look_up(*keys: str) -> Reply:
    return Reply("", calls=[ScriptedCall("look", {"key": k}) for k in keys])


# --- before a call --------------------------------------------------------------------------------------------------


@pytest.mark.covers("BYD-01")
async def test_command_receives_the_call_and_can_deny_it(env: LocalEnv, tmp_path: Path) -> None:
    script = 'tee seen.json | grep -q secret && { echo "keep out" >&2; exit 2; }; exit 0'
    agent = make_agent(env, [hook("PreToolUse", script)], look_up("open"), look_up("secret"), "done")
    await agent.run("go")

    assert results(agent) == ["value of open", "Permission denied: keep out"]
    seen = json.loads((tmp_path / "seen.json").read_bytes())
    assert seen["hook_event_name"] == "PreToolUse"
    assert (seen["tool_name"], seen["tool_input"]) == ("look", {"key": "secret"})
    assert (seen["cwd"], seen["agent"], seen["session_id"]) == (str(tmp_path), "agent", "")
    assert seen["tool_use_id"]


@pytest.mark.covers("BYD-01")
@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("exit 1", "exited with code 1"),
        ("no-such-program-here", "exited with code 127"),
        ("echo '{'", "its output is invalid"),
        ("echo fine", "not a JSON object"),
        ("kill -9 $$", "SIGKILL"),
        ("sleep 60", "timed out after 0.2 seconds"),
        ("head -c 3000000 /dev/zero", "wrote more than 1MiB"),
        ("head -c 900000 /dev/zero | tr '\\0' x", "too long"),
    ],
)
async def test_failing_command_denies_the_call(env: LocalEnv, command: str, reason: str) -> None:
    seconds = 0.2 if "sleep" in command else 10
    agent = make_agent(env, [hook("PreToolUse", command, timeout=seconds)], look_up("a"), "done")
    await agent.run("go")

    [result] = results(agent)
    assert result.startswith("Permission denied: the hook")
    assert "a failing hook denies" in result
    assert reason in result


@pytest.mark.parametrize("command", ["exit 1", "echo '{'", "sleep 60"])
async def test_on_failure_continue_allows_the_call(env: LocalEnv, command: str, caplog: Any) -> None:
    """The settings decide whether a timeout or a crash denies the call (known problem P-17)."""
    helper = hook("PreToolUse", command, timeout=0.2, on_failure="continue")
    prompt = hook("UserPromptSubmit", command, timeout=0.2, on_failure="continue")
    agent = make_agent(env, [helper, prompt], look_up("a"), "done")
    await agent.run("go")

    assert "Permission denied" not in results(agent)[0]
    assert [r.message.count("failed") for r in caplog.records if "hook" in r.message] == [1, 1]

    denying = hook("PreToolUse", "exit 2", on_failure="continue")
    agent = make_agent(env, [helper, denying], look_up("a"), "no")
    await agent.run("go")

    assert "Permission denied" in results(agent)[0]


@pytest.mark.covers("BYD-01")
async def test_hook_denies_if_the_environment_cannot_run_commands() -> None:
    agent = make_agent(MemoryEnv(), [hook("PreToolUse", "true")], look_up("a"), "done")
    await agent.run("go")
    assert "failed" in results(agent)[0]


@pytest.mark.covers("BYD-01")
async def test_hanging_command_is_killed_with_its_child_processes(env: LocalEnv, tmp_path: Path) -> None:
    script = "sleep 600 & echo $! >pid; sleep 600"
    agent = make_agent(env, [hook("PreToolUse", script, timeout=3)], look_up("a"), "done")
    await agent.run("go")

    pid = int((tmp_path / "pid").read_bytes())
    assert ended(pid)


@pytest.mark.covers("BYD-01")
async def test_changed_arguments_are_validated_and_checked_again(env: LocalEnv) -> None:
    change = print_hook_output("PreToolUse", updatedInput={"key": "b", "times": "2"})
    agent = make_agent(env, [hook("PreToolUse", change)], look_up("a"), "done")
    await agent.run("go")
    assert results(agent) == ["value of b" * 2]

    agent = make_agent(
        env, [hook("PreToolUse", print_hook_output("PreToolUse", updatedInput={"kee": 1}))], look_up("a"), "done"
    )
    await agent.run("go")
    assert results(agent)[0].startswith("Validation error")

    rules = Permissions(deny=["look"])
    agent = make_agent(env, [hook("PreToolUse", change)], look_up("a"), "done", permissions=rules)
    await agent.run("go")
    assert results(agent)[0].startswith("Permission denied")


@pytest.mark.covers("BYD-01")
async def test_command_sees_the_changes_of_other_hooks_and_handlers(env: LocalEnv, tmp_path: Path) -> None:
    guard = "echo asked >>count; grep -q evil && { echo no evil >&2; exit 2; }; exit 0"
    change = print_hook_output("PreToolUse", updatedInput={"key": "evil"})
    agent = make_agent(env, [hook("PreToolUse", guard), hook("PreToolUse", change)], look_up("good"), "done")
    await agent.run("go")
    assert results(agent) == ["Permission denied: no evil"]
    assert (tmp_path / "count").read_bytes().split() == [b"asked", b"asked"]

    agent = make_agent(env, [hook("PreToolUse", guard)], look_up("good"), "done")
    agent.on(ToolBefore, lambda h: {"input": {"key": "evil"}}, order=1000)
    await agent.run("go")
    assert results(agent) == ["Permission denied: no evil"]


async def test_unchanged_call_is_sent_to_each_command_once(env: LocalEnv, tmp_path: Path) -> None:
    agent = make_agent(env, [hook("PreToolUse", "echo x >>count")] * 2, look_up("a"), "done")
    await agent.run("go")
    assert (tmp_path / "count").read_bytes() == b"x\n"


@pytest.mark.covers("BYD-01")
async def test_ask_prompts_the_user_or_denies_without_one(env: LocalEnv) -> None:
    ask_hook = hook("PreToolUse", print_answer(decision="ask", reason="is it wise?"))
    agent = make_agent(env, [ask_hook], look_up("a"), "done")
    await agent.run("go")
    assert results(agent) == ["Permission denied: it needs confirmation, and no user is available (is it wise?)"]

    request: list[str] = []

    class ConfirmingUI(NonInteractiveUI):
        async def confirm(self, title: str, message: str = "") -> bool:
            request.append(title)
            return True

    agent = make_agent(env, [ask_hook], look_up("a"), "done", ui=ConfirmingUI())
    await agent.run("go")
    assert results(agent) == ["value of a"]
    assert request == ["look: is it wise?"]


@pytest.mark.covers("BYD-01")
async def test_allow_does_not_override_a_deny_rule(env: LocalEnv) -> None:
    allow = hook("PreToolUse", print_hook_output("PreToolUse", permissionDecision="allow"))
    agent = make_agent(env, [allow], look_up("a"), "done", permissions=Permissions(deny=["look"]))
    await agent.run("go")
    assert results(agent)[0].startswith("Permission denied")


async def test_command_can_end_the_run_and_notify_model_and_user(env: LocalEnv) -> None:
    notices: list[str] = []
    end = print_answer(**{"continue": False, "stopReason": "that is enough", "systemMessage": "I ended it"})
    agent = make_agent(env, [hook("PreToolUse", end)], look_up("a"), "never", notices=notices)
    result = await agent.run("go")
    assert (result.status, results(agent), notices) == ("denied", ["Permission denied: that is enough"], ["I ended it"])

    context = hook("PreToolUse", print_hook_output("PreToolUse", additionalContext="a is old"))
    agent = make_agent(env, [context], look_up("a"), "done")
    await agent.run("go")
    assert texts(agent) == ["go", "<hook-context>\na is old\n</hook-context>"]


async def test_matcher_selects_the_tools_of_a_hook(env: LocalEnv) -> None:
    agent = make_agent(env, [hook("PreToolUse", "exit 2", matcher="Bash|edit")], look_up("a"), "done")
    await agent.run("go")
    assert results(agent) == ["value of a"]


# --- after a call ---------------------------------------------------------------------------------------------------


@pytest.mark.covers("BYD-01")
async def test_commands_receive_results_and_failures_and_add_context(env: LocalEnv, tmp_path: Path) -> None:
    notices: list[str] = []
    hooks = [
        hook("PostToolUse", "cat >good.json; echo 'run the tests' >&2; exit 2"),
        hook("PostToolUseFailure", "cat >bad.json; exit 7"),
    ]
    agent = make_agent(env, hooks, look_up("a", "broken"), "done", notices=notices)
    await agent.run("go")

    good, bad = (json.loads((tmp_path / f"{n}.json").read_bytes()) for n in ("good", "bad"))
    assert good["tool_response"] == {"output": "value of a", "is_error": False, "title": ""}
    assert "no such key" in bad["error"]
    assert bad["tool_response"]["is_error"] is True
    assert texts(agent)[1] == "<hook-context>\nrun the tests\n</hook-context>"
    assert "failed: it exited with code 7" in notices[0]
    assert len(results(agent)) == 2


async def test_command_can_replace_a_result_and_end_the_run(env: LocalEnv) -> None:
    notices: list[str] = []
    change = hook("PostToolUse", print_hook_output("PostToolUse", updatedToolOutput="[hidden]"))
    end = hook("PostToolUse", print_answer(**{"continue": False, "stopReason": "seen enough"}))
    agent = make_agent(env, [change, end], look_up("a"), "never", notices=notices)
    result = await agent.run("go")

    assert results(agent) == ["[hidden]"]
    assert result.status == "denied"
    assert notices == ["A hook stopped the run: seen enough"]


# --- prompts and sessions -------------------------------------------------------------------------------------------


@pytest.mark.covers("BYD-01")
async def test_command_can_reject_a_prompt_or_add_context(env: LocalEnv) -> None:
    script = 'grep -q password && { echo "no passwords" >&2; exit 2; }; echo "Today is Friday."'
    agent = make_agent(env, [hook("UserPromptSubmit", script), hook("SessionStart", "echo 'We use tabs.'")], "ok", "ok")

    rejected = await agent.run("my password is x")
    assert (rejected.status, rejected.text) == ("denied", "Blocked: no passwords")
    assert agent.messages == ()

    await agent.run("hello")
    await agent.run("again")
    context = [t for t in texts(agent) if "hook-context" in t]
    assert texts(agent)[0] == "hello"
    assert len(context) == 2
    assert "Friday" in context[0]


@pytest.mark.covers("BYD-01")
async def test_failing_command_rejects_the_prompt(env: LocalEnv) -> None:
    agent = make_agent(env, [hook("UserPromptSubmit", "exit 1")], "never")
    result = await agent.run("hello")
    assert result.status == "denied"
    assert "a failing hook denies" in result.text


async def test_session_start_adds_context_once(env: LocalEnv) -> None:
    agent = make_agent(env, [hook("SessionStart", 'grep -o \'"source":"[a-z]*"\'')], "ok", "ok", "ok")
    await agent.run("one")
    await agent.run("two")
    agent.reset()
    await agent.run("three")
    assert texts(agent) == ["three", '<hook-context>\n"source":"clear"\n</hook-context>']


@pytest.mark.covers("BYD-01")
async def test_failing_or_hanging_observers_do_not_stop_the_run(env: LocalEnv) -> None:
    notices: list[str] = []
    failing: list[CommandEvent] = [e for e in COMMAND_EVENTS if e not in GATES]
    hooks = [hook(event, command, timeout=0.2) for event in failing for command in ("exit 3", "sleep 30")]
    agent = make_agent(env, hooks, look_up("a"), "done", notices=notices)
    result = await agent.run("go")
    await agent.shutdown()

    assert (result.status, result.text) == ("completed", "done")
    assert results(agent) == ["value of a"]
    for event in ("SessionStart", "PostToolUse", "Stop", "SessionEnd"):
        assert sum(f" of {event} failed" in text for text in notices) == 2, event


async def test_stop_hook_can_continue_the_run_a_limited_number_of_times(env: LocalEnv, tmp_path: Path) -> None:
    once = 'tee -a seen | grep -q \'"stop_hook_active":true\' || { echo "run the tests" >&2; exit 2; }'
    agent = make_agent(env, [hook("Stop", once)], "first", "second")
    result = await agent.run("go")
    assert (result.text, texts(agent)) == ("second", ["go", "run the tests"])
    assert b'"last_assistant_message":"first"' in (tmp_path / "seen").read_bytes()

    notices: list[str] = []
    agent = make_agent(env, [hook("Stop", "exit 2")], *["more"] * 20, notices=notices)
    assert (await agent.run("go")).turns == MAX_STOP_CONTINUATIONS + 1
    assert "It stops now" in notices[0]


@pytest.mark.covers("BYD-01")
async def test_other_events_contain_what_happened(env: LocalEnv, tmp_path: Path) -> None:
    events: tuple[CommandEvent, ...] = ("SubagentStop", "Notification", "PostCompact", "SessionEnd")
    hooks = [hook(event, f"cat >{event}.json") for event in events]
    agent = make_agent(
        env,
        hooks,
        *(Reply("", calls=[ScriptedCall("spawn", {"task": "find it"})]), "found", "done"),
        look_up("a"),
        subagents=Subagents(),
    )
    await agent.run("go")
    agent.on("tool:gate", lambda h: {"pause": "may it?"})
    await agent.run("on")
    await agent.bus.notify(ContextCompacted.from_messages("asked", agent.messages, agent.messages[-1:]))
    await agent.shutdown("exit")

    notices = {e: json.loads((tmp_path / f"{e}.json").read_bytes()) for e in events}
    assert notices["SubagentStop"]["last_assistant_message"] == "found"
    assert notices["SubagentStop"]["status"] == "completed"
    assert notices["Notification"]["message"] == "may it?"
    assert notices["PostCompact"]["messages_after"] < notices["PostCompact"]["messages_before"]
    assert notices["SessionEnd"]["reason"] == "exit"


# --- limits ---------------------------------------------------------------------------------------------------------


@pytest.mark.covers("BYD-01")
async def test_nested_hooks_are_limited(env: LocalEnv, tmp_path: Path) -> None:
    hooks = [hook("PreToolUse", "echo $MAINSPRING_HOOK_DEPTH >depth"), hook("PostToolUse", "echo x >after")]
    agent = make_agent(env, hooks, look_up("a"), "done", depth=MAX_HOOK_DEPTH - 1)
    await agent.run("go")
    assert results(agent) == ["value of a"]
    assert (tmp_path / "depth").read_bytes() == b"3\n"
    (tmp_path / "after").unlink()

    agent = make_agent(env, hooks, look_up("a"), "done", depth=MAX_HOOK_DEPTH)
    await agent.run("go")
    assert "hooks are nested 3 levels deep" in results(agent)[0]
    assert not (tmp_path / "after").exists()


async def test_commands_of_one_event_run_concurrently_up_to_a_limit(env: LocalEnv, tmp_path: Path) -> None:
    script = "# {0}\nmkdir -p at; touch at/{0}; ls at | wc -l >>most; sleep 0.15; rm at/{0}"
    hooks = [hook("PreToolUse", script.format(i)) for i in range(6)]
    runner = HookCommandRunner(hooks, env)
    agent = make_agent(env, hooks, look_up("a"), "done")
    await agent.run("go")

    assert len(runner.hooks_for("PreToolUse", ["look"])) == 6
    limit = [int(n) for n in (tmp_path / "most").read_bytes().split()]
    assert 1 < max(limit) <= 4


async def test_commands_receive_the_project_folder_but_no_api_keys(
    env: LocalEnv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    monkeypatch.setenv("MAINSPRING_SECRET", "x")
    agent = make_agent(env, [hook("PreToolUse", "env >seen")], look_up("a"), "done")
    await agent.run("go")

    seen = dict(line.split("=", 1) for line in (tmp_path / "seen").read_bytes().decode().splitlines() if "=" in line)
    assert seen["AGENT_PROJECT_DIR"] == seen["CLAUDE_PROJECT_DIR"] == str(tmp_path)
    assert seen["MAINSPRING_HOOK_DEPTH"] == "1"
    assert "OPENAI_API_KEY" not in seen
    assert "MAINSPRING_SECRET" not in seen


async def test_abort_kills_a_running_command(env: LocalEnv, tmp_path: Path) -> None:
    started = tmp_path / "started"
    os.mkfifo(started)
    command = hook("PreToolUse", "echo $$ >started; sleep 60")
    agent = make_agent(env, [command], look_up("a"), "never", behavior=RunOptions(abort_grace=0.05))
    running = asyncio.ensure_future(agent.run("go", raise_errors=False))
    pid = int(await asyncio.to_thread(started.read_bytes))
    agent.abort("enough")

    assert (await running).status == "aborted"
    assert ended(pid)


async def test_tool_calls_of_a_subagent_are_sent_too(env: LocalEnv) -> None:
    agent = make_agent(
        env,
        [hook("PreToolUse", "exit 2", matcher="look"), hook("Stop", "exit 2")],
        Reply("", calls=[ScriptedCall("spawn", {"task": "look"})]),
        look_up("a"),
        "refused",
        "done",
        *["on"] * 20,
        subagents=Subagents(),
        behavior=RunOptions(max_turns=3),
    )
    seen: list[str] = []

    def watch_subagent(h: Any) -> None:
        h.agent.on("tool-results:after", lambda r: seen.append(r.results.tool_results[0].text))

    agent.on("spawn:before", watch_subagent)
    await agent.run("go")
    assert seen == ["Permission denied: denied by a hook"]
