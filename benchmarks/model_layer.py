"""The model layer alone: decoding beside the bare transport, encoding again beside encoding at first, the cost of importing it.

Part of ``python -m benchmarks`` (scenario ``wire``); CPU time of fresh processes, so that the server's does not count.
"""

import asyncio
import json
import statistics
import subprocess
import sys
import time

CHUNKS = 5000
AIMS = {"decode": 1.3, "encode": 0.1, "import": 15.0}

OVER_BASE = """
import asyncio, msgspec, sys, time
started = time.process_time()
import mainspring.models
print((time.process_time() - started) * 1e3)
assert not {"httpx2", "aiohttp"} & set(sys.modules), "an HTTP client is loaded"
"""


def event(data: dict, name: str = "") -> bytes:
    return (f"event: {name}\n" if name else "").encode() + b"data: " + json.dumps(data).encode() + b"\n\n"


def chat(text: str) -> bytes:
    delta = {"index": 0, "delta": {"content": text}, "logprobs": None, "finish_reason": None}
    return event({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [delta]})


def responses(text: str) -> bytes:
    kind = "response.output_text.delta"
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0, "sequence_number": 7, "logprobs": []}
    return event({"type": kind, **place, "delta": text}, kind)


def messages(text: str) -> bytes:
    kind = "content_block_delta"
    return event({"type": kind, "index": 0, "delta": {"type": "text_delta", "text": text}}, kind)


def gemini(text: str) -> bytes:
    candidate = {"content": {"parts": [{"text": text}], "role": "model"}, "index": 0}
    counts = {"promptTokenCount": 9, "candidatesTokenCount": 5, "totalTokenCount": 14}
    return event({"candidates": [candidate], "usageMetadata": counts, "modelVersion": "m", "responseId": "r1"})


MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
PROTOCOLS = {
    "chat": (
        "openai:m",
        {"api": "chat"},
        (b"", chat, event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}) + b"data: [DONE]\n\n"),
    ),
    "responses": (
        "openai:m",
        {"api": "responses"},
        (
            event(
                {"type": "response.output_item.added", "output_index": 0, "item": MESSAGE}, "response.output_item.added"
            ),
            responses,
            event({"type": "response.completed", "response": {"id": "r", "status": "completed"}}, "response.completed"),
        ),
    ),
    "messages": (
        "anthropic:m",
        {},
        (
            event({"type": "message_start", "message": {**MESSAGE, "usage": {"input_tokens": 9}}}, "message_start")
            + event({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            messages,
            event({"type": "content_block_stop", "index": 0})
            + event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}})
            + event({"type": "message_stop"}),
        ),
    ),
    "gemini": (
        "gemini:m",
        {},
        (b"", gemini, event({"candidates": [{"content": {"parts": []}, "finishReason": "STOP", "index": 0}]})),
    ),
}
"""Of each protocol: a model that speaks it, its settings, and an answer: beginning, one delta, end."""


# --- the server --------------------------------------------------------------------------------------------------------


async def serve() -> None:
    """Answer ``/NAME/...`` with 5,000 deltas of that protocol, each in a chunk of its own."""
    answers: dict[str, bytes] = {}
    for name, (_, _, (start, delta, end)) in PROTOCOLS.items():
        pieces = [start, *[delta(f"word {n} ") for n in range(CHUNKS)], end]
        answers[name] = b"".join([b"%x\r\n%b\r\n" % (len(p), p) for p in pieces if p]) + b"0\r\n\r\n"

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    (int(line[15:]) for line in head.lower().split(b"\r\n") if line[:15] == b"content-length:"), 0
                )
                await reader.readexactly(length)
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
                )
                writer.write(answers[head.split(b"/", 2)[1].decode()])
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


# --- the measurements --------------------------------------------------------------------------------------------------


