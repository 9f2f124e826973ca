"""Ends of recorded XLA instructions that only queue their work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from unified_profiler.model.assembly import assemble
from unified_profiler.model.nesting import find_nesting
from unified_profiler.spi import NativeCapture
from unified_profiler_tensorflow.read.normalizer import TensorFlowNormalizer

GOLDEN = Path(__file__).parents[2] / "golden" / "xplane"


def instructions() -> list[dict[str, Any]]:
    capture = NativeCapture(backend="tensorflow", files=(GOLDEN / "xla_convolution.xplane.pb",))
    events = assemble([TensorFlowNormalizer().normalize(capture)]).to_pylist()
    return [event for event in events if "hlo_op" in (event["attributes"] or "")]


def test_a_recorded_convolution_lasts_until_what_uses_its_result_begins() -> None:
    convolutions = [event for event in instructions() if event["name"] == "Conv2D.1"]
    uses = sorted(event["start_ns"] for event in instructions() if event["name"] == "broadcast_maximum_fusion")
    ends = sorted(event["start_ns"] + event["duration_ns"] for event in convolutions)
    assert [event["thread"] for event in convolutions].count("XLA asynchronous") == 2
    assert [use - end for use, end in zip(uses, ends, strict=True)][:2] == [0, 0]
    assert uses[2] > ends[2]  # the third was done within its own event


def test_it_takes_no_time_from_another_and_every_lane_nests() -> None:
    events = instructions()
    assert all(event["self_ns"] == event["duration_ns"] for event in events)
    columns = (np.array([event[name] for event in events]) for name in ("start_ns", "duration_ns", "pid", "tid"))
    nesting = find_nesting(*columns)
    assert nesting.tid.tolist() == [event["tid"] for event in events]
    assert set(nesting.parent.tolist()) == {-1}
