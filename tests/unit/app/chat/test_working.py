"""Models, modes, sub-agents, questions, shell commands and extensions in a chat."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mainspring.app.chat.commands import (
    Abort,
    Answer,
    Approve,
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
    AnswerText,
    ApprovalAsked,
    ChildEvent,
    ChildFinished,
    ChildStarted,
    CommandDone,
    Notice,
    QuestionAsked,
    QuestionSettled,
    RunFinished,
    ShellFinished,
    ShellOutput,
    StatusChanged,
    ToolFinished,
    ToolStarted,
    UserText,
)
from mainspring.messages import Cost, Usage
from mainspring.models import ModelInfo
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from tests.unit.app.chat.harness import Gate, WaitingModel, chatting

YES = Approve("", "once")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    return tmp_path


def other(*script: Any, model: str = "other-2") -> ScriptedModel:
    return ScriptedModel(*script, model=model, provider="elsewhere", info=ModelInfo(model, "elsewhere", 5000))


# --- models ---------------------------------------------------------------------------------------------------------------


@pytest.mark.covers("BYD-09")
async def test_another_model_answers_from_the_next_request_on(folder: Path, home: Path) -> None:
    gate = Gate()
    first = WaitingModel(ScriptedCall("read_file", {"path": "a.txt"}), gates={0: gate})
    second = other("I am another one")
    async with chatting(folder, home, first, make_model={"elsewhere:other-2": second}.__getitem__) as chat:
        await chat.send(Prompt("go"))
        await gate.reached_limit.wait()
        await chat.send(SetModel("elsewhere:other-2"))
        await chat.until(CommandDone, lambda done: done.name == "set_model")
        gate.open.set()
        end = await chat.until(RunFinished)
        status = chat.chat.status
    async with chatting(folder, home, ask={"continued": True}) as again:
        notice = await again.until(Notice)

    assert end.text == "I am another one"
    assert len(second.requests) == 1
    assert (status.model, status.context_window) == ("elsewhere:other-2", 5000)
    assert "elsewhere:other-2" in notice.text


@pytest.mark.covers("BYD-09")
async def test_the_model_stays_in_a_new_session(folder: Path, home: Path) -> None:
    second = other("hi", "again")
    async with chatting(folder, home, make_model=lambda _: second) as chat:
        await chat.slash("/model elsewhere:other-2")
        await chat.slash("/clear")
        end = await chat.run("go")

    assert end.text == "hi"


async def test_a_model_that_there_is_not_changes_nothing(folder: Path, home: Path) -> None:
    async with chatting(folder, home, "still here") as chat:
        done = await chat.slash("/model nonsense:x")
        end = await chat.run("go")

    assert done.error
    assert end.text == "still here"


async def test_reasoning_is_set_by_command(folder: Path, home: Path) -> None:
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


def write(content: str = "x") -> ScriptedCall:
    return ScriptedCall("write_file", {"path": "b.txt", "content": content})


@pytest.mark.covers("BYD-05")
async def test_in_plan_mode_nothing_changes_and_the_plan_is_a_file(folder: Path, home: Path) -> None:
    async with chatting(folder, home, write(), "# The plan\n\n1. Write b.txt", write(), "done") as chat:
        await chat.send(SetMode("plan"))
        await chat.until(CommandDone)
        planned = await chat.run("add b.txt")
        asked_in_plan = len(chat.of(ApprovalAsked))
        written_in_plan = (folder / "b.txt").exists()
        [plan] = (folder / ".agent" / "plans").glob("*.md")
        await chat.send(ExecutePlan())
        asked = await chat.until(ApprovalAsked)
        await chat.send(Approve(asked.id, "once"))
        done = await chat.until(RunFinished)
        mode = chat.chat.status.mode

    assert planned.denied == 1
    assert (asked_in_plan, written_in_plan) == (0, False)
    assert plan.read_text(encoding="utf-8").startswith("# The plan")
    assert (done.status, mode) == ("completed", "build")
    assert (folder / "b.txt").exists()
    assert "Carry out this plan" in chat.of(UserText)[-1].text


@pytest.mark.covers("BYD-05")
async def test_an_approved_plan_ends_plan_mode(folder: Path, home: Path) -> None:
    present = ScriptedCall("present_plan", {"plan": "1. Write b.txt", "title": "B"})
    async with chatting(folder, home, present, write(), "done", ask={"plan": True}) as chat:
        await chat.send(Prompt("go"))
        asked = await chat.until(QuestionAsked)
        await chat.send(Answer(asked.id, ("approve",)))
        approval = await chat.until(ApprovalAsked)
        await chat.send(Approve(approval.id, "once"))
        await chat.until(RunFinished)

    assert (asked.kind, asked.text) == ("plan", "1. Write b.txt")
    assert chat.of(StatusChanged)[0].status.mode == "plan"
    assert chat.of(StatusChanged)[-1].status.mode == "build"
    assert (folder / "b.txt").exists()


@pytest.mark.covers("BYD-05")
async def test_the_mode_is_kept_with_the_session(folder: Path, home: Path) -> None:
    async with chatting(folder, home, "ok") as chat:
        await chat.slash("/mode plan")
        await chat.run("go")
    async with chatting(folder, home, ask={"continued": True}) as again:
        mode = again.chat.status.mode

    assert mode == "plan"


# --- questions ------------------------------------------------------------------------------------------------------------


async def test_a_question_of_the_agent_is_answered_or_not(folder: Path, home: Path) -> None:
    ask = ScriptedCall("ask_user", {"question": "Which?", "options": [{"label": "red"}, {"label": "blue"}]})
    async with chatting(folder, home, ask, ask, "done") as chat:
        await chat.send(Prompt("go"))
        first = await chat.until(QuestionAsked)
        assert not (await chat.send(Answer(first.id, ("green",)))).accepted
        assert not (await chat.send(Approve(first.id, "once"))).accepted
        await chat.send(Answer(first.id, ("blue",), "but dark"))
        second = await chat.until(QuestionAsked)
        await chat.send(Answer(second.id, declined=True))
        await chat.until(RunFinished)

    told = [t.output for t in chat.of(ToolFinished)]
    assert "blue" in told[0]
    assert "but dark" in told[0]
    assert "no answer" in told[1]
    assert [s.outcome for s in chat.of(QuestionSettled)] == ["answered", "declined"]


# --- sub-agents -----------------------------------------------------------------------------------------------------------


def spawn(task: str, kind: str = "", id: str = "") -> ScriptedCall:
    return ScriptedCall("spawn", {"task": task, **({"agent": kind} if kind else {})}, id=id)


@pytest.mark.covers("CLI-15", "BYD-03")
async def test_sub_agents_of_files_run_in_parallel_and_are_shown(folder: Path, home: Path) -> None:

    agents = home / ".agent" / "agents"
    agents.mkdir(parents=True)
    (agents / "looker.md").write_text(
        "---\nname: looker\ndescription: looks\ntools: read_file\n---\nYou look.", encoding="utf-8"
    )
    usage = Usage(100, 10, cost=Cost(input=0.5))
    both = asyncio.Event()
    started: list[str] = []

    def answer(request: object) -> Reply:
        text = str(request)
        if "You look." not in text:
            if len(started) == 2:
                return Reply("both are back", usage=usage)
            return Reply(
                calls=[spawn("look at one", "looker", "s1"), spawn("look at two", "looker", "s2")], usage=usage
            )
        if "tool_result" in text or "ToolResultBlock" in text:
            return Reply("seen", usage=usage)
        started.append(text)
        if len(started) == 2:
            both.set()
        return Reply(calls=[ScriptedCall("read_file", {"path": "a.txt"})], usage=usage)

    async with chatting(folder, home, ScriptedModel(*[answer] * 6)) as chat:
        end = await chat.run("go")
        cost = chat.chat.status.cost

    assert end.text == "both are back"
    assert both.is_set()
    assert {(c.name, c.task) for c in chat.of(ChildStarted)} == {("looker", "look at one"), ("looker", "look at two")}
    ids = {c.id for c in chat.of(ChildStarted)}
    inner = chat.of(ChildEvent)
    assert {e.id for e in inner} == ids
    for id in ids:
        events = [e.event for e in inner if e.id == id]
        assert [type(e) for e in events if isinstance(e, ToolStarted | ToolFinished | AnswerText)] == [
            ToolStarted,
            ToolFinished,
            AnswerText,
        ]
    assert [(c.status, c.text, c.cost) for c in chat.of(ChildFinished)] == [("completed", "seen", 1.0)] * 2
    kinds = chat.kinds()
    first_end = kinds.index("ChildFinished")
    assert kinds.count("ChildStarted") == 2
    assert max(i for i, k in enumerate(kinds) if k == "ChildStarted") < first_end  # beside each other
    assert end.cost == cost == pytest.approx(3.0)  # one total


@pytest.mark.covers("BYD-03", "CLI-15")
async def test_a_sub_agent_is_stopped_alone_and_asks_under_its_own_name(folder: Path, home: Path) -> None:
    gate = Gate()
    model = WaitingModel(spawn("write b.txt"), write("theirs"), "never said", "the parent goes on", gates={2: gate})
    async with chatting(folder, home, model) as chat:
        await chat.send(Prompt("go"))
        asked = await chat.until(ApprovalAsked)
        await chat.send(Approve(asked.id, "once"))
        await gate.reached_limit.wait()
        child = chat.of(ChildStarted)[0].id
        running = chat.chat.status.children
        gate.open.set()
        assert not (await chat.send(Abort(child="nobody"))).accepted
        await chat.send(Abort(child=child))
        end = await chat.until(RunFinished)

    assert asked.child == child, asked
    assert running == 1
    assert chat.of(ChildFinished)[0].status in ("aborted", "completed")
    assert end.status == "completed"


# --- shell commands of the user's -----------------------------------------------------------------------------------------


async def test_a_shell_command_joins_the_conversation_or_not(folder: Path, home: Path) -> None:
    model = ScriptedModel("ok")
    async with chatting(folder, home, model) as chat:
        await chat.send(Shell("echo seen; exit 3"))
        first = await chat.until(ShellFinished)
        await chat.until(UserText)
        await chat.send(Shell("echo unseen", tell=False))
        await chat.until(ShellFinished)
        await chat.run("what was that?")

    request = "\n".join(m.text for m in model.requests[0].messages)
    assert first.exit_code == 3
    assert "".join(o.text for o in chat.of(ShellOutput)) == "seen\nunseen\n"
    assert "seen" in request
    assert "exit code 3" in request
    assert "unseen" not in request


async def test_what_a_shell_command_said_is_kept_with_the_session(folder: Path, home: Path) -> None:
    async with chatting(folder, home) as chat:
        await chat.send(Shell("echo kept"))
        await chat.until(UserText)
    async with chatting(folder, home, ask={"continued": True}) as again:
        said = await again.until(UserText)

    assert said.source == "shell"
    assert "kept" in said.text


async def test_a_shell_command_is_stopped(folder: Path, home: Path) -> None:
    async with chatting(folder, home) as chat:
        await chat.send(Shell("echo started; sleep 60"))
        await chat.until(ShellOutput)
        await chat.send(Abort())
        done = await chat.until(ShellFinished)

    assert done.exit_code != 0


# --- extensions -----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("CLI-09")
async def test_extensions_bring_commands_shortcuts_and_questions(folder: Path, home: Path) -> None:
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
        asked = await chat.until(QuestionAsked)
        await chat.send(Answer(asked.id, ("yes",)))
        greeted = await chat.until(CommandDone)
        broken = await chat.slash("/fail")
        keys = chat.chat.shortcuts
        await chat.send(Shortcut("ctrl+k"))
        pressed = await chat.until(Notice)
        assert not (await chat.send(Shortcut("ctrl+z"))).accepted
        end = await chat.run("go")

    assert "greets" in json.dumps(str(listed.shown))
    assert (asked.kind, asked.title) == ("confirm", "Greet?")
    assert "hello you" in str(greeted.shown)
    assert "broken" in broken.error
    assert keys == {"ctrl+k": "tells"}
    assert pressed.text == "pressed"
    assert end.status == "completed"


@pytest.mark.covers("CLI-09")
async def test_no_extension_gets_the_name_of_a_command_of_the_chat(folder: Path, home: Path) -> None:
    extensions = home / ".agent" / "extensions"
    extensions.mkdir(parents=True)
    (extensions / "thief.py").write_text(
        "def extension(api):\n    api.register_command('rewind', lambda arguments: 'mine')\n", encoding="utf-8"
    )
    async with chatting(folder, home) as chat:
        done = await chat.slash("/rewind")

    assert "mine" not in str(done.shown)


async def test_a_command_in_the_background_wakes_the_agent(folder: Path, home: Path) -> None:
    call = ScriptedCall("shell", {"command": "sleep 0.6; echo over", "background": True})
    async with chatting(folder, home, call, "it runs", "it has ended") as chat:
        first = await chat.run("start it", YES)
        second = await chat.until(RunFinished)

    assert (first.text, second.text) == ("it runs", "it has ended")
    assert chat.of(UserText)[-1].source == "notice"
