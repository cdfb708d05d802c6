"""A Git host over HTTPS with a self-signed certificate, served by ``git http-backend`` or as plain files."""

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
    """A Git host with configurable behavior.

    Attributes:
        root: The folder with the repositories.
        smart: Whether ``git http-backend`` answers; otherwise the files are served unchanged.
        password: The required credentials, as ``Basic ...``; empty for no login.
        silent: Whether the host never answers.
        moved: An address that every request is redirected to.
        requests: The requested paths.
    """

    def __init__(self, root: Path, certificate: Path) -> None:
        self.root = root
        self.certificate = certificate
        self.smart = True
        self.password = ""
        self.silent = False
        self.moved = ""
        self.requests: list[str] = []
        self.over = threading.Event()
        self.port = 0

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    def answer(self, request: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        self.requests.append(request.path)
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
        cgi_variables = {
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
        reply = subprocess.run(
            ["git", "http-backend"], input=body, env={**os.environ, **cgi_variables}, capture_output=True, check=False
        ).stdout
        head, _, rest = reply.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        return int(fields.pop("Status", "200").split()[0]), fields, rest


@contextmanager
def git_host(root: Path, certificate: Path) -> Generator[GitHost]:
    """Serve the repositories while the block runs."""
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
            except OSError:  # the client has disconnected
                pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # clients that do not trust the certificate disconnect

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
