"""The page of `mainspring serve --http`, in a real browser against the real command."""

import base64
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from tests.e2e.command import Command, command
from tests.e2e.devtools import Page, open_browser
from tests.e2e.servers.chat import Reply, call

pytestmark = pytest.mark.slow

__all__ = ["command"]

PICTURES = os.environ.get("MAINSPRING_PICTURES")


@contextmanager
def start_service(command: Command, *arguments: str) -> Iterator[str]:
    """Start the service and yield its URL with the token."""
    given = ("serve", "--http", "--port", "0", "--model", "openai:gpt-5-mini", *arguments)
    with command.start(*given) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=120)


@asynccontextmanager
async def open_page(url: str, profile: Path) -> AsyncIterator[Page]:
    async with open_browser(url, profile) as page:
        await page.until("document.activeElement && document.activeElement.id === 'prompt'")
        yield page


async def type_text(page: Page, text: str) -> None:
    """Type into the focused element and press Enter."""
    await page.call("Input.insertText", text=text)
    await press_key(page, "Enter")


async def press_key(page: Page, key: str) -> None:
    text = "\r" if key == "Enter" else key if len(key) == 1 else ""
    await page.call(
        "Input.dispatchKeyEvent",
        type="keyDown",
        key=key,
        code=key,
        text=text,
        windowsVirtualKeyCode=13 if key == "Enter" else 0,
    )
    await page.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key)


async def save_screenshot(page: Page, name: str) -> None:
    """Save a screenshot if MAINSPRING_PICTURES is set."""
    data = base64.b64decode(await page.screenshot())
    assert len(data) > 5_000
    if PICTURES:
        Path(PICTURES, name).write_bytes(data)


EVIL = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script> & **bold**"


async def test_conversation_and_approval_work_by_keyboard(command: Command, tmp_path: Path):
    (command.folder / "greeting.py").write_text('def greet():\n    print("hello")\n')
    command.server.script += [
        Reply("I look at the file first.", calls=[("read_file", {"path": "greeting.py"})]),
        call("edit", path="greeting.py", old_string='print("hello")', new_string='print("good morning")'),
        Reply(f"The greeting is another one now. {EVIL}"),
        Reply("You are welcome."),
    ]
    with start_service(command) as url:
        async with open_page(url, tmp_path / "profile") as page:
            await page.call(
                "Emulation.setDeviceMetricsOverride", width=1100, height=760, deviceScaleFactor=1, mobile=False
            )
            assert await page.js("location.hash") == ""
            await type_text(page, "Let greeting.py say good morning")
            await page.until("document.querySelector('.asked .yes')")
            assert await page.js("document.querySelector('.asked code').textContent") == "edit"
            assert "good morning" in await page.js("document.querySelector('.asked .diff .added').textContent")
            assert await page.js("document.querySelector('#state').textContent") == "paused"
            assert "hello" in (command.folder / "greeting.py").read_text()
            await save_screenshot(page, "http-approval.png")
            await page.js("document.activeElement.blur()")
            await press_key(page, "y")
            await page.until("document.querySelector('#state').textContent === 'completed'")
            assert "good morning" in (command.folder / "greeting.py").read_text()
            text = await page.js("[...document.querySelectorAll('.said.assistant')].at(-1).textContent")
            assert text.endswith(EVIL)
            assert (
                await page.js(
                    "document.querySelectorAll('#conversation img, #conversation script, #conversation b').length"
                )
                == 0
            )
            assert not await page.js("document.title.includes('taken')")
            assert await page.js("document.querySelectorAll('.call.done').length") == 2
            assert "tokens" in await page.js("document.querySelector('#cost').textContent")
            await page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
            await save_screenshot(page, "http-dark.png")
            await press_key(page, "/")
            await type_text(page, "Thank you")
            await page.until(
                "[...document.querySelectorAll('.said')].some((e) => e.textContent === 'You are welcome.')"
            )
            await page.until("document.querySelectorAll('#runs button').length === 2")
            assert await page.js("document.querySelectorAll('.call.done').length") == 2  # the conversation continues
            await page.js("document.activeElement.blur()")
            await press_key(page, "j")
            await page.until("document.querySelector('#title').textContent.startsWith('Let greeting')")
            token = url.partition("#token=")[2]
            assert await page.js("sessionStorage.getItem('token')") == token
            assert await page.js("localStorage.length + document.cookie.length") == 0
            assert not page.console, page.console


