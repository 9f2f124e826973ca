from __future__ import annotations

import gzip
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import urllib.parse
import urllib.request
import webbrowser
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import Result

from unified_profiler.cli import view
from unified_profiler.installation import install_command
from unified_profiler.model.storage import write_parquet
from unified_profiler.testing.builders import TraceBuilder

Invoke = Callable[..., Result]


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


@pytest.fixture
def viewing(run_dir: Path, temporary: Path) -> Iterator[subprocess.Popen[str]]:
    """The command itself, as a user starts it."""
    command = [sys.executable, "-m", "unified_profiler", "view", str(run_dir), "--no-open", "--rank", "0"]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        yield process
        process.kill()


def address_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("http://"):
            return line.strip()
    raise AssertionError(process.communicate())


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_the_viewer_serves_until_it_is_told_to_end(
    viewing: subprocess.Popen[str], temporary: Path, ending: signal.Signals
) -> None:
    address = address_of(viewing)
    with urllib.request.urlopen(address.partition("#")[0]) as page:  # noqa: S310  our own
        assert b"Perfetto UI" in page.read()
    viewing.send_signal(ending)
    out, errors = viewing.communicate(timeout=600)
    assert viewing.returncode == 0, errors
    assert errors == ""
    assert "The viewer has ended" in out
    assert not list(temporary.iterdir())


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses opened in a browser; Ctrl-C comes as soon as the viewer has nothing left to do."""
    addresses: list[str] = []

    def browse(address: str) -> bool:
        addresses.append(address)
        return True

    monkeypatch.setattr(webbrowser, "open", browse)
    monkeypatch.setattr(view, "_wait_for_signal", lambda: os.kill(os.getpid(), signal.SIGINT))
    return addresses


def test_the_browser_is_opened_at_the_address_that_is_printed(invoke: Invoke, run_dir: Path, opened: list[str]) -> None:
    result = invoke("view", run_dir)
    assert result.exit_code == 0, result.stderr
    assert re.findall(r"^http://.*$", result.stdout, re.MULTILINE) == opened
    assert "events: 8" in result.stdout


def test_the_critical_path_is_part_of_the_timeline(
    invoke: Invoke, run_dir: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[bytes] = []
    monkeypatch.setattr(view, "_wait_for_signal", lambda: served.append(_trace_at(opened[-1])))
    for options in ((), ("--critical-path",)):
        assert invoke("view", run_dir, "--rank", "0", *options).exit_code == 0
    without, with_path = (json.loads(text)["traceEvents"] for text in served)
    names = {event["args"]["name"] for event in with_path if event["name"] == "process_name"}
    assert "critical path" in names
    assert len(with_path) > len(without)


def _trace_at(address: str) -> bytes:
    """Return the timeline that the page at an address loads."""
    url = urllib.parse.unquote(address.partition("url=")[2].partition("&")[0])
    with urllib.request.urlopen(url) as file:  # noqa: S310  our own
        content: bytes = file.read()
    return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content


def test_no_browser_is_opened_if_none_is_wanted(invoke: Invoke, run_dir: Path, opened: list[str]) -> None:
    assert invoke("view", run_dir, "--no-open").exit_code == 0
    assert opened == []


@pytest.mark.usefixtures("opened")
def test_where_no_browser_can_be_opened_it_says_what_to_do(
    invoke: Invoke, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda address: False)
    assert "Open the address in a browser" in invoke("view", run_dir).stdout


@pytest.mark.usefixtures("opened")
def test_the_handlers_of_signals_are_those_from_before(invoke: Invoke, run_dir: Path) -> None:
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    invoke("view", run_dir, "--no-open")
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before


def test_without_the_ui_the_command_that_installs_it_is_told(
    invoke: Invoke, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    result = invoke("view", run_dir)
    assert result.exit_code == 2
    assert install_command("view") in result.stderr


def test_an_empty_trace_is_refused_in_words(invoke: Invoke, tmp_path: Path) -> None:
    write_parquet(TraceBuilder().build(), tmp_path / "empty.parquet")
    result = invoke("view", tmp_path / "empty.parquet", "--no-open")
    assert result.exit_code == 2
    assert "there is no timeline to show" in result.stderr


def test_a_rank_that_is_not_there_is_refused(invoke: Invoke, run_dir: Path) -> None:
    result = invoke("view", run_dir, "--no-open", "--rank", "7")
    assert result.exit_code == 2
    assert "no trace of rank 7" in result.stderr
