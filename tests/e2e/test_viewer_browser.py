"""The viewer in a real browser: runs appear while they are running and show their details."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from mainspring.app.servers.http.server import ServerOptions, open_socket
from mainspring.app.servers.viewer.otlp import decode_spans
from mainspring.app.servers.viewer.server import Viewer
from tests.e2e.devtools import open_browser
from tests.unit.app.servers.viewer.test_otlp import request

TRACE = "a" * 32
BEGAN = 1_795_852_000_000


def make_span(
    number: int, name: str, operation: str, parent: int, start: int, end: int, **facts: Any
) -> dict[str, Any]:
    kinds = {str: "stringValue", int: "intValue", float: "doubleValue"}
    given = {"gen_ai.operation.name": operation, **{k.replace("__", "."): v for k, v in facts.items() if k != "status"}}
    return {
        "traceId": TRACE,
        "spanId": f"{number:016x}",
        "parentSpanId": f"{parent:016x}" if parent else "",
        "name": name,
        "startTimeUnixNano": str((BEGAN + start) * 1_000_000),
        "endTimeUnixNano": str((BEGAN + end) * 1_000_000),
        "attributes": [{"key": k, "value": {kinds[type(v)]: v}} for k, v in given.items()],
        "status": facts.get("status", {}),
    }


USED = {"gen_ai__usage__input_tokens": 1200, "gen_ai__usage__output_tokens": 80, "mainspring__usage__cost": 0.0049}
FIRST = [
    make_span(2, "chat gpt-5-mini", "chat", 1, 0, 900, gen_ai__request__model="gpt-5-mini", **USED),
    make_span(
        3,
        "execute_tool look",
        "execute_tool",
        1,
        900,
        1400,
        gen_ai__tool__call__arguments='{"key": "<img src=x onerror=alert(1)>"}',
        gen_ai__tool__call__result="nothing there",
        status={"code": 2, "message": "NOT_FOUND"},
    ),
]
REST = [
    make_span(4, "chat gpt-5-mini", "chat", 1, 1400, 2000, gen_ai__request__model="gpt-5-mini", **USED),
    make_span(
        1,
        "invoke_agent main",
        "invoke_agent",
        0,
        0,
        2000,
        gen_ai__agent__name="main",
        mainspring__run__status="completed",
    ),
]


@pytest.mark.covers("CLI-17")
async def test_viewer_shows_a_growing_run_and_its_details(tmp_path: Path) -> None:
    viewer, listening = Viewer(), open_socket(ServerOptions(port=0))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(viewer.server.in_background(listening))
        async with open_browser(viewer.url(listening), tmp_path / "profile") as page:
            await page.until("document.querySelector('#empty') && !document.querySelector('#empty').hidden")
            viewer.store.add(decode_spans(request(*FIRST), "application/json"))

            await page.until("document.querySelectorAll('.row').length === 2")
            assert await page.js("document.querySelector('#runs .dot').className") == "dot running"

            viewer.store.add(decode_spans(request(*REST), "application/json"))
            await page.until("document.querySelectorAll('.row').length === 4")
            names = await page.js("[...document.querySelectorAll('.row .text')].map((node) => node.textContent)")
            assert names == ["invoke_agent main", "chat gpt-5-mini", "execute_tool look", "chat gpt-5-mini"]
            levels = await page.js("[...document.querySelectorAll('.row')].map((node) => node.ariaLevel)")
            assert levels == ["1", "2", "2", "2"]
            figures = await page.js("document.querySelector('#figures').innerText")
            assert "2400" in figures
            assert "$0.0098" in figures
            assert await page.js("document.querySelector('#runs .dot').className.trim()") == "dot"
            lefts = await page.js(
                "[...document.querySelectorAll('.bar')].map((bar) => Math.round(parseFloat(bar.style.left)))"
            )
            assert lefts == [0, 0, 45, 70]

            await page.js("document.querySelectorAll('.row')[2].click()")
            detail = await page.until("document.querySelector('#detail').innerText")
            assert "nothing there" in detail
            assert "NOT_FOUND" in detail
            assert "<img src=x onerror=alert(1)>" in detail
            assert await page.js("document.querySelectorAll('#detail img').length") == 0
            await page.js(
                "document.querySelector('#waterfall').dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowDown'}))"
            )
            assert "tokens in" in await page.js("document.querySelector('#detail').innerText")

            await page.js(
                "document.querySelector('#filter').value = 'nope'; document.querySelector('#filter').dispatchEvent(new Event('input'))"
            )
            assert await page.js("document.querySelectorAll('#runs li').length") == 0

            light = await page.js("getComputedStyle(document.body).backgroundColor")
            await page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
            dark = await page.js("getComputedStyle(document.body).backgroundColor")
            assert light == "rgb(251, 251, 250)"
            assert dark == "rgb(22, 22, 21)"
            assert "token" not in await page.js("location.href")

            await stack.aclose()
            await page.until("document.querySelector('#state').textContent === 'Disconnected'")
            assert all("ERR_CONNECTION_REFUSED" in message for message in page.console), page.console


@pytest.mark.covers("CLI-17")
async def test_page_without_the_token_says_how_to_open_it(tmp_path: Path) -> None:
    viewer, listening = Viewer(), open_socket(ServerOptions(port=0))
    async with viewer.server.in_background(listening) as url, open_browser(url, tmp_path / "profile") as page:
        await page.until("document.querySelector('#state')?.textContent.includes('mainspring telemetry url')")
        await page.js(f"location.href = {viewer.url(listening)!r}")
        await page.until("document.querySelector('#state')?.textContent === 'Live'")


@pytest.mark.soak
async def test_viewer_shows_three_thousand_spans(tmp_path: Path) -> None:
    viewer, listening = Viewer(), open_socket(ServerOptions(port=0))
    spans = [make_span(n, f"execute_tool t{n}", "execute_tool", 1, n, n + 1) for n in range(2, 3000)]
    viewer.store.add(await asyncio.to_thread(decode_spans, request(*spans, REST[1]), "application/json"))
    async with (
        viewer.server.in_background(listening),
        open_browser(viewer.url(listening), tmp_path / "profile") as page,
    ):
        assert await page.until("document.querySelectorAll('.row').length") == 2999
        assert page.console == []
