"""What native profilers write to the descriptor of stderr while they start and stop."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from unified_profiler.recording.native_messages import routine_messages_hidden

ROUTINE = "USDT:|I0000 "
MESSAGES = b"USDT:started\nE0000 out of memory\nI0000 ready\nfound USDT: here\nno newline"


def test_only_routine_messages_are_hidden(capfd: pytest.CaptureFixture[str]) -> None:
    with routine_messages_hidden([None, ROUTINE]):
        os.write(2, MESSAGES)
    os.write(2, b"\nafter\n")
    assert capfd.readouterr().err == "E0000 out of memory\nfound USDT: here\nno newline\nafter\n"


def test_all_messages_are_shown_at_debug_level(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="unified_profiler")
    with routine_messages_hidden([ROUTINE]):
        os.write(2, MESSAGES)
    assert capfd.readouterr().err.encode() == MESSAGES


def test_messages_before_an_error_are_shown(capfd: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> None:
        with routine_messages_hidden([ROUTINE]):
            os.write(2, MESSAGES)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    os.write(2, b"\nafter\n")
    assert capfd.readouterr().err == "E0000 out of memory\nfound USDT: here\nno newline\nafter\n"


def test_nested_blocks_and_other_threads_are_part_of_the_outer_block(capfd: pytest.CaptureFixture[str]) -> None:
    def write() -> None:
        with routine_messages_hidden([ROUTINE]):
            os.write(2, b"USDT:thread\nerror of a thread\n")

    with routine_messages_hidden([ROUTINE]):
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
        with routine_messages_hidden(["error"]):
            os.write(2, b"USDT:inner\nerror of the inner block\n")
    assert capfd.readouterr().err == "error of a thread\nerror of the inner block\n"


def test_without_patterns_stderr_is_not_touched(capfd: pytest.CaptureFixture[str]) -> None:
    with routine_messages_hidden([None]):
        os.write(2, MESSAGES)
        assert capfd.readouterr().err.encode() == MESSAGES


def test_a_forked_child_has_the_original_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    with routine_messages_hidden([ROUTINE]):
        child = os.fork()
        if not child:
            os.write(2, b"of the child\n")
            os._exit(0)
        os.waitpid(child, 0)
        assert capfd.readouterr().err == "of the child\n"


def test_a_process_without_stderr_is_not_disturbed() -> None:
    code = (
        "import os; os.close(2)\n"
        "from unified_profiler.recording.native_messages import routine_messages_hidden as hidden\n"
        "with hidden(['a']): print('inside')\n"
        "print(len(os.listdir('/proc/self/fd')) if os.path.isdir('/proc/self/fd') else 0)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    assert result.stdout.splitlines()[0] == "inside"


def test_no_descriptor_is_leaked() -> None:
    def count() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = count()
    for _ in range(10):
        with routine_messages_hidden([ROUTINE]):
            os.write(2, b"USDT:\n")
    assert count() == before
