"""The Profiler in the code of a MindSpore training: a schedule, regions, one trace per cycle, and what can be asked.

Run it with:  python examples/quickstart_mindspore.py [output directory]
"""

from __future__ import annotations

import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn

import unified_profiler as up

STEPS = 10
SLOWEST_OPERATORS = """
    select op, count(*) as calls, sum(self_ns) as self_ns
    from events where kind = 'op' and op is not null
    group by op order by self_ns desc limit 5
"""


def train(profiler: up.Profiler) -> None:
    """Train under the profiler: regions name the parts of a step, `step()` ends it."""
    model = nn.SequentialCell(
        nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Dense(16 * 32 * 32, 10)
    )
    loss_of, optimizer = nn.CrossEntropyLoss(), nn.Adam(model.trainable_params(), learning_rate=3e-3)
    gradient = ms.value_and_grad(lambda x, y: loss_of(model(x), y), None, optimizer.parameters)
    random = np.random.default_rng(0)
    for _ in range(STEPS):
        with profiler.region("data"):
            pictures = Tensor(random.normal(size=(16, 3, 32, 32)).astype(np.float32))
            labels = Tensor(random.integers(10, size=16).astype(np.int32))
        with profiler.region("forward and backward"):
            _, gradients = gradient(pictures, labels)
        with profiler.region("update"):
            optimizer(gradients)
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
    print("\nThe same by canonical operator, asked in SQL:")
    print(up.query(trace, SLOWEST_OPERATORS))
    picture = up.write(trace, output / "trace.json.gz")
    print(f"\nFor the Perfetto UI or chrome://tracing: {picture}")
    print(f"The whole run: {profiler.run.path}")


if __name__ == "__main__":
    main()
