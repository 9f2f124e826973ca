"""What tracing adds to one call of a framework's API, beside other tracers.

Every figure is the median difference of neighbors: a short loop of calls with tracing, and the same without, in turn.
Each framework is measured in a process of its own.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path

import unified_profiler as up
from benchmarks.figures import NOBODY, Figure

CALLS, ROUNDS = 1_000, 31

Call = Callable[[], object]


def measure() -> list[Figure]:
    """Measure everything."""
    torch, mindspore, tensorflow = (_in_a_process(name) for name in ("torch", "mindspore", "tensorflow"))
    return [
        _figure("torch.add, arguments off", torch["off"], at_most=3),
        _figure("torch.add, arguments on", torch["on"], at_most=6),
        _figure("mindspore.mint.add, arguments off", mindspore["off"], at_most=3),
        _figure("mindspore.mint.add, arguments on", mindspore["on"]),
        _figure("tf.add, arguments off", tensorflow["off"], at_most=3),
        _figure("tf.add, arguments on", tensorflow["on"]),
        _peer("viztracer", torch["viztracer"], torch["off"], "and records the function around it"),
        _peer("apitimewrapper", _apitimewrapper(), torch["off"], "in parallel mode"),
    ]


def _figure(name: str, value: float, at_most: float | None = None) -> Figure:
    note = "added to a call"
    return Figure(name=f"trace_api: {name}", value=value, unit="us", against=NOBODY, at_most=at_most, note=note)


def _peer(name: str, theirs: float, ours: float, note: str) -> Figure:
    """Set what another tracer adds to a call against what we add, arguments off."""
    ratio = theirs / ours
    note = f"it adds {theirs:.2f} us to torch.add, {note}"
    return Figure(name=f"trace_api: {name} / ours", value=ratio, unit="x", against=f"{name} (peer)", note=note)


def _in_a_process(framework: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.calling", framework]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1])
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _main(framework: str) -> None:
    call, synchronize = {"torch": _torch, "mindspore": _mindspore, "tensorflow": _tensorflow}[framework]()
    figures = {
        name: _added(call, synchronize, partial(up.trace_api, arguments=on, backend=framework))
        for name, on in (("off", False), ("on", True))
    }
    if framework == "torch":
        figures["viztracer"] = _added(call, synchronize, _viztracer)
    print(json.dumps(figures))


def _torch() -> tuple[Call, Call]:
    import torch

    tensor = torch.ones(4, 16)
    return lambda: torch.add(tensor, tensor), lambda: None


def _mindspore() -> tuple[Call, Call]:
    import mindspore as ms
    from mindspore.common.api import _pynative_executor

    tensor = ms.mint.ones((4, 16))
    return lambda: ms.mint.add(tensor, tensor), _pynative_executor.sync


def _tensorflow() -> tuple[Call, Call]:
    import tensorflow as tf

    tensor = tf.ones((4, 16))
    return lambda: tf.add(tensor, tensor), lambda: None


def _added(call: Call, synchronize: Call, tracing: Callable[[], AbstractContextManager[object]]) -> float:
    """Return the microseconds that tracing adds to a call."""
    _loop(call, synchronize, nullcontext())
    pairs = ((_loop(call, synchronize, tracing()), _loop(call, synchronize, nullcontext())) for _ in range(ROUNDS))
    return statistics.median(traced - bare for traced, bare in pairs)


def _loop(call: Call, synchronize: Call, tracing: AbstractContextManager[object]) -> float:
    with tracing:
        for _ in range(CALLS // 10):
            call()
        synchronize()
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        taken = time.perf_counter() - start
        synchronize()
    return taken / CALLS * 1e6


@contextmanager
def _viztracer() -> Iterator[None]:
    from viztracer import VizTracer

    tracer = VizTracer(verbose=0)
    tracer.start()
    yield
    tracer.stop()
    tracer.clear()


_APITIMEWRAPPER = """
import sys, time, torch
from apitimewrapper import start_hook_torch_net

def loop(calls):
    start = time.perf_counter()
    for _ in range(calls):
        torch.add(tensor, tensor)
    return (time.perf_counter() - start) / calls * 1e6

tensor = torch.ones(4, 16)
loop(1000)
bare = sorted(loop(1000) for _ in range(21))[10]
start_hook_torch_net(hook_inside=False, parall_execute=True)
print(sorted(loop(200) for _ in range(21))[10] - bare, file=sys.stderr)
"""


def _apitimewrapper() -> float:
    """Return what apitimewrapper adds; without its parallel mode it waits for CUDA, and fails where there is none."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", _APITIMEWRAPPER]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return float(done.stderr.splitlines()[-1])


if __name__ == "__main__":
    _main(sys.argv[1])
