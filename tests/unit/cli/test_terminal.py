"""Tables in a window of 80 columns, whatever the names in them are."""

from __future__ import annotations

import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from fcntl import ioctl
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console
from typer.testing import Result

from unified_profiler.cli.terminal import print_table
from unified_profiler.model.storage import write_parquet
from unified_profiler.presentation.tables import Column
from unified_profiler.testing.builders import TraceBuilder

Invoke = Callable[..., Result]

HOSTILE = [
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "[red]red[/red]",
    "[/]",
    "[link=http://example.org]x",
    ":fire:",
    "a\nb\r\nc\td",
    "nul\x00 bell\x07 \x9b31m",
    "\u202egnp.exe \u200f\u2066x\u2069",
    "日本語の名前" * 20,
    "عربي",
    "e\u0301\u0302" * 60,
    "👩\u200d👩\u200d👧 \U0001f525",
    "\u2028\u2029\x85",
    "x" * 10_000,
    "",
    "   ",
]
QUERY = "select name, kind, duration_ns, start_ns, attributes, thread, name as again, id, layer from events"
COMMANDS = [
    ["table"],
    ["table", "--by", "name", "--by", "thread", "--by", "stack"],
    ["table", "--api"],
    ["steps"],
    ["query", QUERY],
    ["query", "select * from events"],
]


@pytest.fixture
def hostile_run(tmp_path: Path) -> Path:
    builder = TraceBuilder(first_step=0, last_step=0).step(0, 0, 10**12)
    for index, name in enumerate(HOSTILE):
        builder.region(name, 1000 + index * 1000, 900)
        columns = {"thread": name, "stack": name, "bytes": 10**12, "flops": 10**12}
        builder.op(name, 1100 + index * 1000, 500, **columns)
        builder.op(name, 100_000 + index * 1000, 500, layer="api", kind="api_call")
    path = tmp_path / "hostile.parquet"
    write_parquet(builder.build(), path)
    return path


def arguments(command: list[str], run: Path) -> list[str]:
    name, *rest = command
    return [name, str(run), *rest]


