"""Random commands in random order: no deadlock, every question settled, every call finished, and no typed text lost."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from mainspring import events as run_events
from mainspring.app.chat import events as chat_events
from mainspring.app.chat.commands import (
    Abort,
    Answer,
    Approve,
    ChatCommand,
    Compact,
    EditQueued,
    ExecutePlan,
    Fork,
    NewSession,
    Prompt,
    Queue,
    RemoveQueued,
    Rename,
    Resume,
    Rewind,
    SendQueued,
    SetMode,
    SetModel,
    SetThinking,
    Shell,
    Slash,
    Steer,
)
from mainspring.errors import NetworkError
from mainspring.models import ModelInfo
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from tests.unit.app.chat.harness import chatting

SECONDS = 120.0

REPLIES: tuple[Any, ...] = (
    "an answer",
    Reply("thinking aloud", thinking="hm", chunk_count=5),
    ScriptedCall("read_file", {"path": "a.txt"}),
    ScriptedCall("write_file", {"path": "b.txt", "content": "x"}),
    [ScriptedCall("write_file", {"path": "c.txt", "content": "x"}), ScriptedCall("shell", {"command": "echo hi"})],
    ScriptedCall("ask_user", {"question": "Which?", "options": [{"label": "one"}]}),
    ScriptedCall("spawn", {"task": "look"}),
    ScriptedCall("multi_edit", {"path": "a.txt", "edits": [{"old_string": "one", "new_string": "1"}]}),
    NetworkError("down", retryable=False),
    ScriptedCall("nonsense", {}),
)

Step = tuple[str, int]

STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            "prompt steer queue edit remove send abort approve deny session answer decline wrong "
            "slash unknown model mode new rewind compact shell wait wait wait "
            "always never reshape hunks fork resume thinking rename execute undo".split()
        ),
        st.integers(0, 9),
    ),
    max_size=30,
)
LINES = ("/cost", "/help", "/context", "/tree", "/sessions", "/name x", "/copy", "/permissions", "/clear", "/rewind 1")


class ChatPlayer:
    """Runs steps against a chat and records the typed texts."""

    def __init__(self, chat: Any) -> None:
        self.chat = chat
        self.seen: list[chat_events.ChatEvent] = []
        self.typed: dict[str, str] = {}
        self.count = 0

    async def read(self) -> None:
        async for event in self.chat.events():
            self.seen.append(event)

    def of(self, kind: Any) -> list[Any]:
        return [e for e in self.seen if isinstance(e, kind)]

    def open(self, requested: Any, settled: Any) -> list[Any]:
        done = {e.id for e in self.of(settled)}
        return [e for e in self.of(requested) if e.id not in done]

    def queued(self) -> list[Any]:
        changes = self.of(chat_events.QueueChange)
        return list(changes[-1].items) if changes else []

    def command(self, step: Step) -> ChatCommand | None:
        what, n = step
        approvals = self.open(run_events.ApprovalRequest, run_events.ApprovalResult)
        questions = self.open(chat_events.QuestionRequest, chat_events.QuestionResult)
        queued = self.queued()
        approval = approvals[n % len(approvals)].id if approvals else "q0"
        question = questions[n % len(questions)] if questions else None
        waits = queued[n % len(queued)].id if queued else "said-0"
        chosen = tuple(o.value for o in question.options[:1]) if question else ()
        request = question.id if question else "q0"
        if what in ("prompt", "steer", "queue", "edit"):
            self.count += 1
        text = f"text-{self.count}."
        created: dict[str, ChatCommand] = {
            "prompt": Prompt(text),
            "steer": Steer(text),
            "queue": Queue(text),
            "edit": EditQueued(waits, text),
            "remove": RemoveQueued(waits),
            "send": SendQueued(waits if n % 2 else ""),
            "abort": Abort(),
            "approve": Approve(approval, "once"),
            "session": Approve(approval, "session"),
            "deny": Approve(approval, "deny"),
            "answer": Answer(request, chosen),
            "decline": Answer(request, declined=True),
            "wrong": Approve(request, "once", hunks=(99,)),
            "slash": Slash(LINES[n]),
            "unknown": Slash("/nonsense"),
            "model": SetModel("other:one"),
            "mode": SetMode("plan" if n % 2 else "default"),
            "new": NewSession(),
            "rewind": Rewind(what="conversation"),
            "compact": Compact(),
            "shell": Shell("echo shell", tell=bool(n % 2)),
            "always": Approve(approval, "always"),
            "never": Approve(approval, "never", reason="no"),
            "reshape": Approve(approval, "edit", input={"path": f"{n}.txt", "content": "reshaped"}),
            "hunks": Approve(approval, "once", hunks=(n % 2,)),
            "fork": Fork(),
            "resume": Resume(),
            "thinking": SetThinking("high" if n % 2 else "off"),
            "rename": Rename(f"name {n}"),
            "execute": ExecutePlan(),
            "undo": Rewind(to="undo"),
        }
        return created.get(what)

    async def play(self, step: Step) -> None:
        command = self.command(step)
        if command is None:
            for _ in range(step[1] * 5):
                await asyncio.sleep(0)
            return
        receipt = await self.chat.send(command)
        match command:
            case Prompt(text=text) | Steer(text=text) | Queue(text=text) if receipt.accepted:
                self.typed[receipt.id] = text
            case EditQueued(id=id, text=text) if receipt.accepted:
                self.typed[id] = text
            case RemoveQueued(id=id) if receipt.accepted:
                self.typed.pop(id, None)
            case _:
                pass

    async def settle(self) -> None:
        """Answer all requests until the chat is idle."""
        while self.chat.busy:
            for request in self.open(run_events.ApprovalRequest, run_events.ApprovalResult):
                await self.chat.send(Approve(request.id, "deny"))
            for request in self.open(chat_events.QuestionRequest, chat_events.QuestionResult):
                await self.chat.send(Answer(request.id, declined=True))
            await asyncio.sleep(0.001)


def create_model(replies: list[int]) -> ScriptedModel:
    remaining = iter(replies)

    def answer(_: object) -> Any:
        number = next(remaining, 0)
        return REPLIES[number % len(REPLIES)]

    return ScriptedModel(answer, loop=True, info=ModelInfo("m", "p", 100_000))


async def play(steps: list[Step], replies: list[int], ending: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, home = Path(name, "work"), Path(name, "home")
        folder.mkdir()
        home.mkdir()
        (folder / "a.txt").write_text("one\n", encoding="utf-8")
        model = create_model(replies)
        async with asyncio.timeout(SECONDS):
            async with chatting(folder, home, model, make_model=lambda _: model) as created:
                player = ChatPlayer(created.chat)
                reading = asyncio.ensure_future(player.read())
                for step in steps:
                    await player.play(step)
                if ending == "settle":
                    await player.settle()
                session = created.chat.status.session_id
            await reading
            check_events(player)
            if player.queued():
                async with chatting(folder, home, "x", ask={"session": session}) as again:
                    restored = await again.until(chat_events.QueueChange)
                waiting = {q.text for q in restored.items}
                assert {q.text for q in player.queued()} <= waiting


def check_events(player: ChatPlayer) -> None:
    for request, settled in (
        (run_events.ApprovalRequest, run_events.ApprovalResult),
        (chat_events.QuestionRequest, chat_events.QuestionResult),
    ):
        assert sorted(e.id for e in player.of(request)) == sorted(e.id for e in player.of(settled))
    inner = [e.event for e in player.of(run_events.SubagentEvent)]
    events = [*player.seen, *inner]
    started = sum(isinstance(e, run_events.ToolExecutionStart) for e in events)
    assert started == sum(isinstance(e, run_events.ToolExecutionEnd) for e in events)
    assert len(player.of(run_events.AgentStart)) == len(player.of(run_events.AgentEnd))
    assert len(player.of(run_events.SubagentStart)) == len(player.of(run_events.SubagentEnd))
    sent_text = " ".join(e.message.text for e in player.of(run_events.MessageEnd))
    waits = " ".join(q.text for q in player.queued())
    for text in player.typed.values():
        assert text in sent_text or text in waits, (text, sent_text, waits)


@pytest.mark.covers("BYD-04", "CLI-02", "CLI-10")
@settings(max_examples=40)
@given(steps=STEPS, replies=st.lists(st.integers(0, 9), max_size=12), ending=st.sampled_from(["settle", "leave"]))
def test_random_commands_keep_the_chat_consistent(steps: list[Step], replies: list[int], ending: str) -> None:
    asyncio.run(play(steps, replies, ending))


@pytest.mark.soak
@pytest.mark.timeout(600)
@settings(max_examples=1000)
@given(steps=STEPS, replies=st.lists(st.integers(0, 9), max_size=12), ending=st.sampled_from(["settle", "leave"]))
def test_many_random_commands_keep_the_chat_consistent(steps: list[Step], replies: list[int], ending: str) -> None:
    asyncio.run(play(steps, replies, ending))
