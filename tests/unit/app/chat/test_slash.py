"""Slash commands: routing, completion, and output."""

import json
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from mainspring.app.chat import parse_line, slash_commands
from mainspring.app.chat.command_results import Changes, Clipboard, Fields, Picker, Screen, Table, Text, UiSetting
from mainspring.app.chat.commands import Prompt, Queue, Shell, Slash, Steer, expand_shorthand
from mainspring.app.chat.events import CommandEnd, CommandRejected, SessionChange
from mainspring.app.chat.session_commands import format_bar
from mainspring.app.workspace.file_mentions import find_mentions
from mainspring.env.local import LocalEnv
from mainspring.errors import ContextExceededError
from mainspring.events import AgentEnd, Done, Notice
from mainspring.messages import Cost, Message, TextBlock, Usage
from mainspring.models import ModelInfo, ModelRequest
from mainspring.testing import Reply
from mainspring.testing.scripted_model import ScriptedModel
from tests.helpers.waiting_model import Gate, WaitingModel
from tests.unit.app.chat.harness import chatting

RAW = Path(__file__).parents[2] / "mcp" / "raw_server.py"
ALL = (
    "help model thinking mode tools permissions skills mcp memory sessions resume tree fork rewind name compact context cost "
    "export copy config trust telemetry theme vim clear new quit exit jobs"
).split()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.py").write_text("", encoding="utf-8")
    (tmp_path / ".gitignore").write_text("build/\n", encoding="utf-8")
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "app.o").write_text("", encoding="utf-8")
    return tmp_path


@pytest.mark.covers("CLI-03", "CLI-04")
async def test_every_command_returns_something_to_show(folder: Path, home: Path) -> None:
    shapes: dict[str, object] = {}
    async with chatting(folder, home, "the answer") as chat:
        await chat.run("hello")
        for name in sorted(ALL, key=lambda n: n in ("clear", "new", "fork", "quit", "exit")):
            done = await chat.slash(f"/{name}")
            assert done.name == name
            assert done.error == "", (name, done.error)
            shapes[name] = type(done.shown)

    assert sorted(shapes) == sorted(ALL)
    assert shapes["help"] is Table
    assert {shapes[n] for n in ("model", "thinking", "mode", "sessions", "resume", "tree", "rewind")} == {Picker}
    assert shapes["context"] is Fields
    assert {shapes[n] for n in ("cost", "jobs", "tools", "permissions", "skills", "mcp", "config", "trust")} == {Table}
    assert {shapes[n] for n in ("telemetry", "memory", "name", "compact", "export")} == {Text}
    assert shapes["copy"] is Clipboard
    assert {shapes[n] for n in ("quit", "exit")} == {Screen}
    assert {shapes[n] for n in ("fork", "clear", "new")} == {type(None)}


@pytest.mark.covers("CLI-03")
async def test_help_lists_every_command(folder: Path, home: Path) -> None:
    async with chatting(folder, home) as chat:
        done = await chat.slash("/help")
        one = await chat.slash("/help rewind")
        none = await chat.slash("/help nonsense")

    assert isinstance(done.shown, Table)
    assert {f"/{name}" for name in (*ALL, "init", "diff", "review")} <= {row[0] for row in done.shown.rows}
    assert all(row[2] for row in done.shown.rows)
    assert isinstance(one.shown, Table)
    assert len(one.shown.rows) == 1
    assert "Unknown command: /nonsense" in none.error


@pytest.mark.covers("CLI-03")
async def test_unknown_command_is_not_sent_to_the_model(folder: Path, home: Path) -> None:
    model = ScriptedModel("never")
    async with chatting(folder, home, model) as chat:
        receipt = await chat.send(Slash("/modle openai:x"))
        rejected = await chat.until(CommandRejected)

    assert "/model" in rejected.reason
    assert rejected.id == receipt.id
    assert model.requests == []


async def test_commands_of_other_agents_have_a_hint(folder: Path, home: Path) -> None:
    async with chatting(folder, home) as chat:
        await chat.send(Slash("/usage"))
        rejected = await chat.until(CommandRejected)

    assert rejected.reason == "Unknown command: /usage. Use /cost. The text was not sent to the agent."


