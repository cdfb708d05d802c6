"""Models, modes, subagents, questions, shell commands, and extensions in a chat."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from mainspring.app.chat import parse_line
from mainspring.app.chat.command_results import Fields, Picker, Table, Text
from mainspring.app.chat.commands import (
    Abort,
    Answer,
    Approve,
    Background,
    ExecutePlan,
    Prompt,
    SetMode,
    SetModel,
    SetThinking,
    Shell,
    Shortcut,
    Slash,
)
from mainspring.app.chat.events import (
    CommandEnd,
    QuestionRequest,
    QuestionResult,
    QueueChange,
    ReplayEnd,
    ShellEnd,
    ShellOutput,
    ShellStart,
    StatusChange,
)
from mainspring.app.run.options import PermissionFlags
from mainspring.events import (
    AgentEnd,
    ApprovalRequest,
    Notice,
    StreamEvent,
    SubagentEnd,
    SubagentEvent,
    SubagentStart,
    TextDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from mainspring.messages import Cost, Usage
from mainspring.models import ModelInfo, ModelRequest
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from tests.helpers.waiting_model import Gate, WaitingModel
from tests.unit.app.chat import event_builders as make
from tests.unit.app.chat.harness import Reader, chatting

YES = Approve("", "once")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    return tmp_path


def make_other_model(*script: Any, model: str = "other-2") -> ScriptedModel:
    return ScriptedModel(*script, model=model, provider="elsewhere", info=ModelInfo(model, "elsewhere", 5000))


# --- models ---------------------------------------------------------------------------------------------------------------


@pytest.mark.covers("BYD-09")
async def test_model_switch_applies_to_the_next_request(folder: Path, home: Path) -> None:
    gate = Gate()
    first = WaitingModel(ScriptedCall("read_file", {"path": "a.txt"}), gates={0: gate})
    second = make_other_model("I am another one")
    async with chatting(folder, home, first, make_model={"elsewhere:other-2": second}.__getitem__) as chat:
        await chat.send(Prompt("go"))
        await gate.reached_limit.wait()
        await chat.send(SetModel("elsewhere:other-2"))
        await chat.until(CommandEnd, lambda done: done.name == "set_model")
        gate.open.set()
        end = await chat.until(AgentEnd)
        status = chat.chat.status
    async with chatting(folder, home, ask={"continued": True}) as again:
        notice = await again.until(Notice)

    assert end.text == "I am another one"
    assert len(second.requests) == 1
    assert (status.model, status.context_window) == ("elsewhere:other-2", 5000)
    assert "elsewhere:other-2" in notice.text


@pytest.mark.covers("BYD-09")
async def test_model_is_kept_in_a_new_session(folder: Path, home: Path) -> None:
    second = make_other_model("hi", "again")
    async with chatting(folder, home, make_model=lambda _: second) as chat:
        await chat.slash("/model elsewhere:other-2")
        await chat.slash("/clear")
        end = await chat.run("go")

    assert end.text == "hi"


async def test_unknown_model_changes_nothing(folder: Path, home: Path) -> None:
    async with chatting(folder, home, "still here") as chat:
        done = await chat.slash("/model nonsense:x")
        end = await chat.run("go")

    assert done.error
    assert end.text == "still here"


async def test_misspelled_provider_changes_nothing(folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    async with chatting(folder, home, "still here", make_model=None) as chat:
        done = await chat.slash("/model antropic:claude")
        end = await chat.run("go")
        switched = await chat.slash("/model llama3.3:latest")

    assert "Unknown provider: 'antropic'. Did you mean anthropic:claude?" in done.error
    assert done.code == "PROVIDER_NOT_SUPPORTED"
    assert (end.text, switched.error, switched.code) == ("still here", "", "")


async def test_reasoning_effort_can_be_changed(folder: Path, home: Path) -> None:
    model = ScriptedModel("a", "b", info=ModelInfo("m", "p", reasoning=True))
    async with chatting(folder, home, model) as chat:
        await chat.send(SetThinking("high"))
        await chat.run("one")
        await chat.slash("/thinking low")
        await chat.run("two")
        bad = await chat.slash("/thinking enormous")

    assert [seen.request.thinking for seen in model.requests] == ["high", "low"]
    assert "Unknown reasoning effort: enormous" in bad.error


# --- modes ----------------------------------------------------------------------------------------------------------------


def write_call(content: str = "x") -> ScriptedCall:
    return ScriptedCall("write_file", {"path": "b.txt", "content": content})


@pytest.mark.covers("BYD-05")
async def test_plan_mode_writes_only_the_plan_file(folder: Path, home: Path) -> None:
    async with chatting(folder, home, write_call(), "# The plan\n\n1. Write b.txt", write_call(), "done") as chat:
        await chat.send(SetMode("plan"))
        await chat.until(CommandEnd)
        planned = await chat.run("add b.txt")
        approvals_in_plan = len(chat.of(ApprovalRequest))
        written_in_plan = (folder / "b.txt").exists()
        [plan] = (folder / ".agent" / "plans").glob("*.md")
        await chat.send(ExecutePlan())
        request = await chat.until(ApprovalRequest)
        await chat.send(Approve(request.id, "once"))
        done = await chat.until(AgentEnd)
        mode = chat.chat.status.mode

    assert len(planned.denied) == 1
    assert (approvals_in_plan, written_in_plan) == (0, False)
    assert plan.read_text(encoding="utf-8").startswith("# The plan")
    assert (done.status, mode) == ("completed", "default")
    assert (folder / "b.txt").exists()
    assert "Carry out this plan" in chat.users()[-1].message.text


@pytest.mark.covers("BYD-05")
async def test_approved_plan_ends_plan_mode(folder: Path, home: Path) -> None:
    present = ScriptedCall("present_plan", {"plan": "1. Write b.txt", "title": "B"})
    async with chatting(folder, home, present, write_call(), "done", ask={"plan": True}) as chat:
        await chat.send(Prompt("go"))
        request = await chat.until(QuestionRequest)
        await chat.send(Answer(request.id, ("approve",)))
        approval = await chat.until(ApprovalRequest)
        await chat.send(Approve(approval.id, "once"))
        await chat.until(AgentEnd)

    assert (request.kind, request.text) == ("plan", "1. Write b.txt")
    assert chat.of(StatusChange)[0].status.mode == "plan"
    assert chat.of(StatusChange)[-1].status.mode == "default"
    assert (folder / "b.txt").exists()


async def test_default_mode_has_one_name_and_its_former_name_is_accepted(folder: Path, home: Path) -> None:
    async with chatting(folder, home, "A plan.", ask={"plan": True}) as chat:
        await chat.run("go")
        notices = [event.text for event in chat.of(Notice)]
        done = await chat.slash("/mode build")
        picker = await chat.slash("/mode")
        unknown = await chat.slash("/mode nothing")

    assert [text for text in notices if text.startswith("Saved the plan to ")][0].endswith(
        "Execute it with /mode execute."
    )
    assert done.shown == Fields((("mode", "default"), ("effect", "Ask before changing anything")))
    assert isinstance(picker.shown, Picker)
    assert [choice.label for choice in picker.shown.choices if choice.current] == ["default"]
    assert unknown.error == "Unknown mode: nothing. Use default, accept_edits, plan, or execute."


@pytest.mark.covers("BYD-05")
async def test_mode_is_stored_with_the_session(folder: Path, home: Path) -> None:
    async with chatting(folder, home, "ok") as chat:
        await chat.slash("/mode plan")
        await chat.run("go")
    async with chatting(folder, home, ask={"continued": True}) as again:
        mode = again.chat.status.mode

    assert mode == "plan"


# --- questions ------------------------------------------------------------------------------------------------------------


async def test_ask_user_question_is_answered_or_declined(folder: Path, home: Path) -> None:
    ask = ScriptedCall("ask_user", {"question": "Which?", "options": [{"label": "red"}, {"label": "blue"}]})
    async with chatting(folder, home, ask, ask, "done") as chat:
        await chat.send(Prompt("go"))
        first = await chat.until(QuestionRequest)
        assert not (await chat.send(Answer(first.id, ("green",)))).accepted
        assert not (await chat.send(Approve(first.id, "once"))).accepted
        await chat.send(Answer(first.id, ("blue",), "but dark"))
        second = await chat.until(QuestionRequest)
        await chat.send(Answer(second.id, declined=True))
        await chat.until(AgentEnd)

    outputs = [t.result.text for t in chat.of(ToolExecutionEnd)]
    assert "blue" in outputs[0]
    assert "but dark" in outputs[0]
    assert "did not answer" in outputs[1]
    assert [s.outcome for s in chat.of(QuestionResult)] == ["answered", "declined"]


# --- subagents ------------------------------------------------------------------------------------------------------------


def spawn_call(task: str, kind: str = "", id: str = "") -> ScriptedCall:
    return ScriptedCall("spawn", {"task": task, **({"agent": kind} if kind else {})}, id=id)


@pytest.mark.covers("CLI-15", "BYD-03")
async def test_subagents_run_in_parallel_and_publish_events(folder: Path, home: Path) -> None:

    agents = home / ".agent" / "agents"
    agents.mkdir(parents=True)
    (agents / "looker.md").write_text(
        "---\nname: looker\ndescription: looks\ntools: read_file\n---\nYou look.", encoding="utf-8"
    )
    usage = Usage(100, 10, cost=Cost(input=0.5))
    both = asyncio.Event()

    class PairModel(ScriptedModel):
        """Answers no subagent before both have started."""

        asked = 0

        async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent]:
            if "You look." in str(request):
                self.asked += 1
                if self.asked == 2:
                    both.set()
                await both.wait()
            async for event in super().stream(request):
                yield event

    def respond(request: object) -> Reply:
        text = str(request)
        if "You look." not in text:
            if both.is_set():
                return Reply("both are back", usage=usage)
            return Reply(
                calls=[spawn_call("look at one", "looker", "s1"), spawn_call("look at two", "looker", "s2")],
                usage=usage,
            )
        if "tool_result" in text or "ToolResultBlock" in text:
            return Reply("seen", usage=usage)
        return Reply(calls=[ScriptedCall("read_file", {"path": "a.txt"})], usage=usage)

    async with chatting(folder, home, PairModel(*[respond] * 6)) as chat:
        end = await chat.run("go")
        cost = chat.chat.status.cost

    assert end.text == "both are back"
    assert {(c.name, c.task) for c in chat.of(SubagentStart)} == {("looker", "look at one"), ("looker", "look at two")}
    ids = {c.id for c in chat.of(SubagentStart)}
    inner = chat.of(SubagentEvent)
    assert {e.path[-1] for e in inner} == ids
    for id in ids:
        events = [e.event for e in inner if e.path == (id,)]
        assert [type(e) for e in events if isinstance(e, ToolExecutionStart | ToolExecutionEnd | TextDelta)] == [
            ToolExecutionStart,
            ToolExecutionEnd,
            TextDelta,
        ]
    assert [(c.stats.status, c.text, make.cost(c)) for c in chat.of(SubagentEnd)] == [("completed", "seen", 1.0)] * 2
    kinds = chat.kinds()
    first_end = kinds.index("SubagentEnd")
    assert kinds.count("SubagentStart") == 2
    assert max(i for i, k in enumerate(kinds) if k == "SubagentStart") < first_end  # in parallel
    assert make.cost(end) == cost == pytest.approx(3.0)  # the total includes subagents


@pytest.mark.covers("BYD-03", "CLI-15")
async def test_subagent_can_be_aborted_alone_and_asks_under_its_id(folder: Path, home: Path) -> None:
    gate = Gate()
    model = WaitingModel(
        spawn_call("write b.txt"), write_call("theirs"), "never said", "the parent goes on", gates={2: gate}
    )
    async with chatting(folder, home, model) as chat:
        await chat.send(Prompt("go"))
        request = await chat.until(ApprovalRequest)
        await chat.send(Approve(request.id, "once"))
        await gate.reached_limit.wait()
        child = chat.of(SubagentStart)[0].id
        running = chat.chat.status.children
        gate.open.set()
        assert not (await chat.send(Abort(child="nobody"))).accepted
        await chat.send(Abort(child=child))
        end = await chat.until(AgentEnd)

    assert request.agent == child, request
    assert running == 1
    assert chat.of(SubagentEnd)[0].stats.status in ("aborted", "completed")
    assert end.status == "completed"


# --- shell commands of the user -------------------------------------------------------------------------------------------


async def test_shell_command_is_shared_with_the_model_unless_hidden(folder: Path, home: Path) -> None:
    model = ScriptedModel("ok")
    async with chatting(folder, home, model) as chat:
        await chat.send(Shell("echo seen; exit 3"))
        first = await chat.until(ShellEnd)
        await chat.until_user()
        await chat.send(Shell("echo unseen", tell=False))
        await chat.until(ShellEnd)
        await chat.run("what was that?")

    request = "\n".join(m.text for m in model.requests[0].messages)
    assert first.exit_code == 3
    assert "".join(o.text for o in chat.of(ShellOutput)) == "seen\nunseen\n"
    assert "seen" in request
    assert "exit code 3" in request
    assert "unseen" not in request


@pytest.mark.parametrize("full", [True, False])
async def test_long_output_is_complete_or_marked(folder: Path, home: Path, full: bool) -> None:
    calls = [Reply(calls=(ScriptedCall("shell", {"command": f"seq {count}"}),)) for count in (330, 200_000)]
    model = ScriptedModel(calls[0], "ok", calls[1], "ok", "ok")
    async with chatting(folder, home, model, full_output=full) as chat:
        await chat.run("count", Approve("", "once"))
        await chat.run("count more", Approve("", "once"))
        await chat.send(Shell("seq 1000000"))
        typed = await chat.until(ShellEnd)
        await chat.until_user()
        short, long = chat.of(ToolExecutionEnd)
        files = [(long.result.details or {}).get("spool", ""), typed.output_file]
        contents = [Path(file).read_text() for file in files if file]
        await chat.run("what was that?")

    request = model.requests[-1].messages[-2].text + model.requests[-1].messages[-1].text
    assert "\n[... 6856128 bytes not shown ...]\n" in request
    assert len(request) < 40_000
    if full:
        assert short.result.text.split("\n")[:330] == [str(i) for i in range(1, 331)]
        assert "\n200000\n" in long.result.text
        assert [content.count("\n") for content in contents] == [200_000, 1_000_000]
    else:
        assert contents == []
        assert "\n40\n[... 273 lines not shown ...]\n" in short.result.text
        assert "bytes not shown" in typed.output or "lines not shown" in typed.output


async def test_shell_output_is_stored_with_the_session(folder: Path, home: Path) -> None:
    async with chatting(folder, home) as chat:
        await chat.send(Shell("echo kept"))
        await chat.until_user()
    async with chatting(folder, home, ask={"continued": True}) as again:
        user_text = await again.until_user()

    assert user_text.source == "shell"
    assert "kept" in user_text.message.text


async def test_shell_command_can_be_stopped(folder: Path, home: Path) -> None:
    async with chatting(folder, home) as chat:
        await chat.send(Shell("echo started; sleep 60"))
        await chat.until(ShellOutput)
        await chat.send(Abort())
        done = await chat.until(ShellEnd)
        message = await chat.until_user()

    assert done.stopped
    assert message.text.endswith(
        "\nstarted\n[interrupted: the user stopped this command; the output is partial]\n</shell>"
    )


async def test_output_of_a_shell_command_is_stored_if_the_chat_is_closed(folder: Path, home: Path) -> None:
    async with chatting(folder, home) as chat:
        await chat.send(Shell("echo started; sleep 60"))
        await chat.until(ShellOutput)
    async with chatting(folder, home, ask={"continued": True}) as again:
        await again.until(ReplayEnd)

    assert again.of(ShellStart)[0].line == "echo started; sleep 60"
    assert (again.of(ShellEnd)[0].output, again.of(ShellEnd)[0].stopped) == ("started", True)


# --- extensions -----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("CLI-09")
async def test_extension_adds_commands_shortcuts_and_questions(folder: Path, home: Path) -> None:
    extensions = home / ".agent" / "extensions"
    extensions.mkdir(parents=True)
    (extensions / "greeter.py").write_text(
        "def extension(api):\n"
        "    async def greet(arguments, ctx):\n"
        "        sure = await ctx.ui.confirm('Greet?', arguments)\n"
        "        return f'hello {arguments}' if sure else 'no greeting'\n"
        "    def fail(arguments):\n"
        "        raise RuntimeError('broken')\n"
        "    api.register_command('greet', greet, description='greets')\n"
        "    api.register_command('fail', fail)\n"
        "    api.register_shortcut('ctrl+k', lambda ctx: ctx.ui.notify('pressed'), description='tells')\n",
        encoding="utf-8",
    )
    async with chatting(folder, home, "still here") as chat:
        listed = await chat.slash("/help greet")
        await chat.send(Slash("/greet you"))
        request = await chat.until(QuestionRequest)
        await chat.send(Answer(request.id, ("yes",)))
        greeted = await chat.until(CommandEnd)
        broken = await chat.slash("/fail")
        keys = chat.chat.shortcuts
        await chat.send(Shortcut("ctrl+k"))
        pressed = await chat.until(Notice)
        assert not (await chat.send(Shortcut("ctrl+z"))).accepted
        end = await chat.run("go")

    assert "greets" in json.dumps(str(listed.shown))
    assert (request.kind, request.title) == ("confirm", "Greet?")
    assert "hello you" in str(greeted.shown)
    assert "broken" in broken.error
    assert keys == {"ctrl+k": "tells"}
    assert pressed.text == "pressed"
    assert end.status == "completed"


@pytest.mark.covers("CLI-09")
async def test_extension_cannot_replace_a_built_in_command(folder: Path, home: Path) -> None:
    extensions = home / ".agent" / "extensions"
    extensions.mkdir(parents=True)
    (extensions / "thief.py").write_text(
        "def extension(api):\n    api.register_command('rewind', lambda arguments: 'mine')\n", encoding="utf-8"
    )
    async with chatting(folder, home) as chat:
        done = await chat.slash("/rewind")

    assert "mine" not in str(done.shown)


@pytest.fixture
def ready(tmp_path: Path) -> Path:
    """A file that a command writes when it runs."""
    return tmp_path / "ready"


async def wait_for_file(path: Path) -> None:
    for _ in range(12_000):
        if path.exists():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{path} was not written")


async def wait_until_older(chat: Reader, seconds: float) -> None:
    """Wait until the first background command has run for a time, and is still running."""
    state = ""
    while state < f"running for {seconds}s":
        listed = (await chat.slash("/jobs")).shown
        assert isinstance(listed, Table)
        state = listed.rows[0][1]
        assert state.startswith("running for ")
        await asyncio.sleep(0.05)


async def test_running_command_moves_to_the_background(folder: Path, home: Path, ready: Path) -> None:
    script = f"echo first; touch {ready}; until [ -e {ready}.go ]; do sleep 0.02; done; echo second"
    model = ScriptedModel(ScriptedCall("shell", {"command": script, "timeout": 60}), "moved on", "it ended")
    async with chatting(folder, home, model, ask={"rules": PermissionFlags(allow=("shell",))}) as chat:
        none = await chat.send(Background())
        await chat.send(Prompt("go"))
        await wait_for_file(ready)
        await chat.until(ToolExecutionUpdate, lambda event: "first" in event.output)
        assert (await chat.send(Background())).accepted
        moved = await chat.until(ToolExecutionEnd)
        first = await chat.until(AgentEnd)
        listed = await chat.slash("/jobs")
        (ready.parent / "ready.go").touch()
        second = await chat.until(AgentEnd)
        shown = await chat.slash("/jobs job1")
        late = await chat.send(Background())

    assert "No command is running" in none.refused
    assert late.refused
    assert moved.result.text.startswith("first\n[the user moved the command to the background as job1. ")
    assert "You get a message when it ends." in moved.result.text
    assert first.text == "moved on"
    assert isinstance(listed.shown, Table)
    assert listed.shown.rows[0][0] == "job1"
    assert listed.shown.rows[0][1].startswith("running for ")
    assert second.text == "it ended"
    assert "The end of its output:\nsecond" in chat.model.requests[-1].messages[-1].text
    assert isinstance(shown.shown, Text)
    assert (shown.shown.text, shown.shown.title[:12]) == ("first\nsecond", "job1: exit 0")


async def test_command_of_the_user_moves_to_the_background(folder: Path, home: Path, ready: Path) -> None:
    script = f"echo first; touch {ready}; until [ -e {ready}.go ]; do sleep 0.02; done; echo second"
    async with chatting(folder, home, "seen") as chat:
        await chat.send(Shell(script))
        await wait_for_file(ready)
        await chat.until(ShellOutput, lambda event: "first" in event.text)
        assert (await chat.send(Background())).accepted
        moved = await chat.until(ShellEnd)
        (ready.parent / "ready.go").touch()
        notice = await chat.until(Notice)
        shown = await chat.slash("/jobs job1")
        await chat.send(Prompt("go"))
        await chat.until(AgentEnd)

    assert moved.output == "first\n[moved to the background as job1; /jobs job1 shows its output]"
    assert notice.text.startswith("job1: exit 0 after ")
    assert notice.text.endswith(". Show its output with /jobs job1.")
    assert isinstance(shown.shown, Text)
    assert shown.shown.text == "first\nsecond"
    request = str([message.text for message in chat.model.requests[-1].messages])
    assert "first\\n[moved to the background as job1; jobs(action=read, id=job1) shows its output]" in request


@pytest.mark.parametrize("is_of_user", [False, True])
async def test_command_moves_to_the_background_before_its_process_starts(
    folder: Path, home: Path, ready: Path, *, is_of_user: bool
) -> None:
    script = f"until [ -e {ready} ]; do sleep 0.02; done"
    model = ScriptedModel(ScriptedCall("shell", {"command": script}), "moved on", "it ended")
    async with chatting(folder, home, model, ask={"rules": PermissionFlags(allow=("shell",))}) as chat:
        await chat.send(Shell(script) if is_of_user else Prompt("go"))
        if not is_of_user:
            await chat.until(ToolExecutionStart)
        moving = await chat.send(Background())
        moved = await chat.until(ShellEnd if is_of_user else ToolExecutionEnd)
        if not is_of_user:
            await chat.until(AgentEnd)  # the end of the command is a message of another run
        listed = await chat.slash("/jobs")
        ready.touch()
        await chat.until(Notice if is_of_user else AgentEnd)
        again = await chat.send(Background())

    assert moving.accepted
    assert "the background as job1" in (moved.output if isinstance(moved, ShellEnd) else moved.result.text)
    assert isinstance(listed.shown, Table)
    assert listed.shown.rows[0][0] == "job1"
    assert again.refused == "No command is running."


async def test_command_in_the_background_outlives_its_time_limit_and_a_stopped_run(
    folder: Path, home: Path, ready: Path
) -> None:
    script = f"touch {ready}; sleep 600"
    model = WaitingModel(ScriptedCall("shell", {"command": script, "timeout": 3}), "never", gates={1: (gate := Gate())})
    async with chatting(folder, home, model, ask={"rules": PermissionFlags(allow=("shell",))}) as chat:
        await chat.send(Prompt("go"))
        await wait_for_file(ready)
        await chat.send(Background())
        await gate.reached_limit.wait()
        await chat.send(Abort())
        await chat.until(AgentEnd)
        await wait_until_older(chat, 3.2)  # than the time limit of the call
        killed = await chat.slash("/jobs kill job1")
        unknown = await chat.slash("/jobs job7")

    assert isinstance(killed.shown, Text)
    assert killed.shown.text.startswith("job1: killed after ")
    assert unknown.error == "Unknown background command: job7. List them with /jobs."


@pytest.mark.parametrize("is_aborted", [True, False])
async def test_command_in_the_foreground_ends_at_its_time_limit_and_with_its_run(
    folder: Path, home: Path, ready: Path, is_aborted: bool
) -> None:
    timeout = 60 if is_aborted else 3
    call = ScriptedCall("shell", {"command": f"echo begun; touch {ready}; sleep 600; echo never", "timeout": timeout})
    async with chatting(folder, home, call, "done", ask={"rules": PermissionFlags(allow=("shell",))}) as chat:
        await chat.send(Prompt("go"))
        await wait_for_file(ready)
        if is_aborted:
            await chat.send(Abort())
        end = await chat.until(ToolExecutionEnd)
        await chat.until(AgentEnd)
        jobs = await chat.slash("/jobs")

    assert isinstance(jobs.shown, Table)
    assert jobs.shown.rows == ()
    assert end.result.is_error
    if not is_aborted:
        assert "begun" in end.result.text
        assert "timed out: stopped after" in end.result.text


async def test_background_command_wakes_the_agent(folder: Path, home: Path, ready: Path) -> None:
    script = f"until [ -e {ready} ]; do sleep 0.02; done; echo over"
    call = ScriptedCall("shell", {"command": script, "background": True})
    async with chatting(folder, home, call, "it runs", "it has ended") as chat:
        first = await chat.run("start it", YES)
        ready.touch()
        second = await chat.until(AgentEnd)

    assert (first.text, second.text) == ("it runs", "it has ended")
    assert chat.users()[-1].source == "follow_up"


INPUT_EXTENSION = """
from mainspring.extensions import aliases

