from __future__ import annotations

import dataclasses
import sys

import pyarrow as pa
import pytest

from unified_profiler.engine import Result
from unified_profiler.errors import UsageError

TABLE = pa.table({"name": ["conv", "relu"], "self_ns": [1500, None]})


def _lines(table: pa.Table, **options: object) -> list[str]:
    return str(Result(table=table, **options)).splitlines()  # type: ignore[arg-type]


def test_rows_have_attributes_and_unpack() -> None:
    result = Result(table=TABLE)
    assert result.rows[0].name == "conv"
    assert [value for _, value in result] == [1500, None]
    assert len(result) == 2


def test_columns_that_are_no_python_names_are_numbered() -> None:
    row = Result(table=pa.table({"a": [1], "count(*)": [2], "class": [3]})).rows[0]
    assert (row.a, row._1, row._2) == (1, 2, 3)


def test_columns_of_the_same_name_are_both_kept() -> None:
    result = Result(table=pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]))
    assert tuple(result.rows[0]) == (1, 2)
    assert str(result).splitlines()[3].split() == ["1", "2"]


def test_a_result_without_columns_has_no_rows() -> None:
    assert Result(table=pa.table({})).rows == ()


def test_results_are_frozen() -> None:
    result = Result(table=TABLE)
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.footer = ("x",)  # type: ignore[misc]


def test_maps_are_dictionaries_in_python() -> None:
    column = pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64()))
    result = Result(table=pa.table({"m": column}))
    assert [row.m for row in result] == [{"a": 1}, None]
    assert result.to_pandas()["m"][0] == {"a": 1}


def test_gives_arrow_and_pandas() -> None:
    result = Result(table=TABLE)
    assert result.to_arrow() is TABLE
    assert list(result.to_pandas()["name"]) == ["conv", "relu"]


def test_pandas_missing_is_told_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="pip install pandas"):
        Result(table=TABLE).to_pandas()


def test_text_is_aligned() -> None:
    assert _lines(TABLE) == [
        "----  --------",
        "name   self_ns",
        "----  --------",
        "conv  1.500 us",
        "relu        --",
        "----  --------",
    ]


@pytest.mark.parametrize(
    ("column", "value", "shown"),
    [
        ("x_ns", 999, "0.999 us"),
        ("x_ns", 1_500_000, "1.500 ms"),
        ("x_ns", 2_000_000_000, "2.000 s"),
        ("x_ns", -1_500_000, "-1.500 ms"),
        ("x_ns", 1500.5, "1.500 us"),
        ("start_ns", 1_700_000_000_123_456_789, "1700000000123456789"),
        ("x_bytes", 1023, "1023 B"),
        ("x_bytes", -2048, "-2.00 KiB"),
        ("x_bytes", 3 * 1024**2, "3.00 MiB"),
        ("x_bytes", 5 * 1024**3, "5.00 GiB"),
        ("x_share", 0.12345, "12.35%"),
        ("x_count", 1234567, "1,234,567"),
        ("x_ratio", 1.6082, "1.61\u00d7"),
        ("ratio", 0.0012345, "0.0012\u00d7"),
        ("bandwidth_median", 1047.15, "1,047.150"),
        ("bus_bandwidth", 0.00510204, "0.005"),
        ("length_mean", 0.814149, "0.814"),
        ("length_max", 10, "10"),
        ("x", 1234567, "1234567"),
        ("x", 0.123456789, "0.123457"),
        ("x", True, "True"),
        ("x", None, "--"),
        ("m_ns", [("forward", 1500), ("loss", 10)], "forward 1.500 us, loss 0.010 us"),
    ],
)
def test_values_carry_their_units(column: str, value: object, shown: str) -> None:
    kind = pa.map_(pa.string(), pa.int64()) if isinstance(value, list) else None
    assert _lines(pa.table({column: pa.array([value], kind)}))[3].strip() == shown


def test_long_names_are_cut() -> None:
    cell = _lines(pa.table({"name": ["x" * 500]}))[3]
    assert len(cell) == 55
    assert cell.endswith("...")


def test_wide_characters_stay_aligned() -> None:
    from rich.cells import cell_len

    lines = _lines(pa.table({"name": ["日本語", "a"], "n": [1, 2]}))
    assert len({cell_len(line) for line in lines}) == 1


@pytest.mark.parametrize("name", ["a\nb", "a\r\nb", "a\tb", "\x1b[31mred", "a\u2028b", "a\u202eb", "\x00"])
def test_characters_that_break_lines_are_spelt_out(name: str) -> None:
    lines = _lines(pa.table({"name": [name]}))
    assert len(lines) == 5
    assert all(line.isprintable() for line in lines)


def test_long_tables_are_cut_and_say_so() -> None:
    lines = _lines(pa.table({"n": list(range(150))}), footer=("the end",))
    assert lines[-2:] == ["Shown: 100 of 150 rows.", "the end"]
    assert len(lines) == 106


def test_headings_choose_the_columns_shown() -> None:
    lines = _lines(TABLE, headings={"self_ns": "Self CPU"})
    assert lines[1].split("  ") == ["Self CPU"]


def test_an_empty_table_shows_its_columns() -> None:
    assert _lines(TABLE.slice(0, 0))[1].split() == ["name", "self_ns"]


def test_html_is_escaped() -> None:
    table = pa.table({"<b>": ["<script>alert(1)</script>"]})
    html = Result(table=table, footer=("<i>",))._repr_html_()
    assert "<script>" not in html
    assert "<b>" not in html
    assert "<i>" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html


@pytest.mark.parametrize("name", ["x" * 10_000, "\x1b[31m\u202e", "</td></table><img src=x onerror=alert(1)>"])
def test_html_cells_are_short_printable_text(name: str) -> None:
    html = Result(table=pa.table({"name": [name]}))._repr_html_()
    assert html.isprintable()
    assert len(html) < 1000
    assert "<img" not in html


def test_html_of_a_long_table_is_cut_and_says_so() -> None:
    html = Result(table=pa.table({"n": list(range(150))}))._repr_html_()
    assert html.count("<tr>") == 101
    assert "Shown: 100 of 150 rows." in html


def test_repr_is_the_table() -> None:
    result = Result(table=TABLE)
    assert repr(result) == str(result)
    assert len(repr(Result(table=pa.table({"n": list(range(100_000))})))) < 10_000


def test_rows_and_columns_can_be_taken() -> None:
    result = Result(table=TABLE)
    assert result[0] == result.rows[0]
    assert result[-1:] == result.rows[-1:]
    assert result["name"] == [row.name for row in result]
    with pytest.raises(UsageError, match=r"no column 'nmae'\. Did you mean 'name'"):
        result["nmae"]
    with pytest.raises(IndexError):
        result[2]