async def test_note_in_an_untrusted_folder_says_when_it_is_read(folder: Path, home: Path) -> None:
    async with chatting(folder, home) as chat:
        noted = (await chat.slash("/memory add use tabs")).shown
        await chat.slash("/trust yes")
        again = (await chat.slash("/memory add use spaces")).shown

    assert isinstance(noted, Text)
    assert isinstance(again, Text)
    assert noted.text.endswith("The agent reads it once you trust this folder with /trust yes.")
    assert "/trust yes" not in again.text


@pytest.mark.covers("CLI-03", "CLI-04")
async def test_telemetry_and_trust_commands_show_their_state(folder: Path, home: Path) -> None:
    (home / ".agent").mkdir()
    (home / ".agent" / "settings.json").write_text(
        '{"telemetry": {"enabled": true, "endpoint": "http://localhost:4318"}}', encoding="utf-8"
    )
    async with chatting(folder, home) as chat:
        telemetry = await chat.slash("/telemetry")
        before = await chat.slash("/trust")
        await chat.slash("/trust yes")
        after = await chat.slash("/trust")
        await chat.slash("/trust no")
        last = await chat.slash("/trust")

    assert "http://localhost:4318" in str(telemetry.shown)
    assert "is not trusted" in str(before.shown)
    assert "is trusted" in str(after.shown)
    assert "is not trusted" in str(last.shown)


@pytest.mark.covers("CLI-04")
async def test_config_and_memory_commands_change_files(folder: Path, home: Path) -> None:
    async with chatting(folder, home) as chat:
        changed = await chat.slash("/config agent.maxTurns 7")
        shown = await chat.slash("/config agent")
        await chat.slash('/config notifications.ways ["bell"]')
        await chat.slash("/config ui.theme dark")
        await chat.slash("/config telemetry.enabled false")
        values = await chat.slash("/config")
        bad = await chat.slash("/config agent.maxTrns 7")
        await chat.slash("/memory tests run with pytest")
        memory = await chat.slash("/memory")

    assert changed.error == ""
    assert json.loads((home / ".agent" / "settings.json").read_text(encoding="utf-8"))["agent"]["maxTurns"] == 7
    assert "agent.maxTurns" in str(shown.shown)
    assert isinstance(values.shown, Table)
    listed = {row[0]: row[1] for row in values.shown.rows}
    assert listed["notifications.ways"] == '["bell"]'
    assert listed["telemetry.enabled"] == "false"
    assert listed["agent.maxTurns"] == "7"
    assert listed["ui.theme"] == '"dark"'
    assert bad.error
    assert "tests run with pytest" in str(memory.shown)


async def test_several_commands_run_in_order(folder: Path, home: Path) -> None:
    async with chatting(folder, home, "ok") as chat:
        for line in ("/name one", "/name two", "/name three"):
            await chat.send(Slash(line))
        await chat.send(Prompt("go"))
        await chat.until(AgentEnd)
        title = chat.chat.status.title

    names = [done.name for done in chat.of(CommandEnd)]
    assert names == ["name"] * 3
    assert title == "three"
    assert [u.source for u in chat.users()] == ["queue"]  # the prompt was queued behind the commands


async def test_cost_lists_models_kinds_of_tokens_and_limits(folder: Path, home: Path) -> None:
    usage = Usage(1000, 50, cache_read=400, cost=Cost(input=0.25, output=0.25))
    other = ScriptedModel(Reply("ok", usage=Usage(70, 7)), model="other-2")
    limits = {"maxCost": 2.0, "maxTurns": 9, "maxTotalTokens": 90_000}
    options: dict[str, Any] = {"ask": {"agent": limits}, "make_model": {"elsewhere:other-2": other}.__getitem__}
    async with chatting(folder, home, Reply("ok", usage=usage), **options) as chat:
        before = await chat.slash("/cost")
        await chat.run("go")
        await chat.slash("/model elsewhere:other-2")
        await chat.run("go on")
        done = await chat.slash("/cost")

    assert isinstance(before.shown, Table)
    assert isinstance(done.shown, Table)
    assert before.shown.rows[0] == ("total", "0", "0", "0", "0", "$0.0000")
    assert done.shown.columns == ("model", "in", "out", "cached", "tokens", "cost")
    first, second, total, *limits_shown = done.shown.rows
    assert first[1:] == ("1,400", "50", "400", "1,450", "$0.5000")
    assert (second[0].endswith(":other-2"), second[1:]) == (True, ("70", "7", "0", "77", "price unknown"))
    assert total == ("total", "1,470", "57", "400", "1,527", "$0.5000 plus 1 call of unknown price")
    assert {row[0] for row in limits_shown} == {"run limit"}
    assert {row[-1] for row in limits_shown} == {"$2.00", "90,000 tokens", "9 model calls"}


