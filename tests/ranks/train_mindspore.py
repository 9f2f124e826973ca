"""A small data-parallel training on CPUs, profiled once for each scenario: `work` or `data`.

    msrun --worker_num=2 --local_worker_num=2 --join=True train_mindspore.py OUTPUT SCENARIO...

From the middle on rank 1 has more work, or its batches take longer: many times as long as a step takes otherwise, so
that other programs on the machine do not hide it. Each scenario leaves a run in OUTPUT/SCENARIO.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import nn, ops
from mindspore.communication import get_group_size, get_rank, init

import unified_profiler as up

STEPS, SLOW_FROM, SLOW_RANK = 40, 20, 1
BATCH, FEATURES, CLASSES = 64, 64, 10


def batches(*, slow: bool) -> Iterator[tuple[Any, Any]]:
    for step in range(STEPS):
        if slow and step >= SLOW_FROM:
            time.sleep(0.4)
        yield np.full((BATCH, FEATURES), step % 7, np.float32), np.arange(BATCH, dtype=np.int32) % CLASSES


class Training:
    """A model of one layer, whose gradients the ranks reduce in each step."""

    def __init__(self) -> None:
        model = nn.Dense(FEATURES, CLASSES)
        loss = nn.CrossEntropyLoss()
        self._optimiser = nn.SGD(model.trainable_params(), 0.01)
        self._gradients = ms.value_and_grad(lambda x, y: loss(model(x), y), None, self._optimiser.parameters)
        self._sum = ops.AllReduce()
        self._matrix = ms.Tensor(np.ones((512, 512), np.float32))

    def step(self, inputs: Any, labels: Any) -> None:
        loss, gradients = self._gradients(inputs, labels)
        self._optimiser(tuple(self._sum(gradient) / get_group_size() for gradient in gradients))
        loss.asnumpy()

    def more_work(self) -> None:
        for _ in range(64):
            product = ops.matmul(self._matrix, self._matrix)
        product.asnumpy()


def train(training: Training, output_dir: Path, scenario: str) -> None:
    slow = get_rank() == SLOW_RANK
    source = batches(slow=slow and scenario == "data")
    with up.Profiler(output_dir=output_dir) as profiler:
        for step in range(STEPS):
            with profiler.region("load_data"):
                inputs, labels = (ms.Tensor(each) for each in next(source))
            if slow and scenario == "work" and step >= SLOW_FROM:
                training.more_work()
            training.step(inputs, labels)
            profiler.step()


def main() -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE, device_target="CPU")
    ms.runtime.launch_blocking()  # threads that hand operators over spin while another program has the core of one
    init()
    output_dir, *scenarios = sys.argv[1:]
    training = Training()
    for scenario in scenarios:
        train(training, Path(output_dir, scenario), scenario)


if __name__ == "__main__":
    main()
