"""FLOPs and input shapes of PyNative mode, against what the layers are known to do and against graph mode."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import mint, nn, ops

from unified_profiler.errors import TraceFormatError
from unified_profiler.spi import RecordOptions
from unified_profiler_mindspore.read.host.eager_calls import calls_of_launches
from unified_profiler_mindspore.read.normalizer import MindSporeNormalizer
from unified_profiler_mindspore.read.note import NAME, OperatorCall
from unified_profiler_mindspore.record import dispatch_observer, native
from unified_profiler_mindspore.record.recorder import MindSporeRecorder

Events = Callable[..., Any]
Work = Callable[[], Any]

PRODUCTS = ("MatMul", "BatchMatMul", "BatchMatMulExt")


@pytest.fixture(autouse=True)
def _no_dispatch_mode_is_left() -> Iterator[None]:
    yield
    assert native.dispatch_depth() == 0


def ones(*shape: int) -> ms.Tensor:
    return ms.Tensor(np.ones(shape, np.float32))


def products(events: Any) -> dict[str, list[Any]]:
    """Return the FLOPs of products of matrices by direction, in the order of launches."""
    found: dict[str, list[Any]] = {}
    for row in events.to_pylist():
        if row["name"] in PRODUCTS:
            found.setdefault(row["direction"], []).append(row["flops"])
    return found


def gradient(function: Callable[..., ms.Tensor], *inputs: ms.Tensor) -> Work:
    """Return what computes the gradients of all inputs, ready to be recorded."""
    compute = ms.grad(lambda *values: function(*values).sum(), tuple(range(len(inputs))))
    compute(*inputs)
    return lambda: compute(*inputs)


def step_of(net: nn.Cell, inputs: ms.Tensor) -> Work:
    """Return a step of training, in the mode in which it is called."""
    optimizer = nn.Adam(net.trainable_params(), 0.01)

    def forward(values: ms.Tensor) -> ms.Tensor:
        return net(values).sum()

    gradients = ms.value_and_grad(forward, None, optimizer.parameters)

    def step() -> ms.Tensor:
        loss, computed = gradients(inputs)
        optimizer(computed)
        return loss

    step()
    return step


class Looped(nn.Cell):  # type: ignore[misc]
    """A frozen layer, one that is called in a loop, and a weight that is used again, transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen, self.looped, self.head = nn.Dense(6, 4), nn.Dense(4, 4), nn.Dense(4, 3)
        for parameter in self.frozen.trainable_params():
            parameter.requires_grad = False

    def construct(self, values: ms.Tensor) -> ms.Tensor:
        values = self.frozen(values)
        for _ in range(3):
            values = ops.relu(self.looped(values))
        return ops.matmul(self.head(values), self.head.weight)


FROZEN, LOOPED, HEAD = 2 * 5 * 6 * 4, 2 * 5 * 4 * 4, 2 * 5 * 4 * 3


# --- what is counted --------------------------------------------------------------------------------------------------


def dense_layers() -> nn.Cell:
    return nn.SequentialCell(nn.Dense(6, 8), nn.ReLU(), nn.Dense(8, 9), nn.ReLU(), nn.Dense(9, 3))


def convolutions() -> nn.Cell:
    first, second = nn.Conv2d(1, 4, 3, stride=2, pad_mode="pad", padding=1), nn.Conv2d(4, 4, 3, group=4)
    return nn.SequentialCell(first, nn.ReLU(), second, nn.Flatten(), nn.Dense(64, 3))


def test_a_training_of_dense_layers_is_counted_as_by_hand(events: Events) -> None:
    layers = [2 * 5 * 6 * 8, 2 * 5 * 8 * 9, 2 * 5 * 9 * 3]
    found = products(events(step_of(dense_layers(), ones(5, 6)), with_flops=True))
    assert found["forward"] == layers
    assert sorted(found["backward"]) == sorted([*layers, *layers[1:]])  # the inputs need no gradient


@pytest.mark.parametrize(("make", "shape"), [(dense_layers, (5, 6)), (Looped, (5, 6)), (convolutions, (3, 1, 8, 8))])
def test_a_training_is_counted_as_in_a_graph(make: Any, shape: tuple[int, ...], record: Any) -> None:
    eager = step_of(make(), ones(*shape))
    graph = ms.jit(step_of(make(), ones(*shape)))
    graph()
    counts = []
    for name, step in {"eager": eager, "graph": graph}.items():
        rows = MindSporeNormalizer().normalize(record(step, folder=name, with_flops=True)).to_pylist()
        counted = [row for row in rows if "MatMul" in row["name"] or "Conv2D" in row["name"]]
        counts.append(sorted((row["direction"], row["name"], row["flops"]) for row in counted))
    assert counts[0] == counts[1]


