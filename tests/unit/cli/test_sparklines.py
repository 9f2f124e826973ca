from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from unified_profiler.cli.sparklines import room_for_sparklines, sparklines


def drawn(*values: float, width: int = 80) -> str:
    return sparklines([np.array(values, dtype=np.float64)], width)[0]


def test_heights_follow_the_values() -> None:
    assert drawn(10, 12, 14, 16, 18, 20) == "\u2581\u2582\u2584\u2585\u2587\u2588"


def test_noise_stays_flat() -> None:
    assert set(drawn(100, 101, 100, 102)) == {"\u2581"}


def test_one_long_step_does_not_flatten_the_others() -> None:
    line = drawn(10_000, 10, 12, 14, 12, 10)
    assert line[0] == "\u2588"
    assert len(set(line[1:])) == 3


def test_a_long_series_keeps_its_maxima() -> None:
    values = np.full(3000, 10.0)
    values[[7, 1500, 2999]] = 20
    (line,) = sparklines([values], 30)
    assert len(line) == 30
    assert [index for index, block in enumerate(line) if block == "\u2588"] == [0, 15, 29]


def test_all_series_have_one_scale() -> None:
    fast, slow = sparklines([np.full(4, 10.0), np.full(4, 20.0)], 80)
    assert (set(fast), set(slow)) == ({"\u2581"}, {"\u2588"})


def test_missing_values_are_gaps() -> None:
    assert drawn(10, np.nan, 20) == "\u2581 \u2588"
    assert drawn(np.nan, np.nan) == "  "


def test_times_of_zero_are_drawn() -> None:
    assert drawn(0, 0, 0) == "\u2581" * 3


@pytest.mark.parametrize(
    ("encoding", "is_shown"), [("utf-8", True), ("gb18030", True), ("ascii", False), ("iso-8859-1", False)]
)
def test_only_terminals_that_can_show_blocks_have_room(
    encoding: str, is_shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    console = Console(file=io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    assert (room_for_sparklines(console) > 0) == is_shown


def test_what_is_piped_has_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert room_for_sparklines(Console(file=io.StringIO())) == 0
