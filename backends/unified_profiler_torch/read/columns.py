"""Builds the columns of the event schema from the decoded events of a Kineto file."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unified_profiler.model.arrow_arrays import number_array
from unified_profiler.model.columns import encode, look_up, text_column, with_nulls
from unified_profiler.model.foreign_values import LARGEST_NUMBER, bounded, int_or_none
from unified_profiler.model.module_attribution import RELATIVE
from unified_profiler.model.nesting import FIRST_LANE, Ints
from unified_profiler.model.schema import EventTable, Kind, Layer, event_table
from unified_profiler.model.tree import Flags, Tree
from unified_profiler.spi.canonical import DIRECTIONS
from unified_profiler_torch.canonical.assignment import canonicalize
from unified_profiler_torch.canonical.flops import counted_twice, flops_of
from unified_profiler_torch.read.args import COLUMN_INPUTS, script_path
from unified_profiler_torch.read.args_layouts import MISSING
from unified_profiler_torch.read.categories import (
    CPU,
    NameClass,
    accelerator,
    classify_event,
    classify_name,
    compile_phases,
    step_number,
)
from unified_profiler_torch.read.devices import EventDevices
from unified_profiler_torch.read.events import KinetoEvents
from unified_profiler_torch.read.frames import overlapping_frames
from unified_profiler_torch.read.kineto import Header
from unified_profiler_torch.read.labels import EventGroup
from unified_profiler_torch.read.lanes import begun_within, lane_numbers, thread_names

FRAME_LANE = FIRST_LANE >> 1
"""Added to a thread's id: the lane of its Python frames that partly overlap an annotation."""
STEP_LANE = FIRST_LANE >> 2
"""Added to a thread's id: the lane of its steps while nesting is computed."""

CLOCK_SLACK_NS = 20_000
"""Allowed difference between Kineto's clock and the system's: an event that ends this late ended in the recording."""

_LAYERS, _KINDS = list(Layer), list(Kind)


