"""How the figures of HolisticTraceAnalysis 0.5.0 differ from the recorded times, each as an explicit transformation.

A test applies to a Walk the quirks that concern its figure and then demands equality. Not reproducible is the order of
changes at the same time: HTA sorts unstably, so that the last digits of its queue lengths differ between machines.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from tests.devices.kineto_walk import (
    COMMUNICATION,
    COMPUTE,
    COPY,
    SYNCHRONIZATION,
    WORK,
    DeviceSpan,
    Span,
    Walk,
)
from tests.devices.walked_figures import Gap, Interval

OTHER = "other"
LAUNCH_STATISTICS_CALLS = frozenset({"cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync"})
"""The only launches that HTA's launch statistics count; cuLaunchKernel, graphs and all of ROCm are missing."""
KERNEL_WAIT_NS = 30_000
"""Gaps shorter than this that are not the host's are the delay between kernels."""

_COMMUNICATION = re.compile(r"nccl.*Kernel")
_COPY = re.compile(r"Memcpy|Memset|dma")
_NOT_COMPUTE = re.compile(r"nccl.*Kernel|.*Memcpy|Memset|.*Sync")

AnySpan = TypeVar("AnySpan", bound=Span)


def in_whole_microseconds(walk: Walk) -> Walk:
    """Move starts up and ends down to whole microseconds, after reading the numbers as floats.

    A piece of work that contains no whole microsecond gets a negative duration of one microsecond. Files whose times
    are whole anyway stay as they are. The base time of the file is left out: figures are differences.
    """
    calls = {correlation: _whole(call) for correlation, call in walk.calls.items()}
    spans = tuple(
        replace(_whole(span), launch=None if span.launch is None else _whole(span.launch)) for span in walk.spans
    )
    return replace(walk, calls=calls, spans=spans)


def device_rows(walk: Walk) -> list[DeviceSpan]:
    """Return what HTA takes for kernels: everything that has a stream, synchronization records included.

    If the file has at least two steps, everything without a launch is dropped.
    """
    kinds = (*WORK, SYNCHRONIZATION)
    several = len({number for number, _, _ in walk.steps}) > 1
    return [
        span
        for span in walk.spans
        if span.work_class in kinds and span.stream != -1 and (span.launch is not None or not several)
    ]


def classified_by_name(rows: Iterable[DeviceSpan]) -> list[DeviceSpan]:
    """Replace the classes by HTA's, which looks at names only: `Stream Wait Event` is computation."""
    return [replace(row, work_class=_class_of_name(row.name)) for row in rows]


def merged_in_order_of_start(rows: Iterable[DeviceSpan]) -> list[Interval]:
    """Unite as HTA does; negative durations are summed as they are."""
    result: list[Interval] = []
    end_so_far = None
    for row in sorted(rows, key=lambda row: row.start):
        if end_so_far is None or row.start > end_so_far:
            result.append((row.start, row.end))
        else:
            result[-1] = (result[-1][0], max(result[-1][1], row.end))
        end_so_far = row.end if end_so_far is None else max(end_so_far, row.end)
    return result


def gaps_between_rows(rows: Iterable[DeviceSpan]) -> list[Gap]:
    """Return gaps from the end of the previous row, even if an earlier row ends later: such gaps are negative."""
    result = []
    ends: dict[tuple[int, int], int] = {}
    for row in sorted(rows, key=lambda row: row.start):
        stream = row.device, row.stream
        if stream in ends:
            launch = None if row.launch is None else row.launch.start
            result.append(Gap(*stream, ends[stream], row.start, launch))
        ends[stream] = row.end
    return result


def idle_cause(gap: Gap) -> str:
    """Return HTA's cause of a gap."""
    if gap.launch_start is not None and gap.launch_start > gap.previous_end:
        return "host_wait"
    return "kernel_wait" if gap.start - gap.previous_end < KERNEL_WAIT_NS else "other"


def _whole(span: AnySpan) -> AnySpan:
    start, duration = (float(number) for number in span.written)
    return replace(span, start=math.ceil(start) * 1000, end=math.floor(start + duration) * 1000)


def _class_of_name(name: str) -> str:
    if _COMMUNICATION.match(name):
        return COMMUNICATION
    if _COPY.match(name):
        return COPY
    return OTHER if _NOT_COMPUTE.match(name) else COMPUTE
