"""The server gives out its files to pages of its own, and nothing to anybody else."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from unified_profiler.errors import ConfigurationError
from unified_profiler.viewer.server import HEADERS, TimelineServer


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


def test_a_port_that_is_taken_is_refused_in_words(ui: Path, port: int) -> None:
    with pytest.raises(ConfigurationError, match=f"Port {port} of 127.0.0.1 cannot be had"):
        TimelineServer(ui, port=port)


def test_nobody_listens_afterwards(ui: Path) -> None:
    with TimelineServer(ui) as server:
        netloc = urlsplit(server.address).netloc
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection(netloc, timeout=300).connect()
