from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from unified_profiler.model.file_locks import FileLock

HOLDS = """
import sys
from pathlib import Path
from unified_profiler.model.file_locks import FileLock
print(FileLock(Path(sys.argv[1])).take(create=True), flush=True)
sys.stdin.read()
"""


def test_a_lock_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    one, two = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    assert one.take(create=True)
    assert not two.take()
    one.release()
    one.release()
    assert two.take()
    assert (one.held, two.held) == (False, True)


def test_a_lock_is_gone_with_its_process(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDS, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        lock = FileLock(tmp_path / "lock")
        assert not lock.take()
        os.kill(process.pid, signal.SIGKILL)
        assert lock.take(wait=True)


def test_a_lock_on_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FileLock(tmp_path / "lock").take()


def test_a_file_that_may_only_be_read_can_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file system that is mounted read-only, say."""
    (tmp_path / "lock").touch()
    opened = os.open

    def refuse_to_write(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_RDWR:
            raise PermissionError(13, "Permission denied")
        return opened(path, flags, mode)

    monkeypatch.setattr(os, "open", refuse_to_write)
    assert FileLock(tmp_path / "lock").take()
