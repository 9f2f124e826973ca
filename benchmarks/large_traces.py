"""Makes Kineto traces that are too large to be kept: a GPU trace repeated, and one recorded on the CPU."""

from __future__ import annotations

import gzip
import re
from decimal import Decimal
from pathlib import Path

NCCL_RANK = Path(__file__).parents[1] / "tests" / "golden" / "kineto" / "nccl_rank.json.gz"
"""One rank of a job with NCCL: 26 932 events, three steps."""
ROCM = NCCL_RANK.with_name("mi250_train.json.gz")
"""A training on an AMD GPU, whose launches have other arguments than those of CUDA: 112 events."""

_TIME = re.compile(r'"ts": *([0-9.]+)')
_NUMBER = re.compile(r'"(correlation|External id|id)": *([0-9]+)')
_STEP = re.compile(r"ProfilerStep#([0-9]+)")
_NUMBERS_OF_A_COPY = 10_000_000
"""More than any id in the trace."""


def repeated_gpu_trace(path: Path, *, times: int, source: Path = NCCL_RANK) -> Path:
    """Write a trace so many times in a row, with later times, other ids and higher steps in every copy.

    Args:
        path: The file to write, plain JSON.
        times: Number of copies.
        source: The trace, with a list of events as Kineto writes it.
    """
    header, events, footer = _split(gzip.decompress(source.read_bytes()).decode())
    starts = [Decimal(ts) for ts in _TIME.findall(events)]
    steps = {int(step) for step in _STEP.findall(events)}
    period = (int(max(starts) - min(starts)) // 1000 + 1) * 1000
    with path.open("w", encoding="utf-8") as file:
        file.write(header)
        for copy in range(times):
            file.write("," if copy else "")
            file.write(_shifted(events, time=period * copy, numbers=_NUMBERS_OF_A_COPY * copy, steps=len(steps) * copy))
        file.write(footer)
    return path


def recorded_cpu_trace(path: Path, *, steps: int) -> Path:
    """Record a training of small layers with torch.profiler, 2100 events a step, and write its Kineto trace."""
    from benchmarks.normalizing import capture, save

    save(capture(steps), path)
    return path


def _split(text: str) -> tuple[str, str, str]:
    """Return what stands before, in and after the list of events, whose closing bracket Kineto indents like its key."""
    begin = text.index("[", text.index('"traceEvents"')) + 1
    end = text.index("\n  ]", begin)
    return text[:begin], text[begin:end], text[end:]


def _shifted(events: str, *, time: int, numbers: int, steps: int) -> str:
    events = _TIME.sub(lambda match: f'"ts": {Decimal(match[1]) + time}', events)
    events = _NUMBER.sub(lambda match: f'"{match[1]}": {int(match[2]) + numbers}', events)
    return _STEP.sub(lambda match: f"ProfilerStep#{int(match[1]) + steps}", events)
