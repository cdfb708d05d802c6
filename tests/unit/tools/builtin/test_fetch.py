"""`fetch`: conversion to Markdown, redirects, paging, and errors."""

import asyncio
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from mainspring.env import HttpResponse, MemoryEnv
from mainspring.tools import Access, ToolContext, ToolErrorCode, ToolResult
from mainspring.tools.builtin import fetch
from mainspring.tools.support.html_to_markdown import to_markdown
from mainspring.tools.support.text_files import decode_body

URL = "https://example.com/page"


async def fetch_page(pages: dict[str, str | HttpResponse], url: str = URL, **arguments: Any) -> ToolResult:
    return await fetch(ToolContext(env=MemoryEnv(pages=pages)), url=url, **arguments)


def make_http_response(status: int = 200, body: bytes = b"", url: str = URL, **headers: str) -> HttpResponse:
    return HttpResponse(url, status, {name.replace("_", "-"): value for name, value in headers.items()}, body)


@pytest.mark.covers("OPT-02")
async def test_html_is_converted_to_markdown() -> None:
    html = """<!doctype html><html><head><title>A &amp; B</title><style>x{}</style><script>alert(1)</script></head><body>
    <nav><a href="/">Home</a></nav><h1>Heading</h1><p>Some <b>bold</b> and
    <a href="other.html">a link</a>.<br>Next line</p><ul><li>one<ul><li>deep</li></ul></li><li>two</ol></ul>
    <ol><li>first<li>second</ol><pre>def f():
        return 1</pre><table><tr><th>k</th><th>v</th></tr><tr><td>a|b</td><td>1</td></tr></table>
    <p>use <code>x</code> <img alt="logo" src=x></p></body></html>"""
    result = await fetch_page({URL: html})
    assert result.text == (
        "# A & B\n\n[Home](https://example.com/)\n\n# Heading\n\n"
        "Some **bold** and [a link](https://example.com/other.html).\nNext line\n\n"
        "- one\n  - deep\n- two\n\n1. first\n2. second\n\n"
        "```\ndef f():\n        return 1\n```\n\n| k | v |\n| --- | --- |\n| a\\|b | 1 |\n\nuse `x` [image: logo]\n"
        "(HTTP 200; text/html)"
    )
    assert result.metadata["title"] == "A & B"
    assert "<h1>" in (await fetch_page({URL: html}, raw=True)).text


@given(st.text(st.sampled_from("<>/abp \n&;='\"!-[]"), max_size=60))
@example("<![;")
@example("<![if !IE]>a<![endif]>")
def test_any_markup_is_accepted(html: str) -> None:
    to_markdown(html, URL)


@given(st.lists(st.sampled_from(["<table>", "<tr>", "<td>", "</td>", "</table>", "<pre>", "</pre>", "<ul>", "</ul>",
                                 "<li>", "<a href=x>", "</a>", "<p>", "text ", "<script>", "</script>", "<b>"])))  # fmt: skip
def test_elements_in_any_order_are_accepted(pieces: list[str]) -> None:
    to_markdown("".join(pieces), URL)


@pytest.mark.covers("OPT-02")
async def test_long_page_is_returned_in_parts() -> None:
    html = f"<p>{'ä' * 1000}</p>"
    first = await fetch_page({URL: html}, max_bytes=1001)
    assert first.text == "ä" * 500 + "\n(HTTP 200; text/html; characters 0-500 of 1000; continue with offset=500)"
    assert (await fetch_page({URL: html}, max_bytes=1001, offset=500)).text == "ä" * 500 + "\n(HTTP 200; text/html)"
    assert first.metadata["truncated"]


