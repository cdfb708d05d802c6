"""A host of repositories: HTTPS with a certificate of its own, in front of git's own program or of the bare files."""

import os
import ssl
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit


class GitHost:
    """What it is and does.

    Attributes:
        root: The folder with its repositories.
        smart: Whether git's own program answers; else the files are given out as they are.
        password: Who must log in, as ``Basic ...``; empty for everybody.
        silent: Whether it never answers.
        moved: An address that it sends everybody to.
        asked: The paths that it was asked for.
    """

    def __init__(self, root: Path, certificate: Path) -> None:
        self.root = root
        self.certificate = certificate
        self.smart = True
        self.password = ""
        self.silent = False
        self.moved = ""
        self.asked: list[str] = []
        self.over = threading.Event()
        self.port = 0

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    def answer(self, request: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        self.asked.append(request.path)
        if self.silent:
            self.over.wait(60)
        if self.moved:
            return 302, {"Location": self.moved}, b""
        if self.password and request.headers.get("Authorization") != self.password:
            return 401, {"WWW-Authenticate": 'Basic realm="x"'}, b""
        if self.smart:
            return self._from_git(request)
        file = self.root / urlsplit(request.path).path.lstrip("/")
        return (200, {}, file.read_bytes()) if file.is_file() else (404, {}, b"")

    def _from_git(self, request: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        parts, headers = urlsplit(request.path), request.headers
        given = {
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": parts.path,
            "QUERY_STRING": parts.query,
            "REQUEST_METHOD": request.command,
            "CONTENT_TYPE": headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": headers.get("Git-Protocol", ""),
        }
        body = request.rfile.read(int(headers.get("Content-Length") or 0))
        said = subprocess.run(
            ["git", "http-backend"], input=body, env={**os.environ, **given}, capture_output=True, check=False
        ).stdout
        head, _, rest = said.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        return int(fields.pop("Status", "200").split()[0]), fields, rest


@contextmanager
def git_host(root: Path, certificate: Path) -> Generator[GitHost]:
    """Serve for as long as the block lasts."""
    host = GitHost(root, certificate)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = host.answer(self)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:  # whoever asked has gone
                pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # who does not trust the certificate hangs up

    server = Server(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    host.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield host
    finally:
        host.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
