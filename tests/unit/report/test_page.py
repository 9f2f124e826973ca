from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

import unified_profiler as up
from unified_profiler.presentation import texts
from unified_profiler.report.document import GROUPINGS, MOST_ROWS, MOST_STEPS, document
from unified_profiler.report.page import SCRIPTS, page
from unified_profiler.testing import TraceBuilder

GOLDEN = Path(__file__).parents[2] / "golden"
ASSETS = Path(up.__file__).parent / "report" / "assets"


def embedded(html: str) -> Any:
    (packed,) = re.findall(r'id="packed-document">([^<]*)<', html)
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def shortened(value: Any) -> Any:
    """The value with all of its texts cut as on a page, such as long names of kernels."""
    if isinstance(value, dict):
        return {key: shortened(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shortened(item) for item in value]
    return texts.shortened(value) if isinstance(value, str) else value


@pytest.fixture(scope="module")
def nccl() -> up.Run:
    run: up.Run = up.read(GOLDEN / "kineto" / "nccl_rank.json.gz")
    return run


def test_the_page_holds_the_numbers_of_the_analyses(nccl: up.Run) -> None:
    content = embedded(page(nccl))
    assert content["summary"] == shortened(up.summarize(nccl).model_dump(mode="json"))
    for by in GROUPINGS:
        (table,) = content["operators"][by]
        result = up.op_table(nccl, by=by)
        assert table["columns"] == [*result.columns, "category"]
        measures = [row[-1 - len(result.columns) :][:-1] for row in table["rows"]]
        numbers = [[cell for cell in row if not isinstance(cell, str)] for row in measures]
        expected = [[cell for cell in row if not isinstance(cell, str)] for row in result.rows]
        assert numbers == expected
    steps = up.step_breakdown(nccl)
    assert [row[3:] for row in content["breakdown"]["rows"]] == [
        [row.wall_ns, row.data_ns, row.op_ns, row.collective_ns, row.copy_ns, row.compile_ns, row.uncovered_ns]
        for row in steps
    ]


def test_every_rank_has_tables_of_its_own(two_ranks: up.Run) -> None:
    content = document(two_ranks)
    tables = content["operators"]["name"]
    assert [table["rank"] for table in tables] == [None, 0, 1]
    count = tables[0]["columns"].index("call_count")
    sums = [sum(row[count] for row in table["rows"]) for table in tables]
    assert sums[0] == sums[1] + sums[2]
    assert [flame["rank"] for flame in content["flames"]] == [0, 1]
    assert {line["rank"] for line in content["timelines"]} == {0, 1}


@pytest.mark.parametrize("by", ["name", "op", "shapes"])
def test_a_row_has_the_category_in_which_it_took_most(by: str) -> None:
    trace = TraceBuilder().op("add", 0, 5, op="Add").op("add", 10, 50, op="Add", direction="update").build()
    ((row,),) = [table["rows"] for table in document(trace)["operators"][by]]
    assert row[-1] == "optimizer"


def test_long_tables_are_cut_and_say_so() -> None:
    builder = TraceBuilder()
    for number in range(MOST_ROWS + 5):
        builder.op(f"op{number}", number * 10, 5)
    (table,) = document(builder.build())["operators"]["name"]
    assert (len(table["rows"]), table["left_out"]) == (MOST_ROWS, 5)


def test_of_a_long_training_the_slowest_and_the_recorded_steps_stay(tmp_path: Path) -> None:
    moment = 0

    def clock() -> int:
        nonlocal moment
        moment += 1000
        return moment

    count = 3 * MOST_STEPS
    plan = up.schedule(wait=10, warmup=0, active=2, repeat=1)
    with up.Profiler(level=1, schedule=plan, clock=clock, hardware_hz=0) as prof:
        for step in range(count):
            moment += 1_000_000 * (step == 7000)
            prof.step()
    (steps,) = document(prof.run)["steps"]
    assert {7000, 10, 11} <= set(steps["step"])
    assert len(steps["step"]) <= MOST_STEPS + 2
    assert steps["left_out"] == count - len(steps["step"])


def test_long_names_are_cut() -> None:
    content = page(TraceBuilder().op("x" * 100_000, 0, 5).build())
    assert len(gzip.compress(json.dumps(embedded(content)).encode())) < 100_000
    assert "x" * 1000 not in json.dumps(embedded(content))


def test_names_never_become_markup() -> None:
    hostile = "</script><script>alert(1)</script>"
    html = page(TraceBuilder(run=hostile).op(hostile, 0, 5).region(hostile, 0, 9).build())
    assert "<script>alert" not in html
    assert html.count("<script") == html.count("</script>") == len(SCRIPTS) + 3


def test_nothing_is_loaded_from_anywhere(nccl: up.Run) -> None:
    html = page(nccl)
    own = re.sub(r'id="packed-(document|plotly)">[^<]*<', "", html)
    assert "default-src 'none'" in own
    assert not re.search(r"""(?:src|href)=["'](?!#|data:)""", own)
    assert not re.search(r"https?://(?!www\.w3\.org)", own)


def test_every_page_has_a_nonce_of_its_own(trace: up.Trace) -> None:
    nonces = [set(re.findall(r'nonce="([^"]+)"', page(trace))) for _ in range(2)]
    assert len(nonces[0]) == len(nonces[1]) == 1
    assert nonces[0] != nonces[1]


def test_all_scripts_are_in_the_page() -> None:
    assert sorted(SCRIPTS) == sorted(file.name for file in ASSETS.glob("*.js"))


@pytest.mark.parametrize(("language", "word"), [("en", "Timeline"), ("zh", "时间线")])
def test_the_page_begins_in_the_language_asked_for(trace: up.Trace, language: str, word: str) -> None:
    html = page(trace, language=language)
    assert word in html
    assert embedded(html)["language"] == language