async def test_redirects_are_followed_only_on_the_same_host() -> None:
    pages: dict[str, str | HttpResponse] = {
        "http://example.com/": make_http_response(301, location="https://example.com/a"),
        "https://example.com/a": make_http_response(302, location="b"),
        "https://example.com/b": "<p>there</p>",
        "https://example.com/out": make_http_response(302, location="http://169.254.169.254/latest/"),
        "https://example.com/port": make_http_response(302, location="https://example.com:8443/"),
        "https://example.com/loop": make_http_response(302, location="/loop"),
    }
    assert (await fetch_page(pages, "http://example.com/")).text.startswith(
        "there\n(HTTP 200; text/html, from https://example.com/b)"
    )
    out = await fetch_page(pages, "https://example.com/out")
    assert "redirects to another host: http://169.254.169.254/latest/" in out.text
    assert out.metadata == {"location": "http://169.254.169.254/latest/"}
    assert "another host" in (await fetch_page(pages, "https://example.com/port")).text
    loop = await fetch_page(pages, "https://example.com/loop")
    assert loop.code == ToolErrorCode.IO_ERROR
    assert "more than 5 times" in loop.text


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (404, ToolErrorCode.NOT_FOUND),
        (403, ToolErrorCode.IO_ERROR),
        (429, ToolErrorCode.RATE_LIMITED),
        (500, ToolErrorCode.IO_ERROR),
    ],
)
async def test_http_errors_are_error_results(status: int, code: ToolErrorCode) -> None:
    result = await fetch_page({URL: make_http_response(status, b"<p>no</p>" * 5000, content_type="text/html")})
    assert (result.is_error, result.code) == (True, code)
    assert f"HTTP {status}" in result.text
    assert len(result.text) < 2500


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("application/json", b'{"a": 1}', '{"a": 1}\n(HTTP 200; application/json)'),
        ("application/problem+json", b"{}", "{}\n(HTTP 200; application/problem+json)"),
        ("image/png", b"\x89PNG\r\n\x1a\n", "[image/png, 8 bytes; not shown]\n(HTTP 200; image/png)"),
        ("application/zip", b"PK\x03\x04\0\0", "[application/zip, 6 bytes; not shown]\n(HTTP 200; application/zip)"),
        ("", b"<p>x</p>", "x\n(HTTP 200; no content type)"),
        ("application/octet-stream", b"plain", "plain\n(HTTP 200; application/octet-stream)"),
        ("application/pdf", b"%PDF-nonsense", "[PDF, 13 bytes; its text cannot be read: it is damaged"),
    ],
)
async def test_other_content_types(kind: str, body: bytes, text: str) -> None:
    assert (await fetch_page({URL: make_http_response(200, body, content_type=kind)})).text.startswith(text)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("ü€".encode("cp1252"), "text/html; charset=ISO-8859-1"),
        ("ü€".encode(), 'text/html; charset="utf-8"'),
        ("ü€".encode(), "text/html"),
        (b"<meta charset=windows-1252>" + "ü€".encode("cp1252"), "text/html"),
        ("ü€".encode("utf-16"), "text/html; charset=utf-8"),
        ("ü€".encode(), "text/html; charset=no-such-thing"),
        ("ü€".encode(), "text/html; charset=hex"),
    ],
)
def test_encoding_is_detected(body: bytes, kind: str) -> None:
    assert decode_body(body, kind).endswith("ü€")


class HangingEnv(MemoryEnv):
    async def fetch(self, url: str, *, timeout: float, max_bytes: int, accept: str = "*/*") -> HttpResponse:
        await asyncio.get_running_loop().create_future()
        raise AssertionError


async def test_timeout_and_network_failure_are_errors() -> None:
    late = await fetch(ToolContext(env=HangingEnv()), url=URL, timeout=0.05)
    assert (late.code, late.text) == (
        ToolErrorCode.TIMEOUT,
        f"{URL} did not answer within 0.05s. Try again, or give a longer timeout.",
    )
    assert (await fetch_page({})).text == f"Cannot fetch {URL}: the network is not available."


def test_network_access_is_declared() -> None:
    assert fetch.access is not None
    assert fetch.access({"url": " https://a.b/c "}) == [Access("network", "https://a.b/c")]
