from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from torch import nn

from unified_profiler.model.assembly import assemble
from unified_profiler.spi import NativeCapture, RecordOptions
from unified_profiler_torch.read.normalizer import KinetoNormalizer
from unified_profiler_torch.record.recorder import TorchRecorder

Record = Callable[..., NativeCapture]


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """Records a function with the given options."""

    def run(work: Callable[[], Any], **options: Any) -> NativeCapture:
        recorder = TorchRecorder(RecordOptions(**options), tmp_path)
        recorder.arm()
        recorder.start()
        work()
        return recorder.stop()

    return run


@pytest.fixture
def events(record: Record) -> Callable[..., pa.Table]:
    """Records a function and returns its events, assembled."""

    def run(work: Callable[[], Any], **options: Any) -> pa.Table:
        return assemble([KinetoNormalizer().normalize(record(work, **options))])

    return run


class Net(nn.Module):  # type: ignore[misc]  # torch is not typed for mypy here
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.pool = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.AdaptiveAvgPool2d(4)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.layer_norm, self.dropout, self.head = nn.LayerNorm(16), nn.Dropout(0.1), nn.Linear(128, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        tokens = self.pool(torch.relu(self.norm(self.conv(images)))).flatten(2)
        mixed, _ = self.attention(self.layer_norm(tokens), tokens, tokens)
        return self.head(self.dropout(mixed).flatten(1))


@pytest.fixture(scope="session")
def train() -> Callable[[], None]:
    """Trains a small model for three steps: convolution, norms, attention, backward, Adam."""
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())

    def steps() -> None:
        for _ in range(3):
            with torch.profiler.record_function("my forward"):
                loss = nn.functional.cross_entropy(model(torch.randn(4, 3, 16, 16)), torch.randint(0, 10, (4,)))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    steps()
    return steps