@pytest.mark.parametrize("reported", [True, False])
async def test_context_adds_up_and_shows_bars(folder: Path, home: Path, reported: bool) -> None:
    usage = Usage(7000, 1000) if reported else Usage.zero()
    model = ScriptedModel(Reply("ok", usage=usage), info=ModelInfo("m", "p", 20_000))
    async with chatting(folder, home, model) as chat:
        await chat.run("hello " * 500)
        shown = (await chat.slash("/context")).shown

    assert isinstance(shown, Fields)
    fields = dict(shown.fields)
    counts = {name: int(text.split()[-1].replace(",", "")) for name, text in fields.items() if name != "used"}
    used = int(fields["used"].split(" of ")[0].split()[-1].replace(",", ""))
    parts = [counts[name] for name in ("system prompt", "tools", "tool results", "messages")]
    assert sum(parts) == used
    assert used + counts["free"] == int(fields["used"].split(" of ")[1].split()[0].replace(",", ""))
    assert used == 8000 or not reported
    assert all(text.startswith(("█", "░")) for name, text in fields.items() if name != "message count")


async def test_context_has_bars_if_the_window_is_unknown(folder: Path, home: Path) -> None:
    async with chatting(folder, home, "ok") as chat:
        shown = (await chat.slash("/context")).shown

    assert isinstance(shown, Fields)
    fields = dict(shown.fields)
    assert "an unknown number of tokens" in fields["used"]
    assert all(fields[name].startswith(("█", "░")) for name in ("system prompt", "tools", "messages"))


def test_bar_has_the_length_of_the_share() -> None:
    assert [format_bar(part, 100) for part in (0, 1, 50, 100, 300)] == [
        f"{'█' * filled}{'░' * (10 - filled)} {percent:>4} "
        for filled, percent in ((0, "0%"), (1, "1%"), (5, "50%"), (10, "100%"), (10, "100%"))
    ]
    assert format_bar(5, 0) == ""


async def test_compact_reports_why_it_changed_nothing(folder: Path, home: Path) -> None:
    async with chatting(folder, home, *("no",) * 20) as chat:
        await chat.run("hello")
        short = (await chat.slash("/compact")).shown
        for _ in range(3):
            await chat.run("word " * 60_000)
        done = await chat.slash("/compact")
        failed = done.shown

    assert isinstance(short, Text)
    assert isinstance(failed, Text), done
    assert short.text.startswith("The conversation is unchanged. The newest messages, about ")
    assert failed.text.startswith("The conversation is unchanged. The summary failed: ")
    assert ". The window is filled with about " in failed.text
    assert " tokens: messages about 225,0" in failed.text
    assert failed.text.endswith("Start a new session, or use a model with a larger window.")


async def test_some_commands_are_available_during_a_run(folder: Path, home: Path) -> None:
    gate = Gate()
    async with chatting(folder, home, WaitingModel("ok", gates={0: gate})) as chat:
        await chat.send(Prompt("go"))
        await gate.reached_limit.wait()
        done = await chat.slash("/cost")
        rejected = await chat.send(Slash("/rewind"))
        gate.open.set()
        await chat.until(AgentEnd)

    assert done.error == ""
    assert "not available while the agent is working" in rejected.refused


# --- commands, skills, and MCP prompts ------------------------------------------------------------------------------------


