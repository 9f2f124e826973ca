from __future__ import annotations

import torch
from torch import nn

import unified_profiler as up


def test_allocations_and_questions_about_tensors_are_bookkeeping_wherever_they_are_made() -> None:
    model = nn.Linear(4, 4)
    optimizer = torch.optim.Adam(model.parameters())
    with up.Profiler(backend="torch", hardware_hz=0) as prof:
        model(torch.rand(2, 4)).sum().backward()
        with torch.profiler.record_function("Optimizer.step#Adam.step"):
            torch.result_type(model.weight, 1.0)
        optimizer.step()
        torch.empty(3)
        prof.step()
    table = up.op_table(prof.traces[0], by=("name", "category"))
    categories = {(row.name, row.category) for row in table.rows}
    for name in ("aten::result_type", "aten::empty", "aten::empty_like"):
        assert {category for each, category in categories if each == name} == {"bookkeeping"}
    assert ("aten::addmm", "matmul") in categories
    assert ("Optimizer.step#Adam.step", "optimizer") in categories
