from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable

import pytest

import unified_profiler as up
from unified_profiler.comparison.api_names import _table, common_name, equal_names
from unified_profiler.comparison.markdown import markdown
from unified_profiler.comparison.page import page
from unified_profiler.comparison.text import as_text
from unified_profiler.testing import TraceBuilder

StepsOf = Callable[..., up.Trace]
CALL = {"kind": "api_call", "layer": "api"}


def calls(*names_and_times: tuple[str, int]) -> list[tuple[str, int, dict[str, str]]]:
    return [(name, duration, CALL) for name, duration in names_and_times]


@pytest.fixture
def found(steps_of: StepsOf) -> up.Diff:
    """Two calls of relu against one, a layer of another name, and a call that only one side has."""
    torch = steps_of(
        calls(
            ("torch.nn.functional.relu", 100),
            ("torch.nn.functional.relu", 300),
            ("torch.nn.Linear", 500),
            ("torch.erfinv", 10),
        )
    )
    other = steps_of(calls(("mindspore.ops.relu", 800), ("mindspore.nn.Dense", 250)), framework="mindspore")
    return up.diff(torch, other, by="api")


# --- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "common"),
    [
        (("torch.nn.functional.relu", "mindspore.ops.relu", "tf.nn.relu", "torch.nn.ReLU"), "relu"),
        (("torch.matmul", "mindspore.Tensor.__matmul__", "tf.linalg.matmul", "torch.bmm"), "matmul"),
        (("torch.Tensor.__truediv__", "mindspore.ops.div", "tf.math.divide"), "div"),
        (("torch.nn.Linear", "mindspore.nn.Dense", "keras.layers.Dense", "torch.nn.functional.linear"), "linear"),
        (("torch.nn.BatchNorm2d", "mindspore.nn.BatchNorm1d", "keras.layers.BatchNormalization"), "batchnorm"),
        (("torch.optim.Adam.step", "mindspore.nn.Adam", "keras.optimizers.Adam.apply_gradients"), "adam"),
        (("torch.Tensor.add_", "torch.Tensor.__radd__", "mindspore.ops.add"), "add"),
        (("torch.sum", "tf.math.reduce_sum"), "sum"),
        (("step",), "step"),
        (("",), ""),
    ],
)
def test_calls_that_do_the_same_have_a_name_in_common(names: tuple[str, ...], common: str) -> None:
    assert {common_name(name) for name in names} == {common}


def test_every_name_of_the_table_stands_in_it_once_and_as_names_are_compared() -> None:
    words = equal_names()
    assert len(words) == sum(map(len, _table()["equal"].values()))
    assert not words.keys() & set(words.values())
    assert all(re.fullmatch("[a-z0-9]+", word) for pair in words.items() for word in pair)
    assert all(common_name(f"torch.{word}") == common for word, common in words.items())


def test_within_one_framework_names_are_compared_as_they_are(steps_of: StepsOf) -> None:
    both = [steps_of(calls(("torch.nn.Linear", time), ("torch.nn.functional.linear", time))) for time in (100, 150)]
    found = up.diff(*both, by="api")
    assert {row.name: row.mean_ratio for row in found.rows} == {
        "torch.nn.Linear": 1.5,
        "torch.nn.functional.linear": 1.5,
    }


# --- numbers --------------------------------------------------------------------------------------------------------


def test_a_row_has_calls_mean_and_ratio_of_both_sides(found: up.Diff) -> None:
    rows = {row.name: row for row in found.rows}
    relu, linear = rows["relu"], rows["linear"]
    assert relu.baseline is not None
    assert relu.candidate is not None
    assert (relu.baseline.call_count, relu.baseline.mean_ns, relu.baseline.total_ns) == (2.0, 200.0, 2000)
    assert (relu.candidate.call_count, relu.candidate.mean_ns, relu.candidate.total_ns) == (1.0, 800.0, 4000)
    assert (relu.mean_ratio, relu.ratio) == (4.0, 2.0)
    assert linear.mean_ratio == 0.5
    assert [(part.name, part.mean_ratio) for part in linear.rows] == [
        ("torch.nn.Linear", None),
        ("mindspore.nn.Dense", None),
    ]