async def test_subagent_approval_works_on_a_phone(command: Command, tmp_path: Path):
    command.server.script += [
        Reply("Somebody else writes it.", calls=[("spawn", {"task": "Write the letter to letter.txt"})]),
        call("write_file", path="letter.txt", content="Dear all,\nit is done.\n"),
        Reply("It is written."),
        Reply("The letter is there."),
    ]
    with start_service(command) as url:
        async with open_page(url, tmp_path / "profile") as page:
            size = {"width": 390, "height": 780, "deviceScaleFactor": 1, "mobile": True}
            await page.call("Emulation.setDeviceMetricsOverride", **size)
            await type_text(page, "Have a letter written")
            await page.until("document.querySelector('.asked .yes')")
            assert "subagent" in await page.js("document.querySelector('.asked').textContent")
            assert "it is done" in await page.js("document.querySelector('.asked .diff .added:last-child').textContent")
            assert not (command.folder / "letter.txt").exists()
            await page.js("document.activeElement.blur()")
            await save_screenshot(page, "http-phone.png")
            assert await page.js("document.querySelector('#title').offsetWidth") > 100
            wide = await page.js("document.documentElement.scrollWidth")
            assert wide <= 390, "the page is not wider than the screen"
            await page.js("document.querySelector('.asked .yes').click()")
            await page.until("document.querySelector('#state').textContent === 'completed'")
            assert (command.folder / "letter.txt").read_text() == "Dear all,\nit is done.\n"
            assert await page.js("document.querySelectorAll('.asked').length") == 0
            # Four responses of 15 tokens, including those of the subagent.
            await page.until("document.querySelector('#cost').textContent.startsWith('60 tokens')")
            assert not page.console, page.console


async def test_page_asks_for_a_token_and_reports_a_wrong_one(command: Command, tmp_path: Path):
    with start_service(command) as url:
        address, _, token = url.partition("#token=")
        async with open_browser(address, tmp_path / "profile") as page:
            await page.until("document.querySelector('#login') && document.querySelector('#login').open")
            await type_text(page, "wrong")
            await page.until("document.querySelector('#login-problem').textContent.includes('Unknown token')")
            await type_text(page, token)
            await page.until("document.querySelector('#agent option')")
            assert not await page.js("document.querySelector('#login').open")
            assert token not in await page.js("document.documentElement.outerHTML + location.href")


async def test_page_shows_a_failed_run(command: Command, tmp_path: Path):
    command.server.script += [Reply(status=401, body={"error": {"message": "the key was refused"}})]
    with start_service(command) as url:
        async with open_page(url, tmp_path / "profile") as page:
            await type_text(page, "Do it")
            await page.until("document.querySelector('.end.bad')")
            assert "the key was refused" in await page.js("document.querySelector('.end.bad').textContent")
            assert await page.js("document.querySelector('#state').textContent") == "error"
            await page.until("document.querySelector('#runs .when').textContent.startsWith('done')")
            await save_screenshot(page, "http-error.png")


async def test_run_can_be_stopped_on_the_page(command: Command, tmp_path: Path):
    command.server.script += [Reply("I think about it", stall=True)]
    with start_service(command) as url:
        async with open_page(url, tmp_path / "profile") as page:
            await type_text(page, "Think")
            await page.until("document.querySelector('.said.live')")
            await page.js("document.querySelector('#stop').click()")
            await page.until("document.querySelector('#state').textContent === 'aborted'")


@pytest.mark.parametrize("path", ["", "page/page.js", "page/view.js", "page/events.js", "page/page.css"])
def test_page_does_not_fetch_or_write_html(path: str):
    name = path.rpartition("/")[2] or "index.html"
    text = Path(__file__).parents[2].joinpath("src/mainspring/app/servers/http/page", name).read_text(encoding="utf-8")
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "https://",
        "localStorage",
        "document.cookie",
    ):
        assert word not in text, word
