"""The built-in file tools under permissions, in a conversation that is stored and goes on."""

import asyncio
import sys
import tempfile

from mainspring import Agent, ModelProvider, Permissions, Session
from mainspring.tools.builtin import list_files, read_file, write_file


async def ask(prompt: str, session: Session, model: ModelProvider | str | None, folder: str) -> str:
    permissions = Permissions(allow=["write_file(notes.md)"])  # reads in the folder are allowed, this one write is
    with session:
        agent = Agent(
            model,
            tools=[read_file, write_file, list_files],
            execution=folder,
            session=session,
            permissions=permissions,
        )
        result = await agent.run(prompt)
    print(f"> {prompt}\n{result.text}")
    return result.text


async def main(model: ModelProvider | str | None = None, folder: str | None = None) -> str:
    folder = folder or tempfile.mkdtemp(prefix="notes-")  # give it a folder of yours to keep the note
    await ask("Write a note that says 'buy milk' into notes.md.", Session.create(folder), model, folder)
    return await ask("What does notes.md say?", Session.latest(folder), model, folder)


if __name__ == "__main__":
    asyncio.run(main(folder=sys.argv[1] if len(sys.argv) > 1 else None))