@pytest.mark.parametrize("columns", [40, 80, 132])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_nothing_exceeds_the_window(
    invoke: Invoke, hostile_run: Path, command: list[str], columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    result = invoke(*arguments(command, hostile_run))
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.split("\n")
    assert width(lines) <= columns
    assert all(line.isprintable() for line in lines)


def width(lines: list[str]) -> int:
    """Return the width of what is fitted to the window; a command to copy is not."""
    return max(cell_len(line) for line in lines if "unified-profiler " not in line)


def test_a_command_to_copy_is_one_line_in_any_window(
    invoke: Invoke, hostile_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    lines = invoke("table", hostile_run).stdout.splitlines()
    assert f"What determines the time of a step: unified-profiler critical-path {hostile_run}" in lines


def test_every_operator_has_one_line(invoke: Invoke, hostile_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = invoke("table", hostile_run, "--row-limit", "0").stdout.splitlines()
    rule = next(index for index, line in enumerate(lines) if set(line) == {"─"})
    end = next(index for index, line in enumerate(lines) if line.startswith("Columns that do not fit: "))
    assert end - rule - 1 == len(HOSTILE)


@pytest.mark.parametrize("name", ["[red]red[/red]", "[/]", ":fire:", "\\x1b[31mred\\x1b[0m", "a\\nb\\r\\nc\\td"])
def test_names_are_shown_and_not_interpreted(
    invoke: Invoke, hostile_run: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert name in invoke("table", hostile_run).stdout


def test_columns_that_are_left_out_are_named(
    invoke: Invoke, hostile_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = " ".join(invoke("query", hostile_run, "select * from events").stdout.split())
    assert "Columns that do not fit: op, origin, " in text


def test_a_window_that_is_wide_enough_leaves_nothing_out(invoke: Invoke, run_dir: Path) -> None:
    result = invoke("table", run_dir)
    assert "do not fit" not in result.stdout
    assert "CPU total %" in result.stdout


def test_the_sort_column_is_shown_in_any_window(
    invoke: Invoke, hostile_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    table, _, left_out = invoke("table", hostile_run, "--sort-by", "cpu_time").stdout.partition(
        "Columns that do not fit: "
    )
    assert "avg" in table
    assert "avg" not in left_out


def test_what_is_piped_leaves_nothing_out(invoke: Invoke, hostile_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS")
    result = invoke("table", hostile_run)
    assert "do not fit" not in result.stdout
    assert "x" * 10_000 in result.stdout


@pytest.mark.parametrize("columns", ["80", None])
def test_a_terminal_without_unicode_gets_ascii(hostile_run: Path, columns: str | None) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    environment |= {"PYTHONIOENCODING": "ascii"} | ({"COLUMNS": columns} if columns else {})
    command = [sys.executable, "-m", "unified_profiler", "table", str(hostile_run)]
    result = subprocess.run(command, capture_output=True, env=environment)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.decode("ascii").splitlines()
    assert columns is None or width(lines) <= 80


def printed(columns: list[Column], *, keep: str | None = None, **options: bool) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=80, force_terminal=True, color_system="standard", **options)  # type: ignore[arg-type]
    print_table(console, columns, keep=keep)
    return stream.getvalue()


SHARES = [
    Column("name", "Name", ["conv", "relu", "add"], is_text=True),
    Column("self_share", "Self %", ["90.00%", "5.00%", "0.10%"], is_text=False),
]


def test_large_shares_stand_out_and_small_ones_step_back() -> None:
    text = printed(SHARES)
    assert "\x1b[1;33m90.00%" in text
    assert "\x1b[2m 0.10%" in text


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[1;33m" not in printed(SHARES)


def test_numbers_are_on_the_right() -> None:
    lines = printed(SHARES, no_color=True).splitlines()
    assert lines[-1].rstrip("\x1b[0m").endswith("0.10%")


def in_a_terminal(command: list[str], columns: int, *, with_stderr: bool = False) -> str:
    """Run a command in a terminal of its own and return what it shows there."""
    leader, follower = pty.openpty()
    ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES", "NO_COLOR"}}
    environment |= {"TERM": "xterm"}
    stderr = follower if with_stderr else subprocess.DEVNULL
    with subprocess.Popen(command, stdin=follower, stdout=follower, stderr=stderr, env=environment) as process:
        os.close(follower)
        shown = b""
        try:
            while part := os.read(leader, 1 << 16):
                shown += part
        except OSError:  # how Linux says that nobody is left at the other end
            pass
        os.close(leader)
    assert process.returncode == 0
    return shown.decode()


def test_a_table_fits_a_real_terminal(hostile_run: Path) -> None:
    command = [sys.executable, "-m", "unified_profiler", "table", str(hostile_run)]
    shown = in_a_terminal(command, 80)
    assert "\x1b[1mName" in shown
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown).replace("\r\n", "\n").split("\n")
    assert width(lines) == 80
    assert all(line.isprintable() for line in lines)


def test_the_run_that_is_read_is_named_on_a_line_of_its_own(run_dir: Path) -> None:
    command = [sys.executable, "-m", "unified_profiler", "steps", str(run_dir.parent)]
    shown = in_a_terminal(command, 200, with_stderr=True)
    before = shown.partition("unified-profiler: reading")[0]
    assert before.endswith(("\x1b[2K", "\n")), before[-100:]


@pytest.mark.parametrize("columns", [80, 140])
def test_slow_steps_are_highlighted_in_a_terminal_and_that_is_explained(tmp_path: Path, columns: int) -> None:
    builder = TraceBuilder(first_step=0, last_step=3)
    for step, duration in enumerate([100, 100, 100, 400]):
        builder.step(step, 1000 * step, duration).op("mm", 1000 * step, duration)
    write_parquet(builder.build(), tmp_path / "run.parquet")
    shown = in_a_terminal([sys.executable, "-m", "unified_profiler", "steps", str(tmp_path / "run.parquet")], columns)
    assert "\x1b[1;33m0.400 us" in shown
    assert "\x1b[1;33m0.100 us" not in shown
    assert "Highlighted: steps over 1.5\u00d7 the median" in shown
    assert "\u2581\u2581\u2581\u2588" in shown