def on_input(event):
    if event.text == "ping":
        return {"action": "handled", "reply": "pong"}
    if event.text == "secret":
        raise ValueError("not this")
    if event.text == "/al x":
        return {"action": "transform", "text": "expanded x"}

def extension(api):
    aliases({"r": "Review $1 and be brief."})(api)
    api.on("input", on_input)
"""


def write_input_extension(home: Path) -> None:
    folder = home / ".agent" / "extensions"
    folder.mkdir(parents=True)
    (folder / "inputs.py").write_text(INPUT_EXTENSION, encoding="utf-8")


@pytest.mark.covers("EXT-05")
async def test_prompt_that_a_handler_handled_or_blocked_is_not_sent_again(folder: Path, home: Path) -> None:
    write_input_extension(home)
    async with chatting(folder, home, "first", "second") as chat:
        handled = await chat.run("ping")
        blocked = await chat.run("secret")
        answered = [await chat.run("hello"), await chat.run("hello again")]

    assert (handled.status, handled.text) == ("completed", "pong")
    assert blocked.status == "denied"
    assert [end.text for end in answered] == ["first", "second"]
    shown = [(each.name, each.shown, each.error) for each in chat.of(CommandEnd)]
    assert shown == [("input", Text("pong"), ""), ("input", None, blocked.text)]
    assert not [event for event in chat.of(QueueChange) if event.items]
    assert [event.message.text for event in chat.users()] == ["ping", "secret", "hello", "hello again"]


@pytest.mark.covers("EXT-05")
async def test_handled_prompts_of_the_queue_are_settled_too(folder: Path, home: Path) -> None:
    write_input_extension(home)
    gate = Gate()
    async with chatting(folder, home, WaitingModel("first", "third", gates={0: gate})) as chat:
        await chat.send(Prompt("one"))
        await chat.send(Prompt("ping"))
        await chat.send(Prompt("/al x"))
        gate.open.set()
        ends = [await chat.until(AgentEnd) for _ in range(3)]

    assert [end.text for end in ends] == ["first", "pong", "third"]
    assert not chat.of(QueueChange)[-1].items
    assert chat.model.requests[-1].messages[-1].text == "expanded x"


@pytest.mark.covers("EXT-05", "EXT-15")
async def test_aliases_of_extensions_expand_slash_lines(folder: Path, home: Path) -> None:
    write_input_extension(home)
    async with chatting(folder, home, "one", "two") as chat:
        for line in ("/r app.py", "/al x"):
            receipt = await chat.send(parse_line(line))
            assert receipt.accepted
            await chat.until(AgentEnd)
        await chat.send(parse_line("/typo app.py"))
        unknown = await chat.until(AgentEnd)
        last = await chat.slash("/help")

    sent = [request.messages[-1].text for request in chat.model.requests]
    assert sent == ["Review app.py and be brief.", "expanded x"]
    assert unknown.text.startswith("Unknown command: /typo.")
    assert last.shown is not None
