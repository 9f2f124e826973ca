"""Files become values in one place: what is wrong with them is a typed error, and none of them fills the memory."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from unified_profiler.errors import ConfigurationError, QueryError, TraceFormatError
from unified_profiler.model.foreign import LIMIT_VARIABLE, first_bytes, peek_bytes, read_bytes, reading


def test_a_plain_and_a_packed_file_hold_the_same(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"events")
    (tmp_path / "packed").write_bytes(gzip.compress(b"events"))
    assert read_bytes(tmp_path / "plain") == read_bytes(tmp_path / "packed") == b"events"
    assert first_bytes(tmp_path / "plain", 3) == first_bytes(tmp_path / "packed", 3) == b"eve"


def test_a_packed_file_of_several_members_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "packed").write_bytes(gzip.compress(b"one ") + gzip.compress(b"two"))
    assert read_bytes(tmp_path / "packed") == b"one two"


@pytest.mark.parametrize("read", [read_bytes, lambda path: first_bytes(path, 10)])
def test_a_device_is_not_read(read: Callable[[Path], bytes]) -> None:
    with pytest.raises(TraceFormatError, match="/dev/zero is a device"):
        read(Path("/dev/zero"))


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TraceFormatError, match="a pipe"):
        read_bytes(tmp_path / "pipe")


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError, match="is a directory; expected a regular file"):
        read_bytes(tmp_path)


def test_a_file_above_the_limit_is_refused_with_the_way_to_raise_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LIMIT_VARIABLE, "1KB")
    (tmp_path / "large").write_bytes(bytes(1001))
    with pytest.raises(TraceFormatError, match=f"allow more with {LIMIT_VARIABLE}="):
        read_bytes(tmp_path / "large")
    monkeypatch.setenv(LIMIT_VARIABLE, "2KB")
    assert len(read_bytes(tmp_path / "large")) == 1001


def test_a_packed_file_is_refused_where_it_passes_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT_VARIABLE, "1MB")
    (tmp_path / "packed").write_bytes(gzip.compress(bytes(2_000_000)))
    with pytest.raises(TraceFormatError, match="unpacks to more than"):
        read_bytes(tmp_path / "packed")


def test_a_small_file_that_unpacks_to_much_more_than_a_trace_would_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unified_profiler.model.foreign._PACKED_ALLOWANCE", 1 << 20)
    (tmp_path / "bomb").write_bytes(gzip.compress(bytes(8 << 20)))
    with pytest.raises(TraceFormatError, match=r"unpacks to more than .*unpack it and read that"):
        read_bytes(tmp_path / "bomb")


def test_a_limit_that_is_no_size_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT_VARIABLE, "much")
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(ConfigurationError, match=f"`{LIMIT_VARIABLE}` must be a number of bytes"):
        read_bytes(tmp_path / "file")


@pytest.mark.parametrize(
    "error", [KeyError("ts"), OverflowError(), RecursionError(), UnicodeDecodeError("a", b"", 0, 0, "")]
)
def test_what_goes_wrong_while_reading_names_the_file_and_what_was_expected(error: Exception) -> None:
    with (
        pytest.raises(TraceFormatError, match=r"run\.json cannot be read; expected a Kineto trace"),
        reading("run.json", expected="a Kineto trace"),
    ):
        raise error


def test_typed_errors_pass_unchanged() -> None:
    error = QueryError("no such column")
    with pytest.raises(QueryError) as raised, reading("run.json"):
        raise error
    assert raised.value is error


def test_the_first_bytes_of_a_packed_file_with_an_endless_header_are_none(tmp_path: Path) -> None:
    named = b"\x1f\x8b\x08\x08" + bytes(6) + b"x" * 1_000_000
    (tmp_path / "packed").write_bytes(named)
    assert first_bytes(tmp_path / "packed", 10) == b""


def test_the_opening_of_what_cannot_be_read_is_empty(tmp_path: Path) -> None:
    (tmp_path / "broken").write_bytes(b"\x1f\x8b broken")
    places = [tmp_path, tmp_path / "broken", tmp_path / "missing", Path("/dev/zero"), Path("\0")]
    assert [peek_bytes(path, 10) for path in places] == [b""] * 5
