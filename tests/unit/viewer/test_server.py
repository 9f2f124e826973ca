"""The server gives out its files to pages of its own, and nothing to anybody else."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from unified_profiler.errors import ConfigurationError
from unified_profiler.viewer.server import HEADERS, MOST_CONNECTIONS, TimelineServer


@dataclass(frozen=True)
class Response:
    status: int
    headers: dict[str, str]
    body: bytes


Ask = Callable[..., Response]


@pytest.fixture
def ui(tmp_path: Path) -> Path:
    folder = tmp_path / "ui"
    (folder / "v1").mkdir(parents=True)
    (folder / "index.html").write_text("<p>the UI</p>")
    (folder / "v1" / "engine.wasm").write_bytes(b"\0asm")
    (folder / "v1" / "a b.js").write_text("1")
    (tmp_path / "secret.txt").write_text("secret")
    return folder


@pytest.fixture
def server(ui: Path) -> Iterator[TimelineServer]:
    with TimelineServer(ui) as running:
        yield running


@pytest.fixture
def port(server: TimelineServer) -> int:
    port = urlsplit(server.address).port
    assert port
    return port


@pytest.fixture
def ask(port: int) -> Ask:
    """Asks for a path, as it stands, with exactly the headers given."""

    def request(path: str, *, method: str = "GET", hosts: tuple[str, ...] | None = None, origin: str = "") -> Response:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for host in (f"127.0.0.1:{port}",) if hosts is None else hosts:
            connection.putheader("Host", host)
        if origin:
            connection.putheader("Origin", origin)
        connection.endheaders()
        response = connection.getresponse()
        found = Response(response.status, dict(response.getheaders()), response.read())
        connection.close()
        return found

    return request


def test_the_root_is_the_page_of_the_ui(ask: Ask) -> None:
    response = ask("/?testing=1")
    assert response.status == 200
    assert response.body == b"<p>the UI</p>"


def test_types_are_those_that_browsers_insist_on(ask: Ask) -> None:
    assert ask("/v1/engine.wasm").headers["Content-Type"] == "application/wasm"
    assert ask("/v1/a%20b.js").headers["Content-Type"].startswith("text/javascript")


def test_head_says_the_same_without_a_body(ask: Ask) -> None:
    asked, told = ask("/"), ask("/", method="HEAD")
    assert told.status == 200
    assert told.headers["Content-Length"] == asked.headers["Content-Length"]
    assert told.body == b""


def test_several_requests_fit_one_connection(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    bodies = []
    for _ in range(2):
        connection.request("GET", "/")
        bodies.append(connection.getresponse().read())
    connection.close()
    assert bodies == [b"<p>the UI</p>"] * 2


@pytest.mark.parametrize("path", ["/", "/nothing"])
def test_every_response_carries_the_policies(ask: Ask, path: str) -> None:
    headers = ask(path).headers
    assert HEADERS.items() <= headers.items()
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert "default-src 'none'" in headers["Content-Security-Policy"]


def test_no_header_lets_other_sites_read(ask: Ask) -> None:
    assert not [name for name in ask("/").headers if name.lower().startswith("access-control")]


def test_localhost_is_a_name_of_this_machine(ask: Ask, port: int) -> None:
    assert ask("/", hosts=(f"localhost:{port}",)).status == 200


@pytest.mark.parametrize(
    "hosts",
    [
        (),
        ("",),
        ("evil.example",),
        ("evil.example:{port}",),
        ("127.0.0.1",),
        ("127.0.0.1:1",),
        ("127.0.0.1.evil.example:{port}",),
        ("127.0.0.1:{port}@evil.example",),
        ("127.0.0.1:{port}", "evil.example"),
        ("0.0.0.0:{port}",),
    ],
)
def test_a_request_to_another_host_is_refused(ask: Ask, port: int, hosts: tuple[str, ...]) -> None:
    response = ask("/", hosts=tuple(host.format(port=port) for host in hosts))
    assert response.status == 403
    assert b"UI" not in response.body


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1"])
def test_a_page_of_another_site_is_refused(ask: Ask, port: int, origin: str) -> None:
    assert ask("/", origin=origin.format(port=port)).status == 403


def test_a_page_of_ours_may_name_its_origin(ask: Ask, server: TimelineServer) -> None:
    assert ask("/", origin=server.address).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "BREW"])
def test_the_server_can_only_be_read(ask: Ask, method: str) -> None:
    response = ask("/", method=method)
    assert response.status == 405
    assert response.headers["Allow"] == "GET, HEAD"


@pytest.mark.parametrize("path", ["/v1", "/v1/", "/trace", "/trace/"])
def test_directories_are_not_listed(ask: Ask, path: str) -> None:
    assert ask(path).status == 404


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.txt",
        "/v1/../../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/%252e%252e/secret.txt",
        "/..\\secret.txt",
        "//etc/passwd",
        "/etc/passwd",
        "secret.txt",
        "http://[",
        "/index.html%00",
        "/%ff%fe",
    ],
)
def test_no_path_leads_out_of_the_ui(ask: Ask, path: str) -> None:
    assert ask(path).status == 404


def test_a_link_to_a_directory_elsewhere_is_not_followed(ui: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file.txt").write_text("secret")
    (ui / "link").symlink_to(tmp_path / "elsewhere")
    with TimelineServer(ui) as server:
        connection = http.client.HTTPConnection(urlsplit(server.address).netloc, timeout=300)
        connection.request("GET", "/link/file.txt")
        assert connection.getresponse().status == 404
        connection.close()


@pytest.mark.parametrize(("path", "method", "hosts"), [("/x", "GET", None), ("/", "POST", None), ("/", "GET", ("x",))])
def test_errors_are_plain_text_which_the_ui_takes_for_no_trace(
    ask: Ask, path: str, method: str, hosts: tuple[str, ...] | None
) -> None:
    response = ask(path, method=method, hosts=hosts)
    assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert response.body
    assert b"<" not in response.body


def test_what_is_no_http_is_refused_as_plain_text(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=300) as connection:
        connection.sendall(b"hello there you all\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    assert b"<" not in answer


def test_a_trace_is_served_at_the_address_given(ask: Ask, server: TimelineServer, tmp_path: Path) -> None:
    file = tmp_path / "run 1.json.gz"
    file.write_bytes(b"trace")
    address = server.add_trace(file)
    assert address.startswith(f"{server.address}/trace/")
    response = ask(urlsplit(address).path)
    assert response.body == b"trace"
    assert response.headers["Content-Type"] == "application/gzip"


def test_a_trace_is_not_served_without_its_secret(ask: Ask, server: TimelineServer, tmp_path: Path) -> None:
    file = tmp_path / "trace.json.gz"
    file.write_bytes(b"trace")
    first, second = server.add_trace(file), server.add_trace(file)
    assert first != second
    secret = urlsplit(first).path.split("/")[2]
    assert len(secret) >= 32
    for folder in ("", "/trace", "/trace/", f"/trace/{secret[:-1]}"):
        assert ask(f"{folder}/trace.json.gz").status == 404


def test_the_server_is_reached_from_this_machine_only(server: TimelineServer) -> None:
    assert server._http.socket.getsockname()[0] == "127.0.0.1"


# --- other programs of this machine ------------------------------------------------------------------------------


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30)


def serving_threads() -> int:
    return sum("process_request_thread" in thread.name for thread in threading.enumerate())


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for what another thread does, for half a minute at most."""
    for _ in range(600):
        if condition():
            return
        threading.Event().wait(0.05)
    pytest.fail("it did not happen within half a minute")