@dataclass(frozen=True)
class KinetoColumns:
    """Computes each column of the schema when it is first needed."""

    events: KinetoEvents
    header: Header
    stop_ns: int | None = None
    """End of the recording, where known."""
    modules_from_frames: bool = True
    """Whether to name modules by their Python frames (class and number); the facade's own records have paths."""

    def table(self, *, with_flops: bool) -> EventTable:
        """Build the event table."""
        columns = {
            "name": text_column(self.name, self.names),
            "layer": text_column(self._classes[0], [layer.value for layer in Layer]),
            "kind": text_column(self._classes[1], [kind.value for kind in Kind]),
            "framework": "torch",
            "start_ns": self.start,
            "duration_ns": self.duration,
            "step": _integers(self._step),
            "rank": self._rank,
            "pid": self.pid,
            "tid": self.tid,
            "thread": text_column(self.group, thread_names(self.groups, self.events.metadata)),
            "device": text_column(*self._device),
            "module": text_column(*self._modules),
        }
        columns |= self._canonical() | self._links() | self._from_args() | self._stacks()
        if with_flops:
            columns["flops"] = self._flops()
        return event_table(columns, rows=len(self.start))

    @cached_property
    def names(self) -> list[str]:
        """The distinct names."""
        return self.events.names

    @cached_property
    def name(self) -> Ints:
        """Name of each event, an index into `names`."""
        return self.events.name

    @cached_property
    def groups(self) -> list[EventGroup]:
        """The distinct event groups."""
        return self.events.groups

    @cached_property
    def group(self) -> Ints:
        """Group of each event, an index into `groups`."""
        return self.events.group

    @cached_property
    def start(self) -> Ints:
        """Start of each event in nanoseconds since the epoch; times in files without a base are that already."""
        base = bounded(int(self.header.get("baseTimeNanoseconds") or 0), "base")
        return bounded(base + self.events.column("ts"), "start of event")

    @cached_property
    def duration(self) -> Ints:
        """Duration of each event in nanoseconds.

        Kineto ends events that are open when recording stops much later, when it processes them. They are cut at the
        end of the recording.
        """
        duration = self.events.column("dur")
        if self.stop_ns is None:
            return duration
        late = (self.start < self.stop_ns) & (self.start + duration > self.stop_ns + CLOCK_SLACK_NS)
        return np.where(late & ~self.on_device, self.stop_ns - self.start, duration)

    @cached_property
    def pid(self) -> Ints:
        """Process of each event, or its device."""
        pid: Ints = lane_numbers(self.groups)[0][self.group]
        return pid

    @cached_property
    def tid(self) -> Ints:
        """Thread of each event, or its stream."""
        tid: Ints = lane_numbers(self.groups)[1][self.group]
        frames, annotations = self._has_category("python_function"), self._has_category("user_annotation")
        if not frames.any():
            return tid
        overlapping = overlapping_frames(self.start, self.start + self.duration, tid, frames, annotations)
        return np.where(overlapping, tid + FRAME_LANE, tid)

    @cached_property
    def tree(self) -> Tree:
        """Nesting of the events, steps excluded: a step that ends within an optimizer's call would cut that call."""
        lane = np.where(self._is_kind(Kind.STEP), self.tid + STEP_LANE, self.tid)
        return Tree.of(self.start, self.duration, self.pid, lane)

    @cached_property
    def on_device(self) -> Flags:
        """Flags of the events that ran on an accelerator."""
        flags: Flags = self._native_classes[2] == 1
        return flags

    @cached_property
    def _native_classes(self) -> npt.NDArray[np.int8]:
        """Three rows: layer, kind and on_device of each event, by its category and name."""
        table = np.empty((3, len(self.groups), len(NameClass)), np.int8)
        for code, group in enumerate(self.groups):
            for name_class in NameClass:
                event_class = classify_event(group.phase, group.category, name_class)
                table[:, code, name_class] = (
                    _LAYERS.index(event_class.layer),
                    _KINDS.index(event_class.kind),
                    event_class.on_device,
                )
        phases = compile_phases(self.names)
        name_classes = np.array([classify_name(name, phases) for name in self.names], np.int8)
        return np.take(table.reshape(3, -1), self.group * len(NameClass) + name_classes[self.name], axis=1)

    @cached_property
    def _classes(self) -> npt.NDArray[np.int8]:
        """The rows of `_native_classes`, with operators and regions inside compilation as compilation.

        Operators there trace a graph and compute nothing of the step.
        """
        classes = self._native_classes
        compiles = classes[1] == _KINDS.index(Kind.COMPILE)
        if not compiles.any():
            return classes
        inside = begun_within(compiles, self.start, self.start + self.duration, self.tid)
        inside &= np.isin(classes[1], [_KINDS.index(Kind.OP), _KINDS.index(Kind.REGION)])
        compilation = np.array([[_LAYERS.index(Layer.FRAMEWORK)], [_KINDS.index(Kind.COMPILE)], [0]], np.int8)
        return np.where(inside, compilation, classes)

    def _is_kind(self, kind: Kind) -> Flags:
        flags: Flags = self._classes[1] == _KINDS.index(kind)
        return flags

    def _has_category(self, category: str) -> Flags:
        flags: Flags = np.array([group[:2] == ("X", category) for group in self.groups], np.bool_)[self.group]
        return flags

    @property
    def _step(self) -> Ints:
        step, rows = np.full(len(self.name), MISSING, np.int64), np.flatnonzero(self._is_kind(Kind.STEP))
        numbers = [step_number(self.names[name]) for name in self.name[rows].tolist()]
        step[rows] = [MISSING if number is None else number for number in numbers]
        return step

    @property
    def _rank(self) -> int | None:
        rank = int_or_none((self.header.get("distributedInfo") or {}).get("rank"), largest=LARGEST_NUMBER)
        return None if rank is None or rank < 0 else rank

    @property
    def _device(self) -> tuple[Ints, list[str]]:
        """Device of each event, as codes and texts."""
        devices = EventDevices(
            number=self.events.column("device"),
            device_type=self.events.column("device_type"),
            on_device=self.on_device,
            lane=self.pid,
            accelerator=accelerator({group.category for group in self.groups}),
        )
        return devices.names(self._same_devices(devices) if devices.has_hip else {})

    def _same_devices(self, devices: EventDevices) -> dict[int, int]:
        operator = self.tree.inherit(np.where(self._is_op, np.arange(len(self.start)), -1), outermost=True)
        work, launches, _ = self._launches
        is_kernel = self._is_kind(Kind.KERNEL)[work]
        return devices.same_devices(operator, (work[is_kernel], operator[launches[is_kernel]]))

    def _links(self) -> dict[str, Any]:
        stream, sequence = self.events.column("stream"), self.events.column("sequence_id")
        thread_is_stream = self.on_device & (stream == MISSING) & (self.tid < 1 << 32)
        return {
            "stream": _integers(np.where(thread_is_stream, self.tid, stream)),
            "correlation_id": _integers(self.events.column("correlation_id")),
            "sequence_id": _integers(np.where(sequence < 0, MISSING, sequence)),
        }

    @cached_property
    def _is_op(self) -> Flags:
        is_framework = self._classes[0] == _LAYERS.index(Layer.FRAMEWORK)
        flags: Flags = is_framework & ~self.on_device & ~self._is_kind(Kind.COMPILE)
        return flags

    def _canonical(self) -> dict[str, Any]:
        """Return operator, origin and direction; calls of the device's runtime have the direction of their operator."""
        is_op, sequence = self._is_op, self.events.column("sequence_id")
        canonical = canonicalize(self.tree, self.name, self.names, is_op, sequence, self.start, self.tid)
        other = ~is_op & ~self.on_device
        outside = other & ~self._is_call_of_op
        canonical.origin[outside] = canonical.direction[outside] = -1
        canonical.copy_to_device_work(*self._launches)
        canonical.origin[other] = -1
        return {
            "op": text_column(canonical.op, canonical.names),
            "origin": text_column(canonical.origin, canonical.names),
            "direction": text_column(canonical.direction, DIRECTIONS),
        }

    @property
    def _is_call_of_op(self) -> Flags:
        """Flags of the calls of the device's runtime from inside an operator."""
        parent = self.tree.parent
        in_op = (parent >= 0) & self._is_op[parent]
        return self._is_kind(Kind.RUNTIME) & ~self.on_device & in_op & (self.events.column("correlation_id") >= 0)

    @cached_property
    def _launches(self) -> tuple[Ints, Ints, Ints]:
        """Work on a device, the calls that launched it, and the operators that contain these calls."""
        correlation = self.events.column("correlation_id")
        calls = np.flatnonzero((correlation != MISSING) & ~self.on_device)
        work = np.flatnonzero((correlation != MISSING) & self.on_device)
        call = look_up(correlation[work], correlation[calls])
        launches = calls[call[call >= 0]]
        return work[call >= 0], launches, self.tree.parent[launches]

    def _from_args(self) -> dict[str, Any]:
        reader, column = self.events.args, self.events.column
        inputs = column("inputs")
        columns = {name: text_column(inputs, reader.input_texts(key)) for key, name in COLUMN_INPUTS.items()}
        columns["attributes"] = text_column(*reader.attributes(inputs, column("forward"), column("rest")))
        return columns | {"bytes": _integers(column("bytes")), "value": self._allocated()}

    def _allocated(self) -> pa.Array:
        """Return the total of allocated bytes after each memory event; on the CPU, since recording began.

        On the CPU torch updates its total only while it records, so blocks of an earlier recording that were freed in
        between still count. The first event of this recording shows by how much the total is off.
        """
        value, amount = self.events.column("value"), self.events.column("bytes")
        total = value.astype(np.float64)
        on_cpu = np.flatnonzero((value != MISSING) & (amount != MISSING) & (self.events.column("device_type") == CPU))
        if len(on_cpu):
            first = on_cpu[np.argmin(self.start[on_cpu])]
            total[on_cpu] -= total[first] - amount[first]
        return number_array(total, missing=value == MISSING)

    def _flops(self) -> pa.Array:
        """Compute floating-point operations once per distinct operator and inputs."""
        reader, width = self.events.args, len(self.events.args.inputs) + 1
        shapes, concrete = ([None, *reader.input_texts(key)] for key in ("Input Dims", "Concrete Inputs"))
        codes, distinct = encode(self.name * width + self.events.column("inputs") + 1)
        pairs = [divmod(key, width) for key in distinct.tolist()]
        counts = [flops_of(self.names[name], shapes[inputs], concrete[inputs]) for name, inputs in pairs]
        flops = np.array([MISSING if count is None else count for count in counts], np.int64)[codes]
        uncounted = counted_twice(flops, self.name, self.names, self.tree) | self._is_kind(Kind.COMPILE)
        return _integers(np.where(uncounted, MISSING, flops))

    @property
    def _modules(self) -> tuple[Ints, list[str | None]]:
        """Module path of each event, from frames or, relative to them, from TorchScript, as codes and texts."""
        labels = [name.removeprefix("nn.Module: ") for name in self.names]
        frames = self._has_category("python_function") & self._is_kind(Kind.MODULE) & self.modules_from_frames
        outer, paths = self.tree.paths(frames, self.name, labels, separator=".")
        scripted = [script_path(rest) for rest in self.events.args.rest]
        if not any(scripted):
            return outer, list(paths)
        by_rest = np.array([*(-1 if path is None else code for code, path in enumerate(scripted)), -1], np.int64)
        inner = by_rest[self.events.column("rest")]
        relative = [path and f"{RELATIVE}{path}" for path in scripted]
        return np.where(inner >= 0, len(paths) + inner, outer), [*paths, *relative]

    def _stacks(self) -> dict[str, Any]:
        """Return the Python frames that enclose each operator, where frames were recorded."""
        frames = self._has_category("python_function")
        if not frames.any():
            return {}
        stack, stacks = self.tree.paths(frames, self.name, self.names, separator=";")
        return {"stack": text_column(np.where(frames, -1, stack), stacks)}


def _integers(values: Ints) -> pa.Array | None:
    """Build a column of integers in which `MISSING` is null."""
    return with_nulls(values, values == MISSING)