def test_only_gradients_that_are_computed_are_counted(events: Events) -> None:
    found = products(events(step_of(Looped(), ones(5, 6)), with_flops=True))
    assert found["forward"] == [FROZEN, LOOPED, LOOPED, LOOPED, HEAD, HEAD]
    assert sorted(found["backward"]) == sorted([HEAD] * 4 + [LOOPED] * 5)


def linear(values: ms.Tensor) -> ms.Tensor:
    return mint.nn.Linear(3, 5)(values)


@pytest.mark.parametrize(
    ("function", "shapes", "count"),
    [
        (lambda left, right: left @ right, [(2, 3), (3, 5)], 60),
        (ops.matmul, [(2, 3), (3, 5)], 60),
        (mint.matmul, [(2, 3), (3, 5)], 60),
        (ops.MatMul(transpose_a=True, transpose_b=True), [(3, 2), (5, 3)], 60),
        (ops.MatMul(transpose_b=True), [(2, 3), (2, 3)], 2 * 2 * 3 * 2),  # the shapes alone do not tell
        (ops.bmm, [(7, 2, 3), (7, 3, 5)], 7 * 60),
        (mint.bmm, [(7, 2, 3), (7, 3, 5)], 7 * 60),
        (ops.BatchMatMul(transpose_a=True), [(7, 3, 2), (7, 3, 5)], 7 * 60),
        (ops.matmul, [(7, 2, 3), (3, 5)], 7 * 60),
        (ops.matmul, [(4, 7, 2, 3), (7, 3, 5)], 4 * 7 * 60),
        (ops.matmul, [(3,), (3, 5)], 30),
        (ops.matmul, [(3,), (3,)], 6),
        (linear, [(2, 3)], 60),
        (linear, [(7, 2, 3)], 7 * 60),
        (ops.MatMul(), [(2, 0), (0, 5)], 0),
    ],
)
def test_products_and_their_gradients(function: Any, shapes: list[tuple[int, ...]], count: int, events: Events) -> None:
    work = gradient(function, *(ones(*shape) for shape in shapes))
    found = products(events(work, with_flops=True))
    assert found == {"forward": [count], "backward": [count] * len(shapes)}


def test_sums_and_elementwise_products(events: Events) -> None:
    left, right, dense = ones(2, 5), ones(5), mint.nn.Linear(3, 5)
    rows = events(lambda: dense(ones(2, 3)) + left * right * 2, with_flops=True).to_pylist()
    counts = [(row["name"], row["flops"]) for row in rows]
    assert counts == [("MatMul", 60), ("Add", 10), ("Mul", 10), ("Mul", 10), ("AddExt", 10)]


def test_a_convolution_needs_no_gradient(events: Events) -> None:
    net = nn.SequentialCell(nn.Conv2d(2, 4, 3, stride=2, pad_mode="pad", padding=1), nn.Conv2d(4, 4, 3, group=4))
    net(ones(3, 2, 8, 8))
    rows = events(lambda: net(ones(3, 2, 8, 8)), with_flops=True).to_pylist()
    expected = [2 * 3 * 4 * 4 * 4 * (2 * 9), 2 * 3 * 4 * 4 * 4 * 9]
    assert [row["flops"] for row in rows if row["name"] == "Conv2D"] == expected


# --- shapes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "shapes", "expected"),
    [
        (ops.MatMul(transpose_b=True), [(2, 3), (5, 3)], [[2, 3], [5, 3], None, None]),
        (ops.matmul, [(2, 3), (3, 5)], [[2, 3], [3, 5]]),
        (mint.bmm, [(7, 2, 3), (7, 3, 5)], [[7, 2, 3], [7, 3, 5]]),
        (ops.add, [(2, 3), (3,)], [[2, 3], [3]]),
        (ops.matmul, [(7, 2, 3), (3, 5)], None),  # MindSpore reshapes it to a product of two matrices
    ],
)
def test_shapes_are_those_of_the_operator(function: Any, shapes: Any, expected: Any, events: Events) -> None:
    inputs = [ones(*shape) for shape in shapes]
    (row,) = events(lambda: function(*inputs), record_shapes=True).to_pylist()
    assert json.loads(row["input_shapes"] or "null") == expected
    assert row["flops"] is None


