"""The Profiler in the code of a training: a schedule, regions, one trace per cycle, and what can be asked of them.

Run it with:  python examples/quickstart_torch.py [output directory]
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

import unified_profiler as up

STEPS = 10
SLOWEST_LAYERS = """
    select origin, direction, count(*) as calls, sum(self_ns) as self_ns
    from events where kind = 'op' and origin is not null
    group by origin, direction order by self_ns desc limit 5
"""


def train(profiler: up.Profiler) -> None:
    """Train under the profiler: regions name the parts of a step, `step()` ends it."""
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 30 * 30, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(STEPS):
        with profiler.region("data"):
            pictures, labels = torch.randn(16, 3, 32, 32), torch.randint(10, (16,))
        with profiler.region("forward"):
            loss = functional.cross_entropy(model(pictures), labels)
        with profiler.region("backward"):
            loss.backward()
        with profiler.region("update"):
            optimizer.step()
            optimizer.zero_grad()
        profiler.step()


def main() -> None:
    """Profile, then look at the last cycle."""
    output = Path(sys.argv[1] if len(sys.argv) > 1 else "profile")
    plan = up.schedule(wait=1, warmup=1, active=3, repeat=2)
    with up.Profiler(schedule=plan, output_dir=output, record_shapes=True) as profiler:
        train(profiler)

    trace = profiler.traces[-1]
    print(trace)
    print("\nThe operators that took longest by themselves:")
    print(up.op_table(trace, sort_by="self_cpu_time_total", row_limit=8))
    print("\nWhere the time of each step went:")
    print(up.step_breakdown(trace))
    print("\nThe layers that took longest, forward and backward, asked in SQL:")
    print(up.query(trace, SLOWEST_LAYERS))
    picture = up.write(trace, output / "trace.json.gz")
    print(f"\nFor the Perfetto UI or chrome://tracing: {picture}")
    print(f"The whole run: {profiler.run.path}")


if __name__ == "__main__":
    main()
