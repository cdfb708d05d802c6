"""Hidden characters in every output for untrusted text."""

import io
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from mainspring.app.chat.command_results import Choice, Picker
from mainspring.app.cli.console import Console, one_line
from mainspring.app.commands.sessions import format_tree
from mainspring.app.export import render_html, render_markdown
from mainspring.app.tui.approval_dialog import ApprovalDialog
from mainspring.app.tui.dialogs import PickerDialog
from mainspring.app.tui.safe_text import escape_all, sanitize, to_one_row
from mainspring.app.tui.styled_text import to_text
from mainspring.app.tui.theme import Theme
from mainspring.app.tui.transcript_view import TranscriptView as Screen
from mainspring.env import MemoryEnv
from mainspring.permissions import Permissions
from mainspring.permissions.plug import build_request, permission_question
from mainspring.sessions.transcript import Transcript, TranscriptCall, TranscriptItem
from tests.unit.app.chat import event_builders as make
from tests.unit.test_text import HIDDEN

CODES = [code for code in HIDDEN if not 0xD800 <= code <= 0xDFFF]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _print_answer(text: str) -> str:
    out = Terminal()
    Console(out, io.StringIO(), {}).answer(text)
    return out.getvalue()


def _print_info(text: str) -> str:
    err = io.StringIO()
    Console(io.StringIO(), err, {}).info(text)
    return err.getvalue()


def _print_row(text: str) -> str:
    out = io.StringIO()
    Console(out, io.StringIO(), {}).row(text)
    return out.getvalue()


def _render_approval(text: str) -> str:
    request = make.approval("q", "t", "shell", "Shell", "run", text, reason=text, suggestions=(text,))
    return to_text(ApprovalDialog(request, lambda _: None).rows(200, 40))


def _render_picker(text: str) -> str:
    return to_text(PickerDialog(Picker(text, (Choice(text, "/x", text),)), lambda _: None).rows(200, 20))


def _render_screen(text: str) -> str:
    screen = Screen(Theme(), 200, 40)
    events = (
        make.user_text(text, "prompt"),
        make.thinking(text),
        make.response(text),
        make.tool_start("t", "read_file", "Read", text),
        make.tool_end("t", "read_file", "Read", text, output=text),
        make.tool_end("u", "read_file", "Read", text, is_error=True, output=text),
    )
    return to_text([row for event in events for row in screen.add_event(event, 1.0)])


def _make_transcript(text: str) -> Transcript:
    when = datetime(2025, 1, 1, tzinfo=UTC)
    call = TranscriptCall(id="c", name=text, input={"command": text}, output=text, details={"diff": text})
    item = TranscriptItem(id="i", parent=None, kind="assistant", when=when, text=text, thinking=text, calls=(call,), model=text,
                error=text, label=text)  # fmt: skip
    return Transcript(id="s", title=text, cwd=f"/x/{text}", created=when, items=(item,), problems=(text,))


SURFACES: dict[str, Callable[[str], str]] = {
    "answer on a terminal": _print_answer,
    "tool activity of print mode": _print_info,
    "row of a list in a pipe": _print_row,
    "one line": one_line,
    "screen text": sanitize,
    "screen, to the letter": escape_all,
    "screen row": lambda text: to_one_row(text, 200),
    "approval": _render_approval,
    "picker": _render_picker,
    "chat": _render_screen,
    "Markdown export": lambda text: render_markdown(_make_transcript(text)),
    "HTML export": lambda text: render_html(_make_transcript(text)),
    "tree": lambda text: "\n".join(format_tree(_make_transcript(text))),
}


@pytest.mark.parametrize("surface", SURFACES)
def test_hidden_characters_are_escaped_everywhere(surface: str) -> None:
    show = SURFACES[surface]
    for code in CODES:
        text = f"name{chr(code)}rest é"
        assert chr(code) not in show(text), hex(code)
    assert show("Z" + "\u0301" * 40).count("\u0301" * 5) == 0


async def test_approval_requests_escape_hidden_characters() -> None:
    env = MemoryEnv({"a": "b"})
    permissions = Permissions()
    for code in CODES:
        for tool, arguments in (
            ("shell", {"command": f"rm 'a{chr(code)}b'"}),
            ("write_file", {"path": f"a{chr(code)}b", "content": "x"}),
            ("fetch", {"url": f"https://example.com/a{chr(code)}b"}),
        ):
            if code == 0 and tool == "write_file":
                continue  # no path
            decision = await permissions.decide(tool, arguments, env=env)
            if decision.outcome != "ask":
                continue
            assert chr(code) not in permission_question(decision), (tool, hex(code))
            request = build_request(decision, arguments)
            assert chr(code) not in request.resource, (tool, hex(code))
            assert chr(code) not in request.reason, (tool, hex(code))


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[2Jb", "a\r\nb", "a\u2028b", "a`b", "a\x9bb"])
def test_name_adds_no_line_to_an_export(name: str) -> None:
    plain_lines = render_markdown(_make_transcript("name")).count("\n")
    transcript = _make_transcript("name")
    item = transcript.items[0]
    call = TranscriptCall(id="c", name=name, input={"command": "name"}, output="name", details={"diff": "name"})
    named = Transcript(
        id="s", title=name, cwd=f"/x/{name}", created=transcript.created, problems=(name,),
        items=(TranscriptItem(id="i", parent=None, kind="assistant", when=item.when, text="name", thinking="name", calls=(call,),
                    model=name, error=name, label=name),),
    )  # fmt: skip
    text = render_markdown(named)
    assert text.count("\n") == plain_lines
    assert "\x1b" not in text
    assert all(line.count("`") % 2 == 0 for line in text.splitlines() if line.startswith("- Folder"))
