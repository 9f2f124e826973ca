"""A web server for this machine only, which serves a fixed table of files.

Paths that are not in the table are not found: no directory can be listed, and no path leads outside.
"""

from __future__ import annotations

import logging
import secrets
import shutil
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from unified_profiler.errors import ConfigurationError
from unified_profiler.viewer.perfetto import CONTENT_SECURITY_POLICY, CONTENT_TYPES

if TYPE_CHECKING:
    from typing_extensions import Self

logger = logging.getLogger("unified_profiler")

ADDRESS = "127.0.0.1"
_METHODS = ("GET", "HEAD")
_PLAIN = "text/plain; charset=utf-8"
MOST_CONNECTIONS = 32
"""Concurrent connections, each on its own thread; a browser opens six per page."""
REQUEST_SECONDS = 15.0
"""Time limit for receiving a request, including the next one on the same connection."""
SLOWEST_BYTES_PER_SECOND = 1 << 14
"""The slowest speed at which a client may read: that of a poor connection, since ssh may forward the port."""
_REFUSAL_SECONDS = 0.1
_TOO_MANY = f"""Too many connections; this server accepts {MOST_CONNECTIONS} at once.
Close other pages of the viewer, or try again in {REQUEST_SECONDS:.0f} seconds.
"""

HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",  # the next viewer may have the same port and another trace
}
"""The headers of every response. None of them lets another site read anything."""


class TimelineServer:
    """Serves the UI, and traces at addresses that cannot be guessed. A context manager.

    Args:
        ui: The directory of the UI.
        port: The port; 0 for any free port.

    Raises:
        ConfigurationError: The port is not available.
    """

    def __init__(self, ui: Path, *, port: int = 0) -> None:
        files = {f"/{file.relative_to(ui).as_posix()}": file for file in ui.rglob("*") if file.is_file()}
        try:
            self._http = _Server(files | {"/": files["/index.html"]}, port)
        except OSError as error:
            msg = f"Port {port} of {ADDRESS} is not available: {error}. Choose another, or 0 for any free port."
            raise ConfigurationError(msg) from error
        self._thread = threading.Thread(target=self._http.serve_forever, name="unified-profiler viewer", daemon=True)

    @property
    def address(self) -> str:
        """The address of the server."""
        return f"http://{ADDRESS}:{self._http.server_port}"

    def add_trace(self, file: Path) -> str:
        """Serve a trace too. Its address contains a secret, since other users of this machine can reach the port."""
        path = f"/trace/{secrets.token_urlsafe()}/{file.name}"
        self._http.files[path] = file
        return self.address + quote(path)

    def __enter__(self) -> Self:
        """Start serving, on a separate thread."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop serving."""
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


class _Server(ThreadingHTTPServer):
    """Accepts connections and limits their number and duration.

    Other programs of this machine may connect too, so that the threads and descriptors they can hold are limited.
    """

    def __init__(self, files: dict[str, Path], port: int) -> None:
        self.files = files
        self.deadlines: dict[socket.socket, float] = {}
        """The time at which each connection is closed unless it makes progress."""
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__((ADDRESS, port), _Handler)
        self.server_port = int(self.server_address[1])
        suffixes = (f":{self.server_port}", *([""] if self.server_port == 80 else []))  # clients omit the default port
        self.hosts = {f"{name}{suffix}" for name in (ADDRESS, "localhost") for suffix in suffixes}

    def server_bind(self) -> None:
        """Bind without looking up the name of this machine, as the base class does, which may access the network."""
        TCPServer.server_bind(self)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handle a connection on a separate thread, or refuse it if there are too many."""
        if not self._free.acquire(blocking=False):
            self._refuse(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Handle a connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.deadlines.pop(request, None)
            self._free.release()

    def service_actions(self) -> None:
        """Close connections that are too slow; the base class calls this several times a second."""
        now = time.monotonic()
        for request, deadline in list(self.deadlines.items()):
            if now > deadline:
                with suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def _refuse(self, request: socket.socket) -> None:
        body = _TOO_MANY.encode()
        headers = {"Content-Type": _PLAIN, "Content-Length": str(len(body)), "Connection": "close", **HEADERS}
        lines = ["HTTP/1.1 503 Service Unavailable", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        with suppress(OSError):
            request.settimeout(_REFUSAL_SECONDS)
            request.sendall("\r\n".join(lines).encode() + body)
            request.shutdown(socket.SHUT_WR)
            request.recv(1 << 16)  # closing with unread data would reset the connection and lose the response
        self.shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002  called so by the base class
        """Log at debug level only: browsers often drop connections, and the viewer continues."""
        logger.debug("A request to the viewer failed: %r", sys.exc_info()[1])


class _Handler(BaseHTTPRequestHandler):
    """Handles one connection."""

    server: _Server
    protocol_version = "HTTP/1.1"

    def handle_one_request(self) -> None:
        """Handle a request within the time limit."""
        self._extend(0)
        super().handle_one_request()

    def _extend(self, size: int) -> None:
        """Extend the deadline by the time to send a request and to read a response of this size."""
        self.server.deadlines[self.connection] = time.monotonic() + REQUEST_SECONDS + size / SLOWEST_BYTES_PER_SECOND

    def parse_request(self) -> bool:
        """Refuse requests that do not come from this server's own pages."""
        if not super().parse_request():
            return False
        for status, reason in self._objections():
            self.send_error(status, reason)
            return False
        return True

    def _objections(self) -> Iterator[tuple[HTTPStatus, str]]:
        """Yield the reasons to refuse a request. A DNS rebinding attack sends the name of its own site as the host."""
        hosts, origins = self.headers.get_all("Host", []), self.headers.get_all("Origin", [])
        if len(hosts) != 1 or hosts[0] not in self.server.hosts:
            yield HTTPStatus.FORBIDDEN, "This server answers to its own address only."
        if any(origin not in {f"http://{host}" for host in self.server.hosts} for origin in origins):
            yield HTTPStatus.FORBIDDEN, "This server answers its own pages only."
        if self.command not in _METHODS:
            yield HTTPStatus.METHOD_NOT_ALLOWED, "This server can only be read."

    def do_GET(self) -> None:
        """Send a file."""
        self._send(with_body=True)

    def do_HEAD(self) -> None:
        """Send the headers of a file."""
        self._send(with_body=False)

    def _send(self, *, with_body: bool) -> None:
        file = self.server.files.get(unquote(self.path.partition("?")[0]))
        if file is None:
            self.send_error(HTTPStatus.NOT_FOUND, "There is no such file.")
            return
        with file.open("rb") as opened:
            kind = CONTENT_TYPES.get(file.suffix, "application/octet-stream")
            size = file.stat().st_size
            self._extend(size)
            self._send_headers(HTTPStatus.OK, kind, size)
            if with_body:
                shutil.copyfileobj(opened, self.wfile)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Send an error as plain text: the UI would read an HTML page as an empty trace."""
        body = f"{message or HTTPStatus(code).phrase}\n".encode()
        self.close_connection = True  # the rest of the request was not read
        self._send_headers(HTTPStatus(code), _PLAIN, len(body))
        if self.command != "HEAD":
            self.wfile.write(body)

    def _send_headers(self, status: HTTPStatus, kind: str, size: int) -> None:
        self.send_response(status)
        headers = {"Content-Type": kind, "Content-Length": str(size), **HEADERS}
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = ", ".join(_METHODS)
        if self.close_connection:
            headers["Connection"] = "close"
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def version_string(self) -> str:
        """Return the name of the program without its version."""
        return "unified-profiler"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  named so in the base class
        """Log nothing."""