def test_too_many_connections_are_refused_in_words(ask: Ask, port: int) -> None:
    with ExitStack() as stack:
        for _ in range(MOST_CONNECTIONS):
            stack.enter_context(connected(port))
        wait_until(lambda: serving_threads() == MOST_CONNECTIONS)
        response = ask("/")
    assert response.status == 503
    assert b"Too many connections; this server accepts 32 at once." in response.body
    assert HEADERS.items() <= response.headers.items()


def test_a_connection_that_ends_makes_room_for_another(ask: Ask, port: int) -> None:
    with ExitStack() as stack:
        for _ in range(MOST_CONNECTIONS):
            stack.enter_context(connected(port))
        wait_until(lambda: serving_threads() == MOST_CONNECTIONS)
    wait_until(lambda: serving_threads() == 0)
    assert ask("/").status == 200


def test_a_flood_of_connections_takes_no_more_threads_and_descriptors(port: int) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before, most, own = descriptors(), 0, MOST_CONNECTIONS + 20
    with ExitStack() as stack:
        for _ in range(own):
            stack.enter_context(connected(port))
            most = max(most, serving_threads())
        wait_until(lambda: descriptors() <= before + own + MOST_CONNECTIONS)
    assert most <= MOST_CONNECTIONS


@pytest.mark.parametrize("drip", [b"", b"x"], ids=["silent", "one byte after the other"])
def test_a_client_that_does_not_come_to_the_end_of_its_request_is_let_go(
    port: int, drip: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unified_profiler.viewer.server.REQUEST_SECONDS", 0.3)
    with connected(port) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nX-Long: ")
        connection.settimeout(0.05)
        ended = False
        for _ in range(400):
            try:
                connection.sendall(drip)
                ended = connection.recv(1) == b""
            except TimeoutError:
                continue
            except OSError:
                ended = True
            break
        assert ended
    wait_until(lambda: serving_threads() == 0)


def test_a_client_that_does_not_take_its_answer_is_let_go(
    server: TimelineServer, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unified_profiler.viewer.server.REQUEST_SECONDS", 0.3)
    monkeypatch.setattr("unified_profiler.viewer.server.SLOWEST_BYTES_PER_SECOND", 1 << 40)
    file = tmp_path / "large.json"
    with file.open("wb") as opened:
        opened.truncate(1 << 28)
    path = urlsplit(server.add_trace(file)).path
    with connected(port) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        wait_until(lambda: serving_threads() == 1)
        wait_until(lambda: serving_threads() == 0)


def test_a_port_that_is_taken_is_refused_in_words(ui: Path, port: int) -> None:
    with pytest.raises(ConfigurationError, match=f"Port {port} of 127.0.0.1 is not available"):
        TimelineServer(ui, port=port)


def test_nobody_listens_afterwards(ui: Path) -> None:
    with TimelineServer(ui) as server:
        netloc = urlsplit(server.address).netloc
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection(netloc, timeout=300).connect()
