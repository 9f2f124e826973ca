from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

with warnings.catch_warnings():  # MindSpore calls Thread.getName() while it is imported
    warnings.filterwarnings("ignore", "getName", DeprecationWarning)
    import mindspore as ms
    from mindspore import nn, ops

with suppress(SystemError):  # with NumPy 2, the first operator of a process fails in MindSpore 2.10
    ms.Tensor([1.0]) * ms.Tensor([1.0])

from unified_profiler.model.assembly import assemble
from unified_profiler.spi import NativeCapture, RecordOptions
from unified_profiler_mindspore.read.normalizer import MindSporeNormalizer
from unified_profiler_mindspore.record import native
from unified_profiler_mindspore.record.recorder import MindSporeRecorder

Record = Callable[..., NativeCapture]
Train = Callable[[], ms.Tensor]


@pytest.fixture(autouse=True)
def _native_profiler_is_free() -> Iterator[None]:
    """A test that leaves the native profiler taken would let all later ones fail."""
    yield
    assert not native.is_profiler_active()
    assert not native.in_use.locked()


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """Records a function with the given options."""

    def run(work: Callable[[], Any], *, folder: str = "work", **options: Any) -> NativeCapture:
        (tmp_path / folder).mkdir()
        recorder = MindSporeRecorder(RecordOptions(**options), tmp_path / folder)
        recorder.arm()
        recorder.start()
        work()
        return recorder.stop()

    return run


@pytest.fixture
def events(record: Record) -> Callable[..., pa.Table]:
    """Records a function and returns its events, assembled."""

    def run(work: Callable[[], Any], **options: Any) -> pa.Table:
        return assemble([MindSporeNormalizer().normalize(record(work, **options))])

    return run


class Net(nn.Cell):  # type: ignore[misc]  # MindSpore is not typed for mypy here
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.relu, self.flatten = nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten()
        self.head = nn.Dense(32, 4)

    def construct(self, images: ms.Tensor) -> ms.Tensor:
        return self.head(self.flatten(self.relu(self.conv(images))))


class Training:
    """A small training: the same weights, data and optimizer each time it is made."""

    def __init__(self) -> None:
        ms.set_seed(0)
        generator = np.random.default_rng(0)
        self.images = ms.Tensor(generator.random((4, 1, 4, 4), np.float32))
        self.labels = ms.Tensor(np.array([0, 1, 2, 3], np.int32))
        self.net = Net()
        self.loss = nn.CrossEntropyLoss()
        self.optimizer = nn.Adam(self.net.trainable_params(), 0.01)
        self.gradients = ms.value_and_grad(self._forward, None, self.optimizer.parameters)

    def _forward(self, images: ms.Tensor, labels: ms.Tensor) -> ms.Tensor:
        return self.loss(self.net(images), labels)

    def step(self) -> ms.Tensor:
        """Train one step in PyNative mode."""
        loss, gradients = self.gradients(self.images, self.labels)
        self.optimizer(gradients)
        return loss

    def compiled(self) -> Train:
        """Return the same step as one graph."""
        net, loss_of, optimizer = self.net, self.loss, self.optimizer

        def forward(images: ms.Tensor, labels: ms.Tensor) -> ms.Tensor:
            return loss_of(net(images), labels)

        gradients_of = ms.value_and_grad(forward, None, optimizer.parameters)

        @ms.jit  # type: ignore[untyped-decorator]
        def step(images: ms.Tensor, labels: ms.Tensor) -> ms.Tensor:
            loss, gradients = gradients_of(images, labels)
            optimizer(gradients)
            return loss

        return lambda: step(self.images, self.labels)


@pytest.fixture(scope="session")
def training() -> Training:
    made = Training()
    made.step()
    native.wait_for_kernels()
    return made


@pytest.fixture(scope="session")
def graph_step(training: Training) -> Train:
    step = training.compiled()
    step()
    return step


@pytest.fixture(params=["pynative", "graph"])
def step(request: pytest.FixtureRequest, training: Training, graph_step: Train) -> Train:
    """One step of training, in each mode."""
    return training.step if request.param == "pynative" else graph_step


@pytest.fixture
def multiply() -> Callable[[], ms.Tensor]:
    """Queues a kernel that takes some milliseconds."""
    large = ms.Tensor(np.ones((500, 500), np.float32))
    return lambda: ops.matmul(large, large)


@pytest.fixture
def add() -> Callable[[], ms.Tensor]:
    small = ms.Tensor(np.ones(4, np.float32))
    return lambda: ops.add(small, small)
