"""Web pages from the files of a package."""

from __future__ import annotations

import asyncio
from functools import cache
from importlib.resources import files

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_TYPES = {"html": "text/html; charset=utf-8", "js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8"}
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


def page_routes(package: str) -> list[Route]:
    """Return the routes of the web page in the folder ``page`` of a package. They are public: the page loads all data with a token."""

    async def respond(name: str) -> Response:
        content = (await asyncio.to_thread(_page_files, package)).get(name)
        if content is None:
            raise HTTPException(404, "File not found.")
        return Response(content, headers={**_HEADERS, "content-type": _TYPES[name.rpartition(".")[2]]})

    async def index(_: Request) -> Response:
        return await respond("index.html")

    async def file(request: Request) -> Response:
        return await respond(request.path_params["name"])

    return [Route("/", index, methods=["GET"]), Route("/page/{name}", file, methods=["GET"])]


@cache
def _page_files(package: str) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in files(package).joinpath("page").iterdir()}
