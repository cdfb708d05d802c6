"""The baseline: an agent loop written by hand on aiohttp and msgspec, streaming, with nothing that is not needed."""

import aiohttp
import msgspec

encode = msgspec.json.Encoder().encode
decode_any = msgspec.json.Decoder().decode


class Function(msgspec.Struct):
    name: str | None = None
    arguments: str = ""


class Call(msgspec.Struct):
    index: int = 0
    id: str | None = None
    function: Function | None = None


class Delta(msgspec.Struct):
    content: str | None = None
    tool_calls: list[Call] | None = None


class Choice(msgspec.Struct):
    delta: Delta


class Chunk(msgspec.Struct):
    choices: list[Choice]


decode = msgspec.json.Decoder(Chunk).decode
HEADERS = {"content-type": "application/json", "authorization": "Bearer bench"}
PARAMETERS = {
    "type": "object",
    "properties": {"key": {"type": "string", "description": "The key to look up."}},
    "required": ["key"],
    "additionalProperties": False,
}


class Raw:
    def __init__(self, url: str, model: str, tools: dict) -> None:
        self.url = f"{url}/chat/completions"
        self.tools = tools
        specs = [
            {
                "type": "function",
                "function": {"name": n, "description": "Look up a value by its key.", "parameters": PARAMETERS},
            }
            for n in tools
        ]
        self.head = (
            encode({"model": model, "stream": True, "stream_options": {"include_usage": True}, "tools": specs})[:-1]
            + b',"messages":['
        )
        self.system = encode({"role": "system", "content": "You are a helpful assistant. Use the tools."})
        self.session: aiohttp.ClientSession | None = None

    async def run(self, prompt: str, on_delta=None) -> str:
        if self.session is None:
            self.session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        messages = bytearray(self.system + b"," + encode({"role": "user", "content": prompt}))
        while True:
            text: list[str] = []
            calls: list[Call] = []
            async with self.session.post(self.url, data=b"%b%b]}" % (self.head, messages), headers=HEADERS) as response:
                rest = b""
                async for data in response.content.iter_any():
                    rest = self.feed(rest + data, text, calls, on_delta)
            if not calls:
                return "".join(text)
            request = [
                {
                    "id": c.id,
                    "type": "function",
                    "function": {"name": c.function.name, "arguments": c.function.arguments},
                }
                for c in calls
            ]
            messages += b"," + encode({"role": "assistant", "content": None, "tool_calls": request})
            for c in calls:
                output = await self.tools[c.function.name](**decode_any(c.function.arguments))
                messages += b"," + encode({"role": "tool", "tool_call_id": c.id, "content": output})

    def feed(self, data: bytes, text: list[str], calls: list[Call], on_delta) -> bytes:
        *lines, rest = data.split(b"\n\n")
        for line in lines:
            if line == b"data: [DONE]":
                continue
            choices = decode(line[6:]).choices
            if not choices:
                continue
            delta = choices[0].delta
            if delta.content:
                text.append(delta.content)
                if on_delta:
                    on_delta(delta.content)
            for c in delta.tool_calls or ():
                if c.index == len(calls):
                    calls.append(c)
                else:
                    calls[c.index].function.arguments += c.function.arguments
        return rest

    async def close(self) -> None:
        if self.session is not None:
            await self.session.close()
            self.session = None
