"""Shell commands of the user's own, beside the conversation or as a part of it."""

from __future__ import annotations

from mainspring.app.chat.events import ShellFinished, ShellOutput, ShellStarted, UserText
from mainspring.app.chat.message_queue import create_queued_message
from mainspring.app.chat.state import ChatState
from mainspring.app.chat.tool_display import truncate_middle
from mainspring.cancellation import CancelToken
from mainspring.env import OutputLimits, ProcessResult
from mainspring.messages import Message, utc_now
from mainspring.prompt_tags import wrap_in_tag
from mainspring.sessions import MessageEntry

_LIMITS = OutputLimits(head=16 << 10, tail=16 << 10)


async def run_shell(room: ChatState, id: str, line: str, signal: CancelToken, *, tell: bool) -> None:
    """Run a command in the conversation's environment. The user's own need no permission: they typed them.

    Args:
        room: The chat.
        id: What it is known by.
        line: A script for the shell.
        signal: Stops it.
        tell: Whether its output joins the conversation.

    Raises:
        OSError: If it cannot be started.
    """
    room.tell(ShellStarted(id, line, tell))

    def on_output(_: object, data: bytes) -> None:
        room.tell(ShellOutput(id, data.decode("utf-8", "replace")))

    result = await room.conversation.env.run(line, on_output=on_output, signal=signal, limits=_LIMITS)
    output = _text(result)
    room.tell(ShellFinished(id, result.exit_code, truncate_middle(output)[0]))
    if tell and not signal.cancelled:
        await _add_to_conversation(room, line, output, result.exit_code)


def _text(result: ProcessResult) -> str:
    parts = [result.stdout.text, result.stderr.text]
    left_out = result.stdout.omitted + result.stderr.omitted
    text = "\n".join([part.rstrip("\n") for part in parts if part])
    return f"{text}\n[{left_out} bytes left out]" if left_out else text


async def _add_to_conversation(room: ChatState, line: str, output: str, exit_code: int) -> None:
    status = "" if exit_code == 0 else f"\n[exit code {exit_code}]"
    text = "I ran a command:\n\n" + wrap_in_tag("shell", f"$ {line}\n{output}{status}")
    conversation = room.conversation
    if room.running:
        conversation.agent.steer(text)
        return
    message = Message.user(text, id=create_queued_message("").id, timestamp=utc_now())
    session = conversation.session
    if session is not None and session.writable:
        session.journal.record(MessageEntry, message=message, source="given")
        session.journal.wanted = True
        await session.journal.flush()
    conversation.agent.context.messages.append(message)
    room.tell(UserText(text, "shell", id=message.id))
    room.measure()
