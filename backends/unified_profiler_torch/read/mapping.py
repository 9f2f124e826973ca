"""From the columns of a Kineto file to the columns of the event schema."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unified_profiler.model.columns import Index, encode, text
from unified_profiler.model.foreign_values import LARGEST_NUMBER, bounded, nanoseconds, whole
from unified_profiler.model.module_attribution import RELATIVE
from unified_profiler.model.nesting import FIRST_LANE, Ints
from unified_profiler.model.schema import EventTable, Kind, Layer, event_table
from unified_profiler.model.tree import Flags, Tree
from unified_profiler.spi.canonical import DIRECTIONS
from unified_profiler_torch.canonical.assignment import canonicalize
from unified_profiler_torch.canonical.flops import counted_twice, flops_of
from unified_profiler_torch.read.args import COLUMN_INPUTS, INPUTS, MISSING, script_path
from unified_profiler_torch.read.categories import (
    CPU,
    DEVICE_TYPES,
    NameClass,
    accelerator,
    classify_name,
    compile_phases,
    meaning,
    step_number,
)
from unified_profiler_torch.read.columns import numbers
from unified_profiler_torch.read.frames import cutting_frames
from unified_profiler_torch.read.kineto import Header
from unified_profiler_torch.read.lanes import begun_within, lane_numbers, thread_names
from unified_profiler_torch.read.rows import Place, Rows

FRAME_LANE = FIRST_LANE >> 1
"""Added to a thread's id: the lane of those of its Python frames that cut an annotation."""
STEP_LANE = FIRST_LANE >> 2
"""Added to a thread's id: the lane of its steps while nesting is worked out."""

CLOCK_SLACK_NS = 20_000
"""By so much Kineto's clock and the system's may differ: an event that ends within it had ended."""


