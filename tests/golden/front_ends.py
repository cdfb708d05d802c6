"""Record what the program writes about a run: stream-json lines, RPC lines, and ACP messages."""

import asyncio
import io
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from acp import text_block
from msgspec.structs import replace

from mainspring.app.cli.console import Console
from mainspring.app.compose.client_services import ClientServices
from mainspring.app.compose.conversation import open_conversation
from mainspring.app.printing.print_mode import create_printer, run_once
from mainspring.cancellation import CancelToken
from mainspring.events import Event, TextDelta
from mainspring.extensions import ExtensionAPI
from tests.golden.runs import PROMPT, SUBAGENT, Run, look, note
from tests.unit.app.servers.acp.harness import Editor, options_for, run_client
from tests.unit.app.servers.rpc.harness import open_client

FrontEnd = Callable[[Run, Path, Path], Awaitable[list[Any]]]
"""Records a run: gets the run, the project's folder, and the home folder."""

_REPLACEABLE = {"queue_changed", "status_changed", "working"}
"""Events of which only the last of several in a row may arrive, which depends on the time."""


def offer_tools(api: ExtensionAPI) -> None:
    """Register the tools of the runs; the extension in the user's folder is this function."""
    api.register_tool(look)
    api.register_tool(note)


def write_user_folder(home: Path) -> None:
    """Write the extension with the tools, and the definition of the subagent."""
    definition = f"name: {SUBAGENT.name}\ndescription: {SUBAGENT.description}\ntools: {', '.join(SUBAGENT.tools or ())}"
    files = {
        "extensions/golden.py": f"from {__name__} import {offer_tools.__name__} as extension\n",
        f"agents/{SUBAGENT.name}.md": f"---\n{definition}\n---\n{SUBAGENT.system}\n",
    }
    for name, text in files.items():
        file = home / ".agent" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")


async def record_stream_json(run: Run, folder: Path, home: Path) -> list[Any]:
    """Run in print mode, and return the lines."""
    write_user_folder(home)
    model = run.make_model()
    options = options_for(folder, home, model)
    signal = CancelToken()
    out = io.StringIO()
    printer = create_printer("stream-json", Console(out, io.StringIO(), {}))

    def on_event(event: Event) -> None:
        printer.on_event(event)
        if run.hangs and isinstance(event, TextDelta):
            signal.cancel("enough")

    launch = replace(options.ask, prompt=PROMPT, tools=("spawn",))
    conversation = await open_conversation(launch, on_event, options.environ, ClientServices(model=model))
    try:
        printer.finish(await run_once(conversation, PROMPT, on_event, signal))
    finally:
        await conversation.aclose()
    return [json.loads(line) for line in out.getvalue().splitlines()]


async def record_rpc(run: Run, folder: Path, home: Path) -> list[Any]:
    """Run over RPC, and return the lines of the server: events first, then replies, whose place among events varies."""
    write_user_folder(home)
    events, replies = list[Any](), list[Any]()
    async with open_client(folder, home, run.make_model()) as client:
        client.send_command(1, type="prompt", text=PROMPT)
        while len(replies) < len(client.sent) or not (events and events[-1]["type"] == "agent_end"):
            line = await client.next()
            if line["type"] != "event":
                replies.append(line)
                continue
            event = line["event"]
            if events and event["type"] == events[-1]["type"] in _REPLACEABLE:
                events.pop()
            events.append(event)
            match event:
                case {"type": "approval_request", "id": id}:
                    client.send_command(2, type="approve", id=id, decision="deny", reason="Not now.")
                case {"type": "text_delta"} if run.hangs:
                    client.send_command(3, type="abort", reason="enough")
                case _:
                    pass
    return [*({"type": "event", "seq": i, "event": event} for i, event in enumerate(events, 1)), *replies]


async def record_acp(run: Run, folder: Path, home: Path) -> list[Any]:
    """Run in an editor, and return the notifications and requests of the agent, and its response to the prompt."""
    write_user_folder(home)
    editor = Editor("deny")
    async with run_client(folder, home, editor, run.make_model()) as (connection, _):
        session = await connection.new_session(cwd=str(folder))
        prompt = connection.prompt(session_id=session.session_id, prompt=[text_block(PROMPT)])
        if run.hangs:
            async with asyncio.TaskGroup() as tasks:
                answer = tasks.create_task(prompt)
                await editor.until("agent_message_chunk")
                await connection.cancel(session_id=session.session_id)
            response = await answer
        else:
            response = await prompt
    requests = [message for is_incoming, message in editor.watch.messages if is_incoming and "method" in message]
    messages = [
        m for m in requests if m["params"].get("update", {}).get("sessionUpdate") != "available_commands_update"
    ]
    return [*messages, response.model_dump(mode="json", by_alias=True, exclude_none=True)]