@pytest.mark.covers("OPT-04")
async def test_custom_command_from_a_markdown_file(folder: Path, home: Path) -> None:
    commands = home / ".agent" / "commands"
    commands.mkdir(parents=True)
    (commands / "review.md").write_text(
        "---\ndescription: looks at something\nallowed-tools: read_file\n---\nReview $ARGUMENTS now.", encoding="utf-8"
    )
    model = ScriptedModel("fine", "all tools again")
    async with chatting(folder, home, model) as chat:
        help_ = await chat.slash("/help review")
        await chat.send(Slash("/review the tests"))
        await chat.until(AgentEnd)
        await chat.run("and now")

    assert "looks at something" in str(help_.shown)
    assert "Review the tests now." in model.requests[0].messages[-1].text
    assert [t.name for t in model.requests[0].request.tools] == ["read_file"]
    assert len(model.requests[1].request.tools) > 5
    assert chat.users()[0].source == "command"


@pytest.mark.covers("CLI-04", "CLI-14")
async def test_skill_is_activated_by_name(folder: Path, home: Path) -> None:
    skill = home / ".agent" / "skills" / "brew-tea"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(
        "---\nname: brew-tea\ndescription: How tea is made.\n---\nWarm the pot first.", encoding="utf-8"
    )
    model = ScriptedModel("the tea is ready", "no tea")
    async with chatting(folder, home, model) as chat:
        listed = await chat.slash("/skills")
        offered = await chat.chat.completions("/skill:b")
        await chat.send(Slash("/skill:brew-tea make me a cup"))
        await chat.until(AgentEnd)
        unknown = await chat.slash("/skill:coffee")

    assert "How tea is made." in str(listed.shown)
    assert [c.text for c in offered] == ["/skill:brew-tea"]
    sent = "\n".join(m.text for m in model.requests[0].messages)
    assert "Warm the pot first." in sent
    assert "make me a cup" in sent
    assert any("Skill brew-tea activated" in n.text for n in chat.of(Notice))
    assert unknown.error
    assert len(model.requests) == 1


@pytest.mark.covers("CLI-03")
async def test_mcp_prompt_is_sent(folder: Path, home: Path) -> None:
    server = {"command": sys.executable, "args": ["-S", "-E", str(RAW)]}
    (home / ".agent").mkdir()
    (home / ".agent" / "settings.json").write_text(
        json.dumps({"mcp": {"graceSeconds": 20, "servers": {"docs": server}}}), encoding="utf-8"
    )
    model = ScriptedModel("done")
    async with chatting(folder, home, model) as chat:
        listed = await chat.slash("/mcp")
        offered = await chat.chat.completions("/mcp:d")
        short = await chat.slash("/mcp:docs:sum")
        unknown = await chat.slash("/mcp:docs:nonsense")
        await chat.send(Slash("/mcp:docs:sum otters"))
        await chat.until(AgentEnd)

    assert isinstance(listed.shown, Table)
    assert [row[:2] for row in listed.shown.rows] == [("docs", "ready")]
    assert int(listed.shown.rows[0][2]) > 0
    assert [c.text for c in offered] == ["/mcp:docs:sum"]
    assert "needs" in short.error
    assert "/mcp:docs:sum" in unknown.error
    assert "otters" in model.requests[0].messages[-1].text


# --- completion -----------------------------------------------------------------------------------------------------------


async def test_commands_and_arguments_are_completed(folder: Path, home: Path) -> None:
    async with chatting(folder, home, "ok") as chat:
        await chat.run("hi")
        session = chat.chat.status.session_id
        names = [c.text for c in await chat.chat.completions("/m")]
        exact = [c.text for c in await chat.chat.completions("/mode")]
        models = await chat.chat.completions("/model anthropic:claude-son")
        levels = [c.text for c in await chat.chat.completions("/thinking h")]
        sessions = await chat.chat.completions(f"/resume {session[:6]}")
        nothing = await chat.chat.completions("just words")

    assert names[:4] == ["/mcp", "/memory", "/mode", "/model"]
    assert exact[0] == "/mode"  # an exact match comes before longer names
    assert models
    assert all(m.text.startswith("anthropic:claude-son") for m in models)
    assert models[0].start == len("/model ")
    assert levels[0] == "high"
    assert [c.text for c in sessions] == [session]
    assert nothing == ()


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ("@odd", ['@"odd name (1).txt"', '@"odd dir/']),
        ('see @"odd na', ['@"odd name (1).txt"']),
        ('@"odd dir/', ['@"odd dir/', '@"odd dir/in.txt"']),
        ('@"src/a', ['@"src/app.py"']),
        ("@end", ['@"end!"']),
        ("@pla", ["@plain.txt"]),
    ],
)
async def test_completion_quotes_names_that_need_it(folder: Path, home: Path, line: str, texts: list[str]) -> None:
    (folder / "odd dir").mkdir()
    for name in ("odd dir/in.txt", "odd name (1).txt", "end!", "plain.txt"):
        (folder / name).write_text("content", encoding="utf-8")
    async with chatting(folder, home) as chat:
        offered = await chat.chat.completions(line)

    assert [candidate.text for candidate in offered][: len(texts)] == texts
    assert all(find_mentions(each.text) == [each.text.strip('@"')] for each in offered if not each.text.endswith("/"))