@dataclass(frozen=True)
class Mapping:
    """Makes the columns of the schema from the columns of the file, each when it is first needed."""

    rows: Rows
    header: Header
    stop_ns: int | None = None
    """When recording ended, where that is known."""
    frames_tell_modules: bool = True
    """Whether modules go by their frames, by class and number; where the facade records modules they have paths."""

    def table(self, *, with_flops: bool) -> EventTable:
        """Build the event table."""
        columns = {
            "name": text(self.name, self.names),
            "layer": self._by_meaning([layer.value for layer in Layer], 0),
            "kind": self._by_meaning([kind.value for kind in Kind], 1),
            "framework": "torch",
            "start_ns": self.start,
            "duration_ns": self.duration,
            "step": numbers(self._step),
            "rank": self._rank,
            "pid": self.pid,
            "tid": self.tid,
            "thread": text(self.place, thread_names(self.places, self.rows.labels)),
            "device": text(*self._device),
        }
        columns |= self._canonical() | self._links() | self._from_args(with_flops=with_flops) | self._stacks()
        columns["module"] = text(*self._modules())
        return event_table(columns, rows=len(self.start))

    @cached_property
    def names(self) -> list[str]:
        """The distinct names."""
        return list(self.rows.names)

    @cached_property
    def name(self) -> Ints:
        """The name of each event, as a number."""
        return self.rows.column("name")

    @cached_property
    def place(self) -> Ints:
        """Category and lane of each event, as a number."""
        return self.rows.column("place")

    @cached_property
    def places(self) -> list[Place]:
        """The distinct places."""
        return self.rows.places

    @cached_property
    def start(self) -> Ints:
        """Start of each event, nanoseconds since the epoch; without a base, the times are that already."""
        base = bounded(int(self.header.get("baseTimeNanoseconds") or 0), "base")
        return bounded(base + nanoseconds(self.rows.floats("ts")), "start of event")

    @cached_property
    def duration(self) -> Ints:
        """Duration of each event in nanoseconds.

        Kineto ends what is still open at the end of recording much later, when it gets to it; that is cut off here.
        """
        duration = nanoseconds(self.rows.floats("dur"))
        if self.stop_ns is None:
            return duration
        late = (self.start < self.stop_ns) & (self.start + duration > self.stop_ns + CLOCK_SLACK_NS)
        return np.where(late & ~self.on_device, self.stop_ns - self.start, duration)

    @cached_property
    def pid(self) -> Ints:
        """Process of each event, or its device."""
        pid: Ints = lane_numbers(self.places)[0][self.place]
        return pid

    @cached_property
    def tid(self) -> Ints:
        """Thread of each event, or its stream."""
        tid: Ints = lane_numbers(self.places)[1][self.place]
        frames, annotations = self._of_category("python_function"), self._of_category("user_annotation")
        if not frames.any():
            return tid
        cutting = cutting_frames(self.start, self.start + self.duration, tid, frames, annotations)
        return np.where(cutting, tid + FRAME_LANE, tid)

    @cached_property
    def tree(self) -> Tree:
        """How the events nest, steps apart: one that ends within an optimizer's call would cut that call off."""
        lane = np.where(self.kind(Kind.STEP), self.tid + STEP_LANE, self.tid)
        return Tree.of(self.start, self.duration, self.pid, lane)

    @cached_property
    def _own_meanings(self) -> npt.NDArray[np.int8]:
        """Layer, kind and place of each event by its category and name, three rows of numbers."""
        layers, kinds = list(Layer), list(Kind)
        table = np.empty((3, len(self.places), len(NameClass)), np.int8)
        for number, place in enumerate(self.places):
            for name_class in NameClass:
                what = meaning(place.phase, place.category, name_class)
                table[:, number, name_class] = layers.index(what.layer), kinds.index(what.kind), what.on_device
        phases = compile_phases(self.names)
        classes = np.array([classify_name(name, phases) for name in self.names], np.int8)
        flat = self.place * len(NameClass) + classes[self.name]
        return np.take(table.reshape(3, -1), flat, axis=1)

    @cached_property
    def meanings(self) -> npt.NDArray[np.int8]:
        """Layer, kind and place of each event, three rows of numbers.

        What runs within compilation is a part of it: operators there trace a graph and compute nothing of the step.
        """
        layers, kinds = list(Layer), list(Kind)
        meanings = self._own_meanings
        compiles = meanings[1] == kinds.index(Kind.COMPILE)
        if not compiles.any():
            return meanings
        inside = begun_within(compiles, self.start, self.start + self.duration, self.tid)
        inside &= np.isin(meanings[1], [kinds.index(kind) for kind in (Kind.OP, Kind.REGION)])
        parts = np.array([[layers.index(Layer.FRAMEWORK)], [kinds.index(Kind.COMPILE)], [0]], np.int8)
        return np.where(inside, parts, meanings)

    def kind(self, *kinds: Kind) -> Flags:
        """Say which events are of one of these kinds."""
        wanted = np.array([kind in kinds for kind in Kind])
        flags: Flags = wanted[self.meanings[1]]
        return flags

    @cached_property
    def on_device(self) -> Flags:
        """Which events ran on an accelerator."""
        flags: Flags = self._own_meanings[2] == 1
        return flags

    def _of_category(self, category: str) -> Flags:
        wanted = np.array([place[:2] == ("X", category) for place in self.places], np.bool_)
        flags: Flags = wanted[self.place]
        return flags

    def _by_meaning(self, texts: list[str], row: int) -> pa.DictionaryArray:
        return text(self.meanings[row], texts)

    @property
    def _step(self) -> Ints:
        steps = [step_number(name) for name in self.names]
        by_name = np.array([MISSING if step is None else step for step in steps], np.int64)
        return np.where(self.kind(Kind.STEP), by_name[self.name], MISSING)

    @property
    def _rank(self) -> int | None:
        rank = whole((self.header.get("distributedInfo") or {}).get("rank"), largest=LARGEST_NUMBER)
        return None if rank is None or rank < 0 else rank

    @property
    def _device(self) -> tuple[Ints, list[str | None]]:
        """Return the device of each event: its number from the args, or from the lane."""
        here = accelerator({place.category for place in self.places})
        devices = Index({"cpu:0": 0})
        code = np.zeros(len(self.start), np.int64)
        number, kind = self.rows.column("device"), self.rows.column("device_type")
        number = np.where(number == MISSING, self.pid, number)
        for row_set, types in ((self.on_device, {MISSING: here}), (kind != MISSING, DEVICE_TYPES)):
            rows = np.flatnonzero(row_set)
            pairs, inverse = np.unique(np.stack([kind[rows], number[rows]]), axis=1, return_inverse=True)
            codes = [devices[f"{types.get(k, here)}:{max(n, 0)}"] for k, n in pairs.T.tolist()]
            code[rows] = np.array(codes, np.int64)[inverse.reshape(-1)]
        return code, list(devices)

    def _links(self) -> dict[str, Any]:
        stream = self.rows.column("stream")
        lane_is_stream = self.on_device & (stream == MISSING) & (self.tid < 1 << 32)
        sequence = self.rows.column("sequence_id")
        return {
            "stream": numbers(np.where(lane_is_stream, self.tid, stream)),
            "correlation_id": numbers(self.rows.column("correlation_id")),
            "sequence_id": numbers(np.where(sequence < 0, MISSING, sequence)),
        }

    def _canonical(self) -> dict[str, Any]:
        is_op = (self.meanings[0] == list(Layer).index(Layer.FRAMEWORK)) & ~self.on_device & ~self.kind(Kind.COMPILE)
        sequence = self.rows.column("sequence_id")
        found = canonicalize(self.tree, self.name, self.names, is_op, sequence, self.start, self.tid)
        plain = ~is_op & ~self.on_device & ~self._is_launch(is_op)
        found.origin[plain] = found.direction[plain] = -1
        found.follow(*self._launches())
        return {
            "op": text(found.op, found.names),
            "origin": text(found.origin, found.names),
            "direction": text(found.direction, DIRECTIONS),
        }

    def _is_launch(self, is_op: Flags) -> Flags:
        """Say which events are calls of the device's runtime from inside an operator."""
        parent = self.tree.parent
        return (
            self.kind(Kind.RUNTIME)
            & ~self.on_device
            & (parent >= 0)
            & is_op[parent]
            & (self.rows.column("correlation_id") >= 0)
        )

    def _launches(self) -> tuple[Ints, Ints, Ints]:
        """Return work on a device, the calls that launched it, and the operators these calls are in."""
        correlation = self.rows.column("correlation_id")
        calls = np.flatnonzero((correlation != MISSING) & ~self.on_device)
        work = np.flatnonzero((correlation != MISSING) & self.on_device)
        calls = calls[np.argsort(correlation[calls], kind="stable")]
        if not len(calls):
            return (np.empty(0, np.int64),) * 3
        place = np.minimum(np.searchsorted(correlation[calls], correlation[work]), len(calls) - 1)
        known = correlation[calls[place]] == correlation[work]
        launches = calls[place[known]]
        return work[known], launches, self.tree.parent[launches]

    def _from_args(self, *, with_flops: bool) -> dict[str, Any]:
        reader, column = self.rows.args, self.rows.column
        inputs = column("inputs")
        attributes, attribute_texts = reader.attributes(inputs, column("forward"), column("rest"))
        found: dict[str, Any] = {
            name: text(inputs, reader.input_texts(INPUTS.index(key))) for key, name in COLUMN_INPUTS.items()
        }
        found["attributes"] = text(attributes, attribute_texts)
        found["bytes"] = numbers(column("bytes"))
        found["value"] = self._allocated()
        if with_flops:
            found["flops"] = self._flops(inputs)
        return found

    def _allocated(self) -> pa.Array:
        """Return the total of allocated bytes after each memory event, on the CPU since recording began.

        On the CPU torch updates its total only while it records: blocks of an earlier recording that were freed in
        between still count. Its first event in this recording shows by how much the total was off.
        """
        value, amount = self.rows.column("value"), self.rows.column("bytes")
        total = value.astype(np.float64)
        on_cpu = np.flatnonzero((value != MISSING) & (amount != MISSING) & (self.rows.column("device_type") == CPU))
        if len(on_cpu):
            first = on_cpu[np.argmin(self.start[on_cpu])]
            total[on_cpu] -= total[first] - amount[first]
        return pa.array(total, mask=value == MISSING)

    def _flops(self, inputs: Ints) -> pa.Array:
        """Compute floating-point operations once per distinct operator and inputs."""
        reader, width = self.rows.args, len(self.rows.args.inputs) + 1
        shapes = [None, *reader.input_texts(INPUTS.index("Input Dims"))]
        concrete = [None, *reader.input_texts(INPUTS.index("Concrete Inputs"))]
        codes, distinct = encode(self.name * width + inputs + 1)
        pairs = [divmod(key, width) for key in distinct.tolist()]
        found = [flops_of(self.names[name], shapes[key], concrete[key]) for name, key in pairs]
        flops = np.array([MISSING if f is None else f for f in found], np.int64)[codes]
        uncounted = counted_twice(flops, self.name, self.names, self.tree) | self.kind(Kind.COMPILE)
        return numbers(np.where(uncounted, MISSING, flops))

    def _modules(self) -> tuple[Ints, list[str | None]]:
        """Return the modules that enclose each event, by their frames, or by TorchScript relative to such a call."""
        labels = [name.removeprefix("nn.Module: ") for name in self.names]
        frames = self._of_category("python_function") & self.kind(Kind.MODULE) & self.frames_tell_modules
        around, paths = self.tree.paths(frames, self.name, labels, separator=".") if frames.any() else (None, [])
        scripted = [script_path(text) for text in self.rows.args.rest]
        within = np.array([*(-1 if path is None else n for n, path in enumerate(scripted)), -1], np.int64)
        inner = within[self.rows.column("rest")]
        outer = np.full(len(inner), -1, np.int64) if around is None else around
        relative = [path and f"{RELATIVE}{path}" for path in scripted]
        return np.where(inner >= 0, len(paths) + inner, outer), [*paths, *relative]

    def _stacks(self) -> dict[str, Any]:
        """Return the Python frames that enclose each operator, where frames were recorded."""
        frames = self._of_category("python_function")
        if not frames.any():
            return {}
        stack, stacks = self.tree.paths(frames, self.name, self.names, separator=";")
        return {"stack": text(np.where(frames, -1, stack), stacks)}
