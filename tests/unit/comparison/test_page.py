from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

import pytest

import unified_profiler as up
from unified_profiler.comparison import Diff, page_rows
from unified_profiler.comparison.groupings import groupings
from unified_profiler.comparison.page import SHARED_SCRIPTS, page
from unified_profiler.comparison.records import DiffRow, Measured
from unified_profiler.comparison.text import label
from unified_profiler.presentation.tables import format_time
from unified_profiler.presentation.texts import LANGUAGES, render_statement, texts
from unified_profiler.testing import TraceBuilder

StepsOf = Callable[..., up.Trace]

CONV = {"op": "Conv", "origin": "Conv", "direction": "forward", "flops": 1000}
RELU = {"op": "Relu", "origin": "Relu", "direction": "forward"}
ADD = {"op": "Add", "origin": "Add", "direction": "forward"}
HOSTILE = (
    "<script>window.hurt = 1</script>",
    "</style></script><img src=x onerror='window.hurt = 1'>",
    "\"'><b>bold</b>&lt;{{ 7 * 7 }}",
    "\x00\x1b[31mred\x07\r\n\u202egnp.exe",
    "x" * 10_000,
)


@dataclass
class Cell:
    attributes: dict[str, str | None]
    text: str = ""


@dataclass
class Table(HTMLParser):
    """The cells of the table of a page, with their attributes."""

    html: str
    rows: list[list[Cell]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.inside = False
        self.feed(self.html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in {"th", "td"}:
            self.inside = True
            self.rows[-1].append(Cell(dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag not in {"th", "td"}

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.rows[-1][-1].text += data

    @property
    def names(self) -> list[str | None]:
        """The name of each row below the total."""
        return [cells[0].attributes["title"] for cells in self.rows[2:]]


def readable(html: str) -> str:
    """Return a page without scripts and without the keys of its texts."""
    html = re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)
    html = re.sub(r'<span data-text="[^"]*">([^<]*)</span>', r"\1", html)
    return re.sub(r' data-(?:text|title|label|placeholder)="[^"]*"', "", html)


def translations(html: str) -> dict[str, dict[str, str]]:
    (packed,) = re.findall(r'id="translations">([^<]*)<', html)
    found: dict[str, dict[str, str]] = json.loads(packed)
    return found


def every_row(rows: tuple[DiffRow, ...]) -> Iterator[DiffRow]:
    for row in rows:
        yield row
        yield from every_row(row.rows)


def value(cell: Cell) -> float | None:
    found = cell.attributes.get("data-value")
    return float(found) if found else None


@pytest.fixture
def frameworks(steps_of: StepsOf) -> Diff:
    """Return what the tests mostly look at: a row that differs, one that does not, and one of each side alone."""
    wobbly: Callable[[int], float] = lambda step: 1 + step / 50  # noqa: E731
    torch = steps_of(
        [("aten::conv2d", 30_000, CONV), ("aten::relu", 5000, RELU), ("aten::add", 2000, ADD)], run="a", scale=wobbly
    )
    keras = steps_of(
        [("Conv2D", 90_000, CONV), ("Conv2D", 9000, CONV), ("Relu", 5010, RELU)],
        framework="tensorflow",
        run="b",
        scale=wobbly,
    )
    return up.diff(torch, keras)


def test_every_row_is_there_in_its_order_with_its_numbers(frameworks: Diff) -> None:
    rows = [frameworks.total, *every_row(frameworks.rows)]
    shown = Table(page(frameworks)).rows[1:]
    assert len(shown) == len(rows) > 6
    for row, cells in zip(rows, shown, strict=True):
        both = row.baseline, row.candidate
        flops = [None if each is None else each.flops_per_s for each in both]
        assert [value(cell) for cell in cells] == [
            None,
            row.difference_ns,
            *(None if each is None else each.time_ns for each in both),
            row.ratio,
            row.difference_share,
            None if both[0] is None else both[0].call_count,
            None if row.same_calls is None else float(not row.same_calls),
            None if both[1] is None else both[1].call_count,
            *flops,
        ]


def test_numbers_are_written_with_units_and_spread(frameworks: Diff) -> None:
    group = frameworks.rows[0]
    assert isinstance(group.baseline, Measured)
    cells = [cell.text.strip() for cell in Table(page(frameworks)).rows[2]]
    spread = (group.baseline.high_ns - group.baseline.low_ns) / 2 / group.baseline.time_ns
    assert cells[0] == "convolution"
    assert cells[1].endswith(f"+{format_time(group.difference_ns)}")
    assert cells[2] == f"{format_time(group.baseline.time_ns)}±{spread:.0%}"
    assert spread > 0.01
    assert cells[6:9] == ["1", "≠", "2"]
    assert cells[4] == f"{group.ratio:.2f}×"  # noqa: RUF001  times
    assert cells[9] == f"{(group.baseline.flops_per_s or 0) / 1e9:.2f}"


def test_rows_of_one_side_and_rows_that_differ_are_marked(frameworks: Diff) -> None:
    rows = list(every_row(frameworks.rows))
    for row, cells in zip(rows, Table(page(frameworks)).rows[2:], strict=True):
        assert ("only in A" in cells[0].text) == (row.candidate is None)
        assert ("only in B" in cells[0].text) == (row.baseline is None)
        assert ("▲" in cells[1].text) == (row.differs and row.difference_ns > 0)
        assert ("▼" in cells[1].text) == (row.differs and row.difference_ns < 0)
    assert {row.differs for row in rows} == {True, False}


def test_the_first_sentences_say_how_much_and_why(frameworks: Diff) -> None:
    html = readable(page(frameworks))
    (verdict,) = re.findall(r'id="verdict"[^>]*>([^<]*)<', html)
    assert verdict == "While recording, a step takes 1.000 ms of wall time in B and 1.000 ms in A: 1.00×."  # noqa: RUF001
    assert f"summed over all threads: {frameworks.total.ratio:.2f}×, so B takes longer." in html  # noqa: RUF001
    contributions = html[html.index('id="contributions"') : html.index('id="baseline"')]
    names = re.findall(r"<em>([^<]*)</em>", contributions)
    assert names == ["Conv forward", "Add forward"]
    assert "2 calls per step instead of 1" in contributions
    assert "only A has rows called Add forward" in contributions


def test_a_difference_within_the_noise_is_not_called_one(steps_of: StepsOf) -> None:
    trace = steps_of([("conv", 300), ("relu", 20)])
    html = page(up.diff(trace, trace))
    assert "This difference is below the threshold or within the noise." in html
    assert "No row differs" in html
    assert "Both sides take equally long" in html


@pytest.mark.parametrize("language", LANGUAGES)
def test_notices_come_with_their_level(steps_of: StepsOf, language: str) -> None:
    found = up.diff(*(steps_of([("conv", took, CONV)], steps=2) for took in (100, 300)))
    assert [notice.code for notice in found.notices] == ["few_steps"]
    sentence = render_statement("diff", found.notices[0], language=language)
    level = texts(language)["ui.level.warning"]
    assert f'<strong class="level">{level}</strong>{sentence}</li>' in readable(page(found, language=language))


def test_both_sides_have_a_card(frameworks: Diff) -> None:
    html = page(frameworks)
    for name, framework in (("baseline", "torch 1"), ("candidate", "tensorflow 1")):
        card = html[html.index(f'id="{name}"') :].partition("</div>\n      <div")[0]
        assert framework in card
        assert format_time(getattr(frameworks.total, name).time_ns) in card
        assert f"{getattr(frameworks, name).unmatched_share:.1%}" in card


def test_bars_go_from_the_largest_increase_to_the_largest_decrease(frameworks: Diff) -> None:
    html = readable(page(frameworks))
    chart = html[html.index('class="bars"') : html.index('id="rows"')]
    labels = re.findall(r"<bdi>([^<]*)</bdi>", chart)
    known = texts("en")
    differences = {label(row, known): row.difference_ns for row in frameworks.rows}
    assert labels == sorted(differences, key=lambda name: -differences[name])
    widths = [float(width) for width in re.findall(r"--width:([\d.]+)", chart)]
    span = max(differences.values()) - min(0.0, *differences.values())
    assert widths == [pytest.approx(abs(differences[name]) / span, abs=1e-4) for name in labels]


def test_small_bars_share_one(steps_of: StepsOf) -> None:
    before = steps_of([(f"op{number}", 100) for number in range(20)])
    after = steps_of([(f"op{number}", 200 + number) for number in range(20)])
    html = page(up.diff(before, after))
    assert html.count('class="track"') == page_rows.MOST_BARS + 1
    assert f"({20 - page_rows.MOST_BARS} more)" in html


def test_a_single_small_bar_has_its_own_name_and_place(steps_of: StepsOf) -> None:
    count = page_rows.MOST_BARS + 1
    before = steps_of([(f"op{number}", 100) for number in range(count)])
    after = steps_of([(f"op{number}", 200 + number) for number in range(count)])
    html = readable(page(up.diff(before, after)))
    labels = re.findall(r"<bdi>(op\d+)</bdi></span>", html)
    assert labels == [f"op{number}" for number in reversed(range(count))]


def test_a_page_of_one_step_and_one_call_has_no_plural(steps_of: StepsOf) -> None:
    before, after = (steps_of([("conv", 100 * calls)] * calls, steps=1) for calls in (2, 1))
    html = readable(page(up.diff(before, after)))
    assert "One side has only 1 recorded step," in html
    assert "1 call per step instead of 2" in html


def test_a_card_lists_time_outside_of_steps_only_if_there_is_some(steps_of: StepsOf) -> None:
    inside = steps_of([("conv", 300)])
    outside = TraceBuilder(frameworks={"torch": "1"}, first_step=0, last_step=0)
    outside.step(0, 0, 1000).op("conv", 0, 300, framework="torch").op("conv", 2000, 300, framework="torch")
    cards = readable(page(up.diff(inside, outside.build()))).partition('id="candidate"')
    assert "Outside of steps" not in cards[0]
    assert "Outside of steps</dt><dd>0.300 us" in cards[2]


def test_names_never_become_markup(steps_of: StepsOf) -> None:
    hostile = [(name, 1000 * (place + 1), {"input_shapes": name}) for place, name in enumerate(HOSTILE)]
    doubled = [(name, 2 * took, columns) for name, took, columns in hostile]
    first, second = steps_of(hostile, run=HOSTILE[0]), steps_of(doubled, run=HOSTILE[1], framework="<b>torch</b>")
    html = page(up.diff(first, second, by="name"))
    assert len(re.findall(r"<script", html)) == len(re.findall(r"</script", html)) == len(SHARED_SCRIPTS) + 3
    assert len(re.findall(r"</style", html)) == 2
    assert not re.search(r"<(img|b)\b", html)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202a-\u202e]", html)
    assert "x" * 301 not in html
    assert "{{ 7 * 7 }}" in html
    assert HOSTILE[0] in Table(html).names


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_speaks_one_language(frameworks: Diff, language: str) -> None:
    html = page(frameworks, language=language)
    assert f'<html lang="{"zh-CN" if language == "zh" else "en"}"' in html
    chinese = re.findall(r"[\u4e00-\u9fff]+", readable(html))
    assert (len(chinese) > 50) == (language == "zh")
    assert not re.search(r">\s*(ui|diff)\.", html)


def test_a_page_is_the_same_in_whichever_language_it_was_written(frameworks: Diff) -> None:
    pages = [page(frameworks, language=language) for language in LANGUAGES]
    assert translations(pages[0]) == translations(pages[1])
    keys = [re.findall(r' data-(?:text|title|label|placeholder)="([^"]*)"', html) for html in pages]
    assert keys[0] == keys[1]
    assert set(keys[0]) <= translations(pages[0])["en"].keys()


def test_only_what_differs_between_languages_is_in_the_page_twice(frameworks: Diff) -> None:
    known = translations(page(frameworks))
    assert known["en"]["page.line.2"] == "Conv forward"
    assert known["zh"]["page.line.2"] == "Conv 前向"
    assert "Conv2D" not in known["en"].values()


def test_braces_in_names_are_no_placeholders_for_the_scripts(steps_of: StepsOf) -> None:
    sides = [
        steps_of([("{version}", took, {**CONV, "origin": "{version}"})], framework=str(took)) for took in (100, 300)
    ]
    assert "{{version}} forward" in translations(page(up.diff(*sides)))["en"].values()


@pytest.mark.parametrize("language", LANGUAGES)
def test_there_are_words_for_everything_that_can_be_compared(language: str) -> None:
    known = texts(language)
    assert {f"ui.diff.by.{by}" for by in groupings(across_frameworks=True)} <= known.keys()
    for time in ("host", "device", "wall"):
        assert {f"diff.verdict.{time}", f"ui.diff.side.time.{time}"} <= known.keys()


def test_large_diffs_are_cut_and_say_so(steps_of: StepsOf) -> None:
    more = 50
    before = steps_of([(f"op{number}", 10) for number in range(page_rows.MOST_ROWS + more)], steps=1)
    after = steps_of([(f"op{number}", 10 + number // 10) for number in range(page_rows.MOST_ROWS + more)], steps=1)
    found = up.diff(before, after)
    html = page(found)
    names = Table(html).names
    assert len(names) == page_rows.MOST_ROWS
    left = sum(1 for _ in every_row(found.rows)) - page_rows.MOST_ROWS
    assert f"{left:,} more rows are not in this file" in html
    assert f"op{page_rows.MOST_ROWS + more - 1}" in names
    assert "op0" not in names


def test_what_is_innermost_is_left_out_first(frameworks: Diff, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = list(every_row(frameworks.rows))
    inner = [part for group in frameworks.rows for row in group.rows for part in row.rows]
    monkeypatch.setattr(page_rows, "MOST_ROWS", len(everything) - len(inner) + 1)
    html = page(frameworks)
    largest = max((part for part in inner if part.differs), key=lambda part: abs(part.difference_ns))
    names = Table(html).names
    assert len(names) == len(everything) - len(inner) + 1
    assert [name for name in names if name in {part.name for part in inner}] == [largest.name]


def test_nothing_is_loaded_from_anywhere(frameworks: Diff) -> None:
    html = page(frameworks)
    assert "default-src 'none'" in html
    assert not re.search(r"""(?:src|href)=["'](?!#|data:)""", html)
    assert not re.search(r"https?://", html)


def test_every_page_has_a_nonce_of_its_own(frameworks: Diff) -> None:
    nonces = [set(re.findall(r'nonce="([^"]+)"', page(frameworks))) for _ in range(2)]
    assert len(nonces[0]) == len(nonces[1]) == 1
    assert nonces[0] != nonces[1]


@pytest.mark.parametrize("by", sorted({*groupings(across_frameworks=True)} - {"region", "api"}))
def test_every_way_to_compare_has_a_page(steps_of: StepsOf, by: str) -> None:
    module = {**CONV, "module": "net"}
    before, after = steps_of([("conv", 100, module)]), steps_of([("conv", 300, module)])
    assert texts("en")[f"ui.diff.by.{by}"] in page(up.diff(before, after, by=by))