async def test_files_are_completed_after_an_at_sign(folder: Path, home: Path) -> None:
    async with chatting(folder, home) as chat:
        found = await chat.chat.completions("look at @ap")
        dotted = await chat.chat.completions("@./src/a")
        mail = await chat.chat.completions("me@ap")

    assert [(c.text, c.start) for c in found] == [("@src/app.py", 8)]  # ignored files are not offered
    assert [c.text for c in dotted] == ["@./src/app.py"]
    assert mail == ()


async def test_files_of_a_typed_folder_are_completed_in_a_large_project(
    folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slash_commands, "_MAX_FILES", 3)
    (folder / "src" / "deep").mkdir()
    (folder / "src" / "deep" / "in.txt").write_text("", encoding="utf-8")
    async with chatting(folder, home) as chat:
        found = [await chat.chat.completions(line) for line in ("@src/d", "@./src/deep/i", "@none/i", "@../")]

    assert [[c.text for c in each] for each in found] == [
        ["@src/deep/", "@src/deep/in.txt"],
        ["@./src/deep/in.txt"],
        [],
        [],
    ]


async def test_a_folder_is_listed_once_while_its_files_are_typed(
    folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slash_commands, "_MAX_FILES", 3)
    walked: list[str] = []
    walk = LocalEnv.walk

    async def count(env: LocalEnv, path: str, **options: Any) -> Any:
        walked.append(path)
        return await walk(env, path, **options)

    async with chatting(folder, home) as chat:
        monkeypatch.setattr(LocalEnv, "walk", count)
        for typed in ("a", "ap", "app"):
            assert [c.text for c in await chat.chat.completions(f"@src/{typed}")] == ["@src/app.py"]

    assert walked == [str(folder), str(folder / "src")]


# --- parsing of lines -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("hello", Prompt("hello")),
        ("  two\nlines ", Prompt("  two\nlines ")),
        ("/model x", Slash("/model x")),
        ("/usr/bin/env is missing", Prompt("/usr/bin/env is missing")),
        ("/", Prompt("/")),
        ("/ not a command", Prompt("/ not a command")),
        ("/usr is full", Prompt("/usr is full")),
        ("/tmp, is it full?", Prompt("/tmp, is it full?")),
        ("/bin", Prompt("/bin")),
        ("/modle x", Slash("/modle x")),
        ("!ls -l", Shell("ls -l")),
        ("!!ls", Shell("ls", tell=False)),
        ("!", Prompt("!")),
        ("!!", Prompt("!!")),
        ("/mcp:docs:summary a", Slash("/mcp:docs:summary a")),
    ],
)
def test_parse_line_recognizes_each_kind_of_input(line: str, command: object) -> None:
    assert parse_line(line) == command


@pytest.mark.parametrize("line", ["/usr", "/USR now", "/tmp/x y"])
def test_command_has_precedence_over_a_path_of_the_same_name(line: str) -> None:
    assert parse_line(line, known=("usr", "tmp/x")) == Slash(line)


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("?", "/help"),
        (" ? ", "/help"),
        ("what?", "what?"),
        ("# use tabs", "/memory add use tabs"),
        ("# Title\n\nText", "# Title\n\nText"),
        ("#12 fails", "#12 fails"),
    ],
)
def test_shorthand_is_expanded(typed: str, text: str) -> None:
    assert expand_shorthand(typed) == text


def test_parse_line_can_make_steering_and_queued_messages() -> None:
    assert parse_line("x", message_type=Steer) == Steer("x")
    assert parse_line("x", message_type=Queue) == Queue("x")


