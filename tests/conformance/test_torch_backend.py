from __future__ import annotations

import torch

from unified_profiler.testing import BackendConformance
from unified_profiler_torch import backend as torch_backend


class TestTorchBackend(BackendConformance):
    module = "unified_profiler_torch"
    backend = torch_backend

    def work(self) -> float:
        torch.manual_seed(0)
        layer = torch.nn.Linear(8, 4)
        loss = layer(torch.ones(2, 8)).relu().sum()
        loss.backward()
        return float(loss.detach())
