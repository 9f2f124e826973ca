"""An independent walk of a Kineto file: plain Python over the raw JSON, in integer nanoseconds.

Expected values of the tests of device analyses come from here; it imports neither unified_profiler nor numpy. It is
written for clarity: every figure follows its definition and nothing is shared with the implementation.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path
from typing import Any

COMPUTE, COMMUNICATION, COPY, SYNCHRONIZATION, ANNOTATION = (
    "compute",
    "communication",
    "copy",
    "synchronization",
    "annotation",
)
WORK = (COMPUTE, COMMUNICATION, COPY)

_BY_CATEGORY = {
    "kernel": COMPUTE,
    "gpu_memcpy": COPY,
    "gpu_memset": COPY,
    "memcpy": COPY,
    "memset": COPY,
    "cuda_sync": SYNCHRONIZATION,
    "gpu_user_annotation": ANNOTATION,
}
_MTIA = {"dma_request": COPY, "event_record": SYNCHRONIZATION, "event_wait": SYNCHRONIZATION}
_CALLS = re.compile(r"(cuda|xpu|mtia|hip|privateuse1)_(runtime|driver)$|runtime$")
_COLLECTIVE_KERNEL = re.compile(r"(nccl|rccl|mscclKernel)\w*[Kk]ernel")
_STEP = re.compile(r"ProfilerStep#(\d+)$")


@dataclass(frozen=True)
class Span:
    """An entry of the file with its times in nanoseconds, and as they are written in the file (microseconds)."""

    name: str
    start: int
    end: int
    correlation: int | None
    written: tuple[Decimal | int, Decimal | int]
    index: int
    """Position in the file."""


@dataclass(frozen=True)
class DeviceSpan(Span):
    """What a device did, with the host call that launched it and the step of that call."""

    work_class: str
    device: int
    stream: int
    bytes: int | None
    recorded_bandwidth: float | None
    launch: Span | None
    step: int | None

    @property
    def bandwidth(self) -> float | None:
        """Bytes per nanosecond, which is GB/s."""
        if self.bytes is None or self.end == self.start:
            return None
        return self.bytes / (self.end - self.start)


@dataclass(frozen=True)
class Walk:
    """A Kineto file: spans of its devices, host calls by correlation, and steps as (number, start, end)."""

    spans: tuple[DeviceSpan, ...]
    calls: dict[int, Span]
    steps: tuple[tuple[int, int, int], ...]

    @property
    def work(self) -> list[DeviceSpan]:
        """Compute, communication and copies, without synchronization records and annotations."""
        return [span for span in self.spans if span.work_class in WORK]


def walk(path: Path) -> Walk:
    """Read a file."""
    document = load(path)
    entries = document["traceEvents"] if isinstance(document, dict) else document
    base = int(document.get("baseTimeNanoseconds", 0)) if isinstance(document, dict) else 0
    complete = [(index, entry) for index, entry in enumerate(entries) if entry.get("ph") == "X"]
    calls: dict[int, Span] = {}
    steps, spans = [], []
    for index, entry in complete:
        if _CALLS.match(_category(entry)) and (call := _span(entry, index, base)).correlation is not None:
            calls.setdefault(call.correlation, call)
        elif _category(entry) == "user_annotation" and (match := _STEP.match(entry["name"])):
            step = _span(entry, index, base)
            steps.append((int(match[1]), step.start, step.end))
    for index, entry in complete:
        if (work_class := class_of(entry)) is not None:
            spans.append(_device_span(entry, _span(entry, index, base), work_class, calls, steps))
    return Walk(tuple(_with_window_steps(spans)), calls, tuple(steps))


def load(path: Path) -> Any:
    """Return the document; numbers with a point as Decimal, so that no digit is lost."""
    raw = path.read_bytes()
    return json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw, parse_float=Decimal)


def class_of(entry: dict[str, Any]) -> str | None:
    """Return the class of an entry of a device, None for an entry of the host."""
    if _category(entry) == "mtia_ccp_events":
        return _MTIA.get(entry["name"], COMPUTE)
    work_class = _BY_CATEGORY.get(_category(entry))
    return COMMUNICATION if work_class == COMPUTE and _COLLECTIVE_KERNEL.match(entry["name"]) else work_class


def nanoseconds(microseconds: Decimal | int) -> int:
    """Convert exactly; what is finer than a nanosecond is rounded to the nearest."""
    return int((Decimal(microseconds) * 1000).to_integral_value(ROUND_HALF_EVEN))


def _category(entry: dict[str, Any]) -> str:
    return str(entry.get("cat") or "").lower()


def _span(entry: dict[str, Any], index: int, base: int) -> Span:
    written = (entry["ts"], entry.get("dur", 0))
    start, duration = base + nanoseconds(written[0]), nanoseconds(written[1])
    correlation = (entry.get("args") or {}).get("correlation")
    return Span(entry["name"], start, start + duration, correlation, written, index)


def _device_span(
    entry: dict[str, Any], span: Span, work_class: str, calls: dict[int, Span], steps: list[tuple[int, int, int]]
) -> DeviceSpan:
    args = entry.get("args") or {}
    launch = None if span.correlation is None else calls.get(span.correlation)
    inside = [number for number, start, end in steps if launch is not None and start <= launch.start < end]
    bandwidth = args.get("memory bandwidth (GB/s)")
    return DeviceSpan(
        **vars(span),
        work_class=work_class,
        device=args.get("device", entry["pid"]),
        stream=args.get("stream", entry["tid"]),
        bytes=args.get("bytes", args.get("size")),
        recorded_bandwidth=None if bandwidth is None else float(bandwidth),
        launch=launch,
        step=inside[-1] if inside else None,
    )


def _with_window_steps(spans: list[DeviceSpan]) -> Iterable[DeviceSpan]:
    """Give work without a launch the step in whose window on its device it ran, if there is exactly one."""
    windows: dict[tuple[int, int], list[DeviceSpan]] = defaultdict(list)
    for span in spans:
        if span.launch is not None and span.step is not None and span.work_class in WORK:
            windows[span.device, span.step].append(span)
    borders = {key: (min(s.start for s in group), max(s.end for s in group)) for key, group in windows.items()}
    for span in spans:
        steps = [
            step
            for (device, step), (start, end) in borders.items()
            if span.launch is None and device == span.device and start <= span.start and span.end <= end
        ]
        yield DeviceSpan(**{**vars(span), "step": steps[0]}) if len(steps) == 1 else span