async def test_quit_and_clear_commands(folder: Path, home: Path) -> None:
    async with chatting(folder, home, "ok") as chat:
        quit_ = await chat.slash("/quit")
        await chat.run("hi")
        await chat.slash("/clear")

    assert quit_.shown == Screen("quit")
    assert chat.of(SessionChange)[-1].reason == "new"
    assert Changes("x").diffs == ()


async def test_theme_and_vim_are_saved_and_reported(folder: Path, home: Path) -> None:
    async with chatting(folder, home) as chat:
        listed = await chat.slash("/theme")
        unknown = await chat.slash("/theme pink")
        changed = await chat.slash("/theme color-blind")
        again = await chat.slash("/theme")
        vim = [(await chat.slash("/vim")).shown for _ in range(3)]
    assert isinstance(listed.shown, Picker)
    assert (listed.shown.preview, [c.label for c in listed.shown.choices if c.current]) == ("theme", ["auto"])
    assert "Unknown theme: pink. Use auto, dark, light, high-contrast, color-blind, plain." in unknown.error
    assert changed.shown == UiSetting("theme", "color-blind")
    assert isinstance(again.shown, Picker)
    assert [c.label for c in again.shown.choices if c.current] == ["color-blind"]
    assert vim == [UiSetting("editing", "vim"), UiSetting("editing", "emacs"), UiSetting("editing", "vim")]
    ui = json.loads((home / ".agent" / "settings.json").read_text())["ui"]
    assert ui == {"theme": "color-blind", "editing": "vim"}


async def test_side_question_is_answered_during_a_run_and_leaves_no_trace(folder: Path, home: Path) -> None:
    gate = Gate()
    usage = Usage(1000, 50, cost=Cost(input=0.25, output=0.25))

    class TwoWay(WaitingModel):
        """The run waits at the gate, the side question does not."""

        async def stream(self, request: Any) -> AsyncGenerator[Any]:
            if request.tool_choice == "none":
                asked.append(request)
                yield Done("end_turn", Message("assistant", (TextBlock("**42** files"),), usage=usage))
                return
            async for event in super().stream(request):
                yield event

    asked: list[ModelRequest] = []
    model = TwoWay("first", "second", gates={1: gate})
    async with chatting(folder, home, model) as chat:
        await chat.run("hello")
        cost = chat.chat.status.cost
        await chat.send(Prompt("next"))
        await gate.reached_limit.wait()
        answered = await chat.slash("/btw how many files?")
        during = chat.chat.status
        gate.open.set()
        end = await chat.until(AgentEnd)
        costs = await chat.slash("/cost")
        empty = await chat.slash("/btw")
        session = next((home / ".agent").rglob("*.jsonl")).read_text()

    assert answered.shown == Text("**42** files", "Side question: how many files?", markdown=True)
    assert end.text == "second"
    assert "Use /btw QUESTION" in empty.error
    assert (during.cost or 0) - (cost or 0) == pytest.approx(0.5)
    assert "0.5000" in str(costs.shown)
    (request,) = asked
    assert [message.text for message in request.messages][:3] == ["hello", "first", "next"]
    assert request.messages[-1].text.endswith("\n\nhow many files?")
    assert request.tools
    for text in ("how many files", "**42**"):
        assert text not in session
        assert not any(text in message.text for message in chat.chat.messages)


async def test_cost_of_a_side_question_is_part_of_the_resumed_session(folder: Path, home: Path) -> None:
    usage = Usage(1000, 50, cost=Cost(input=0.25, output=0.25))
    async with chatting(folder, home, Reply("one", usage=usage), Reply("aside", usage=usage)) as chat:
        await chat.run("hello")
        await chat.slash("/btw why?")
        before, session = chat.chat.status, chat.chat.status.session_id
    async with chatting(folder, home, "two", ask={"session": session}) as chat:
        after = chat.chat.status

    assert (before.cost, before.tokens) == (1.0, 2_100)
    assert (after.cost, after.tokens) == (1.0, 2_100)


async def test_side_question_that_fails_is_an_error_of_the_command(folder: Path, home: Path) -> None:
    async with chatting(folder, home, "first", ContextExceededError("too long")) as chat:
        await chat.run("hello")
        failed = await chat.slash("/btw why?")
        assert len(chat.chat.messages) == 2
    assert "too long" in failed.error