def test_what_was_not_asked_for_is_not_observed(events: Events, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "dispatch_mode", lambda _: pytest.fail("a dispatch mode was made"))
    (row,) = events(lambda: ones(2, 3) @ ones(3, 5)).to_pylist()
    assert (row["input_shapes"], row["flops"]) == (None, None)


# --- what is not certain ----------------------------------------------------------------------------------------------


def test_an_operator_that_cannot_be_noted_is_reported_and_stops_nothing(
    events: Events, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_value: Any) -> None:
        msg = "a tensor without a shape"
        raise RuntimeError(msg)

    monkeypatch.setattr(dispatch_observer, "_shape", fail)
    results: list[ms.Tensor] = []
    table = events(lambda: results.extend(ops.matmul(ones(2, 3), ones(3, 4)) for _ in range(2)), with_flops=True)
    assert products(table) == {"forward": [None, None]}
    assert [result.asnumpy().tolist() for result in results] == [[[3.0] * 4] * 2] * 2
    (record,) = caplog.records
    assert (record.levelname, "a tensor without a shape" in record.message) == ("WARNING", True)


def test_products_of_another_thread_leave_all_unknown(events: Events) -> None:
    def work() -> None:
        thread = Thread(target=lambda: ones(4, 4) @ ones(4, 4))
        thread.start()
        thread.join()
        _ = ones(2, 3) @ ones(3, 5) + ones(2, 5)

    rows = events(work, with_flops=True).to_pylist()
    assert sorted((row["name"], row["flops"]) for row in rows) == [("AddExt", 10), ("MatMul", None), ("MatMul", None)]


MATMUL = OperatorCall("MatMul", ((2, 3), (3, 5), None, None), (2, 5))
PRODUCT = OperatorCall("MatMulExt", ((2, 3), (3, 5)), (2, 5))
CONV = OperatorCall("Conv2D", ((1, 2, 4, 4), (3, 2, 1, 1)), (1, 3, 4, 4))


@pytest.mark.parametrize(
    ("kernels", "calls", "expected"),
    [
        (["MatMul", "ReLU", "BatchMatMul"], [MATMUL, PRODUCT], [MATMUL, None, PRODUCT]),
        (["MatMul", "MatMul"], [MATMUL], [None, None]),
        (["MatMul"], [MATMUL, MATMUL], [None]),
        (["BatchMatMul"], [MATMUL], [None]),
        (["MatMul", "Add"], [MATMUL], [MATMUL, None]),
    ],
)
def test_kernels_are_matched_if_all_of_a_family_are(kernels: Any, calls: Any, expected: Any) -> None:
    assert calls_of_launches(kernels, [None] * len(kernels), calls) == expected


def test_kernels_with_recorded_shapes_are_counted_by_these() -> None:
    own, other = "[[1,2,4,4],[3,2,1,1]]", "[[1,3,4,4],[3,2,1,1]]"
    assert calls_of_launches(["Conv2D", "Conv2D"], [other, own], [CONV]) == [None, CONV]
    assert calls_of_launches(["Conv2D", "Conv2D"], [own, own], [CONV]) == [None, None]
    assert calls_of_launches(["MatMul"], ["[[2,3],[3,5]]"], [MATMUL]) == [None]  # one of a graph


def test_a_note_with_an_operator_that_it_does_not_list_is_damaged(record: Any) -> None:
    capture = record(lambda: ones(2, 3) @ ones(3, 5), with_flops=True)
    path = next(file for file in capture.files if file.name == NAME)
    path.write_text(path.read_text().replace('"order":[0]', '"order":[1]'))
    with pytest.raises(TraceFormatError, match="positions"):
        MindSporeNormalizer().normalize(capture)


# --- the program ------------------------------------------------------------------------------------------------------


def weights_after(*, steps: int, **options: Any) -> Callable[[Path], list[bytes]]:
    def train(folder: Path) -> list[bytes]:
        ms.set_seed(0)
        net = nn.SequentialCell(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Dense(32, 8), mint.nn.Linear(8, 4))
        for parameter in net.trainable_params():
            parameter.set_data(ms.Tensor(np.random.default_rng(1).random(parameter.shape, np.float32)))
        step = step_of(net, ms.Tensor(np.random.default_rng(0).random((4, 1, 4, 4), np.float32)))
        folder.mkdir()
        recorder = MindSporeRecorder(RecordOptions(**options), folder)
        recorder.arm()
        recorder.start()
        losses = [step().asnumpy().tobytes() for _ in range(steps)]
        recorder.stop()
        return losses + [parameter.asnumpy().tobytes() for parameter in net.trainable_params()]

    return train


