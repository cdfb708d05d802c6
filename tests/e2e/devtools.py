"""Control a real browser through its debugging protocol."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.e2e.browser import FLAGS, find_browser


class Page:
    """The page of a browser.

    Attributes:
        console: The messages of its console.
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self.console: list[str] = []

    async def call(self, method: str, **parameters: Any) -> Any:
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        while True:
            message = await self._socket.receive_json(timeout=120)
            if message.get("method") in {"Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"}:
                self.console.append(str(message["params"]))
            if message.get("id") == number:
                assert "error" not in message, message["error"]
                return message["result"]

    async def js(self, expression: str) -> Any:
        """Return the value of an expression."""
        result = await self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    async def until(self, expression: str) -> Any:
        """Wait until an expression is true."""
        condition = f"""new Promise((done) => {{
            const look = () => {{ const value = {expression}; value ? done(value) : setTimeout(look, 30); }};
            look();
        }})"""
        return await self.js(condition)

    async def screenshot(self) -> str:
        """Return a screenshot of the page, in base64."""
        return (await self.call("Page.captureScreenshot"))["data"]


@asynccontextmanager
async def open_browser(url: str, profile: Path) -> AsyncIterator[Page]:
    """Open a browser that shows a page."""
    call = [find_browser(), *FLAGS, f"--user-data-dir={profile}", "--remote-debugging-port=0", "about:blank"]
    process = await asyncio.create_subprocess_exec(
        *call, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    try:
        port = await _read_port(process)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                target = next(t for t in await answer.json() if t["type"] == "page")
            async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                page = Page(socket)
                for method in ("Page.enable", "Runtime.enable", "Log.enable"):
                    await page.call(method)
                await page.call("Page.navigate", url=url)
                yield page
    finally:
        process.kill()
        await process.communicate()


async def _read_port(process: asyncio.subprocess.Process) -> str:
    assert process.stderr
    async for line in process.stderr:
        if b"DevTools listening on ws://" in line:
            return line.decode().split("ws://")[1].split("/")[0].rpartition(":")[2]
    raise AssertionError("the browser did not start")
