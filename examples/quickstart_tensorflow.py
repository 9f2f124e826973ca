"""The Profiler in Keras: a callback ends the steps of `fit`, one trace per cycle, and what can be asked of them.

Run it with:  python examples/quickstart_tensorflow.py [output directory]
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow tells at length which processors it was built for

import keras
import numpy as np
from keras import layers

import unified_profiler as up
from unified_profiler.integrations.keras import ProfilerCallback

SLOWEST_LAYERS = """
    select origin, direction, count(*) as calls, sum(self_ns) as self_ns
    from events where kind = 'op' and origin is not null
    group by origin, direction order by self_ns desc limit 5
"""


def train(profiler: up.Profiler) -> None:
    """Train under the profiler: the callback tells it where each batch ends."""
    model = keras.Sequential(
        [
            keras.Input((32, 32, 3)),
            layers.Conv2D(16, 3),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.Flatten(),
            layers.Dense(10),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.AdamW(3e-3), loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    with profiler.region("data"):
        random = np.random.default_rng(0)
        pictures = random.normal(size=(160, 32, 32, 3)).astype(np.float32)
        labels = random.integers(10, size=160)
    model.fit(pictures, labels, batch_size=16, verbose=0, callbacks=[ProfilerCallback(profiler)])


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
