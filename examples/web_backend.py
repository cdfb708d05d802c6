"""A web backend for many users: one agent, a conversation for each user, and its events as server-sent events and over a WebSocket.

Needs the extra `server`: `pip install 'mainspring[server]'`. Run it with `uvicorn --factory examples.web_backend:create_app`, then:

    curl -X POST localhost:8000/chats/ada -d '{"prompt": "What should I pack for Oslo?"}'
    curl -N localhost:8000/chats/ada/events                          # from the first event of the last run
    curl -N localhost:8000/chats/ada/events -H 'Last-Event-ID: 7'    # what a browser sends when it reconnects
    curl -N -X POST localhost:8000/chats/ada/ui -d '{"messages": [{"role": "user", "parts": [{"type": "text", "text": "Hi"}]}]}'

The last one is for `useChat` of the Vercel AI SDK. Replace `current_user` by your own authentication.
"""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field

from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from mainspring import Agent, Budget, Conversation, Ledger, ToolContext, decode_messages, encode_messages, tool
from mainspring.app.servers.ag_ui import DONE, UI_MESSAGE_HEADERS, UiMessageEncoder
from mainspring.durable import RunFeed
from mainspring.models import ModelProvider


@dataclass(frozen=True)
class User:
    """What the tools of a run know about its user."""

    name: str


@tool
def packing_list(city: str, ctx: ToolContext[User]) -> str:
    """Return what the user packed for a city the last time."""
    return f"{ctx.deps.name} took an umbrella to {city}."


@dataclass
class Chat:
    """A user's conversation, and the events of its last run."""

    conversation: Conversation[User]
    feed: RunFeed | None = None


@dataclass
class Backend:
    """All conversations of this process. A real one stores `histories` in a database."""

    agent: Agent[User]
    budget: Ledger
    chats: dict[str, Chat] = field(default_factory=dict[str, Chat])
    histories: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def chat(self, request: HTTPConnection) -> Chat:
        name = current_user(request)
        if name not in self.chats:
            history = decode_messages(self.histories.get(name, b"[]"))
            conversation = self.agent.conversation(deps=User(name), history=history, ledger=self.budget)
            self.chats[name] = Chat(conversation)
        return self.chats[name]

    def start(self, chat: Chat, prompt: str) -> RunFeed:
        """Start a run that continues if its readers leave."""
        chat.feed = RunFeed(chat.conversation.stream(prompt))
        return chat.feed

    async def post_prompt(self, request: Request) -> Response:
        chat = self.chat(request)
        if chat.feed is not None and not chat.feed.ended:
            chat.conversation.steer((await request.json())["prompt"])
            return JSONResponse({"steered": True}, 202)
        self.start(chat, (await request.json())["prompt"])
        return JSONResponse({"started": True}, 202)

    async def get_events(self, request: Request) -> Response:
        feed = self.chat(request).feed
        if feed is None:
            return Response(status_code=204)  # an EventSource does not reconnect
        after = int(request.headers.get("last-event-id", "0"))

        async def body() -> AsyncGenerator[bytes]:
            async with aclosing(feed.follow(after)) as items:
                async for item in items:
                    yield b"id: %d\nevent: %s\ndata: %s\n\n" % (item.number, item.event.type.encode(), item.data)

        return StreamingResponse(body(), media_type="text/event-stream", headers={"cache-control": "no-store"})

    async def websocket(self, socket: WebSocket) -> None:
        """Each text message is a prompt; each event is a message ``{"id": ..., "event": {...}}``."""
        chat = self.chat(socket)
        await socket.accept()
        try:
            while True:
                feed = self.start(chat, await socket.receive_text())
                async with aclosing(feed.follow()) as items:
                    async for item in items:
                        await socket.send_text(f'{{"id": {item.number}, "event": {item.data.decode()}}}')
        except WebSocketDisconnect:
            pass

    async def post_ui_messages(self, request: Request) -> Response:
        """Answer `useChat`. It sends the whole history; the server has its own, and takes the last message only."""
        parts = (await request.json())["messages"][-1]["parts"]
        prompt = "".join(part["text"] for part in parts if part["type"] == "text")
        feed = self.start(self.chat(request), prompt)
        encoder = UiMessageEncoder(feed.run_id)

        async def body() -> AsyncGenerator[str]:
            async with aclosing(feed.follow()) as items:
                async for item in items:
                    for chunk in encoder.encode(item.event):
                        yield f"data: {json.dumps(chunk)}\n\n"
            yield f"data: {DONE}\n\n"

        return StreamingResponse(body(), headers=UI_MESSAGE_HEADERS)

    async def save(self, request: Request) -> Response:
        """Store the history and forget the conversation; the next request of the user continues it, in this or another process."""
        chat = self.chats.pop(current_user(request), None)
        if chat is not None:
            self.histories[current_user(request)] = encode_messages(chat.conversation.messages)
        return Response(status_code=204)


def current_user(request: HTTPConnection) -> str:
    return request.path_params["user"]


def create_app(model: ModelProvider | None = None) -> Starlette:
    agent = Agent(model, deps_type=User, system="Answer briefly.", tools=[packing_list])
    backend = Backend(agent, Ledger(limit=Budget(max_cost=10.00)))
    return Starlette(
        routes=[
            Route("/chats/{user}", backend.post_prompt, methods=["POST"]),
            Route("/chats/{user}/events", backend.get_events),
            Route("/chats/{user}/ui", backend.post_ui_messages, methods=["POST"]),
            Route("/chats/{user}/save", backend.save, methods=["POST"]),
            WebSocketRoute("/chats/{user}/socket", backend.websocket),
        ]
    )
