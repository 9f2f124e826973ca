from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from unified_profiler.export.background import write_blocks


def test_blocks_are_written_in_order() -> None:
    written: list[int] = []
    write_blocks(range(100), written.append)
    assert written == list(range(100))


def test_an_error_of_the_writer_is_raised() -> None:
    def fail(block: int) -> None:
        if block == 3:
            message = "no space"
            raise OSError(message)

    with pytest.raises(OSError, match="no space"):
        write_blocks(range(10), fail)


def test_no_block_is_made_long_before_the_last_one_is_written() -> None:
    written: list[int] = []
    distances: list[int] = []

    def blocks() -> Iterator[int]:
        for number in range(20):
            distances.append(number - len(written))
            yield number

    write_blocks(blocks(), written.append)
    assert max(distances) <= 2


def test_a_trace_is_written_while_the_interpreter_exits(tmp_path: Path) -> None:
    program = f"""
import atexit
from unified_profiler.export import write
from unified_profiler.model.records import TraceInfo
from unified_profiler.model.schema import empty_table
from unified_profiler.model.trace import Trace
atexit.register(lambda: write(Trace(empty_table(), TraceInfo()), {str(tmp_path / "t.json.gz")!r}))
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    assert (tmp_path / "t.json.gz").is_file()
