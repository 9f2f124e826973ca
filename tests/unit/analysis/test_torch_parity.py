"""The operator table against torch's own `key_averages()` of the same real captures."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from unified_profiler.analysis import op_table
from unified_profiler.model.assembly import assemble
from unified_profiler.model.records import TraceInfo
from unified_profiler.model.trace import Trace
from unified_profiler.spi import NativeCapture
from unified_profiler_torch.read.normalizer import KinetoNormalizer

torch = pytest.importorskip("torch")


class Capture(NamedTuple):
    trace: Trace
    averages: Any
    by_shape: Any
    with_stack: bool


def _train(steps: int) -> None:
    """Convolution, batch norm, attention, a linear layer, a function of Python, backward and Adam."""
    nn = torch.nn
    body = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(2))
    attention, head = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 4)
    optimizer = torch.optim.Adam([*body.parameters(), *attention.parameters(), *head.parameters()])
    for _ in range(steps):
        tokens = body(torch.randn(2, 3, 10, 10)).transpose(1, 2)
        mixed, _ = attention(tokens, tokens, tokens, need_weights=False)
        loss = _doubling().apply(head(mixed)).logsumexp(-1).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def _doubling() -> Any:
    class Doubling(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            with torch.profiler.record_function("inside"):
                return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient * 2

    return Doubling


def _capture(path: Path, *, with_stack: bool) -> Capture:
    profiler = torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_stack=with_stack
    )
    with profiler:
        _train(steps=3)
    averages = profiler.key_averages()
    by_shape = profiler.key_averages(group_by_input_shape=True)
    profiler.profiler.kineto_results.save(str(path))
    return Capture(_read(path), averages, by_shape, with_stack)


def _read(path: Path) -> Trace:
    events = assemble([KinetoNormalizer().normalize(NativeCapture(backend="torch", files=(path,)))])
    return Trace(events, TraceInfo(event_count=len(events)))


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "with_stack"])
def capture(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Capture:
    return _capture(tmp_path_factory.mktemp("kineto") / "trace.json", with_stack=request.param)


def _operators(capture: Capture) -> dict[str, Any]:
    """Rows of torch's table that stand for operators: no frames of Python, no annotations of the user.

    torch's own annotations are compared without stacks only: frames of Python straddle their borders, and torch drops
    the one or the other from its tree where they do.
    """
    marks = ("::", "Backward") if capture.with_stack else ("::", "Backward", "Optimizer.")
    return {average.key: average for average in capture.averages if any(mark in average.key for mark in marks)}


def test_every_operator_has_a_row(capture: Capture) -> None:
    expected = _operators(capture)
    assert len(expected) > 50
    assert expected.keys() <= {row.name for row in op_table(capture.trace)}


def test_calls_are_equal(capture: Capture) -> None:
    expected = {name: average.count for name, average in _operators(capture).items()}
    found = {row.name: row.call_count for row in op_table(capture.trace) if row.name in expected}
    assert found == expected


@pytest.mark.parametrize(("ours", "torchs"), [("cpu_ns", "cpu_time_total"), ("self_cpu_ns", "self_cpu_time_total")])
def test_times_are_equal(capture: Capture, ours: str, torchs: str) -> None:
    expected = _operators(capture)
    for row in op_table(capture.trace):
        if row.name in expected:
            average = expected[row.name]
            slack = 2 * average.count  # a nanosecond of rounding at each edge
            assert getattr(row, ours) == pytest.approx(getattr(average, torchs) * 1000, abs=slack), row.name


@pytest.mark.parametrize(
    ("ours", "torchs"), [("cpu_bytes", "cpu_memory_usage"), ("self_cpu_bytes", "self_cpu_memory_usage")]
)
def test_memory_is_equal(capture: Capture, ours: str, torchs: str) -> None:
    expected = {name: getattr(average, torchs) for name, average in _operators(capture).items()}
    found = {row.name: getattr(row, ours) for row in op_table(capture.trace) if row.name in expected}
    assert found == expected


def test_calls_by_shape_are_equal(capture: Capture) -> None:
    names = _operators(capture).keys()
    expected = sorted((average.key, average.count) for average in capture.by_shape if average.key in names)
    found = sorted((row.name, row.call_count) for row in op_table(capture.trace, by="shapes") if row.name in names)
    assert found == expected


GOLDEN = Path(__file__).parents[2] / "golden" / "kineto"


def _linked_by_kineto(path: Path) -> dict[str, int]:
    """Sum device time per operator by the external ids that Kineto gives to operators and to what they launched."""
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    names = {e["args"]["External id"]: e["name"] for e in events if e.get("cat") == "cpu_op"}
    totals: Counter[str] = Counter()
    for event in events:
        if event.get("cat") in {"kernel", "gpu_memcpy", "gpu_memset"}:
            totals[names[event["args"]["External id"]]] += round(event["dur"] * 1000)
    return dict(totals)


@pytest.mark.parametrize("name", ["mi250_train", "nccl_rank"])
def test_device_time_is_linked_as_kineto_links_it(name: str) -> None:
    path = GOLDEN / f"{name}.json.gz"
    # torch's annotation nccl:... within record_param_comms is a collective here, and nearer to the launch
    expected = {op: time for op, time in _linked_by_kineto(path).items() if op != "record_param_comms"}
    rows = op_table(_read(path))
    found = {row.name: row.self_device_ns for row in rows if row.self_device_ns and row.cpu_ns}
    assert {op: time for op, time in found.items() if not op.startswith("nccl:")} == expected