async def decode(name: str, url: str) -> dict[str, float]:
    """CPU microseconds of a delta: read by httpx2 alone, and read and decoded by us over our own transport."""
    import httpx2

    from mainspring.messages import Message
    from mainspring.models import ModelRequest, create_model
    from mainspring.models.transport.http1.client import Http1Transport as DirectTransport

    spec, settings, _ = PROTOCOLS[name]
    transport = DirectTransport()
    model = create_model(spec, base_url=f"{url}/{name}/v1", api_key="k", **settings).with_transport(transport)
    request = ModelRequest([Message.user("Hi")])

    async def ours() -> None:
        count = 0
        async for event in model.stream(request):
            count += event.type == "text_delta"
        assert count == CHUNKS, count

    async with httpx2.AsyncClient() as client:

        async def bare() -> None:
            async with client.stream("POST", f"{url}/{name}/v1", content=b"{}") as answer:
                async for _ in answer.aiter_bytes():
                    pass

        figures: dict[str, list[float]] = {"bare": [], "ours": []}
        for _ in range(10):
            for which, run in (("bare", bare), ("ours", ours)):
                started = time.process_time()
                await run()
                figures[which].append((time.process_time() - started) / CHUNKS * 1e6)
    await transport.aclose()
    return {which: min(values) for which, values in figures.items()}  # what the machine does beside only adds


def encode(name: str) -> dict[str, float]:
    """CPU milliseconds of a request with 200 messages and 40 tools: at first, and with one turn more."""
    from mainspring.messages import Message, TextBlock, ToolDefinition as ToolSpec, ToolResultBlock, ToolUseBlock
    from mainspring.models import EncodingCache as Scratch, ModelRequest, create_model

    spec, settings, _ = PROTOCOLS[name]
    schema = {
        "type": "object",
        "properties": {f"p{n}": {"type": "string", "description": "A value."} for n in range(6)},
    }
    tools = [ToolSpec(f"tool_{n}", "Does something useful with values. " * 5, schema) for n in range(40)]

    def turn(n: int) -> list[Message]:
        call = ToolUseBlock(f"call_{n}", f"tool_{n % 40}", {"p0": "value " * 20})
        provider, _, model = spec.partition(":")
        said = Message.assistant([TextBlock("Let me see. " * 20), call], provider=provider, model=model)
        return [said, Message.user([ToolResultBlock(call.id, call.name, "a line of output\n" * 60)])]

    figures: dict[str, list[float]] = {"first": [], "second": []}
    for _ in range(7):
        model = create_model(spec, base_url="http://h/v1", api_key="k", **settings)
        history = [Message.user("Hi"), *[m for n in range(100) for m in turn(n)]][:200]
        scratch = Scratch()
        for which in ("first", "second"):
            request = ModelRequest(history, "Be brief. " * 200, list(tools), scratch=scratch)
            started = time.perf_counter()
            model._protocol.encode(request, model.profile)
            figures[which].append((time.perf_counter() - started) * 1e3)
            history = [*history, *turn(1000)]
    return {which: min(values) for which, values in figures.items()}


def run(*args: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.model_layer", *args], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"wire {' '.join(args)} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def show(what: str, figure: str, base: float, ours: float, ratio: float, aim: float) -> None:
    print(f"{what:<12}{figure:<20}{base:>10.3f}{ours:>10.3f}{ratio:>8.2f}{aim:>8}")


def measure() -> None:
    """Print all figures as lines of the table of ``python -m benchmarks``; the base is what is named."""
    command = [sys.executable, "-m", "benchmarks.model_layer", "serve"]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdout
    assert server.stdin
    url = f"http://127.0.0.1:{server.stdout.readline().strip()}"
    try:
        for name in PROTOCOLS:
            found = run("decode", name, url)
            show(name, "us/delta", found["bare"], found["ours"], found["ours"] / found["bare"], AIMS["decode"])
    finally:
        server.stdin.close()
        server.wait(10)
    for name in PROTOCOLS:
        found = run("encode", name)
        show(
            name,
            "ms encode 1st, 2nd",
            found["first"],
            found["second"],
            found["second"] / found["first"],
            AIMS["encode"],
        )
    samples = [
        float(subprocess.run([sys.executable, "-c", OVER_BASE], capture_output=True, text=True, check=True).stdout)
        for _ in range(9)
    ]
    show("import", "ms over base", 0.0, statistics.median(samples), 0.0, AIMS["import"])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve"]:
            asyncio.run(serve())
        case ["decode", name, url]:
            print(json.dumps(asyncio.run(decode(name, url))))
        case ["encode", name]:
            print(json.dumps(encode(name)))
        case _:
            measure()
