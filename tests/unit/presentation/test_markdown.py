from __future__ import annotations

import re
from collections.abc import Sequence
from html import unescape

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from unified_profiler.presentation.markdown import LONGEST, WIDEST_CELL, escaped, table
from unified_profiler.presentation.tables import one_line

python_markdown = pytest.importorskip("markdown")  # what mkdocs uses

HOSTILE = [
    "a|b",
    "`code`",
    "<script>alert(1)</script>",
    "<b onclick=x>",
    "a & b &lt; &#124;",
    "**bold** *it* _it_ __x__ snake_case_name _",
    "[text](http://example.com) ![image](x.png) [ref]: x",
    "http://example.com www.example.com <http://example.com>",
    "~~gone~~ $x^2$",
    "line\nbreak\r\n| --- |",
    "\x1b[31mred\x00\u202e",
    "# heading",
    "- item",
    "1. item",
    "+ item",
    "---",
    "===",
    "> quote",
    "    code",
    "```",
    "back\\slash\\|pipe\\",
    "[^1]: note",
    "aten::_convolution",
    "卷积|層",
]

texts = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(max_size=60),
    st.lists(st.sampled_from([*"|`<>&*_[]()!~#+-=.:$\\ \n", "a", "1", "http://", "www."]), max_size=30).map("".join),
)


def parser() -> MarkdownIt:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"])


def shown(html: str) -> str:
    return unescape(re.sub("<[^>]*>", "", html)).strip()


def tags(html: str) -> set[str]:
    return set(re.findall(r"</?(\w+)", html))


def plain(text: str) -> str:
    return one_line(text).strip()


@given(texts)
@example("1." * 3)
def test_any_text_reads_as_itself_and_is_no_markup(text: str) -> None:
    html = parser().render(escaped(text))
    assert shown(html) == plain(text)
    assert tags(html) <= {"p"}


@given(texts)
@example("0 ##")
@pytest.mark.parametrize("before", ["# ", "- item\n- ", "> **note** "])
def test_it_does_so_within_headings_lists_and_quotes(before: str, text: str) -> None:
    html = parser().render(f"{before}x {escaped(text)}") if before == "# " else parser().render(before + escaped(text))
    assert plain(text) in shown(html)
    assert tags(html) <= {"h1", "ul", "li", "p", "blockquote", "strong"}


@given(texts)
def test_a_program_with_fewer_escapes_sees_no_html_either(text: str) -> None:
    html = python_markdown.markdown(escaped(text), extensions=["tables"])
    assert tags(html) <= {"p"}


@given(st.lists(st.tuples(texts, texts), max_size=4))
def test_a_table_has_its_cells_whatever_is_in_them(rows: list[tuple[str, str]]) -> None:
    html = parser().render(table(("name|x", "time"), rows, right_aligned=(False, True)))
    cells = [shown(cell) for cell in re.findall(r"<t[hd].*?>(.*?)</t[hd]>", html)]
    assert cells == ["name|x", "time", *(plain(cell) for row in rows for cell in row)]
    assert tags(html) <= {"table", "thead", "tbody", "tr", "th", "td"}


@pytest.mark.parametrize(
    ("aligned", "expected"),
    [((False, True), "|:--|--:|"), ((), "|:--|:--|"), ((True,), "|--:|:--|")],
)
def test_columns_are_aligned_as_asked(aligned: Sequence[bool], expected: str) -> None:
    assert table(("name", "time"), [], right_aligned=aligned).splitlines()[1] == expected


def test_names_as_frameworks_have_them_stay_readable() -> None:
    assert escaped("conv2d/kernel/max_pool2d") == "conv2d/kernel/max_pool2d"
    assert escaped("107.160 us") == "107.160 us"
    assert escaped("-5 B") == "-5 B"
    assert escaped("float32[8,10]") == "float32\\[8,10]"


def test_long_texts_are_cut() -> None:
    assert len(escaped("x" * 10_000)) == LONGEST
    assert escaped("x" * 10_000).endswith("…")
    assert len(escaped("\x00" * 10_000)) <= 2 * LONGEST  # backslashes
    assert f"| {'x' * (WIDEST_CELL - 1)}… |" in table(("name",), [["x" * 10_000]])


def test_links_are_not_made_of_addresses() -> None:
    assert "://" not in escaped("see http://example.com")
    assert "www." not in escaped("see www.example.com").lower()