def test_what_has_no_counterpart_has_no_ratio(found: up.Diff) -> None:
    (row,) = [row for row in found.rows if row.candidate is None]
    assert row.name == "erfinv"
    assert row.baseline is not None
    assert (row.baseline.mean_ns, row.mean_ratio) == (10.0, None)
    assert found.baseline.unmatched_share == pytest.approx(10 / 910)


def test_a_call_inside_one_of_the_same_row_is_no_call_of_its_own(steps_of: StepsOf) -> None:
    builder = TraceBuilder(frameworks={"torch": "1"}, first_step=0, last_step=0).step(0, 0, 10_000)
    for start in (0, 2000):
        builder.op("torch.nn.ReLU", start, 1000, framework="torch", **CALL)
        builder.op("torch.nn.functional.relu", start + 100, 600, framework="torch", **CALL)
    other = steps_of(calls(("mindspore.nn.ReLU", 500)), framework="mindspore")
    (row,) = up.diff(builder.build(), other, by="api").rows
    assert row.baseline is not None
    assert (row.baseline.call_count, row.baseline.mean_ns, row.baseline.total_ns) == (2.0, 1000.0, 2000)
    assert row.mean_ratio == 0.5
    means = {part.name: part.baseline.mean_ns for part in row.rows if part.baseline is not None}
    assert means == {"torch.nn.ReLU": 1000.0, "torch.nn.functional.relu": 600.0}


def test_only_calls_of_the_api_have_means(steps_of: StepsOf) -> None:
    trace = steps_of([("aten::mm", 100), *calls(("torch.mm", 200))])
    by_name = up.diff(trace, trace)
    assert all(row.mean_ratio is None and row.baseline and row.baseline.mean_ns is None for row in by_name.rows)
    assert by_name.total.mean_ratio is up.diff(trace, trace, by="api").total.mean_ratio is None
    assert "Mean" not in as_text(by_name)
    assert 'data-column="baseline_mean_ns"' not in page(by_name)


# --- forms ----------------------------------------------------------------------------------------------------------


def test_the_text_and_markdown_have_means_and_their_ratio(found: up.Diff) -> None:
    line = next(line for line in as_text(found).splitlines() if line.startswith("relu"))
    assert re.search(r"relu\s+\*\s+0\.200 us\s+0\.800 us\s+4\.00\u00d7\s+0\.400 us\s+0\.800 us", line)
    heading, row = (line for line in markdown(found).splitlines() if line.startswith(("| Name", "| relu")))
    assert "| Mean A | Mean B | Mean B / A |" in heading
    assert "| 0.200 us | 0.800 us | 4.00\u00d7 |" in row
    assert "平均 B / A" in as_text(found, language="zh")


def test_json_has_the_ratio(found: up.Diff) -> None:
    rows = {row["name"]: row for row in json.loads(found.model_dump_json())["rows"]}
    assert (rows["relu"]["mean_ratio"], rows["relu"]["baseline"]["mean_ns"]) == (4.0, 200.0)
    assert rows["erfinv"]["candidate"] is None


def test_the_page_has_a_cell_for_each_column(found: up.Diff) -> None:
    text = page(found)
    headings = re.findall(r'data-column="(\w+)"', text)
    assert {"baseline_mean_ns", "candidate_mean_ns", "mean_ratio"} <= set(headings)
    table = text.partition('<table id="tree"')[2].partition("</table>")[0]
    widths = Counter(len(re.findall(r"<t[dh]\b", row)) for row in table.split("<tr")[1:])
    assert set(widths) == {len(headings)}
    row = next(row for row in table.split("<tr") if ">relu</bdi>" in row)
    at = headings.index("mean_ratio") - 1
    assert re.findall(r'<td[^>]*data-value="([^"]*)"', row)[at - 2 : at + 1] == ["200.0", "800.0", "4.0"]