def test_a_training_has_the_same_results(tmp_path: Path) -> None:
    observed = weights_after(steps=5, with_flops=True, record_shapes=True)(tmp_path / "observed")
    assert observed == weights_after(steps=5)(tmp_path / "plain")


def test_the_same_kernels_run(record: Any, training: Any) -> None:
    captures = [record(training.step, folder=str(flops), with_flops=flops) for flops in (False, True)]
    plain, observed = [[row["name"] for row in MindSporeNormalizer().normalize(one).to_pylist()] for one in captures]
    assert plain == observed


class Passing(ms.MsDispatchMode):  # type: ignore[misc]
    """A mode of the program that counts its operators."""

    def __init__(self) -> None:
        self.count = 0

    def __ms_dispatch__(self, func: Any, args: Any, _: Any = None) -> Any:
        self.count += 1
        return func(*args)


def test_a_mode_that_the_program_is_in_already_is_left_to_it(tmp_path: Path) -> None:
    recorder, own = MindSporeRecorder(RecordOptions(with_flops=True), tmp_path), Passing()
    recorder.arm()
    with own:
        recorder.start()
        _ = ones(2, 3) @ ones(3, 5)
    _ = ones(2, 3) @ ones(3, 5)
    rows = MindSporeNormalizer().normalize(recorder.stop()).to_pylist()
    assert own.count == 1
    assert [row["flops"] for row in rows] == [None, None]


def test_recordings_within_a_mode_of_the_program_leave_it_alone(tmp_path: Path) -> None:
    recorder, own = MindSporeRecorder(RecordOptions(with_flops=True), tmp_path), Passing()
    with own:
        recorder.arm()
        recorder.start()
        recorder.stop()
        _ = ones(2, 3) @ ones(3, 5)
    assert own.count == 1


def test_a_mode_that_the_program_enters_is_observed_through_and_kept(tmp_path: Path) -> None:
    recorder, own = MindSporeRecorder(RecordOptions(with_flops=True), tmp_path), Passing()
    recorder.arm()
    recorder.start()
    with own:
        _ = ones(2, 3) @ ones(3, 5)
        rows = MindSporeNormalizer().normalize(recorder.stop()).to_pylist()
        _ = ones(2, 3) @ ones(3, 5)
    assert own.count == 2
    assert native.dispatch_depth() == 1  # ours is beneath
    _ = ones(2, 3) @ ones(3, 5)
    assert [row["flops"] for row in rows] == [60]


def test_recordings_end_in_another_thread_too(tmp_path: Path) -> None:
    recorder = MindSporeRecorder(RecordOptions(with_flops=True), tmp_path)
    recorder.arm()
    recorder.start()
    thread = Thread(target=recorder.stop)
    thread.start()
    thread.join()
    _ = ones(2, 3) @ ones(3, 5)


def test_a_failed_kernel_leaves_no_mode(tmp_path: Path) -> None:
    index = ms.Tensor(np.full((2, 3), 77, np.int64))
    for number in range(3):
        recorder = MindSporeRecorder(RecordOptions(with_flops=True), tmp_path / str(number))
        recorder.arm()
        recorder.start()
        ops.gather_elements(ones(2, 3), 1, index)
        with pytest.raises(Exception, match="GatherD"):
            recorder.stop()
        assert native.dispatch_depth() == 0


PROGRAM = """
import sys, threading
from pathlib import Path
import mindspore, numpy
from unified_profiler.spi import RecordOptions
from unified_profiler_mindspore.record.recorder import MindSporeRecorder

def work():
    recorder = MindSporeRecorder(RecordOptions(with_flops=True), Path(sys.argv[1]))
    recorder.arm()
    recorder.start()
    mindspore.ops.relu(mindspore.Tensor(numpy.ones((2, 3), numpy.float32)))

if sys.argv[2] == "thread":
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
else:
    work()
sys.exit(7)
"""


@pytest.mark.parametrize("where", ["main", "thread"])
def test_a_program_that_ends_while_recording_ends_as_it_would(where: str, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path, where], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 7, ended.stderr
