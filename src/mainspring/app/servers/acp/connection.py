"""One client over lines."""

from __future__ import annotations

import asyncio

from acp import run_agent

from mainspring.app.chat import ChatOptions
from mainspring.app.servers.acp.agent import AcpAgent
from mainspring.app.servers.acp.transport import AcpTransport
from mainspring.app.servers.stdio import ChatRegistry, LineTransport


async def serve_acp(wire: LineTransport, chats: ChatRegistry, options: ChatOptions) -> None:
    """Serve one client to its end; its sessions end with it.

    Args:
        wire: Its lines.
        chats: Where those of its sessions are known.
        options: How chats are opened; folder and session are the client's.
    """
    transport = AcpTransport(wire)
    async with asyncio.TaskGroup() as tasks:
        agent = AcpAgent(tasks, transport, chats, options)
        try:
            await run_agent(agent, transport, use_unstable_protocol=True)
        finally:
            await agent.stop()
