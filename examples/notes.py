"""The built-in file tools under permissions, in a conversation that is stored and goes on."""

import asyncio
import sys

from mainspring import Agent, ModelProvider, Permissions, Session
from mainspring.tools.builtin import list_files, read_file, write_file


async def main(model: ModelProvider | str | None = None, folder: str = ".") -> str:
    permissions = Permissions(allow=["write_file(notes.md)"])  # reads in the folder are allowed, this one write is
    for number, prompt in enumerate(("Write a note that says 'buy milk' into notes.md.", "What does notes.md say?")):
        session = Session.latest(folder) if number else Session.create(folder)
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


if __name__ == "__main__":
    asyncio.run(main(folder=sys.argv[1] if len(sys.argv) > 1 else "."))
