from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from unified_profiler.cli.fitting import GAP, cut, fit, wrapped
from unified_profiler.presentation.tables import Column


def text(name: str, *cells: str) -> Column:
    return Column(name, name, cells, is_text=True)


def number(name: str, *cells: str, is_blank: bool = False) -> Column:
    return Column(name, name, cells, is_text=False, is_blank=is_blank)


def names(columns: object) -> list[str]:
    return [getattr(column, "column", column).name for column in columns]  # type: ignore[attr-defined]


def test_what_fits_is_shown_as_it_is() -> None:
    found = fit([text("name", "conv"), number("n", "12")], 80)
    assert [column.width for column in found.shown] == [4, 2]
    assert found.left_out == ()


def test_the_name_gives_way_before_any_number_goes() -> None:
    found = fit([text("name", "x" * 100), number("n", "1" * 20)], 60)
    assert [column.width for column in found.shown] == [60 - GAP - 20, 20]


def test_headings_are_folded_before_any_number_goes() -> None:
    found = fit(
        [text("name", "x" * 24), number("CPU time avg", "1.000 us"), number("CPU total %", "5")], 24 + 8 + 5 + 4
    )
    assert found.left_out == ()


def test_columns_that_say_nothing_go_first() -> None:
    columns = [text("name", "x" * 90), number("copy", "0", is_blank=True), number("wall", "1" * 30)]
    assert names(fit(columns, 57).left_out) == ["copy"]


def test_measures_that_tell_less_go_before_others() -> None:
    columns = [text("name", "x" * 30), *(number(n, "1" * 20) for n in ("cpu_share", "self_cpu_ns", "call_count"))]
    assert names(fit(columns, 70).left_out) == ["cpu_share"]


def test_unknown_columns_go_from_the_right() -> None:
    found = fit([text("name", "x" * 30), *(number(n, "1" * 20) for n in "abc")], 70)
    assert names(found.left_out) == ["c"]


def test_the_column_that_rows_are_sorted_by_stays() -> None:
    columns = [text("name", "x" * 30), *(number(n, "1" * 20) for n in "abc")]
    assert names(fit(columns, 46, keep="c").shown) == ["name", "c"]


def test_of_numbers_alone_the_first_stays() -> None:
    assert names(fit([number("a", "1" * 20), number("b", "1" * 20)], 25).shown) == ["a"]


def test_no_columns_fit_any_window() -> None:
    assert fit([], 80).shown == ()


CELLS = st.text(st.characters(categories=["L", "N", "P", "Mn"]), max_size=90)
COLUMNS = st.lists(
    st.builds(
        Column,
        name=st.sampled_from(["name", "cpu_ns", "rank", "flops", "x_share"]),
        heading=CELLS,
        cells=st.lists(CELLS, min_size=2, max_size=2),
        is_text=st.just(True),
        is_blank=st.booleans(),
    )
    | st.builds(
        Column,
        name=st.sampled_from(["cpu_ns", "rank", "flops", "x_share"]),
        heading=CELLS,
        cells=st.lists(st.integers(0, 10**20).map(str), min_size=2, max_size=2),
        is_text=st.just(False),
        is_blank=st.booleans(),
    ),
    max_size=30,
)


@given(columns=COLUMNS, width=st.integers(60, 250))
def test_whatever_is_shown_fits_and_no_number_is_cut(columns: list[Column], width: int) -> None:
    found = fit(columns, width)
    assert sum(column.width + GAP for column in found.shown) - GAP <= width
    for column in found.shown:
        assert column.column.is_text or all(cell_len(cell) <= column.width for cell in column.column.cells)
    assert len(found.shown) + len(found.left_out) == len(columns)


@given(name=CELLS, width=st.integers(1, 60))
def test_a_cut_text_is_never_too_wide(name: str, width: int) -> None:
    assert cell_len(cut(name, width, mark="…")) <= width


@pytest.mark.parametrize(
    ("name", "width", "shown"),
    [
        ("aten::relu", 10, "aten::relu"),
        ("Gradients/network/conv/MatMul-op0", 16, "Gradients/…l-op0"),
        ("日本語日本語日本語", 8, "日本…語"),
        ("abc", 1, "a"),
    ],
)
def test_the_middle_is_cut_out(name: str, width: int, shown: str) -> None:
    assert cut(name, width, mark="…") == shown


def test_texts_that_are_numbers_are_shown_whole_or_not_at_all() -> None:
    interval = text("interval", "-96.5% \u2026 +2785.5%")
    assert [column.width for column in fit([text("metric", "x" * 60), interval], 60).shown] == [41, 17]
    assert names(fit([text("metric", "x" * 60), interval], 30).left_out) == ["interval"]


@pytest.mark.parametrize("heading", ["Communication", "Synchronization", "B / A"])
def test_words_of_headings_are_not_broken(heading: str) -> None:
    (column,) = fit([Column("x", heading, ["1"], is_text=False)], 80).shown
    assert column.width == len(heading)
    narrow = fit([text("name", "x" * 80), Column("x", heading, ["1"], is_text=False)], 80).shown
    assert narrow[1].width == len(heading)


@pytest.mark.parametrize(
    ("line", "width", "lines"),
    [
        ("a step takes 61.707 ms here", 20, ["a step takes", "61.707 ms here"]),
        ("\u6bcf\u6b65 61.707 ms\uff0c\u5171 3 \u6b65", 16, ["\u6bcf\u6b65 61.707 ms\uff0c", "\u5171 3 \u6b65"]),
        ("\u7b97\u5b50\u65f6\u95f4\uff0c\u5171", 8, ["\u7b97\u5b50\u65f6", "\u95f4\uff0c\u5171"]),
        ("", 10, [""]),
    ],
)
def test_lines_are_broken_between_words_but_not_before_a_unit_or_punctuation(
    line: str, width: int, lines: list[str]
) -> None:
    assert list(wrapped(line, width)) == lines


@given(
    line=st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cf"]), max_size=200), width=st.integers(10, 80)
)
def test_a_broken_line_loses_nothing_but_spaces(line: str, width: int) -> None:
    assert "".join("".join(wrapped(line, width)).split()) == "".join(line.split())


def test_of_two_sides_both_have_a_measure_or_none() -> None:
    calls = (Column(f"{side}_calls", "Calls", ["1" * 9], is_text=False) for side in ("baseline", "candidate"))
    columns = [text("name", "x" * 24), *calls]
    assert names(fit(columns, 24 + GAP + 9 + GAP + 8).shown) == ["name"]
    assert names(fit(columns, 24 + GAP + 9 + GAP + 9).left_out) == []
