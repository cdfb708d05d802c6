"""A scripted model server for measurements, on loopback; standard library only.

The model's name is the script: ``bench-t5-c200-l50`` answers five times with a tool call and then with 200 text deltas, each
answer after 50 ms. ``-p5`` waits 5 ms before each delta, ``-i2000`` answers with a list of 2,000 lines, and ``-r1`` calls
``read_file`` instead of ``lookup``. A conversation is told from others by the marker ``[conv=ID]`` in its first message. ``GET /stats`` gives what
was received; ``POST /reset`` forgets it.
"""

import asyncio
import json
import re
import sys
import time

CONVERSATION = re.compile(rb"\[conv=([\w.-]+)\]")
LENGTH = re.compile(rb"content-length: *(\d+)", re.I)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
WORDS = "the quick brown fox jumps over the lazy dog and runs through the forest "


def sse(*chunks: dict) -> bytes:
    data = b"".join(b"data: " + json.dumps(c, separators=(",", ":")).encode() + b"\n\n" for c in chunks)
    return data


def chunk(delta: dict, finish: str | None = None, **extra) -> dict:
    return {
        "id": "c1",
        "object": "chat.completion.chunk",
        "model": "bench",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        **extra,
    }


USAGE = {
    "id": "c1",
    "object": "chat.completion.chunk",
    "model": "bench",
    "choices": [],
    "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13},
}


def tool_turn(n: int, name: str = "lookup") -> bytes:
    arguments = json.dumps({"key": f"k{n}"} if name == "lookup" else {"path": "notes.txt", "offset": n + 1})
    call = {"index": 0, "id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": ""}}
    pieces = [arguments[i : i + 4] for i in range(0, len(arguments), 4)]
    deltas = [chunk({"tool_calls": [{"index": 0, "function": {"arguments": p}}]}) for p in pieces]
    return (
        sse(
            chunk({"role": "assistant", "content": None, "tool_calls": [call]}), *deltas, chunk({}, "tool_calls"), USAGE
        )
        + b"data: [DONE]\n\n"
    )


def deltas(count: int) -> list[dict]:
    text = WORDS * (count * 4 // len(WORDS) + 2)
    return [chunk({"content": text[i * 4 : i * 4 + 4]}) for i in range(count)]


def answer(parts: list[dict]) -> bytes:
    return sse(chunk({"role": "assistant", "content": ""}), *parts, chunk({}, "stop"), USAGE) + b"data: [DONE]\n\n"


def list_of(count: int) -> bytes:
    """An answer of so many lines, in two deltas each."""
    pieces = ((f"- item {i:04}: ", WORDS[:55] + "\n") for i in range(1, count + 1))
    return answer([chunk({"content": piece}) for pair in pieces for piece in pair])


class Server:
    def __init__(self) -> None:
        self.bodies: dict[str, tuple[int, bytes]] = {}
        self.answers: dict[int, bytes] = {}
        self.forget()

    def forget(self) -> None:
        self.bodies.clear()
        self.stats: dict = {"requests": 0, "bytes": 0, "first": None, "stable": 0, "first_body": 0, "connections": 0}
        self.stats |= {"arrived": None, "sent": None}  # of the last request

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.stats["connections"] += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                arrived = time.monotonic()
                match = LENGTH.search(head)
                body = await reader.readexactly(int(match[1]) if match else 0)
                if head.startswith(b"GET /stats"):
                    self.plain(writer, json.dumps(self.stats).encode())
                elif head.startswith(b"POST /reset"):
                    self.forget()
                    self.plain(writer, b"{}")
                else:
                    await self.complete(writer, body, arrived)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def plain(self, writer: asyncio.StreamWriter, body: bytes) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
        )

    async def complete(self, writer: asyncio.StreamWriter, body: bytes, arrived: float) -> None:
        name = re.search(rb'"model": *"bench([^"]*)"', body)
        script = {k: int(v) for k, v in re.findall(r"-([a-z])(\d+)", name[1].decode() if name else "")}
        marker = CONVERSATION.search(body)
        conversation = marker[1].decode() if marker else ""
        turn, before = self.bodies.get(conversation, (0, b""))
        stats = self.stats
        stats["requests"] += 1
        stats["bytes"] += len(body)
        stats["first"] = stats["first"] or arrived
        stats["first_body"] = stats["first_body"] or len(body)
        # All but the closing brackets of the last request has to stand at the start of this one.
        end = before.rfind(b"}]")
        stats["stable"] += int(end < 0 or body.startswith(before[: end + 1]))
        turns = script.get("t", 0)
        self.bodies[conversation] = (turn + 1, body if script.get("k", 1) else b"")
        if script.get("l"):
            await asyncio.sleep(script["l"] / 1000)
        if turn % (turns + 1) < turns:
            data = tool_turn(turn, "read_file" if script.get("r") else "lookup")
        elif script.get("i"):
            data = list_of(script["i"])
        elif script.get("p"):
            await self.trickle(writer, script.get("c", 1), script["p"] / 1000)
            data = answer([])
        else:
            count = script.get("c", 1)
            data = self.answers.get(count) or self.answers.setdefault(count, answer(deltas(count)))
        head = b"" if script.get("p") else HEAD
        writer.write(b"%b%x\r\n%b\r\n0\r\n\r\n" % (head, len(data), data))
        await writer.drain()
        stats |= {"arrived": arrived, "sent": time.monotonic()}

    async def trickle(self, writer: asyncio.StreamWriter, count: int, pause: float) -> None:
        writer.write(HEAD)
        for part in map(sse, deltas(count)):
            writer.write(b"%x\r\n%b\r\n" % (len(part), part))
            await writer.drain()  # fails once the client closes the connection
            await asyncio.sleep(pause)


async def main() -> None:
    server = await asyncio.start_server(Server().serve, "127.0.0.1", 0, limit=2**24, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(server.serve_forever())
        await asyncio.to_thread(sys.stdin.read)  # ends with whoever started it
        server.close()
        raise SystemExit


if __name__ == "__main__":
    asyncio.run(main())
