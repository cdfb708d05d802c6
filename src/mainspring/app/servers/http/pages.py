"""The page of the service: a few files of the package."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_TYPES = {"html": "text/html; charset=utf-8", "js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8"}
_NAMES = frozenset({"index.html", "page.css", "page.js", "events.js", "view.js"})
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-cache",
}


def pages() -> list[Route]:
    """Routes of the page. Nothing in it is anybody's: what it shows, it asks for with a token."""
    return [Route("/", _index, methods=["GET"]), Route("/page/{name}", _file, methods=["GET"])]


@cache
def _read(name: str) -> bytes:
    return files("mainspring.app.servers.http").joinpath("page", name).read_bytes()


def _answer(name: str) -> Response:
    return Response(_read(name), headers={**_HEADERS, "content-type": _TYPES[name.rpartition(".")[2]]})


async def _index(_: Request) -> Response:
    return _answer("index.html")


async def _file(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _NAMES:
        raise HTTPException(404, "there is no such file")
    return _answer(name)
